use core::fmt;

use super::bucket::{Bucket, BucketFound, BucketState};
use super::debt::{DebtCap, max_debt_builders};
use crate::decision::{Decision, Receipt, Recorded};
use crate::error::{BurstError, CostTooHigh, DebtError};
use crate::limiter::{Limiter, sealed};
use crate::quota::Quota;
use crate::time::Timestamp;

/// A bucket of tokens that refills at the quota's rate; a request takes as many as it costs, or is refused.
///
/// A level in [0, B], B at first, rises L/P per nanosecond. A cost c is allowed iff level ≥ c. The burst B is the
/// limit unless [`with_burst`](Self::with_burst) says otherwise. Decisions are exact: fractions of a token are kept,
/// whatever the rate. A state takes 16 bytes.
///
/// Its weakness is its virtue: a client that was quiet may spend the whole burst at once, so within one period it can
/// spend up to B + L, twice the limit where B is the limit. Where that is too much, make the burst small: 100 per
/// minute with a burst of 10 never allows more than 110 in a minute.
///
/// Source: Turner, "New directions in communications", IEEE Communications Magazine 24 (10), 1986; as state here is
/// kept, the virtual-scheduling form of GCRA, ITU-T Recommendation I.371, made exact.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Keyed, Quota, Timestamp, TokenBucket};
///
/// let limiter: Keyed<String, _> = Keyed::new(TokenBucket::new(Quota::per_minute(60)).with_burst(2));
/// let now = Timestamp::from_secs(1_000);
/// assert!(limiter.allow("ada", now) && limiter.allow("ada", now));
/// assert!(!limiter.allow("ada", now));
/// assert!(limiter.allow("ada", now + Duration::from_secs(1)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenBucket(Bucket);

impl TokenBucket {
    /// A bucket that refills at `quota`'s rate and holds its limit.
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

    /// How many units the bucket holds.
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

impl Limiter for TokenBucket {
    type State = BucketState;
    type Found = BucketFound;

    #[inline]
    fn quota(&self) -> Quota {
        self.0.quota()
    }

    #[inline]
    fn fresh(&self, _now: Timestamp) -> BucketState {
        BucketState::default()
    }

    fn refund(&self, state: &mut BucketState, now: Timestamp, receipt: Receipt) -> u64 {
        self.0.refund(state, now, receipt.cost())
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

    fn redate(&self, state: &mut BucketState, from: Timestamp, to: Timestamp) {
        self.0.redate(state, from, to);
    }

    fn is_sound(&self, state: &BucketState) -> bool {
        self.0.is_sound(state)
    }
}

impl sealed::Sealed for TokenBucket {}

impl fmt::Debug for TokenBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.describe("TokenBucket", f)
    }
}

/// A token bucket lets go at once or not at all.
const SHAPES: bool = false;
