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

use crate::decision::{Basis, Decision, LogBasis};
use crate::error::{CostTooHigh, ResolutionError};
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
}

/// What a [`SlidingLog`] keeps of a client: 48 bytes, and 16 for each run on the heap.
#[derive(Clone, Debug, Default)]
pub struct SlidingLogState {
    /// Oldest first; those that no longer count go when the next unit is admitted.
    runs: VecDeque<Run>,
    /// The sum of units before the first run that is stored, wrapping.
    units_before: u64,
    /// When the newest run's first unit was admitted.
    newest_began_ns: u64,
}

/// Units admitted at one instant, or within the resolution of it.
#[derive(Clone, Copy, Debug)]
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

    /// Instants closer than this share a run.
    #[must_use]
    pub const fn resolution(&self) -> Duration {
        Duration::from_nanos(self.resolution_ns)
    }

    /// What counts at `now`, and the index of the first run that does.
    fn find(
        &self,
        state: &SlidingLogState,
        now: Timestamp,
        cost: u64,
    ) -> Result<(usize, LogBasis), CostTooHigh> {
        let limit = self.quota.limit();
        if cost > limit {
            return Err(CostTooHigh::new(cost, limit));
        }
        let first = state
            .runs
            .partition_point(|run| self.leaves_in(run, now) == 0);
        let units_before = state.units_before(first);
        let (counted, newest_leaves_ns) = match state.runs.back() {
            Some(newest) => (
                newest.units_through.wrapping_sub(units_before),
                self.leaves_in(newest, now),
            ),
            None => (0, 0),
        };
        // How many units must leave before the request passes, and with which run they will have.
        let excess = counted.saturating_sub(limit - cost);
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
        Ok((
            first,
            LogBasis {
                limit,
                period_ns: self.quota.period_ns(),
                cost,
                counted,
                retry_ns,
                newest_leaves_ns,
            },
        ))
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

    fn admit(&mut self, first: usize, now: Timestamp, cost: u64, resolution_ns: u64) {
        self.units_before = self.units_before(first);
        self.runs.drain(..first);
        let now_ns = now.as_nanos();
        match self.runs.back_mut() {
            Some(newest) if now_ns.saturating_sub(self.newest_began_ns) < resolution_ns => {
                newest.at_ns = newest.at_ns.max(now_ns);
                newest.units_through = newest.units_through.wrapping_add(cost);
            }
            newest => {
                let units_through = newest.map_or(self.units_before, |run| run.units_through);
                self.newest_began_ns = now_ns;
                self.runs.push_back(Run {
                    at_ns: now_ns,
                    units_through: units_through.wrapping_add(cost),
                });
                // What a past crowd made room for is given back, without doing so at every turn.
                if self.runs.capacity() > 4 * self.runs.len().max(8) {
                    self.runs.shrink_to(2 * self.runs.len());
                }
            }
        }
    }
}

impl Limiter for SlidingLog {
    type State = SlidingLogState;

    #[inline]
    fn quota(&self) -> Quota {
        self.quota
    }

    fn fresh(&self, _now: Timestamp) -> SlidingLogState {
        SlidingLogState::default()
    }

    fn check(
        &self,
        state: &mut SlidingLogState,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        let (first, basis) = self.find(state, now, cost)?;
        if !admits(&basis) {
            return Ok(Decision::uncharged(Basis::Log(basis), false));
        }
        if cost > 0 {
            state.admit(first, now, cost, self.resolution_ns);
        }
        Ok(Decision::charged(Basis::Log(basis), cost))
    }

    fn peek(
        &self,
        state: &SlidingLogState,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        let (_, basis) = self.find(state, now, cost)?;
        Ok(Decision::uncharged(Basis::Log(basis), admits(&basis)))
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
}

impl sealed::Sealed for SlidingLog {}

impl fmt::Debug for SlidingLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlidingLog({}", self.quota)?;
        if self.resolution_ns > 1 {
            write!(f, ", resolution {:?}", self.resolution())?;
        }
        f.write_str(")")
    }
}

#[inline]
const fn admits(basis: &LogBasis) -> bool {
    basis.cost == 0 || basis.counted <= basis.limit.saturating_sub(basis.cost)
}
