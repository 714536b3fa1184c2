//! The simplest repair of the fixed window: two counters, and the guess that the previous window's requests were spread
//! evenly over it.
//!
//! 60 per minute, 60 in the previous minute, 12 s into this one with 12 counted: four fifths of the previous 60 are still
//! within the last minute, so 48 + 12 = 60 are used and nothing passes. One does in 1 s, when 47 + 12 + 1 = 60.
//!
//! Where implementations break is rounding: floored, 9.5 of 10 lets one in; in floating point, which way 59.999… falls
//! is luck. Here both sides are multiplied by the period, and the comparison is between whole numbers.
//!
//! Its surprising consequence is that the guess errs both ways: a client that spent its limit at the *end* of the
//! previous window is let in too early, and one that spent it at the *start* too late.

use core::fmt;
use core::time::Duration;

use super::debt::{DebtCap, max_debt_builders};
use super::grid::{Grid, Opening};
use crate::decision::{CounterBasis, Decision, Receipt, Recorded, RuleBasis};
use crate::error::{CostTooHigh, DebtError};
use crate::limiter::{Limiter, sealed};
use crate::quota::Quota;
use crate::time::Timestamp;

/// Two counters on a grid of windows, the previous one weighed by how much of it is still within a period.
///
/// With e the time since the window's start, used = previous·(P − e)/P + current, as an exact fraction; a cost c is
/// allowed iff used + c ≤ L. A state takes 24 bytes.
///
/// Its weakness is the approximation: it takes the previous window's requests for evenly spread. A client that
/// spent its limit at the end of a window gets more than L within a period (up to nearly 2·L at worst, where
/// the [`SlidingLog`](crate::SlidingLog) gives L), and one that spent it at the start waits longer than it should.
///
/// Source: Cloudflare, "How we built rate limiting capable of scaling to millions of domains", 2017; made exact here.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Direct, Quota, SlidingWindowCounter, Timestamp};
///
/// let limiter = Direct::new(SlidingWindowCounter::new(Quota::per_minute(60)));
/// limiter.check_n(60, Timestamp::from_secs(0))?;
/// limiter.check_n(12, Timestamp::from_secs(72))?;
/// let refused = limiter.check(Timestamp::from_secs(72));
/// assert_eq!(refused.retry_after(), Duration::from_secs(1));
/// # Ok::<(), tollgate::CostTooHigh>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlidingWindowCounter {
    quota: Quota,
    grid: Grid,
    cap: DebtCap,
}

/// What a [`SlidingWindowCounter`] keeps of a client: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SlidingWindowCounterState {
    window: Opening,
    previous: u64,
    current: u64,
}

impl SlidingWindowCounter {
    /// Windows of `quota`'s period on the calendar's grid.
    #[must_use]
    pub const fn new(quota: Quota) -> Self {
        Self {
            quota,
            grid: Grid::new(quota, Duration::ZERO),
            cap: DebtCap::DEFAULT,
        }
    }

    /// The same with its grid moved by `offset`, of which only what it leaves over whole periods counts.
    #[must_use]
    pub const fn with_offset(self, offset: Duration) -> Self {
        Self {
            grid: Grid::new(self.quota, offset),
            ..self
        }
    }

    max_debt_builders!("limit");

    const fn with_cap(self, cap: DebtCap) -> Self {
        Self { cap, ..self }
    }

    const fn cap(&self) -> DebtCap {
        self.cap
    }

    const fn grants(&self) -> u64 {
        self.quota.limit()
    }

    /// By how much the grid lies after the epoch's; less than the period.
    #[must_use]
    pub const fn offset(&self) -> Duration {
        self.grid.offset()
    }

    /// The window that holds `now`, and what the counters say in it.
    #[inline]
    fn find(&self, state: &SlidingWindowCounterState, now: Timestamp, cost: u64) -> CounterFound {
        let (window, previous, current, elapsed_ns) = match self.grid.elapsed_in(state.window, now)
        {
            Some(elapsed_ns) => (state.window, state.previous, state.current, elapsed_ns),
            None => {
                let window = self.grid.window_at(now);
                let elapsed_ns = self.grid.elapsed_in(window, now).unwrap_or(0);
                let previous = if self.grid.follows(window, state.window) {
                    state.current
                } else {
                    0
                };
                (window, previous, 0, elapsed_ns)
            }
        };
        CounterFound {
            window,
            basis: CounterBasis {
                limit: self.quota.limit(),
                period_ns: self.quota.period_ns(),
                cost,
                previous,
                current,
                elapsed_ns,
            },
        }
    }
}

impl Limiter for SlidingWindowCounter {
    type State = SlidingWindowCounterState;
    type Found = CounterFound;

    #[inline]
    fn quota(&self) -> Quota {
        self.quota
    }

    #[inline]
    fn fresh(&self, _now: Timestamp) -> SlidingWindowCounterState {
        SlidingWindowCounterState::default()
    }

    fn refund(
        &self,
        state: &mut SlidingWindowCounterState,
        now: Timestamp,
        receipt: Receipt,
    ) -> u64 {
        // In the state's own window, not in that of `now`: a refund is no charge, and later calls may be of earlier
        // stamps.
        let charged = self.grid.window_at(receipt.charged_at());
        let window = self.grid.window_at(now);
        let is_current = self.grid.elapsed_in(state.window, now).is_some();
        let count =
            if charged == state.window && (is_current || self.grid.follows(window, state.window)) {
                &mut state.current
            } else if is_current && self.grid.follows(state.window, charged) {
                &mut state.previous
            } else {
                return 0;
            };
        let given = receipt.cost().min(*count);
        *count -= given;
        given
    }

    fn carry(
        &self,
        from: &Self,
        state: SlidingWindowCounterState,
        now: Timestamp,
    ) -> SlidingWindowCounterState {
        let found = from.find(&state, now, 0);
        if self.grid == from.grid {
            return SlidingWindowCounterState {
                window: found.window,
                previous: found.basis.previous,
                current: found.basis.current,
            };
        }
        SlidingWindowCounterState {
            window: self.grid.window_at(now),
            previous: 0,
            current: found.basis.used(false).min(Quota::MAX_LIMIT),
        }
    }

    #[inline]
    fn idle_at(&self, state: &SlidingWindowCounterState) -> Timestamp {
        let end = self.grid.end_of(state.window);
        if state.current > 0 {
            // What is counted now weighs until the next window ends.
            end + self.quota.period()
        } else if state.previous > 0 {
            end
        } else {
            Timestamp::EPOCH
        }
    }

    #[inline]
    fn look(
        &self,
        state: &SlidingWindowCounterState,
        now: Timestamp,
        cost: u64,
    ) -> Result<CounterFound, CostTooHigh> {
        let limit = self.quota.limit();
        if cost > limit {
            return Err(CostTooHigh::new(cost, limit));
        }
        Ok(self.find(state, now, cost))
    }

    #[inline]
    fn admits(&self, found: &CounterFound) -> bool {
        found.admits()
    }

    #[inline]
    fn take(
        &self,
        state: &mut SlidingWindowCounterState,
        _now: Timestamp,
        found: &CounterFound,
        cost: u64,
    ) {
        *state = SlidingWindowCounterState {
            window: found.window,
            previous: found.basis.previous,
            current: found.basis.current + cost,
        };
    }

    #[inline]
    fn decision(&self, found: &CounterFound, now: Timestamp, taken: u64) -> Decision {
        Decision::new(RuleBasis::Counter(found.basis), now, found.admits(), taken)
    }

    fn record(
        &self,
        state: &mut SlidingWindowCounterState,
        now: Timestamp,
        units: u64,
    ) -> Recorded {
        let found = self.find(state, now, 0);
        let used = found.basis.used(false);
        let recorded = self.cap.most_of(units, used, self.quota.limit());
        if recorded > 0 {
            self.take(state, now, &found, recorded);
        }
        Recorded::of(recorded)
    }

    fn redate(&self, state: &mut SlidingWindowCounterState, from: Timestamp, to: Timestamp) {
        let CounterFound { basis, .. } = self.find(state, from, 0);
        *state = SlidingWindowCounterState {
            window: self.grid.window_at(to),
            previous: basis.previous,
            current: basis.current,
        };
    }

    fn is_sound(&self, state: &SlidingWindowCounterState) -> bool {
        state.previous <= Quota::MAX_LIMIT
            && state.current <= Quota::MAX_LIMIT
            && state.window.is_sound()
    }
}

impl sealed::Sealed for SlidingWindowCounter {}

impl fmt::Debug for SlidingWindowCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlidingWindowCounter({}", self.quota)?;
        if !self.offset().is_zero() {
            write!(f, ", offset {:?}", self.offset())?;
        }
        self.cap.describe(f)?;
        f.write_str(")")
    }
}

/// The window that a request falls into, and what the counters say in it.
#[derive(Clone, Copy, Debug)]
pub struct CounterFound {
    window: Opening,
    basis: CounterBasis,
}

impl CounterFound {
    #[inline]
    const fn admits(&self) -> bool {
        self.basis.cost == 0 || self.basis.admits()
    }
}
