//! [`Limiter`]: what every rule can be asked.

use core::fmt;

#[cfg(feature = "wait")]
use crate::decision::Spent;
use crate::decision::{Decision, Receipt, Recorded, Tail};
use crate::error::CostTooHigh;
use crate::quota::Quota;
use crate::time::Timestamp;

/// A rule that says whether a client may go: plain state in, decision out.
///
/// A limiter is a small immutable value (its configuration); what it knows of one client is a [`State`](Self::State)
/// that somebody else keeps. The time is an argument. There is no lock, no clock and no allocation in a decision (but
/// for the entries of a [`SlidingLog`](crate::SlidingLog)), so the same rule serves one state
/// (`Direct`), a state per client (`Keyed`), a simulation or a replay of a log.
///
/// Several limits are one: a tuple of limiters is a limiter, and so is [`All`](crate::All).
///
/// # What the caller owes
///
/// Time must not run back between calls on one state: the holders of this crate see to that (they decide a call at the
/// later of its stamp and the latest charge they have seen). With a stamp that does run back a rule is still *total*:
/// it neither panics nor wraps, but it may give or refuse more than its definition says.
///
/// The trait is sealed: it will grow with the crate, and a state written by one version must be readable by
/// the next.
///
/// ```
/// use tollgate::{Limiter, Quota, Timestamp, TokenBucket};
///
/// let limiter = TokenBucket::new(Quota::per_second(2));
/// let now = Timestamp::from_secs(1);
/// let mut state = limiter.fresh(now);
/// assert!(limiter.check(&mut state, now, 2)?.is_allowed());
/// let refused = limiter.check(&mut state, now, 1)?;
/// assert!(!refused.is_allowed());
/// assert!(limiter.check(&mut state, now + refused.retry_after(), 1)?.is_allowed());
/// # Ok::<(), tollgate::CostTooHigh>(())
/// ```
pub trait Limiter: Clone + fmt::Debug + sealed::Sealed {
    /// What the rule keeps of one client.
    type State: Clone;

    /// Whether it may let requests pass that should wait for a queue to drain first.
    #[doc(hidden)]
    const SHAPES: bool = false;

    /// Whether it is a queue, and nothing besides.
    #[doc(hidden)]
    const IS_QUEUE: bool = false;

    /// What a rule has found of a state at an instant, for a cost: enough to decide, to charge and to report.
    #[doc(hidden)]
    type Found;

    /// The limit and its period; of several limits, the first's.
    fn quota(&self) -> Quota;

    /// The state of a client that has not been seen before.
    fn fresh(&self, now: Timestamp) -> Self::State;

    /// Decides whether `cost` units may be spent at `now`, and spends them if so.
    ///
    /// A refused call, and one of cost 0, changes nothing that a later decision could see.
    ///
    /// # Errors
    ///
    /// [`CostTooHigh`] if no wait would ever let `cost` pass; the state is untouched.
    #[inline]
    fn check(
        &self,
        state: &mut Self::State,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        let found = self.look(state, now, cost)?;
        let takes = cost > 0 && self.admits(&found);
        if takes {
            self.take(state, now, &found, cost);
        }
        Ok(self.decision(&found, now, if takes { cost } else { 0 }))
    }

    /// The decision that [`check`](Self::check) would take, changing nothing.
    ///
    /// Its [`remaining`](Decision::remaining) and [`reset_after`](Decision::reset_after) are those before the charge.
    ///
    /// # Errors
    ///
    /// [`CostTooHigh`] if no wait would ever let `cost` pass.
    #[inline]
    fn peek(
        &self,
        state: &Self::State,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        Ok(self.decision(&self.look(state, now, cost)?, now, 0))
    }

    /// Decides as [`check`](Self::check) does, and tells besides what each of several limits says by itself, in order: of
    /// a refused call the members tell what they hold uncharged.
    ///
    /// # Errors
    ///
    /// [`CostTooHigh`] if no wait would ever let `cost` pass; nothing is reported.
    fn check_each(
        &self,
        state: &mut Self::State,
        now: Timestamp,
        cost: u64,
        report: &mut dyn FnMut(usize, Decision),
    ) -> Result<Decision, CostTooHigh> {
        let found = self.look(state, now, cost)?;
        let takes = cost > 0 && self.admits(&found);
        if takes {
            self.take(state, now, &found, cost);
        }
        let taken = if takes { cost } else { 0 };
        self.each(&found, now, taken, report);
        Ok(self.decision(&found, now, taken))
    }

    /// Grants as many of `cost` units as there are at `now`, 0 to all of them, and spends those:
    /// [`granted`](Decision::granted) says how many. If there is none, it is a refusal, and its wait is for one unit.
    #[inline]
    fn at_most(&self, state: &mut Self::State, now: Timestamp, cost: u64) -> Decision {
        let cost = match cost {
            0 | 1 => cost,
            _ => cost.min(self.available(state, now).max(1)),
        };
        expect_grantable(self.check(state, now, cost))
    }

    /// Records `cost` units that were spent already, whether the limit has room for them or not: the client may come
    /// to owe ([`debt`](Decision::debt)).
    ///
    /// What lies above the cap on debt is not recorded ([`unrecorded`](Decision::unrecorded)). The decision tells how
    /// the client stands afterwards: it is allowed if a request of cost 1 would pass now, and its
    /// [`retry_after`](Decision::retry_after) says when one will.
    ///
    /// The cap bounds how long a single charge can shut a client out; it is what the limit grants at once unless
    /// `with_max_debt` says otherwise. A bucket's debt is repaid at its rate. A fixed window's ends with the window, a
    /// counter's with the next one, and a log's a period after it was charged.
    #[inline]
    fn charge(&self, state: &mut Self::State, now: Timestamp, cost: u64) -> Decision {
        let recorded = match cost {
            0 => Recorded::NOTHING,
            _ => self.record(state, now, cost),
        };
        expect_grantable(self.peek(state, now, 1)).after_charge(recorded, cost)
    }

    /// Gives back what a charge has spent, and says how many whole units that were.
    ///
    /// Never above the limit; and only what the charge still weighs: a fixed window credits only the window that was
    /// charged, a counter also the previous one, a log the run that it stored, a leaky bucket only the tail of its queue,
    /// for those behind were told their delays (and only while it drains at the rate at which that charge joined it). To
    /// refund what was not spent is harmless.
    fn refund(&self, state: &mut Self::State, now: Timestamp, receipt: Receipt) -> u64;

    /// Makes a state of this rule from one that was `from`'s until now, the client's usage carried over.
    ///
    /// Buckets carry what is missing from full, windows and logs what they count, rounded against the client by less than
    /// what accrues in a nanosecond. (A counter on another grid cannot keep a fraction of a unit, and rounds it up.) What
    /// is used above the new limit is debt. From one kind of algorithm to another nothing is carried: the state is fresh.
    #[must_use]
    fn carry(&self, from: &Self, state: Self::State, now: Timestamp) -> Self::State;

    /// The first instant at which the state is *idle*: it answers every question as a fresh one would, and may be
    /// forgotten at no loss.
    ///
    /// [`Timestamp::MAX`] means: not within the range of stamps.
    fn idle_at(&self, state: &Self::State) -> Timestamp;

    /// Whether the state is idle at `now`.
    ///
    /// At [`Timestamp::MAX`] time stands still, so a state that would become idle only then or later never is.
    #[inline]
    fn is_idle(&self, state: &Self::State, now: Timestamp) -> bool {
        let idle_at = self.idle_at(state);
        idle_at <= now && idle_at < Timestamp::MAX
    }

    /// The bytes that the state takes: its own size, and what it owns on the heap.
    #[inline]
    fn state_bytes(&self, _state: &Self::State) -> usize {
        size_of::<Self::State>()
    }

    /// Looks at a state for a request of `cost`.
    #[doc(hidden)]
    fn look(
        &self,
        state: &Self::State,
        now: Timestamp,
        cost: u64,
    ) -> Result<Self::Found, CostTooHigh>;

    /// Decides as [`check`](Self::check) does, but spends nothing if the request would have to stand in a queue first.
    #[cfg(feature = "wait")]
    #[doc(hidden)]
    fn check_undelayed(
        &self,
        state: &mut Self::State,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        let found = self.look(state, now, cost)?;
        let passes = self.pass(state, now, &found, cost).is_some();
        Ok(self.decision(&found, now, if passes { cost } else { 0 }))
    }

    /// Spends what was found to be there, if the request may go and need not be delayed; says what that was.
    #[cfg(feature = "wait")]
    #[doc(hidden)]
    #[inline]
    fn pass(
        &self,
        state: &mut Self::State,
        now: Timestamp,
        found: &Self::Found,
        cost: u64,
    ) -> Option<Spent> {
        if !self.admits(found) {
            return None;
        }
        if Self::SHAPES && cost > 0 && self.decision(found, now, 0).delay_ns() > 0 {
            return None;
        }
        if cost > 0 {
            self.take(state, now, found, cost);
        }
        Some(self.decision(found, now, cost).spent())
    }

    /// Decides as [`check`](Self::check) does, for one who has waited until now: its instant was the first, be it between two
    /// nanoseconds, at which it could go, and what drains or fills begins there.
    #[cfg(feature = "wait")]
    #[doc(hidden)]
    fn check_in_turn(
        &self,
        state: &mut Self::State,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        self.check(state, now, cost)
    }

    /// Whether what was found lets the request pass.
    #[doc(hidden)]
    fn admits(&self, found: &Self::Found) -> bool;

    /// Whether to take what was admitted spends anything: a limit on trial admits what it would have refused, and spends
    /// nothing then.
    #[doc(hidden)]
    #[inline]
    fn spends(&self, found: &Self::Found) -> bool {
        self.admits(found)
    }

    /// Spends the `cost` that was looked for and admitted; it is not 0.
    #[doc(hidden)]
    fn take(&self, state: &mut Self::State, now: Timestamp, found: &Self::Found, cost: u64);

    /// The decision on what was found, after `taken` units of it were.
    #[doc(hidden)]
    fn decision(&self, found: &Self::Found, now: Timestamp, taken: u64) -> Decision;

    /// The decision of each of several limits.
    #[doc(hidden)]
    #[inline]
    fn each(
        &self,
        found: &Self::Found,
        now: Timestamp,
        taken: u64,
        report: &mut dyn FnMut(usize, Decision),
    ) {
        report(0, self.decision(found, now, taken));
    }

    /// How many whole units are there to be granted.
    #[doc(hidden)]
    #[inline]
    fn available(&self, state: &Self::State, now: Timestamp) -> u64 {
        expect_grantable(self.peek(state, now, 0)).remaining()
    }

    /// Records as many of `units`, which is not 0, as lie below the cap on debt, and says how many.
    #[doc(hidden)]
    fn record(&self, state: &mut Self::State, now: Timestamp, units: u64) -> Recorded;

    /// Where the queue ends, if the rule is one.
    #[doc(hidden)]
    #[inline]
    fn tail(&self, _state: &Self::State) -> Tail {
        Tail::NONE
    }

    /// Makes a state that says at `to`, which is no earlier, what it said at `from`: for a holder whose time takes a step that is
    /// none for its clients.
    #[doc(hidden)]
    fn redate(&self, state: &mut Self::State, from: Timestamp, to: Timestamp);

    /// Whether the state is one that this rule could have come to: what was read from a file may not be.
    #[doc(hidden)]
    fn is_sound(&self, state: &Self::State) -> bool;
}

/// The answer to a cost that is never too high: 0 or 1 (limits and bursts are 1 or more), or what is there to be granted.
#[inline]
pub(crate) fn expect_grantable(decision: Result<Decision, CostTooHigh>) -> Decision {
    match decision {
        Ok(decision) => decision,
        Err(error) => {
            unreachable!("every limit grants a cost of 1, and what it holds, but: {error}")
        }
    }
}

pub(crate) mod sealed {
    /// Keeps [`Limiter`](super::Limiter) ours to extend.
    pub trait Sealed {}
}
