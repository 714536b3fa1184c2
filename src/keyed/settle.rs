//! What is spent beside a check: in part, afterwards, on an estimate; and what is given back.

use std::hash::{BuildHasher, Hash};

use super::Keyed;
use super::lookup::Lookup;
use crate::decision::{Decision, Receipt};
use crate::estimate::{Estimate, EstimateError, Settle};
use crate::limiter::{Limiter, expect_grantable};
use crate::time::Timestamp;

impl<K: Hash + Eq, L: Limiter, H: BuildHasher> Keyed<K, L, H> {
    /// Grants `key` as many of `cost` units as there are at `now`; [`Decision::granted`] says how many. See
    /// [`Limiter::at_most`].
    ///
    /// ```
    /// use tollgate::{Keyed, Quota, Timestamp, TokenBucket};
    ///
    /// let rows: Keyed<u64, _> = Keyed::new(TokenBucket::new(Quota::per_minute(100)));
    /// let now = Timestamp::from_secs(1_000);
    /// assert_eq!(rows.at_most(&7, 80, now).granted(), 80);
    /// assert_eq!(rows.at_most(&7, 80, now).granted(), 20);
    /// ```
    pub fn at_most<Q: Lookup<K> + ?Sized>(&self, key: &Q, cost: u64, now: Timestamp) -> Decision {
        if cost == 1 {
            return self.check(key, now);
        }
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).lock();
        if shard.is_awaited() {
            if let Some(behind) = self.behind_others(&mut shard, (hash, key), cost.min(1), now) {
                return expect_grantable(behind);
            }
        }
        let decision = self.ask_shard(&mut shard, (hash, key), None, now, |limiter, state, now| {
            Ok(limiter.at_most(state, now, cost))
        });
        expect_grantable(decision)
    }

    /// Records `cost` units that `key` has spent already, even beyond the limit. See [`Limiter::charge`].
    ///
    /// Of a newcomer to a store without room nothing is recorded, and the decision says so.
    ///
    /// ```
    /// use tollgate::{Keyed, Quota, Timestamp, TokenBucket};
    ///
    /// let bytes: Keyed<u64, _> = Keyed::new(TokenBucket::new(Quota::per_second(1_000)));
    /// let now = Timestamp::from_secs(1_000);
    /// assert_eq!(bytes.charge(&7, 1_500, now).debt(), 500);
    /// assert!(!bytes.allow(&7, now));
    /// ```
    pub fn charge<Q: Lookup<K> + ?Sized>(&self, key: &Q, cost: u64, now: Timestamp) -> Decision {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).lock();
        // Whoever may go by now was there first.
        if cost > 0 {
            self.serve_queue(&mut shard, (hash, key), now);
        }
        let decision = self.ask_shard(&mut shard, (hash, key), None, now, |limiter, state, now| {
            Ok(limiter.charge(state, now, cost))
        });
        self.denials.clear(hash);
        let charged = expect_grantable(decision);
        if charged.is_store_full() {
            return charged.with_unrecorded(cost);
        }
        if shard.is_awaited() {
            if cost > 0 {
                self.changed(&mut shard, (hash, key), Some(now));
            }
            if let Some(Ok(behind)) = self.peek_others(&mut shard, (hash, key), 1, now) {
                return charged.charged_behind(behind);
            }
        }
        charged
    }

    /// Gives `key` back what a charge has spent, and says how many whole units that were. See [`Limiter::refund`].
    ///
    /// A client that is not known has nothing to be given back. A refund is no charge: it does not move the time of the
    /// client's shard.
    ///
    /// ```
    /// use tollgate::{Keyed, Quota, Timestamp, TokenBucket};
    ///
    /// let limiter: Keyed<String, _> = Keyed::new(TokenBucket::new(Quota::per_minute(1)));
    /// let now = Timestamp::from_secs(1_000);
    /// let decision = limiter.check("ada", now);
    /// assert!(!limiter.allow("ada", now));
    /// // The upstream has failed: the request is not to count.
    /// if let Some(receipt) = decision.receipt() {
    ///     limiter.refund("ada", receipt, now);
    /// }
    /// assert!(limiter.allow("ada", now));
    /// ```
    pub fn refund<Q: Lookup<K> + ?Sized>(&self, key: &Q, receipt: Receipt, now: Timestamp) -> u64 {
        self.refund_at(key, receipt, Some(now))
    }

    /// Spends an estimate of what a request of `key` will cost, to be settled when the cost is known.
    ///
    /// ```
    /// use tollgate::{Keyed, Quota, Timestamp, TokenBucket};
    ///
    /// let tokens: Keyed<String, _> = Keyed::new(TokenBucket::new(Quota::per_minute(10_000)));
    /// let now = Timestamp::from_secs(1_000);
    /// let estimate = tokens.estimate("ada", 2_000, now)?;
    /// assert_eq!(estimate.settle(2_500, now).remaining(), 7_500);
    /// # Ok::<(), tollgate::EstimateError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`EstimateError`] if the estimate is refused, or could never be granted.
    pub fn estimate<'a, Q: Lookup<K> + ?Sized>(
        &'a self,
        key: &'a Q,
        cost: u64,
        now: Timestamp,
    ) -> Result<Estimate<Client<'a, K, L, H, Q>>, EstimateError> {
        let client = Client { store: self, key };
        Estimate::new(client, self.check_n(key, cost, now))
    }

    /// Forgets `key`, whatever it has spent: its next request is a newcomer's, and whoever waits for it goes on from there.
    /// Says whether it was known.
    ///
    /// ```
    /// use tollgate::{Keyed, Quota, Timestamp, TokenBucket};
    ///
    /// let limiter: Keyed<String, _> = Keyed::new(TokenBucket::new(Quota::per_minute(1)));
    /// let now = Timestamp::from_secs(1_000);
    /// assert!(limiter.allow("ada", now) && !limiter.allow("ada", now));
    /// assert!(limiter.reset("ada"));
    /// assert!(limiter.allow("ada", now));
    /// ```
    pub fn reset<Q: Lookup<K> + ?Sized>(&self, key: &Q) -> bool {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).lock();
        if shard.is_awaited() && self.reset_awaited(&mut shard, (hash, key)) {
            return true;
        }
        let was_known = shard.remove((hash, key));
        self.denials.clear(hash);
        self.give_back(usize::from(was_known));
        was_known
    }

    /// Whether the store holds a state of `key`. It may be idle.
    #[must_use]
    pub fn contains<Q: Lookup<K> + ?Sized>(&self, key: &Q) -> bool {
        let hash = self.hasher.hash_one(key);
        self.shard(hash).lock().state((hash, key)).is_some()
    }

    fn refund_at<Q: Lookup<K> + ?Sized>(
        &self,
        key: &Q,
        receipt: Receipt,
        now: Option<Timestamp>,
    ) -> u64 {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).lock();
        let instant = match now {
            Some(now) => {
                self.serve_queue(&mut shard, (hash, key), now);
                shard.date_for_good(&self.denials, now)
            }
            None => shard.latest(),
        };
        let given = shard.ask_known((hash, key), |limiter, state| {
            limiter.refund(state, instant.now, receipt)
        });
        self.denials.clear(hash);
        self.changed(&mut shard, (hash, key), now);
        given.unwrap_or(0)
    }
}

/// One client of a store, whom an [`Estimate`] was charged to.
pub struct Client<'a, K, L: Limiter, H, Q: ?Sized> {
    store: &'a Keyed<K, L, H>,
    key: &'a Q,
}

impl<K: Hash + Eq, L: Limiter, H: BuildHasher, Q: Lookup<K> + ?Sized> Settle
    for Client<'_, K, L, H, Q>
{
    fn charge(&self, cost: u64, now: Timestamp) -> Decision {
        self.store.charge(self.key, cost, now)
    }

    fn refund(&self, receipt: Receipt, now: Option<Timestamp>) {
        self.store.refund_at(self.key, receipt, now);
    }

    fn peek(&self, now: Timestamp) -> Decision {
        self.store.peek(self.key, now)
    }
}

impl<K, L: Limiter, H, Q: ?Sized> std::fmt::Debug for Client<'_, K, L, H, Q> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
