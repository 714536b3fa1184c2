//! trypema: `absolute().inc` of its local provider, with the bucket size of its docs and its clean-up thread running. A log
//! of ten-millisecond buckets, on its own clock; two threads may overshoot.

use std::sync::Arc;
use std::time::Duration;

use trypema::local::LocalRateLimiterProvider;
use trypema::{BucketSize, RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize};

use crate::peer::{Peer, Rule};

pub struct Real {
    provider: Arc<LocalRateLimiterProvider>,
    rate: RateLimit,
}

impl Real {
    #[must_use]
    pub fn new(rule: Rule) -> Self {
        let provider = LocalRateLimiterProvider::builder()
            .window_size(WindowSize::seconds_or_panic(rule.log.as_secs()))
            .bucket_size(BucketSize::milliseconds_or_panic(10))
            .build();
        // It multiplies by the window again and cuts: a little more than the limit, or one a day would be none.
        let per_second = (f64::from(rule.limit) + 1e-3) / rule.log.as_secs_f64();
        Self {
            provider: provider.expect("the window is longer than a bucket"),
            rate: RateLimit::per_second_or_panic(per_second),
        }
    }
}

impl Peer<String> for Real {
    type Now = ();

    fn advance(&self, _by: Duration) {}

    #[inline]
    fn allow(&self, key: &String, (): ()) -> bool {
        let decision = self.provider.absolute().inc(key, &self.rate, 1);
        matches!(decision, RateLimitDecision::Allowed)
    }
}
