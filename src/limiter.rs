//! [`Limiter`]: what every rule can be asked.

use crate::decision::Decision;
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
pub trait Limiter: sealed::Sealed {
    /// What the rule keeps of one client.
    type State;

    /// The limit and its period.
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
    fn check(
        &self,
        state: &mut Self::State,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh>;

    /// The decision that [`check`](Self::check) would take, changing nothing.
    ///
    /// Its [`remaining`](Decision::remaining) and [`reset_after`](Decision::reset_after) are those before the charge.
    ///
    /// # Errors
    ///
    /// [`CostTooHigh`] if no wait would ever let `cost` pass.
    fn peek(&self, state: &Self::State, now: Timestamp, cost: u64)
    -> Result<Decision, CostTooHigh>;

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
}

pub(crate) mod sealed {
    /// Keeps [`Limiter`](super::Limiter) ours to extend.
    pub trait Sealed {}
}
