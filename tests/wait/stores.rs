//! Waiting for clients of a store: its shards, its cap, its clock, its plans, and what it forgets.

use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use tollgate::keyed::WhenFull;
use tollgate::wait::{WaitError, Waiting};
use tollgate::{
    Clock, Direct, FixedWindow, Keyed, LeakyBucket, ManualClock, PlanId, Plans, Quota, Shadow,
    SlidingLog, TokenBucket,
};

use crate::sim::{START, Sim, clock, manual, ms, refused, went_at};

/// All keys have one hash: they share a shard, and a line of the registry.
#[derive(Clone, Default)]
struct OneHash;

impl BuildHasher for OneHash {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self
    }
}

impl Hasher for OneHash {
    fn finish(&self) -> u64 {
        7
    }

    fn write(&mut self, _: &[u8]) {}
}

#[test]
fn clients_of_one_hash_wait_each_in_its_own_queue() {
    let bucket = TokenBucket::new(Quota::per_second(10)).with_burst(1);
    let store: Keyed<u64, _, OneHash> = Keyed::with_hasher(bucket, OneHash);
    let clock = clock();
    let waiting = manual(&store, &clock);
    for key in 0..3 {
        assert!(store.allow(&key, START));
    }
    let mut sim = Sim::default();
    let told: Vec<_> = [0, 1, 1, 0, 1]
        .iter()
        .map(|key| sim.wait(&clock, waiting.until_allowed([&0, &1][*key])).1)
        .collect();
    sim.run();
    // The third, whom nobody waits for, is told its own wait, and is allowed when it is over.
    assert_eq!(store.check(&2, START).retry_after(), ms(100));
    assert_eq!(store.check(&0, START).retry_after(), ms(300));
    assert_eq!(store.check(&1, START).retry_after(), ms(400));
    sim.run_until(&clock, START + ms(100));
    assert!(store.allow(&2, clock.now()));
    sim.run_out(&clock);
    let times: Vec<_> = told.iter().map(|told| went_at(told).unwrap()).collect();
    assert_eq!(times, [100, 100, 200, 200, 300].map(ms));
}

/// A newcomer does not wait; one for whom there is no room is told so, whatever it would have waited for.
#[test]
fn a_full_store_is_no_queue() {
    let bucket = TokenBucket::new(Quota::per_second(10)).with_burst(1);
    for when_full in [WhenFull::RefuseNewcomer, WhenFull::AllowUnrecorded] {
        let store: Keyed<u64, _> = Keyed::new(bucket).with_max_keys(1).when_full(when_full);
        let clock = clock();
        let waiting = manual(&store, &clock);
        assert!(waiting.until_allowed(&1).block().is_ok());
        let second = waiting.until_allowed(&2).block();
        match when_full {
            WhenFull::AllowUnrecorded => assert!(second.is_ok_and(|turn| turn.receipt().is_none())),
            _ => assert!(matches!(second, Err(WaitError::StoreFull(_)))),
        }
        assert_eq!(clock.sleepers(), 0);
    }
}

/// Row 24 for those who wait: a clock that is set back by an hour makes nobody wait for an hour.
#[test]
fn a_clock_that_is_set_back_holds_up_nobody() {
    let store: Keyed<u64, _> = Keyed::new(TokenBucket::new(Quota::per_second(1)).with_burst(1));
    let direct = Direct::new(FixedWindow::new(Quota::per_second(1)));
    for back in [Duration::from_secs(3_600), ms(300)] {
        let clock = clock();
        let (keyed, direct) = (manual(&store, &clock), manual(&direct, &clock));
        assert!(store.allow(&7, START) || back < Duration::from_secs(1));
        let _ = direct.store().allow(START);
        let mut sim = Sim::default();
        let told = [
            sim.wait(&clock, keyed.until_allowed(&7)).1,
            sim.wait(&clock, keyed.until_allowed(&7)).1,
            sim.wait(&clock, direct.until_allowed(&())).1,
        ];
        sim.run();
        clock.rewind(back);
        let set_back = clock.now();
        sim.run_until(&clock, set_back + Duration::from_secs(6));
        for (index, told) in told.iter().enumerate() {
            assert!(
                told.borrow().as_ref().is_some_and(|told| told.1.is_ok()),
                "{index}, {back:?}"
            );
        }
    }
}

/// Waiting is by the plan that the client is on; nobody overtakes it by naming another.
#[test]
fn clients_on_plans_wait_by_their_plan() {
    let plans = Plans::new([
        ("free", TokenBucket::new(Quota::per_second(1)).with_burst(1)),
        (
            "premium",
            TokenBucket::new(Quota::per_second(10)).with_burst(1),
        ),
    ])
    .expect("two names");
    let premium = PlanId::new("premium");
    let store: Keyed<u64, _> = Keyed::new(plans);
    let clock = clock();
    let waiting = manual(&store, &clock);
    for key in [1, 2] {
        assert!(store.allow(&key, START));
    }
    assert!(!store.allow_as(premium, &2, START).expect("a plan"));
    let mut sim = Sim::default();
    let (_, free) = sim.wait(&clock, waiting.until_allowed(&1));
    let (_, paid) = sim.wait(&clock, waiting.until_allowed(&2));
    sim.run();
    // Whoever names another plan does not overtake it, but from now on it is on that one.
    assert!(!store.allow_as(premium, &1, START).expect("a plan"));
    assert_eq!(store.plan_of(&1), Some(premium));
    sim.run_out(&clock);
    assert_eq!(went_at(&free), Some(ms(100)));
    assert_eq!(went_at(&paid), Some(ms(100)));
}

/// A limit on trial holds up nobody.
#[test]
fn nobody_waits_for_a_shadow() {
    let shadow = Direct::new(Shadow::new(SlidingLog::new(Quota::per_hour(1))));
    let clock = clock();
    let waiting = manual(&shadow, &clock);
    for _ in 0..3 {
        assert!(waiting.until_allowed(&()).block().is_ok());
        assert!(waiting.until_allowed_n(&(), 5).block().is_ok());
    }
    assert_eq!(clock.now(), START);
}

/// Whoever is swept while somebody waits for it is as good as new, and so are those who wait.
#[test]
fn a_sweep_loses_nobody_who_waits() {
    let store: Keyed<u64, _> = Keyed::new(LeakyBucket::new(Quota::per_second(10)));
    let clock = clock();
    let waiting = manual(&store, &clock);
    assert!(store.allow(&7, START));
    let mut sim = Sim::default();
    let (stuck, _) = sim.wait(&clock, waiting.until_allowed_n(&7, 10));
    let (_, last) = sim.wait(&clock, waiting.until_allowed(&7));
    sim.run();
    sim.forget(stuck);
    // Long idle, and nobody has come by since.
    let later = START + Duration::from_secs(60);
    clock.set(later);
    store.sweep(later);
    sim.run();
    assert!(went_at(&last).is_some());
    assert_eq!(waiting.waiters(&7), 0);
    assert!(store.allow(&7, later));
}

/// A reset of a client that is waited for, and of one that is not, is the same to whoever asks.
#[test]
fn a_reset_says_that_the_client_was_known() {
    let store: Keyed<u64, _> = Keyed::new(TokenBucket::new(Quota::per_second(1)));
    let clock = clock();
    let waiting = manual(&store, &clock);
    assert!(store.allow(&7, START));
    let mut sim = Sim::default();
    let (_, told) = sim.wait(&clock, waiting.until_allowed(&7));
    sim.run();
    assert!(store.reset(&7));
    sim.run();
    assert_eq!(went_at(&told), Some(Duration::ZERO));
    assert!(store.reset(&7));
    assert!(!store.reset(&7));
    assert!(refused(&told).is_none());
}

/// What waits can be sent and shared wherever what does not wait can be: the feature takes nothing away.
#[test]
fn what_waits_can_be_shared() {
    fn shared<T: Send + Sync>(_: &T) {}
    fn sent<T: Send>(_: &T) {}
    let store: Keyed<String, _> = Keyed::new(TokenBucket::new(Quota::per_second(1)));
    shared(&store);
    let clock = clock();
    let waiting: Waiting<_, ManualClock, ManualClock> = manual(store, &clock);
    shared(&waiting);
    sent(&waiting.until_allowed("ada"));
    fn unwinds<T: std::panic::UnwindSafe>() {}
    unwinds::<Direct<TokenBucket>>();
    unwinds::<Keyed<u64, TokenBucket>>();
    let threads = Waiting::on_threads(Direct::new(SlidingLog::new(Quota::per_second(1))));
    shared(&threads);
    sent(&threads.until_allowed(&()));
}
