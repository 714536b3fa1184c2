//! tokio's timers and clock.

use std::time::Duration;

use ::tokio::time::{self, Instant};

use super::sleep::Sleep;
use crate::clock::{Clock, SystemClock};
use crate::time::Timestamp;

/// tokio's timers.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioSleep(());

impl TokioSleep {
    /// Needs nothing; the runtime is the one that a task runs on.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }
}

impl Sleep for TokioSleep {
    type Future = time::Sleep;

    fn sleep(&self, duration: Duration) -> time::Sleep {
        time::sleep(duration)
    }
}

/// tokio's clock: [`SystemClock`], but that it stands still where tokio's time is paused, and goes on where that is advanced.
///
/// Its stamps may be mixed with those of [`SystemClock`] as long as tokio's time is not paused.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    stamp: Timestamp,
    instant: Instant,
}

impl TokioClock {
    /// A clock that goes on from here.
    #[must_use]
    pub fn new() -> Self {
        Self {
            instant: Instant::now(),
            stamp: SystemClock::new().now(),
        }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.stamp + self.instant.elapsed()
    }
}
