use core::fmt;

use super::bucket::{Bucket, BucketFound, BucketState};
use super::debt::{DebtCap, max_debt_builders};
use crate::decision::{Decision, Receipt, Recorded, Tail};
use crate::error::{BurstError, CostTooHigh, DebtError};
use crate::limiter::{Limiter, sealed};
use crate::quota::Quota;
use crate::time::Timestamp;

/// A queue that requests leave one every P/L; a request joins it, or is refused when it is full.
///
/// A backlog w, 0 at first, falls L/P per nanosecond. A cost c is admitted iff w + c ≤ B, and then should proceed only
/// after [`delay`](crate::Decision::delay), the time that the backlog it found needs to drain: it shapes, and what
/// lies behind it sees at most L/P. B, [`with_burst`](Self::with_burst), is how many units the queue holds. A state
/// takes 16 bytes.
///
/// Its weakness is the delay: under load each admitted request waits, up to B · P/L, and a caller that does not wait
/// has a token bucket: this admits exactly what a [`TokenBucket`](crate::TokenBucket) of the same quota and burst
/// admits.
///
/// Source: Turner, "New directions in communications", IEEE Communications Magazine 24 (10), 1986 (the leaky bucket
/// as a queue); its state is the same as the token bucket's.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Direct, LeakyBucket, Quota, Timestamp};
///
/// let queue = Direct::new(LeakyBucket::new(Quota::per_second(10)).with_burst(3));
/// let now = Timestamp::from_secs(1_000);
/// let delays: Vec<_> = (0..3).map(|_| queue.check(now).delay().as_millis()).collect();
/// assert_eq!(delays, [0, 100, 200]);
/// assert!(!queue.allow(now), "the queue is full");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeakyBucket(Bucket);

impl LeakyBucket {
    /// A queue that drains at `quota`'s rate and holds its limit.
    #[must_use]
    pub const fn new(quota: Quota) -> Self {
        Self(Bucket::new(quota))
    }

    /// The same, holding `burst` units: 1..=2⁶³ − 1, below or above the limit.
    ///
    /// # Panics
    ///
    /// If `burst` is out of range. For a number that is not in the code, use [`try_with_burst`](Self::try_with_burst).
    #[must_use]
    pub const fn with_burst(self, burst: u64) -> Self {
        Self(self.0.with_burst(burst))
    }

    /// The same, holding `burst` units: 1..=2⁶³ − 1, below or above the limit.
    ///
    /// # Errors
    ///
    /// [`BurstError`] if `burst` is out of range.
    pub const fn try_with_burst(self, burst: u64) -> Result<Self, BurstError> {
        match self.0.try_with_burst(burst) {
            Ok(bucket) => Ok(Self(bucket)),
            Err(error) => Err(error),
        }
    }

    max_debt_builders!("burst");

    /// How many units the queue holds.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.0.burst()
    }

    #[cfg(feature = "wait")]
    pub(crate) const fn bucket(&self) -> &Bucket {
        &self.0
    }

    const fn with_cap(self, cap: DebtCap) -> Self {
        Self(self.0.with_cap(cap))
    }

    const fn cap(&self) -> DebtCap {
        self.0.cap()
    }

    const fn grants(&self) -> u64 {
        self.0.burst()
    }
}

impl Limiter for LeakyBucket {
    type State = BucketState;
    type Found = BucketFound;
    const SHAPES: bool = true;
    const IS_QUEUE: bool = true;

    #[inline]
    fn quota(&self) -> Quota {
        self.0.quota()
    }

    #[inline]
    fn fresh(&self, _now: Timestamp) -> BucketState {
        BucketState::default()
    }

    fn refund(&self, state: &mut BucketState, now: Timestamp, receipt: Receipt) -> u64 {
        // Those behind it in the queue were told their delays, and what leaves from the middle would bring two out at once.
        let left = state.left_of(receipt, self.quota().period_ns());
        self.0.refund_parts(state, now, left)
    }

    fn carry(&self, from: &Self, state: BucketState, now: Timestamp) -> BucketState {
        self.0.carry(&from.0, state, now)
    }

    fn idle_at(&self, state: &BucketState) -> Timestamp {
        self.0.idle_at(state)
    }

    #[inline]
    fn is_idle(&self, state: &BucketState, now: Timestamp) -> bool {
        self.0.is_idle(state, now)
    }

    #[inline]
    fn look(
        &self,
        state: &BucketState,
        now: Timestamp,
        cost: u64,
    ) -> Result<BucketFound, CostTooHigh> {
        self.0.look(state, now, cost)
    }

    #[cfg(feature = "wait")]
    fn check_in_turn(
        &self,
        state: &mut BucketState,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        self.0.check_in_turn(state, now, cost, SHAPES)
    }

    #[inline]
    fn admits(&self, found: &BucketFound) -> bool {
        found.admits()
    }

    #[inline]
    fn take(&self, state: &mut BucketState, _now: Timestamp, found: &BucketFound, cost: u64) {
        self.0.take(state, found, cost);
    }

    #[inline]
    fn decision(&self, found: &BucketFound, now: Timestamp, taken: u64) -> Decision {
        self.0.decision(found, now, taken, SHAPES)
    }

    fn record(&self, state: &mut BucketState, now: Timestamp, units: u64) -> Recorded {
        self.0.record(state, now, units)
    }

    #[inline]
    fn tail(&self, state: &BucketState) -> Tail {
        state.tail()
    }

    fn redate(&self, state: &mut BucketState, from: Timestamp, to: Timestamp) {
        self.0.redate(state, from, to);
    }

    fn is_sound(&self, state: &BucketState) -> bool {
        self.0.is_sound(state)
    }
}

impl sealed::Sealed for LeakyBucket {}

impl fmt::Debug for LeakyBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.describe("LeakyBucket", f)
    }
}

/// What is admitted should wait its turn.
const SHAPES: bool = true;
