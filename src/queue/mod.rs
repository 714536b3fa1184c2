//! Those who wait for one client's limit, and the counter at which they ask: one state with its [`Queue`](line::Queue).

mod line;
mod place;

use core::fmt;
use std::sync::Arc;
use std::task::Waker;

use parking_lot::MutexGuard;

pub(crate) use self::line::Queue;
use self::place::{Bell, GivenUp};
pub(crate) use self::place::{Outcome, Place};
use crate::decision::{Decision, Spent};
use crate::error::CostTooHigh;
use crate::holder::{Instant, SET_BACK_NS};
use crate::limiter::Limiter;
use crate::time::Timestamp;

/// How long a queue may become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) max_wait_ns: u64,
    pub(crate) max_waiters: usize,
    pub(crate) max_units: u64,
    pub(crate) evicts_oldest: bool,
    /// Whoever joins must fit, with all who wait, into what the limit admits at once.
    pub(crate) within_burst: bool,
    /// Whoever joins is promised the instant at which it may go, and is neither sent away nor pushed out.
    pub(crate) books: bool,
}

impl Bounds {
    pub(crate) const OF_A_BOOKING: Self = Self {
        max_wait_ns: u64::MAX,
        max_waiters: usize::MAX,
        max_units: u64::MAX,
        evicts_oldest: false,
        within_burst: false,
        books: true,
    };
}

/// A place that was taken in a queue.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) place: Arc<Place>,
    /// How long its turn is away, as it looks now.
    pub(crate) wait_ns: u64,
}

/// Why somebody was not let into a queue.
#[derive(Debug)]
pub(crate) enum Refusal {
    TooLong(Box<Decision>),
    Full(Box<Decision>),
    Never(CostTooHigh),
}

/// One state with its queue, under the lock of whoever holds them, at one instant.
#[doc(hidden)]
pub struct Counter<'a, L: Limiter> {
    limiter: &'a L,
    state: &'a mut L::State,
    queue: &'a mut Option<Box<Queue<L::State>>>,
    instant: Instant,
    left: Left,
}

/// What is left to do for whoever holds the state.
#[derive(Default)]
pub(crate) struct Left {
    /// To be woken when the lock is released.
    pub(crate) woken: Vec<Waker>,
    /// Somebody joined the queue, or something was given back: refusals that are remembered may be wrong now.
    pub(crate) forgets_refusals: bool,
    /// The latest charge, if there was one.
    pub(crate) charged_at: Option<Timestamp>,
}

/// The timer that a queue needs.
pub(crate) struct Timer {
    pub(crate) ends_at: Timestamp,
    pub(crate) wait_ns: u64,
    /// Whom it wakes.
    pub(crate) bell: Arc<Bell>,
}

impl<'a, L: Limiter> Counter<'a, L> {
    pub(crate) fn new(
        limiter: &'a L,
        state: &'a mut L::State,
        queue: &'a mut Option<Box<Queue<L::State>>>,
        (instant, is_stamped): (Instant, bool),
    ) -> Self {
        let instant = match queue {
            // Without a caller's stamp, time has come as far as the queue has seen, though nothing was charged since.
            Some(queue) if !is_stamped => instant.not_before(queue.from()),
            _ => instant,
        };
        Self {
            limiter,
            state,
            queue,
            instant,
            left: Left::default(),
        }
    }

    /// The last thing done at it: an empty queue is dropped.
    pub(crate) fn closed(self) -> Left {
        if self.queue.as_ref().is_some_and(|queue| queue.is_empty()) {
            *self.queue = None;
        }
        self.left
    }

    /// Makes the state fresh; says whether anybody waits for it.
    pub(crate) fn reset(&mut self) -> bool {
        let is_awaited = self.queue.as_ref().is_some_and(|queue| !queue.is_empty());
        if is_awaited {
            self.change(|limiter, state, now| *state = limiter.fresh(now));
        }
        is_awaited
    }

    /// Lets all go who may by now. Whatever else is done at the counter begins with it: so what happened until now is as if every
    /// timer had been on time.
    pub(crate) fn serve(&mut self) {
        let Some(queue) = self.queue else { return };
        if queue.from().nanos_since(self.instant.now) > SET_BACK_NS {
            // The clock was set back, by less than since the latest charge: nobody is to wait for it to catch up.
            queue.redate(self.instant.now);
        }
        let last = queue.serve(
            self.limiter,
            self.state,
            self.instant.now,
            &mut self.left.woken,
        );
        self.left.charged_at = self.left.charged_at.max(last);
    }

    /// Takes a place behind those who wait, or goes at once if nobody does and the limit lets it.
    pub(crate) fn join(&mut self, cost: u64, bounds: &Bounds) -> Result<Joined, Refusal> {
        self.serve();
        let (limiter, now) = (self.limiter, self.instant.now);
        let queue = self.queue.get_or_insert_with(|| Box::new(Queue::new(now)));
        // Waits are counted from the caller's own stamp.
        let late_ns = self.instant.lateness_ns();
        let bounds = Bounds {
            max_wait_ns: bounds.max_wait_ns.saturating_sub(late_ns),
            ..*bounds
        };
        let joined = queue.join(
            limiter,
            self.state,
            (cost, now),
            &bounds,
            &mut self.left.woken,
        );
        let joined = joined.map_err(|refusal| refusal.counted_from(self.instant));
        self.left.forgets_refusals = true;
        self.serve();
        let mut joined = joined?;
        if joined.wait_ns > 0 {
            joined.wait_ns = joined.wait_ns.saturating_add(late_ns);
        }
        Ok(joined)
    }

    /// The same, if anybody waits.
    pub(crate) fn join_others(
        &mut self,
        cost: u64,
        bounds: &Bounds,
    ) -> Option<Result<Joined, Refusal>> {
        self.serve();
        let is_awaited = self.queue.as_ref().is_some_and(|queue| !queue.is_empty());
        is_awaited.then(|| self.join(cost, bounds))
    }

    pub(crate) fn waiters(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.len())
    }

    /// Gives a place up: one who waits leaves, and what one who was let go has spent is given back. Says how many units others
    /// have now.
    pub(crate) fn leave(&mut self, place: &Place) -> u64 {
        self.serve();
        match place.give_up() {
            GivenUp::Waiting => {
                if let Some(queue) = self.queue {
                    queue.leave(place.number, self.instant.now, &mut self.left.woken);
                    self.left.forgets_refusals = true;
                    self.serve();
                }
                place.cost
            }
            GivenUp::Gone(spent) => self.give_back(spent),
            GivenUp::Nothing => 0,
        }
    }

    /// Gives back what somebody has spent who does not go after all.
    pub(crate) fn give_back(&mut self, spent: Spent) -> u64 {
        let Some(receipt) = spent.receipt() else {
            return 0;
        };
        self.change(|limiter, state, now| limiter.refund(state, now, receipt))
    }

    /// Changes the state, for better or for worse; says what `change` does.
    pub(crate) fn change<T>(
        &mut self,
        change: impl FnOnce(&L, &mut L::State, Timestamp) -> T,
    ) -> T {
        self.serve();
        let changed = change(self.limiter, self.state, self.instant.now);
        self.changed();
        changed
    }

    /// Time has come to now, as by a charge.
    pub(crate) fn pass_time(&mut self) {
        self.left.charged_at = self.left.charged_at.max(Some(self.instant.now));
    }

    /// The state was changed by somebody who does not wait: those who wait go by what it is now.
    pub(crate) fn changed(&mut self) {
        self.disturb(false);
    }

    /// The limit is another: the same, and whoever asks for more than it ever grants is told.
    pub(crate) fn relimited(&mut self) {
        self.disturb(true);
    }

    fn disturb(&mut self, is_relimited: bool) {
        self.left.forgets_refusals = true;
        if let Some(queue) = self.queue {
            let now = self.instant.now;
            let woken = &mut self.left.woken;
            queue.disturb(self.limiter, self.state, (now, is_relimited), woken);
        }
        self.serve();
    }

    /// Has `place` keep the timer of its queue, if nobody does: until when.
    pub(crate) fn keep(&mut self, place: &Place) -> Option<Timer> {
        self.serve();
        if !place.waits() {
            return None;
        }
        let queue = self.queue.as_mut()?;
        let ends_at = queue.keep(self.limiter, self.state, place, self.instant.now)?;
        let wait_ns = ends_at.nanos_since(self.instant.now);
        Some(Timer {
            ends_at,
            wait_ns: wait_ns.saturating_add(self.instant.lateness_ns()),
            bell: Arc::clone(&queue.bell),
        })
    }

    /// The decision on a request of somebody who does not wait and finds others who do; `None` if nobody does by now.
    ///
    /// A refusal leaves nothing behind, whatever its stamp: those who may go by it are let go only if it is not refused, and
    /// otherwise come by themselves, by their own clock.
    pub(crate) fn behind(&mut self, cost: u64) -> Option<Result<Decision, CostTooHigh>> {
        let decision = self.peek(cost)?;
        let spends = |decision: &Decision| decision.is_allowed() && cost > 0;
        if decision.as_ref().is_ok_and(spends) {
            self.serve();
            return None;
        }
        Some(decision)
    }

    /// The decision that a request would be told, by whom others wait for; nothing is changed.
    pub(crate) fn peek(&mut self, cost: u64) -> Option<Result<Decision, CostTooHigh>> {
        let queue = self.queue.as_mut().filter(|queue| !queue.is_empty())?;
        let now = self.instant.now;
        let decision = queue.peek(self.limiter, self.state, now, cost, &mut self.left.woken);
        Some(decision.map(|decision| decision.counted_from(self.instant.lateness_ns())))
    }

    /// What each of several limits holds, of a request that is refused because others wait.
    pub(crate) fn report(
        &mut self,
        cost: u64,
        report: &mut dyn FnMut(usize, Decision),
    ) -> Result<(), CostTooHigh> {
        let (limiter, now) = (self.limiter, self.instant.now);
        let late_ns = self.instant.lateness_ns();
        let found = limiter.look(self.state, now, cost)?;
        limiter.each(&found, now, 0, &mut |member, decision| {
            report(member, decision.counted_from(late_ns));
        });
        Ok(())
    }
}

impl<L: Limiter> fmt::Debug for Counter<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter").finish_non_exhaustive()
    }
}

/// Who holds states that can be waited for: a [`Direct`](crate::Direct), and a [`Keyed`](crate::Keyed) for each of its keys.
pub trait Waits<Q: ?Sized>: sealed::Sealed {
    #[doc(hidden)]
    type Limiter: Limiter;

    /// Lets a request pass that may go now and need not be delayed, and spends its cost; says what was spent. Otherwise
    /// nothing is changed.
    #[doc(hidden)]
    fn pass(&self, key: &Q, cost: u64, now: Timestamp) -> Option<Spent>;

    /// Decides a request by what `take` does, and as a check does if others wait. `take` is told how late the caller's stamp is, too.
    #[doc(hidden)]
    fn take_by(
        &self,
        key: &Q,
        cost: u64,
        now: Timestamp,
        take: impl FnMut(
            &Self::Limiter,
            &mut <Self::Limiter as Limiter>::State,
            (Timestamp, u64),
        ) -> Result<Decision, CostTooHigh>,
    ) -> Result<Decision, CostTooHigh>;

    /// Asks at the counter of `key` at `now`; without a stamp, at the instant that the holder's time has come to. `None` if the client
    /// is not known: then nobody waits for it.
    #[doc(hidden)]
    fn at_counter<T>(
        &self,
        key: &Q,
        now: Option<Timestamp>,
        ask: impl FnOnce(&mut Counter<'_, Self::Limiter>) -> T,
    ) -> Option<T>;
}

macro_rules! waits_through {
    ($pointer:ty) => {
        impl<Q: ?Sized, S: Waits<Q> + ?Sized> Waits<Q> for $pointer {
            type Limiter = S::Limiter;

            #[inline]
            fn pass(&self, key: &Q, cost: u64, now: Timestamp) -> Option<Spent> {
                (**self).pass(key, cost, now)
            }

            #[inline]
            fn take_by(
                &self,
                key: &Q,
                cost: u64,
                now: Timestamp,
                take: impl FnMut(
                    &Self::Limiter,
                    &mut <Self::Limiter as Limiter>::State,
                    (Timestamp, u64),
                ) -> Result<Decision, CostTooHigh>,
            ) -> Result<Decision, CostTooHigh> {
                (**self).take_by(key, cost, now, take)
            }

            #[inline]
            fn at_counter<T>(
                &self,
                key: &Q,
                now: Option<Timestamp>,
                ask: impl FnOnce(&mut Counter<'_, Self::Limiter>) -> T,
            ) -> Option<T> {
                (**self).at_counter(key, now, ask)
            }
        }
    };
}

waits_through!(&S);
waits_through!(Arc<S>);

pub(crate) mod sealed {
    /// Keeps [`Waits`](super::Waits) ours to extend.
    pub trait Sealed {}

    impl<S: Sealed + ?Sized> Sealed for &S {}
    impl<S: Sealed + ?Sized> Sealed for std::sync::Arc<S> {}
}

impl Refusal {
    fn full(decision: Decision) -> Self {
        Self::Full(Box::new(decision))
    }

    fn counted_from(self, instant: Instant) -> Self {
        let count =
            |decision: Box<Decision>| Box::new(decision.counted_from(instant.lateness_ns()));
        match self {
            Self::TooLong(decision) => Self::TooLong(count(decision)),
            Self::Full(decision) => Self::Full(count(decision)),
            Self::Never(never) => Self::Never(never),
        }
    }
}

/// Wakes those who were let go: without a lock, for a waker may do anything.
pub(crate) fn wake_all(woken: Vec<Waker>) {
    woken.into_iter().for_each(Waker::wake);
}

/// Asks at a counter under the lock until nobody is to be woken, or there is an answer; who is to be, is woken without the lock,
/// in which others may have come.
pub(crate) fn serve_until_quiet<T, A>(
    guard: &mut MutexGuard<'_, T>,
    mut ask: impl FnMut(&mut T) -> (Option<A>, Vec<Waker>),
) -> Option<A> {
    loop {
        let (answer, woken) = ask(guard);
        let is_quiet = woken.is_empty();
        if !is_quiet {
            MutexGuard::unlocked(guard, || wake_all(woken));
        }
        if is_quiet || answer.is_some() {
            return answer;
        }
    }
}

/// Changes something under the lock, and wakes whom it says without.
pub(crate) fn wake_after<T>(
    guard: &mut MutexGuard<'_, T>,
    change: impl FnOnce(&mut T) -> Vec<Waker>,
) {
    let woken = change(guard);
    if !woken.is_empty() {
        MutexGuard::unlocked(guard, || wake_all(woken));
    }
}
