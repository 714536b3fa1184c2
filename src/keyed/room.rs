//! A hard cap on the clients of a store, and how a newcomer finds room when it is reached.

use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Keyed;
use super::shard::Shard;
use crate::holder::Instant;
use crate::limiter::Limiter;
use crate::time::Timestamp;

/// What becomes of a client that is not known when the store is full and nothing idle was found to forget.
///
/// "Full" means that [`Keyed::with_max_keys`](super::Keyed::with_max_keys) set a cap, that it is reached, and that the
/// call found no idle state: it looks at up to 512 of them, in its own shard and in as many others as have a free lock.
///
/// Whoever can make up keys can fill a store; each choice says what that gains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum WhenFull {
    /// Refuse the newcomer. The decision says that the store was full
    /// ([`Decision::is_store_full`](crate::Decision::is_store_full)).
    ///
    /// Those who are known are served as before. An attacker who fills the store shuts out everybody who comes after,
    /// until states become idle.
    #[default]
    RefuseNewcomer,
    /// Let the newcomer through, and record nothing.
    ///
    /// Nobody is shut out. An attacker who fills the store is not limited beyond it: every further key passes.
    AllowUnrecorded,
    /// Forget the state that is nearest to idle among a sample, but never one of a client who would be refused now: the
    /// newcomer takes its place. If all of the sample would be refused, the newcomer is, as by
    /// [`RefuseNewcomer`](Self::RefuseNewcomer).
    ///
    /// An attacker who makes up keys mostly pushes out keys of that kind, and gains for each client that is forgotten
    /// the units which that client had spent, less than one budget; nobody who is refused is set free.
    ForgetNearestToIdle,
}

/// The places of a store, and how many are taken.
pub(super) struct Room {
    pub(super) max_keys: usize,
    pub(super) when_full: WhenFull,
    /// At least the number of clients in all shards: a place is taken before a client is put there.
    taken: AtomicUsize,
    /// The shard at which the next search for an idle state goes on.
    next_shard: AtomicUsize,
}

impl Room {
    pub(super) const fn new(max_keys: usize, when_full: WhenFull) -> Self {
        Self {
            max_keys,
            when_full,
            taken: AtomicUsize::new(0),
            next_shard: AtomicUsize::new(0),
        }
    }

    /// Takes a place if one is free.
    pub(super) fn take(&self) -> bool {
        self.take_many(1)
    }

    fn take_many(&self, places: usize) -> bool {
        // Relaxed: the count guards nothing but itself, and the shards' locks order the rest.
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                let taken = taken.checked_add(places)?;
                (taken <= self.max_keys).then_some(taken)
            })
            .is_ok()
    }

    /// Gives back the places of clients that were forgotten.
    fn give_back(&self, places: usize) {
        if places > 0 {
            self.taken.fetch_sub(places, Ordering::Relaxed);
        }
    }

    fn next_shard(&self) -> usize {
        self.next_shard.fetch_add(1, Ordering::Relaxed)
    }
}

impl<K: Hash + Eq, L: Limiter, H: BuildHasher> Keyed<K, L, H> {
    /// Finds a place in a full store by forgetting somebody. Otherwise says how long it may be until a place is free, for
    /// a caller that calls at `instant`.
    pub(super) fn find_room(
        &self,
        room: &Room,
        own: &mut Shard<K, L>,
        stamp: Timestamp,
        instant: Instant,
    ) -> Result<(), u64> {
        let mut left = MOST_LOOKED_AT;
        let found_idle = self.visit_shards(room, own, (stamp, instant), |shard, instant| {
            let swept =
                shard.forget_idle(instant, usize::MAX, left, |key| self.is_client_awaited(key));
            left -= swept.seen;
            // One of the places is the newcomer's.
            self.give_back(swept.removed.saturating_sub(1));
            match swept.removed {
                0 if left > 0 => Visit::Next,
                0 => Visit::Stop,
                _ => Visit::Found,
            }
        });
        if found_idle {
            return Ok(());
        }
        if room.when_full == WhenFull::ForgetNearestToIdle
            && self.visit_shards(room, own, (stamp, instant), |shard, instant| {
                if shard.forget_nearest_to_idle(instant, |key| self.is_client_awaited(key)) {
                    Visit::Found
                } else if shard.len() == 0 {
                    Visit::Next
                } else {
                    Visit::Stop
                }
            })
        {
            return Ok(());
        }
        Err(match own.first_idle_at() {
            Some(idle_at) => instant.wait_until(idle_at),
            None => own.limiter().quota().period_ns(),
        })
    }

    /// Visits one's own shard, whose lock is held, and then the others from where the last search ended, until `visit`
    /// has found what it looks for; says whether it has.
    ///
    /// Two callers may each hold a lock and want the other's: so only locks that are free are taken.
    fn visit_shards(
        &self,
        room: &Room,
        own: &mut Shard<K, L>,
        (stamp, instant): (Timestamp, Instant),
        mut visit: impl FnMut(&mut Shard<K, L>, Instant) -> Visit,
    ) -> bool {
        // In one's own, the charge of the newcomer will move the time on.
        match visit(own, instant) {
            Visit::Found => return true,
            Visit::Stop => return false,
            Visit::Next => {}
        }
        for _ in 1..self.shards.len() {
            let index = room.next_shard() % self.shards.len();
            // Its own is not free, so it is not visited again.
            let Some(mut shard) = self.shards[index].0.try_lock() else {
                continue;
            };
            let instant = shard.date(stamp);
            match visit(&mut shard, instant) {
                Visit::Found => {
                    shard.charged(&self.denials, stamp, instant);
                    return true;
                }
                Visit::Stop => return false,
                Visit::Next => {}
            }
        }
        false
    }

    pub(super) fn give_back(&self, places: usize) {
        if let Some(room) = &self.room {
            room.give_back(places);
        }
    }

    /// Takes so many places at once, or none if there are not so many.
    #[cfg(feature = "serde")]
    pub(super) fn take_places(&self, places: usize) -> bool {
        self.room.as_ref().is_none_or(|room| room.take_many(places))
    }
}

/// How a search through the shards goes on.
enum Visit {
    Found,
    Next,
    Stop,
}

/// How many states a newcomer to a full store looks at, to find an idle one.
const MOST_LOOKED_AT: usize = 512;

/// How many clients a shard of a store with a cap should be able to hold on average, so that a small store has few
/// shards and a newcomer can look at all of it.
pub(super) const KEYS_PER_SHARD: usize = 256;
