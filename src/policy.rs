//! [`Policy`]: one of the five rules, chosen at run time.

use alloc::boxed::Box;
use core::fmt;
use core::str::FromStr;

use crate::algorithm::{
    BucketState, FixedWindow, FixedWindowState, LeakyBucket, SlidingLog, SlidingLogState,
    SlidingWindowCounter, SlidingWindowCounterState, TokenBucket,
};
use crate::decision::Decision;
use crate::error::{CostTooHigh, UnknownAlgorithm};
use crate::limiter::{Limiter, sealed};
use crate::quota::Quota;
use crate::time::Timestamp;

/// One of the five rules, chosen at run time: what a configuration gives.
///
/// It is a [`Limiter`] and decides exactly as the rule it holds does. A state takes 32 bytes.
///
/// With the feature `serde` it is a table of a configuration file: `algorithm` and `quota`, and what the algorithm
/// takes besides: `burst` (both buckets), `offset` (fixed window and counter), `anchored_at_first_request` (fixed
/// window), `resolution` (log). A field that the algorithm does not take is refused.
///
/// ```
/// use tollgate::{Algorithm, Direct, Policy, Quota, Timestamp, TokenBucket};
///
/// let policy: Policy = TokenBucket::new(Quota::per_minute(100)).with_burst(20).into();
/// assert_eq!(policy.algorithm(), Algorithm::TokenBucket);
/// let chosen = "fixed-window".parse::<Algorithm>()?.policy("3/s".parse().unwrap());
/// assert!(Direct::new(chosen).allow(Timestamp::from_secs(1)));
/// # Ok::<(), tollgate::UnknownAlgorithm>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(try_from = "config::PolicyTable", into = "config::PolicyTable")
)]
#[non_exhaustive]
pub enum Policy {
    /// See [`TokenBucket`].
    TokenBucket(TokenBucket),
    /// See [`LeakyBucket`].
    LeakyBucket(LeakyBucket),
    /// See [`FixedWindow`].
    FixedWindow(FixedWindow),
    /// See [`SlidingLog`].
    SlidingLog(SlidingLog),
    /// See [`SlidingWindowCounter`].
    SlidingWindowCounter(SlidingWindowCounter),
}

impl Policy {
    /// Which of the five it is.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        match self {
            Self::TokenBucket(_) => Algorithm::TokenBucket,
            Self::LeakyBucket(_) => Algorithm::LeakyBucket,
            Self::FixedWindow(_) => Algorithm::FixedWindow,
            Self::SlidingLog(_) => Algorithm::SlidingLog,
            Self::SlidingWindowCounter(_) => Algorithm::SlidingWindowCounter,
        }
    }
}

/// The name of one of the five rules.
///
/// As text it is `token-bucket`, `leaky-bucket`, `fixed-window`, `sliding-log` or `sliding-window-counter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Algorithm {
    /// See [`TokenBucket`].
    TokenBucket,
    /// See [`LeakyBucket`].
    LeakyBucket,
    /// See [`FixedWindow`].
    FixedWindow,
    /// See [`SlidingLog`].
    SlidingLog,
    /// See [`SlidingWindowCounter`].
    SlidingWindowCounter,
}

impl Algorithm {
    /// All five.
    pub const ALL: [Self; 5] = [
        Self::TokenBucket,
        Self::LeakyBucket,
        Self::FixedWindow,
        Self::SlidingLog,
        Self::SlidingWindowCounter,
    ];

    /// The name as a configuration writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token-bucket",
            Self::LeakyBucket => "leaky-bucket",
            Self::FixedWindow => "fixed-window",
            Self::SlidingLog => "sliding-log",
            Self::SlidingWindowCounter => "sliding-window-counter",
        }
    }

    /// This rule with `quota`, and nothing else set.
    #[must_use]
    pub const fn policy(self, quota: Quota) -> Policy {
        match self {
            Self::TokenBucket => Policy::TokenBucket(TokenBucket::new(quota)),
            Self::LeakyBucket => Policy::LeakyBucket(LeakyBucket::new(quota)),
            Self::FixedWindow => Policy::FixedWindow(FixedWindow::new(quota)),
            Self::SlidingLog => Policy::SlidingLog(SlidingLog::new(quota)),
            Self::SlidingWindowCounter => {
                Policy::SlidingWindowCounter(SlidingWindowCounter::new(quota))
            }
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
            .ok_or_else(|| UnknownAlgorithm::new(name))
    }
}

/// What a [`Policy`] keeps of a client: 32 bytes; a log's runs are on the heap.
#[derive(Clone, Debug)]
pub struct PolicyState(Kept);

#[derive(Clone, Debug)]
enum Kept {
    Bucket(BucketState),
    FixedWindow(FixedWindowState),
    // Boxed, so that the four that are small stay so.
    SlidingLog(Box<SlidingLogState>),
    SlidingWindowCounter(SlidingWindowCounterState),
}

/// Asks the rule that the policy holds about the state that belongs to it.
///
/// A state that another kind of policy made tells nothing: `$other` says what to answer then.
macro_rules! with_rule {
    ($policy:expr, $kept:expr, $rule:ident, $state:ident => $answer:expr, else $other:expr) => {
        match ($policy, $kept) {
            (Policy::TokenBucket($rule), Kept::Bucket($state)) => $answer,
            (Policy::LeakyBucket($rule), Kept::Bucket($state)) => $answer,
            (Policy::FixedWindow($rule), Kept::FixedWindow($state)) => $answer,
            (Policy::SlidingLog($rule), Kept::SlidingLog($state)) => $answer,
            (Policy::SlidingWindowCounter($rule), Kept::SlidingWindowCounter($state)) => $answer,
            _ => $other,
        }
    };
}

impl Limiter for Policy {
    type State = PolicyState;

    fn quota(&self) -> Quota {
        match self {
            Self::TokenBucket(rule) => rule.quota(),
            Self::LeakyBucket(rule) => rule.quota(),
            Self::FixedWindow(rule) => rule.quota(),
            Self::SlidingLog(rule) => rule.quota(),
            Self::SlidingWindowCounter(rule) => rule.quota(),
        }
    }

    fn fresh(&self, now: Timestamp) -> PolicyState {
        PolicyState(match self {
            Self::TokenBucket(rule) => Kept::Bucket(rule.fresh(now)),
            Self::LeakyBucket(rule) => Kept::Bucket(rule.fresh(now)),
            Self::FixedWindow(rule) => Kept::FixedWindow(rule.fresh(now)),
            Self::SlidingLog(rule) => Kept::SlidingLog(Box::new(rule.fresh(now))),
            Self::SlidingWindowCounter(rule) => Kept::SlidingWindowCounter(rule.fresh(now)),
        })
    }

    #[inline]
    fn check(
        &self,
        state: &mut PolicyState,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        with_rule!(self, &mut state.0, rule, state => rule.check(state, now, cost), else {
            let mut fresh = self.fresh(now);
            let decision = self.check(&mut fresh, now, cost)?;
            if decision.is_charged() {
                *state = fresh;
            }
            Ok(decision)
        })
    }

    #[inline]
    fn peek(
        &self,
        state: &PolicyState,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        with_rule!(
            self, &state.0, rule, state => rule.peek(state, now, cost),
            else self.peek(&self.fresh(now), now, cost)
        )
    }

    fn idle_at(&self, state: &PolicyState) -> Timestamp {
        with_rule!(self, &state.0, rule, state => rule.idle_at(state), else Timestamp::EPOCH)
    }

    fn is_idle(&self, state: &PolicyState, now: Timestamp) -> bool {
        with_rule!(self, &state.0, rule, state => rule.is_idle(state, now), else true)
    }

    fn state_bytes(&self, state: &PolicyState) -> usize {
        size_of::<PolicyState>()
            + match (self, &state.0) {
                (Self::SlidingLog(rule), Kept::SlidingLog(log)) => rule.state_bytes(log),
                _ => 0,
            }
    }
}

impl sealed::Sealed for Policy {}

macro_rules! policy_from {
    ($($rule:ident),*) => {$(
        impl From<$rule> for Policy {
            fn from(rule: $rule) -> Self {
                Self::$rule(rule)
            }
        }
    )*};
}

policy_from!(
    TokenBucket,
    LeakyBucket,
    FixedWindow,
    SlidingLog,
    SlidingWindowCounter
);

/// A policy as a table of a configuration file.
#[cfg(feature = "serde")]
mod config {
    use alloc::format;
    use alloc::string::{String, ToString};
    use core::time::Duration;

    use serde::{Deserialize, Serialize};

    use super::{Algorithm, Policy};
    use crate::algorithm::{
        FixedWindow, LeakyBucket, SlidingLog, SlidingWindowCounter, TokenBucket,
    };
    use crate::limiter::Limiter;
    use crate::quota::{Quota, period_text};

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct PolicyTable {
        algorithm: Algorithm,
        quota: Quota,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        burst: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offset: Option<Period>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        anchored_at_first_request: Option<bool>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resolution: Option<Period>,
    }

    /// `30s`, `10ms`.
    #[derive(Clone, Copy, Serialize, Deserialize)]
    struct Period(#[serde(with = "period_text")] Duration);

    impl PolicyTable {
        const fn new(algorithm: Algorithm, quota: Quota) -> Self {
            Self {
                algorithm,
                quota,
                burst: None,
                offset: None,
                anchored_at_first_request: None,
                resolution: None,
            }
        }

        /// Refuses what the algorithm would have ignored.
        fn takes_only(&self, taken: &[&str]) -> Result<(), String> {
            let given = [
                ("burst", self.burst.is_some()),
                ("offset", self.offset.is_some()),
                (
                    "anchored_at_first_request",
                    self.anchored_at_first_request.is_some(),
                ),
                ("resolution", self.resolution.is_some()),
            ];
            for (name, is_given) in given {
                if is_given && !taken.contains(&name) {
                    return Err(format!("{} takes no `{name}`", self.algorithm));
                }
            }
            Ok(())
        }
    }

    impl TryFrom<PolicyTable> for Policy {
        type Error = String;

        fn try_from(table: PolicyTable) -> Result<Self, String> {
            let quota = table.quota;
            let burst = table.burst.unwrap_or(quota.limit());
            let offset = table.offset.map_or(Duration::ZERO, |Period(offset)| offset);
            Ok(match table.algorithm {
                Algorithm::TokenBucket => {
                    table.takes_only(&["burst"])?;
                    let rule = TokenBucket::new(quota).try_with_burst(burst);
                    Self::TokenBucket(rule.map_err(|error| error.to_string())?)
                }
                Algorithm::LeakyBucket => {
                    table.takes_only(&["burst"])?;
                    let rule = LeakyBucket::new(quota).try_with_burst(burst);
                    Self::LeakyBucket(rule.map_err(|error| error.to_string())?)
                }
                Algorithm::FixedWindow => {
                    table.takes_only(&["offset", "anchored_at_first_request"])?;
                    let rule = FixedWindow::new(quota).with_offset(offset);
                    let anchored = table.anchored_at_first_request == Some(true);
                    if anchored && table.offset.is_some() {
                        return Err(
                            "a window anchored at the first request has no grid: leave out `offset`"
                                .to_string(),
                        );
                    }
                    Self::FixedWindow(if anchored {
                        rule.anchored_at_first_request()
                    } else {
                        rule
                    })
                }
                Algorithm::SlidingLog => {
                    table.takes_only(&["resolution"])?;
                    let rule = SlidingLog::new(quota);
                    Self::SlidingLog(match table.resolution {
                        Some(Period(resolution)) => rule
                            .try_with_resolution(resolution)
                            .map_err(|error| error.to_string())?,
                        None => rule,
                    })
                }
                Algorithm::SlidingWindowCounter => {
                    table.takes_only(&["offset"])?;
                    Self::SlidingWindowCounter(SlidingWindowCounter::new(quota).with_offset(offset))
                }
            })
        }
    }

    impl From<Policy> for PolicyTable {
        fn from(policy: Policy) -> Self {
            let mut table = Self::new(policy.algorithm(), policy.quota());
            let offset = |offset: Duration| (!offset.is_zero()).then_some(Period(offset));
            match policy {
                Policy::TokenBucket(rule) => table.burst = Some(rule.burst()),
                Policy::LeakyBucket(rule) => table.burst = Some(rule.burst()),
                Policy::FixedWindow(rule) if rule.is_anchored_at_first_request() => {
                    table.anchored_at_first_request = Some(true);
                }
                Policy::FixedWindow(rule) => table.offset = offset(rule.offset()),
                Policy::SlidingLog(rule) => {
                    table.resolution = Some(Period(rule.resolution()));
                }
                Policy::SlidingWindowCounter(rule) => table.offset = offset(rule.offset()),
            }
            table
        }
    }
}
