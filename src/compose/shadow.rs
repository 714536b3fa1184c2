//! [`Shadow`]: a limit on trial.

use crate::decision::{Decision, Receipt, Recorded, Tail};
use crate::error::CostTooHigh;
use crate::limiter::{Limiter, sealed};
use crate::quota::Quota;
use crate::time::Timestamp;

/// A limit that decides and records as ever, but lets every request pass: to try it on live traffic.
///
/// Where the limit would have refused, or could never grant the cost, the decision is allowed and says so
/// ([`would_have_refused`](Decision::would_have_refused)); as a real refusal it spends nothing. Among several limits it
/// may be one: `(real, Shadow::new(tried))` refuses by the first alone.
///
/// ```
/// use tollgate::{Direct, Quota, Shadow, Timestamp, TokenBucket};
///
/// let tried = Direct::new(Shadow::new(TokenBucket::new(Quota::per_minute(1))));
/// let now = Timestamp::from_secs(1_000);
/// assert!(!tried.check(now).would_have_refused());
/// let second = tried.check(now);
/// assert!(second.is_allowed() && second.would_have_refused());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shadow<L>(L);

impl<L: Limiter> Shadow<L> {
    /// Tries `limiter`.
    #[must_use]
    pub const fn new(limiter: L) -> Self {
        Self(limiter)
    }

    /// The limit that is tried.
    #[must_use]
    pub const fn limiter(&self) -> &L {
        &self.0
    }

    #[inline]
    fn fits(&self, found: &ShadowFound<L::Found>) -> bool {
        !found.is_too_high && self.0.admits(&found.found)
    }
}

/// What the tried limit has found.
#[derive(Clone, Copy, Debug)]
pub struct ShadowFound<F> {
    found: F,
    /// It could never grant the cost, and what it found is for a cost of 0.
    is_too_high: bool,
}

impl<L: Limiter> Limiter for Shadow<L> {
    type State = L::State;
    type Found = ShadowFound<L::Found>;

    #[inline]
    fn quota(&self) -> Quota {
        self.0.quota()
    }

    #[inline]
    fn fresh(&self, now: Timestamp) -> L::State {
        self.0.fresh(now)
    }

    fn at_most(&self, state: &mut L::State, now: Timestamp, cost: u64) -> Decision {
        let tried = self.0.at_most(state, now, cost);
        if tried.is_allowed() && tried.granted() == cost {
            tried
        } else {
            tried.in_shadow(cost)
        }
    }

    fn refund(&self, state: &mut L::State, now: Timestamp, receipt: Receipt) -> u64 {
        self.0.refund(state, now, receipt)
    }

    fn carry(&self, from: &Self, state: L::State, now: Timestamp) -> L::State {
        self.0.carry(&from.0, state, now)
    }

    #[inline]
    fn idle_at(&self, state: &L::State) -> Timestamp {
        self.0.idle_at(state)
    }

    #[inline]
    fn is_idle(&self, state: &L::State, now: Timestamp) -> bool {
        self.0.is_idle(state, now)
    }

    fn state_bytes(&self, state: &L::State) -> usize {
        self.0.state_bytes(state)
    }

    #[inline]
    fn look(
        &self,
        state: &L::State,
        now: Timestamp,
        cost: u64,
    ) -> Result<Self::Found, CostTooHigh> {
        match self.0.look(state, now, cost) {
            Ok(found) => Ok(ShadowFound {
                found,
                is_too_high: false,
            }),
            Err(_) => Ok(ShadowFound {
                found: self.0.look(state, now, 0)?,
                is_too_high: true,
            }),
        }
    }

    #[inline]
    fn admits(&self, _found: &Self::Found) -> bool {
        true
    }

    #[inline]
    fn spends(&self, found: &Self::Found) -> bool {
        self.fits(found) && self.0.spends(&found.found)
    }

    #[inline]
    fn take(&self, state: &mut L::State, now: Timestamp, found: &Self::Found, cost: u64) {
        if self.fits(found) {
            self.0.take(state, now, &found.found, cost);
        }
    }

    #[inline]
    fn decision(&self, found: &Self::Found, now: Timestamp, taken: u64) -> Decision {
        if self.fits(found) {
            self.0.decision(&found.found, now, taken)
        } else {
            let refused = self.0.decision(&found.found, now, 0).in_shadow(taken);
            // To a charge that others make, this limit has no part. (Without one, it tells how it stands.)
            if taken > 0 {
                refused.without_tail()
            } else {
                refused
            }
        }
    }

    /// As much as anyone asks for.
    #[inline]
    fn available(&self, _state: &L::State, _now: Timestamp) -> u64 {
        u64::MAX
    }

    fn record(&self, state: &mut L::State, now: Timestamp, units: u64) -> Recorded {
        self.0.record(state, now, units)
    }

    #[inline]
    fn tail(&self, state: &L::State) -> Tail {
        self.0.tail(state)
    }

    fn redate(&self, state: &mut L::State, from: Timestamp, to: Timestamp) {
        self.0.redate(state, from, to);
    }

    fn is_sound(&self, state: &L::State) -> bool {
        self.0.is_sound(state)
    }
}

impl<L> sealed::Sealed for Shadow<L> {}
