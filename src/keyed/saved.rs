//! A store's clients, to be written down and read again by a process that starts anew.
//!
//! Without it a restart is a new budget for everybody, and whoever can make a service restart has found a way around its
//! limits. What is written is each client's state and the time that the store had come to, so the time that passes while the
//! service is down counts as any other.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Range;
use std::task::Waker;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Keyed;
use crate::holder::HolderTime;
use crate::limiter::Limiter;
use crate::time::Timestamp;

/// The clients of a store, as [`Keyed::save`] has found them: to be written in any format of serde's, read again, and
/// given to [`Keyed::restore`].
///
/// ```
/// use tollgate::{Keyed, Quota, Timestamp, TokenBucket, keyed::Saved};
///
/// let rule = TokenBucket::new(Quota::per_minute(10));
/// let limiter: Keyed<String, _> = Keyed::new(rule);
/// let now = Timestamp::from_secs(1_000);
/// limiter.check_n("ada", 7, now)?;
/// let text = serde_json::to_string(&limiter.save(now))?;
///
/// // … the next process:
/// let saved: Saved<String, TokenBucket> = serde_json::from_str(&text)?;
/// let limiter: Keyed<String, _> = Keyed::new(rule);
/// assert_eq!(limiter.restore(saved)?, 1);
/// assert_eq!(limiter.peek("ada", now).remaining(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Serialize, Deserialize)]
#[serde(bound(
    serialize = "K: Serialize, L::State: Serialize",
    deserialize = "K: Deserialize<'de>, L::State: Deserialize<'de>"
))]
pub struct Saved<K, L: Limiter> {
    version: u32,
    /// The limiter that the states are of, as text.
    policy: String,
    time: HolderTime,
    clients: Vec<(K, L::State)>,
    checksum: u64,
}

/// Why a snapshot was not restored. Nothing of it was; what the store holds is untouched.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// It is of another version of this crate.
    #[error("the snapshot is of version {found}, and this is version {own}: it cannot be read")]
    Version {
        /// The snapshot's.
        found: u32,
        /// What this crate reads and writes.
        own: u32,
    },
    /// It is of a store with another limiter.
    #[error(
        "the snapshot is of {found}, and the store has {own}: restore it into a store of the same limiter, and give that another (set_limiter)"
    )]
    Policy {
        /// The snapshot's limiter.
        found: String,
        /// The store's.
        own: String,
    },
    /// It is not what was saved.
    #[error("the snapshot is damaged: what it says is not what was saved")]
    Damaged,
    /// The store has a cap, and not so much room.
    #[error("the snapshot has {clients} clients, and the store has no room for so many")]
    TooManyClients {
        /// How many the snapshot has.
        clients: usize,
    },
}

impl<K: Hash, L: Limiter> Saved<K, L>
where
    L::State: Hash,
{
    fn new(policy: String, time: HolderTime, clients: Vec<(K, L::State)>) -> Self {
        let mut saved = Self {
            version: VERSION,
            policy,
            time,
            clients,
            checksum: 0,
        };
        saved.checksum = saved.sum();
        saved
    }

    fn sum(&self) -> u64 {
        let mut checksum = Checksum(0);
        self.policy.hash(&mut checksum);
        self.time.hash(&mut checksum);
        for client in &self.clients {
            client.hash(&mut checksum);
        }
        checksum.finish()
    }
}

impl<K, L: Limiter> Saved<K, L> {
    /// How many clients it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }
}

impl<K: Hash + Eq, L: Limiter, H: BuildHasher> Keyed<K, L, H>
where
    L::State: Hash,
{
    /// A copy of the clients that are not idle at `now`, and of the time that the store has come to.
    ///
    /// Each shard is copied in one step, one after the other, while the others go on: of a client it is all or nothing. If
    /// somebody is left out as idle, time has come to `now` for the copy, as by [`sweep`](Self::sweep).
    pub fn save(&self, now: Timestamp) -> Saved<K, L>
    where
        K: Clone,
    {
        let unchanged = self.changes.lock();
        let limiter = self.limiter();
        let mut clients = Vec::new();
        let mut parts = Vec::new();
        let mut woken = Vec::new();
        for shard in &self.shards {
            // What those who may go by now spend is spent.
            woken.extend(self.serve_queues(shard, now));
            let shard = shard.0.lock();
            let instant = shard.date(now);
            let before = clients.len();
            clients.extend(
                shard
                    .busy(instant)
                    .map(|(key, state)| (key.clone(), state.clone())),
            );
            let left_out = clients.len() - before < shard.len();
            parts.push(Part {
                clients: before..clients.len(),
                now: instant.now,
                time: shard.time_at(left_out.then_some(instant)),
            });
        }
        drop(unchanged);
        woken.into_iter().for_each(Waker::wake);
        let time = join(&limiter, &mut clients, &parts);
        Saved::new(format!("{limiter:?}"), time, clients)
    }

    /// Takes over the clients of a snapshot, and says how many it has taken.
    ///
    /// Do so before the store serves. Of a client that it knows already, the state that is further from idle is kept, or of two
    /// as far the one with less left; for that client too there must be room when it begins.
    ///
    /// # Errors
    ///
    /// [`RestoreError`] if the snapshot is of another limiter or version, is damaged, or has more clients than there is room
    /// for. Nothing has changed then.
    pub fn restore(&self, saved: Saved<K, L>) -> Result<usize, RestoreError> {
        let unchanged = self.changes.lock();
        self.verify(&saved)?;
        let clients = saved.clients.len();
        if !self.take_places(clients) {
            return Err(RestoreError::TooManyClients { clients });
        }
        for shard in &self.shards {
            shard.0.lock().join_time(&saved.time, &self.denials);
        }
        let mut taken = 0;
        let mut unused = 0;
        for (key, state) in saved.clients {
            let hash = self.hasher.hash_one(&key);
            let mut shard = self.shard(hash).lock();
            let restored = shard.restore(&self.hasher, (hash, key), state);
            self.denials.clear(hash);
            taken += usize::from(restored.is_taken);
            unused += usize::from(restored.was_known);
        }
        self.give_back(unused);
        // Those who wait go by what their clients have used now.
        let mut woken = Vec::new();
        for shard in &self.shards {
            woken.extend(self.all_changed(shard));
        }
        drop(unchanged);
        woken.into_iter().for_each(Waker::wake);
        Ok(taken)
    }

    fn verify(&self, saved: &Saved<K, L>) -> Result<(), RestoreError> {
        if saved.version != VERSION {
            return Err(RestoreError::Version {
                found: saved.version,
                own: VERSION,
            });
        }
        let limiter = self.limiter();
        let own = format!("{limiter:?}");
        if saved.policy != own {
            let found = saved.policy.clone();
            return Err(RestoreError::Policy { found, own });
        }
        let is_sound = |(_, state): &(K, L::State)| limiter.is_sound(state);
        if saved.checksum != saved.sum() || !saved.clients.iter().all(is_sound) {
            return Err(RestoreError::Damaged);
        }
        Ok(())
    }
}

/// What was copied of a shard, and the time of that.
struct Part {
    clients: Range<usize>,
    now: Timestamp,
    time: HolderTime,
}

/// Brings the shards' clients to one time. Each shard has found for itself by how much the clock was set back, if it has: what
/// one has found is not true of another.
fn join<K, L: Limiter>(limiter: &L, clients: &mut [(K, L::State)], parts: &[Part]) -> HolderTime {
    let mut furthest = HolderTime::default();
    for part in parts {
        furthest.join(&part.time);
    }
    let mut joined = HolderTime::default();
    for part in parts {
        let by = part.time.behind(&furthest);
        joined.join(&part.time.moved_on(by));
        if !by.is_zero() {
            for (_, state) in &mut clients[part.clients.clone()] {
                limiter.redate(state, part.now, part.now + by);
            }
        }
    }
    joined
}

impl<K: Clone, L: Limiter> Clone for Saved<K, L> {
    fn clone(&self) -> Self {
        Self {
            policy: self.policy.clone(),
            clients: self.clients.clone(),
            ..*self
        }
    }
}

impl<K, L: Limiter> fmt::Debug for Saved<K, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saved")
            .field("version", &self.version)
            .field("policy", &self.policy)
            .field("time", &self.time)
            .field("clients", &self.clients.len())
            .finish_non_exhaustive()
    }
}

/// A sum that is the same on every machine, and another if any one word of what is summed is.
struct Checksum(u64);

impl Hasher for Checksum {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
        self.write_u64(bytes.len() as u64);
    }

    // Each step is a bijection of the word, and of the sum so far: so one word that differs makes a sum that does.
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(word.into());
    }

    fn write_u16(&mut self, word: u16) {
        self.write_u64(word.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word as u64);
    }
}

/// Of the format: another where what is written, or what it means, is another.
const VERSION: u32 = 1;
