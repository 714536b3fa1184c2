//! Wakers that do anything, bookings beside waiters, snapshots, limits on trial.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::sim::{START, Sim, clock, manual, ms, went_at};
use tollgate::wait::WhenQueueFull;
use tollgate::{Direct, FixedWindow, Keyed, LeakyBucket, Quota, Shadow, SlidingLog, TokenBucket};

fn one() -> TokenBucket {
    TokenBucket::new(Quota::per_second(1))
}

fn in_time(name: &str, run: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        run();
        done.send(()).unwrap();
    });
    assert!(
        is_done.recv_timeout(Duration::from_secs(5)).is_ok(),
        "{name}: it hangs"
    );
}

struct OnDrop<F: Fn()>(F);
impl<F: Fn() + Send + Sync + 'static> Wake for OnDrop<F> {
    fn wake(self: Arc<Self>) {}
}
impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

struct OnWake<F: Fn()>(F);
impl<F: Fn() + Send + Sync + 'static> Wake for OnWake<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

#[test]
fn a_waker_that_is_dropped_by_a_leaver_may_ask_the_limiter() {
    in_time("drop", || {
        let store = Arc::new(Direct::new(one()));
        let clock = clock();
        assert!(store.allow(START));
        let waiting = manual(Arc::clone(&store), &clock);
        let mut until = Box::pin(waiting.until_allowed(&()));
        let asks = Arc::clone(&store);
        let waker = Waker::from(Arc::new(OnDrop(move || {
            let _ = asks.peek(START);
        })));
        assert!(
            until
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        drop(waker);
        drop(until);
    });
}

#[test]
fn a_waker_that_is_replaced_may_ask_the_limiter() {
    in_time("replaced", || {
        let store = Arc::new(Direct::new(one()));
        let clock = clock();
        assert!(store.allow(START));
        let waiting = manual(Arc::clone(&store), &clock);
        let mut until = Box::pin(waiting.until_allowed(&()));
        let asks = Arc::clone(&store);
        let moved = clock.clone();
        let waker = Waker::from(Arc::new(OnDrop(move || {
            moved.set(START + ms(1_000));
            let _ = asks.peek(START + ms(1_000));
        })));
        assert!(
            until
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        drop(waker);
        let _ = until.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    });
}

#[test]
fn a_waker_may_change_the_limit() {
    in_time("set_limiter", || {
        let store = Arc::new(Keyed::<u64, _>::new(one()));
        let clock = clock();
        assert!(store.allow(&7, START));
        let waiting = manual(Arc::clone(&store), &clock);
        let mut until = Box::pin(waiting.until_allowed(&7));
        let asks = Arc::clone(&store);
        let waker = Waker::from(Arc::new(OnWake(move || {
            asks.set_limiter(one(), START);
        })));
        assert!(
            until
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        store.set_limiter(TokenBucket::new(Quota::per_second(100)), START + ms(100));
    });
}

#[test]
fn an_unbounded_booking_is_never_too_long() {
    let store = Arc::new(Direct::new(
        TokenBucket::new(Quota::per_second(1)).with_burst(1),
    ));
    let clock = clock();
    assert!(store.allow(START));
    let stop = AtomicBool::new(false);
    let (mut refused, mut tried) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let waiting = manual(Arc::clone(&store), &clock);
            while !stop.load(Ordering::Relaxed) {
                let mut until = Box::pin(waiting.until_allowed(&()));
                let _ = until.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
        });
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(5) && refused == 0 {
            tried += 1;
            match store.reserve(1, START, Duration::MAX) {
                Ok(booked) => {
                    booked.cancel(START);
                }
                Err(_) => refused += 1,
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(refused, 0, "after {tried}");
}

#[test]
fn a_limit_on_trial_refuses_nobody() {
    let store = Direct::new(Shadow::new(
        LeakyBucket::new(Quota::per_second(1)).with_burst(5),
    ));
    let clock = clock();
    assert!(store.allow(START));
    assert!(store.allow(START));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, told) = sim.wait(&clock, waiting.until_allowed(&()));
    sim.run();
    assert!(
        store.allow(START),
        "it lets every request pass, and waits: {:?}",
        told.borrow()
    );
}

#[test]
fn beside_a_real_limit() {
    let store = Direct::new((
        TokenBucket::new(Quota::per_second(1_000)),
        Shadow::new(LeakyBucket::new(Quota::per_second(1)).with_burst(5)),
    ));
    let clock = clock();
    assert!(store.allow(START));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, told) = sim.wait(&clock, waiting.until_allowed(&()));
    sim.run();
    assert!(store.allow(START), "{:?}", told.borrow());
}

#[test]
fn each_limit_is_told_of() {
    let store = Direct::new((one(), TokenBucket::new(Quota::per_minute(60))));
    let clock = clock();
    assert!(store.allow(START));
    let count = |store: &Direct<_>| {
        let mut told = 0;
        let _ = store.check_each(1, START, |_, _| told += 1).unwrap();
        told
    };
    assert_eq!(count(&store), 2);
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, _told) = sim.wait(&clock, waiting.until_allowed(&()));
    sim.run();
    assert_eq!(count(&store), 2);
}

/// the end of the queue that was worked out before the restore.
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

/// How long a join takes that pushes somebody out of a long queue.
/// A crowd over many keys that goes, but for one.
#[test]
fn polls_of_a_crowd() {
    let _ = (
        AtomicUsize::new(0),
        FixedWindow::new(Quota::per_second(1)),
        SlidingLog::new(Quota::per_second(1)),
        WhenQueueFull::EvictOldest,
    );
}
