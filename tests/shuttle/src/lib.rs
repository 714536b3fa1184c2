//! Those who wait, on threads whose every lock is a point at which another may go on: `.ci/shuttle` runs it.
#![cfg(test)]

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use shuttle::thread;
use tollgate::wait::{Waiting, Waits};
use tollgate::{
    Clock, Direct, FixedWindow, Keyed, LeakyBucket, ManualClock, Quota, Timestamp, TokenBucket,
};

const START: Timestamp = Timestamp::from_secs(1_000);

/// Threads that are stopped at other places in each run; the same ones in every test.
fn shake(run: impl Fn() + Send + Sync + 'static) {
    let run = Arc::new(run);
    let each = Arc::clone(&run);
    shuttle::check_random(move || each(), 20_000);
    shuttle::check_pct(move || run(), 10_000, 3);
}

/// Waits on the calling thread.
fn wait<S, Q>(waiting: &Waiting<S, ManualClock, ManualClock>, key: &Q, cost: u64) -> u64
where
    S: Waits<Q>,
{
    let turn = shuttle::future::block_on(waiting.until_allowed_n(key, cost)).expect("no bounds");
    turn.receipt().map_or(0, |receipt| receipt.cost())
}

/// Four wait, one gives up when it has waited for a while, one asks without waiting, and the clock goes on: all who wait are let go,
/// nobody twice, and what is spent is what was granted.
fn a_crowd<S, Q>(store: S, key: Q, check: impl Fn(&S, Timestamp) -> bool + Send + Sync + 'static)
where
    S: Waits<Q> + Send + Sync + 'static,
    Q: Send + Sync + 'static,
{
    let clock = ManualClock::new(START);
    let waiting = Arc::new((Waiting::new(store, clock.clone(), clock.clone()), key));
    let check = Arc::new(check);
    let (granted, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut threads = Vec::new();
    for cost in [1, 2, 1] {
        let (waiting, granted, done) = (waiting.clone(), granted.clone(), done.clone());
        threads.push(thread::spawn(move || {
            granted.fetch_add(wait(&waiting.0, &waiting.1, cost), Ordering::SeqCst);
            done.fetch_add(1, Ordering::SeqCst);
        }));
    }
    {
        let (waiting, granted, done) = (waiting.clone(), granted.clone(), done.clone());
        threads.push(thread::spawn(move || {
            let mut turn = Box::pin(waiting.0.until_allowed_n(&waiting.1, 2));
            for _ in 0..2 {
                let polled = turn.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                if let Poll::Ready(turn) = polled {
                    let cost = turn
                        .expect("no bounds")
                        .receipt()
                        .map_or(0, |receipt| receipt.cost());
                    granted.fetch_add(cost, Ordering::SeqCst);
                    break;
                }
                thread::yield_now();
            }
            drop(turn);
            done.fetch_add(1, Ordering::SeqCst);
        }));
    }
    {
        let (waiting, granted, clock, done) = (
            waiting.clone(),
            granted.clone(),
            clock.clone(),
            done.clone(),
        );
        threads.push(thread::spawn(move || {
            let allowed = check(waiting.0.store(), clock.now());
            granted.fetch_add(u64::from(allowed), Ordering::SeqCst);
            done.fetch_add(1, Ordering::SeqCst);
        }));
    }
    // Whoever waits for a timer that nobody has armed waits for ever, which shuttle tells.
    while done.load(Ordering::SeqCst) < threads.len() {
        if clock.advance_to_next_sleeper().is_none() {
            thread::yield_now();
        }
    }
    for thread in threads {
        thread.join().expect("it does not panic");
    }
    assert_eq!(waiting.0.waiters(&waiting.1), 0);
    assert_eq!(clock.sleepers(), 0);
    let granted = granted.load(Ordering::SeqCst);
    assert!((4..=7).contains(&granted), "{granted}");
    // Two at once, and two more each second: no more than that by now.
    let passed = clock.now().saturating_duration_since(START).as_millis() as u64;
    assert!(
        granted * 1_000 <= 2_000 + 2 * passed,
        "{granted} after {passed} ms"
    );
}

const TWO: Quota = Quota::per_second(2);

#[test]
fn a_crowd_on_a_bucket() {
    shake(|| {
        let limiter = Direct::new(TokenBucket::new(TWO));
        a_crowd(limiter, (), |limiter, now| limiter.allow(now));
    });
}

#[test]
fn a_crowd_on_a_queue() {
    shake(|| {
        let limiter = Direct::new(LeakyBucket::new(TWO));
        a_crowd(limiter, (), |limiter, now| limiter.allow(now));
    });
}

#[test]
fn a_crowd_on_one_client_of_a_store() {
    shake(|| {
        let store: Keyed<u64, _> = Keyed::new(FixedWindow::new(TWO));
        a_crowd(store, 7, |store, now| store.allow(&7, now));
    });
}

/// Whoever gives back, resets or changes the limit while others wait loses none of them.
#[test]
fn a_crowd_and_an_operator() {
    shake(|| {
        let clock = ManualClock::new(START);
        let limiter = Direct::new(TokenBucket::new(TWO));
        let waiting = Arc::new(Waiting::new(limiter, clock.clone(), clock.clone()));
        let receipt = waiting
            .store()
            .check_n(2, START)
            .expect("it fits")
            .receipt();
        let done = Arc::new(AtomicUsize::new(0));
        let mut threads = Vec::new();
        for cost in [2, 1] {
            let (waiting, done) = (waiting.clone(), done.clone());
            threads.push(thread::spawn(move || {
                wait(&waiting, &(), cost);
                done.fetch_add(1, Ordering::SeqCst);
            }));
        }
        {
            let (waiting, clock, done) = (waiting.clone(), clock.clone(), done.clone());
            threads.push(thread::spawn(move || {
                let now = clock.now();
                waiting.store().refund(receipt.expect("it was spent"), now);
                let _ = waiting.store().charge(1, clock.now());
                waiting.store().set_limiter(
                    TokenBucket::new(Quota::new(2, Duration::from_secs(3)).expect("a quota")),
                    clock.now(),
                );
                waiting.store().reset();
                done.fetch_add(1, Ordering::SeqCst);
            }));
        }
        while done.load(Ordering::SeqCst) < threads.len() {
            if clock.advance_to_next_sleeper().is_none() {
                thread::yield_now();
            }
        }
        for thread in threads {
            thread.join().expect("it does not panic");
        }
        assert_eq!((waiting.waiters(&()), clock.sleepers()), (0, 0));
    });
}

/// A booking without a longest wait is never "too long": it was, when those whom it stood behind left between two looks.
#[test]
fn a_booking_beside_one_who_comes_and_leaves() {
    shake(|| {
        let clock = ManualClock::new(START);
        let limiter = Arc::new(Direct::new(TokenBucket::new(TWO)));
        assert!(limiter.check_n(2, START).expect("it fits").is_allowed());
        let waiting = Waiting::new(limiter.clone(), clock.clone(), clock.clone());
        let leaves = thread::spawn(move || {
            let mut turn = Box::pin(waiting.until_allowed(&()));
            let polled = turn.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
        });
        let booked = limiter
            .reserve(2, START, Duration::MAX)
            .expect("it can wait");
        assert!(booked.act_at() <= START + Duration::from_millis(1_500));
        booked.keep();
        leaves.join().expect("it does not panic");
        let after = limiter.peek(START + Duration::from_secs(10));
        assert!(after.is_allowed());
    });
}
