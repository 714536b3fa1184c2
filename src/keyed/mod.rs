//! [`Keyed`]: a limit per client.

mod hasher;
mod lookup;
mod shard;

use std::fmt;
use std::hash::{BuildHasher, Hash};

use parking_lot::Mutex;

pub use self::hasher::RandomState;
pub use self::lookup::Lookup;
use self::shard::Shard;
use crate::decision::Decision;
use crate::error::CostTooHigh;
use crate::holder::always_fits;
use crate::limiter::Limiter;
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
/// to all that follow, so nobody waits for a clock to catch up.
///
/// # Memory
///
/// A state that is idle, that is, as good as fresh, is forgotten when room is needed: this changes no decision. So the
/// store holds the clients that are not idle, and at most as many again that are. There is no background thread;
/// [`sweep`](Self::sweep) forgets at once all that are idle.
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
    limiter: L,
    hasher: H,
    shards: Box<[OwnLine<K, L>]>,
}

/// Alone on its cache lines (two, for processors fetch them in pairs), so that one shard's lock slows no other.
#[repr(align(128))]
struct OwnLine<K, L: Limiter>(Mutex<Shard<K, L>>);

impl<K: Hash + Eq, L: Limiter> Keyed<K, L> {
    /// A store in which every client is fresh.
    #[must_use]
    pub fn new(limiter: L) -> Self {
        Self::with_hasher(limiter, RandomState::default())
    }
}

impl<K: Hash + Eq, L: Limiter, H: BuildHasher> Keyed<K, L, H> {
    /// The same with a hasher of your choice.
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
            limiter,
            hasher,
            shards: (0..SHARDS)
                .map(|_| OwnLine(Mutex::new(Shard::new())))
                .collect(),
        }
    }

    /// Whether a request of cost 1 by `key` may go at `now`; if so, its unit is spent.
    #[inline]
    pub fn allow<Q: Lookup<K> + ?Sized>(&self, key: &Q, now: Timestamp) -> bool {
        self.check(key, now).is_allowed()
    }

    /// The decision on a request of cost 1 by `key` at `now`, whose unit is spent if it is allowed.
    #[inline]
    pub fn check<Q: Lookup<K> + ?Sized>(&self, key: &Q, now: Timestamp) -> Decision {
        always_fits(self.check_n(key, 1, now))
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
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).lock();
        shard.check(&self.limiter, &self.hasher, hash, key, cost, now)
    }

    /// The decision that [`check`](Self::check) would take, spending nothing and creating nothing.
    #[inline]
    pub fn peek<Q: Lookup<K> + ?Sized>(&self, key: &Q, now: Timestamp) -> Decision {
        always_fits(self.peek_n(key, 1, now))
    }

    /// The decision that [`check_n`](Self::check_n) would take, spending nothing and creating nothing.
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
        shard.peek(&self.limiter, hash, key, cost, now)
    }

    /// Forgets every client that is idle at `now`, and says how many those were.
    ///
    /// No decision changes by it. A service needs it only to give memory back after a crowd has gone.
    pub fn sweep(&self, now: Timestamp) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.0.lock().sweep(&self.limiter, &self.hasher, now))
            .sum()
    }

    /// How many clients the store holds; some of them may be idle. Other threads may change it as it is counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }

    /// Whether the store holds no client.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.0.lock().len() == 0)
    }

    /// The rule.
    #[must_use]
    pub const fn limiter(&self) -> &L {
        &self.limiter
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Mutex<Shard<K, L>> {
        // The table in a shard uses the hash's lowest and highest bits: these are neither.
        let index = (hash >> 32) as usize % SHARDS;
        &self.shards[index].0
    }
}

impl<K, L: Limiter + fmt::Debug, H> fmt::Debug for Keyed<K, L, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed")
            .field("limiter", &self.limiter)
            .finish_non_exhaustive()
    }
}

const SHARDS: usize = 64;
