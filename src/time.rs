//! [`Timestamp`]: the instant that every rule is asked about.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};
use core::time::Duration;

/// An instant: whole nanoseconds since the Unix epoch, as some [`Clock`](crate::Clock) sees them.
///
/// Stamps run from [`Timestamp::EPOCH`] to [`Timestamp::MAX`] (2⁶³ − 1 ns, in the year 2262). All arithmetic saturates
/// at these ends: no operation panics or wraps.
///
/// A limiter never reads a clock by itself: each call is told what time it is. So a test, a replay of a log and
/// a simulation decide exactly as production does.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Timestamp;
///
/// let start = Timestamp::from_secs(60);
/// let later = start + Duration::from_millis(250);
/// assert_eq!(later.saturating_duration_since(start), Duration::from_millis(250));
/// assert_eq!(start.saturating_duration_since(later), Duration::ZERO);
/// assert_eq!(Timestamp::MAX + Duration::from_nanos(1), Timestamp::MAX);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z, the first instant there is.
    pub const EPOCH: Self = Self(0);

    /// 2⁶³ − 1 ns after the epoch (2262-04-11T23:47:16.854775807Z), the last instant there is.
    ///
    /// Stamps beyond it are this one.
    pub const MAX: Self = Self((1 << 63) - 1);

    /// `nanos` nanoseconds after the epoch; values above [`MAX`](Self::MAX) are `MAX`.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        if nanos > Self::MAX.0 {
            Self::MAX
        } else {
            Self(nanos)
        }
    }

    /// `micros` microseconds after the epoch; values above [`MAX`](Self::MAX) are `MAX`.
    #[inline]
    pub const fn from_micros(micros: u64) -> Self {
        Self::from_nanos(micros.saturating_mul(1_000))
    }

    /// `millis` milliseconds after the epoch; values above [`MAX`](Self::MAX) are `MAX`.
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Self::from_nanos(millis.saturating_mul(1_000_000))
    }

    /// `secs` seconds after the epoch; values above [`MAX`](Self::MAX) are `MAX`.
    #[inline]
    pub const fn from_secs(secs: u64) -> Self {
        Self::from_nanos(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the epoch, 0..=2⁶³ − 1.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This instant plus `duration`, at most [`MAX`](Self::MAX).
    #[inline]
    pub const fn saturating_add(self, duration: Duration) -> Self {
        Self::from_nanos(self.0.saturating_add(saturating_nanos(duration)))
    }

    /// This instant minus `duration`, at least [`EPOCH`](Self::EPOCH).
    #[inline]
    pub const fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(saturating_nanos(duration)))
    }

    /// The time from `earlier` to this instant; zero if `earlier` is later.
    #[inline]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Nanoseconds from `earlier` to this instant; 0 if `earlier` is later.
    #[inline]
    #[cfg(feature = "std")]
    pub(crate) const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    #[inline]
    fn add(self, duration: Duration) -> Self {
        self.saturating_add(duration)
    }
}

impl AddAssign<Duration> for Timestamp {
    #[inline]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    #[inline]
    fn sub(self, duration: Duration) -> Self {
        self.saturating_sub(duration)
    }
}

impl SubAssign<Duration> for Timestamp {
    #[inline]
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

/// A time of the system's calendar; before 1970 it is [`Timestamp::EPOCH`].
#[cfg(feature = "std")]
impl From<std::time::SystemTime> for Timestamp {
    fn from(time: std::time::SystemTime) -> Self {
        let since_epoch = time
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Self::EPOCH + since_epoch
    }
}

/// Seconds since the epoch with nine decimals: `60.250000000s`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:09}s",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000
        )
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({self})")
    }
}

/// As nanoseconds since the epoch.
#[cfg(feature = "serde")]
impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self::from_nanos)
    }
}

/// The duration in nanoseconds, at most `u64::MAX` (584 years).
#[inline]
pub(crate) const fn saturating_nanos(duration: Duration) -> u64 {
    // `as_nanos` is a u128: this stays in u64 where that is enough, which is always but for centuries.
    match duration.as_secs().checked_mul(1_000_000_000) {
        Some(nanos) => nanos.saturating_add(duration.subsec_nanos() as u64),
        None => u64::MAX,
    }
}
