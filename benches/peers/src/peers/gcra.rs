//! gcra: `RateLimiter::check_at`, which takes the key by value and is `async` without ever waiting: one poll answers.

use std::fmt::Display;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use gcra::{RateLimit, RateLimiter};

use crate::keys::Key;
use crate::peer::{Peer, Rule, SimInstant};

pub struct Simulated<K: Key> {
    limiter: RateLimiter<K>,
    limit: RateLimit,
    clock: SimInstant,
}

impl<K: Key + Display> Simulated<K> {
    #[must_use]
    pub fn new(rule: Rule, clients: usize) -> Self {
        Self {
            limiter: RateLimiter::new(clients),
            // Its burst is its limit: the period is as long as it takes to fill.
            limit: RateLimit::new(rule.burst, rule.refill * rule.burst),
            clock: SimInstant::default(),
        }
    }
}

impl<K: Key + Display> Peer<K> for Simulated<K> {
    type Now = Instant;

    fn advance(&self, by: Duration) -> Instant {
        self.clock.advance(by)
    }

    #[inline]
    fn allow(&self, key: &K, now: Instant) -> bool {
        let check = pin!(self.limiter.check_at(key.clone(), &self.limit, 1, now));
        match check.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer.is_ok(),
            Poll::Pending => unreachable!("nothing in it waits"),
        }
    }
}
