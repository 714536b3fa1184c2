//! limitador: `check_rate_limited_and_update` on its storage in memory, with a limit per `user_id`, the variable's value
//! given in a map for each call. It evaluates expressions and keeps fixed windows of whole seconds by its own clock.

use std::collections::HashMap;
use std::time::Duration;

use limitador::RateLimiter;
use limitador::limit::{Limit, Namespace};

use crate::peer::{Peer, Rule};

pub struct Real {
    limiter: RateLimiter,
    namespace: Namespace,
}

impl Real {
    #[must_use]
    pub fn new(rule: Rule, clients: usize) -> Self {
        // Room for twice as many, so that its cache never has to choose.
        let limiter = RateLimiter::new(2 * clients as u64);
        let user = "user_id".try_into().expect("a variable's name");
        limiter.add_limit(Limit::new(
            "api",
            rule.limit.into(),
            rule.window.as_secs(),
            [],
            [user],
        ));
        Self {
            limiter,
            namespace: "api".into(),
        }
    }
}

impl Peer<String> for Real {
    type Now = ();

    fn advance(&self, _by: Duration) {}

    #[inline]
    fn allow(&self, key: &String, (): ()) -> bool {
        let values = HashMap::from([("user_id".to_owned(), key.clone())]);
        let checked =
            self.limiter
                .check_rate_limited_and_update(&self.namespace, &values.into(), 1);
        !checked.expect("memory does not fail").limited
    }
}
