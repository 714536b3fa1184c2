//! One shard of a store: a table of clients behind one lock, with its own time.

#[cfg(feature = "serde")]
use std::cmp::Reverse;
use std::hash::{BuildHasher, Hash};
use std::mem;

use super::denials::{Denials, LinesOfShard, MARK_EVERY_NS};
use super::lookup::Lookup;
use super::table::{Client, Place, Swept, Table};
use crate::decision::Decision;
use crate::error::CostTooHigh;
use crate::holder::{HolderTime, Instant};
use crate::limiter::Limiter;
#[cfg(feature = "serde")]
use crate::limiter::expect_grantable;
use crate::time::Timestamp;

/// What every call needs comes first, in this order: with the lock before it, it fills two cache lines, which processors
/// fetch as a pair.
#[repr(C)]
pub(super) struct Shard<K, L: Limiter> {
    clients: Table<K, L::State>,
    /// From this stamp on a charge concerns the table of denials: one of this shard's notes ends, or the newest charge
    /// must be told.
    alarm_at_ns: u64,
    time: HolderTime,
    /// The table's generation when the newest charge was last told.
    generation: u64,
    refusals: u32,
    /// For how many of its clients somebody waits.
    #[cfg(feature = "wait")]
    awaited: u32,
    /// Each shard has its own, so that a running store can be given another one shard after the other.
    limiter: L,
    /// The place in the table that is swept next.
    hand: Place,
    /// Which lines of the table of denials are this shard's.
    lines: LinesOfShard,
    forgotten: u64,
    refused_for_room: u64,
}

/// What became of a snapshot's client.
#[cfg(feature = "serde")]
#[derive(Clone, Copy)]
pub(super) struct Restored {
    pub(super) is_taken: bool,
    pub(super) was_known: bool,
}

impl<K, L: Limiter> Shard<K, L> {
    pub(super) fn new(limiter: L, lines: LinesOfShard) -> Self {
        Self {
            limiter,
            clients: Table::new(),
            time: HolderTime::default(),
            alarm_at_ns: 0,
            generation: 0,
            refusals: 0,
            #[cfg(feature = "wait")]
            awaited: 0,
            hand: Place::default(),
            lines,
            forgotten: 0,
            refused_for_room: 0,
        }
    }

    #[inline]
    pub(super) fn date(&self, stamp: Timestamp) -> Instant {
        self.time.date(stamp)
    }

    /// The instant of what happens without a caller's stamp.
    pub(super) const fn latest(&self) -> Instant {
        self.time.latest()
    }

    /// Dates a call that makes no decision, and keeps what it has shown of the clock.
    pub(super) fn date_for_good(&mut self, denials: &Denials, stamp: Timestamp) -> Instant {
        let instant = self.date(stamp);
        self.note_set_back(denials, stamp, instant);
        instant
    }

    /// Keeps what a call that charged nothing has shown of the clock.
    #[inline]
    pub(super) fn note_set_back(&mut self, denials: &Denials, stamp: Timestamp, instant: Instant) {
        if instant.clock_was_set_back() {
            self.set_back(denials, stamp, instant);
        }
    }

    #[inline]
    pub(super) const fn limiter(&self) -> &L {
        &self.limiter
    }

    /// Whether somebody waits for one of its clients.
    #[inline]
    pub(super) const fn is_awaited(&self) -> bool {
        #[cfg(feature = "wait")]
        return self.awaited > 0;
        #[cfg(not(feature = "wait"))]
        false
    }

    #[cfg(feature = "wait")]
    pub(super) fn count_awaited(&mut self, more: i32) {
        self.awaited = self.awaited.saturating_add_signed(more);
    }

    /// Keeps that somebody who waited was let go, as of `charged_at`, by a call that was stamped `stamp`.
    #[cfg(feature = "wait")]
    pub(super) fn served(
        &mut self,
        denials: &Denials,
        stamp: Option<Timestamp>,
        charged_at: Timestamp,
    ) {
        if let Some(stamp) = stamp {
            self.time_has_come_to(stamp, denials);
        }
        self.time.pass_to(charged_at);
    }

    /// Asks the limiter about a client, if it is known.
    #[inline]
    pub(super) fn ask_known<Q: Lookup<K> + ?Sized, T>(
        &mut self,
        (hash, key): (u64, &Q),
        ask: impl FnOnce(&L, &mut L::State) -> T,
    ) -> Option<T> {
        let client = self.clients.find_mut(hash, |known| key.is(known))?;
        Some(ask(&self.limiter, &mut client.state))
    }

    /// The same of a client by its own key.
    #[cfg(feature = "wait")]
    pub(super) fn ask_client<T>(
        &mut self,
        hash: u64,
        key: &K,
        ask: impl FnOnce(&L, &mut L::State) -> T,
    ) -> Option<T>
    where
        K: Eq,
    {
        let client = self.clients.find_mut(hash, |known| known == key)?;
        Some(ask(&self.limiter, &mut client.state))
    }

    /// Looks at a client for a request of `cost`, if it is known, and spends that if it is admitted; says what was found and
    /// whether it was.
    #[inline]
    pub(super) fn look_and_take<Q: Lookup<K> + ?Sized>(
        &mut self,
        key: (u64, &Q),
        now: Timestamp,
        cost: u64,
    ) -> Option<Result<(L::Found, bool), CostTooHigh>> {
        self.look_and_take_if(key, now, cost, |_| true)
    }

    /// The same, if the client's state is as asked for besides.
    #[inline]
    pub(super) fn look_and_take_if<Q: Lookup<K> + ?Sized>(
        &mut self,
        key: (u64, &Q),
        now: Timestamp,
        cost: u64,
        is_meant: impl FnOnce(&L::State) -> bool,
    ) -> Option<Result<(L::Found, bool), CostTooHigh>> {
        self.ask_known(key, |limiter, state| {
            if !is_meant(state) {
                return None;
            }
            Some(limiter.look(state, now, cost).map(|found| {
                let admits = limiter.admits(&found);
                if admits && cost > 0 {
                    limiter.take(state, now, &found, cost);
                }
                (found, admits)
            }))
        })
        .flatten()
    }

    /// The state of a client that is known.
    pub(super) fn state<Q: Lookup<K> + ?Sized>(&self, (hash, key): (u64, &Q)) -> Option<&L::State> {
        let client = self.clients.find(hash, |known| key.is(known))?;
        Some(&client.state)
    }

    pub(super) fn peek<Q: Lookup<K> + ?Sized>(
        &self,
        key: (u64, &Q),
        cost: u64,
        instant: Instant,
    ) -> Result<Decision, CostTooHigh> {
        let (limiter, now) = (&self.limiter, instant.now);
        match self.state(key) {
            Some(state) => limiter.peek(state, now, cost),
            None => limiter.peek(&limiter.fresh(now), now, cost),
        }
    }

    /// Forgets a client, whatever it has spent; says whether it was known.
    pub(super) fn remove<Q: Lookup<K> + ?Sized>(&mut self, (hash, key): (u64, &Q)) -> bool {
        self.clients.remove(hash, |known| key.is(known))
    }

    /// Puts another limiter in place of this shard's, and carries over what its clients have used.
    ///
    /// Time comes to `stamp`, as by a charge: states are now as the new limiter counts them from there.
    pub(super) fn set_limiter(&mut self, limiter: L, denials: &Denials, stamp: Timestamp) {
        let instant = self.date(stamp);
        for client in self.clients.iter_mut() {
            let fresh = limiter.fresh(instant.now);
            let state = mem::replace(&mut client.state, fresh);
            client.state = limiter.carry(&self.limiter, state, instant.now);
        }
        self.limiter = limiter;
        denials.expire(self.lines, u64::MAX);
        self.charged(denials, stamp, instant);
    }

    /// Takes over a client of a snapshot; if it is known, the state that is idle later is kept.
    #[cfg(feature = "serde")]
    pub(super) fn restore<H: BuildHasher>(
        &mut self,
        hasher: &H,
        (hash, key): (u64, K),
        state: L::State,
    ) -> Restored
    where
        K: Hash + Eq,
    {
        match self.clients.find_mut(hash, |known| *known == key) {
            Some(client) => {
                let now = self.time.latest().now;
                let spent = |state: &L::State| {
                    let stands = expect_grantable(self.limiter.peek(state, now, 0));
                    let left = Reverse(stands.remaining());
                    (stands.reset_after(), left, stands.debt())
                };
                let is_taken = spent(&state) > spent(&client.state);
                if is_taken {
                    client.state = state;
                }
                Restored {
                    is_taken,
                    was_known: true,
                }
            }
            None => {
                let rehash = |key: &K| hasher.hash_one(key);
                self.clients.insert(hash, key, state, rehash);
                Restored {
                    is_taken: true,
                    was_known: false,
                }
            }
        }
    }

    /// The time that this shard has come to, and at least to an instant.
    #[cfg(feature = "serde")]
    pub(super) fn time_at(&self, instant: Option<Instant>) -> HolderTime {
        let mut time = self.time;
        if let Some(instant) = instant {
            time.pass(instant);
        }
        time
    }

    /// Goes on from a snapshot's time, if that is later.
    #[cfg(feature = "serde")]
    pub(super) fn join_time(&mut self, time: &HolderTime, denials: &Denials) {
        self.time.join(time);
        denials.expire(self.lines, u64::MAX);
        // The next charge is told to all.
        self.alarm_at_ns = 0;
    }

    /// The clients that are not idle at `instant`.
    pub(super) fn busy(&self, instant: Instant) -> impl Iterator<Item = (&K, &L::State)> {
        let is_busy =
            move |client: &&Client<K, L::State>| !self.limiter.is_idle(&client.state, instant.now);
        let busy = self.clients.iter().filter(is_busy);
        busy.map(|client| (&client.key, &client.state))
    }

    /// Keeps what a call has shown of the time, and makes its decision what its caller must read.
    #[inline]
    pub(super) fn settle(
        &mut self,
        denials: &Denials,
        stamp: Timestamp,
        instant: Instant,
        decision: &mut Decision,
    ) {
        if decision.moves_time() {
            self.charged(denials, stamp, instant);
        } else {
            self.note_set_back(denials, stamp, instant);
        }
        decision.count_from(instant.lateness_ns());
    }

    /// Keeps that time has come to the instant of a charge.
    #[inline]
    pub(super) fn charged(&mut self, denials: &Denials, stamp: Timestamp, instant: Instant) {
        self.note_set_back(denials, stamp, instant);
        // Another shard may have found that the clock was set back, and the newest charge is to be told anew.
        if stamp.as_nanos() >= self.alarm_at_ns || self.generation != denials.generation() {
            self.time_has_come_to(stamp, denials);
        }
        self.time.pass(instant);
    }

    /// Counts a refusal that the store itself decided.
    #[inline]
    pub(super) fn count_refusal(&mut self) -> u32 {
        self.refusals = self.refusals.wrapping_add(1);
        self.refusals
    }

    /// Keeps that a refusal was noted which ends at a stamp.
    #[inline]
    pub(super) fn noted_until(&mut self, until_ns: u64) {
        self.alarm_at_ns = self.alarm_at_ns.min(until_ns);
    }

    #[cold]
    fn set_back(&mut self, denials: &Denials, stamp: Timestamp, instant: Instant) {
        denials.restart(stamp.as_nanos());
        self.alarm_at_ns = 0;
        self.time.note_set_back(instant);
    }

    #[cold]
    fn time_has_come_to(&mut self, stamp: Timestamp, denials: &Denials) {
        self.generation = denials.generation();
        denials.mark_charge(stamp.as_nanos());
        let next_end_ns = denials.expire(self.lines, stamp.as_nanos());
        self.alarm_at_ns = next_end_ns.min(stamp.as_nanos().saturating_add(MARK_EVERY_NS));
    }

    /// Adds a client who was just charged at `instant`. Returns how many idle ones were forgotten on the way.
    ///
    /// Each newcomer sweeps a few slots, so that the hand has been all round the table before as many newcomers have
    /// come as a quarter of it: a flood of keys that come once is forgotten as it passes, and no call sweeps all.
    pub(super) fn insert<H: BuildHasher>(
        &mut self,
        hasher: &H,
        (hash, key): (u64, K),
        state: L::State,
        instant: Instant,
        stays: impl Fn(&K) -> bool,
    ) -> usize
    where
        K: Hash,
    {
        let forgotten = self
            .forget_idle(instant, SLOTS_PER_NEWCOMER, usize::MAX, stays)
            .removed;
        let rehash = |key: &K| hasher.hash_one(key);
        self.clients.insert(hash, key, state, rehash);
        forgotten
    }

    /// Moves the hand over up to `slots` of the table and `most` states, at most once round, and forgets those that are
    /// idle at `instant`; not one that `stays`, for somebody waits for it: what those who wait have yet to spend is not in its
    /// state.
    ///
    /// The caller charges at `instant`, or says that it did ([`charged`](Self::charged)).
    pub(super) fn forget_idle(
        &mut self,
        instant: Instant,
        slots: usize,
        most: usize,
        stays: impl Fn(&K) -> bool,
    ) -> Swept {
        let (limiter, is_awaited) = (&self.limiter, self.is_awaited());
        let goes = |client: &Client<K, L::State>| {
            limiter.is_idle(&client.state, instant.now) && !(is_awaited && stays(&client.key))
        };
        let swept = self.clients.sweep(&mut self.hand, slots, most, goes);
        self.forgotten += swept.removed as u64;
        swept
    }

    /// Forgets, of the next few states, the one that is nearest to idle; never that of a client who would be refused at
    /// `instant`, for to be forgotten would be a new budget. Says whether there was one.
    ///
    /// The caller charges at `instant`, or says that it did ([`charged`](Self::charged)).
    pub(super) fn forget_nearest_to_idle(
        &mut self,
        instant: Instant,
        stays: impl Fn(&K) -> bool,
    ) -> bool {
        let is_awaited = self.is_awaited();
        let nearest = self
            .clients
            .clients_from(self.hand)
            .take(SAMPLE)
            .filter(|(_, client)| {
                let next = self.limiter.peek(&client.state, instant.now, 1);
                let is_allowed = next.is_ok_and(|decision| decision.is_allowed());
                is_allowed && !(is_awaited && stays(&client.key))
            })
            .min_by_key(|(_, client)| self.limiter.idle_at(&client.state))
            .map(|(place, _)| place);
        let Some(place) = nearest else { return false };
        self.hand = place;
        let was_there = self.clients.remove_at(place);
        self.forgotten += u64::from(was_there);
        was_there
    }

    /// When the first of the next few states is idle.
    pub(super) fn first_idle_at(&self) -> Option<Timestamp> {
        let sample = self.clients.clients_from(self.hand).take(SAMPLE);
        sample
            .map(|(_, client)| self.limiter.idle_at(&client.state))
            .min()
    }

    /// Forgets all states that are idle at `stamp`, and says how many.
    pub(super) fn sweep(
        &mut self,
        denials: &Denials,
        stamp: Timestamp,
        stays: impl Fn(&K) -> bool,
    ) -> usize {
        let instant = self.date(stamp);
        let (limiter, is_awaited) = (&self.limiter, self.is_awaited());
        let forgotten = self.clients.remove_all(|client| {
            limiter.is_idle(&client.state, instant.now) && !(is_awaited && stays(&client.key))
        });
        if forgotten > 0 {
            self.charged(denials, stamp, instant);
            self.forgotten += forgotten as u64;
        }
        forgotten
    }

    pub(super) fn len(&self) -> usize {
        self.clients.len()
    }

    pub(super) const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub(super) const fn refused_for_room(&self) -> u64 {
        self.refused_for_room
    }

    pub(super) fn count_refused_for_room(&mut self) {
        self.refused_for_room += 1;
    }
}

/// How many slots of its shard's table a newcomer sweeps.
const SLOTS_PER_NEWCOMER: usize = 4;

/// Among how many states the one nearest to idle is looked for.
const SAMPLE: usize = 32;
