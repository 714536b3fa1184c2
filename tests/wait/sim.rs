//! A small executor on a clock that is moved by hand: every run of it is the same, and it counts what is polled and armed.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tollgate::wait::{Turn, WaitError, Waiting};
use tollgate::{Clock, ManualClock, Timestamp};

/// A limiter that is waited for by a manual clock.
pub(crate) type Manual<S> = Waiting<S, ManualClock, ManualClock>;

pub(crate) const START: Timestamp = Timestamp::from_secs(1_000_000);

/// A clock at the start of every window.
pub(crate) fn clock() -> ManualClock {
    ManualClock::new(START)
}

pub(crate) fn manual<S>(store: S, clock: &ManualClock) -> Manual<S> {
    Waiting::new(store, clock.clone(), clock.clone())
}

/// What somebody who waited was told, and when.
pub(crate) type Told = Rc<RefCell<Option<(Timestamp, Result<Turn, WaitError>)>>>;

#[derive(Default)]
pub(crate) struct Sim<'a> {
    tasks: Vec<Option<Task<'a>>>,
    ready: Arc<Mutex<VecDeque<usize>>>,
    /// Tasks that are alive and not polled any more.
    stuck: Vec<usize>,
    /// In which order those who are ready are polled; by arrival if it is 0.
    dice: u64,
}

struct Task<'a> {
    future: Pin<Box<dyn Future<Output = ()> + 'a>>,
    waker: Arc<TaskWaker>,
    polls: usize,
}

struct TaskWaker {
    index: usize,
    is_ready: AtomicBool,
    ready: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if !self.is_ready.swap(true, Ordering::Relaxed) {
            self.ready.lock().unwrap().push_back(self.index);
        }
    }
}

impl<'a> Sim<'a> {
    /// One that polls those who are ready in another order for each seed.
    pub(crate) fn shaken(seed: u64) -> Self {
        Self {
            dice: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            ..Self::default()
        }
    }

    pub(crate) fn spawn(&mut self, future: impl Future<Output = ()> + 'a) -> usize {
        let index = self.tasks.len();
        let waker = Arc::new(TaskWaker {
            index,
            is_ready: AtomicBool::new(false),
            ready: Arc::clone(&self.ready),
        });
        waker.clone().wake();
        self.tasks.push(Some(Task {
            future: Box::pin(future),
            waker,
            polls: 0,
        }));
        index
    }

    /// Spawns somebody who waits, and keeps what it is told.
    pub(crate) fn wait(
        &mut self,
        clock: &'a ManualClock,
        until: impl Future<Output = Result<Turn, WaitError>> + 'a,
    ) -> (usize, Told) {
        let told = Told::default();
        let tell = Rc::clone(&told);
        let task = self.spawn(async move {
            let outcome = until.await;
            *tell.borrow_mut() = Some((clock.now(), outcome));
        });
        (task, told)
    }

    /// Polls whoever is ready until nobody is.
    pub(crate) fn run(&mut self) {
        let mut polls = 0;
        while let Some(index) = self.next_ready() {
            if !self.stuck.contains(&index) {
                self.poll(index);
            }
            polls += 1;
            assert!(polls < 10_000_000, "somebody is polled for ever");
        }
    }

    /// Polls one, whether it is ready or not.
    pub(crate) fn poll(&mut self, index: usize) {
        let Some(task) = &mut self.tasks[index] else {
            return;
        };
        task.waker.is_ready.store(false, Ordering::Relaxed);
        task.polls += 1;
        let waker = Waker::from(Arc::clone(&task.waker));
        if let Poll::Ready(()) = task.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.tasks[index] = None;
        }
    }

    /// Runs until `until`, with every timer on time.
    pub(crate) fn run_until(&mut self, clock: &ManualClock, until: Timestamp) {
        self.run();
        while clock.next_sleeper().is_some_and(|at| at <= until) {
            clock.advance_to_next_sleeper();
            self.run();
        }
        clock.set(until);
        self.run();
    }

    /// Runs until nobody sleeps.
    pub(crate) fn run_out(&mut self, clock: &ManualClock) {
        self.run();
        while clock.advance_to_next_sleeper().is_some() {
            self.run();
        }
    }

    pub(crate) fn drop_task(&mut self, index: usize) {
        self.tasks[index] = None;
    }

    /// Does not poll it any more, and does not drop it.
    pub(crate) fn forget(&mut self, index: usize) {
        self.stuck.push(index);
    }

    pub(crate) fn is_stuck(&self, index: usize) -> bool {
        self.stuck.contains(&index)
    }

    pub(crate) fn is_done(&self, index: usize) -> bool {
        self.tasks[index].is_none()
    }

    pub(crate) fn polls(&self, index: usize) -> usize {
        self.tasks[index].as_ref().map_or(0, |task| task.polls)
    }

    fn next_ready(&mut self) -> Option<usize> {
        let mut ready = self.ready.lock().unwrap();
        if self.dice == 0 {
            return ready.pop_front();
        }
        if ready.is_empty() {
            return None;
        }
        let at = (roll(&mut self.dice) % ready.len() as u64) as usize;
        ready.remove(at)
    }
}

/// The next of a row of numbers without a pattern.
pub(crate) fn roll(dice: &mut u64) -> u64 {
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    *dice >> 11
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// When somebody was told that it may go.
pub(crate) fn went_at(told: &Told) -> Option<Duration> {
    let told = told.borrow();
    let (at, outcome) = told.as_ref()?;
    outcome.as_ref().ok()?;
    Some(at.saturating_duration_since(START))
}

/// Why somebody was told that it may not.
pub(crate) fn refused(told: &Told) -> Option<WaitError> {
    let told = told.borrow();
    told.as_ref()?.1.clone().err()
}
