//! The bucket that the token bucket and the leaky bucket share: one arithmetic, told from two sides.
//!
//! The simplest idea is to keep a level and the instant at which it was right, and to add `elapsed · L / P` at each
//! call. It breaks at the fraction: rounded down at every call it is lost, and a client that asks often starves (10
//! per second asked every 99 ms never sees a unit); rounded to nearest, units come from nowhere. Keeping the instant at
//! which the bucket will be *full* is better (this is GCRA's "theoretical arrival time"), but at 3 per 10 ns that
//! instant falls between two nanoseconds, and rounding it is the same fault again.
//!
//! So the state is that instant times the limit, `full_at · L`: a whole number always, for each unit spent moves it
//! by the period P, and each nanosecond that passes comes nearer to it by L. What is missing from full at `now` is
//! `full_at · L − now · L`, in units × P; a cost c passes iff what is missing and c · P fit into B · P. Two
//! multiplications and no division: the division waits in [`Decision`] for those who ask how long.
//!
//! Worked example, 3 units per 10 ns, B = 3: at t = 100 all 3 are taken: `full_at · L` = 300 + 3·10 = 330. Then 30 are
//! missing, a cost of 1 passes when at most 20 are: in ⌈10 / 3⌉ = 4 ns. At 104 are 330 − 312 = 18 missing: one
//! passes, and 28 are missing after it. Nothing was rounded, so nothing drifts.

use crate::decision::{Basis, BucketBasis, Decision, divide_up, join, saturate, split};
use crate::error::{BurstError, CostTooHigh};
use crate::quota::Quota;
use crate::time::Timestamp;

/// What a [`TokenBucket`](crate::TokenBucket) or a [`LeakyBucket`](crate::LeakyBucket) keeps of a client: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct BucketState {
    /// The instant at which the bucket is full (or the queue empty) times the limit. At most
    /// (2⁶³ − 1)² + (2⁶³ − 1) · (2⁶⁴ − 1), which is below 2¹²⁸.
    full_at_limit: [u64; 2],
}

/// A quota and a burst: the arithmetic of both buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Bucket {
    quota: Quota,
    burst: u64,
}

impl Bucket {
    pub(super) const fn new(quota: Quota) -> Self {
        Self {
            quota,
            burst: quota.limit(),
        }
    }

    pub(super) const fn try_with_burst(self, burst: u64) -> Result<Self, BurstError> {
        if burst == 0 || burst > Quota::MAX_LIMIT {
            return Err(BurstError::new(burst));
        }
        Ok(Self { burst, ..self })
    }

    pub(super) const fn with_burst(self, burst: u64) -> Self {
        match self.try_with_burst(burst) {
            Ok(bucket) => bucket,
            Err(_) => panic!("a bucket's burst must be from 1 to 2^63 - 1 units"),
        }
    }

    #[inline]
    pub(super) const fn quota(&self) -> Quota {
        self.quota
    }

    #[inline]
    pub(super) const fn burst(&self) -> u64 {
        self.burst
    }

    #[inline]
    pub(super) fn check(
        &self,
        state: &mut BucketState,
        now: Timestamp,
        cost: u64,
        shapes: bool,
    ) -> Result<Decision, CostTooHigh> {
        let found = self.find(state, now, cost)?;
        let basis = self.basis(&found, cost, shapes);
        if !found.admits {
            return Ok(Decision::uncharged(basis, false));
        }
        if cost > 0 {
            // A full bucket is full now, however long ago it was filled: it holds no more than its burst.
            // Admitted, so what is missing after is at most B · P: this cannot overflow.
            state.full_at_limit = split(found.now_limit + found.missing + found.spent);
        }
        Ok(Decision::charged(basis, cost))
    }

    #[inline]
    pub(super) fn peek(
        &self,
        state: &BucketState,
        now: Timestamp,
        cost: u64,
        shapes: bool,
    ) -> Result<Decision, CostTooHigh> {
        let found = self.find(state, now, cost)?;
        Ok(Decision::uncharged(
            self.basis(&found, cost, shapes),
            found.admits,
        ))
    }

    pub(super) fn idle_at(&self, state: &BucketState) -> Timestamp {
        let full_at = divide_up(join(state.full_at_limit), self.quota.limit());
        Timestamp::from_nanos(saturate(full_at))
    }

    #[inline]
    pub(super) fn is_idle(&self, state: &BucketState, now: Timestamp) -> bool {
        // As the trait has it, without the division of `idle_at`: by now, and before the last stamp.
        join(state.full_at_limit) <= self.at_limit(now.min(LAST_BUT_ONE))
    }

    #[inline]
    fn find(&self, state: &BucketState, now: Timestamp, cost: u64) -> Result<Found, CostTooHigh> {
        if cost > self.burst {
            return Err(CostTooHigh::new(cost, self.burst));
        }
        let period_ns = u128::from(self.quota.period_ns());
        let now_limit = self.at_limit(now);
        let missing = join(state.full_at_limit).saturating_sub(now_limit);
        let spent = u128::from(cost) * period_ns;
        // Not `missing + spent <= full`: with a stamp that runs back, that sum could overflow.
        let passes_at = u128::from(self.burst) * period_ns - spent;
        Ok(Found {
            now_limit,
            missing,
            spent,
            admits: missing <= passes_at || cost == 0,
        })
    }

    #[inline]
    const fn basis(&self, found: &Found, cost: u64, shapes: bool) -> Basis {
        let rate = (self.quota.limit(), self.quota.period_ns());
        Basis::Bucket(BucketBasis::new(
            rate,
            self.burst,
            cost,
            found.missing,
            shapes,
        ))
    }

    #[inline]
    fn at_limit(&self, now: Timestamp) -> u128 {
        u128::from(now.as_nanos()) * u128::from(self.quota.limit())
    }
}

/// What a bucket holds at some instant, in units × P.
struct Found {
    now_limit: u128,
    missing: u128,
    spent: u128,
    admits: bool,
}

const LAST_BUT_ONE: Timestamp = Timestamp::from_nanos(Timestamp::MAX.as_nanos() - 1);
