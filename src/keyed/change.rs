//! Another limit for a running store.

use std::hash::{BuildHasher, Hash};
use std::task::Waker;

use super::Keyed;
use crate::limiter::Limiter;
use crate::time::Timestamp;

impl<K: Hash + Eq, L: Limiter, H: BuildHasher> Keyed<K, L, H> {
    /// Puts another limiter in this one's place at `now`, while the store runs; each client's usage is carried over
    /// ([`Limiter::carry`]).
    ///
    /// It is done shard by shard: until it returns, some clients are judged by the old limiter and some by the new, each by
    /// one of them. A shard is locked while its clients are carried over, tens of nanoseconds for each. As by a
    /// charge, time comes to `now`: so it is what the clock says.
    ///
    /// ```
    /// use tollgate::{FixedWindow, Keyed, Quota, Timestamp};
    ///
    /// let limiter: Keyed<String, _> = Keyed::new(FixedWindow::new(Quota::per_minute(100)));
    /// let now = Timestamp::from_secs(1_000);
    /// limiter.check_n("ada", 2, now)?;
    /// limiter.set_limiter(FixedWindow::new(Quota::per_minute(10)), now);
    /// assert_eq!(limiter.peek("ada", now).remaining(), 8);
    /// # Ok::<(), tollgate::CostTooHigh>(())
    /// ```
    pub fn set_limiter(&self, limiter: L, now: Timestamp) {
        // Of two changes at once the later is that of all shards.
        let alone = self.changes.lock();
        let mut woken = Vec::new();
        for shard in &self.shards {
            let limiter = limiter.clone();
            woken.extend(self.relimit(shard, now, |shard| {
                shard.set_limiter(limiter, &self.denials, now);
            }));
        }
        drop(alone);
        woken.into_iter().for_each(Waker::wake);
    }
}
