//! tokio-rate-limit: `check` on its default token bucket, on its own clock (tokio's). It knows no rate below one a second
//! and no burst below the rate.

use std::time::Duration;

use tokio_rate_limit::{RateLimiter, RateLimiterConfig};

use crate::peer::{Peer, Rule};

pub struct Real(RateLimiter);

impl Real {
    #[must_use]
    pub fn new(rule: Rule) -> Self {
        let requests_per_second = (1.0 / rule.refill.as_secs_f64()).max(1.0) as u64;
        let limiter = RateLimiter::new(RateLimiterConfig {
            requests_per_second,
            burst: requests_per_second.max(rule.burst.into()),
        });
        Self(limiter.expect("the rate and the burst are what it asks for"))
    }
}

impl Peer<String> for Real {
    type Now = ();

    fn advance(&self, _by: Duration) {}

    #[inline]
    fn allow(&self, key: &String, (): ()) -> bool {
        self.0.check(key).permitted
    }
}
