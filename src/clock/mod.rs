//! [`Clock`]: where stamps come from.

#[cfg(feature = "quanta")]
mod counter;
#[cfg(feature = "wait")]
mod sleepers;

#[cfg(feature = "quanta")]
pub use self::counter::QuantaClock;

#[cfg(feature = "wait")]
pub use self::sleepers::ManualSleep;
use crate::time::Timestamp;

/// Something that tells the time.
///
/// No limiter holds a clock; the caller reads one and passes the stamp on.
pub trait Clock {
    /// The present instant.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

impl<C: Clock + ?Sized> Clock for alloc::boxed::Box<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

#[cfg(target_has_atomic = "ptr")]
impl<C: Clock + ?Sized> Clock for alloc::sync::Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

#[cfg(target_has_atomic = "64")]
pub use manual::ManualClock;
#[cfg(feature = "std")]
pub use system::{SystemClock, TickingClock};

#[cfg(target_has_atomic = "64")]
mod manual {
    use alloc::sync::Arc;
    use core::sync::atomic::{AtomicU64, Ordering};
    use core::time::Duration;

    use super::Clock;
    use crate::time::Timestamp;

    /// A clock that stands still until it is told otherwise: for tests and simulations, yours too.
    ///
    /// Clones share one time. It can also be set back, as real clocks are.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Direct, ManualClock, Quota, Timestamp, TokenBucket};
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(100));
    /// let limiter = Direct::new(TokenBucket::new(Quota::per_second(1)));
    /// assert!(limiter.allow(clock.now()));
    /// assert!(!limiter.allow(clock.now()));
    /// clock.advance(Duration::from_secs(1));
    /// assert!(limiter.allow(clock.now()));
    /// ```
    #[derive(Clone, Debug, Default)]
    pub struct ManualClock {
        shown: Arc<Shown>,
    }

    #[derive(Debug, Default)]
    pub(super) struct Shown {
        nanos: AtomicU64,
        #[cfg(feature = "wait")]
        pub(super) sleepers: super::sleepers::Sleepers,
    }

    impl ManualClock {
        /// A clock that shows `now`.
        #[must_use]
        pub fn new(now: Timestamp) -> Self {
            let clock = Self::default();
            clock.set(now);
            clock
        }

        /// Shows `now` from here on, be it later or earlier than before.
        pub fn set(&self, now: Timestamp) {
            self.change(|_| now);
        }

        /// Goes forward; stops at [`Timestamp::MAX`].
        pub fn advance(&self, by: Duration) {
            self.change(|now| now + by);
        }

        /// Goes back; stops at [`Timestamp::EPOCH`].
        pub fn rewind(&self, by: Duration) {
            self.change(|now| now - by);
        }

        fn change(&self, to: impl Fn(Timestamp) -> Timestamp) {
            #[cfg(feature = "wait")]
            self.shown.sleepers.wake_after(|| self.show(to));
            #[cfg(not(feature = "wait"))]
            self.show(to);
        }

        /// Says what was shown before, and what is shown now.
        fn show(&self, to: impl Fn(Timestamp) -> Timestamp) -> [Timestamp; 2] {
            let mut seen = self.shown.nanos.load(Ordering::Relaxed);
            loop {
                let before = Timestamp::from_nanos(seen);
                let after = to(before);
                // Release and acquire, so that what was done before the clock moved is seen by whoever sees the new time.
                match self.shown.nanos.compare_exchange_weak(
                    seen,
                    after.as_nanos(),
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => return [before, after],
                    Err(newer) => seen = newer,
                }
            }
        }

        #[cfg(feature = "wait")]
        pub(super) fn shown(&self) -> &Shown {
            &self.shown
        }
    }

    impl Clock for ManualClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_nanos(self.shown.nanos.load(Ordering::Acquire))
        }
    }
}

#[cfg(feature = "std")]
mod system {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, OnceLock};
    use std::time::{Duration, Instant, SystemTime};

    use super::Clock;
    use crate::time::Timestamp;

    /// The system's monotonic clock, anchored at the Unix epoch once per process.
    ///
    /// The system's calendar is read when the process first asks for the time; from then on only
    /// [`Instant`] counts. So the time never runs back, whatever is done to the calendar, a window of a minute is the
    /// calendar's minute (as it stood at the start), and any two of these clocks agree.
    ///
    /// Where `Instant` stands still while the machine sleeps (Linux, macOS), so does this clock: limits refill later
    /// than the calendar says, never earlier. On a machine without a calendar (it shows a time before 1970) the clock
    /// starts at the epoch.
    ///
    /// ```
    /// use tollgate::{Clock, SystemClock};
    ///
    /// let clock = SystemClock::new();
    /// let earlier = clock.now();
    /// assert!(SystemClock::new().now() >= earlier);
    /// ```
    #[derive(Clone, Copy, Debug, Default)]
    pub struct SystemClock(());

    impl SystemClock {
        /// The process's clock.
        #[must_use]
        pub const fn new() -> Self {
            Self(())
        }
    }

    impl Clock for SystemClock {
        #[inline]
        fn now(&self) -> Timestamp {
            let anchor = ANCHOR.get_or_init(Anchor::here);
            anchor.stamp + anchor.instant.elapsed()
        }
    }

    /// A clock for hot paths: it shows the time of its last tick, and reading it is one relaxed load.
    ///
    /// You make it tick: by a thread that [runs](Self::tick_every) it, or by a task of your runtime that calls
    /// [`tick`](Self::tick). Its stamps are [`SystemClock`]'s, late by at most the time since the last tick: with a tick
    /// each millisecond that is a millisecond, and whatever the scheduler adds. So a limit refills by that much later,
    /// never earlier; a clock that nobody ticks stands still, and a limit with it.
    ///
    /// Clones share one time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, TickingClock};
    ///
    /// let clock = TickingClock::new();
    /// let ticker = clock.clone();
    /// std::thread::spawn(move || ticker.tick_every(Duration::from_millis(1)));
    /// let stamp = clock.now();
    /// # let _ = stamp;
    /// ```
    #[derive(Clone, Debug)]
    pub struct TickingClock {
        nanos: Arc<AtomicU64>,
    }

    impl TickingClock {
        /// A clock that shows the present instant, until it is ticked.
        #[must_use]
        pub fn new() -> Self {
            Self {
                nanos: Arc::new(AtomicU64::new(SystemClock::new().now().as_nanos())),
            }
        }

        /// Shows the present instant from here on.
        pub fn tick(&self) {
            // The later of two ticks that overlap stays.
            self.nanos
                .fetch_max(SystemClock::new().now().as_nanos(), Ordering::Relaxed);
        }

        /// Ticks once per `period` on this thread, and returns when every other clone is gone.
        pub fn tick_every(self, period: Duration) {
            while Arc::strong_count(&self.nanos) > 1 {
                self.tick();
                std::thread::sleep(period);
            }
        }
    }

    impl Default for TickingClock {
        fn default() -> Self {
            Self::new()
        }
    }

    impl Clock for TickingClock {
        #[inline]
        fn now(&self) -> Timestamp {
            // Relaxed: a stamp orders nothing; whoever holds states copes with stamps that are late.
            Timestamp::from_nanos(self.nanos.load(Ordering::Relaxed))
        }
    }

    /// One instant on both clocks.
    struct Anchor {
        instant: Instant,
        stamp: Timestamp,
    }

    impl Anchor {
        fn here() -> Self {
            Self {
                instant: Instant::now(),
                stamp: Timestamp::from(SystemTime::now()),
            }
        }
    }

    static ANCHOR: OnceLock<Anchor> = OnceLock::new();
}
