//! Those who wait for clients of a [`Keyed`]: nobody is let past them.

use std::hash::{BuildHasher, Hash};
use std::task::Waker;

use parking_lot::MutexGuard;

use super::lookup::Lookup;
use super::shard::Shard;
use super::{Keyed, OwnLine};
use crate::decision::Decision;
use crate::error::CostTooHigh;
use crate::limiter::Limiter;
use crate::time::Timestamp;

/// What waits in a store.
#[cfg(feature = "wait")]
pub(super) type Queues<K, S> = registry::Registry<K, S>;

#[cfg(feature = "wait")]
mod registry {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use dashmap::DashMap;
    use dashmap::mapref::one::RefMut;
    use foldhash::fast::RandomState;
    use parking_lot::Mutex;

    use crate::queue::Queue;

    /// The queues of a store by their clients' hash. There is an entry only while somebody waits, and a map only once somebody
    /// has. It is asked with the lock of the client's shard held, so an entry belongs to whoever has that.
    pub(in super::super) struct Registry<K, S> {
        map: OnceLock<Map<K, S>>,
        /// How many hashes there are, and the most that there were since room was last given back.
        len: AtomicUsize,
        most: AtomicUsize,
    }

    type Map<K, S> = DashMap<u64, Lines<K, S>, RandomState>;

    /// Those of one hash. (Nobody ever locks them: whoever asks has them to itself. But a state that may only be sent can be shared
    /// in a lock, as it is in a shard.)
    pub(super) type Lines<K, S> = Mutex<Vec<Line<K, S>>>;

    pub(in super::super) struct Line<K, S> {
        pub(super) key: K,
        /// `None` once it is empty, until the line is removed.
        pub(super) queue: Option<Box<Queue<S>>>,
    }

    impl<K, S> Registry<K, S> {
        pub(in super::super) const fn new() -> Self {
            Self {
                map: OnceLock::new(),
                len: AtomicUsize::new(0),
                most: AtomicUsize::new(0),
            }
        }

        pub(super) fn find(&self, hash: u64) -> Option<RefMut<'_, u64, Lines<K, S>>> {
            self.map.get()?.get_mut(&hash)
        }

        /// Whether somebody waits for a client of this hash that is meant.
        pub(super) fn holds(&self, hash: u64, is_meant: impl Fn(&K) -> bool) -> bool {
            let lines = self.find(hash);
            lines.is_some_and(|mut lines| lines.get_mut().iter().any(|line| is_meant(&line.key)))
        }

        pub(super) fn insert(&self, hash: u64, key: K, queue: Box<Queue<S>>) {
            let map = self.map.get_or_init(DashMap::default);
            let queue = Some(queue);
            let mut lines = map.entry(hash).or_default();
            let lines = lines.get_mut();
            lines.push(Line { key, queue });
            if lines.len() == 1 {
                // Relaxed: it says when to give room back, and orders nothing.
                let len = 1 + self.len.fetch_add(1, Ordering::Relaxed);
                self.most.fetch_max(len, Ordering::Relaxed);
            }
        }

        /// Removes what is empty of a hash.
        pub(super) fn remove_empty(&self, hash: u64) {
            let Some(map) = self.map.get() else { return };
            let removed = map.remove_if_mut(&hash, |_, lines| {
                let lines = lines.get_mut();
                lines.retain(|line| line.queue.is_some());
                lines.is_empty()
            });
            if removed.is_none() {
                return;
            }
            let len = self.len.fetch_sub(1, Ordering::Relaxed) - 1;
            // A crowd that has gone leaves no room behind that it took.
            let most = self.most.load(Ordering::Relaxed);
            if most >= A_CROWD && len < most / 4 {
                self.most.store(len, Ordering::Relaxed);
                map.shrink_to_fit();
            }
        }

        /// All queues of clients whose hash is one of those asked for.
        pub(super) fn for_each(
            &self,
            is_meant: impl Fn(u64) -> bool,
            mut change: impl FnMut(u64, &K, &mut Option<Box<Queue<S>>>),
        ) {
            let Some(map) = self.map.get() else { return };
            for mut lines in map.iter_mut().filter(|lines| is_meant(*lines.key())) {
                let hash = *lines.key();
                for line in lines.get_mut() {
                    change(hash, &line.key, &mut line.queue);
                }
            }
        }
    }

    const A_CROWD: usize = 256;
}

#[cfg(feature = "wait")]
mod queues {
    use super::*;
    use crate::decision::Spent;
    use crate::queue::{Counter, Waits, sealed, serve_until_quiet, wake_after, wake_all};

    impl<K, L: Limiter, H> sealed::Sealed for Keyed<K, L, H> {}

    impl<K, L, H, Q> Waits<Q> for Keyed<K, L, H>
    where
        K: Hash + Eq,
        L: Limiter,
        H: BuildHasher,
        Q: Lookup<K> + ?Sized,
    {
        type Limiter = L;

        fn take_by(
            &self,
            key: &Q,
            cost: u64,
            now: Timestamp,
            mut take: impl FnMut(&L, &mut L::State, (Timestamp, u64)) -> Result<Decision, CostTooHigh>,
        ) -> Result<Decision, CostTooHigh> {
            let hash = self.hasher.hash_one(key);
            let mut shard = self.shard(hash).lock();
            if shard.is_awaited() {
                if let Some(behind) = self.behind_others(&mut shard, (hash, key), cost, now) {
                    return behind;
                }
            }
            let late_ns = shard.date(now).lateness_ns();
            let take = |limiter: &L, state: &mut L::State, at| take(limiter, state, (at, late_ns));
            let decision = self.ask_shard(&mut shard, (hash, key), None, now, take)?;
            if decision.is_allowed() && decision.delay_ns() > 0 {
                // It may have been booked, by one who would have been refused.
                self.denials.clear(hash);
            }
            Ok(decision)
        }

        #[inline]
        fn pass(&self, key: &Q, cost: u64, now: Timestamp) -> Option<Spent> {
            let hash = self.hasher.hash_one(key);
            let mut shard = self.shard(hash).lock();
            let is_awaited = || self.queues.holds(hash, |known| key.is(known));
            if shard.is_awaited() && cost > 0 && is_awaited() {
                return None;
            }
            let instant = shard.date(now);
            let spent = shard.ask_known((hash, key), |limiter, state| {
                let found = limiter.look(state, instant.now, cost).ok()?;
                limiter.pass(state, instant.now, &found, cost)
            })??;
            if spent.is_something() {
                shard.charged(&self.denials, now, instant);
            } else {
                shard.note_set_back(&self.denials, now, instant);
            }
            Some(spent)
        }

        fn at_counter<T>(
            &self,
            key: &Q,
            now: Option<Timestamp>,
            ask: impl FnOnce(&mut Counter<'_, L>) -> T,
        ) -> Option<T> {
            let hash = self.hasher.hash_one(key);
            let mut shard = self.shard(hash).lock();
            let (answer, woken) = self.counter_in(&mut shard, (hash, key), now, ask);
            drop(shard);
            wake_all(woken);
            answer
        }
    }

    impl<K: Hash + Eq, L: Limiter, H: BuildHasher> Keyed<K, L, H> {
        /// The decision on a request that finds others who wait for the same client.
        #[cold]
        pub(in super::super) fn behind_others<Q: Lookup<K> + ?Sized>(
            &self,
            shard: &mut MutexGuard<'_, Shard<K, L>>,
            key: (u64, &Q),
            cost: u64,
            now: Timestamp,
        ) -> Option<Result<Decision, CostTooHigh>> {
            self.at_counter_until_quiet(shard, key, now, |counter| counter.behind(cost))
        }

        /// The decision that a request would be told that finds others who wait.
        #[cold]
        pub(in super::super) fn peek_others<Q: Lookup<K> + ?Sized>(
            &self,
            shard: &mut MutexGuard<'_, Shard<K, L>>,
            key: (u64, &Q),
            cost: u64,
            now: Timestamp,
        ) -> Option<Result<Decision, CostTooHigh>> {
            self.at_counter_until_quiet(shard, key, now, |counter| counter.peek(cost))
        }

        /// Asks until there is an answer or nobody is to be woken any more, which is done without the lock.
        fn at_counter_until_quiet<Q: Lookup<K> + ?Sized, T>(
            &self,
            shard: &mut MutexGuard<'_, Shard<K, L>>,
            key: (u64, &Q),
            now: Timestamp,
            ask: impl Fn(&mut Counter<'_, L>) -> Option<T>,
        ) -> Option<T> {
            serve_until_quiet(shard, |shard| {
                let (answer, woken) = self.counter_in(shard, key, Some(now), &ask);
                (answer.flatten(), woken)
            })
        }

        /// What each of several limits holds, of a request that is refused because others wait.
        pub(in super::super) fn report_behind<Q: Lookup<K> + ?Sized>(
            &self,
            shard: &mut Shard<K, L>,
            key: (u64, &Q),
            cost: u64,
            now: Timestamp,
            report: &mut dyn FnMut(usize, Decision),
        ) {
            // What can never be granted was told already.
            let _told = self.counter_in(shard, key, Some(now), |counter| {
                counter.report(cost, report)
            });
        }

        /// Changes the state of a client whom others wait for, as by a charge; `None` if nobody does.
        pub(in super::super) fn change_awaited<Q: Lookup<K> + ?Sized, T>(
            &self,
            shard: &mut MutexGuard<'_, Shard<K, L>>,
            (hash, key): (u64, &Q),
            now: Timestamp,
            change: impl FnOnce(&L, &mut L::State, Timestamp) -> T,
        ) -> Option<T> {
            if !self.queues.holds(hash, |known| key.is(known)) {
                return None;
            }
            let mut changed = None;
            wake_after(shard, |shard| {
                let (answer, woken) = self.counter_in(shard, (hash, key), Some(now), |counter| {
                    let answer = counter.change(change);
                    counter.pass_time();
                    answer
                });
                changed = answer;
                woken
            });
            changed
        }

        /// Lets all go who may by now.
        pub(in super::super) fn serve_queue<Q: Lookup<K> + ?Sized>(
            &self,
            shard: &mut MutexGuard<'_, Shard<K, L>>,
            key: (u64, &Q),
            now: Timestamp,
        ) {
            if shard.is_awaited() {
                self.at_counter_until_quiet(shard, key, now, |counter| {
                    counter.serve();
                    None::<()>
                });
            }
        }

        /// The client's state has changed by something else than those who wait for it.
        pub(in super::super) fn changed<Q: Lookup<K> + ?Sized>(
            &self,
            shard: &mut MutexGuard<'_, Shard<K, L>>,
            key: (u64, &Q),
            now: Option<Timestamp>,
        ) {
            if shard.is_awaited() {
                wake_after(shard, |shard| {
                    let (_, woken) = self.counter_in(shard, key, now, |counter| counter.changed());
                    woken
                });
            }
        }

        /// Makes a client fresh whom others wait for; says whether any do.
        pub(in super::super) fn reset_awaited<Q: Lookup<K> + ?Sized>(
            &self,
            shard: &mut MutexGuard<'_, Shard<K, L>>,
            key: (u64, &Q),
        ) -> bool {
            let mut is_awaited = false;
            wake_after(shard, |shard| {
                let (reset, woken) = self.counter_in(shard, key, None, |counter| counter.reset());
                is_awaited = reset.unwrap_or(false);
                woken
            });
            is_awaited
        }

        /// Lets all of a shard go who may by now, whomever they wait for. Says, as do the two below, who is to be woken, when the
        /// caller holds no lock.
        pub(in super::super) fn serve_queues(
            &self,
            own: &OwnLine<K, L>,
            now: Timestamp,
        ) -> Vec<Waker> {
            let mut shard = own.0.lock();
            self.at_each_counter(own, &mut shard, Some(now), |counter| counter.serve())
        }

        /// The states of a shard may have changed by something else than those who wait.
        #[cfg(feature = "serde")]
        pub(in super::super) fn all_changed(&self, own: &OwnLine<K, L>) -> Vec<Waker> {
            let mut shard = own.0.lock();
            self.at_each_counter(own, &mut shard, None, |counter| counter.changed())
        }

        /// Gives a shard another limit: all go who may by now, and the others go by that one.
        pub(in super::super) fn relimit(
            &self,
            own: &OwnLine<K, L>,
            now: Timestamp,
            change: impl FnOnce(&mut Shard<K, L>),
        ) -> Vec<Waker> {
            let mut shard = own.0.lock();
            let mut woken =
                self.at_each_counter(own, &mut shard, Some(now), |counter| counter.serve());
            change(&mut shard);
            woken.extend(
                self.at_each_counter(own, &mut shard, Some(now), |counter| counter.relimited()),
            );
            woken
        }

        /// Asks at the counters of all clients of a shard that are waited for.
        fn at_each_counter(
            &self,
            own: &OwnLine<K, L>,
            shard: &mut Shard<K, L>,
            now: Option<Timestamp>,
            ask: impl Fn(&mut Counter<'_, L>),
        ) -> Vec<Waker> {
            let mut woken = Vec::new();
            if !shard.is_awaited() {
                return woken;
            }
            let is_own = |hash: u64| std::ptr::eq(self.shard(hash), &raw const own.0);
            let instant = match now {
                Some(now) => shard.date_for_good(&self.denials, now),
                None => shard.latest(),
            };
            let mut emptied = Vec::new();
            let mut latest = None;
            self.queues.for_each(is_own, |hash, key, queue| {
                let left = shard.ask_client(hash, key, |limiter, state| {
                    let mut counter = Counter::new(limiter, state, queue, (instant, now.is_some()));
                    ask(&mut counter);
                    counter.closed()
                });
                if queue.is_none() {
                    emptied.push(hash);
                }
                if let Some(left) = left {
                    latest = latest.max(left.charged_at);
                    woken.extend(left.woken);
                }
                self.denials.clear(hash);
            });
            for hash in emptied {
                self.queues.remove_empty(hash);
                shard.count_awaited(-1);
            }
            if let Some(charged_at) = latest {
                shard.served(&self.denials, now, charged_at);
            }
            woken
        }

        /// Whether somebody waits for a client of this store.
        pub(in super::super) fn is_client_awaited(&self, key: &K) -> bool {
            self.queues
                .holds(self.hasher.hash_one(key), |known| known == key)
        }

        /// Asks at the counter of a client of this shard; those who are to be woken are, when the lock is released.
        fn counter_in<Q: Lookup<K> + ?Sized, T>(
            &self,
            shard: &mut Shard<K, L>,
            (hash, key): (u64, &Q),
            now: Option<Timestamp>,
            ask: impl FnOnce(&mut Counter<'_, L>) -> T,
        ) -> (Option<T>, Vec<Waker>) {
            let instant = match now {
                Some(now) => shard.date_for_good(&self.denials, now),
                None => shard.latest(),
            };
            let mut lines = if shard.is_awaited() {
                self.queues.find(hash)
            } else {
                None
            };
            let line = lines.as_mut().and_then(|lines| {
                let mut lines = lines.get_mut().iter_mut();
                lines.find(|line| key.is(&line.key))
            });
            let mut none = None;
            let (is_line, queue) = match line {
                Some(line) => (true, &mut line.queue),
                None => (false, &mut none),
            };
            // A client that is awaited is known: it is not forgotten until nobody waits for it.
            let done = shard.ask_known((hash, key), |limiter, state| {
                let mut counter = Counter::new(limiter, state, queue, (instant, now.is_some()));
                let answer = ask(&mut counter);
                (answer, counter.closed())
            });
            let Some((answer, left)) = done else {
                return (None, Vec::new());
            };
            let is_left = queue.is_some();
            drop(lines);
            match (is_line, is_left) {
                (true, false) => {
                    self.queues.remove_empty(hash);
                    shard.count_awaited(-1);
                }
                (false, true) => {
                    if let Some(queue) = none {
                        self.queues.insert(hash, key.to_key(), queue);
                    }
                    shard.count_awaited(1);
                }
                _ => {}
            }
            if left.forgets_refusals {
                self.denials.clear(hash);
            }
            if let Some(charged_at) = left.charged_at {
                shard.served(&self.denials, now, charged_at);
            }
            (Some(answer), left.woken)
        }
    }
}

#[cfg(not(feature = "wait"))]
mod no_queues {
    use super::*;

    impl<K: Hash + Eq, L: Limiter, H: BuildHasher> Keyed<K, L, H> {
        pub(in super::super) fn behind_others<Q: Lookup<K> + ?Sized>(
            &self,
            _shard: &mut MutexGuard<'_, Shard<K, L>>,
            _key: (u64, &Q),
            _cost: u64,
            _now: Timestamp,
        ) -> Option<Result<Decision, CostTooHigh>> {
            None
        }

        pub(in super::super) fn peek_others<Q: Lookup<K> + ?Sized>(
            &self,
            _shard: &mut MutexGuard<'_, Shard<K, L>>,
            _key: (u64, &Q),
            _cost: u64,
            _now: Timestamp,
        ) -> Option<Result<Decision, CostTooHigh>> {
            None
        }

        pub(in super::super) fn report_behind<Q: Lookup<K> + ?Sized>(
            &self,
            _shard: &mut Shard<K, L>,
            _key: (u64, &Q),
            _cost: u64,
            _now: Timestamp,
            _report: &mut dyn FnMut(usize, Decision),
        ) {
        }

        pub(in super::super) fn change_awaited<Q: Lookup<K> + ?Sized, T>(
            &self,
            _shard: &mut MutexGuard<'_, Shard<K, L>>,
            _key: (u64, &Q),
            _now: Timestamp,
            _change: impl FnOnce(&L, &mut L::State, Timestamp) -> T,
        ) -> Option<T> {
            None
        }

        pub(in super::super) fn serve_queue<Q: Lookup<K> + ?Sized>(
            &self,
            _shard: &mut MutexGuard<'_, Shard<K, L>>,
            _key: (u64, &Q),
            _now: Timestamp,
        ) {
        }

        pub(in super::super) fn changed<Q: Lookup<K> + ?Sized>(
            &self,
            _shard: &mut MutexGuard<'_, Shard<K, L>>,
            _key: (u64, &Q),
            _now: Option<Timestamp>,
        ) {
        }

        pub(in super::super) fn reset_awaited<Q: Lookup<K> + ?Sized>(
            &self,
            _shard: &mut MutexGuard<'_, Shard<K, L>>,
            _key: (u64, &Q),
        ) -> bool {
            false
        }

        pub(in super::super) fn serve_queues(
            &self,
            _own: &OwnLine<K, L>,
            _now: Timestamp,
        ) -> Vec<Waker> {
            Vec::new()
        }

        #[cfg(feature = "serde")]
        pub(in super::super) fn all_changed(&self, _own: &OwnLine<K, L>) -> Vec<Waker> {
            Vec::new()
        }

        pub(in super::super) fn relimit(
            &self,
            own: &OwnLine<K, L>,
            _now: Timestamp,
            change: impl FnOnce(&mut Shard<K, L>),
        ) -> Vec<Waker> {
            change(&mut own.0.lock());
            Vec::new()
        }

        pub(in super::super) fn is_client_awaited(&self, _key: &K) -> bool {
            false
        }
    }
}
