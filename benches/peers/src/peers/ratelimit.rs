//! ratelimit: `try_wait`, on a clock that is told the time (its `Clock` trait) or on its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit::{Builder, Clock, Ratelimiter, StdClock};

use crate::peer::{Peer, Rule};

/// Told the time.
pub struct Simulated {
    limiter: Ratelimiter<Told>,
    clock: Told,
}

impl Simulated {
    #[must_use]
    pub fn new(rule: Rule) -> Self {
        let clock = Told::default();
        Self {
            limiter: built(Builder::with_clock(1, clock.clone()), rule),
            clock,
        }
    }
}

impl Peer<()> for Simulated {
    type Now = ();

    fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).expect("steps are short");
        self.clock.0.fetch_add(by, Ordering::Relaxed);
    }

    #[inline]
    fn allow(&self, (): &(), (): ()) -> bool {
        self.limiter.try_wait().is_ok()
    }
}

/// Reads its own clock on every call.
pub struct Real(Ratelimiter);

impl Real {
    #[must_use]
    pub fn new(rule: Rule) -> Self {
        Self(built(Builder::with_clock(1, StdClock::new()), rule))
    }
}

impl Peer<()> for Real {
    type Now = ();

    fn advance(&self, _by: Duration) {}

    #[inline]
    fn allow(&self, (): &(), (): ()) -> bool {
        self.0.try_wait().is_ok()
    }
}

fn built<C: Clock>(one: Builder<C>, rule: Rule) -> Ratelimiter<C> {
    one.period(rule.refill)
        .max_tokens(rule.burst.into())
        .initial_available(rule.burst.into())
        .build()
        .expect("a rule has a burst and a period")
}

#[derive(Clone, Default)]
struct Told(Arc<AtomicU64>);

impl Clock for Told {
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}
