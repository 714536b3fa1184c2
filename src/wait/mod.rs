//! Waiting instead of being refused: in the order of arrival, async or blocking.
//!
//! A [`Waiting`] puts a queue before each client of a limiter. It has the limiter, a clock, and something to sleep with; all that
//! it does besides is done in the queue, which is the same for every rule and every runtime.

mod error;
mod jitter;
mod reservation;
mod sleep;
#[cfg(feature = "stream")]
mod stream;
mod threads;
mod ticket;
#[cfg(feature = "tokio")]
mod tokio;
mod until;

use core::fmt;
use std::time::Duration;

pub use self::error::WaitError;
use self::jitter::Jitter;
pub use self::reservation::{Book, Reservation};
pub use self::sleep::{Blocks, Sleep, Timers};
#[cfg(feature = "stream")]
pub use self::stream::{Paced, PacedError, Unpaced};
pub use self::threads::{ThreadSleep, Threads};
use self::ticket::Terms;
#[cfg(feature = "tokio")]
pub use self::tokio::{TokioClock, TokioSleep};
pub use self::until::{Turn, UntilAllowed};
pub use crate::clock::ManualSleep;
use crate::clock::{Clock, SystemClock};
use crate::queue::Bounds;
pub use crate::queue::Waits;
use crate::time::{Timestamp, saturating_nanos};

/// A limiter that can be waited for: a [`Direct`](crate::Direct) or a [`Keyed`](crate::Keyed), by itself, borrowed or in an
/// `Arc`, with a clock and something to sleep with.
///
/// Those who wait for one client are let go in the order in which they came, whatever they cost, at exactly the rate of the limit.
/// Nobody overtakes them: as long as somebody waits, `check` and `allow` on the same limiter refuse, with a wait that counts those
/// ahead. Whoever gives up, by dropping the future, has spent nothing, and those behind move up. One timer is armed for each
/// client that is waited for, and none while nobody waits.
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tollgate::wait::Waiting;
/// use tollgate::{Keyed, Quota, TokenBucket};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let limiter: Arc<Keyed<String, _>> =
///     Arc::new(Keyed::new(TokenBucket::new(Quota::per_second(10)).with_burst(1)));
/// let upstream = Waiting::on_tokio(limiter).with_max_wait(Duration::from_secs(2));
/// upstream.until_allowed("api.example.com").await?; // at once
/// upstream.until_allowed("api.example.com").await?; // 100 ms later
/// # Ok::<(), tollgate::wait::WaitError>(())
/// # }).unwrap();
/// # }
/// ```
///
/// Without a runtime, threads wait:
///
/// ```
/// use tollgate::wait::Waiting;
/// use tollgate::{Direct, Quota, SlidingLog};
///
/// let limiter = Direct::new(SlidingLog::new(Quota::per_second(100)));
/// let waiting = Waiting::on_threads(&limiter);
/// waiting.until_allowed(&()).block()?;
/// # Ok::<(), tollgate::wait::WaitError>(())
/// ```
///
/// A [`Direct`](crate::Direct) has no keys: its key is `()`.
pub struct Waiting<S, C, T> {
    store: S,
    clock: C,
    timers: T,
    limits: Limits,
    jitter: Jitter,
}

/// Who goes when a queue is as long as it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum WhenQueueFull {
    /// Whoever comes is refused: those who wait stay.
    #[default]
    RefuseNewest,
    /// As many of those who have waited longest give way as whoever comes needs, if all of them would be enough.
    EvictOldest,
}

/// How long a request waits at most, and behind how many.
#[derive(Clone, Copy, Debug)]
struct Limits {
    max_wait_ns: u64,
    max_waiters: usize,
    max_units: u64,
    when_full: WhenQueueFull,
}

impl<S> Waiting<S, SystemClock, Threads> {
    /// A limiter that threads wait for ([`UntilAllowed::block`]), by the system's clock and without a runtime.
    pub fn on_threads(store: S) -> Self {
        Self::new(store, SystemClock::new(), Threads::new())
    }
}

#[cfg(feature = "tokio")]
impl<S> Waiting<S, TokioClock, TokioSleep> {
    /// A limiter that tasks wait for by tokio's timers and clock, also where that is paused.
    ///
    /// The timers' grain is a millisecond, and that is how late a task may be; the rate is exact all the same.
    pub fn on_tokio(store: S) -> Self {
        Self::new(store, TokioClock::new(), TokioSleep::new())
    }
}

impl<S, C, T> Waiting<S, C, T> {
    /// A limiter that is waited for by this clock and these timers.
    ///
    /// They must run alike: a timer of a second ends when the clock has gone on by one. A closure that makes futures will do
    /// (see [`Sleep`]), and a [`ManualClock`](crate::ManualClock) is both.
    ///
    /// ```
    /// use tollgate::wait::Waiting;
    /// use tollgate::{Clock, Direct, LeakyBucket, ManualClock, Quota, Timestamp};
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(1_000));
    /// let limiter = Direct::new(LeakyBucket::new(Quota::per_second(1)));
    /// let waiting = Waiting::new(&limiter, clock.clone(), clock.clone());
    /// waiting.until_allowed(&()).block()?;
    ///
    /// // Another waits, until the clock is moved:
    /// std::thread::scope(|scope| {
    ///     let other = scope.spawn(|| waiting.until_allowed(&()).block());
    ///     while clock.advance_to_next_sleeper().is_none() {
    ///         std::thread::yield_now();
    ///     }
    ///     other.join().unwrap()
    /// })?;
    /// assert_eq!(clock.now(), Timestamp::from_secs(1_001));
    /// # Ok::<(), tollgate::wait::WaitError>(())
    /// ```
    pub const fn new(store: S, clock: C, timers: T) -> Self {
        Self {
            store,
            clock,
            timers,
            limits: Limits::NONE,
            jitter: Jitter::NONE,
        }
    }

    /// Refuses whoever would have to wait longer, at once.
    #[must_use]
    pub fn with_max_wait(mut self, max_wait: Duration) -> Self {
        self.limits.max_wait_ns = saturating_nanos(max_wait);
        self
    }

    /// Lets at most so many wait for one client; beyond that it is as [`when_full`](Self::when_full) says.
    #[must_use]
    pub const fn with_max_waiters(mut self, max_waiters: usize) -> Self {
        self.limits.max_waiters = max_waiters;
        self
    }

    /// Lets those who wait for one client wait for at most so many units, all in all.
    #[must_use]
    pub const fn with_max_units(mut self, max_units: u64) -> Self {
        self.limits.max_units = max_units;
        self
    }

    /// Says who goes when a queue is as long as it may be: whoever comes, unless said otherwise.
    #[must_use]
    pub const fn when_full(mut self, when_full: WhenQueueFull) -> Self {
        self.limits.when_full = when_full;
        self
    }

    /// Lets each who had to wait go up to `most` later than its turn, at random: for a crowd that was refused together and
    /// would arrive together somewhere else. It never goes earlier, and what it spends is spent at its turn. Those who are let go
    /// have a timer each until then.
    #[must_use]
    pub fn with_jitter_up_to(mut self, most: Duration) -> Self {
        self.jitter = Jitter::up_to(most);
        self
    }

    /// The same, by as much as `draw` says each time.
    #[must_use]
    pub fn with_jitter(mut self, draw: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        self.jitter = Jitter::by(draw);
        self
    }

    /// What is waited for.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// The clock that it is waited by.
    pub const fn clock(&self) -> &C {
        &self.clock
    }
}

/// Each of these is a future, and where threads can wait it can also [block](UntilAllowed::block). A request takes its place when
/// it is first polled.
impl<S, C: Clock, T: Timers> Waiting<S, C, T> {
    /// Waits until a request of `key` may go, and spends its unit then.
    #[inline]
    pub fn until_allowed<'a, Q>(&'a self, key: &'a Q) -> UntilAllowed<'a, S, C, T, Q>
    where
        S: Waits<Q>,
        Q: ?Sized,
    {
        self.until_allowed_n(key, 1)
    }

    /// Waits until a request of `key` that costs `cost` units may go, and spends them then.
    #[inline]
    pub fn until_allowed_n<'a, Q>(&'a self, key: &'a Q, cost: u64) -> UntilAllowed<'a, S, C, T, Q>
    where
        S: Waits<Q>,
        Q: ?Sized,
    {
        UntilAllowed::new(self, key, cost)
    }

    /// Shapes: a request of `key` is admitted at once into the queue, and let go when those before it have drained, or it is
    /// refused at once because the queue is full ([`WaitError::QueueFull`]).
    ///
    /// The queue is that of a [`LeakyBucket`](crate::LeakyBucket), with room for its burst: what has drained no more than what
    /// still waits. Where a check of it would tell the caller to wait for `delay` before it proceeds, this waits. Of a rule that
    /// has no queue as many are let in as it would admit at once, which then do not wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::wait::{WaitError, Waiting};
    /// use tollgate::{Direct, LeakyBucket, ManualClock, Quota, Timestamp};
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(1_000));
    /// let shaper = Direct::new(LeakyBucket::new(Quota::per_second(10)).with_burst(2));
    /// let waiting = Waiting::new(&shaper, clock.clone(), clock.clone());
    /// waiting.shape(&()).block()?;
    /// waiting.shape_n(&(), 2).block().expect_err("one is still draining");
    /// # Ok::<(), WaitError>(())
    /// ```
    pub fn shape<'a, Q>(&'a self, key: &'a Q) -> UntilAllowed<'a, S, C, T, Q>
    where
        S: Waits<Q>,
        Q: ?Sized,
    {
        self.shape_n(key, 1)
    }

    /// [Shapes](Self::shape) a request that costs `cost` units.
    pub fn shape_n<'a, Q>(&'a self, key: &'a Q, cost: u64) -> UntilAllowed<'a, S, C, T, Q>
    where
        S: Waits<Q>,
        Q: ?Sized,
    {
        UntilAllowed::new(self, key, cost).within_burst()
    }

    /// How many wait for `key`.
    pub fn waiters<Q>(&self, key: &Q) -> usize
    where
        S: Waits<Q>,
        Q: ?Sized,
    {
        let now = Some(self.clock.now());
        let waiters = self.store.at_counter(key, now, |counter| {
            counter.serve();
            counter.waiters()
        });
        waiters.unwrap_or(0)
    }
}

impl Limits {
    const NONE: Self = Self {
        max_wait_ns: u64::MAX,
        max_waiters: usize::MAX,
        max_units: u64::MAX,
        when_full: WhenQueueFull::RefuseNewest,
    };

    /// These limits for one who comes at `now`, on its own terms besides.
    fn bounds(&self, now: Timestamp, terms: &Terms) -> Bounds {
        let until_deadline_ns = if terms.deadline == Timestamp::MAX {
            u64::MAX
        } else {
            terms.deadline.nanos_since(now)
        };
        let max_wait_ns = self.max_wait_ns.min(terms.max_wait_ns);
        Bounds {
            max_wait_ns: max_wait_ns.min(until_deadline_ns),
            max_waiters: self.max_waiters,
            max_units: self.max_units,
            evicts_oldest: self.when_full == WhenQueueFull::EvictOldest,
            within_burst: terms.within_burst,
            books: false,
        }
    }
}

impl<S: Clone, C: Clone, T: Clone> Clone for Waiting<S, C, T> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            clock: self.clock.clone(),
            timers: self.timers.clone(),
            limits: self.limits,
            jitter: self.jitter.clone(),
        }
    }
}

impl<S: fmt::Debug, C, T> fmt::Debug for Waiting<S, C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("store", &self.store)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
