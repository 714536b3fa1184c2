//! [`Place`]: somebody's place in a queue, and what it is told there; [`Bell`]: whom a timer wakes.

use std::mem;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use parking_lot::Mutex;

use crate::decision::{Decision, Spent};
use crate::error::CostTooHigh;
use crate::time::Timestamp;

/// Somebody's place in a queue.
#[derive(Debug)]
pub(crate) struct Place {
    /// They are numbered as they come.
    pub(super) number: u64,
    pub(super) cost: u64,
    /// It would rather be told no than wait beyond this.
    pub(super) latest: Timestamp,
    /// Nobody stands there: its instant was promised.
    pub(super) is_booked: bool,
    /// It was woken.
    was_woken: AtomicBool,
    /// It was woken, and came.
    comes: AtomicBool,
    said: Mutex<Said>,
}

/// What somebody who waits was told.
#[derive(Debug)]
enum Said {
    Wait(Option<Waker>),
    Told(Outcome),
    /// It was taken note of.
    Done,
}

/// What somebody who waited was told in the end.
#[derive(Debug)]
pub(crate) enum Outcome {
    Go(Spent),
    Never(CostTooHigh),
    /// It could be served in time when it came, and no more.
    TooLate(Box<Decision>),
    /// Others have taken the room.
    Evicted,
}

/// What somebody gives up with its place.
pub(super) enum GivenUp {
    Waiting,
    /// It was let go, and has spent this.
    Gone(Spent),
    Nothing,
}

impl Place {
    pub(super) fn new(number: u64, cost: u64, latest: Timestamp, is_booked: bool) -> Self {
        Self {
            number,
            cost,
            latest,
            is_booked,
            was_woken: AtomicBool::new(false),
            comes: AtomicBool::new(false),
            said: Mutex::new(Said::Wait(None)),
        }
    }

    /// What its owner was told, if that is no more to wait; asked once. Otherwise `waker` is called when it is.
    pub(crate) fn outcome(&self, waker: &Waker) -> Option<Outcome> {
        let told = |said: &mut Said| match mem::replace(said, Said::Done) {
            Said::Told(outcome) => Some(outcome),
            Said::Done => None,
            waits @ Said::Wait(_) => {
                *said = waits;
                None
            }
        };
        let mut said = self.said.lock();
        if let Said::Wait(known) = &*said {
            if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
                // To clone a waker, and to drop one, may do anything: it is done without the lock.
                drop(said);
                let waker = waker.clone();
                let mut said = self.said.lock();
                let old = match &mut *said {
                    Said::Wait(known) => known.replace(waker),
                    Said::Told(_) | Said::Done => Some(waker),
                };
                let outcome = told(&mut said);
                drop(said);
                drop(old);
                return outcome;
            }
        }
        told(&mut said)
    }

    /// Its owner is not to be woken any more. Whoever gives up its place does so first: to drop a waker may do anything, and is
    /// not done under a lock.
    pub(crate) fn forget_waker(&self) {
        let waker = match &mut *self.said.lock() {
            Said::Wait(waker) => waker.take(),
            Said::Told(_) | Said::Done => None,
        };
        drop(waker);
    }

    pub(super) fn waits(&self) -> bool {
        matches!(*self.said.lock(), Said::Wait(_))
    }

    /// Tells its owner, who is to be woken.
    pub(super) fn tell(&self, outcome: Outcome) -> Option<Waker> {
        match mem::replace(&mut *self.said.lock(), Said::Told(outcome)) {
            Said::Wait(waker) => waker,
            Said::Told(_) | Said::Done => None,
        }
    }

    /// Its owner does not want it any more.
    pub(super) fn give_up(&self) -> GivenUp {
        match mem::replace(&mut *self.said.lock(), Said::Done) {
            Said::Wait(_) => GivenUp::Waiting,
            Said::Told(Outcome::Go(spent)) => GivenUp::Gone(spent),
            Said::Told(_) | Said::Done => GivenUp::Nothing,
        }
    }

    /// Its owner is polled.
    pub(crate) fn comes_by(&self) {
        // Relaxed, here and below: it orders nothing, and one who is woken too often loses nothing.
        if self.was_woken.load(Ordering::Relaxed) {
            self.comes.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn comes(&self) -> bool {
        self.comes.load(Ordering::Relaxed)
    }

    /// Who is to be woken, once.
    pub(super) fn waker(&self) -> Option<Waker> {
        let waker = match &mut *self.said.lock() {
            Said::Wait(waker) => waker.take(),
            _ => None,
        };
        if waker.is_some() {
            self.was_woken.store(true, Ordering::Relaxed);
        }
        waker
    }
}

/// Under its lock one value is put in another's place, which no panic can leave half done.
impl RefUnwindSafe for Place {}
impl UnwindSafe for Place {}

/// As a [`Place`].
impl RefUnwindSafe for Bell {}
impl UnwindSafe for Bell {}

/// What a timer calls when it ends: it wakes the first in the queue, and the keeper.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    pub(super) wakes: Mutex<Vec<Arc<Place>>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let places = self.wakes.lock().clone();
        for waker in places.iter().filter_map(|place| place.waker()) {
            waker.wake();
        }
    }
}
