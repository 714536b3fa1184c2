//! [`Decision`]: what a limiter answered, kept as the raw numbers and worked out when asked.

mod basis;
mod receipt;
mod summary;

use core::fmt;
use core::time::Duration;

use self::basis::{Basis, PairBasis};
pub(crate) use self::basis::{
    BucketBasis, CounterBasis, LogBasis, RuleBasis, SummaryBasis, WindowBasis,
};
pub use self::receipt::Receipt;
#[cfg(feature = "wait")]
pub(crate) use self::receipt::Spent;
pub(crate) use self::receipt::{Recorded, Tail};
use self::summary::Summary;
use crate::time::Timestamp;

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
    /// Whether the cost that the basis names was spent, on top of what the basis found.
    taken: bool,
    /// Whether whoever holds the state must not decide before this instant any more.
    #[cfg_attr(not(feature = "std"), allow(dead_code, reason = "holders ask"))]
    moves_time: bool,
    store_full: bool,
    would_have_refused: bool,
    /// Nobody waits in a queue that was not joined.
    undelayed: bool,
    /// Of several limits, the one that refused.
    member: u16,
    /// What this call may use.
    granted: u64,
    /// What it has spent, which a receipt names.
    spent: u64,
    unrecorded: u64,
    decided_at: Timestamp,
    /// How much later than the caller's stamp the rule was asked (see `HolderTime`).
    lateness_ns: u64,
    tail: Tail,
    basis: Basis,
}

impl Decision {
    /// What a rule has found at `now`; if it is allowed, `taken` units of it were spent.
    #[inline]
    pub(crate) const fn new(basis: RuleBasis, now: Timestamp, allowed: bool, taken: u64) -> Self {
        Self::of(Basis::Rule(basis), now, allowed, taken)
    }

    #[inline]
    const fn of(basis: Basis, now: Timestamp, allowed: bool, taken: u64) -> Self {
        Self {
            allowed,
            taken: taken > 0,
            moves_time: taken > 0,
            store_full: false,
            would_have_refused: false,
            undelayed: false,
            member: 0,
            granted: taken,
            spent: taken,
            unrecorded: 0,
            decided_at: now,
            lateness_ns: 0,
            tail: Tail::NONE,
            basis,
        }
    }

    /// What several limits, at least one, decide together at one instant.
    #[inline(always)]
    pub(crate) fn together(decisions: impl IntoIterator<Item = Self>) -> Self {
        let mut decisions = decisions.into_iter();
        let (first, second, third) = (decisions.next(), decisions.next(), decisions.next());
        match (&first, &second, &third) {
            (Some(only), None, _) => return *only,
            (Some(first), Some(second), None) => {
                if let Some(pair) = Self::pair(first, second) {
                    return pair;
                }
            }
            _ => {}
        }
        let mut summary = Summary::new();
        let few = [first, second, third].into_iter().flatten();
        few.chain(decisions)
            .for_each(|decision| summary.add(&decision));
        summary.decision()
    }

    /// Two rules as one, unless one of them is more than a rule: several itself, or one that is only tried.
    #[inline(always)]
    fn pair(first: &Self, second: &Self) -> Option<Self> {
        let (Basis::Rule(one), Basis::Rule(other)) = (&first.basis, &second.basis) else {
            return None;
        };
        if first.would_have_refused || second.would_have_refused {
            return None;
        }
        let basis = Basis::Pair(PairBasis {
            rules: [*one, *other],
            admits: [first.allowed, second.allowed],
        });
        let allowed = first.allowed && second.allowed;
        Some(Self::of(basis, first.decided_at, allowed, first.spent))
    }

    /// A peek, made of a charge of `cost` that came before it.
    #[inline]
    pub(crate) const fn after_charge(self, recorded: Recorded, cost: u64) -> Self {
        Self {
            moves_time: recorded.any,
            granted: recorded.units,
            spent: recorded.units,
            unrecorded: cost - recorded.units,
            ..self
        }
    }

    /// Allowed in spite of the limit, which is only being tried.
    #[inline]
    pub(crate) const fn in_shadow(self, granted: u64) -> Self {
        Self {
            allowed: true,
            would_have_refused: true,
            undelayed: self.undelayed || !self.allowed,
            granted,
            ..self
        }
    }

    /// Nothing has joined a queue.
    #[inline]
    pub(crate) const fn without_tail(self) -> Self {
        Self {
            tail: Tail::NONE,
            basis: self.basis.without_tail(),
            ..self
        }
    }

    /// Of several limits: the one that refused, whether any would have, and where the first queue of them ends.
    #[inline]
    pub(crate) const fn of_members(
        self,
        refused_by: usize,
        would_have_refused: bool,
        tail: Tail,
    ) -> Self {
        Self {
            // More members than that have no name; nobody writes so many limits.
            member: if refused_by < u16::MAX as usize {
                refused_by as u16
            } else {
                u16::MAX
            },
            would_have_refused,
            tail,
            ..self
        }
    }

    /// The state has changed for good, whether something was spent or not.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) const fn moving_time(self) -> Self {
        Self {
            moves_time: true,
            ..self
        }
    }

    /// Nothing of the decision was kept.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) const fn leaving_time(self) -> Self {
        Self {
            moves_time: false,
            ..self
        }
    }

    /// A refusal of a cost of 1 that was noted, of a client without debt: less than one unit remains.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) const fn from_memory(
        limit: u64,
        (retry_ns, reset_ns): (u64, u64),
        member: usize,
        now: Timestamp,
    ) -> Self {
        let basis = SummaryBasis {
            limit,
            remaining: 0,
            retry_ns,
            reset_ns,
            delay_ns: 0,
            debt: 0,
        };
        Self::of(Basis::Summary(basis), now, false, 0).of_members(member, false, Tail::NONE)
    }

    /// A refusal because others wait: `then` is what the request would be told when the last of them has gone, `until_then_ns`
    /// from now. Nothing is left for anyone else until then; this one may go after `retry_ns`.
    #[cfg(feature = "wait")]
    pub(crate) fn behind_others(
        then: &Self,
        (until_then_ns, retry_ns): (u64, u64),
        debt: u64,
        now: Timestamp,
    ) -> Self {
        let basis = SummaryBasis {
            limit: then.limit(),
            remaining: 0,
            retry_ns,
            reset_ns: until_then_ns.saturating_add(then.reset_after_ns()),
            delay_ns: 0,
            debt,
        };
        let member = then.refused_by().unwrap_or(0);
        Self::of(Basis::Summary(basis), now, false, 0).of_members(member, false, Tail::NONE)
    }

    /// A peek, made of a booking that came before it: what is booked is spent, and may be used after `delay_ns`.
    #[cfg(feature = "wait")]
    pub(crate) fn booked(self, recorded: Recorded, delay_ns: u64) -> Self {
        let basis = SummaryBasis {
            limit: self.limit(),
            remaining: self.remaining(),
            retry_ns: 0,
            reset_ns: self.reset_after_ns(),
            delay_ns,
            debt: self.debt(),
        };
        let decision = Self::of(Basis::Summary(basis), self.decided_at, true, 0);
        decision.after_charge(recorded, recorded.units)
    }

    /// What was charged, with how the client stands behind those who wait.
    #[cfg(feature = "std")]
    pub(crate) fn charged_behind(self, behind: Self) -> Self {
        Self {
            moves_time: self.moves_time,
            granted: self.granted,
            spent: self.spent,
            unrecorded: self.unrecorded,
            ..behind
        }
    }

    /// The same where a store has no room for the client: it is refused, or let through, and nothing is kept.
    #[cfg(feature = "std")]
    pub(crate) fn for_want_of_room(self, retry_ns: u64, allowed: bool) -> Self {
        let refused = Self::from_memory(self.limit(), (retry_ns, 0), 0, self.decided_at);
        Self {
            allowed,
            store_full: true,
            granted: if allowed { self.granted } else { 0 },
            ..refused
        }
    }

    /// What could not be recorded of a charge.
    #[cfg(feature = "std")]
    pub(crate) const fn with_unrecorded(self, unrecorded: u64) -> Self {
        Self { unrecorded, ..self }
    }

    /// Counts waits from a stamp that lies `lateness_ns` before the instant that was decided at.
    #[inline]
    #[cfg(feature = "std")]
    pub(crate) const fn count_from(&mut self, lateness_ns: u64) {
        self.lateness_ns = lateness_ns;
    }

    /// The same.
    #[inline]
    #[cfg(feature = "std")]
    pub(crate) const fn counted_from(self, lateness_ns: u64) -> Self {
        Self {
            lateness_ns,
            ..self
        }
    }

    /// Whether time has come to the instant of this decision: it spent something, or changed the state for good.
    #[inline]
    #[cfg(feature = "std")]
    pub(crate) const fn moves_time(&self) -> bool {
        self.moves_time
    }

    /// Whether units were spent, which the state now remembers.
    #[inline]
    pub(crate) const fn is_recorded(&self) -> bool {
        self.spent > 0
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
    pub fn limit(&self) -> u64 {
        match &self.basis {
            Basis::Rule(rule) => rule.limit(),
            Basis::Pair(pair) => pair.limit(self.taken),
            Basis::Summary(summary) => summary.limit,
        }
    }

    /// The whole units that are left after this decision, rounded down.
    ///
    /// It may exceed [`limit`](Self::limit) for a bucket whose burst does.
    #[inline]
    #[must_use]
    pub fn remaining(&self) -> u64 {
        match &self.basis {
            Basis::Rule(rule) => rule.remaining(self.taken),
            Basis::Pair(pair) => pair.remaining(self.taken),
            Basis::Summary(summary) => summary.remaining,
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
            Basis::Rule(rule) => rule.retry_ns(),
            Basis::Pair(pair) => pair.retry_ns(),
            Basis::Summary(summary) => summary.retry_ns,
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
            Basis::Rule(rule) => rule.reset_ns(self.taken),
            Basis::Pair(pair) => pair.reset_ns(self.taken),
            Basis::Summary(summary) => summary.reset_ns,
        })
    }

    /// How long an allowed request of a [`LeakyBucket`](crate::LeakyBucket) should wait before it proceeds: the time
    /// that the queue it found needs to drain. Zero for every other algorithm, for a refusal and for a cost of 0.
    #[inline]
    #[must_use]
    pub fn delay(&self) -> Duration {
        Duration::from_nanos(self.delay_ns())
    }

    #[inline]
    pub(crate) fn delay_ns(&self) -> u64 {
        if !self.allowed || self.undelayed {
            return 0;
        }
        self.wait_ns(match &self.basis {
            Basis::Rule(rule) => rule.delay_ns(),
            Basis::Pair(pair) => pair.delay_ns(),
            Basis::Summary(summary) => summary.delay_ns,
        })
    }

    /// The units that this call may use: the cost of a check that was allowed, what `at_most` has granted, what `charge` has
    /// recorded. None for a refusal, and for a peek, which gives nothing.
    #[inline]
    #[must_use]
    pub const fn granted(&self) -> u64 {
        self.granted
    }

    /// Whether it is that of one bucket, which has no window that ends.
    #[cfg(feature = "http")]
    pub(crate) const fn is_of_bucket(&self) -> bool {
        matches!(self.basis, Basis::Rule(RuleBasis::Bucket(_)))
    }

    /// The same of what may be nothing.
    #[cfg(feature = "wait")]
    #[inline]
    pub(crate) const fn spent(&self) -> Spent {
        Spent::new(self.spent, self.decided_at, self.tail())
    }

    /// What names the charge, to give it back with `refund`; `None` where nothing was spent.
    ///
    /// ```
    /// use tollgate::{Direct, Quota, Timestamp, TokenBucket};
    ///
    /// let limiter = Direct::new(TokenBucket::new(Quota::per_minute(1)));
    /// let now = Timestamp::from_secs(1_000);
    /// let receipt = limiter.check(now).receipt().expect("a unit was spent");
    /// assert!(limiter.check(now).receipt().is_none(), "a refusal spends nothing");
    /// assert_eq!(limiter.refund(receipt, now), 1);
    /// assert!(limiter.allow(now));
    /// ```
    #[inline]
    #[must_use]
    pub fn receipt(&self) -> Option<Receipt> {
        (self.spent > 0).then(|| Receipt::new(self.spent, self.decided_at, self.tail()))
    }

    /// Where the queue ends after this decision, if there is one.
    #[inline]
    pub(crate) const fn tail(&self) -> Tail {
        match &self.basis {
            Basis::Rule(rule) => rule.tail(self.decided_at, self.taken),
            Basis::Pair(pair) => pair.tail(self.decided_at, self.taken),
            Basis::Summary(_) => self.tail,
        }
    }

    /// The units that the client owes after this decision, rounded up: what was charged beyond the limit (see
    /// `charge`). Zero within the limit.
    #[inline]
    #[must_use]
    pub fn debt(&self) -> u64 {
        match &self.basis {
            Basis::Rule(rule) => rule.debt(self.taken),
            Basis::Pair(pair) => pair.debt(self.taken),
            Basis::Summary(summary) => summary.debt,
        }
    }

    /// Of a `charge`: the units that lay above the cap on debt and were not recorded. Zero for everything else.
    #[inline]
    #[must_use]
    pub const fn unrecorded(&self) -> u64 {
        self.unrecorded
    }

    /// Which limit refused, of several that are one: the one with the longest wait, the first of those that wait as long.
    /// A limit by itself is number 0. `None` if the request may go.
    #[inline]
    #[must_use]
    pub fn refused_by(&self) -> Option<usize> {
        if self.allowed {
            return None;
        }
        Some(match &self.basis {
            Basis::Pair(pair) => pair.refused_by(),
            _ => self.member as usize,
        })
    }

    /// Whether a limit that is only being tried ([`Shadow`](crate::Shadow)) would have refused this request.
    #[inline]
    #[must_use]
    pub const fn would_have_refused(&self) -> bool {
        self.would_have_refused
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
            && self.would_have_refused == other.would_have_refused
            && self.refused_by() == other.refused_by()
            && self.limit() == other.limit()
            && self.remaining() == other.remaining()
            && self.retry_after() == other.retry_after()
            && self.reset_after() == other.reset_after()
            && self.delay() == other.delay()
            && self.granted() == other.granted()
            && self.receipt() == other.receipt()
            && self.debt() == other.debt()
            && self.unrecorded == other.unrecorded
    }
}

impl Eq for Decision {}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Decision");
        shown
            .field("allowed", &self.allowed)
            .field("limit", &self.limit())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .field("delay", &self.delay());
        // The rare things, where there are any.
        if self.granted > 0 {
            shown.field("granted", &self.granted);
        }
        if self.debt() > 0 {
            shown.field("debt", &self.debt());
        }
        if self.unrecorded > 0 {
            shown.field("unrecorded", &self.unrecorded);
        }
        if let Some(member @ 1..) = self.refused_by() {
            shown.field("refused_by", &member);
        }
        if self.store_full {
            shown.field("store_full", &true);
        }
        if self.would_have_refused {
            shown.field("would_have_refused", &true);
        }
        shown.finish()
    }
}
