//! Wakers are somebody else's code: to clone, to drop and to wake one may do anything, such as ask the limiter. It was done under
//! the limiter's lock, and hung.

use std::future::Future;
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use tollgate::{Direct, Keyed, Quota, TokenBucket};

use crate::sim::{START, clock, manual, ms};

fn one() -> TokenBucket {
    TokenBucket::new(Quota::per_second(1))
}

/// Fails if it hangs, and does not wait for it then.
fn does_not_hang(run: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let runs = thread::spawn(move || {
        run();
        done.send(()).unwrap();
    });
    let outcome = is_done.recv_timeout(Duration::from_secs(60));
    assert!(
        outcome.is_ok(),
        "it hangs, or has failed: {:?}",
        runs.is_finished()
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

/// The last of a waker is dropped by the one who leaves.
#[test]
fn a_waker_that_is_dropped_by_a_leaver_may_ask_the_limiter() {
    does_not_hang(|| {
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

/// A task that moves is polled with another waker, and the old one is dropped.
#[test]
fn a_waker_that_is_replaced_may_ask_the_limiter() {
    does_not_hang(|| {
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

/// A waker changes the limit that woke it.
#[test]
fn a_waker_may_change_the_limit() {
    does_not_hang(|| {
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
