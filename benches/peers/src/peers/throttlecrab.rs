//! throttlecrab: `rate_limit` on its `AdaptiveStore` with room for all clients, in a `std` mutex, as its docs share it
//! between threads.

use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use throttlecrab::{AdaptiveStore, RateLimiter};

use crate::peer::{Peer, Rule, SimSystemTime};

pub struct Simulated {
    limiter: Mutex<RateLimiter<AdaptiveStore>>,
    burst: i64,
    /// `count` per `period` seconds.
    count: i64,
    period: i64,
    clock: SimSystemTime,
}

impl Simulated {
    #[must_use]
    pub fn new(rule: Rule, clients: usize) -> Self {
        let store = AdaptiveStore::builder()
            .capacity(clients.max(1_000))
            .build();
        let (count, period) = match rule.refill.as_secs() {
            0 => (1_000_000_000 / i64::from(rule.refill.subsec_nanos()), 1),
            seconds => (1, seconds as i64),
        };
        Self {
            limiter: Mutex::new(RateLimiter::new(store)),
            // With a burst of one 0.4 keeps a state for no time at all, and refuses nobody.
            burst: i64::from(rule.burst).max(2),
            count,
            period,
            clock: SimSystemTime::default(),
        }
    }
}

impl Peer<String> for Simulated {
    type Now = SystemTime;

    fn advance(&self, by: Duration) -> SystemTime {
        self.clock.advance(by)
    }

    #[inline]
    fn allow(&self, key: &String, now: SystemTime) -> bool {
        let mut limiter = self.limiter.lock().expect("no call panics");
        let answer = limiter.rate_limit(key, self.burst, self.count, self.period, 1, now);
        answer.is_ok_and(|(allowed, _)| allowed)
    }
}
