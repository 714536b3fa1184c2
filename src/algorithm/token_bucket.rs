use core::fmt;

use super::bucket::{Bucket, BucketState};
use crate::decision::Decision;
use crate::error::{BurstError, CostTooHigh};
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

    /// How many units the bucket holds.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.0.burst()
    }
}

impl Limiter for TokenBucket {
    type State = BucketState;

    #[inline]
    fn quota(&self) -> Quota {
        self.0.quota()
    }

    #[inline]
    fn fresh(&self, _now: Timestamp) -> BucketState {
        BucketState::default()
    }

    #[inline]
    fn check(
        &self,
        state: &mut BucketState,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        self.0.check(state, now, cost, SHAPES)
    }

    #[inline]
    fn peek(
        &self,
        state: &BucketState,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        self.0.peek(state, now, cost, SHAPES)
    }

    fn idle_at(&self, state: &BucketState) -> Timestamp {
        self.0.idle_at(state)
    }

    #[inline]
    fn is_idle(&self, state: &BucketState, now: Timestamp) -> bool {
        self.0.is_idle(state, now)
    }
}

impl sealed::Sealed for TokenBucket {}

impl fmt::Debug for TokenBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenBucket({}, burst {})", self.quota(), self.burst())
    }
}

/// A token bucket lets go at once or not at all.
const SHAPES: bool = false;
