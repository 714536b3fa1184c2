//! pingora-limits: `Rate::observe`, compared with the limit, as Pingora's guide to rate limiting has it. A count-min sketch:
//! it never refuses too little, and too much where clients share counters; so the more clients, the more counters. On its
//! own clock, and a refused call counts too.

use std::time::Duration;

use pingora_limits::rate::Rate;

use crate::keys::Key;
use crate::peer::{Peer, Rule};

pub struct Real {
    rate: Rate,
    limit: isize,
}

impl Real {
    #[must_use]
    pub fn new(rule: Rule, clients: usize) -> Self {
        Self {
            // Its default is 4 rows of 1024: right for few clients, and wrong answers for a million.
            rate: Rate::new_with_estimator_config(
                rule.window,
                4,
                clients.next_power_of_two().max(1024),
            ),
            limit: rule.limit as isize,
        }
    }
}

impl<K: Key> Peer<K> for Real {
    type Now = ();

    fn advance(&self, _by: Duration) {}

    #[inline]
    fn allow(&self, key: &K, (): ()) -> bool {
        self.rate.observe(key, 1) <= self.limit
    }
}
