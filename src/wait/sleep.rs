//! [`Sleep`]: what a runtime lends for waiting.

use std::future::Future;
use std::time::Duration;

use crate::clock::{ManualClock, ManualSleep};

/// Something that makes timers: a runtime's sleep function, or a closure around one.
///
/// ```
/// use std::time::Duration;
/// use tollgate::wait::Waiting;
/// use tollgate::{Direct, Quota, SystemClock, TokenBucket};
///
/// # mod runtime { pub async fn sleep(_: std::time::Duration) {} }
/// # // With `smol`: |duration| async move { smol::Timer::after(duration).await; }
/// let limiter = Direct::new(TokenBucket::new(Quota::per_second(10)));
/// let waiting = Waiting::new(&limiter, SystemClock::new(), |duration: Duration| runtime::sleep(duration));
/// let _future = waiting.until_allowed(&());
/// ```
pub trait Sleep {
    /// One timer. Dropped, it is disarmed.
    type Future: Future<Output = ()>;

    /// A timer that is over when `duration` has passed from now. It may be late; where it is early it is set again.
    fn sleep(&self, duration: Duration) -> Self::Future;
}

impl<F, R> Sleep for F
where
    F: Fn(Duration) -> R,
    R: Future<Output = ()>,
{
    type Future = R;

    fn sleep(&self, duration: Duration) -> R {
        self(duration)
    }
}

/// A clock that is moved by hand wakes those whose time has come.
impl Sleep for ManualClock {
    type Future = ManualSleep;

    fn sleep(&self, duration: Duration) -> ManualSleep {
        ManualSleep::new(self, duration)
    }
}

/// What a [`Waiting`](super::Waiting) can be made with: anything that [sleeps](Sleep), and [`Threads`](super::Threads).
pub trait Timers: sealed::Sealed {
    #[doc(hidden)]
    type Future: Future<Output = ()>;

    #[doc(hidden)]
    fn sleep(&self, duration: Duration) -> Self::Future;
}

impl<T: Sleep> Timers for T {
    type Future = T::Future;

    #[inline]
    fn sleep(&self, duration: Duration) -> T::Future {
        Sleep::sleep(self, duration)
    }
}

impl<T: Sleep> sealed::Sealed for T {}

/// Timers that a thread can wait for without a runtime: [`Threads`](super::Threads), and a
/// [`ManualClock`](crate::ManualClock).
pub trait Blocks: Timers {}

impl Blocks for ManualClock {}

pub(super) mod sealed {
    /// Keeps [`Timers`](super::Timers) ours to extend.
    pub trait Sealed {}
}
