//! [`Sleepers`]: those whom a [`ManualClock`] wakes when it is moved.

use std::collections::BTreeMap;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Clock, ManualClock};
use crate::time::Timestamp;

/// Timers by the instant at which they end.
#[derive(Debug, Default)]
pub(super) struct Sleepers(Mutex<Armed>);

#[derive(Debug, Default)]
struct Armed {
    timers: BTreeMap<Id, Waker>,
    next_number: u64,
    /// How far the clock was set back, all in all: a timer takes as long as it takes, whatever is done to the clock.
    set_back: Duration,
}

/// When a timer ends, on a clock that was never set back, and which it is.
type Id = (Timestamp, u64);

impl Sleepers {
    /// Moves the clock, and wakes all whose timers are over then; `show` says what it showed before and shows now.
    pub(super) fn wake_after(&self, show: impl FnOnce() -> [Timestamp; 2]) {
        let mut armed = self.0.lock();
        let [before, now] = show();
        armed.set_back += before.saturating_duration_since(now);
        let over = (now + armed.set_back, u64::MAX);
        let later = armed.timers.split_off(&over);
        let due = mem::replace(&mut armed.timers, later);
        drop(armed);
        due.into_values().for_each(Waker::wake);
    }

    fn len(&self) -> usize {
        self.0.lock().timers.len()
    }

    fn first(&self) -> Option<Timestamp> {
        let armed = self.0.lock();
        let first = armed.timers.first_key_value();
        first.map(|(&(ends_at, _), _)| ends_at - armed.set_back)
    }
}

/// As timers: sleepers are woken when the clock has gone on by as much as they sleep; to set it back does not prolong that.
impl ManualClock {
    /// How many timers are armed.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        self.shown().sleepers.len()
    }

    /// When the first of them ends.
    #[must_use]
    pub fn next_sleeper(&self) -> Option<Timestamp> {
        self.shown().sleepers.first()
    }

    /// Moves on to the first instant at which a timer ends, and wakes it; says when that is. `None`, and nothing is moved,
    /// if none is armed.
    pub fn advance_to_next_sleeper(&self) -> Option<Timestamp> {
        let ends_at = self.next_sleeper()?;
        self.set(ends_at.max(self.now()));
        Some(ends_at)
    }
}

/// A timer of a [`ManualClock`].
#[derive(Debug)]
pub struct ManualSleep {
    /// On a clock that was never set back.
    ends_at: Timestamp,
    clock: ManualClock,
    armed: Option<Id>,
}

impl ManualSleep {
    pub(crate) fn new(clock: &ManualClock, duration: Duration) -> Self {
        let armed = clock.shown().sleepers.0.lock();
        let ends_at = clock.now() + armed.set_back + duration;
        drop(armed);
        Self {
            ends_at,
            clock: clock.clone(),
            armed: None,
        }
    }
}

impl Future for ManualSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock.clone();
        // The clock is read under the lock: whoever moves it comes by here afterwards.
        let mut armed = clock.shown().sleepers.0.lock();
        if clock.now() + armed.set_back >= self.ends_at {
            if let Some(id) = self.armed.take() {
                armed.timers.remove(&id);
            }
            return Poll::Ready(());
        }
        let id = self.armed.unwrap_or_else(|| {
            armed.next_number += 1;
            (self.ends_at, armed.next_number)
        });
        armed.timers.insert(id, context.waker().clone());
        self.armed = Some(id);
        Poll::Pending
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        if let Some(id) = self.armed {
            self.clock.shown().sleepers.0.lock().timers.remove(&id);
        }
    }
}
