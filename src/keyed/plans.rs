//! A store whose clients are on plans.

use std::hash::{BuildHasher, Hash};

use parking_lot::MutexGuard;
use thiserror::Error;

use super::Keyed;
use super::denials::Tagged;
use super::lookup::Lookup;
use super::shard::Shard;
use crate::compose::{PlanId, PlanState, Plans, UnknownPlan};
use crate::decision::Decision;
use crate::error::CostTooHigh;
use crate::limiter::{Limiter, expect_grantable};
use crate::time::Timestamp;

/// Why a call that named a plan has got no decision.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The store has no such plan.
    #[error(transparent)]
    UnknownPlan(#[from] UnknownPlan),
    /// No wait would ever let the cost pass on that plan.
    #[error(transparent)]
    CostTooHigh(#[from] CostTooHigh),
}

/// Calls that name their client's plan. A client that comes with another plan than before is on that one from then on, its
/// usage carried over, whether the call is allowed or refused.
impl<K: Hash + Eq, L: Limiter, H: BuildHasher> Keyed<K, Plans<L>, H> {
    /// As [`allow`](Self::allow), for a client on this plan.
    ///
    /// # Errors
    ///
    /// [`UnknownPlan`] if the store does not have it; nothing has changed.
    #[inline]
    pub fn allow_as<Q: Lookup<K> + ?Sized>(
        &self,
        plan: impl Into<PlanId>,
        key: &Q,
        now: Timestamp,
    ) -> Result<bool, UnknownPlan> {
        let plan = plan.into();
        let hash = self.hasher.hash_one(key);
        let tagged = self.tagged_as(plan, hash, key);
        if self.denials.find(tagged, now.as_nanos()).is_some() {
            return Ok(false);
        }
        let mut shard = self.shard(hash).lock();
        let plan = shard.limiter().expect(plan)?;
        if shard.is_awaited() {
            let behind = self.behind_others_as(&mut shard, plan, (hash, key), 1, now);
            if let Some(behind) = behind {
                return Ok(expect_grantable(behind).is_allowed());
            }
        }
        let instant = shard.date(now);
        // Most clients are on the plan that is named; whoever is not is asked about in full.
        let is_on_it = |state: &PlanState<L::State>| state.plan() == plan;
        match self.allow_known(&mut shard, (hash, key), || tagged, (now, instant), is_on_it) {
            Some(is_allowed) => Ok(is_allowed),
            None => {
                let decision = self.ask_as(&mut shard, plan, (hash, key), Some(tagged), 1, now);
                Ok(expect_grantable(decision).is_allowed())
            }
        }
    }

    /// As [`check`](Self::check), for a client on this plan.
    ///
    /// # Errors
    ///
    /// [`UnknownPlan`] if the store does not have it; nothing has changed.
    #[inline]
    pub fn check_as<Q: Lookup<K> + ?Sized>(
        &self,
        plan: impl Into<PlanId>,
        key: &Q,
        now: Timestamp,
    ) -> Result<Decision, UnknownPlan> {
        let plan = plan.into();
        let hash = self.hasher.hash_one(key);
        let tagged = self.tagged_as(plan, hash, key);
        if let Some(denial) = self.denials.find(tagged, now.as_nanos()) {
            return Ok(denial.decision(now));
        }
        let mut shard = self.shard(hash).lock();
        let plan = shard.limiter().expect(plan)?;
        if shard.is_awaited() {
            let behind = self.behind_others_as(&mut shard, plan, (hash, key), 1, now);
            if let Some(behind) = behind {
                return Ok(expect_grantable(behind));
            }
        }
        let is_on_it = |state: &PlanState<L::State>| state.plan() == plan;
        let key = (hash, key);
        Ok(
            self.check_known_or(&mut shard, key, tagged, now, is_on_it, |shard| {
                self.ask_as(shard, plan, key, Some(tagged), 1, now)
            }),
        )
    }

    /// As [`check_n`](Self::check_n), for a client on this plan.
    ///
    /// # Errors
    ///
    /// [`PlanError`] if the store does not have it, or if no wait would ever let `cost` pass on it; nothing has changed.
    #[inline]
    pub fn check_n_as<Q: Lookup<K> + ?Sized>(
        &self,
        plan: impl Into<PlanId>,
        key: &Q,
        cost: u64,
        now: Timestamp,
    ) -> Result<Decision, PlanError> {
        if cost == 1 {
            return Ok(self.check_as(plan, key, now)?);
        }
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).lock();
        let plan = shard.limiter().expect(plan.into())?;
        if shard.is_awaited() {
            let behind = self.behind_others_as(&mut shard, plan, (hash, key), cost, now);
            if let Some(behind) = behind {
                return Ok(behind?);
            }
        }
        Ok(self.ask_as(&mut shard, plan, (hash, key), None, cost, now)?)
    }

    /// The plan that `key` is on, if the store knows the client.
    #[must_use]
    pub fn plan_of<Q: Lookup<K> + ?Sized>(&self, key: &Q) -> Option<PlanId> {
        let hash = self.hasher.hash_one(key);
        let shard = self.shard(hash).lock();
        let state = shard.state((hash, key))?;
        Some(state.plan())
    }

    /// The decision on a request that finds others who wait: for them too the client is on this plan from now on.
    #[cold]
    fn behind_others_as<Q: Lookup<K> + ?Sized>(
        &self,
        shard: &mut MutexGuard<'_, Shard<K, Plans<L>>>,
        plan: PlanId,
        key: (u64, &Q),
        cost: u64,
        now: Timestamp,
    ) -> Option<Result<Decision, CostTooHigh>> {
        let is_on_another = |state: &PlanState<L::State>| state.plan() != plan;
        if cost > 0 && shard.state(key).is_some_and(is_on_another) {
            let put_on = |plans: &Plans<L>, state: &mut PlanState<L::State>, at| {
                plans.put_on(plan, state, at, cost)
            };
            if let Err(never) = self.change_awaited(shard, key, now, put_on)? {
                return Some(Err(never));
            }
        }
        self.behind_others(shard, key, cost, now)
    }

    /// A refusal is noted under the plan that it was by: another plan must not be answered from it.
    #[inline]
    fn tagged_as<Q: Lookup<K> + ?Sized>(&self, plan: PlanId, hash: u64, key: &Q) -> Tagged {
        let Tagged { hash, tag } = self.tagged(hash, key);
        let tag = tag ^ plan.as_u64();
        Tagged { hash, tag }
    }

    /// Decides a call of a client that is on this plan from now on; the store has it.
    #[inline]
    fn ask_as<Q: Lookup<K> + ?Sized>(
        &self,
        shard: &mut Shard<K, Plans<L>>,
        plan: PlanId,
        (hash, key): (u64, &Q),
        tagged: Option<Tagged>,
        cost: u64,
        now: Timestamp,
    ) -> Result<Decision, CostTooHigh> {
        let ask = |plans: &Plans<L>, state: &mut PlanState<L::State>, now| {
            if state.plan() != plan {
                // What is noted was by another plan.
                self.denials.clear(hash);
            }
            plans.check_as(plan, state, now, cost)
        };
        self.ask_shard(shard, (hash, key), tagged, now, ask)
    }
}
