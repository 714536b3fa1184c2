//! What is saved, what it takes, whom it is restored to, and what is refused.

use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::time::Duration;

use serde::Serialize;
use tollgate::keyed::{RestoreError, Saved};
use tollgate::{
    All, FixedWindow, Keyed, LeakyBucket, Limiter, Plans, Policy, Quota, Shadow, SlidingLog,
    SlidingWindowCounter, TokenBucket,
};

use crate::stores::{FORMATS, Format, Kind, NANO, NOW, SECOND};

fn per_minute(limit: u64) -> TokenBucket {
    TokenBucket::new(Quota::per_minute(limit))
}

#[test]
fn an_empty_store_is_saved_and_restored() {
    let store: Keyed<String, _> = Keyed::new(per_minute(1));
    let saved = store.save(NOW);
    assert_eq!((saved.len(), saved.is_empty()), (0, true));
    for format in FORMATS {
        let read: Saved<String, TokenBucket> = format.read(&format.write(&saved)).unwrap();
        assert_eq!(store.restore(read).unwrap(), 0);
    }
    assert!(store.is_empty());
}

#[test]
fn a_snapshot_is_of_one_moment_and_may_be_kept_and_restored_twice() {
    let store: Keyed<String, _> = Keyed::new(per_minute(10));
    assert!(store.check_n("ada", 4, NOW).unwrap().is_allowed());
    let saved = store.save(NOW);
    assert!(store.check_n("ada", 6, NOW).unwrap().is_allowed());
    for _ in 0..2 {
        let again: Keyed<String, _> = Keyed::new(per_minute(10));
        assert_eq!(again.restore(saved.clone()).unwrap(), 1);
        assert_eq!(again.peek("ada", NOW).remaining(), 6);
    }
    assert_eq!(store.peek("ada", NOW).remaining(), 0);
}

#[test]
fn idle_clients_are_left_out() {
    let store: Keyed<String, _> = Keyed::new(per_minute(60));
    for (client, cost) in [("ada", 1), ("grace", 2), ("edsger", 3)] {
        assert!(store.check_n(client, cost, NOW).unwrap().is_allowed());
    }
    assert_eq!(store.save(NOW).len(), 3);
    assert_eq!(store.save(NOW + SECOND - NANO).len(), 3);
    assert_eq!(store.save(NOW + SECOND).len(), 2);
    let saved = store.save(NOW + 2 * SECOND);
    assert_eq!(saved.len(), 1);
    let restored: Keyed<String, _> = Keyed::new(per_minute(60));
    assert_eq!(restored.restore(saved).unwrap(), 1);
    assert!(restored.contains("edsger") && !restored.contains("ada"));
    assert_eq!(store.save(NOW + 3 * SECOND).len(), 0);
    assert_eq!(store.len(), 3, "to be saved changes nothing");
}

#[test]
fn time_that_passed_while_it_was_down_counts() {
    let store: Keyed<String, _> = Keyed::new(per_minute(60));
    assert!(store.check_n("ada", 60, NOW).unwrap().is_allowed());
    let saved = store.save(NOW + SECOND);
    drop(store);
    let restored: Keyed<String, _> = Keyed::new(per_minute(60));
    assert_eq!(restored.restore(saved).unwrap(), 1);
    let up = NOW + 21 * SECOND;
    assert_eq!(restored.peek("ada", up).remaining(), 21);
    assert_eq!(restored.peek("ada", up).reset_after(), 39 * SECOND);
    assert!(
        !restored
            .check_n("ada", 22, up + SECOND - NANO)
            .unwrap()
            .is_allowed()
    );
    assert!(
        restored
            .check_n("ada", 22, up + SECOND)
            .unwrap()
            .is_allowed()
    );
}

/// A stamp from before the snapshot gives nothing twice: time has come as far as it had.
#[test]
fn a_restored_store_knows_how_late_it_was() {
    let store: Keyed<String, _> = Keyed::new(per_minute(60));
    assert!(store.check_n("ada", 60, NOW).unwrap().is_allowed());
    let restored: Keyed<String, _> = Keyed::new(per_minute(60));
    assert_eq!(restored.restore(store.save(NOW)).unwrap(), 1);
    let late = restored.peek("ada", NOW - 5 * SECOND);
    assert_eq!((late.remaining(), late.retry_after()), (0, 6 * SECOND));
}

/// Who is left out is idle from the snapshot on, and was not before: a stamp from before it must not be decided there.
#[test]
fn what_is_left_out_as_idle_is_idle_for_late_stamps_too() {
    let store: Keyed<String, _> = Keyed::new(per_minute(60));
    assert!(store.allow("ada", NOW));
    let saved = store.save(NOW + SECOND);
    assert!(saved.is_empty());
    let restored: Keyed<String, _> = Keyed::new(per_minute(60));
    restored.restore(saved).unwrap();
    let late = NOW + SECOND / 2;
    assert!(restored.check_n("ada", 60, late).unwrap().is_allowed());
    assert_eq!(
        restored.peek("ada", late).retry_after(),
        SECOND / 2 + SECOND
    );
}

/// The clock of the machine that it is restored on is an hour behind: nobody waits for it to catch up.
#[test]
fn a_clock_that_is_behind_the_snapshots_is_one_that_was_set_back() {
    let store: Keyed<String, _> = Keyed::new(per_minute(60));
    assert!(store.check_n("ada", 60, NOW).unwrap().is_allowed());
    let restored: Keyed<String, _> = Keyed::new(per_minute(60));
    assert_eq!(restored.restore(store.save(NOW)).unwrap(), 1);
    let behind = NOW - 3_600 * SECOND;
    assert_eq!(restored.check("ada", behind).retry_after(), SECOND);
    assert!(!restored.allow("ada", behind + SECOND - NANO));
    assert!(restored.allow("ada", behind + SECOND));
}

/// Each shard has found for itself by how much the clock was set back; what one has found is not true of another.
#[test]
fn a_clock_set_back_that_one_shard_has_noticed_sets_nobody_free_in_another() {
    type OfNumbers = BuildHasherDefault<Numbers>;
    let rule = TokenBucket::new(Quota::per_hour(60));
    let store: Keyed<u64, _, OfNumbers> = Keyed::with_hasher(rule, OfNumbers::default());
    let (ada, grace) = (1, 2);
    assert!(store.check_n(&ada, 60, NOW).unwrap().is_allowed());
    assert!(store.allow(&grace, NOW + 3_000 * SECOND));
    // Set back by fifty minutes: to the shard of `ada`, where nothing has happened since, it is not.
    let back = NOW + SECOND;
    assert!(store.allow(&grace, back));
    assert_eq!(store.peek(&ada, back).remaining(), 0);
    let restored: Keyed<u64, _> = Keyed::new(rule);
    restored.restore(store.save(back)).unwrap();
    for later in [back, back + 30 * SECOND, back + 600 * SECOND] {
        for client in [ada, grace] {
            let (got, expected) = (restored.peek(&client, later), store.peek(&client, later));
            assert_eq!(got, expected, "{client} at {later:?}");
        }
    }
}

/// Hashes a number such that it chooses the shard.
#[derive(Default)]
struct Numbers(u64);

impl Hasher for Numbers {
    fn write(&mut self, _: &[u8]) {
        panic!("only numbers are hashed");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number << 32 | number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What tells one setting from another, as the two of a refusal are told apart.
#[test]
fn a_snapshot_of_any_other_setting_is_refused_by_an_error_that_says_both() {
    let quota = Quota::per_minute(100);
    let bucket = TokenBucket::new(quota);
    let queue = LeakyBucket::new(quota);
    let window = FixedWindow::new(quota);
    let log = SlidingLog::new(quota);
    let counter = SlidingWindowCounter::new(quota);
    let other_limit = Quota::per_minute(101);
    let other_period = Quota::new(100, 61 * SECOND).unwrap();

    differ(&bucket, &TokenBucket::new(other_limit));
    differ(&bucket, &TokenBucket::new(other_period));
    differ(&bucket, &bucket.with_burst(99));
    differ(&bucket.with_burst(98), &bucket.with_burst(99));
    differ(&bucket, &bucket.with_max_debt(7));
    differ(&bucket.with_max_debt(8), &bucket.with_max_debt(7));

    differ(&queue, &LeakyBucket::new(other_limit));
    differ(&queue, &LeakyBucket::new(other_period));
    differ(&queue, &queue.with_burst(99));
    differ(&queue, &queue.with_max_debt(7));

    differ(&window, &FixedWindow::new(other_limit));
    differ(&window, &FixedWindow::new(other_period));
    differ(&window, &window.with_offset(SECOND));
    differ(&window.with_offset(2 * SECOND), &window.with_offset(SECOND));
    differ(&window, &window.with_offset(NANO));
    differ(&window, &window.anchored_at_first_request());
    differ(&window, &window.with_max_debt(7));

    differ(&log, &SlidingLog::new(other_limit));
    differ(&log, &SlidingLog::new(other_period));
    differ(&log, &log.with_resolution(2 * NANO));
    differ(
        &log.with_resolution(SECOND),
        &log.with_resolution(2 * SECOND),
    );
    differ(&log, &log.with_max_debt(7));

    differ(&counter, &SlidingWindowCounter::new(other_limit));
    differ(&counter, &SlidingWindowCounter::new(other_period));
    differ(&counter, &counter.with_offset(SECOND));
    differ(&counter, &counter.with_max_debt(7));

    // One of the five, chosen at run time.
    let policies: [Policy; 5] = [
        bucket.into(),
        queue.into(),
        window.into(),
        log.into(),
        counter.into(),
    ];
    for (at, policy) in policies.iter().enumerate() {
        for other in &policies[at + 1..] {
            differ(policy, other);
        }
    }
    differ(&policies[0], &bucket.with_burst(99).into());

    // Several.
    let (first, last) = (policies[0], policies[2]);
    let other: Policy = bucket.with_burst(99).into();
    differ(&(first, last), &(other, last));
    differ(&(first, last), &(first, window.with_offset(SECOND).into()));
    differ(&(first, other), &(other, first));
    let all = |policies: &[Policy]| All::new(policies.iter().copied()).unwrap();
    differ(&all(&policies[..2]), &all(&policies[..3]));
    differ(&all(&policies[..2]), &all(&policies[1..3]));
    differ(&all(&[first, last]), &all(&[last, first]));
    differ(&Shadow::new(first), &Shadow::new(other));

    // Plans.
    let plans = |table: &[(&str, Policy)]| Plans::new(table.iter().copied()).unwrap();
    let two = plans(&[("free", first), ("premium", first)]);
    differ(&two, &plans(&[("free", first), ("gold", first)]));
    differ(&two, &plans(&[("premium", first), ("free", first)]));
    differ(&two, &plans(&[("free", first)]));
    differ(&two, &plans(&[("free", first), ("premium", other)]));
}

/// A default that is spelled out is the same setting.
#[test]
fn a_setting_that_says_the_same_is_not_another() {
    let quota = Quota::per_minute(100);
    let store: Keyed<u64, _> = Keyed::new(TokenBucket::new(quota));
    assert!(store.allow(&1, NOW));
    let spelled: TokenBucket = TokenBucket::new("100 per minute".parse().unwrap()).with_burst(100);
    let other: Keyed<u64, _> = Keyed::new(spelled);
    assert_eq!(other.restore(store.save(NOW)).unwrap(), 1);
    let hours = FixedWindow::new(Quota::per_hour(5));
    let store: Keyed<u64, _> = Keyed::new(hours);
    assert!(store.allow(&1, NOW));
    let moved: Keyed<u64, _> = Keyed::new(hours.with_offset(3 * 3_600 * SECOND));
    assert_eq!(moved.restore(store.save(NOW)).unwrap(), 1);
}

/// A snapshot of either is refused by a store of the other, in either format.
fn differ<L: Kind>(one: &L, other: &L) {
    for (of, to) in [(one, other), (other, one)] {
        let source: Keyed<String, L> = Keyed::new(of.clone());
        assert!(source.allow("ada", NOW));
        let store: Keyed<String, L> = Keyed::new(to.clone());
        assert!(store.allow("grace", NOW));
        let before = store.peek("grace", NOW);
        for format in FORMATS {
            let bytes = L::save(&source, format, NOW);
            let error = L::restore(&store, format, &bytes).unwrap_err();
            for said in [format!("{of:?}"), format!("{to:?}")] {
                assert!(error.contains(&said), "{error}\n  does not say {said}");
            }
        }
        assert_eq!(store.len(), 1);
        assert_eq!(store.peek("grace", NOW), before);
    }
}

#[test]
fn a_snapshot_of_another_version_is_refused_by_an_error_that_says_both() {
    let store: Keyed<String, _> = Keyed::new(per_minute(10));
    assert!(store.allow("ada", NOW));
    let mut json: serde_json::Value = serde_json::to_value(store.save(NOW)).unwrap();
    let version = json["version"].as_u64().unwrap();
    json["version"] = 4_711.into();
    let told = match serde_json::from_value::<Saved<String, TokenBucket>>(json) {
        Ok(saved) => store.restore(saved).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    for said in ["4711".to_string(), version.to_string()] {
        assert!(told.contains(&said), "{told}");
    }
}

#[test]
fn more_clients_than_the_store_may_hold_are_refused() {
    let source: Keyed<u64, _> = Keyed::new(per_minute(10));
    for key in 0..10 {
        assert!(source.allow(&key, NOW));
    }
    let store: Keyed<u64, _> = Keyed::new(per_minute(10)).with_max_keys(9);
    let error: RestoreError = store.restore(source.save(NOW)).unwrap_err();
    assert!(error.to_string().contains("10 clients"), "{error}");
    assert!(store.is_empty());
    for key in 100..109 {
        assert!(store.allow(&key, NOW), "its places are all free");
    }
    assert!(store.check(&109, NOW).is_store_full());

    let roomy: Keyed<u64, _> = Keyed::new(per_minute(10)).with_max_keys(10);
    assert_eq!(roomy.restore(source.save(NOW)).unwrap(), 10);
    assert!(
        roomy.check(&10, NOW).is_store_full(),
        "its places are all taken"
    );
    assert!(roomy.allow(&10, NOW + 6 * SECOND), "and given back");
}

/// A place was taken for each client of a snapshot, and must be given back for those who had one.
#[test]
fn clients_that_are_known_already_take_no_second_place() {
    let source: Keyed<u64, _> = Keyed::new(per_minute(10));
    let store: Keyed<u64, _> = Keyed::new(per_minute(10)).with_max_keys(20);
    for key in 0..10 {
        assert!(source.check_n(&key, 2, NOW).unwrap().is_allowed());
        assert!(store.allow(&key, NOW));
    }
    assert_eq!(store.restore(source.save(NOW)).unwrap(), 10);
    assert_eq!(store.len(), 10);
    for key in 0..10 {
        assert_eq!(store.peek(&key, NOW).remaining(), 8);
    }
    for key in 10..20 {
        assert!(store.allow(&key, NOW));
    }
    assert!(store.check(&20, NOW).is_store_full());
    assert_eq!(store.sweep(NOW + 60 * SECOND), 20);
    for key in 20..40 {
        assert!(store.allow(&key, NOW + 60 * SECOND));
    }
    assert!(store.check(&40, NOW + 60 * SECOND).is_store_full());
}

#[test]
fn of_a_client_that_both_know_the_state_further_from_idle_stays() {
    let store: Keyed<String, _> = Keyed::new(per_minute(60));
    let source: Keyed<String, _> = Keyed::new(per_minute(60));
    for (client, here, there) in [("ada", 10, 20), ("grace", 20, 10), ("edsger", 5, 5)] {
        assert!(store.check_n(client, here, NOW).unwrap().is_allowed());
        assert!(source.check_n(client, there, NOW).unwrap().is_allowed());
    }
    assert!(store.check_n("barbara", 7, NOW).unwrap().is_allowed());
    assert!(source.check_n("tony", 8, NOW).unwrap().is_allowed());
    store.restore(source.save(NOW)).unwrap();
    let left = |client| store.peek(client, NOW).remaining();
    assert_eq!((left("ada"), left("grace"), left("edsger")), (40, 40, 55));
    assert_eq!((left("barbara"), left("tony")), (53, 52));
    // Once more: nothing is counted twice.
    store.restore(source.save(NOW)).unwrap();
    assert_eq!((left("ada"), left("grace"), left("tony")), (40, 40, 52));
}

/// Two states of one window are idle at one instant; the one that has counted more leaves less.
#[test]
fn of_two_states_that_are_idle_at_once_the_one_that_has_used_more_stays() {
    fn least_is_left<L: Limiter<State: Hash + Clone>>(rule: L) {
        for (here, there) in [(1, 5), (5, 1), (3, 3)] {
            let store: Keyed<u64, L> = Keyed::new(rule.clone());
            let source: Keyed<u64, L> = Keyed::new(rule.clone());
            assert!(store.check_n(&7, here, NOW).unwrap().is_allowed());
            assert!(source.check_n(&7, there, NOW).unwrap().is_allowed());
            store.restore(source.save(NOW)).unwrap();
            let left = store.peek(&7, NOW).remaining();
            assert_eq!(left, 10 - here.max(there), "{rule:?}, {here} and {there}");
        }
    }
    let quota = Quota::per_minute(10);
    least_is_left(TokenBucket::new(quota));
    least_is_left(FixedWindow::new(quota));
    least_is_left(FixedWindow::new(quota).anchored_at_first_request());
    least_is_left(SlidingLog::new(quota));
    least_is_left(SlidingWindowCounter::new(quota));
    least_is_left((TokenBucket::new(quota), FixedWindow::new(quota)));
}

#[test]
fn of_a_client_on_a_plan_that_both_know_the_state_that_has_used_more_stays() {
    let plans = || Plans::new([("free", per_minute(10)), ("premium", per_minute(100))]).unwrap();
    for (here, there) in [(10, 50), (50, 10)] {
        let store: Keyed<u64, _> = Keyed::new(plans());
        let source: Keyed<u64, _> = Keyed::new(plans());
        assert!(
            store
                .check_n_as("premium", &7, here, NOW)
                .unwrap()
                .is_allowed()
        );
        assert!(
            source
                .check_n_as("premium", &7, there, NOW)
                .unwrap()
                .is_allowed()
        );
        store.restore(source.save(NOW)).unwrap();
        assert_eq!(store.peek(&7, NOW).remaining(), 50, "{here} and {there}");
    }
}

/// The call is served while the snapshot is read: what was spent meanwhile is not forgotten for what is older.
#[test]
fn what_a_store_has_come_to_know_since_it_was_started_stays() {
    let rule = SlidingLog::new(Quota::per_minute(10));
    let source: Keyed<String, _> = Keyed::new(rule);
    assert!(source.check_n("ada", 3, NOW).unwrap().is_allowed());
    let store: Keyed<String, _> = Keyed::new(rule);
    let later = NOW + 30 * SECOND;
    assert!(store.check_n("ada", 9, later).unwrap().is_allowed());
    store.restore(source.save(NOW)).unwrap();
    assert_eq!(store.peek("ada", later).remaining(), 1);
    assert_eq!(store.peek("ada", later).reset_after(), 60 * SECOND);
}

#[test]
fn a_refusal_before_the_restoration_does_not_outlive_it() {
    let store: Keyed<String, _> = Keyed::new(per_minute(60));
    let source: Keyed<String, _> = Keyed::new(per_minute(60));
    assert!(store.check_n("ada", 60, NOW).unwrap().is_allowed());
    for _ in 0..5 {
        assert!(!store.allow("ada", NOW));
    }
    assert!(source.check_n("ada", 60, NOW).unwrap().is_allowed());
    assert_eq!(source.charge("ada", 30, NOW).debt(), 30);
    store.restore(source.save(NOW)).unwrap();
    assert_eq!(store.peek("ada", NOW).debt(), 30);
    assert_eq!(store.check("ada", NOW).retry_after(), 31 * SECOND);
    assert!(!store.allow("ada", NOW + 31 * SECOND - NANO));
    assert!(store.allow("ada", NOW + 31 * SECOND));
}

#[test]
fn a_client_of_a_number_takes_less_than_forty_bytes() {
    fn bytes_per_client<L>(rule: L) -> f64
    where
        L: Limiter<State: Hash + Clone>,
        Saved<u64, L>: Serialize,
    {
        let store: Keyed<u64, L> = Keyed::new(rule);
        const CLIENTS: u64 = 10_000;
        for client in 0..CLIENTS {
            let key = client.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            // Stamps to the nanosecond, so that no number is small.
            let now = NOW + Duration::from_nanos(client * 12_345_678 % 1_000_000_007);
            assert!(
                store
                    .check_n(&key, 1 + client % 90, now)
                    .unwrap()
                    .is_allowed()
            );
        }
        let saved = store.save(NOW + SECOND);
        assert_eq!(saved.len() as u64, CLIENTS);
        Format::Postcard.write(&saved).len() as f64 / CLIENTS as f64
    }
    let quota = Quota::per_hour(100);
    for (name, bytes) in [
        ("token bucket", bytes_per_client(TokenBucket::new(quota))),
        ("fixed window", bytes_per_client(FixedWindow::new(quota))),
        (
            "counter",
            bytes_per_client(SlidingWindowCounter::new(quota)),
        ),
        (
            "policy",
            bytes_per_client(Policy::from(TokenBucket::new(quota))),
        ),
    ] {
        println!("{name}: {bytes:.1} bytes a client");
        assert!(bytes < 40.0, "{name}: {bytes} bytes a client");
    }
}

/// Keys of two parts, and stores with a hasher of the user's own.
#[test]
fn any_key_that_can_be_written_can_be_saved() {
    use std::collections::hash_map::RandomState;
    use tollgate::keyed::Pair;
    let rule = per_minute(10);
    let store: Keyed<(u8, String), _, RandomState> = Keyed::with_hasher(rule, RandomState::new());
    assert!(
        store
            .check_n(&Pair(&7, "ada"), 4, NOW)
            .unwrap()
            .is_allowed()
    );
    let bytes = Format::Postcard.write(&store.save(NOW));
    let saved: Saved<(u8, String), TokenBucket> = Format::Postcard.read(&bytes).unwrap();
    let restored: Keyed<(u8, String), _> = Keyed::new(rule);
    assert_eq!(restored.restore(saved).unwrap(), 1);
    assert_eq!(restored.peek(&Pair(&7, "ada"), NOW).remaining(), 6);
}

#[test]
fn plans_are_restored_with_the_clients_that_are_on_them() {
    let plans = || Plans::new([("free", per_minute(100)), ("premium", per_minute(1_000))]).unwrap();
    let store: Keyed<String, _> = Keyed::new(plans());
    assert!(
        store
            .check_n_as("premium", "ada", 30, NOW)
            .unwrap()
            .is_allowed()
    );
    assert!(
        store
            .check_n_as("premium", "grace", 1, NOW)
            .unwrap()
            .is_allowed()
    );
    assert!(
        store
            .check_n_as("free", "edsger", 30, NOW)
            .unwrap()
            .is_allowed()
    );
    let later = NOW + SECOND;
    let restored: Keyed<String, _> = Keyed::new(plans());
    restored.restore(store.save(later)).unwrap();
    for client in ["ada", "grace", "edsger"] {
        assert_eq!(restored.plan_of(client), store.plan_of(client), "{client}");
        assert_eq!(
            restored.peek(client, later),
            store.peek(client, later),
            "{client}"
        );
    }
}
