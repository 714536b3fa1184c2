//! [`Peer`]: what is timed. [`Rule`]: what it enforces. [`SimClock`]: when.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// A rate limiter with a state per key, as the runner drives it.
///
/// Time is told once per batch of calls, to all in the same steps, and in each peer's own currency, so that none pays
/// for a conversion that its users would not make. A peer that can read only the real clock ignores it.
pub trait Peer<K: ?Sized>: Send + Sync {
    /// What this peer calls an instant; `()` if it keeps its own clock.
    type Now: Copy;

    /// Simulated time goes on by `by`, for every thread; the calls that follow are made at the instant returned.
    fn advance(&self, by: Duration) -> Self::Now;

    /// One request of cost 1 by `key`.
    fn allow(&self, key: &K, now: Self::Now) -> bool;
}

/// The limit of a workload, said so that a bucket and a window can both keep to it.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// What a bucket holds.
    pub burst: u32,
    /// A bucket gains one unit per this.
    pub refill: Duration,
    /// What a window lets pass.
    pub limit: u32,
    /// How long a window is.
    pub window: Duration,
    /// How long the window of a log is: a log remembers each instant of it, so a day of them would be no test of speed.
    pub log: Duration,
}

/// Simulated time that all threads share, alone on its cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub struct SimClock(AtomicU64);

impl SimClock {
    /// Goes on, and says what time it is then, in nanoseconds since the Unix epoch.
    pub fn advance(&self, by: Duration) -> u64 {
        let by = u64::try_from(by.as_nanos()).expect("steps are short");
        self.0.fetch_add(by, Ordering::Relaxed) + by
    }

    /// The same instant for peers that count since the start of something.
    pub fn advance_since_start(&self, by: Duration) -> Duration {
        Duration::from_nanos(self.advance(by) - START_NS)
    }
}

impl Default for SimClock {
    fn default() -> Self {
        Self(AtomicU64::new(START_NS))
    }
}

/// The same for peers that take an [`Instant`].
#[derive(Debug)]
pub struct SimInstant {
    start: Instant,
    clock: SimClock,
}

impl SimInstant {
    pub fn advance(&self, by: Duration) -> Instant {
        self.start + self.clock.advance_since_start(by)
    }
}

impl Default for SimInstant {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            clock: SimClock::default(),
        }
    }
}

/// The same for peers that take a [`SystemTime`].
#[derive(Debug, Default)]
pub struct SimSystemTime(SimClock);

impl SimSystemTime {
    pub fn advance(&self, by: Duration) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.0.advance(by))
    }
}

/// One o'clock on a new year's night: no window of a day ends soon.
const START_NS: u64 = (1_767_225_600 + 3_600) * 1_000_000_000;
