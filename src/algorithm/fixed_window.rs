//! The simplest limiter there is, the one that `INCR` and `EXPIRE` make: a counter that starts again.
//!
//! Where it breaks: 100 per minute, 100 requests at 00:59.9 and 100 more at 01:00.1. Both windows are within their
//! limit, and 200 have passed in a fifth of a second. Anchoring the window at each client's first request moves the edge
//! to where the client chose it, and does not remove it.

use core::fmt;
use core::time::Duration;

use super::debt::{DebtCap, max_debt_builders};
use super::grid::{Grid, Opening};
use crate::decision::{Decision, Receipt, Recorded, RuleBasis, WindowBasis};
use crate::error::{CostTooHigh, DebtError};
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
    cap: DebtCap,
}

/// What a [`FixedWindow`] keeps of a client: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
            cap: DebtCap::DEFAULT,
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
            grid: Grid::new(self.quota, Duration::ZERO),
            anchored: true,
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

    /// Whether windows start at a client's first charge.
    #[must_use]
    pub const fn is_anchored_at_first_request(&self) -> bool {
        self.anchored
    }

    /// The window that a charge at `now` falls into, what is counted in it, and how long it lasts from now.
    #[inline]
    fn find(&self, state: &FixedWindowState, now: Timestamp, cost: u64) -> WindowFound {
        let (window, count, elapsed_ns, is_open) = match self.elapsed_in(state.window, now) {
            Some(elapsed_ns) => (state.window, state.count, elapsed_ns, self.anchored),
            None if self.anchored => (Opening::at(now.as_nanos()), 0, 0, false),
            None => {
                let window = self.grid.window_at(now);
                let elapsed_ns = self.grid.elapsed_in(window, now).unwrap_or(0);
                (window, 0, elapsed_ns, false)
            }
        };
        WindowFound {
            window,
            basis: WindowBasis {
                limit: self.quota.limit(),
                cost,
                count,
                left_ns: self.quota.period_ns() - elapsed_ns,
                is_open,
            },
        }
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

    /// Whether the window, which is a state's, holds the instant.
    fn holds(&self, window: Opening, instant: Timestamp) -> bool {
        if self.anchored {
            let start = window.instant();
            start.is_some_and(|start| start <= instant.as_nanos())
                && self.elapsed_in(window, instant).is_some()
        } else {
            self.grid.window_at(instant) == window
        }
    }
}

impl Limiter for FixedWindow {
    type State = FixedWindowState;
    type Found = WindowFound;

    #[inline]
    fn quota(&self) -> Quota {
        self.quota
    }

    #[inline]
    fn fresh(&self, _now: Timestamp) -> FixedWindowState {
        FixedWindowState::default()
    }

    fn refund(&self, state: &mut FixedWindowState, now: Timestamp, receipt: Receipt) -> u64 {
        let is_current = self.elapsed_in(state.window, now).is_some();
        if !is_current || !self.holds(state.window, receipt.charged_at()) {
            return 0;
        }
        let given = receipt.cost().min(state.count);
        state.count -= given;
        if state.count == 0 {
            // As if nothing had been charged: an anchored window closes.
            *state = FixedWindowState::default();
        }
        given
    }

    fn carry(&self, from: &Self, state: FixedWindowState, now: Timestamp) -> FixedWindowState {
        let count = from.find(&state, now, 0).basis.count;
        if count == 0 {
            return FixedWindowState::default();
        }
        let window = if self.anchored && self.elapsed_in(state.window, now).is_some() {
            state.window
        } else if self.anchored {
            Opening::at(now.as_nanos())
        } else {
            self.grid.window_at(now)
        };
        FixedWindowState { window, count }
    }

    #[inline]
    fn idle_at(&self, state: &FixedWindowState) -> Timestamp {
        if state.count == 0 || (self.anchored && state.window.instant().is_none()) {
            Timestamp::EPOCH
        } else {
            self.grid.end_of(state.window)
        }
    }

    #[inline]
    fn look(
        &self,
        state: &FixedWindowState,
        now: Timestamp,
        cost: u64,
    ) -> Result<WindowFound, CostTooHigh> {
        let limit = self.quota.limit();
        if cost > limit {
            return Err(CostTooHigh::new(cost, limit));
        }
        Ok(self.find(state, now, cost))
    }

    #[inline]
    fn admits(&self, found: &WindowFound) -> bool {
        found.admits()
    }

    #[inline]
    fn take(&self, state: &mut FixedWindowState, _now: Timestamp, found: &WindowFound, cost: u64) {
        state.window = found.window;
        state.count = found.basis.count + cost;
    }

    #[inline]
    fn decision(&self, found: &WindowFound, now: Timestamp, taken: u64) -> Decision {
        Decision::new(RuleBasis::Window(found.basis), now, found.admits(), taken)
    }

    fn record(&self, state: &mut FixedWindowState, now: Timestamp, units: u64) -> Recorded {
        let found = self.find(state, now, 0);
        let recorded = self
            .cap
            .most_of(units, found.basis.count, self.quota.limit());
        if recorded > 0 {
            self.take(state, now, &found, recorded);
        }
        Recorded::of(recorded)
    }

    fn redate(&self, state: &mut FixedWindowState, from: Timestamp, to: Timestamp) {
        let found = self.find(state, from, 0);
        state.count = found.basis.count;
        state.window = match found.window.instant() {
            _ if state.count == 0 => Opening::default(),
            // What was left of it is left of it.
            Some(start) if self.anchored => Opening::at(
                (Timestamp::from_nanos(start) + to.saturating_duration_since(from)).as_nanos(),
            ),
            _ => self.grid.window_at(to),
        };
    }

    fn is_sound(&self, state: &FixedWindowState) -> bool {
        state.count <= Quota::MAX_LIMIT && state.window.is_sound()
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
        self.cap.describe(f)?;
        f.write_str(")")
    }
}

/// The window that a request falls into, and what is counted in it.
#[derive(Clone, Copy, Debug)]
pub struct WindowFound {
    window: Opening,
    basis: WindowBasis,
}

impl WindowFound {
    #[inline]
    const fn admits(&self) -> bool {
        match self.basis.limit.checked_sub(self.basis.count) {
            Some(left) => self.basis.cost <= left,
            // Over the limit already: only nothing passes.
            None => self.basis.cost == 0,
        }
    }
}
