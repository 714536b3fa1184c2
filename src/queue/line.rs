//! [`Queue`]: those who wait for one client's limit, in the order in which they came.
//!
//! The simplest idea is to sleep for `retry_after` and to ask again, and it is what most do. It breaks on the first large
//! cost: whoever wants ten finds that smaller ones have taken what came in, each time, for ever. Nor does it help to let
//! those who wait book ahead in the state, where only buckets could: what a window counts it counts from now on, and a
//! booking that is given up cannot be taken out of the middle.
//!
//! So nothing is spent while anyone waits. The queue is an order and nothing else: its head may go at the first
//! instant at which the limit would let it pass, the next one at the first instant after that, and so on. Since a limit's
//! future is known (nobody else is let past), each of these instants is too: [`Queue::serve`] works them out when somebody
//! comes by, and charges each *as of its own instant*, however late a timer was. So a queue is released at exactly the rate
//! of its limit, whatever the timers' grain; one who leaves has spent nothing; and those behind move up by themselves.
//!
//! What a request would find behind all of them is the state that the last of them will leave. It is kept
//! ([`End`]) and carried on by each who joins, so that neither joining nor being refused costs a walk through the queue; only
//! after somebody has left, or the limit has changed, it is worked out anew.
//!
//! One timer is enough for a queue: until its head may go, nobody may. Whoever finds none armed keeps it (the *keeper*); when
//! it ends it wakes the keeper and the first two, and whoever comes lets all go who may, in their absence if need be, and sees to
//! the next timer.
//!
//! A future can be alive and never polled again, and whoever relies on it to see to the timer waits for ever. So the timer and
//! the head's place are left to one alone only if it is known to come when it is woken. Where that is not known, those behind it
//! are woken too, up to the first of whom it is, or a [few dozen](AWAKE_AT_FIRST); which shows it of all of them: so each is
//! woken once for that, and not once for everyone before it. What is left is somebody who came, and does not any more, at the
//! very front, or a runtime that stands still with the timer: they hold up the rest until anybody comes to wait for the same
//! client, or asks for it.
//!
//! Worked example, 1 per second, burst 1, spent at 0. Costs 1, 1 join at 0: they may go at 1 s and 2 s; a check is told to
//! come back in 3 s. The first leaves: the other may go at 1 s. Nobody's timer ends before 5 s: both were let go as of 1 s and
//! 2 s, and the bucket is full again, as if the timer had been on time.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::task::Waker;

use super::place::{Bell, Outcome, Place};
use super::{Bounds, Joined, Refusal};
use crate::arithmetic::{divide_up, saturate};
use crate::decision::Decision;
use crate::error::CostTooHigh;
use crate::limiter::Limiter;
use crate::time::Timestamp;

/// Those who wait for one state.
pub(crate) struct Queue<S> {
    waiters: VecDeque<Arc<Place>>,
    /// What they ask for, all in all.
    units: u64,
    next_number: u64,
    /// Nobody is let go as of an instant before this one: when the last was, or something else was charged.
    from: Timestamp,
    end: Option<End<S>>,
    keeper: Option<Keeper>,
    pub(super) bell: Arc<Bell>,
}

/// What a state will be when all who wait have gone.
struct End<S> {
    state: S,
    at: Timestamp,
}

/// Who has the timer.
#[derive(Clone, Copy)]
struct Keeper {
    number: u64,
    ends_at: Timestamp,
    /// It is known to come when it is woken.
    comes: bool,
}

impl<S: Clone> Queue<S> {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            waiters: VecDeque::new(),
            units: 0,
            next_number: 0,
            from: now,
            end: None,
            keeper: None,
            bell: Arc::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Lets go all who may by `now`, each as of the instant at which it might; says when the last one was.
    pub(super) fn serve<L: Limiter<State = S>>(
        &mut self,
        limiter: &L,
        state: &mut S,
        now: Timestamp,
        woken: &mut Vec<Waker>,
    ) -> Option<Timestamp> {
        let mut last = None;
        let before = self.waiters.len();
        while let Some(head) = self.waiters.front() {
            let outcome = match earliest(limiter, state, self.from, head.cost) {
                Ok(at) if at > head.latest => {
                    let end = self.end_of_none(state);
                    too_late(limiter, &end, now, head.cost)
                }
                Ok(at) if at > now => break,
                Ok(at) => match self.let_go(limiter, state, at, head.cost) {
                    Ok(decision) if decision.is_allowed() => {
                        self.from = at;
                        last = Some(at);
                        Outcome::Go(decision.spent())
                    }
                    // The end of time.
                    Ok(_) => break,
                    Err(never) => Outcome::Never(never),
                },
                // The limit was changed for one that can never grant it.
                Err(never) => Outcome::Never(never),
            };
            let head = self.waiters.pop_front().expect("it was there just now");
            self.units -= head.cost;
            self.say(&head, outcome, woken);
        }
        if self.waiters.len() < before {
            self.front_has_changed(woken);
        }
        if self.waiters.is_empty() {
            self.end = None;
        }
        last
    }

    /// Charges the head, whose turn is at `at`.
    fn let_go<L: Limiter<State = S>>(
        &self,
        limiter: &L,
        state: &mut S,
        at: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        if at > self.from {
            limiter.check_in_turn(state, at, cost)
        } else {
            limiter.check(state, at, cost)
        }
    }

    pub(super) fn join<L: Limiter<State = S>>(
        &mut self,
        limiter: &L,
        state: &S,
        (cost, now): (u64, Timestamp),
        bounds: &Bounds,
        woken: &mut Vec<Waker>,
    ) -> Result<Joined, Refusal> {
        let _found = limiter.peek(state, now, cost).map_err(Refusal::Never)?;
        let has_room = |waiters: usize, units: u64| {
            let units = units.checked_add(cost);
            waiters < bounds.max_waiters && units.is_some_and(|units| units <= bounds.max_units)
        };
        if bounds.within_burst {
            let full = self.beyond_burst(limiter, state, now, cost);
            if let Some(full) = full.map_err(Refusal::Never)? {
                return Err(Refusal::full(full));
            }
        }
        let goes_at_once = self.is_empty()
            && earliest(limiter, state, self.from.max(now), cost).is_ok_and(|at| at <= now);
        let mut evicted = Vec::new();
        if !goes_at_once {
            // Whom it would have to push out, oldest first; none if it would not fit even then.
            let (mut waiters, mut units) = (self.waiters.len(), self.units);
            let mut oldest = self.waiters.iter().filter(|place| !place.is_booked);
            while !has_room(waiters, units) {
                let Some(place) = oldest.next().filter(|_| bounds.evicts_oldest) else {
                    let behind = self.behind(limiter, state, now, cost);
                    return Err(behind.map_or_else(Refusal::Never, Refusal::full));
                };
                (waiters, units) = (waiters - 1, units - place.cost);
                evicted.push(Arc::clone(place));
            }
        }
        if !evicted.is_empty() {
            self.evict(limiter, state, (cost, now), bounds, &evicted, woken)?;
        }
        let is_bounded = bounds.books || bounds.max_wait_ns < u64::MAX;
        // Nobody asks how long it is but for these, and it may take a walk through the queue.
        let wait_ns = if is_bounded {
            let at = self
                .turn(limiter, state, now, cost)
                .map_err(Refusal::Never)?;
            at.nanos_since(now)
        } else {
            0
        };
        if wait_ns > bounds.max_wait_ns {
            return Err(self.too_long(limiter, state, now, cost));
        }
        if self.is_empty() {
            self.from = self.from.max(now);
        }
        let latest = if bounds.books {
            Timestamp::MAX
        } else {
            Timestamp::from_nanos(now.as_nanos().saturating_add(bounds.max_wait_ns))
        };
        let place = Arc::new(Place::new(self.next_number, cost, latest, bounds.books));
        self.next_number += 1;
        self.units += cost;
        self.waiters.push_back(Arc::clone(&place));
        if let Some(end) = &mut self.end {
            end.take(limiter, now, cost);
        }
        if !evicted.is_empty() {
            self.front_has_changed(woken);
        } else if self.waiters.len() <= AWAKE_AT_FIRST && self.waiters.len() <= self.awake() {
            self.bell.wakes.lock().push(Arc::clone(&place));
        }
        Ok(Joined { place, wait_ns })
    }

    /// Has these give way, who have waited longest, to one who would not be too late behind those who are left.
    fn evict<L: Limiter<State = S>>(
        &mut self,
        limiter: &L,
        state: &S,
        (cost, now): (u64, Timestamp),
        bounds: &Bounds,
        evicted: &[Arc<Place>],
        woken: &mut Vec<Waker>,
    ) -> Result<(), Refusal> {
        // Whoever moves up could not go before now.
        let from = self.from.max(now);
        let is_left = |place: &Arc<Place>| !evicted.iter().any(|other| Arc::ptr_eq(other, place));
        if bounds.max_wait_ns < u64::MAX {
            let mut left = Self::new(from);
            left.waiters = self
                .waiters
                .iter()
                .filter(|place| is_left(place))
                .cloned()
                .collect();
            let at = left
                .turn(limiter, state, now, cost)
                .map_err(Refusal::Never)?;
            if at.nanos_since(now) > bounds.max_wait_ns {
                return Err(left.too_long(limiter, state, now, cost));
            }
        }
        for place in evicted {
            self.units -= place.cost;
            self.say(place, Outcome::Evicted, woken);
            // They are the oldest, but for bookings, which stay.
            if let Some(index) = self
                .waiters
                .iter()
                .position(|other| Arc::ptr_eq(other, place))
            {
                self.waiters.remove(index);
            }
        }
        (self.from, self.end) = (from, None);
        Ok(())
    }

    pub(super) fn leave(&mut self, number: u64, now: Timestamp, woken: &mut Vec<Waker>) {
        let Ok(index) = self
            .waiters
            .binary_search_by_key(&number, |place| place.number)
        else {
            return;
        };
        if let Some(place) = self.waiters.remove(index) {
            self.units -= place.cost;
        }
        self.end = None;
        // Whoever stood behind the head could not go before now.
        self.from = self.from.max(now);
        let kept = self.keeper.is_some_and(|keeper| keeper.number == number);
        if kept {
            self.keeper = None;
        }
        if kept || index == 0 {
            self.front_has_changed(woken);
        } else if index <= self.awake() {
            self.ring_for_front();
        }
    }

    /// The state was changed at `now` by somebody who does not wait, for better or for worse.
    pub(super) fn disturb<L: Limiter<State = S>>(
        &mut self,
        limiter: &L,
        state: &S,
        (now, is_relimited): (Timestamp, bool),
        woken: &mut Vec<Waker>,
    ) {
        self.from = self.from.max(now);
        self.end = None;
        let is_hasty = |place: &Arc<Place>| place.latest < Timestamp::MAX;
        if is_relimited || self.waiters.iter().any(is_hasty) {
            self.tell_the_late(limiter, state, now, woken);
        }
        self.front_has_changed(woken);
    }

    /// Tells those who cannot be served in time any more.
    fn tell_the_late<L: Limiter<State = S>>(
        &mut self,
        limiter: &L,
        state: &S,
        now: Timestamp,
        woken: &mut Vec<Waker>,
    ) {
        let mut end = self.end_of_none(state);
        for place in mem::take(&mut self.waiters) {
            match earliest(limiter, &end.state, end.at, place.cost) {
                Ok(at) if at > place.latest => {
                    self.units -= place.cost;
                    let too_late = too_late(limiter, &end, now, place.cost);
                    self.say(&place, too_late, woken);
                }
                Ok(_) => {
                    end.take(limiter, self.from, place.cost);
                    self.waiters.push_back(place);
                }
                Err(never) => {
                    self.units -= place.cost;
                    self.say(&place, Outcome::Never(never), woken);
                }
            }
        }
        self.end = Some(end);
    }

    /// Until when this waiter is to keep the timer; `None` if somebody has one that ends as early.
    pub(super) fn keep<L: Limiter<State = S>>(
        &mut self,
        limiter: &L,
        state: &S,
        place: &Place,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let number = place.number;
        let head = self.waiters.front()?;
        let ends_at = earliest(limiter, state, self.from, head.cost).ok()?;
        if ends_at <= now {
            // The end of time: it never goes.
            return None;
        }
        // A timer that has ended and is still kept was that of somebody who has not come.
        let is_kept = |keeper: Keeper| {
            keeper.number != number && keeper.ends_at > now && keeper.ends_at <= ends_at
        };
        if self.keeper.is_some_and(is_kept) {
            return None;
        }
        self.keeper = Some(Keeper {
            number,
            ends_at,
            comes: place.comes(),
        });
        self.ring_for_front();
        Some(ends_at)
    }

    /// The decision on a request that would find those before it who could not go by `now`; nothing is changed. Those who could,
    /// if any, are woken: their timers are late.
    pub(super) fn peek<L: Limiter<State = S>>(
        &mut self,
        limiter: &L,
        state: &S,
        now: Timestamp,
        cost: u64,
        woken: &mut Vec<Waker>,
    ) -> Result<Decision, CostTooHigh> {
        let is_due = |from: Timestamp, state: &S, place: &Place| {
            earliest(limiter, state, from, place.cost)
                .ok()
                .filter(|at| *at <= now)
        };
        let is_late = |place: &Arc<Place>| is_due(self.from, state, place).is_some();
        if !self.waiters.front().is_some_and(is_late) {
            return self.behind(limiter, state, now, cost);
        }
        let front = self.waiters.iter().take(AWAKE_AT_FIRST);
        woken.extend(front.filter_map(|place| place.waker()));
        let (mut then, mut left) = (state.clone(), Self::new(self.from));
        let mut waiters = self.waiters.iter();
        for place in waiters.by_ref() {
            let Some(at) = is_due(left.from, &then, place) else {
                left.waiters.push_back(Arc::clone(place));
                break;
            };
            let _gone = left.let_go(limiter, &mut then, at, place.cost);
            left.from = at;
        }
        left.waiters.extend(waiters.cloned());
        if left.is_empty() {
            return limiter.peek(&then, now, cost);
        }
        left.behind(limiter, &then, now, cost)
    }

    /// When the last was let go, or something else has happened: nobody is let go before.
    pub(super) const fn from(&self) -> Timestamp {
        self.from
    }

    /// Time has gone back.
    pub(super) fn redate(&mut self, now: Timestamp) {
        (self.from, self.end) = (now, None);
    }

    /// The decision at `now` on a request that finds all these before it.
    fn behind<L: Limiter<State = S>>(
        &mut self,
        limiter: &L,
        state: &S,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        let found = limiter.peek(state, now, cost)?;
        if cost == 0 {
            return Ok(found);
        }
        let debt = found.debt();
        self.end(limiter, state)
            .behind(limiter, (now, debt), cost, |then, _| {
                Ok(then.retry_after_ns())
            })
    }

    /// The same on one that would wait, until it need not be delayed.
    fn too_long<L: Limiter<State = S>>(
        &mut self,
        limiter: &L,
        state: &S,
        now: Timestamp,
        cost: u64,
    ) -> Refusal {
        let found = limiter.peek(state, now, cost);
        let refusal = found.and_then(|found| {
            let end = self.end(limiter, state);
            end.before_turn(limiter, (now, found.debt()), cost)
        });
        refusal.map_or_else(Refusal::Never, |refusal| {
            Refusal::TooLong(Box::new(refusal))
        })
    }

    /// The refusal of a request that, with all who wait, is more than the limit would let in at once.
    ///
    /// What waits drains as what was let in does: so one who asks for all of it is told when there is room. If that is more than
    /// there ever is, a queue has room when the excess has drained too; of other limits it is told when all have gone.
    fn beyond_burst<L: Limiter<State = S>>(
        &mut self,
        limiter: &L,
        state: &S,
        now: Timestamp,
        cost: u64,
    ) -> Result<Option<Decision>, CostTooHigh> {
        let units = self.units.saturating_add(cost);
        let never = match limiter.peek(state, now, units) {
            Ok(decision) => return Ok((!decision.is_allowed()).then_some(decision)),
            Err(never) => never,
        };
        let behind = self.behind(limiter, state, now, cost)?;
        if !L::IS_QUEUE {
            return Ok(Some(behind));
        }
        let empty = limiter.peek(state, now, never.most())?;
        let quota = limiter.quota();
        let excess = u128::from(units - never.most()) * u128::from(quota.period_ns());
        let excess_ns = saturate(divide_up(excess, quota.limit()));
        let retry_ns = empty.retry_after_ns().saturating_add(excess_ns);
        let waits_ns = (retry_ns, retry_ns);
        Ok(Some(Decision::behind_others(
            &behind,
            waits_ns,
            behind.debt(),
            now,
        )))
    }

    /// When a request of `cost` that joins now may go.
    fn turn<L: Limiter<State = S>>(
        &mut self,
        limiter: &L,
        state: &S,
        now: Timestamp,
        cost: u64,
    ) -> Result<Timestamp, CostTooHigh> {
        if self.is_empty() {
            return earliest(limiter, state, self.from.max(now), cost);
        }
        let end = self.end(limiter, state);
        earliest(limiter, &end.state, end.at.max(now), cost)
    }

    /// What the state will be when all have gone.
    fn end<L: Limiter<State = S>>(&mut self, limiter: &L, state: &S) -> &End<S> {
        let (from, none) = (self.from, self.end_of_none(state));
        let waiters = &self.waiters;
        self.end.get_or_insert_with(|| {
            let mut end = none;
            for place in waiters {
                end.take(limiter, from, place.cost);
            }
            end
        })
    }

    fn end_of_none(&self, state: &S) -> End<S> {
        End {
            state: state.clone(),
            at: self.from,
        }
    }

    fn say(&mut self, place: &Place, outcome: Outcome, woken: &mut Vec<Waker>) {
        if self
            .keeper
            .is_some_and(|keeper| keeper.number == place.number)
        {
            self.keeper = None;
        }
        woken.extend(place.tell(outcome));
    }

    /// The head is another, or may go at another instant: it looks after the timer.
    fn front_has_changed(&mut self, woken: &mut Vec<Waker>) {
        self.ring_for_front();
        let front = self.waiters.iter().take(self.to_the_first_who_comes());
        woken.extend(front.filter_map(|place| place.waker()));
        // A timer that ends too late is given up by whoever keeps it.
        if let Some(keeper) = self.keeper {
            let place = self
                .waiters
                .binary_search_by_key(&keeper.number, |place| place.number);
            if let Ok(index @ 1..) = place {
                woken.extend(self.waiters[index].waker());
            }
        }
    }

    fn ring_for_front(&self) {
        let mut wakes = self.bell.wakes.lock();
        wakes.clear();
        wakes.extend(self.waiters.iter().take(self.awake()).cloned());
        if let Some(keeper) = self.keeper {
            let place = self
                .waiters
                .binary_search_by_key(&keeper.number, |place| place.number);
            if let Ok(index) = place {
                if index >= self.awake() {
                    wakes.push(Arc::clone(&self.waiters[index]));
                }
            }
        }
    }

    /// How many a timer wakes, from the head on.
    fn awake(&self) -> usize {
        match self.keeper {
            Some(keeper) if keeper.comes => AWAKE,
            _ => self.to_the_first_who_comes().max(AWAKE),
        }
    }

    /// How many there are from the head on to the first who is known to come.
    fn to_the_first_who_comes(&self) -> usize {
        let mut front = self.waiters.iter().take(AWAKE_AT_FIRST);
        let first = front.position(|place| place.comes());
        first.map_or(AWAKE_AT_FIRST, |first| first + 1)
    }
}

impl<S: Clone> End<S> {
    /// The decision at `now` on a request that finds all these before it, and may go so long after as `until` says.
    fn behind<L: Limiter<State = S>>(
        &self,
        limiter: &L,
        (now, debt): (Timestamp, u64),
        cost: u64,
        until: impl FnOnce(&Decision, Timestamp) -> Result<u64, CostTooHigh>,
    ) -> Result<Decision, CostTooHigh> {
        let at = self.at.max(now);
        let then = limiter.peek(&self.state, at, cost)?;
        let until_then_ns = at.nanos_since(now);
        let retry_ns = until_then_ns.saturating_add(until(&then, at)?);
        let waits_ns = (until_then_ns, retry_ns);
        Ok(Decision::behind_others(&then, waits_ns, debt, now))
    }

    /// The same, until it need not be delayed.
    fn before_turn<L: Limiter<State = S>>(
        &self,
        limiter: &L,
        now_and_debt: (Timestamp, u64),
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        self.behind(limiter, now_and_debt, cost, |_, at| {
            Ok(earliest(limiter, &self.state, at, cost)?.nanos_since(at))
        })
    }

    /// One more has gone.
    fn take<L: Limiter<State = S>>(&mut self, limiter: &L, now: Timestamp, cost: u64) {
        let from = self.at.max(now);
        if let Ok(at) = earliest(limiter, &self.state, from, cost) {
            let _taken = if at > from {
                limiter.check_in_turn(&mut self.state, at, cost)
            } else {
                limiter.check(&mut self.state, at, cost)
            };
            self.at = at;
        }
    }
}

/// The first instant, no earlier than `from`, at which a request of `cost` may go and need not be delayed, if nobody else
/// comes.
fn earliest<L: Limiter>(
    limiter: &L,
    state: &L::State,
    from: Timestamp,
    cost: u64,
) -> Result<Timestamp, CostTooHigh> {
    let mut at = from;
    // A rule says it exactly at the first asking. Of several, one that delays may have another wait when the delay is over:
    // each asking comes nearer, and no sane limits need more than a few.
    for _ in 0..MOST_ASKINGS {
        let decision = limiter.peek(state, at, cost)?;
        // A limit on trial delays nobody, nor does one that has no queue.
        let delay_ns = if L::SHAPES { decision.delay_ns() } else { 0 };
        let wait_ns = decision.retry_after_ns().max(delay_ns);
        if wait_ns == 0 || at == Timestamp::MAX {
            return Ok(at);
        }
        at = Timestamp::from_nanos(at.as_nanos().saturating_add(wait_ns));
    }
    Ok(at)
}

/// What somebody is told who would be too late behind all of an end.
fn too_late<L: Limiter>(limiter: &L, end: &End<L::State>, now: Timestamp, cost: u64) -> Outcome {
    match end.before_turn(limiter, (now, 0), cost) {
        Ok(decision) => Outcome::TooLate(Box::new(decision)),
        Err(never) => Outcome::Never(never),
    }
}

/// How many a timer wakes, from the head on, if its keeper is known to come.
const AWAKE: usize = 2;

/// The same as long as it is not.
const AWAKE_AT_FIRST: usize = 64;

const MOST_ASKINGS: usize = 16;
