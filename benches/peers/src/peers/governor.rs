//! governor: `check_key` on the store and hasher of `RateLimiter::keyed` (a `DashMap` with `SipHash`), with its fake clock or
//! with the clock that its users get (quanta).

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock, FakeRelativeClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use crate::keys::Key;
use crate::peer::{Peer, Rule};

type Keyed<K, C> =
    RateLimiter<K, DefaultKeyedStateStore<K>, C, NoOpMiddleware<<C as Clock>::Instant>>;

type DirectLimiter<C> =
    RateLimiter<NotKeyed, InMemoryState, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// Told the time.
pub struct Simulated<K: Key> {
    keyed: Keyed<K, FakeRelativeClock>,
    clock: FakeRelativeClock,
}

impl<K: Key> Simulated<K> {
    #[must_use]
    pub fn new(rule: Rule) -> Self {
        let clock = FakeRelativeClock::default();
        Self {
            keyed: RateLimiter::dashmap_with_clock(quota(rule), clock.clone()),
            clock,
        }
    }

    #[must_use]
    pub fn keyed(&self) -> &Keyed<K, FakeRelativeClock> {
        &self.keyed
    }
}

impl<K: Key> Peer<K> for Simulated<K> {
    type Now = ();

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    #[inline]
    fn allow(&self, key: &K, (): ()) -> bool {
        self.keyed.check_key(key).is_ok()
    }
}

/// Reads its default clock on every call.
pub struct Real<K: Key>(Keyed<K, DefaultClock>);

impl<K: Key> Real<K> {
    #[must_use]
    pub fn new(rule: Rule) -> Self {
        Self(RateLimiter::keyed(quota(rule)))
    }
}

impl<K: Key> Peer<K> for Real<K> {
    type Now = ();

    fn advance(&self, _by: Duration) {}

    #[inline]
    fn allow(&self, key: &K, (): ()) -> bool {
        self.0.check_key(key).is_ok()
    }
}

/// One state, told the time.
pub struct Direct {
    limiter: DirectLimiter<FakeRelativeClock>,
    clock: FakeRelativeClock,
}

impl Direct {
    #[must_use]
    pub fn new(rule: Rule) -> Self {
        let clock = FakeRelativeClock::default();
        Self {
            limiter: RateLimiter::direct_with_clock(quota(rule), clock.clone()),
            clock,
        }
    }
}

impl Peer<()> for Direct {
    type Now = ();

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    #[inline]
    fn allow(&self, (): &(), (): ()) -> bool {
        self.limiter.check().is_ok()
    }
}

/// One state, and its default clock read on every call.
pub struct RealDirect(DirectLimiter<DefaultClock>);

impl RealDirect {
    #[must_use]
    pub fn new(rule: Rule) -> Self {
        Self(RateLimiter::direct(quota(rule)))
    }
}

impl Peer<()> for RealDirect {
    type Now = ();

    fn advance(&self, _by: Duration) {}

    #[inline]
    fn allow(&self, (): &(), (): ()) -> bool {
        self.0.check().is_ok()
    }
}

#[must_use]
pub fn quota(rule: Rule) -> Quota {
    let burst = NonZeroU32::new(rule.burst).expect("a rule has a burst");
    Quota::with_period(rule.refill)
        .expect("a rule has a period")
        .allow_burst(burst)
}
