//! [`Threads`]: waiting without a runtime. A thread polls the same future that a runtime would, and sleeps in between.

use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::sleep::{Blocks, Timers, sealed};

/// The timers of threads that wait by themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Threads(());

impl Threads {
    /// Needs nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }
}

impl Timers for Threads {
    type Future = ThreadSleep;

    fn sleep(&self, duration: Duration) -> ThreadSleep {
        ThreadSleep {
            ends_at: Instant::now().checked_add(duration),
        }
    }
}

impl sealed::Sealed for Threads {}
impl Blocks for Threads {}

/// Polls until it is ready; sleeps until it is woken, or until the earliest timer that was asked ends.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        ALARM.set(None);
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        match ALARM.get() {
            Some(at) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
            None => thread::park(),
        }
    }
}

/// A timer that tells the thread that asks how long to sleep.
#[derive(Debug)]
pub struct ThreadSleep {
    /// `None` beyond the clock's end.
    ends_at: Option<Instant>,
}

impl Future for ThreadSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let Some(ends_at) = self.ends_at else {
            return Poll::Pending;
        };
        if Instant::now() >= ends_at {
            return Poll::Ready(());
        }
        let earliest = ALARM.get().map_or(ends_at, |alarm| alarm.min(ends_at));
        ALARM.set(Some(earliest));
        Poll::Pending
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    /// When the first of the timers ends that were asked in the last poll.
    static ALARM: Cell<Option<Instant>> = const { Cell::new(None) };
}
