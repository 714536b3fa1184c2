//! A client whom others wait for is idle by its state alone: those who wait have spent nothing yet. It was forgotten, and they
//! began again with a fresh one.

use std::sync::Arc;
use std::time::Duration;

use tollgate::keyed::WhenFull;
use tollgate::wait::WaitError;
use tollgate::{Clock, FixedWindow, Keyed, Quota, TokenBucket};

use crate::sim::{START, Sim, clock, manual, ms, refused, went_at};

fn one() -> TokenBucket {
    TokenBucket::new(Quota::per_second(1))
}

/// How many copies of its key a store holds, and whatever belongs to it.
fn copies(key: &Arc<str>) -> usize {
    Arc::strong_count(key) - 1
}

/// A sweep while the timers were late forgot the client: the second went at 1.5 s with the first.
#[test]
fn a_sweep_does_not_set_waiters_free() {
    let (store, clock) = (Keyed::<u64, _>::new(one()), clock());
    assert!(store.allow(&7, START));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, _first) = sim.wait(&clock, waiting.until_allowed(&7));
    let (_, second) = sim.wait(&clock, waiting.until_allowed(&7));
    sim.run();
    clock.set(START + ms(1_500));
    store.sweep(clock.now());
    sim.run();
    sim.run_out(&clock);
    assert_eq!(went_at(&second), Some(ms(2_000)));
}

/// So did newcomers, each of whom sweeps a few slots: ten of them were enough.
#[test]
fn newcomers_do_not_set_waiters_free() {
    let (store, clock) = (Keyed::<u64, _>::new(one()).with_max_keys(256), clock());
    assert!(store.allow(&7, START));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, _first) = sim.wait(&clock, waiting.until_allowed(&7));
    let (_, second) = sim.wait(&clock, waiting.until_allowed(&7));
    sim.run();
    clock.set(START + ms(1_001));
    for key in 100..110 {
        store.allow(&key, clock.now());
    }
    sim.run();
    sim.run_out(&clock);
    assert_eq!(went_at(&second), Some(ms(2_000)), "second");
}

/// A window was forgotten that those behind were yet to be counted in: two went in one of them.
#[test]
fn a_sweep_does_not_set_those_free_who_wait_for_a_window() {
    let (store, clock) = (
        Keyed::<u64, _>::new(FixedWindow::new(Quota::per_second(1))),
        clock(),
    );
    assert!(store.allow(&7, START));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let told: Vec<_> = (0..3)
        .map(|_| sim.wait(&clock, waiting.until_allowed(&7)).1)
        .collect();
    sim.run();
    clock.set(START + ms(1_500));
    store.sweep(clock.now());
    sim.run();
    sim.run_out(&clock);
    let went: Vec<_> = told.iter().map(|told| went_at(told).unwrap()).collect();
    assert_eq!(went, [ms(1_500), ms(2_000), ms(3_000)]);
}

/// In a full store the forgotten client found no room to come back to, so each of its waiters had a fresh state: all six went
/// at once.
#[test]
fn a_full_store_does_not_let_all_go() {
    for when_full in [WhenFull::RefuseNewcomer, WhenFull::AllowUnrecorded] {
        let store = Keyed::<u64, _>::new(one())
            .with_max_keys(1)
            .when_full(when_full);
        let clock = clock();
        assert!(store.allow(&7, START));
        let waiting = manual(&store, &clock);
        let mut sim = Sim::default();
        let told: Vec<_> = (0..6)
            .map(|_| sim.wait(&clock, waiting.until_allowed(&7)).1)
            .collect();
        sim.run();
        clock.set(START + ms(1_001));
        // A client that others wait for keeps its place.
        let newcomer = store.allow(&8, clock.now());
        assert_eq!(newcomer, when_full == WhenFull::AllowUnrecorded);
        sim.run();
        sim.run_until(&clock, START + ms(1_100));
        let went: Vec<_> = told.iter().map(went_at).collect();
        assert!(
            went.iter().flatten().count() <= 1,
            "{when_full:?}: {went:?}"
        );
    }
}

/// "Never one who would be refused now" looked at the state alone: six of ten were spent, and somebody waited for ten. It was
/// forgotten, and the waiter went at 1 ms.
#[test]
fn nobody_who_is_refused_is_forgotten() {
    let store = Keyed::<u64, _>::new(TokenBucket::new(Quota::per_second(10)))
        .with_max_keys(1)
        .when_full(WhenFull::ForgetNearestToIdle);
    let clock = clock();
    let _ = store.check_n(&7, 6, START).unwrap();
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, told) = sim.wait(&clock, waiting.until_allowed_n(&7, 10));
    sim.run();
    assert!(
        !store.peek(&7, START).is_allowed(),
        "it would be refused now"
    );
    let newcomer = store.check(&8, START + ms(1));
    clock.set(START + ms(1));
    assert!(
        !store.peek(&7, clock.now()).is_allowed(),
        "newcomer {newcomer:?}"
    );
    sim.run_out(&clock);
    assert_eq!(went_at(&told), Some(ms(600)));
    assert!(!newcomer.is_allowed());
}

/// Those whom another limit let go left an empty queue behind, and the client's key with it, for good.
#[test]
fn after_another_limit_no_entry_stays() {
    let (store, clock) = (Keyed::<Arc<str>, _>::new(one()), clock());
    let key: Arc<str> = "ada".into();
    assert!(store.allow(&key, START));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, told) = sim.wait(&clock, waiting.until_allowed(&key));
    sim.run();
    store.set_limiter(TokenBucket::new(Quota::per_second(100)), START + ms(100));
    clock.set(START + ms(100));
    sim.run();
    assert_eq!(went_at(&told), Some(ms(100)));
    sim.run_out(&clock);
    drop(sim);
    clock.set(START + ms(100_000));
    store.sweep(clock.now());
    assert_eq!((store.len(), copies(&key)), (0, 0));
}

/// A booking behind others has nobody who comes: its entry stayed, however often the store was swept.
#[test]
fn behind_a_booking_no_entry_stays() {
    let (store, clock) = (Keyed::<Arc<str>, _>::new(one()), clock());
    let key: Arc<str> = "ada".into();
    assert!(store.allow(&key, START));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, told) = sim.wait(&clock, waiting.until_allowed(&key));
    sim.run();
    store.reserve(&key, 1, START, Duration::MAX).unwrap().keep();
    sim.run_out(&clock);
    assert_eq!(went_at(&told), Some(ms(1_000)));
    drop(sim);
    clock.set(START + ms(100_000));
    store.sweep(clock.now());
    assert_eq!((store.len(), copies(&key)), (0, 0));
}

/// A restore changed what a client has used, and those who wait for it were not told: here one that cannot be in time any more.
#[cfg(feature = "serde")]
#[test]
fn a_restored_state_is_what_they_wait_for() {
    let make = || Keyed::<u64, _>::new(TokenBucket::new(Quota::per_second(1)).with_max_debt(100));
    let other = make();
    let _ = other.charge(&7, 50, START);
    let saved = other.save(START);
    let (store, clock) = (make(), clock());
    assert!(store.allow(&7, START));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, told) = sim.wait(&clock, waiting.until_allowed(&7).within(ms(5_000)));
    sim.run();
    assert_eq!(store.peek(&7, START).retry_after(), ms(2_000));
    assert_eq!(store.restore(saved).unwrap(), 1);
    sim.run();
    let retry = store.peek(&7, START).retry_after();
    assert!(retry >= ms(50_000), "{retry:?}");
    assert!(
        matches!(refused(&told), Some(WaitError::TooLong(_))),
        "it cannot be in time any more: {:?}",
        told.borrow()
    );
}

/// And what a check is told behind them was worked out before the restore: 2 s, where it was 51.
#[test]
fn a_check_after_a_restore_counts_those_ahead() {
    let make = || Keyed::<u64, _>::new(one().with_max_debt(100));
    let other = make();
    let _ = other.charge(&7, 50, START);
    let (store, clock) = (make(), clock());
    assert!(store.allow(&7, START));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, told) = sim.wait(&clock, waiting.until_allowed(&7));
    sim.run();
    assert_eq!(store.peek(&7, START).retry_after(), ms(2_000));
    assert_eq!(store.restore(other.save(START)).unwrap(), 1);
    let retry = store.peek(&7, START).retry_after();
    sim.run_out(&clock);
    assert_eq!((went_at(&told), retry), (Some(ms(50_000)), ms(51_000)));
}

/// A snapshot lacked what a waiter was due to spend: the restored store allowed what the original refused.
#[cfg(feature = "serde")]
#[test]
fn what_is_saved_is_as_if_every_timer_were_on_time() {
    let make = || Keyed::<u64, _>::new(TokenBucket::new(Quota::per_second(1)).with_burst(1));
    let (store, clock) = (make(), clock());
    assert!(store.allow(&7, START));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, _told) = sim.wait(&clock, waiting.until_allowed(&7));
    sim.run();
    let now = START + ms(1_500);
    clock.set(now);
    let saved = store.save(now);
    let again = make();
    again.restore(saved).unwrap();
    sim.run();
    assert_eq!(
        again.peek(&7, now).is_allowed(),
        store.peek(&7, now).is_allowed()
    );
}
