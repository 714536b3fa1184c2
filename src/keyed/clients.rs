//! A walk over the clients of a store.

use std::fmt;
use std::vec;

use super::Keyed;
use crate::decision::Decision;
use crate::limiter::{Limiter, expect_grantable};
use crate::time::Timestamp;

impl<K: Clone, L: Limiter, H> Keyed<K, L, H> {
    /// The clients that are not idle at `now`, each with the decision that a request of cost 1 would get; in no order.
    ///
    /// One shard is looked at after the other, when the walk comes to it, and none is locked between: what other threads do
    /// meanwhile may be seen or not. It changes nothing.
    ///
    /// ```
    /// use tollgate::{Keyed, Quota, Timestamp, TokenBucket};
    ///
    /// let limiter: Keyed<String, _> = Keyed::new(TokenBucket::new(Quota::per_minute(2)));
    /// let now = Timestamp::from_secs(1_000);
    /// for key in ["ada", "ada", "ada", "grace"] {
    ///     limiter.allow(key, now);
    /// }
    /// // Those who are refused, the longest wait first.
    /// let mut refused: Vec<_> = limiter.clients(now).filter(|(_, next)| !next.is_allowed()).collect();
    /// refused.sort_by_key(|(_, next)| std::cmp::Reverse(next.retry_after()));
    /// assert_eq!(refused[0].0, "ada");
    /// assert_eq!(refused.len(), 1);
    /// ```
    pub fn clients(&self, now: Timestamp) -> Clients<'_, K, L, H> {
        Clients {
            store: self,
            now,
            next_shard: 0,
            of_shard: Vec::new().into_iter(),
        }
    }

    fn clients_of(&self, shard: usize, now: Timestamp) -> Vec<(K, Decision)> {
        let shard = self.shards[shard].0.lock();
        let instant = shard.date(now);
        let next = |(key, state): (&K, &L::State)| {
            let mut next = expect_grantable(shard.limiter().peek(state, instant.now, 1));
            next.count_from(instant.lateness_ns());
            (key.clone(), next)
        };
        shard.busy(instant).map(next).collect()
    }
}

/// The clients of a store, one shard after the other: see [`Keyed::clients`].
pub struct Clients<'a, K, L: Limiter, H> {
    store: &'a Keyed<K, L, H>,
    now: Timestamp,
    next_shard: usize,
    of_shard: vec::IntoIter<(K, Decision)>,
}

impl<K: Clone, L: Limiter, H> Iterator for Clients<'_, K, L, H> {
    type Item = (K, Decision);

    fn next(&mut self) -> Option<(K, Decision)> {
        loop {
            if let Some(client) = self.of_shard.next() {
                return Some(client);
            }
            if self.next_shard == self.store.shards.len() {
                return None;
            }
            let clients = self.store.clients_of(self.next_shard, self.now);
            self.next_shard += 1;
            self.of_shard = clients.into_iter();
        }
    }
}

impl<K, L: Limiter, H> fmt::Debug for Clients<'_, K, L, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}
