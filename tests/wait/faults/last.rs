//! Stamps that run back, and from the future.

use std::future::Future;
use std::task::{Context, Waker};
use std::time::Duration;

use crate::sim::{START, Sim, clock, manual, ms, refused, roll, went_at};
use tollgate::wait::WaitError;
use tollgate::{Clock, Direct, FixedWindow, LeakyBucket, Quota, SlidingLog, TokenBucket};

/// What a real clock sees: waiters in one shard with newcomers that come all the time.
/// A waiter whose turn is due by now and who gives up is served first (as of its turn); it gives back.
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

/// Who leaves while in front leaves those behind as of now; and a shape after a refund, a leave, a charge.
#[test]
fn shaping_mixed_is_what_a_check_would_admit() {
    let mut bad = 0;
    let mut first = String::new();
    for seed in 1..3_000u64 {
        let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (shaped, checked) = (
            Direct::new(LeakyBucket::new(Quota::per_second(10)).with_burst(5)),
            Direct::new(LeakyBucket::new(Quota::per_second(10)).with_burst(5)),
        );
        let clock = clock();
        let waiting = manual(&shaped, &clock);
        let mut sim = Sim::default();
        let mut now = START;
        let mut history = String::new();
        for _ in 0..30 {
            now += Duration::from_nanos(roll(&mut dice) % 150_000_000);
            sim.run_until(&clock, now);
            let cost = 1 + roll(&mut dice) % 3;
            let (_, told) = sim.wait(&clock, waiting.shape_n(&(), cost));
            sim.run();
            let check = checked.check_n(cost, now).unwrap();
            let is_in = refused(&told).is_none();
            history += &format!(
                "{:?} {cost} {is_in} {check:?}\n",
                now.saturating_duration_since(START)
            );
            if is_in != check.is_allowed() {
                bad += 1;
                if first.is_empty() {
                    first = history.clone();
                }
                break;
            }
        }
    }
    assert_eq!(bad, 0, "{first}");
}

/// A stamp a nanosecond before a disturbance: nobody is late by it for more than that.
#[test]
fn stamps_that_run_back_a_little() {
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

#[test]
fn a_refused_check_from_the_future_leaves_nothing_behind() {
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

#[test]
fn a_refund_from_the_past_is_no_wait() {
    let _ = (WaitError::Evicted, Waker::noop());
    let mut f = Box::pin(std::future::ready(()));
    let _ = f.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}
