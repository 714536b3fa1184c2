//! The simplest limiter there is, the one that `INCR` and `EXPIRE` make: a counter that starts again.
//!
//! Where it breaks: 100 per minute, 100 requests at 00:59.9 and 100 more at 01:00.1. Both windows are within their
//! limit, and 200 have passed in a fifth of a second. Anchoring the window at each client's first request moves the edge
//! to where the client chose it, and does not remove it.

use core::fmt;
use core::time::Duration;

use super::grid::{Grid, Opening};
use crate::decision::{Basis, Decision, WindowBasis};
use crate::error::CostTooHigh;
use crate::limiter::{Limiter, sealed};
use crate::quota::Quota;
use crate::time::Timestamp;

/// A counter per window of time that starts again at the next.
///
/// Windows start at k·P + [offset](Self::with_offset) since the Unix epoch, so `Quota::per_minute` means the calendar's
/// minute in UTC. A cost c is allowed iff count + c ≤ L. Or the window is
/// [anchored](Self::anchored_at_first_request): it starts at a client's first charge, and again at the first charge
/// after it has ended. A state takes 16 bytes.
///
/// Its weakness is the double burst at the edge: a client may spend its limit at the end of one window and again at the
/// start of the next, so 2·L within an instant. What it is good for: quotas that people reckon by the calendar ("1 000 a
/// day, from midnight"), and being understood.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Direct, FixedWindow, Quota, Timestamp};
///
/// let limiter = Direct::new(FixedWindow::new(Quota::per_minute(100)));
/// let before = Timestamp::from_millis(59_900);
/// let after = Timestamp::from_millis(60_100);
/// assert_eq!((0..100).filter(|_| limiter.allow(before)).count(), 100);
/// assert_eq!(limiter.check(before).retry_after(), Duration::from_millis(100));
/// assert_eq!((0..100).filter(|_| limiter.allow(after)).count(), 100, "the double burst");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FixedWindow {
    quota: Quota,
    grid: Grid,
    anchored: bool,
}

/// What a [`FixedWindow`] keeps of a client: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct FixedWindowState {
    window: Opening,
    count: u64,
}

impl FixedWindow {
    /// Windows of `quota`'s period on the calendar's grid.
    #[must_use]
    pub const fn new(quota: Quota) -> Self {
        Self {
            quota,
            grid: Grid::new(quota, Duration::ZERO),
            anchored: false,
        }
    }

    /// The same with its grid moved by `offset`, of which only what it leaves over whole periods counts.
    ///
    /// A day that starts at 05:00 UTC is `Quota::per_day(n)` with an offset of five hours. An anchored window has no
    /// grid to move.
    #[must_use]
    pub const fn with_offset(self, offset: Duration) -> Self {
        if self.anchored {
            return self;
        }
        Self {
            grid: Grid::new(self.quota, offset),
            ..self
        }
    }

    /// The same with each client's window starting at its first charge, and again at its first charge after that
    /// window has ended.
    #[must_use]
    pub const fn anchored_at_first_request(self) -> Self {
        Self {
            anchored: true,
            ..Self::new(self.quota)
        }
    }

    /// By how much the grid lies after the epoch's; less than the period.
    #[must_use]
    pub const fn offset(&self) -> Duration {
        self.grid.offset()
    }

    /// Whether windows start at a client's first charge.
    #[must_use]
    pub const fn is_anchored_at_first_request(&self) -> bool {
        self.anchored
    }

    /// The window that a charge at `now` falls into, what is counted in it, and how long it lasts from now.
    #[inline]
    fn find(
        &self,
        state: &FixedWindowState,
        now: Timestamp,
        cost: u64,
    ) -> Result<(Opening, WindowBasis), CostTooHigh> {
        let limit = self.quota.limit();
        if cost > limit {
            return Err(CostTooHigh::new(cost, limit));
        }
        let (window, count, elapsed_ns, is_open) = match self.elapsed_in(state.window, now) {
            Some(elapsed_ns) => (state.window, state.count, elapsed_ns, self.anchored),
            None if self.anchored => (Opening::at(now.as_nanos()), 0, 0, false),
            None => {
                let window = self.grid.window_at(now);
                let elapsed_ns = self.grid.elapsed_in(window, now).unwrap_or(0);
                (window, 0, elapsed_ns, false)
            }
        };
        Ok((
            window,
            WindowBasis {
                limit,
                cost,
                count,
                left_ns: self.quota.period_ns() - elapsed_ns,
                is_open,
            },
        ))
    }

    #[inline]
    fn elapsed_in(&self, window: Opening, now: Timestamp) -> Option<u64> {
        if self.anchored {
            let elapsed_ns = now.as_nanos().saturating_sub(window.instant()?);
            (elapsed_ns < self.quota.period_ns()).then_some(elapsed_ns)
        } else {
            self.grid.elapsed_in(window, now)
        }
    }
}

impl Limiter for FixedWindow {
    type State = FixedWindowState;

    #[inline]
    fn quota(&self) -> Quota {
        self.quota
    }

    #[inline]
    fn fresh(&self, _now: Timestamp) -> FixedWindowState {
        FixedWindowState::default()
    }

    #[inline]
    fn check(
        &self,
        state: &mut FixedWindowState,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        let (window, basis) = self.find(state, now, cost)?;
        if !admits(&basis) {
            return Ok(Decision::uncharged(Basis::Window(basis), false));
        }
        if cost > 0 {
            state.window = window;
            state.count = basis.count + cost;
        }
        Ok(Decision::charged(Basis::Window(basis), cost))
    }

    #[inline]
    fn peek(
        &self,
        state: &FixedWindowState,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        let (_, basis) = self.find(state, now, cost)?;
        Ok(Decision::uncharged(Basis::Window(basis), admits(&basis)))
    }

    #[inline]
    fn idle_at(&self, state: &FixedWindowState) -> Timestamp {
        match state.window.instant() {
            None if self.anchored || state.count == 0 => Timestamp::EPOCH,
            _ => self.grid.end_of(state.window),
        }
    }
}

impl sealed::Sealed for FixedWindow {}

impl fmt::Debug for FixedWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FixedWindow({}", self.quota)?;
        if self.anchored {
            f.write_str(", anchored at the first request")?;
        } else if !self.offset().is_zero() {
            write!(f, ", offset {:?}", self.offset())?;
        }
        f.write_str(")")
    }
}

#[inline]
const fn admits(basis: &WindowBasis) -> bool {
    match basis.limit.checked_sub(basis.count) {
        Some(left) => basis.cost <= left,
        // Over the limit already: only nothing passes.
        None => basis.cost == 0,
    }
}
