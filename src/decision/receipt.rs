//! [`Receipt`]: what names a charge, so that it can be given back.

use crate::arithmetic::{join, split};
use crate::time::Timestamp;

/// What names a charge: how many units it spent, and the instant at which it was decided.
///
/// A [`Decision`](super::Decision) that spent something carries one, and `refund` takes it: when the upstream failed, when
/// the answer was "not modified", when only failures should count. It is small and `Copy`; keep it with the request.
///
/// It belongs to the limiter that made it. Another's is harmless: what was not spent is not given back beyond the limit.
///
/// ```
/// use tollgate::{Direct, Quota, Timestamp, TokenBucket};
///
/// let limiter = Direct::new(TokenBucket::new(Quota::per_minute(10)));
/// let now = Timestamp::from_secs(1_000);
/// let decision = limiter.check_n(7, now)?;
/// let receipt = decision.receipt().expect("seven units were spent");
/// assert_eq!(limiter.refund(receipt.part(2), now), 2);
/// assert_eq!(limiter.peek(now).remaining(), 5);
/// # Ok::<(), tollgate::CostTooHigh>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    cost: u64,
    /// What was charged; `cost` may be a part of it.
    charged: u64,
    charged_at: Timestamp,
    tail: Tail,
}

impl Receipt {
    pub(crate) const fn new(cost: u64, charged_at: Timestamp, tail: Tail) -> Self {
        Self {
            cost,
            charged: cost,
            charged_at,
            tail,
        }
    }

    /// The units that were spent.
    #[must_use]
    pub const fn cost(&self) -> u64 {
        self.cost
    }

    /// The instant at which the charge was decided: the caller's stamp, or a later one where the limiter's time had come
    /// further.
    #[must_use]
    pub const fn charged_at(&self) -> Timestamp {
        self.charged_at
    }

    /// The same charge, but at most `units` of it: to give back a part.
    #[must_use]
    pub const fn part(self, units: u64) -> Self {
        Self {
            cost: if units < self.cost { units } else { self.cost },
            ..self
        }
    }

    /// Where the charge left the end of a leaky bucket's queue.
    pub(crate) const fn tail(&self) -> Tail {
        self.tail
    }

    /// All that was charged, whatever part this names.
    pub(crate) const fn charged(&self) -> u64 {
        self.charged
    }

    /// Where a member's queue must end for its part of this charge to be given back, of several limits with so many queues.
    /// Queues that were charged together are left together: all end with this charge, or it is the last of none.
    pub(crate) const fn tail_of_member(&self, queues: usize, is_last: bool, member: Tail) -> Tail {
        if queues == 1 && !member.is_none() {
            self.tail
        } else if is_last {
            member
        } else {
            Tail::NONE
        }
    }

    pub(crate) const fn with_tail(self, tail: Tail) -> Self {
        Self { tail, ..self }
    }
}

/// A receipt of what may be nothing, in as few words as will do.
#[cfg(feature = "wait")]
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    units: u64,
    at: Timestamp,
    tail: Tail,
}

#[cfg(feature = "wait")]
impl Spent {
    #[inline]
    pub(crate) const fn new(units: u64, at: Timestamp, tail: Tail) -> Self {
        Self { units, at, tail }
    }

    #[inline]
    pub(crate) const fn is_something(&self) -> bool {
        self.units > 0
    }

    #[inline]
    pub(crate) const fn receipt(&self) -> Option<Receipt> {
        if self.units == 0 {
            return None;
        }
        Some(Receipt::new(self.units, self.at, self.tail))
    }
}

/// What a charge has recorded, up to the cap on debt.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// Of several limits, by each of them.
    pub(crate) units: u64,
    /// Whether any of them has recorded something: time has come so far then.
    pub(crate) any: bool,
}

impl Recorded {
    pub(crate) const NOTHING: Self = Self::of(0);

    #[inline]
    pub(crate) const fn of(units: u64) -> Self {
        Self {
            units,
            any: units > 0,
        }
    }

    /// Of two limits that were charged together.
    #[inline]
    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            units: if self.units < other.units {
                self.units
            } else {
                other.units
            },
            any: self.any || other.any,
        }
    }
}

/// The end of a leaky bucket's queue: the instant at which it will be empty, times the limit; zero where no queue is.
///
/// Every charge moves it and a refund of the last one moves it back, so a charge is the queue's last iff the queue still
/// ends where that charge left it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Tail([u64; 2]);

impl Tail {
    pub(crate) const NONE: Self = Self([0, 0]);

    #[inline]
    pub(crate) const fn at(empty_at_limit: u128) -> Self {
        Self(split(empty_at_limit))
    }

    #[inline]
    pub(crate) const fn is_none(self) -> bool {
        join(self.0) == 0
    }

    #[inline]
    pub(crate) const fn end(self) -> u128 {
        join(self.0)
    }

    /// The ends of two queues as one; where there is only one, its own.
    #[inline]
    pub(crate) const fn and(self, other: Self) -> Self {
        if self.is_none() {
            return other;
        }
        if other.is_none() {
            return self;
        }
        // Mixed and not added up: two that have moved apart must not make the same.
        Self(split(join(self.0).wrapping_mul(ODD) ^ join(other.0)))
    }
}

/// An odd number without a pattern: 2¹²⁸ divided by the golden ratio.
const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
