//! A bare `DashMap` of our token bucket's states, with our hasher's family: `get_mut`, and the rule. No holder's time, no
//! forgetting: what a user could write in ten lines, and the yardstick for our own shards.

use std::time::Duration;

use dashmap::DashMap;
use foldhash::fast::RandomState;
use tollgate::{Limiter, Timestamp, TokenBucket};

use super::tollgate::token_bucket;
use crate::keys::Key;
use crate::peer::{Peer, Rule, SimClock};

pub struct Simulated<K> {
    states: DashMap<K, <TokenBucket as Limiter>::State, RandomState>,
    limiter: TokenBucket,
    clock: SimClock,
}

impl<K: Key> Simulated<K> {
    #[must_use]
    pub fn new(rule: Rule) -> Self {
        Self {
            states: DashMap::default(),
            limiter: token_bucket(rule),
            clock: SimClock::default(),
        }
    }

    /// How many states there are.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }
}

impl<K: Key> Peer<K> for Simulated<K> {
    type Now = Timestamp;

    fn advance(&self, by: Duration) -> Timestamp {
        Timestamp::from_nanos(self.clock.advance(by))
    }

    #[inline]
    fn allow(&self, key: &K, now: Timestamp) -> bool {
        let decision = if let Some(mut state) = self.states.get_mut(key) {
            self.limiter.check(&mut state, now, 1)
        } else {
            let mut state = self
                .states
                .entry(key.clone())
                .or_insert_with(|| self.limiter.fresh(now));
            self.limiter.check(&mut state, now, 1)
        };
        decision.is_ok_and(|decision| decision.is_allowed())
    }
}
