//! What only the inside can show: the store with its table of denials against the same store without, in every order of
//! stamps; the cap; and what a flood leaves behind.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::compose::All;
use crate::policy::Algorithm;
use crate::quota::Quota;
use crate::{SlidingLog, TokenBucket};

impl<K: Hash + Eq, L: Limiter> Keyed<K, L> {
    /// The same store with nothing answered from the table, and as few shards as asked for.
    fn for_test(limiter: L, shards: usize, with_denials: bool) -> Self {
        let mut store = Self::new(limiter.clone());
        store.shards = new_shards(&limiter, shards);
        if !with_denials {
            store.denials = Denials::off();
        }
        store
    }
}

#[derive(Clone, Debug)]
struct Step {
    key: u8,
    cost: u64,
    /// The clock's step before the call, which may be back.
    step_ns: i64,
    ask: Ask,
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Check,
    Peek,
    AtMost,
    Charge,
    /// Gives back the charge so many before the last.
    Refund(usize),
    Reset,
    /// Makes the limit so much.
    Change(u64),
}

/// Steps of the size of the waits, seldom ones that look like a clock set back, or a jump ahead.
fn steps(period_ns: i64) -> impl Strategy<Value = Vec<Step>> {
    let step_ns = prop_oneof![
        6 => 0..=period_ns / 3,
        3 => Just(0),
        2 => -period_ns..0,
        1 => -11_000_000_000..-4_000_000_000i64,
        1 => -40_000_000_000_000..40_000_000_000_000i64,
        1 => 4_000_000_000..11_000_000_000i64,
    ];
    let ask = prop_oneof![
        20 => Just(Ask::Check),
        3 => Just(Ask::Peek),
        2 => Just(Ask::AtMost),
        1 => Just(Ask::Charge),
        2 => (0..4usize).prop_map(Ask::Refund),
        1 => Just(Ask::Reset),
        1 => (1..5u64).prop_map(Ask::Change),
    ];
    let step = (
        0..4u8,
        prop_oneof![4 => Just(1u64), 1 => 0..5u64],
        step_ns,
        ask,
    )
        .prop_map(|(key, cost, step_ns, ask)| Step {
            key,
            cost,
            step_ns,
            ask,
        });
    prop::collection::vec(step, 1..80)
}

/// One limit, or one and another that is ten times as much in ten times the time.
fn limits(algorithm: Algorithm, limit: u64, period_ns: u64, several: bool) -> All {
    let policy = |by: u64| {
        let period = Duration::from_nanos(period_ns * by);
        algorithm.policy(Quota::new(limit * by, period).unwrap())
    };
    match several {
        false => policy(1).into(),
        true => All::new([policy(1), policy(10)]).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// The table of hot denials answers what the store would: whatever the stamps do, and whatever else is asked.
    #[test]
    fn denials_change_no_decision(
        algorithm in (0..5usize).prop_map(|index| Algorithm::ALL[index]),
        limit in 1..5u64,
        several in any::<bool>(),
        (period_ns, steps) in prop_oneof![
            Just(10u64),
            Just(1_000),
            Just(3_000_000_000),
            Just(60_000_000_000)
        ]
        .prop_flat_map(|period_ns| (Just(period_ns), steps(i64::try_from(period_ns).unwrap()))),
        shards in prop_oneof![Just(1usize), Just(2)],
    ) {
        let rule = limits(algorithm, limit, period_ns, several);
        let with = Keyed::for_test(rule.clone(), shards, true);
        let without = Keyed::for_test(rule, shards, false);
        // One hasher for both, so that their shards hold the same keys.
        let with = Keyed { hasher: without.hasher.clone(), ..with };
        let mut now = Timestamp::from_secs(100_000);
        let mut receipts = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let by = Duration::from_nanos(step.step_ns.unsigned_abs());
            now = if step.step_ns < 0 { now - by } else { now + by };
            let Step { key, cost, .. } = *step;
            let ask = |store: &Keyed<u8, All>| Ok(match step.ask {
                Ask::Check => return store.check_n(&key, cost, now).map(Some),
                Ask::Peek => return store.peek_n(&key, cost, now).map(Some),
                Ask::AtMost => Some(store.at_most(&key, cost, now)),
                Ask::Charge => Some(store.charge(&key, cost, now)),
                Ask::Refund(back) => {
                    if let Some((key, receipt)) = receipts.iter().rev().nth(back) {
                        store.refund(key, *receipt, now);
                    }
                    None
                }
                Ask::Reset => {
                    store.reset(&key);
                    None
                }
                Ask::Change(limit) => {
                    store.set_limiter(limits(algorithm, limit, period_ns, several), now);
                    None
                }
            });
            let answer = ask(&with);
            prop_assert_eq!(answer, ask(&without), "step {} at {}", index, now);
            if let Ok(Some(decision)) = answer {
                receipts.extend(decision.receipt().map(|receipt| (key, receipt)));
            }
        }
    }
}

/// The same in one long run over many keys, where lines are shared and notes end all the time.
#[test]
fn denials_change_no_decision_of_a_long_run() {
    for algorithm in Algorithm::ALL {
        let policy = algorithm.policy(Quota::new(3, Duration::from_millis(50)).unwrap());
        let without = Keyed::for_test(policy, 4, false);
        let with = Keyed {
            hasher: without.hasher.clone(),
            ..Keyed::for_test(policy, 4, true)
        };
        let mut random = 0x2545_F491_4F6C_DD1Du64;
        let mut now = Timestamp::from_secs(1_000);
        let mut answered = 0;
        for call in 0..60_000u64 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let key = random % 37 * (random % 11);
            now += Duration::from_nanos(random % 100_000);
            let late = Duration::from_nanos(if random % 5 == 0 {
                random % 9_000_000
            } else {
                0
            });
            let hash = with.hasher.hash_one(key);
            answered += usize::from(
                with.denials
                    .find(with.tagged(hash, &key), (now - late).as_nanos())
                    .is_some(),
            );
            assert_eq!(
                with.check(&key, now - late),
                without.check(&key, now - late),
                "call {call} by {key}, {algorithm}"
            );
        }
        assert!(
            answered > 5_000,
            "{algorithm}: the table answered only {answered} calls"
        );
    }
}

#[test]
fn a_refused_client_that_asks_again_takes_no_lock() {
    let store: Keyed<u64, _> = Keyed::new(TokenBucket::new(Quota::per_minute(1)));
    let now = Timestamp::from_secs(5);
    assert!(store.allow(&7, now));
    let refused = store.check(&7, now);
    // Whoever wanted a lock now would wait for ever.
    let _locks: Vec<_> = store.shards.iter().map(|shard| shard.0.lock()).collect();
    assert_eq!(store.check(&7, now), refused);
    let later = store.check(&7, now + Duration::from_secs(20));
    assert_eq!(later.retry_after(), Duration::from_secs(40));
    assert_eq!(later.reset_after(), Duration::from_secs(40));
    assert_eq!((later.limit(), later.remaining()), (1, 0));
}

/// Somebody held an entry "refused until T" while the clock went back by an hour, and told the client to wait for the hour.
#[test]
fn a_clock_set_back_voids_the_denials() {
    let store: Keyed<u64, _> = Keyed::for_test(TokenBucket::new(Quota::per_minute(1)), 1, true);
    let start = Timestamp::from_secs(10_000);
    assert!(store.allow(&1, start));
    assert!(!store.allow(&1, start));
    // Others move the time on by most of a minute; then the clock loses an hour.
    assert!(store.allow(&2, start + Duration::from_secs(50)));
    let back = start - Duration::from_secs(3_600);
    assert_eq!(store.check(&1, back).retry_after(), Duration::from_secs(10));
    assert!(store.allow(&1, back + Duration::from_secs(10)));
}

#[test]
fn the_cap_holds_and_idle_states_make_room() {
    let second = Duration::from_secs(1);
    for max_keys in [1usize, 2, 7, 300, 1_000, 5_000] {
        for when_full in [
            WhenFull::RefuseNewcomer,
            WhenFull::AllowUnrecorded,
            WhenFull::ForgetNearestToIdle,
        ] {
            let store: Keyed<u64, _> = Keyed::new(TokenBucket::new(Quota::per_second(2)))
                .with_max_keys(max_keys)
                .when_full(when_full);
            let now = Timestamp::from_secs(1_000);
            let keys = max_keys as u64;
            for key in 0..keys {
                assert!(store.allow(&key, now), "{max_keys}: all places are given");
            }
            assert_eq!(store.len(), max_keys);

            let newcomer = store.check(&keys, now);
            let refuses = when_full == WhenFull::RefuseNewcomer;
            assert_eq!(newcomer.is_allowed(), !refuses);
            assert_eq!(
                newcomer.is_store_full(),
                when_full != WhenFull::ForgetNearestToIdle
            );
            assert_eq!(store.len(), max_keys);
            if newcomer.is_store_full() {
                assert_eq!(store.stats().refused_for_room, 1);
                assert!(
                    newcomer.retry_after() <= second / 2,
                    "when the first may be idle"
                );
            } else {
                assert_eq!(store.stats().forgotten, 1);
            }
            // Those who are known are judged by the limit.
            assert!(
                !store.check(&0, now).is_store_full() || when_full == WhenFull::ForgetNearestToIdle
            );

            // A second later all are idle, and as many others find room.
            for key in 0..keys {
                assert!(
                    store.allow(&(key + 1_000_000), now + second),
                    "{max_keys}, {when_full:?}: {key} finds room"
                );
            }
            assert_eq!(store.len(), max_keys);
        }
    }
}

/// A table that was full dropped whoever came first, and a flood of new keys gave the flooder a new budget each time.
#[test]
fn for_want_of_room_no_refused_client_is_forgotten() {
    // A hasher without a seed: where all of a sample are refused ones there is no room for a newcomer, and of enough runs
    // with keys spread anew one comes to that.
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let store: Keyed<u64, _, _> = Keyed::with_hasher(TokenBucket::new(Quota::per_hour(2)), hasher)
        .with_max_keys(100)
        .when_full(WhenFull::ForgetNearestToIdle);
    let now = Timestamp::from_secs(1_000);
    for key in 0..40 {
        while store.allow(&key, now) {}
    }
    for key in 1_000..20_000 {
        assert!(store.allow(&key, now));
    }
    assert_eq!(store.len(), 100);
    for key in 0..40 {
        assert!(!store.allow(&key, now), "{key} was refused and is set free");
    }
    // When all are refused ones, nobody is forgotten.
    for key in 30_000..31_000 {
        while store.allow(&key, now) {}
    }
    let newcomer = store.check(&99_999, now);
    assert!(newcomer.is_store_full() && !newcomer.is_allowed());
}

#[test]
fn a_flood_of_keys_that_come_once_is_forgotten_as_it_passes() {
    let store: Keyed<u64, _> = Keyed::new(TokenBucket::new(Quota::per_second(10)));
    let mut now = Timestamp::from_secs(1_000);
    let mut most = 0;
    for key in 0..2_000_000u64 {
        // 100 000 keys a second, each idle after a tenth of a second: 10 000 are not idle.
        now += Duration::from_micros(10);
        assert!(store.allow(&key, now));
        if key % 10_000 == 0 && key > 100_000 {
            most = most.max(store.len());
        }
    }
    assert!(
        most <= 30_000,
        "{most} states for 10 000 clients that are not idle"
    );
    let stats = store.stats();
    assert_eq!(stats.forgotten + stats.keys as u64, 2_000_000);
}

#[test]
fn sweeping_forgets_what_is_idle_and_nothing_else() {
    let store: Keyed<u64, _> = Keyed::new(SlidingLog::new(Quota::per_minute(3)));
    let start = Timestamp::from_secs(1_000);
    for key in 0..1_000u64 {
        assert!(store.allow(&key, start + Duration::from_secs(key / 100)));
    }
    assert_eq!(store.sweep(start + Duration::from_secs(59)), 0);
    assert_eq!(store.sweep(start + Duration::from_secs(60)), 100);
    assert_eq!(store.len(), 900);
    assert_eq!(store.sweep(start + Duration::from_secs(3_600)), 900);
    assert!(store.is_empty());
}

/// A sweep that was stamped later than any call forgot states that a later call, stamped earlier, still needed.
#[test]
fn what_a_sweep_forgets_stays_idle_for_late_stamps() {
    let store: Keyed<u64, _> = Keyed::new(TokenBucket::new(Quota::per_second(1)));
    let start = Timestamp::from_secs(1_000);
    assert!(store.allow(&1, start));
    assert_eq!(store.sweep(start + Duration::from_secs(2)), 1);
    // It would be allowed with the state too, for the store's time has come to the sweep.
    assert!(store.allow(&1, start + Duration::from_millis(500)));
    assert!(!store.allow(&1, start + Duration::from_millis(600)));
}

/// The wait of a store that was full counted the stamp's lateness twice: 19 s were told, and after 10 there was room.
#[test]
fn a_late_newcomer_to_a_full_store_waits_by_its_own_stamp() {
    let store: Keyed<u64, _> = Keyed::new(TokenBucket::new(Quota::per_second(1))).with_max_keys(1);
    let now = Timestamp::from_secs(1_000_000);
    assert!(store.allow(&1, now));
    let late = now - Duration::from_secs(9);
    let wait = store.check(&2, late).retry_after();
    assert_eq!(wait, Duration::from_secs(10));
    assert!(!store.allow(&2, late + wait - Duration::from_nanos(1)));
    assert!(store.allow(&2, late + wait));
}

/// One shard noticed that the clock was set back and lowered the mark of the newest charge for all; another did not mark
/// its own again, and its denials hid from it that its clock had been set back too.
#[test]
fn a_clock_set_back_that_another_shard_noticed_is_marked_anew() {
    let store: Keyed<u64, _> = Keyed::for_test(TokenBucket::new(Quota::per_minute(1)), 2, true);
    let shard_of = |key: &u64| (store.hasher.hash_one(key) >> 32) & 1;
    let mut of_a = (0..).filter(|key| shard_of(key) == 0);
    let mut of_b = (0..).filter(|key| shard_of(key) == 1);
    let second = Duration::from_secs(1);
    let start = Timestamp::from_secs(1_000);
    assert!(store.allow(&of_b.next().unwrap(), start));
    assert!(store.allow(&of_a.next().unwrap(), start + 2 * second));
    // The shard A notices; for B it is not late enough.
    let back = start - 9 * second;
    assert!(store.allow(&of_a.next().unwrap(), back));
    let hot = of_b.next().unwrap();
    assert!(store.allow(&hot, back));
    assert!(!store.allow(&hot, back));
    assert!(store.allow(&of_b.next().unwrap(), start + Duration::from_millis(4_900)));
    // Now it is late enough for B: time goes on from there, instead of standing still for 13.9 s.
    let told = store.check(&hot, back);
    assert_eq!(told.retry_after(), store.peek(&hot, back).retry_after());
    assert!(told.retry_after() < 60 * second);
}

/// Clients were told apart by the hash alone: with a hasher of few bits, one that was refused had others refused.
#[test]
fn whatever_the_hasher_clients_are_told_apart() {
    #[derive(Clone, Default)]
    struct Alike(std::hash::DefaultHasher);
    impl std::hash::Hasher for Alike {
        fn write(&mut self, _: &[u8]) {}
        fn finish(&self) -> u64 {
            self.0.finish()
        }
    }
    let rule = TokenBucket::new(Quota::per_minute(2));
    let store: Keyed<String, _, _> =
        Keyed::with_hasher(rule, std::hash::BuildHasherDefault::<Alike>::default());
    let now = Timestamp::from_secs(1_000);
    for client in ["ada", "grace", "edsger", "barbara"] {
        assert!(store.allow(client, now), "{client}");
        assert!(store.check(client, now).is_allowed(), "{client}");
        for _ in 0..20 {
            assert!(!store.allow(client, now), "{client}");
            assert_eq!(
                store.check(client, now).retry_after(),
                Duration::from_secs(30)
            );
        }
    }
}
