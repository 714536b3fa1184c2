//! The definition itself, written down: who came when.
//!
//! The simplest form keeps one stamp per request, and breaks on memory: a limit of a million a day is eight megabytes
//! for one client, and a request of cost 1 000 is a thousand entries. Where implementations go wrong besides:
//! refused requests are stored too, so that a client that keeps asking is refused for ever; and entries of the same
//! instant overwrite each other.
//!
//! Here the log is of *runs*, (instant, units), only of what was admitted, and each run carries the sum of units up to it:
//! what counts at an instant, and when enough will have left, are two bisections, whatever is stored. A refusal stores
//! nothing, so memory is bounded by what the limit admits: at most L runs.
//!
//! A *resolution* r bounds it further: units admitted within r of a run's first join it, and the run then takes the date
//! of the last of them. So it leaves later than some of its units should, by less than r, never earlier. Its
//! surprising consequence is that a client that asks steadily at its limit gets a little less than it, by r in P.

use alloc::collections::VecDeque;
use core::fmt;
use core::time::Duration;

use super::debt::{DebtCap, max_debt_builders};
use crate::decision::{Decision, LogBasis, Receipt, Recorded, RuleBasis};
use crate::error::{CostTooHigh, DebtError, ResolutionError};
use crate::limiter::{Limiter, sealed};
use crate::quota::Quota;
use crate::time::{Timestamp, saturating_nanos};

/// A log of what was admitted, and when: never more than the limit in any span of a period.
///
/// A unit admitted at s counts while now < s + P; a cost c is allowed iff counted + c ≤ L.
///
/// Its weakness is memory: a run of 16 bytes for each instant at which something was admitted within the last period,
/// up to L of them per client (a cost of any size is one run). [`with_resolution`](Self::with_resolution) bounds that
/// by P / resolution, for a client's loss of less than the resolution.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Direct, Quota, SlidingLog, Timestamp};
///
/// let limiter = Direct::new(SlidingLog::new(Quota::per_minute(2)));
/// assert!(limiter.allow(Timestamp::from_secs(0)));
/// assert!(limiter.allow(Timestamp::from_secs(1)));
/// let refused = limiter.check(Timestamp::from_secs(2));
/// assert_eq!(refused.retry_after(), Duration::from_secs(58));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlidingLog {
    quota: Quota,
    resolution_ns: u64,
    cap: DebtCap,
}

/// What a [`SlidingLog`] keeps of a client: 48 bytes, and 16 for each run on the heap.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SlidingLogState {
    /// Oldest first; those that no longer count go when the next unit is admitted.
    runs: VecDeque<Run>,
    /// The sum of units before the first run that is stored, wrapping.
    units_before: u64,
    /// When the newest run's first unit was admitted; [`CLOSED`] if no further unit joins it.
    newest_began_ns: u64,
}

/// Units admitted at one instant, or within the resolution of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Run {
    at_ns: u64,
    /// The sum of all units up to this run and with it, wrapping: only differences are used, and they are at most
    /// what the limit admits.
    units_through: u64,
}

impl SlidingLog {
    /// An exact log: its resolution is 1 ns.
    #[must_use]
    pub const fn new(quota: Quota) -> Self {
        Self {
            quota,
            resolution_ns: 1,
            cap: DebtCap::DEFAULT,
        }
    }

    /// The same, storing at most about one run per `resolution`: at most ⌈P / resolution⌉ + 1 of them.
    ///
    /// Units admitted less than `resolution` after a run's first unit join that run and date it anew: they all count
    /// until a period after the last of them. Zero is taken as 1 ns: exact.
    ///
    /// # Panics
    ///
    /// If `resolution` is longer than the period. For a number that is not in the code, use
    /// [`try_with_resolution`](Self::try_with_resolution).
    #[must_use]
    pub const fn with_resolution(self, resolution: Duration) -> Self {
        match self.try_with_resolution(resolution) {
            Ok(log) => log,
            Err(_) => panic!("a log's resolution must be at most its period"),
        }
    }

    /// As [`with_resolution`](Self::with_resolution).
    ///
    /// # Errors
    ///
    /// [`ResolutionError`] if `resolution` is longer than the period.
    pub const fn try_with_resolution(self, resolution: Duration) -> Result<Self, ResolutionError> {
        if resolution.as_nanos() > self.quota.period_ns() as u128 {
            return Err(ResolutionError::new(resolution, self.quota.period()));
        }
        let resolution_ns = match saturating_nanos(resolution) {
            0 => 1,
            nanos => nanos,
        };
        Ok(Self {
            resolution_ns,
            ..self
        })
    }

    max_debt_builders!("limit");

    const fn with_cap(self, cap: DebtCap) -> Self {
        Self { cap, ..self }
    }

    const fn cap(&self) -> DebtCap {
        self.cap
    }

    const fn grants(&self) -> u64 {
        self.quota.limit()
    }

    /// Instants closer than this share a run.
    #[must_use]
    pub const fn resolution(&self) -> Duration {
        Duration::from_nanos(self.resolution_ns)
    }

    /// What counts at `now`, and the index of the first run that does.
    fn find(&self, state: &SlidingLogState, now: Timestamp, cost: u64) -> LogFound {
        let limit = self.quota.limit();
        let first = self.first_counted(state, now);
        let units_before = state.units_before(first);
        let (counted, newest_leaves_ns) = match state.runs.back() {
            Some(newest) => (
                newest.units_through.wrapping_sub(units_before),
                self.leaves_in(newest, now),
            ),
            None => (0, 0),
        };
        // How many units must leave before the request passes, and with which run they will have.
        let excess = counted.saturating_sub(limit.saturating_sub(cost));
        let retry_ns = if excess == 0 {
            0
        } else {
            let gone = units_before.wrapping_sub(state.units_before);
            let enough = state.runs.partition_point(|run| {
                run.units_through.wrapping_sub(state.units_before) < gone.saturating_add(excess)
            });
            let run = state.runs.get(enough);
            run.map_or(0, |run| self.leaves_in(run, now))
        };
        LogFound {
            first,
            basis: LogBasis {
                limit,
                period_ns: self.quota.period_ns(),
                cost,
                counted,
                retry_ns,
                newest_leaves_ns,
            },
        }
    }

    /// The index of the first run that counts at `now`.
    fn first_counted(&self, state: &SlidingLogState, now: Timestamp) -> usize {
        state
            .runs
            .partition_point(|run| self.leaves_in(run, now) == 0)
    }

    /// The time until the run no longer counts; 0 if it does not now.
    #[inline]
    fn leaves_in(&self, run: &Run, now: Timestamp) -> u64 {
        let age_ns = now.as_nanos().saturating_sub(run.at_ns);
        self.quota.period_ns().saturating_sub(age_ns)
    }
}

impl SlidingLogState {
    fn units_before(&self, index: usize) -> u64 {
        match index.checked_sub(1) {
            Some(last_gone) => self.runs[last_gone].units_through,
            None => self.units_before,
        }
    }

    /// Forgets the runs before this one: they do not count any more.
    fn forget_before(&mut self, first: usize) {
        self.units_before = self.units_before(first);
        self.runs.drain(..first);
    }

    fn admit(&mut self, first: usize, now: Timestamp, cost: u64, resolution_ns: u64) {
        self.forget_before(first);
        let now_ns = now.as_nanos();
        match self.runs.back_mut() {
            Some(newest)
                if self.newest_began_ns != CLOSED
                    && now_ns.saturating_sub(self.newest_began_ns) < resolution_ns =>
            {
                newest.at_ns = newest.at_ns.max(now_ns);
                newest.units_through = newest.units_through.wrapping_add(cost);
            }
            newest => {
                // With a stamp that runs back, a run that nothing joins may be dated later.
                let at_ns = newest.as_ref().map_or(now_ns, |run| run.at_ns.max(now_ns));
                let units_through = newest.map_or(self.units_before, |run| run.units_through);
                self.newest_began_ns = at_ns;
                self.runs.push_back(Run {
                    at_ns,
                    units_through: units_through.wrapping_add(cost),
                });
                // What a past crowd made room for is given back, without doing so at every turn.
                if self.runs.capacity() > 4 * self.runs.len().max(8) {
                    self.runs.shrink_to(2 * self.runs.len());
                }
            }
        }
    }

    /// Takes up to `units` out of a run, which is dropped when none are left in it; says how many.
    fn take_back(&mut self, index: usize, units: u64) -> u64 {
        let held = self.runs[index]
            .units_through
            .wrapping_sub(self.units_before(index));
        let given = units.min(held);
        for run in self.runs.iter_mut().skip(index) {
            run.units_through = run.units_through.wrapping_sub(given);
        }
        if given == held {
            self.runs.remove(index);
            if index == self.runs.len() {
                // Time has come to where that run began, and the one before it is a resolution older: whatever is admitted
                // next would not have joined it.
                self.newest_began_ns = CLOSED;
            }
        }
        given
    }
}

impl Limiter for SlidingLog {
    type State = SlidingLogState;
    type Found = LogFound;

    #[inline]
    fn quota(&self) -> Quota {
        self.quota
    }

    fn fresh(&self, _now: Timestamp) -> SlidingLogState {
        SlidingLogState::default()
    }

    fn refund(&self, state: &mut SlidingLogState, now: Timestamp, receipt: Receipt) -> u64 {
        // A run is dated by its last unit, less than a resolution after its first: the one that holds a charge is the
        // first that is not dated before it, and not dated much later.
        let charged_at_ns = receipt.charged_at().as_nanos();
        let holder = state.runs.partition_point(|run| run.at_ns < charged_at_ns);
        let held = state.runs.get(holder).is_some_and(|run| {
            run.at_ns - charged_at_ns < self.resolution_ns && self.leaves_in(run, now) > 0
        });
        if held {
            state.take_back(holder, receipt.cost())
        } else {
            0
        }
    }

    fn carry(&self, from: &Self, mut state: SlidingLogState, now: Timestamp) -> SlidingLogState {
        // What has left under the old period does not come back under a longer one.
        state.forget_before(from.first_counted(&state, now));
        state.forget_before(self.first_counted(&state, now));
        if state.runs.is_empty() {
            return SlidingLogState::default();
        }
        state
    }

    fn idle_at(&self, state: &SlidingLogState) -> Timestamp {
        match state.runs.back() {
            Some(newest) => Timestamp::from_nanos(newest.at_ns) + self.quota.period(),
            None => Timestamp::EPOCH,
        }
    }

    fn state_bytes(&self, state: &SlidingLogState) -> usize {
        size_of::<SlidingLogState>() + state.runs.capacity() * size_of::<Run>()
    }

    fn look(
        &self,
        state: &SlidingLogState,
        now: Timestamp,
        cost: u64,
    ) -> Result<LogFound, CostTooHigh> {
        let limit = self.quota.limit();
        if cost > limit {
            return Err(CostTooHigh::new(cost, limit));
        }
        Ok(self.find(state, now, cost))
    }

    fn admits(&self, found: &LogFound) -> bool {
        found.admits()
    }

    fn take(&self, state: &mut SlidingLogState, now: Timestamp, found: &LogFound, cost: u64) {
        state.admit(found.first, now, cost, self.resolution_ns);
    }

    fn decision(&self, found: &LogFound, now: Timestamp, taken: u64) -> Decision {
        Decision::new(RuleBasis::Log(found.basis), now, found.admits(), taken)
    }

    fn record(&self, state: &mut SlidingLogState, now: Timestamp, units: u64) -> Recorded {
        let found = self.find(state, now, 0);
        let counted = found.basis.counted;
        let recorded = self.cap.most_of(units, counted, self.quota.limit());
        if recorded > 0 {
            self.take(state, now, &found, recorded);
        }
        Recorded::of(recorded)
    }

    fn redate(&self, state: &mut SlidingLogState, from: Timestamp, to: Timestamp) {
        let later = |at_ns: u64| {
            (Timestamp::from_nanos(at_ns) + to.saturating_duration_since(from)).as_nanos()
        };
        for run in &mut state.runs {
            run.at_ns = later(run.at_ns);
        }
        if state.newest_began_ns != CLOSED {
            state.newest_began_ns = later(state.newest_began_ns);
        }
    }

    fn is_sound(&self, state: &SlidingLogState) -> bool {
        let dates = state.runs.iter().map(|run| run.at_ns);
        let sums = state
            .runs
            .iter()
            .map(|run| run.units_through.wrapping_sub(state.units_before));
        dates.clone().is_sorted()
            && dates.max() <= Some(Timestamp::MAX.as_nanos())
            && sums.clone().is_sorted_by(|sum, next| sum < next)
            && sums.clone().min() != Some(0)
            && sums.max() <= Some(Quota::MAX_LIMIT)
    }
}

impl sealed::Sealed for SlidingLog {}

impl fmt::Debug for SlidingLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlidingLog({}", self.quota)?;
        if self.resolution_ns > 1 {
            write!(f, ", resolution {:?}", self.resolution())?;
        }
        self.cap.describe(f)?;
        f.write_str(")")
    }
}

/// What counts, and the index of the first run that does.
#[derive(Clone, Copy, Debug)]
pub struct LogFound {
    first: usize,
    basis: LogBasis,
}

impl LogFound {
    #[inline]
    const fn admits(&self) -> bool {
        self.basis.cost == 0
            || self.basis.counted <= self.basis.limit.saturating_sub(self.basis.cost)
    }
}

/// Stands for the beginning of a run that nothing joins any more.
const CLOSED: u64 = u64::MAX;
