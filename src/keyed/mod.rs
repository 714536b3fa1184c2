//! [`Keyed`]: a limit per client.

mod change;
mod clients;
mod decide;
mod denials;
mod hasher;
mod lookup;
mod plans;
mod room;
#[cfg(feature = "serde")]
mod saved;
mod settle;
mod shard;
mod sync;
mod table;
mod waits;

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::task::Waker;

use parking_lot::Mutex;

pub use self::clients::Clients;
use self::denials::{Denials, LinesOfShard, Tagged};
pub use self::hasher::RandomState;
pub use self::lookup::{Lookup, Pair};
pub use self::plans::PlanError;
pub use self::room::WhenFull;
use self::room::{KEYS_PER_SHARD, Room};
#[cfg(feature = "serde")]
pub use self::saved::{RestoreError, Saved};
pub use self::settle::Client;
use self::shard::Shard;
#[cfg(feature = "wait")]
use self::waits::Queues;
use crate::decision::Decision;
use crate::error::CostTooHigh;
use crate::limiter::{Limiter, expect_grantable};
use crate::time::Timestamp;

/// A store of clients: each key has its own state of one limiter.
///
/// It may be called from any thread; share it by reference or in an [`Arc`](std::sync::Arc). The store is split into
/// shards, each behind a lock of its own that is held for one decision. Calls for one client behave as if they came in
/// some order, one after the other: its units are never spent twice.
///
/// Keys are looked up borrowed ([`Lookup`]): `&str` finds a `String`, and a client that is known costs no allocation.
///
/// # Time
///
/// Each shard decides a call at the later of its stamp and the latest charge it has seen, so stamps that threads took in
/// another order than they call in give nothing twice and refuse nothing that was due. Waits are counted from the
/// caller's own stamp. A stamp more than ten seconds late means that the clock was set back: the difference is then added
/// to all that follow, so nobody waits for a clock to catch up. Any call shows it, a peek too; and each step of the clock
/// may give a client one burst, so stamps should come of one clock.
///
/// Time ends at [`Timestamp::MAX`](crate::Timestamp::MAX): a store that was charged at such a stamp stands still from then
/// on.
///
/// # Memory
///
/// A state that is idle, that is, as good as fresh, may be forgotten: this changes no decision. Each newcomer sweeps a few
/// slots of its shard and forgets what is idle there, so the store follows the clients that are not idle, at most about
/// three times as many, and a flood of keys that come once is forgotten as it passes. There is no background thread, and
/// no call stalls: the most that one does is to split a page of a few hundred clients, or to let a few hundred slots grow.
/// [`with_max_keys`](Self::with_max_keys) sets a hard cap besides, [`sweep`](Self::sweep) forgets at once all that is idle,
/// and [`reset`](Self::reset) one client whatever it has spent.
///
/// # Speed under attack
///
/// A client that was refused is refused again, until its wait is over, at the cost of a hash and one cache line, without a
/// lock: a small table remembers hot refusals. It tells clients by their 64-bit hash, so two keys of one hash would
/// share refusals; with a thousand refused clients the odds are one in 10¹⁶ per call. Such an answer is right for the
/// caller's own stamp.
///
/// ```
/// use tollgate::{Keyed, Quota, Timestamp, TokenBucket};
///
/// let limiter: Keyed<String, _> = Keyed::new(TokenBucket::new(Quota::per_minute(2)));
/// let now = Timestamp::from_secs(1_000);
/// assert!(limiter.allow("ada", now));
/// assert!(limiter.allow("ada", now));
/// assert!(!limiter.allow("ada", now));
/// assert!(limiter.allow("grace", now));
/// ```
pub struct Keyed<K, L: Limiter, H = RandomState> {
    hasher: H,
    /// What a hasher of the user's own is mixed with to tell keys apart in the table of denials.
    tagger: Option<RandomState>,
    shards: Box<[OwnLine<K, L>]>,
    denials: Denials,
    room: Option<Room>,
    /// Held by whoever changes the limiter of all shards, or needs it to be one of all of them.
    changes: Mutex<()>,
    #[cfg(feature = "wait")]
    queues: Queues<K, L::State>,
}

/// A shard alone on its cache lines (two, for processors fetch them in pairs), so that its lock slows no other.
#[repr(align(128))]
struct OwnLine<K, L: Limiter>(Mutex<Shard<K, L>>);

/// What a store holds, and has done since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The clients it holds; some may be idle.
    pub keys: usize,
    /// How many states were forgotten, idle or for want of room.
    pub forgotten: u64,
    /// How many calls of newcomers were refused for want of room, or let through unrecorded.
    pub refused_for_room: u64,
}

impl<K: Hash + Eq, L: Limiter> Keyed<K, L> {
    /// A store in which every client is fresh.
    #[must_use]
    pub fn new(limiter: L) -> Self {
        Self {
            tagger: None,
            ..Self::with_hasher(limiter, RandomState::default())
        }
    }
}

impl<K: Hash + Eq, L: Limiter, H: BuildHasher> Keyed<K, L, H> {
    /// The same with a hasher of your choice.
    ///
    /// Any hasher is right; one that spreads keys over all of 64 bits, as those made for hash tables do, is fast: bits 32
    /// and up choose a shard and a page of it, the lower ones a place in the page. A second, fast hash tells refused clients apart, whatever this one does.
    ///
    /// ```
    /// use std::collections::hash_map::RandomState;
    /// use tollgate::{Keyed, Quota, TokenBucket};
    ///
    /// let rule = TokenBucket::new(Quota::per_second(10));
    /// let limiter: Keyed<String, _, RandomState> = Keyed::with_hasher(rule, RandomState::new());
    /// assert!(limiter.is_empty());
    /// ```
    #[must_use]
    pub fn with_hasher(limiter: L, hasher: H) -> Self {
        Self {
            hasher,
            tagger: Some(RandomState::default()),
            shards: new_shards(&limiter, SHARDS),
            denials: Denials::new(),
            room: None,
            changes: Mutex::new(()),
            #[cfg(feature = "wait")]
            queues: Queues::new(),
        }
    }

    /// The same, holding at most `max_keys` clients; what becomes of others when it is full says
    /// [`when_full`](Self::when_full). Whatever the store held is dropped.
    ///
    /// # Panics
    ///
    /// If `max_keys` is 0.
    ///
    /// ```
    /// use tollgate::{Keyed, Quota, Timestamp, TokenBucket, keyed::WhenFull};
    ///
    /// let limiter: Keyed<u64, _> = Keyed::new(TokenBucket::new(Quota::per_minute(10)))
    ///     .with_max_keys(2)
    ///     .when_full(WhenFull::RefuseNewcomer);
    /// let now = Timestamp::from_secs(1_000);
    /// assert!(limiter.allow(&1, now) && limiter.allow(&2, now));
    /// let newcomer = limiter.check(&3, now);
    /// assert!(!newcomer.is_allowed() && newcomer.is_store_full());
    /// assert!(limiter.allow(&1, now), "those who are known are served");
    /// ```
    #[must_use]
    pub fn with_max_keys(mut self, max_keys: usize) -> Self {
        assert!(max_keys > 0, "a store must have room for at least one key");
        let shards = (max_keys / KEYS_PER_SHARD).clamp(1, SHARDS);
        let shards = 1 << shards.ilog2();
        let when_full = self
            .room
            .as_ref()
            .map_or_else(WhenFull::default, |room| room.when_full);
        self.shards = new_shards(&self.limiter(), shards);
        self.room = Some(Room::new(max_keys, when_full));
        self
    }

    /// The same, dealing so with newcomers when [`max_keys`](Self::with_max_keys) is reached.
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        let max_keys = self.room.as_ref().map_or(usize::MAX, |room| room.max_keys);
        self.room = Some(Room::new(max_keys, when_full));
        self.shards = new_shards(&self.limiter(), self.shards.len());
        self
    }

    /// Whether a request of cost 1 by `key` may go at `now`; if so, its unit is spent.
    #[inline]
    pub fn allow<Q: Lookup<K> + ?Sized>(&self, key: &Q, now: Timestamp) -> bool {
        let hash = self.hasher.hash_one(key);
        if self
            .denials
            .find(self.tagged(hash, key), now.as_nanos())
            .is_some()
        {
            return false;
        }
        self.allow_in_shard((hash, key), now)
    }

    /// The decision on a request of cost 1 by `key` at `now`, whose unit is spent if it is allowed.
    #[inline]
    pub fn check<Q: Lookup<K> + ?Sized>(&self, key: &Q, now: Timestamp) -> Decision {
        let hash = self.hasher.hash_one(key);
        let tagged = self.tagged(hash, key);
        if let Some(denial) = self.denials.find(tagged, now.as_nanos()) {
            return denial.decision(now);
        }
        self.check_in_shard((hash, key), tagged, now)
    }

    /// The decision on a request of `cost` units by `key` at `now`, which are spent if it is allowed.
    ///
    /// # Errors
    ///
    /// [`CostTooHigh`] if no wait would ever let `cost` pass; nothing has changed.
    #[inline]
    pub fn check_n<Q: Lookup<K> + ?Sized>(
        &self,
        key: &Q,
        cost: u64,
        now: Timestamp,
    ) -> Result<Decision, CostTooHigh> {
        if cost == 1 {
            return Ok(self.check(key, now));
        }
        self.check_n_in_shard((self.hasher.hash_one(key), key), cost, now)
    }

    /// Decides as [`check_n`](Self::check_n) does, and tells besides what each of several limits says by itself: see
    /// [`Limiter::check_each`]. `report` must not call this store.
    ///
    /// ```
    /// use tollgate::{FixedWindow, Keyed, Quota, Timestamp, TokenBucket};
    ///
    /// let second = TokenBucket::new(Quota::per_second(10));
    /// let day = FixedWindow::new(Quota::per_day(1_000));
    /// let limiter: Keyed<String, _> = Keyed::new((second, day));
    /// let mut left = [0; 2];
    /// let decision = limiter.check_each("ada", 3, Timestamp::from_secs(60), |member, decision| {
    ///     left[member] = decision.remaining();
    /// })?;
    /// assert!(decision.is_allowed());
    /// assert_eq!(left, [7, 997]);
    /// # Ok::<(), tollgate::CostTooHigh>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`CostTooHigh`] if no wait would ever let `cost` pass; nothing has changed, and nothing is reported.
    pub fn check_each<Q: Lookup<K> + ?Sized>(
        &self,
        key: &Q,
        cost: u64,
        now: Timestamp,
        mut report: impl FnMut(usize, Decision),
    ) -> Result<Decision, CostTooHigh> {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).lock();
        if shard.is_awaited() {
            if let Some(behind) = self.behind_others(&mut shard, (hash, key), cost, now) {
                self.report_behind(&mut shard, (hash, key), cost, now, &mut report);
                return behind;
            }
        }
        let lateness_ns = shard.date(now).lateness_ns();
        self.ask_shard(&mut shard, (hash, key), None, now, |limiter, state, now| {
            limiter.check_each(state, now, cost, &mut |member, mut decision| {
                decision.count_from(lateness_ns);
                report(member, decision);
            })
        })
    }

    /// The decision that [`check`](Self::check) would take, spending nothing and creating nothing.
    ///
    /// It is the limit's: whether a store with a cap has room for a client that it does not know is not looked at.
    #[inline]
    pub fn peek<Q: Lookup<K> + ?Sized>(&self, key: &Q, now: Timestamp) -> Decision {
        expect_grantable(self.peek_n(key, 1, now))
    }

    /// The decision that [`check_n`](Self::check_n) would take, spending nothing and creating nothing; as by
    /// [`peek`](Self::peek), the limit's.
    ///
    /// # Errors
    ///
    /// [`CostTooHigh`] if no wait would ever let `cost` pass.
    pub fn peek_n<Q: Lookup<K> + ?Sized>(
        &self,
        key: &Q,
        cost: u64,
        now: Timestamp,
    ) -> Result<Decision, CostTooHigh> {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).lock();
        if shard.is_awaited() {
            if let Some(found) = self.peek_others(&mut shard, (hash, key), cost, now) {
                return found;
            }
        }
        let instant = shard.date(now);
        let mut decision = shard.peek((hash, key), cost, instant)?;
        shard.settle(&self.denials, now, instant, &mut decision);
        Ok(decision)
    }

    /// Forgets every client that is idle at `now`, and says how many those were.
    ///
    /// Where it forgets somebody, the shard's time comes to `now`, as by a charge: so `now` is what the clock says, and not
    /// some time to come. For calls stamped from then on no decision changes. A service needs it only to give memory
    /// back after a crowd has gone.
    pub fn sweep(&self, now: Timestamp) -> usize {
        let mut forgotten = 0;
        for shard in &self.shards {
            let woken = self.serve_queues(shard, now);
            woken.into_iter().for_each(Waker::wake);
            let mut shard = shard.0.lock();
            let of_shard = shard.sweep(&self.denials, now, |key| self.is_client_awaited(key));
            self.give_back(of_shard);
            forgotten += of_shard;
        }
        forgotten
    }

    /// How many clients the store holds; some of them may be idle.
    ///
    /// Shards are counted one after the other: what other threads move meanwhile may be counted twice or not at all, so
    /// the sum may even lie above [`max_keys`](Self::with_max_keys), which the store itself never does.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }

    /// Whether the store holds no client.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.0.lock().len() == 0)
    }

    /// What the store holds and has done. Other threads may change it as it is counted.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        for shard in &self.shards {
            let shard = shard.0.lock();
            stats.keys += shard.len();
            stats.forgotten += shard.forgotten();
            stats.refused_for_room += shard.refused_for_room();
        }
        stats
    }

    /// The limiter; while [`set_limiter`](Self::set_limiter) is at work, the old one or the new.
    #[must_use]
    pub fn limiter(&self) -> L {
        self.shards[0].0.lock().limiter().clone()
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Mutex<Shard<K, L>> {
        // A power of two of them, by bits that the table in a shard uses neither for the place nor for the tag.
        let index = (hash >> 32) as usize & (self.shards.len() - 1);
        &self.shards[index].0
    }

    #[inline]
    fn tagged<Q: Lookup<K> + ?Sized>(&self, hash: u64, key: &Q) -> Tagged {
        let tag = match &self.tagger {
            None => hash,
            // Mixed and not instead of it: keys that are chosen to collide in one do not in the other.
            Some(tagger) => hash ^ tagger.hash_one(key),
        };
        Tagged { hash, tag }
    }
}

fn new_shards<K, L: Limiter>(limiter: &L, count: usize) -> Box<[OwnLine<K, L>]> {
    (0..count)
        .map(|first| LinesOfShard {
            first,
            shards: count,
        })
        .map(|lines| OwnLine(Mutex::new(Shard::new(limiter.clone(), lines))))
        .collect()
}

impl<K, L: Limiter, H> fmt::Debug for Keyed<K, L, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed")
            .field("limiter", self.shards[0].0.lock().limiter())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

/// Enough that threads seldom meet at one lock, and that a shard's clients are carried over to another limiter, or copied,
/// in a few milliseconds: of ten million, one holds forty thousand. A power of two that divides [`denials::LINES`].
const SHARDS: usize = 256;

const _: () = assert!(SHARDS.is_power_of_two() && denials::LINES % SHARDS == 0);
