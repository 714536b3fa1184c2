//! [`QuantaClock`]: the processor's counter as a clock.

use super::{Clock, SystemClock};
use crate::time::Timestamp;

/// A clock that reads the processor's counter, where it has one that can be relied on, and is several times as fast as
/// [`SystemClock`] then.
///
/// It is [`quanta`](https://docs.rs/quanta)'s clock, which compares the counter with the system's clock once per process. From
/// then on it goes by the counter alone, so in days and weeks it drifts from other clocks: use it for everything that one
/// limiter is asked, and not beside [`SystemClock`].
///
/// ```
/// use tollgate::{Clock, QuantaClock};
///
/// let clock = QuantaClock::new();
/// let earlier = clock.now();
/// assert!(clock.clone().now() >= earlier);
/// ```
#[derive(Clone, Debug)]
pub struct QuantaClock {
    clock: quanta::Clock,
    /// What the counter showed at `stamp`.
    anchor: u64,
    stamp: Timestamp,
}

impl QuantaClock {
    /// A clock that goes on from the present instant. The first of a process takes some milliseconds to make.
    #[must_use]
    pub fn new() -> Self {
        let clock = quanta::Clock::new();
        Self {
            anchor: clock.raw(),
            stamp: SystemClock::new().now(),
            clock,
        }
    }
}

impl Default for QuantaClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for QuantaClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let passed_ns = self.clock.delta_as_nanos(self.anchor, self.clock.raw());
        Timestamp::from_nanos(self.stamp.as_nanos().saturating_add(passed_ns))
    }
}
