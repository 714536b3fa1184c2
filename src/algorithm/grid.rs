//! Windows on a grid: `[k·P + offset, (k + 1)·P + offset)` for every whole k, on the Unix epoch's time line.

use core::time::Duration;

use crate::quota::Quota;
use crate::time::{Timestamp, saturating_nanos};

/// Where windows start. The offset is below the period: a longer one names the same grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Grid {
    period_ns: u64,
    offset_ns: u64,
}

impl Grid {
    pub(super) const fn new(quota: Quota, offset: Duration) -> Self {
        let period_ns = quota.period_ns();
        // An offset of centuries beyond u64 nanoseconds is still exact modulo the period.
        let offset_ns = if offset.as_nanos() <= u64::MAX as u128 {
            saturating_nanos(offset) % period_ns
        } else {
            (offset.as_nanos() % period_ns as u128) as u64
        };
        Self {
            period_ns,
            offset_ns,
        }
    }

    pub(super) const fn offset(&self) -> Duration {
        Duration::from_nanos(self.offset_ns)
    }

    /// The window that holds `now`.
    #[inline]
    pub(super) const fn window_at(&self, now: Timestamp) -> Opening {
        match now.as_nanos().checked_sub(self.offset_ns) {
            Some(since_offset) => Opening::at(now.as_nanos() - since_offset % self.period_ns),
            None => Opening::BEFORE_THE_EPOCH,
        }
    }

    /// How far `now` lies in the window, or `None` if the window has ended by then.
    ///
    /// A stamp before the window counts as its start: time that runs back stands still.
    #[inline]
    pub(super) const fn elapsed_in(&self, window: Opening, now: Timestamp) -> Option<u64> {
        let elapsed = match window.instant() {
            Some(start) => now.as_nanos().saturating_sub(start),
            // This window started at offset − P: what lies between that and the epoch has passed at the epoch.
            None if self.offset_ns == 0 => return None,
            None => now
                .as_nanos()
                .saturating_add(self.period_ns - self.offset_ns),
        };
        if elapsed < self.period_ns {
            Some(elapsed)
        } else {
            None
        }
    }

    /// The window's end, saturating at [`Timestamp::MAX`].
    #[inline]
    pub(super) const fn end_of(&self, window: Opening) -> Timestamp {
        Timestamp::from_nanos(match window.instant() {
            Some(start) => start.saturating_add(self.period_ns),
            None => self.offset_ns,
        })
    }

    /// Whether `later` is the window that follows `earlier`.
    #[inline]
    pub(super) const fn follows(&self, later: Opening, earlier: Opening) -> bool {
        match (later.instant(), earlier.instant()) {
            (Some(later), Some(earlier)) => later.saturating_sub(earlier) == self.period_ns,
            (Some(later), None) => later == self.offset_ns && self.offset_ns != 0,
            (None, _) => false,
        }
    }
}

/// The start of a window, in a word.
///
/// The start and not the end, because with the longest periods an end lies beyond u64; and a start below zero need not
/// be kept, for the grid has only one window that starts before the epoch and reaches into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub(super) struct Opening {
    /// The start plus one, in nanoseconds since the epoch; 0 is "before the epoch".
    start_plus_one: u64,
}

impl Opening {
    pub(super) const BEFORE_THE_EPOCH: Self = Self { start_plus_one: 0 };

    #[inline]
    pub(super) const fn at(start_ns: u64) -> Self {
        // Stamps are below 2⁶³.
        Self {
            start_plus_one: start_ns + 1,
        }
    }

    /// The start in nanoseconds since the epoch, or `None` if it lies before.
    #[inline]
    pub(super) const fn instant(self) -> Option<u64> {
        self.start_plus_one.checked_sub(1)
    }

    /// Whether it is the start of a window that a stamp can lie in.
    pub(super) const fn is_sound(self) -> bool {
        self.start_plus_one <= Timestamp::MAX.as_nanos() + 1
    }
}
