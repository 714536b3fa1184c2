//! What waited wrongly once: forgotten clients, evictions, plans, late stamps, reservations, clocks.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use crate::sim::{START, Sim, clock, manual, ms, refused, went_at};
use tollgate::keyed::WhenFull;
use tollgate::wait::{WaitError, WhenQueueFull};
use tollgate::{
    Clock, Direct, FixedWindow, Keyed, LeakyBucket, Plans, Quota, SlidingLog, Timestamp,
    TokenBucket,
};

fn one() -> TokenBucket {
    TokenBucket::new(Quota::per_second(1))
}

/// a sweep while the timers are late.
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

/// newcomers alone (no sweep), which is every day.
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

/// window of time within the timers' grain: with many waiters each forgetting gives a unit.
#[test]
fn sweep_fixed_window() {
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

/// in a full store a forgotten client's waiters go all at once.
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

/// forgetting the nearest to idle frees somebody who would be refused.
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

/// those behind evicted ones go as of an instant that is past.
#[test]
fn who_moves_up_by_an_eviction_goes_now() {
    let store = Direct::new(SlidingLog::new(Quota::per_second(10)));
    let clock = clock();
    let _ = store.check_n(5, START).unwrap();
    let waiting = manual(&store, &clock)
        .with_max_waiters(2)
        .when_full(WhenQueueFull::EvictOldest);
    let mut sim = Sim::default();
    let (_, first) = sim.wait(&clock, waiting.until_allowed_n(&(), 10));
    let (_, second) = sim.wait(&clock, waiting.until_allowed_n(&(), 5));
    sim.run();
    clock.set(START + ms(900));
    let (_, _third) = sim.wait(&clock, waiting.until_allowed_n(&(), 10));
    sim.run();
    assert!(matches!(refused(&first), Some(WaitError::Evicted)));
    assert_eq!(went_at(&second), Some(ms(900)));
    // Five went at 900 ms: until 1900 ms at most five more.
    sim.run_until(&clock, START + ms(1_899));
    let third = went_at(&_third);
    assert_eq!(third, None, "15 of 10 within a second");
}

/// plans.
fn plans() -> Plans<TokenBucket> {
    Plans::new([
        ("free", TokenBucket::new(Quota::per_second(1))),
        ("premium", TokenBucket::new(Quota::per_second(1_000))),
    ])
    .unwrap()
}

#[test]
fn a_refused_call_keeps_the_change_of_plan() {
    let (store, clock) = (Keyed::<u64, _>::new(plans()), clock());
    assert!(store.allow(&7, START));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, told) = sim.wait(&clock, waiting.until_allowed(&7));
    sim.run();
    let decision = store.check_as("premium", &7, START).unwrap();
    sim.run();
    assert_eq!(store.plan_of(&7), Some("premium".into()), "{decision:?}");
    assert_eq!(went_at(&told), Some(ms(0)));
}

#[test]
fn a_cost_that_the_plan_grants_is_not_too_high() {
    let (store, clock) = (Keyed::<u64, _>::new(plans()), clock());
    assert!(store.allow(&7, START));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, _told) = sim.wait(&clock, waiting.until_allowed(&7));
    sim.run();
    let decision = store.check_n_as("premium", &7, 500, START);
    assert!(decision.is_ok(), "{decision:?}");
}

/// an entry stays though nobody waits. The registry has a copy of the key.
fn copies(key: &Arc<str>) -> usize {
    Arc::strong_count(key) - 1
}

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

/// shaping looks at what was let in, and that went stale.
#[test]
fn a_full_queue_is_full_when_asked_again() {
    let store = Direct::new(LeakyBucket::new(Quota::per_second(1)).with_burst(2));
    let clock = clock();
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    for _ in 0..11 {
        sim.wait(&clock, waiting.until_allowed(&()));
    }
    sim.run();
    let (_, full) = sim.wait(&clock, waiting.shape(&()));
    sim.run();
    assert!(matches!(refused(&full), Some(WaitError::QueueFull(_))));
    sim.run_until(&clock, START + ms(3_000));
    assert_eq!(waiting.waiters(&()), 7);
    let (_, full) = sim.wait(&clock, waiting.shape(&()));
    sim.run();
    assert!(
        matches!(refused(&full), Some(WaitError::QueueFull(_))),
        "seven are before it, and there is room for two: {:?}",
        full.borrow()
    );
}

#[test]
fn who_is_let_in_by_a_window_does_not_wait() {
    let store = Direct::new(FixedWindow::new(Quota::per_second(10)));
    let clock = clock();
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    for _ in 0..5 {
        sim.wait(&clock, waiting.until_allowed_n(&(), 10));
    }
    sim.run();
    let (_, full) = sim.wait(&clock, waiting.shape_n(&(), 10));
    sim.run();
    assert!(matches!(refused(&full), Some(WaitError::QueueFull(_))));
    sim.run_until(&clock, START + ms(1_000));
    let (_, told) = sim.wait(&clock, waiting.shape_n(&(), 10));
    sim.run();
    assert!(
        matches!(refused(&told), Some(WaitError::QueueFull(_))),
        "{:?}",
        told.borrow()
    );
}

/// reservations.
#[test]
fn cancelled_one_after_the_other_as_x_time_rate() {
    // x/time/rate: R1 (5), R2 (2). R1.Cancel: 5 - 2 = 3 come back. R2.Cancel: lastEvent is R2's, so all 2.
    let store = Direct::new(TokenBucket::new(Quota::per_second(10)));
    let _ = store.check_n(10, START).unwrap();
    let first = store.reserve(5, START, Duration::MAX).unwrap();
    let second = store.reserve(2, START, Duration::MAX).unwrap();
    assert_eq!(first.cancel(START), 3);
    assert_eq!(second.cancel(START), 2);
}

#[test]
fn a_refund_of_something_else_is_no_later_booking() {
    let store = Direct::new(TokenBucket::new(Quota::per_second(10)));
    let receipt = store.check_n(10, START).unwrap().receipt().unwrap();
    let booked = store.reserve(2, START, Duration::MAX).unwrap();
    assert_eq!(store.refund(receipt, START + ms(100)), 10);
    // Nobody booked after it, so both come back; of which the bucket lacks one only.
    assert_eq!(booked.cancel(START + ms(100)), 1);
    assert_eq!(store.peek(START + ms(100)).remaining(), 10);
}

/// stamps behind the holder's time.
#[test]
fn a_longest_wait_counts_from_the_callers_stamp() {
    let store = Direct::new(one());
    let clock = clock();
    assert!(store.allow(START + ms(5_000)));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, told) = sim.wait(&clock, waiting.until_allowed(&()).within(ms(2_000)));
    sim.run();
    sim.run_out(&clock);
    assert!(
        matches!(refused(&told), Some(WaitError::TooLong(_))),
        "it has waited for {:?}",
        went_at(&told)
    );
}

#[test]
fn a_longest_wait_of_a_booking() {
    let store = Direct::new(one());
    assert!(store.allow(START + ms(5_000)));
    let booked = store.reserve(1, START, ms(2_000));
    if let Ok(booked) = &booked {
        panic!("acts in {:?}", booked.wait_from(START));
    }
}

#[test]
fn timers_count_from_the_clock() {
    let store = Direct::new(TokenBucket::new(Quota::per_second(1_000_000)).with_burst(1));
    let clock = clock();
    assert!(store.allow(START + ms(5_000)));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (task, told) = sim.wait(&clock, waiting.until_allowed(&()));
    sim.run();
    for _ in 0..1_000 {
        if clock.advance_to_next_sleeper().is_none() {
            break;
        }
        sim.run();
    }
    assert!(
        went_at(&told).is_some(),
        "{} polls, and the clock has come to {:?}",
        sim.polls(task),
        clock.now().saturating_duration_since(START)
    );
}

/// the clock is set back by an hour.
const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn set_back_by_an_hour_and_the_head_leaves() {
    let store = Direct::new(TokenBucket::new(Quota::per_day(10)));
    let clock = clock();
    let _ = store.check_n(5, START - 4 * HOUR).unwrap();
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (large, _) = sim.wait(&clock, waiting.until_allowed_n(&(), 10));
    let (_, small) = sim.wait(&clock, waiting.until_allowed_n(&(), 1));
    sim.run();
    clock.rewind(HOUR);
    let now = clock.now();
    sim.drop_task(large);
    sim.run();
    // Five units and more are there, and nobody is before it.
    let peek = store.peek(now);
    assert!(
        small.borrow().is_some(),
        "behind it: {:?}",
        peek.retry_after()
    );
}

#[test]
fn set_back_by_an_hour_and_refunded() {
    let store = Direct::new(TokenBucket::new(Quota::per_day(1)));
    let clock = clock();
    let receipt = store.check(START - 4 * HOUR).receipt().unwrap();
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, told) = sim.wait(&clock, waiting.until_allowed(&()));
    sim.run();
    clock.rewind(HOUR);
    store.refund(receipt, clock.now());
    sim.run();
    assert!(
        told.borrow().is_some(),
        "{:?}",
        store.peek(clock.now()).retry_after()
    );
}

/// restore while somebody waits.
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

/// save while the timers are late.
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

/// jitter for one who did not wait.
#[test]
fn who_does_not_wait_has_no_jitter() {
    let (store, clock) = (
        Keyed::<u64, _>::new(TokenBucket::new(Quota::per_second(10))).with_max_keys(100),
        clock(),
    );
    let _ = store.check_n(&1, 10, START).unwrap();
    assert!(store.allow(&2, START));
    let waiting = manual(&store, &clock).with_jitter(|| Duration::from_secs(1));
    let mut sim = Sim::default();
    let (_, alone) = sim.wait(&clock, waiting.until_allowed(&2));
    sim.run();
    assert_eq!(went_at(&alone), Some(ms(0)), "nobody waits in the store");
    let (_, _first) = sim.wait(&clock, waiting.until_allowed(&1));
    let (_, other) = sim.wait(&clock, waiting.until_allowed(&2));
    sim.run_out(&clock);
    assert_eq!(
        went_at(&other),
        Some(ms(0)),
        "somebody waits for another client"
    );
}

/// a deadline that has passed.
/// the end of time.
#[test]
fn at_the_end_of_time_nobody_is_polled_for_ever() {
    let store = Direct::new(one());
    let clock = tollgate::ManualClock::new(Timestamp::MAX);
    assert!(store.allow(Timestamp::MAX));
    let waiting = manual(&store, &clock);
    let mut future = Box::pin(waiting.until_allowed(&()));
    let woken = Arc::new(Counts::default());
    let waker = Waker::from(woken.clone());
    let mut polls = 0;
    loop {
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        polls += 1;
        if polled.is_ready() || !woken.0.swap(false, std::sync::atomic::Ordering::Relaxed) {
            break;
        }
        assert!(polls < 1_000, "it is polled for ever");
    }
}

#[derive(Default)]
struct Counts(std::sync::atomic::AtomicBool);
impl std::task::Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// nothing is booked behind others.
#[test]
fn a_booking_of_nothing_does_not_wait() {
    let (store, clock) = (Direct::new(one()), clock());
    assert!(store.allow(START));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, _told) = sim.wait(&clock, waiting.until_allowed(&()));
    sim.run();
    assert!(store.check_n(0, START).unwrap().is_allowed());
    let booked = store.reserve(0, START, Duration::MAX).unwrap();
    assert_eq!(booked.act_at(), START);
}

/// a cost that another limit can never grant, in the middle.
#[test]
fn never_is_told_at_once_when_the_limit_changes() {
    let (store, clock) = (
        Direct::new(TokenBucket::new(Quota::per_second(10))),
        clock(),
    );
    let _ = store.check_n(10, START).unwrap();
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, _first) = sim.wait(&clock, waiting.until_allowed_n(&(), 2));
    let (_, never) = sim.wait(&clock, waiting.until_allowed_n(&(), 10));
    sim.run();
    store.set_limiter(TokenBucket::new(Quota::per_second(2)), START);
    sim.run();
    assert!(
        matches!(refused(&never), Some(WaitError::CostTooHigh(_))),
        "{:?}",
        never.borrow()
    );
}
