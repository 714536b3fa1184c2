//! One shard of a store: a table of clients behind one lock, with its own time.

use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;

use super::lookup::Lookup;
use crate::decision::Decision;
use crate::error::CostTooHigh;
use crate::holder::HolderTime;
use crate::limiter::Limiter;
use crate::time::Timestamp;

pub(super) struct Shard<K, L: Limiter> {
    clients: HashTable<Client<K, L::State>>,
    time: HolderTime,
}

struct Client<K, S> {
    key: K,
    state: S,
}

impl<K: Hash, L: Limiter> Shard<K, L> {
    pub(super) fn new() -> Self {
        Self {
            clients: HashTable::new(),
            time: HolderTime::default(),
        }
    }

    #[inline]
    pub(super) fn check<Q: Lookup<K> + ?Sized, H: BuildHasher>(
        &mut self,
        limiter: &L,
        hasher: &H,
        hash: u64,
        key: &Q,
        cost: u64,
        stamp: Timestamp,
    ) -> Result<Decision, CostTooHigh> {
        let instant = self.time.date(stamp);
        let decision = match self.clients.find_mut(hash, |client| key.is(&client.key)) {
            Some(client) => limiter.check(&mut client.state, instant.now, cost)?,
            None => {
                let mut state = limiter.fresh(instant.now);
                let decision = limiter.check(&mut state, instant.now, cost)?;
                if decision.is_charged() {
                    let key = key.to_key();
                    self.insert(limiter, hasher, hash, Client { key, state });
                }
                decision
            }
        };
        Ok(self.time.note(instant, decision))
    }

    pub(super) fn peek<Q: Lookup<K> + ?Sized>(
        &mut self,
        limiter: &L,
        hash: u64,
        key: &Q,
        cost: u64,
        stamp: Timestamp,
    ) -> Result<Decision, CostTooHigh> {
        let instant = self.time.date(stamp);
        let decision = match self.clients.find(hash, |client| key.is(&client.key)) {
            Some(client) => limiter.peek(&client.state, instant.now, cost)?,
            None => limiter.peek(&limiter.fresh(instant.now), instant.now, cost)?,
        };
        Ok(self.time.note(instant, decision))
    }

    /// Forgets the states that are idle at `stamp`, and says how many.
    pub(super) fn sweep<H: BuildHasher>(
        &mut self,
        limiter: &L,
        hasher: &H,
        stamp: Timestamp,
    ) -> usize {
        let instant = self.time.date(stamp);
        let before = self.clients.len();
        self.clients
            .retain(|client| !limiter.is_idle(&client.state, instant.now));
        let forgotten = before - self.clients.len();
        if forgotten > 0 {
            self.time.pass(instant);
            self.clients.shrink_to(2 * self.clients.len(), |client| {
                hasher.hash_one(&client.key)
            });
        }
        forgotten
    }

    pub(super) fn len(&self) -> usize {
        self.clients.len()
    }

    #[cold]
    #[inline(never)]
    fn insert<H: BuildHasher>(
        &mut self,
        limiter: &L,
        hasher: &H,
        hash: u64,
        client: Client<K, L::State>,
    ) {
        if self.clients.len() == self.clients.capacity() {
            // Only what is idle at the latest charge: a later call may still be decided as early as that.
            let by_now = self.time.latest_charge();
            self.clients
                .retain(|client| !limiter.is_idle(&client.state, by_now));
        }
        self.clients
            .insert_unique(hash, client, |client| hasher.hash_one(&client.key));
    }
}
