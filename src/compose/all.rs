//! [`All`]: policies that hold together, as many as a configuration names.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::slice;

use thiserror::Error;

use crate::decision::{Decision, Receipt, Recorded, Tail};
use crate::error::CostTooHigh;
use crate::limiter::{Limiter, sealed};
use crate::policy::{Policy, PolicyFound, PolicyState};
use crate::quota::Quota;
use crate::time::Timestamp;

/// Policies that hold together: a request passes if all of them let it, and they are charged together or not at all.
///
/// It is what a tuple of limiters is, with as many members as are known only at run time. A clone is cheap: the members
/// are shared. Changed for another in a running store, members carry their clients' usage over by their position. Of up to
/// four members a decision allocates nothing.
///
/// With the feature `serde` it is a list of policies, or one policy by itself.
///
/// ```
/// use tollgate::{All, FixedWindow, Keyed, Quota, Timestamp, TokenBucket};
///
/// let limits = All::new([
///     TokenBucket::new(Quota::per_second(10)).into(),
///     FixedWindow::new(Quota::per_day(1_000)).into(),
/// ])?;
/// let limiter: Keyed<String, _> = Keyed::new(limits);
/// let now = Timestamp::from_secs(1_000_000);
/// let allowed = (0..1_000).filter(|_| limiter.allow("ada", now)).count();
/// assert_eq!(allowed, 10);
/// let refused = limiter.check("ada", now);
/// assert_eq!((refused.refused_by(), refused.limit()), (Some(0), 10));
/// # Ok::<(), tollgate::EmptyAll>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct All(Arc<[Policy]>);

/// A list of limits without any: it would limit nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[error("a list of no limits limits nothing: name at least one")]
pub struct EmptyAll;

/// What an [`All`] keeps of a client: 32 bytes for one policy, and for several a list on the heap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AllState(Kept);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kept {
    One(PolicyState),
    Many(Box<[PolicyState]>),
}

impl All {
    /// These policies, together.
    ///
    /// # Errors
    ///
    /// [`EmptyAll`] if there is none.
    pub fn new(members: impl IntoIterator<Item = Policy>) -> Result<Self, EmptyAll> {
        let members: Arc<[Policy]> = members.into_iter().collect();
        if members.is_empty() {
            Err(EmptyAll)
        } else {
            Ok(Self(members))
        }
    }

    /// The policies, at least one.
    #[must_use]
    pub fn members(&self) -> &[Policy] {
        &self.0
    }

    /// Each policy with its state, and which it is.
    #[inline]
    fn of<'a>(
        &'a self,
        states: &'a [PolicyState],
    ) -> impl Iterator<Item = (usize, &'a Policy, &'a PolicyState)> {
        let pairs = self.0.iter().zip(states).enumerate();
        pairs.map(|(index, (member, state))| (index, member, state))
    }

    /// Each policy with what it has found.
    #[inline]
    fn with<'a>(
        &'a self,
        found: &'a AllFound,
    ) -> impl Iterator<Item = (&'a Policy, &'a PolicyFound)> {
        let found = found.few.iter().flatten().chain(&found.more);
        self.0.iter().zip(found)
    }

    /// The states of the members; fresh ones if these are another list's.
    #[inline]
    fn states_of<'a>(&self, state: &'a mut AllState, now: Timestamp) -> &'a mut [PolicyState] {
        if state.as_slice().len() != self.0.len() {
            *state = self.fresh(now);
        }
        match &mut state.0 {
            Kept::One(state) => slice::from_mut(state),
            Kept::Many(states) => states,
        }
    }
}

impl Limiter for All {
    type State = AllState;
    type Found = AllFound;
    const SHAPES: bool = true;

    #[inline]
    fn quota(&self) -> Quota {
        self.0[0].quota()
    }

    fn fresh(&self, now: Timestamp) -> AllState {
        AllState::of(self.0.iter().map(|member| member.fresh(now)))
    }

    fn refund(&self, state: &mut AllState, now: Timestamp, receipt: Receipt) -> u64 {
        let is_last = self.tail(state) == receipt.tail();
        let states = self.states_of(state, now);
        let has_queue = |(member, state): &(&Policy, &PolicyState)| !member.tail(state).is_none();
        let queues = self.0.iter().zip(&*states).filter(has_queue).count();
        let refund = |(member, state): (&Policy, &mut PolicyState)| {
            let tail = receipt.tail_of_member(queues, is_last, member.tail(state));
            member.refund(state, now, receipt.with_tail(tail))
        };
        self.0.iter().zip(states).map(refund).min().unwrap_or(0)
    }

    fn carry(&self, from: &Self, state: AllState, now: Timestamp) -> AllState {
        let mut carried = from.0.iter().zip(state.into_vec());
        AllState::of(self.0.iter().map(|member| match carried.next() {
            Some((from, state)) => member.carry(from, state, now),
            None => member.fresh(now),
        }))
    }

    fn idle_at(&self, state: &AllState) -> Timestamp {
        self.of(state.as_slice())
            .map(|(_, member, state)| member.idle_at(state))
            .max()
            .unwrap_or(Timestamp::EPOCH)
    }

    fn is_idle(&self, state: &AllState, now: Timestamp) -> bool {
        self.of(state.as_slice())
            .all(|(_, member, state)| member.is_idle(state, now))
    }

    fn state_bytes(&self, state: &AllState) -> usize {
        let members = self.of(state.as_slice());
        let all: usize = members
            .map(|(_, member, state)| member.state_bytes(state))
            .sum();
        match state.0 {
            Kept::One(_) => size_of::<AllState>() + all - size_of::<PolicyState>(),
            Kept::Many(_) => size_of::<AllState>() + all,
        }
    }

    fn look(&self, state: &AllState, now: Timestamp, cost: u64) -> Result<AllFound, CostTooHigh> {
        if state.as_slice().len() != self.0.len() {
            return self.look(&self.fresh(now), now, cost);
        }
        let mut all = AllFound {
            few: [const { None }; FEW],
            more: Vec::new(),
        };
        for (index, member, state) in self.of(state.as_slice()) {
            let found = match member.look(state, now, cost) {
                Ok(found) => found,
                Err(never) => return Err(never.of_member(index)),
            };
            match all.few.get_mut(index) {
                Some(place) => *place = Some(found),
                None => all.more.push(found),
            }
        }
        Ok(all)
    }

    #[inline]
    fn admits(&self, found: &AllFound) -> bool {
        self.with(found).all(|(member, found)| member.admits(found))
    }

    fn take(&self, state: &mut AllState, now: Timestamp, found: &AllFound, cost: u64) {
        let states = self.states_of(state, now);
        for ((member, found), state) in self.with(found).zip(states) {
            member.take(state, now, found, cost);
        }
    }

    #[inline]
    fn decision(&self, found: &AllFound, now: Timestamp, taken: u64) -> Decision {
        let decisions = self.with(found);
        Decision::together(decisions.map(|(member, found)| member.decision(found, now, taken)))
    }

    fn each(
        &self,
        found: &AllFound,
        now: Timestamp,
        taken: u64,
        report: &mut dyn FnMut(usize, Decision),
    ) {
        for (index, (member, found)) in self.with(found).enumerate() {
            report(index, member.decision(found, now, taken));
        }
    }

    fn available(&self, state: &AllState, now: Timestamp) -> u64 {
        if state.as_slice().len() != self.0.len() {
            // Another list's: as a check has it, it tells nothing.
            return self.available(&self.fresh(now), now);
        }
        self.of(state.as_slice())
            .map(|(_, member, state)| member.available(state, now))
            .min()
            .unwrap_or(0)
    }

    fn record(&self, state: &mut AllState, now: Timestamp, units: u64) -> Recorded {
        let states = self.states_of(state, now);
        let record =
            |(member, state): (&Policy, &mut PolicyState)| member.record(state, now, units);
        let recorded = self.0.iter().zip(states).map(record);
        recorded.reduce(Recorded::and).unwrap_or(Recorded::NOTHING)
    }

    fn tail(&self, state: &AllState) -> Tail {
        self.of(state.as_slice())
            .fold(Tail::NONE, |tail, (_, member, state)| {
                tail.and(member.tail(state))
            })
    }

    fn redate(&self, state: &mut AllState, from: Timestamp, to: Timestamp) {
        let states = self.states_of(state, from);
        for (member, state) in self.0.iter().zip(states) {
            member.redate(state, from, to);
        }
    }

    fn is_sound(&self, state: &AllState) -> bool {
        state.as_slice().len() == self.0.len()
            && self
                .of(state.as_slice())
                .all(|(_, member, state)| member.is_sound(state))
    }
}

impl sealed::Sealed for All {}

impl From<Policy> for All {
    fn from(policy: Policy) -> Self {
        Self(Arc::new([policy]))
    }
}

impl TryFrom<Vec<Policy>> for All {
    type Error = EmptyAll;

    fn try_from(members: Vec<Policy>) -> Result<Self, EmptyAll> {
        Self::new(members)
    }
}

impl TryFrom<&[Policy]> for All {
    type Error = EmptyAll;

    fn try_from(members: &[Policy]) -> Result<Self, EmptyAll> {
        Self::new(members.iter().copied())
    }
}

impl AllState {
    fn of(states: impl ExactSizeIterator<Item = PolicyState>) -> Self {
        let mut states = states;
        Self(match (states.len(), states.next()) {
            (1, Some(state)) => Kept::One(state),
            (_, first) => Kept::Many(first.into_iter().chain(states).collect()),
        })
    }

    #[inline]
    fn as_slice(&self) -> &[PolicyState] {
        match &self.0 {
            Kept::One(state) => slice::from_ref(state),
            Kept::Many(states) => states,
        }
    }

    fn into_vec(self) -> Vec<PolicyState> {
        match self.0 {
            Kept::One(state) => Vec::from([state]),
            Kept::Many(states) => states.into_vec(),
        }
    }
}

/// What was found of each member: on the heap only where there are more than [`FEW`].
#[derive(Clone, Debug)]
pub struct AllFound {
    few: [Option<PolicyFound>; FEW],
    more: Vec<PolicyFound>,
}

/// Hardly anyone sets more limits on one client than these; each takes bytes that every decision moves.
const FEW: usize = 4;

/// A list of policies, or one by itself.
#[cfg(feature = "serde")]
mod config {
    use alloc::vec::Vec;
    use core::fmt;

    use serde::de::{Error, MapAccess, SeqAccess, Visitor};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{All, AllState};
    use crate::policy::{Policy, PolicyState};

    impl Serialize for All {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match self.members() {
                [policy] => policy.serialize(serializer),
                policies => policies.serialize(serializer),
            }
        }
    }

    impl<'de> Deserialize<'de> for All {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(AllVisitor)
        }
    }

    struct AllVisitor;

    impl<'de> Visitor<'de> for AllVisitor {
        type Value = All;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}, or a list of these", Policy::EXPECTED)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<All, E> {
            Policy::of_text(text).map(All::from)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<All, A::Error> {
            Policy::of_table(map).map(All::from)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<All, A::Error> {
            let mut members = Vec::new();
            while let Some(policy) = list.next_element()? {
                members.push(policy);
            }
            All::new(members).map_err(A::Error::custom)
        }
    }

    impl Serialize for AllState {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            self.as_slice().serialize(serializer)
        }
    }

    impl<'de> Deserialize<'de> for AllState {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let states: Vec<PolicyState> = Vec::deserialize(deserializer)?;
            Ok(Self::of(states.into_iter()))
        }
    }
}
