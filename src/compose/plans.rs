//! [`Plans`]: a limit for each plan that clients can be on.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use thiserror::Error;

use crate::decision::{Decision, Receipt, Recorded, Tail};
use crate::error::CostTooHigh;
#[cfg(feature = "std")]
use crate::error::Shown;
use crate::limiter::{Limiter, sealed};
use crate::quota::Quota;
use crate::time::Timestamp;

/// Limits by name, for clients on different plans: free, premium.
///
/// It is a limiter whose state remembers the client's plan, so one client is always judged by one plan. A store of it can
/// be told the plan with a call (`Keyed::check_as`): a client that comes with another plan than before is on that one from
/// then on, its usage carried over ([`Limiter::carry`]). Calls that name no plan are judged by the one that is remembered;
/// a newcomer's is the first of the table. Make that the plan of the crowd: clients on another are remembered, idle or not,
/// until `Keyed::reset` forgets them.
///
/// Usage is carried between limits of one algorithm; between different ones the client starts fresh, so a table should
/// keep to one. A clone is cheap: the table is shared.
///
/// ```
/// use tollgate::{Keyed, PlanId, Plans, Quota, Timestamp, TokenBucket};
///
/// let plans = Plans::new([
///     ("free", TokenBucket::new(Quota::per_minute(10))),
///     ("premium", TokenBucket::new(Quota::per_minute(1_000))),
/// ])?;
/// let limiter: Keyed<String, _> = Keyed::new(plans);
/// let now = Timestamp::from_secs(1_000);
/// const PREMIUM: PlanId = PlanId::new("premium");
/// assert_eq!(limiter.check_as(PREMIUM, "ada", now)?.remaining(), 999);
/// assert_eq!(limiter.check("ada", now).remaining(), 998, "her plan is remembered");
/// assert_eq!(limiter.check_as("free", "ada", now)?.remaining(), 7, "what she used is carried over");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Plans<L>(Arc<[Plan<L>]>);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Plan<L> {
    id: PlanId,
    name: Box<str>,
    limiter: L,
}

/// A plan's name as states remember it: a hash of 64 bits, the same in every process and in every table.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PlanId(u64);

/// Why names and limits make no table of plans.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlansError {
    /// There is none.
    #[error("a table of no plans limits nobody: name at least one, the first is for newcomers")]
    Empty,
    /// A name is there twice. (Or two names have one hash, for which the odds are one in 10¹⁸.)
    #[error("the plan {name:?} is there twice: give each plan a name of its own")]
    Duplicate {
        /// The name.
        name: String,
    },
}

/// A plan that a store does not have.
///
/// The message names those that it has.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("there is no such plan: this store has {known}")]
pub struct UnknownPlan {
    known: String,
}

impl<L> Plans<L> {
    /// A table of these plans; the first is that of clients who never named one.
    ///
    /// # Errors
    ///
    /// [`PlansError`] if there is none, or one name twice.
    pub fn new<N: Into<String>>(
        plans: impl IntoIterator<Item = (N, L)>,
    ) -> Result<Self, PlansError> {
        let mut table: Vec<Plan<L>> = Vec::new();
        for (name, limiter) in plans {
            let name: String = name.into();
            let id = PlanId::new(&name);
            if table.iter().any(|plan| plan.id == id) {
                return Err(PlansError::Duplicate { name });
            }
            table.push(Plan {
                id,
                name: name.into(),
                limiter,
            });
        }
        if table.is_empty() {
            return Err(PlansError::Empty);
        }
        Ok(Self(table.into()))
    }

    /// The limit of a plan.
    pub fn get(&self, plan: impl Into<PlanId>) -> Option<&L> {
        let id = plan.into();
        Some(&self.find(id)?.limiter)
    }

    /// The names, that of newcomers first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|plan| &*plan.name)
    }

    /// The name of a plan.
    pub fn name(&self, plan: PlanId) -> Option<&str> {
        Some(&*self.find(plan)?.name)
    }

    #[inline]
    fn find(&self, id: PlanId) -> Option<&Plan<L>> {
        self.0.iter().find(|plan| plan.id == id)
    }

    /// The plan, or that of newcomers if the table has it no more.
    #[inline]
    fn plan(&self, id: PlanId) -> &Plan<L> {
        &self.0[self.index(id)]
    }

    #[inline]
    fn index(&self, id: PlanId) -> usize {
        self.0.iter().position(|plan| plan.id == id).unwrap_or(0)
    }

    #[cfg(feature = "std")]
    #[inline]
    pub(crate) fn expect(&self, id: PlanId) -> Result<PlanId, UnknownPlan> {
        match self.find(id) {
            Some(_) => Ok(id),
            None => Err(self.unknown()),
        }
    }

    #[cfg(feature = "std")]
    #[cold]
    fn unknown(&self) -> UnknownPlan {
        let names: Vec<String> = self
            .names()
            .map(|name| alloc::format!("{}", Shown::new(name)))
            .collect();
        UnknownPlan {
            known: names.join(", "),
        }
    }
}

#[cfg(feature = "std")]
impl<L: Limiter> Plans<L> {
    /// Decides as [`check`](Limiter::check) does, for a client that is on this plan of the table from now on.
    ///
    /// A refusal keeps the change too: its wait is the new plan's.
    #[inline]
    pub(crate) fn check_as(
        &self,
        plan: PlanId,
        state: &mut PlanState<L::State>,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        if state.plan == plan {
            return self.check(state, now, cost);
        }
        if cost == 0 {
            // It changes nothing: neither does it the plan.
            let (old, new) = (self.plan(state.plan), self.plan(plan));
            let carried = new.limiter.carry(&old.limiter, state.state.clone(), now);
            return new.limiter.peek(&carried, now, 0);
        }
        self.put_on(plan, state, now, cost)?;
        Ok(self.check(state, now, cost)?.moving_time())
    }

    /// Puts a client on another plan that asks for `cost` on it, which is not 0.
    pub(crate) fn put_on(
        &self,
        plan: PlanId,
        state: &mut PlanState<L::State>,
        now: Timestamp,
        cost: u64,
    ) -> Result<(), CostTooHigh> {
        let (old, new) = (self.plan(state.plan), self.plan(plan));
        // A cost that is an error changes nothing, and whether it is one no state has a say in.
        new.limiter.look(&new.limiter.fresh(now), now, cost)?;
        let kept = core::mem::replace(&mut state.state, new.limiter.fresh(now));
        state.state = new.limiter.carry(&old.limiter, kept, now);
        state.plan = plan;
        Ok(())
    }
}

impl<L: Limiter> Limiter for Plans<L> {
    type State = PlanState<L::State>;
    type Found = PlanFound<L::Found>;
    const SHAPES: bool = L::SHAPES;

    #[inline]
    fn quota(&self) -> Quota {
        self.0[0].limiter.quota()
    }

    #[inline]
    fn fresh(&self, now: Timestamp) -> Self::State {
        let plan = &self.0[0];
        PlanState {
            plan: plan.id,
            state: plan.limiter.fresh(now),
        }
    }

    fn at_most(&self, state: &mut Self::State, now: Timestamp, cost: u64) -> Decision {
        let limiter = &self.plan(state.plan).limiter;
        limiter.at_most(&mut state.state, now, cost)
    }

    fn refund(&self, state: &mut Self::State, now: Timestamp, receipt: Receipt) -> u64 {
        let limiter = &self.plan(state.plan).limiter;
        limiter.refund(&mut state.state, now, receipt)
    }

    fn carry(&self, from: &Self, state: Self::State, now: Timestamp) -> Self::State {
        let old = from.plan(state.plan);
        let new = self.plan(state.plan);
        PlanState {
            plan: new.id,
            state: new.limiter.carry(&old.limiter, state.state, now),
        }
    }

    /// A client on another plan than a newcomer's is never idle: to forget it would be to forget its plan.
    #[inline]
    fn idle_at(&self, state: &Self::State) -> Timestamp {
        let first = &self.0[0];
        if self.plan(state.plan).id == first.id {
            first.limiter.idle_at(&state.state)
        } else {
            Timestamp::MAX
        }
    }

    #[inline]
    fn is_idle(&self, state: &Self::State, now: Timestamp) -> bool {
        let first = &self.0[0];
        self.plan(state.plan).id == first.id && first.limiter.is_idle(&state.state, now)
    }

    fn state_bytes(&self, state: &Self::State) -> usize {
        let of_limiter = self.plan(state.plan).limiter.state_bytes(&state.state);
        size_of::<Self::State>() - size_of::<L::State>() + of_limiter
    }

    #[inline]
    #[cfg(feature = "wait")]
    fn check_in_turn(
        &self,
        state: &mut Self::State,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        let limiter = &self.0[self.index(state.plan)].limiter;
        limiter.check_in_turn(&mut state.state, now, cost)
    }

    #[inline]
    fn look(
        &self,
        state: &Self::State,
        now: Timestamp,
        cost: u64,
    ) -> Result<Self::Found, CostTooHigh> {
        let index = self.index(state.plan);
        let found = self.0[index].limiter.look(&state.state, now, cost)?;
        Ok(PlanFound { index, found })
    }

    #[inline]
    fn admits(&self, found: &Self::Found) -> bool {
        self.0[found.index].limiter.admits(&found.found)
    }

    #[inline]
    fn spends(&self, found: &Self::Found) -> bool {
        self.0[found.index].limiter.spends(&found.found)
    }

    #[inline]
    fn take(&self, state: &mut Self::State, now: Timestamp, found: &Self::Found, cost: u64) {
        let limiter = &self.0[found.index].limiter;
        limiter.take(&mut state.state, now, &found.found, cost);
    }

    #[inline]
    fn decision(&self, found: &Self::Found, now: Timestamp, taken: u64) -> Decision {
        let limiter = &self.0[found.index].limiter;
        limiter.decision(&found.found, now, taken)
    }

    fn each(
        &self,
        found: &Self::Found,
        now: Timestamp,
        taken: u64,
        report: &mut dyn FnMut(usize, Decision),
    ) {
        let limiter = &self.0[found.index].limiter;
        limiter.each(&found.found, now, taken, report);
    }

    fn available(&self, state: &Self::State, now: Timestamp) -> u64 {
        self.plan(state.plan).limiter.available(&state.state, now)
    }

    fn record(&self, state: &mut Self::State, now: Timestamp, units: u64) -> Recorded {
        let limiter = &self.plan(state.plan).limiter;
        limiter.record(&mut state.state, now, units)
    }

    fn tail(&self, state: &Self::State) -> Tail {
        self.plan(state.plan).limiter.tail(&state.state)
    }

    fn redate(&self, state: &mut Self::State, from: Timestamp, to: Timestamp) {
        let limiter = &self.plan(state.plan).limiter;
        limiter.redate(&mut state.state, from, to);
    }

    fn is_sound(&self, state: &Self::State) -> bool {
        self.find(state.plan)
            .is_some_and(|plan| plan.limiter.is_sound(&state.state))
    }
}

impl<L> sealed::Sealed for Plans<L> {}

impl<L: fmt::Debug> fmt::Debug for Plans<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plans")?;
        f.debug_map()
            .entries(self.0.iter().map(|plan| (&plan.name, &plan.limiter)))
            .finish()
    }
}

/// What [`Plans`] keep of a client: its plan, and what the plan's limit keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PlanState<S> {
    plan: PlanId,
    state: S,
}

impl<S> PlanState<S> {
    /// The plan that the client is on.
    #[must_use]
    pub const fn plan(&self) -> PlanId {
        self.plan
    }
}

/// What the client's plan has found.
#[derive(Clone, Copy, Debug)]
pub struct PlanFound<F> {
    index: usize,
    found: F,
}

impl PlanId {
    /// The id of the plan with this name.
    #[must_use]
    pub const fn new(name: &str) -> Self {
        // FNV-1a: it can be worked out at compile time, and a table has few names.
        let bytes = name.as_bytes();
        let mut hash = 0xcbf2_9ce4_8422_2325;
        let mut index = 0;
        while index < bytes.len() {
            hash = (hash ^ bytes[index] as u64).wrapping_mul(0x0100_0000_01b3);
            index += 1;
        }
        Self(hash)
    }

    /// What tells the notes of one plan from those of another.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) const fn as_u64(self) -> u64 {
        self.0
    }
}

impl From<&str> for PlanId {
    #[inline]
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl fmt::Debug for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlanId({:016x})", self.0)
    }
}

impl fmt::Debug for UnknownPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnknownPlan(of {})", self.known)
    }
}
