//! leaky-bucket: `try_acquire`, on its own clock (tokio's), in its default fair mode and without.

use std::time::Duration;

use leaky_bucket::RateLimiter;

use crate::peer::{Peer, Rule};

pub struct Real(RateLimiter);

impl Real {
    #[must_use]
    pub fn new(rule: Rule, fair: bool) -> Self {
        Self(
            RateLimiter::builder()
                .initial(rule.burst as usize)
                .max(rule.burst as usize)
                .refill(1)
                .interval(rule.refill)
                .fair(fair)
                .build(),
        )
    }
}

impl Peer<()> for Real {
    type Now = ();

    fn advance(&self, _by: Duration) {}

    #[inline]
    fn allow(&self, (): &(), (): ()) -> bool {
        self.0.try_acquire(1)
    }
}
