//! Stamps that are late, from the future, or from a clock that was set back.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tollgate::wait::WaitError;
use tollgate::{
    Clock, Direct, FixedWindow, ManualClock, Quota, SlidingLog, Timestamp, TokenBucket,
};

use crate::sim::{START, Sim, clock, manual, ms, refused, went_at};

const HOUR: Duration = Duration::from_secs(3_600);

fn one() -> TokenBucket {
    TokenBucket::new(Quota::per_second(1))
}

/// Keeps that it was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Somebody charged at 5 s, and one who comes at 0 would wait for at most 2 s: it was let in, and waited for 6.
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

/// The same of a booking.
#[test]
fn a_bookings_longest_wait_counts_from_the_callers_stamp() {
    let store = Direct::new(one());
    assert!(store.allow(START + ms(5_000)));
    let booked = store.reserve(1, START, ms(2_000));
    if let Ok(booked) = &booked {
        panic!("acts in {:?}", booked.wait_from(START));
    }
}

/// A timer was set from where the limiter's time had come to, and not from the clock: five million of them until the turn came.
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

/// The clock was set back by an hour, and the latest charge was older than that, so nobody noticed: but nobody was let go before
/// the instant at which the last had joined. All waited for that hour.
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

/// The same where a refund fills the bucket.
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

/// At the end of time a turn never comes, and its timer is over at once: it was set, and was over, for ever.
#[test]
fn at_the_end_of_time_nobody_is_polled_for_ever() {
    let store = Direct::new(one());
    let clock = ManualClock::new(Timestamp::MAX);
    assert!(store.allow(Timestamp::MAX));
    let waiting = manual(&store, &clock);
    let mut future = Box::pin(waiting.until_allowed(&()));
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut polls = 0;
    loop {
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        polls += 1;
        if polled.is_ready() || !woken.0.swap(false, Ordering::Relaxed) {
            break;
        }
        assert!(polls < 1_000, "it is polled for ever");
    }
}

/// One whose turn has come, and who gives up before it was told, gives the window back to the next.
#[test]
fn who_gives_up_late_spends_nothing_in_a_window() {
    for late in [0, 1] {
        let store = Direct::new(SlidingLog::new(Quota::per_second(10)));
        let clock = clock();
        let _ = store.check_n(10, START).unwrap();
        let waiting = manual(&store, &clock);
        let mut sim = Sim::default();
        let (gone, _) = sim.wait(&clock, waiting.until_allowed_n(&(), 5));
        let (_, next) = sim.wait(&clock, waiting.until_allowed_n(&(), 10));
        sim.run();
        clock.set(START + ms(1_000 + 200 * late));
        sim.drop_task(gone);
        sim.run();
        assert_eq!(went_at(&next), Some(ms(1_000 + 200 * late)));
    }
}

/// A charge of nothing, stamped in the far future, let all go who could by then.
#[test]
fn a_charge_of_nothing_from_the_future_changes_nothing() {
    let store = Direct::new(FixedWindow::new(Quota::per_second(10)));
    let clock = clock();
    let _ = store.check_n(10, START).unwrap();
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, told) = sim.wait(&clock, waiting.until_allowed_n(&(), 5).within(ms(1_000)));
    sim.run();
    // Somebody charges nothing with a stamp of the far future (a thread with a broken clock): nothing is changed by it.
    let _ = store.charge(0, START + Duration::from_secs(1_000_000));
    sim.run_out(&clock);
    assert_eq!(went_at(&told), Some(ms(1_000)));
}

/// So did a peek: whatever spends nothing leaves nothing behind, whatever its stamp.
#[test]
fn a_peek_from_the_future_changes_nothing() {
    let store = Direct::new(TokenBucket::new(Quota::per_second(1)));
    let clock = clock();
    let _ = store.check_n(1, START).unwrap();
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let tolds: Vec<_> = (0..3)
        .map(|_| sim.wait(&clock, waiting.until_allowed(&())).1)
        .collect();
    sim.run();
    // A peek spends nothing, so it moves no time: "a refused call, or a peek, must leave nothing behind, whatever stamp it came with".
    let _ = store.peek(START + Duration::from_secs(100));
    sim.run();
    let went: Vec<_> = tolds.iter().map(went_at).collect();
    assert_eq!(
        went,
        [None, None, None],
        "the clock says {:?}",
        clock.now().saturating_duration_since(START)
    );
}
