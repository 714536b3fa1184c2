//! [`Decision`]: what a limiter answered, kept as the raw numbers and worked out when asked.

use core::fmt;
use core::time::Duration;

/// What a limiter answered: allowed or not, and what the client should know.
///
/// A decision keeps the numbers that it was taken from and divides only for what is asked of it, so a caller that
/// wants [`is_allowed`](Self::is_allowed) pays for nothing else.
///
/// Waits are whole nanoseconds, rounded up, counted from the caller's own stamp; one that does not fit `u64`
/// nanoseconds (584 years) is that much.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Direct, Quota, Timestamp, TokenBucket};
///
/// let limiter = Direct::new(TokenBucket::new(Quota::per_second(4)));
/// let now = Timestamp::from_secs(1_000);
/// let decision = limiter.check_n(3, now)?;
/// assert!(decision.is_allowed());
/// assert_eq!((decision.limit(), decision.remaining()), (4, 1));
/// assert_eq!(decision.reset_after(), Duration::from_millis(750));
///
/// let refused = limiter.check_n(3, now)?;
/// assert_eq!(refused.retry_after(), Duration::from_millis(500));
/// # Ok::<(), tollgate::CostTooHigh>(())
/// ```
#[derive(Clone, Copy)]
#[must_use = "a decision says whether the request may go"]
pub struct Decision {
    allowed: bool,
    charged: bool,
    store_full: bool,
    /// How much later than the caller's stamp the rule was asked (see `HolderTime`).
    lateness_ns: u64,
    basis: Basis,
}

/// The numbers that a rule found, before the charge.
#[derive(Clone, Copy)]
pub(crate) enum Basis {
    Bucket(BucketBasis),
    Window(WindowBasis),
    Log(LogBasis),
    Counter(CounterBasis),
    #[cfg(feature = "std")]
    Waits(WaitsBasis),
}

impl Decision {
    /// The request of `cost` units was allowed and paid for.
    #[inline]
    pub(crate) const fn charged(basis: Basis, cost: u64) -> Self {
        Self {
            allowed: true,
            charged: cost > 0,
            store_full: false,
            lateness_ns: 0,
            basis,
        }
    }

    /// The request would be allowed, or refused, and nothing has changed.
    #[inline]
    pub(crate) const fn uncharged(basis: Basis, allowed: bool) -> Self {
        Self {
            allowed,
            charged: false,
            store_full: false,
            lateness_ns: 0,
            basis,
        }
    }

    /// A store has no room for the client, who was refused or let through for that reason and not by the limit.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) const fn for_want_of_room(basis: WaitsBasis, allowed: bool) -> Self {
        Self {
            allowed,
            charged: false,
            store_full: true,
            lateness_ns: 0,
            basis: Basis::Waits(basis),
        }
    }

    /// Counts waits from a stamp that lies `lateness_ns` before the instant that was decided at.
    #[inline]
    #[cfg(feature = "std")]
    pub(crate) const fn count_from(&mut self, lateness_ns: u64) {
        self.lateness_ns = lateness_ns;
    }

    /// Whether units were spent: allowed, of a cost above 0, and not a peek.
    #[inline]
    pub(crate) const fn is_charged(&self) -> bool {
        self.charged
    }

    /// Whether the request may go.
    #[inline]
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Whether a store that was full decided this, and not the limit: see [`WhenFull`](crate::keyed::WhenFull).
    #[cfg(feature = "std")]
    #[must_use]
    pub const fn is_store_full(&self) -> bool {
        self.store_full
    }

    /// The units that the quota grants per period.
    #[inline]
    #[must_use]
    pub const fn limit(&self) -> u64 {
        match &self.basis {
            Basis::Bucket(bucket) => bucket.limit,
            Basis::Window(window) => window.limit,
            Basis::Log(log) => log.limit,
            Basis::Counter(counter) => counter.limit,
            #[cfg(feature = "std")]
            Basis::Waits(waits) => waits.limit,
        }
    }

    /// The whole units that are left after this decision, rounded down.
    ///
    /// It may exceed [`limit`](Self::limit) for a bucket whose burst does.
    #[inline]
    #[must_use]
    pub fn remaining(&self) -> u64 {
        match &self.basis {
            Basis::Bucket(bucket) => bucket.remaining(self.charged),
            Basis::Window(window) => window.limit.saturating_sub(window.counted(self.charged)),
            Basis::Log(log) => log.limit.saturating_sub(log.counted(self.charged)),
            Basis::Counter(counter) => counter.remaining(self.charged),
            #[cfg(feature = "std")]
            Basis::Waits(_) => 0,
        }
    }

    /// The smallest wait after which the same request would be allowed if nothing else came; zero if it was allowed.
    ///
    /// Exact: until then it is refused, from then on it is allowed. Only where a store without room decided
    /// (`is_store_full`) is it an estimate: when one of the states that the call saw will be idle.
    #[inline]
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        Duration::from_nanos(self.retry_after_ns())
    }

    #[inline]
    pub(crate) fn retry_after_ns(&self) -> u64 {
        if self.allowed {
            return 0;
        }
        self.wait_ns(match &self.basis {
            Basis::Bucket(bucket) => bucket.retry_ns(),
            Basis::Window(window) => window.left_ns,
            Basis::Log(log) => log.retry_ns,
            Basis::Counter(counter) => counter.retry_ns(),
            #[cfg(feature = "std")]
            Basis::Waits(waits) => waits.retry_ns,
        })
    }

    /// The smallest wait after which the client is as good as new if nothing else came.
    #[inline]
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.reset_after_ns())
    }

    #[inline]
    pub(crate) fn reset_after_ns(&self) -> u64 {
        self.wait_ns(match &self.basis {
            Basis::Bucket(bucket) => bucket.reset_ns(self.charged),
            Basis::Window(window) => window.reset_ns(self.charged),
            Basis::Log(log) => log.reset_ns(self.charged),
            Basis::Counter(counter) => counter.reset_ns(self.charged),
            #[cfg(feature = "std")]
            Basis::Waits(waits) => waits.reset_ns,
        })
    }

    /// How long an allowed request of a [`LeakyBucket`](crate::LeakyBucket) should wait before it proceeds: the time
    /// that the queue it found needs to drain. Zero for every other algorithm, for a refusal and for a cost of 0.
    #[inline]
    #[must_use]
    pub fn delay(&self) -> Duration {
        match &self.basis {
            Basis::Bucket(bucket) if bucket.shapes && self.allowed && bucket.cost > 0 => {
                Duration::from_nanos(self.wait_ns(bucket.drain_ns()))
            }
            _ => Duration::ZERO,
        }
    }

    /// A wait from the instant decided at, as the caller must count it. What is over already stays so.
    #[inline]
    fn wait_ns(&self, wait_ns: u64) -> u64 {
        match wait_ns {
            0 => 0,
            _ => wait_ns.saturating_add(self.lateness_ns),
        }
    }
}

/// Two decisions are equal if they tell the caller the same.
impl PartialEq for Decision {
    fn eq(&self, other: &Self) -> bool {
        self.allowed == other.allowed
            && self.store_full == other.store_full
            && self.limit() == other.limit()
            && self.remaining() == other.remaining()
            && self.retry_after() == other.retry_after()
            && self.reset_after() == other.reset_after()
            && self.delay() == other.delay()
    }
}

impl Eq for Decision {}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("allowed", &self.allowed)
            .field("store_full", &self.store_full)
            .field("limit", &self.limit())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .field("delay", &self.delay())
            .finish()
    }
}

/// A bucket, token or leaky, measured by what it lacks.
///
/// What is missing is counted in units × the period's nanoseconds, so that it shrinks by the limit, a whole number,
/// in each nanosecond.
#[derive(Clone, Copy)]
pub(crate) struct BucketBasis {
    pub(crate) limit: u64,
    pub(crate) period_ns: u64,
    pub(crate) burst: u64,
    pub(crate) cost: u64,
    missing: [u64; 2],
    pub(crate) shapes: bool,
}

impl BucketBasis {
    #[inline]
    pub(crate) const fn new(
        (limit, period_ns): (u64, u64),
        burst: u64,
        cost: u64,
        missing: u128,
        shapes: bool,
    ) -> Self {
        Self {
            limit,
            period_ns,
            burst,
            cost,
            missing: split(missing),
            shapes,
        }
    }

    #[inline]
    const fn in_periods(&self, units: u64) -> u128 {
        units as u128 * self.period_ns as u128
    }

    #[inline]
    const fn missing_after(&self, charged: bool) -> u128 {
        let found = join(self.missing);
        if charged {
            found.saturating_add(self.in_periods(self.cost))
        } else {
            found
        }
    }

    #[inline]
    fn remaining(&self, charged: bool) -> u64 {
        let level = self
            .in_periods(self.burst)
            .saturating_sub(self.missing_after(charged));
        // At most the burst.
        saturate(divide(level, self.period_ns))
    }

    #[inline]
    fn retry_ns(&self) -> u64 {
        // The most that may be missing for the request to pass.
        let passes_at = self.in_periods(self.burst.saturating_sub(self.cost));
        let excess = join(self.missing).saturating_sub(passes_at);
        saturate(divide_up(excess, self.limit))
    }

    #[inline]
    fn reset_ns(&self, charged: bool) -> u64 {
        saturate(divide_up(self.missing_after(charged), self.limit))
    }

    #[inline]
    fn drain_ns(&self) -> u64 {
        saturate(divide_up(join(self.missing), self.limit))
    }
}

/// A window that is open until `left_ns` from now, or one that a charge now would open.
#[derive(Clone, Copy)]
pub(crate) struct WindowBasis {
    pub(crate) limit: u64,
    pub(crate) cost: u64,
    pub(crate) count: u64,
    pub(crate) left_ns: u64,
    /// Whether the window ends at `left_ns` even if nothing is counted in it.
    pub(crate) is_open: bool,
}

impl WindowBasis {
    #[inline]
    const fn counted(&self, charged: bool) -> u64 {
        after(self.count, self.cost, charged)
    }

    #[inline]
    const fn reset_ns(&self, charged: bool) -> u64 {
        if self.is_open || self.counted(charged) > 0 {
            self.left_ns
        } else {
            0
        }
    }
}

/// A log, with the waits that its runs gave.
#[derive(Clone, Copy)]
pub(crate) struct LogBasis {
    pub(crate) limit: u64,
    pub(crate) period_ns: u64,
    pub(crate) cost: u64,
    pub(crate) counted: u64,
    /// Until enough runs have left for the request to pass.
    pub(crate) retry_ns: u64,
    /// Until the newest run that is stored has left.
    pub(crate) newest_leaves_ns: u64,
}

impl LogBasis {
    #[inline]
    const fn counted(&self, charged: bool) -> u64 {
        after(self.counted, self.cost, charged)
    }

    #[inline]
    const fn reset_ns(&self, charged: bool) -> u64 {
        // What is charged now leaves a period from now.
        if charged {
            self.period_ns
        } else {
            self.newest_leaves_ns
        }
    }
}

/// A sliding window counter, `elapsed_ns` into its current window.
#[derive(Clone, Copy)]
pub(crate) struct CounterBasis {
    pub(crate) limit: u64,
    pub(crate) period_ns: u64,
    pub(crate) cost: u64,
    pub(crate) previous: u64,
    pub(crate) current: u64,
    pub(crate) elapsed_ns: u64,
}

impl CounterBasis {
    /// Whether `previous·(P − e)/P + current + cost ≤ L`, multiplied by P so that it is whole.
    #[inline]
    pub(crate) const fn admits(&self) -> bool {
        match self.room() {
            Some(room) => self.weight() <= room as u128 * self.period_ns as u128,
            None => false,
        }
    }

    /// What is left of the limit for the previous window's share, or `None` if the current one leaves nothing.
    #[inline]
    const fn room(&self) -> Option<u64> {
        match self.limit.checked_sub(self.current) {
            Some(free) => free.checked_sub(self.cost),
            None => None,
        }
    }

    /// The previous window's share, times the period.
    #[inline]
    const fn weight(&self) -> u128 {
        self.previous as u128 * self.left_ns() as u128
    }

    #[inline]
    const fn left_ns(&self) -> u64 {
        self.period_ns.saturating_sub(self.elapsed_ns)
    }

    #[inline]
    fn remaining(&self, charged: bool) -> u64 {
        let current = after(self.current, self.cost, charged);
        // The floor of L − current − share is L − current − the ceiling of the share.
        let share = saturate(divide_up(self.weight(), self.period_ns));
        self.limit.saturating_sub(current).saturating_sub(share)
    }

    #[inline]
    fn retry_ns(&self) -> u64 {
        let this_window = self.left_ns() as u128;
        let period = self.period_ns as u128;
        let wait = match self.room() {
            // In this window: when what is left of it weighs no more than the room. If that is only at its very end,
            // the next window has the room too, for there the current count is the previous one, at its full weight.
            Some(room) => {
                let may_be_left = room as u128 * period / (self.previous.max(1) as u128);
                this_window.saturating_sub(may_be_left)
            }
            // In the next window, where the current count is the previous one.
            None => {
                let room = self.limit.saturating_sub(self.cost) as u128;
                let may_be_left = room * period / (self.current.max(1) as u128);
                this_window + period.saturating_sub(may_be_left)
            }
        };
        saturate(wait)
    }

    #[inline]
    const fn reset_ns(&self, charged: bool) -> u64 {
        if after(self.current, self.cost, charged) > 0 {
            self.left_ns().saturating_add(self.period_ns)
        } else if self.previous > 0 {
            self.left_ns()
        } else {
            0
        }
    }
}

/// A decision of which only the waits are known; nothing remains.
#[cfg(feature = "std")]
#[derive(Clone, Copy)]
pub(crate) struct WaitsBasis {
    pub(crate) limit: u64,
    pub(crate) retry_ns: u64,
    pub(crate) reset_ns: u64,
}

#[inline]
const fn after(count: u64, cost: u64, charged: bool) -> u64 {
    if charged {
        count.saturating_add(cost)
    } else {
        count
    }
}

/// A u128 as two halves: 16 bytes of alignment 8, where a `u128` would ask for 16.
#[inline]
pub(crate) const fn split(value: u128) -> [u64; 2] {
    [value as u64, (value >> 64) as u64]
}

#[inline]
pub(crate) const fn join([low, high]: [u64; 2]) -> u128 {
    (high as u128) << 64 | low as u128
}

/// `dividend / divisor`, by the processor's own division where both fit a word.
#[inline]
const fn divide(dividend: u128, divisor: u64) -> u128 {
    if dividend <= u64::MAX as u128 {
        (dividend as u64 / divisor) as u128
    } else {
        dividend / divisor as u128
    }
}

#[inline]
pub(crate) const fn divide_up(dividend: u128, divisor: u64) -> u128 {
    let quotient = divide(dividend, divisor);
    if quotient * (divisor as u128) < dividend {
        quotient + 1
    } else {
        quotient
    }
}

#[inline]
pub(crate) const fn saturate(value: u128) -> u64 {
    if value > u64::MAX as u128 {
        u64::MAX
    } else {
        value as u64
    }
}
