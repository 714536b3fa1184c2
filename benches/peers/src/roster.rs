//! Who takes part, in the order of the tables.

use tollgate::SystemClock;

use crate::contest::{Contest, contest};
use crate::keys::Key;
use crate::load::Load;
use crate::peers::tollgate::{Allow, Check, CheckFields};
use crate::peers::{dashmap, governor, tollgate as ours};

/// One row.
pub struct Entry<K> {
    pub name: &'static str,
    pub clock: Clock,
    pub make: Make<K>,
}

/// Sets a contest up: that takes a while with a million keys, so it is done when it is asked for.
pub type Make<K> = for<'a> fn(&'a Load<K>, usize) -> Box<dyn Contest + 'a>;

/// Who knows what time it is. The two kinds are not to be compared: reading a clock costs as much as a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The bench tells it.
    Told,
    /// A call reads a real clock.
    Real,
}

impl Clock {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Told => "told the time",
            Self::Real => "reads a clock",
        }
    }
}

/// Ours, and those that it is measured by.
#[must_use]
pub fn keyed<K: Key>() -> Vec<Entry<K>> {
    vec![
        told("tollgate token bucket, allow", |load, threads| {
            contest(load, threads, || {
                ours::Simulated::<K, _, Allow>::new(ours::token_bucket(load.rule()))
            })
        }),
        told("tollgate token bucket, check", |load, threads| {
            contest(load, threads, || {
                ours::Simulated::<K, _, Check>::new(ours::token_bucket(load.rule()))
            })
        }),
        told(
            "tollgate token bucket, check, fields read",
            |load, threads| {
                contest(load, threads, || {
                    ours::Simulated::<K, _, CheckFields>::new(ours::token_bucket(load.rule()))
                })
            },
        ),
        told("tollgate leaky bucket, allow", |load, threads| {
            contest(load, threads, || {
                ours::Simulated::<K, _, Allow>::new(ours::leaky_bucket(load.rule()))
            })
        }),
        told("tollgate fixed window, allow", |load, threads| {
            contest(load, threads, || {
                ours::Simulated::<K, _, Allow>::new(ours::fixed_window(load.rule()))
            })
        }),
        told("tollgate sliding log, allow", |load, threads| {
            contest(load, threads, || {
                ours::Simulated::<K, _, Allow>::new(ours::sliding_log(load.rule()))
            })
        }),
        told("tollgate sliding window counter, allow", |load, threads| {
            contest(load, threads, || {
                ours::Simulated::<K, _, Allow>::new(ours::sliding_window_counter(load.rule()))
            })
        }),
        told("governor", |load, threads| {
            contest(load, threads, || governor::Simulated::new(load.rule()))
        }),
        told("DashMap get_mut + token bucket", |load, threads| {
            contest(load, threads, || dashmap::Simulated::new(load.rule()))
        }),
        real(
            "tollgate token bucket, allow, SystemClock",
            |load, threads| {
                contest(load, threads, || {
                    ours::Real::new(ours::token_bucket(load.rule()), SystemClock::new())
                })
            },
        ),
        real(
            "tollgate token bucket, allow, TickingClock",
            |load, threads| {
                contest(load, threads, || {
                    ours::Real::new(ours::token_bucket(load.rule()), ours::ticking())
                })
            },
        ),
        real("governor, default clock", |load, threads| {
            contest(load, threads, || governor::Real::new(load.rule()))
        }),
    ]
}

const fn told<K>(name: &'static str, make: Make<K>) -> Entry<K> {
    Entry {
        name,
        clock: Clock::Told,
        make,
    }
}

const fn real<K>(name: &'static str, make: Make<K>) -> Entry<K> {
    Entry {
        name,
        clock: Clock::Real,
        make,
    }
}

#[cfg(feature = "all-peers")]
pub use others::{any_key, direct, text};

#[cfg(feature = "all-peers")]
mod others {
    use std::fmt::Display;

    use tollgate::SystemClock;

    use super::{Entry, real, told};
    use crate::contest::contest;
    use crate::keys::Key;
    use crate::peers::{
        gcra, governor, leaky_bucket, limitador, pingora_limits, ratelimit, throttlecrab,
        tokio_rate_limit, tollgate as ours, tower_resilience, trypema,
    };

    /// Those that take any key.
    #[must_use]
    pub fn any_key<K: Key + Display>() -> Vec<Entry<K>> {
        vec![
            told("gcra", |load, threads| {
                contest(load, threads, || {
                    gcra::Simulated::new(load.rule(), load.clients())
                })
            }),
            real("pingora-limits (approximate)", |load, threads| {
                contest(load, threads, || {
                    pingora_limits::Real::new(load.rule(), load.clients())
                })
            }),
        ]
    }

    /// Those whose keys are text.
    #[must_use]
    pub fn text() -> Vec<Entry<String>> {
        vec![
            told("throttlecrab, in a mutex", |load, threads| {
                contest(load, threads, || {
                    throttlecrab::Simulated::new(load.rule(), load.clients())
                })
            }),
            real("tokio-rate-limit", |load, threads| {
                contest(load, threads, || tokio_rate_limit::Real::new(load.rule()))
            }),
            real("trypema, local", |load, threads| {
                contest(load, threads, || trypema::Real::new(load.rule()))
            }),
            real("limitador, in memory", |load, threads| {
                contest(load, threads, || {
                    limitador::Real::new(load.rule(), load.clients())
                })
            }),
        ]
    }

    /// Those with a single state.
    #[must_use]
    pub fn direct() -> Vec<Entry<()>> {
        vec![
            told("tollgate Direct, allow", |load, threads| {
                contest(load, threads, || ours::Direct::new(load.rule()))
            }),
            told("governor direct", |load, threads| {
                contest(load, threads, || governor::Direct::new(load.rule()))
            }),
            told("ratelimit", |load, threads| {
                contest(load, threads, || ratelimit::Simulated::new(load.rule()))
            }),
            real("tollgate Direct, allow, SystemClock", |load, threads| {
                contest(load, threads, || {
                    ours::RealDirect::new(load.rule(), SystemClock::new())
                })
            }),
            real("tollgate Direct, allow, TickingClock", |load, threads| {
                contest(load, threads, || {
                    ours::RealDirect::new(load.rule(), ours::ticking())
                })
            }),
            real("governor direct, default clock", |load, threads| {
                contest(load, threads, || governor::RealDirect::new(load.rule()))
            }),
            real("ratelimit, its own clock", |load, threads| {
                contest(load, threads, || ratelimit::Real::new(load.rule()))
            }),
            real("leaky-bucket, try_acquire", |load, threads| {
                contest(load, threads, || leaky_bucket::Real::new(load.rule(), true))
            }),
            real("leaky-bucket, try_acquire, not fair", |load, threads| {
                contest(load, threads, || {
                    leaky_bucket::Real::new(load.rule(), false)
                })
            }),
            real("tower-resilience-ratelimiter, a call", |load, threads| {
                contest(load, threads, || tower_resilience::Real::new(load.rule()))
            }),
        ]
    }
}
