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
//!
//! A client in debt is the same state with more missing than the bucket holds; a refund moves the instant back; and a new
//! limit is a new unit to count the same missing in.

use core::fmt;

use super::debt::DebtCap;
use crate::arithmetic::{divide_up, join, saturate, split};
use crate::decision::{BucketBasis, Decision, Receipt, Recorded, RuleBasis, Tail};
use crate::error::{BurstError, CostTooHigh};
use crate::quota::Quota;
use crate::time::Timestamp;

/// What a [`TokenBucket`](crate::TokenBucket) or a [`LeakyBucket`](crate::LeakyBucket) keeps of a client: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct BucketState {
    /// The instant at which the bucket is full (or the queue empty) times the limit. At most
    /// (2⁶³ − 1)² + (2⁶³ − 1) · (2⁶⁴ − 1), which is below 2¹²⁸.
    full_at_limit: [u64; 2],
}

/// A quota and a burst: the arithmetic of both buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bucket {
    quota: Quota,
    burst: u64,
    cap: DebtCap,
}

impl Bucket {
    pub(super) const fn new(quota: Quota) -> Self {
        Self {
            quota,
            burst: quota.limit(),
            cap: DebtCap::DEFAULT,
        }
    }

    pub(super) const fn try_with_burst(self, burst: u64) -> Result<Self, BurstError> {
        let most = self.cap.room_beside();
        if burst == 0 || burst > most {
            return Err(BurstError::new(burst, most));
        }
        Ok(Self { burst, ..self })
    }

    pub(super) const fn with_burst(self, burst: u64) -> Self {
        match self.try_with_burst(burst) {
            Ok(bucket) => bucket,
            Err(_) => panic!(
                "a bucket's burst must be from 1 to 2^63 - 1 units, less what it may be owed"
            ),
        }
    }

    pub(super) const fn with_cap(self, cap: DebtCap) -> Self {
        Self { cap, ..self }
    }

    #[inline]
    pub(super) const fn quota(&self) -> Quota {
        self.quota
    }

    #[inline]
    pub(super) const fn burst(&self) -> u64 {
        self.burst
    }

    pub(super) const fn max_debt(&self) -> u64 {
        self.cap.beside(self.burst)
    }

    pub(super) const fn cap(&self) -> DebtCap {
        self.cap
    }

    #[inline]
    pub(super) fn look(
        &self,
        state: &BucketState,
        now: Timestamp,
        cost: u64,
    ) -> Result<BucketFound, CostTooHigh> {
        if cost > self.burst {
            return Err(CostTooHigh::new(cost, self.burst));
        }
        let now_limit = self.at_limit(now);
        let missing = join(state.full_at_limit).saturating_sub(now_limit);
        let spent = self.in_periods(cost);
        // Not `missing + spent <= full`: with a stamp that runs back, that sum could overflow.
        let passes_at = self.in_periods(self.burst) - spent;
        Ok(BucketFound {
            now_limit,
            missing,
            cost,
            admits: missing <= passes_at || cost == 0,
        })
    }

    #[inline]
    pub(super) fn take(&self, state: &mut BucketState, found: &BucketFound, cost: u64) {
        // A full bucket is full now, however long ago it was filled: it holds no more than its burst.
        // Admitted, so what is missing after is at most B · P: this cannot overflow.
        state.full_at_limit = split(found.now_limit + found.missing + self.in_periods(cost));
    }

    #[inline]
    pub(super) fn decision(
        &self,
        found: &BucketFound,
        now: Timestamp,
        taken: u64,
        shapes: bool,
    ) -> Decision {
        let rate = (self.quota.limit(), self.quota.period_ns());
        let basis = BucketBasis::new(rate, self.burst, found.cost, found.missing, shapes);
        Decision::new(RuleBasis::Bucket(basis), now, found.admits, taken)
    }

    pub(super) fn record(&self, state: &mut BucketState, now: Timestamp, units: u64) -> Recorded {
        let missing = self.missing(state, now);
        let room = self
            .in_periods(self.burst + self.max_debt())
            .saturating_sub(missing);
        let recorded = units.min(saturate(room / u128::from(self.quota.period_ns())));
        if recorded > 0 {
            state.full_at_limit = split(self.at_limit(now) + missing + self.in_periods(recorded));
        }
        Recorded::of(recorded)
    }

    pub(super) fn refund(&self, state: &mut BucketState, now: Timestamp, units: u64) -> u64 {
        self.refund_parts(state, now, self.in_periods(units))
    }

    /// The same of so many units × P.
    pub(super) fn refund_parts(&self, state: &mut BucketState, now: Timestamp, given: u128) -> u64 {
        let missing = self.missing(state, now);
        // Not brought up to `now`: a refund is no charge, and later calls may be of earlier stamps. Full is full
        // whenever that was.
        let full_at_limit = join(state.full_at_limit).saturating_sub(given);
        state.full_at_limit = split(full_at_limit);
        saturate(given.min(missing) / u128::from(self.quota.period_ns()))
    }

    pub(super) fn carry(&self, from: &Self, state: BucketState, now: Timestamp) -> BucketState {
        if self.quota == from.quota {
            return state;
        }
        let missing = from.missing(&state, now);
        if missing == 0 {
            return BucketState::default();
        }
        // In whole units and a rest, so that no product is wider than two words.
        let from_period = u128::from(from.quota.period_ns());
        let units = (missing / from_period).min(u128::from(Quota::MAX_LIMIT));
        let rest = missing % from_period;
        let period = u128::from(self.quota.period_ns());
        let carried = (units * period + divide_up(rest * period, from.quota.period_ns()))
            .min(self.in_periods(Quota::MAX_LIMIT));
        BucketState {
            full_at_limit: split(self.at_limit(now) + carried),
        }
    }

    pub(super) fn redate(&self, state: &mut BucketState, from: Timestamp, to: Timestamp) {
        let later = self.at_limit(to).saturating_sub(self.at_limit(from));
        state.full_at_limit = split(join(state.full_at_limit).saturating_add(later));
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

    pub(super) fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{name}({}, burst {}", self.quota, self.burst)?;
        self.cap.describe(f)?;
        f.write_str(")")
    }

    pub(super) fn is_sound(&self, state: &BucketState) -> bool {
        let latest = self.at_limit(Timestamp::MAX) + self.in_periods(Quota::MAX_LIMIT);
        join(state.full_at_limit) <= latest
    }

    /// Decides, and takes what is admitted as of the instant at which the bucket was full, if that is less than a nanosecond ago.
    #[cfg(feature = "wait")]
    pub(super) fn check_in_turn(
        &self,
        state: &mut BucketState,
        now: Timestamp,
        cost: u64,
        shapes: bool,
    ) -> Result<Decision, CostTooHigh> {
        let found = self.look(state, now, cost)?;
        if cost == 0 || !found.admits {
            return Ok(self.decision(&found, now, 0, shapes));
        }
        let full_at_limit = join(state.full_at_limit);
        self.take(state, &found, cost);
        let ago = found.now_limit.saturating_sub(full_at_limit);
        if ago < u128::from(self.quota.limit()) {
            state.full_at_limit = split(join(state.full_at_limit) - ago);
        }
        Ok(self.decision(&found, now, cost, shapes))
    }

    /// Books a cost for the first instant at which it passes, or, if it has to stand in a queue, at which all before it have
    /// drained: the state is then as if it had been charged, below empty if need be. Nothing is changed if that is more than
    /// `max_wait_ns` away, or more than a state holds, and the wait is told.
    #[cfg(feature = "wait")]
    pub(crate) fn book(
        &self,
        state: &mut BucketState,
        now: Timestamp,
        cost: u64,
        max_wait_ns: u64,
        delays: bool,
    ) -> Result<Result<Booking, u64>, CostTooHigh> {
        let BucketFound {
            now_limit, missing, ..
        } = self.look(state, now, cost)?;
        let spent = self.in_periods(cost);
        let over = if cost == 0 {
            0
        } else if delays {
            missing
        } else {
            (missing + spent).saturating_sub(self.in_periods(self.burst))
        };
        let wait_ns = saturate(divide_up(over, self.quota.limit()));
        let last_ns = Timestamp::MAX.nanos_since(now);
        let holds = missing <= self.in_periods(Quota::MAX_LIMIT) - spent;
        if wait_ns > max_wait_ns.min(last_ns) || !holds {
            return Ok(Err(wait_ns));
        }
        let full_after = now_limit + missing + spent;
        if cost > 0 {
            state.full_at_limit = split(full_after);
        }
        Ok(Ok(Booking {
            quota: self.quota,
            units: cost,
            act_at: Timestamp::from_nanos(now.as_nanos() + wait_ns),
            full_after,
        }))
    }

    /// Gives back of a booking all but what was booked after it.
    #[cfg(feature = "wait")]
    pub(crate) fn cancel(&self, state: &mut BucketState, now: Timestamp, booking: &Booking) -> u64 {
        let spent = self.in_periods(booking.units);
        if booking.quota != self.quota {
            // Another limit counts otherwise, and what came after cannot be told any more: it may be all.
            return 0;
        }
        // Less than nothing, if something was given back since that was spent before.
        let after = join(state.full_at_limit).saturating_sub(booking.full_after);
        self.refund_parts(state, now, spent.saturating_sub(after))
    }

    /// What is missing from full at `now`, in units × P.
    #[inline]
    fn missing(&self, state: &BucketState, now: Timestamp) -> u128 {
        let missing = join(state.full_at_limit).saturating_sub(self.at_limit(now));
        // More than a state can owe: only a stamp that ran back sees that. The sums above must hold all the same.
        missing.min(self.in_periods(Quota::MAX_LIMIT))
    }

    #[inline]
    fn in_periods(&self, units: u64) -> u128 {
        u128::from(units) * u128::from(self.quota.period_ns())
    }

    #[inline]
    fn at_limit(&self, now: Timestamp) -> u128 {
        u128::from(now.as_nanos()) * u128::from(self.quota.limit())
    }
}

impl BucketState {
    pub(super) const fn tail(&self) -> Tail {
        Tail::at(join(self.full_at_limit))
    }

    /// What is still there of a charge, in units × P, and can be given back: nothing unless it was the last that moved this
    /// state. It took the place in the queue that ends where it left the tail.
    pub(super) fn left_of(&self, receipt: Receipt, period_ns: u64) -> u128 {
        let Some(gone) = receipt.tail().end().checked_sub(join(self.full_at_limit)) else {
            return 0;
        };
        let [charged, asked] = [receipt.charged(), receipt.cost()]
            .map(|units| u128::from(units) * u128::from(period_ns));
        charged.saturating_sub(gone).min(asked)
    }
}

/// What names a booking, so that it can be cancelled.
#[cfg(feature = "wait")]
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Booking {
    quota: Quota,
    units: u64,
    pub(crate) act_at: Timestamp,
    /// The state right after it.
    full_after: u128,
}

/// What a bucket holds at some instant, in units × P.
#[derive(Clone, Copy, Debug)]
pub struct BucketFound {
    now_limit: u128,
    missing: u128,
    cost: u64,
    admits: bool,
}

impl BucketFound {
    #[inline]
    pub(super) const fn admits(&self) -> bool {
        self.admits
    }
}

const LAST_BUT_ONE: Timestamp = Timestamp::from_nanos(Timestamp::MAX.as_nanos() - 1);
