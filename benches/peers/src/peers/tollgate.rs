//! Ours, under each of the five rules, asked in each of three ways, on simulated and on real clocks.

use std::hash::Hash;
use std::hint::black_box;
use std::marker::PhantomData;
use std::thread;
use std::time::Duration;

use tollgate::{
    Clock, FixedWindow, Keyed, LeakyBucket, Limiter, Quota, SlidingLog, SlidingWindowCounter,
    TickingClock, Timestamp, TokenBucket,
};

use crate::keys::Key;
use crate::peer::{Peer, Rule, SimClock};

/// Told the time.
pub struct Simulated<K, L: Limiter, A> {
    keyed: Keyed<K, L>,
    clock: SimClock,
    asked: PhantomData<A>,
}

impl<K: Hash + Eq, L: Limiter, A> Simulated<K, L, A> {
    pub fn new(limiter: L) -> Self {
        Self {
            keyed: Keyed::new(limiter),
            clock: SimClock::default(),
            asked: PhantomData,
        }
    }

    pub fn keyed(&self) -> &Keyed<K, L> {
        &self.keyed
    }
}

impl<K, L, A> Peer<K> for Simulated<K, L, A>
where
    K: Key,
    L: Limiter + Send + Sync,
    L::State: Send,
    A: Asked,
{
    type Now = Timestamp;

    fn advance(&self, by: Duration) -> Timestamp {
        Timestamp::from_nanos(self.clock.advance(by))
    }

    #[inline]
    fn allow(&self, key: &K, now: Timestamp) -> bool {
        A::ask(&self.keyed, key, now)
    }
}

/// Reads a clock on every call.
pub struct Real<K, L: Limiter, C> {
    keyed: Keyed<K, L>,
    clock: C,
}

impl<K: Hash + Eq, L: Limiter, C> Real<K, L, C> {
    pub fn new(limiter: L, clock: C) -> Self {
        Self {
            keyed: Keyed::new(limiter),
            clock,
        }
    }
}

impl<K, L, C> Peer<K> for Real<K, L, C>
where
    K: Key,
    L: Limiter + Send + Sync,
    L::State: Send,
    C: Clock + Send + Sync,
{
    type Now = ();

    fn advance(&self, _by: Duration) {}

    #[inline]
    fn allow(&self, key: &K, (): ()) -> bool {
        self.keyed.allow(key.borrowed(), self.clock.now())
    }
}

/// One state, told the time.
pub struct Direct {
    direct: tollgate::Direct<TokenBucket>,
    clock: SimClock,
}

impl Direct {
    #[must_use]
    pub fn new(rule: Rule) -> Self {
        Self {
            direct: tollgate::Direct::new(token_bucket(rule)),
            clock: SimClock::default(),
        }
    }
}

impl Peer<()> for Direct {
    type Now = Timestamp;

    fn advance(&self, by: Duration) -> Timestamp {
        Timestamp::from_nanos(self.clock.advance(by))
    }

    #[inline]
    fn allow(&self, (): &(), now: Timestamp) -> bool {
        self.direct.allow(now)
    }
}

/// One state, and a clock that is read on every call.
pub struct RealDirect<C> {
    direct: tollgate::Direct<TokenBucket>,
    clock: C,
}

impl<C> RealDirect<C> {
    pub fn new(rule: Rule, clock: C) -> Self {
        Self {
            direct: tollgate::Direct::new(token_bucket(rule)),
            clock,
        }
    }
}

impl<C: Clock + Send + Sync> Peer<()> for RealDirect<C> {
    type Now = ();

    fn advance(&self, _by: Duration) {}

    #[inline]
    fn allow(&self, (): &(), (): ()) -> bool {
        self.direct.allow(self.clock.now())
    }
}

/// A clock that a thread of its own ticks each millisecond, for as long as somebody reads it.
#[must_use]
pub fn ticking() -> TickingClock {
    let clock = TickingClock::new();
    let ticker = clock.clone();
    thread::spawn(move || ticker.tick_every(Duration::from_millis(1)));
    clock
}

/// How the store is asked.
pub trait Asked: Send + Sync {
    fn ask<K: Key, L: Limiter>(keyed: &Keyed<K, L>, key: &K, now: Timestamp) -> bool;
}

/// `allow`.
pub struct Allow;

/// `check`, of which only `is_allowed` is read.
pub struct Check;

/// `check`, of which all is read that a response's headers say.
pub struct CheckFields;

impl Asked for Allow {
    #[inline]
    fn ask<K: Key, L: Limiter>(keyed: &Keyed<K, L>, key: &K, now: Timestamp) -> bool {
        keyed.allow(key.borrowed(), now)
    }
}

impl Asked for Check {
    #[inline]
    fn ask<K: Key, L: Limiter>(keyed: &Keyed<K, L>, key: &K, now: Timestamp) -> bool {
        keyed.check(key.borrowed(), now).is_allowed()
    }
}

impl Asked for CheckFields {
    #[inline]
    fn ask<K: Key, L: Limiter>(keyed: &Keyed<K, L>, key: &K, now: Timestamp) -> bool {
        let decision = keyed.check(key.borrowed(), now);
        black_box(decision.limit());
        black_box(decision.remaining());
        black_box(decision.retry_after());
        black_box(decision.reset_after());
        decision.is_allowed()
    }
}

#[must_use]
pub fn token_bucket(rule: Rule) -> TokenBucket {
    TokenBucket::new(per(1, rule.refill)).with_burst(rule.burst.into())
}

#[must_use]
pub fn leaky_bucket(rule: Rule) -> LeakyBucket {
    LeakyBucket::new(per(1, rule.refill)).with_burst(rule.burst.into())
}

#[must_use]
pub fn fixed_window(rule: Rule) -> FixedWindow {
    FixedWindow::new(per(rule.limit, rule.window))
}

#[must_use]
pub fn sliding_log(rule: Rule) -> SlidingLog {
    SlidingLog::new(per(rule.limit, rule.log))
}

#[must_use]
pub fn sliding_window_counter(rule: Rule) -> SlidingWindowCounter {
    SlidingWindowCounter::new(per(rule.limit, rule.window))
}

fn per(limit: u32, period: Duration) -> Quota {
    Quota::new(limit.into(), period).expect("a rule has a limit and a period")
}
