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
}

/// When a timer ends, and which it is.
type Id = (Timestamp, u64);

impl Sleepers {
    /// Wakes all whose timers end by `now`.
    pub(super) fn wake_until(&self, now: Timestamp) {
        let mut armed = self.0.lock();
        let later = armed.timers.split_off(&(now, u64::MAX));
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
        first.map(|(&(ends_at, _), _)| ends_at)
    }
}

/// As timers: [`sleepers`](ManualClock::sleepers) are woken when the clock is moved to where they are due.
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
    ends_at: Timestamp,
    clock: ManualClock,
    armed: Option<Id>,
}

impl ManualSleep {
    pub(crate) fn new(clock: &ManualClock, duration: Duration) -> Self {
        Self {
            ends_at: clock.now() + duration,
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
        if clock.now() >= self.ends_at {
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
