//! [`Policy`]: one of the five rules, chosen at run time.

#[cfg(feature = "serde")]
mod config;

use alloc::boxed::Box;
use core::fmt;
use core::str::FromStr;

use crate::algorithm::{
    BucketFound, BucketState, CounterFound, FixedWindow, FixedWindowState, LeakyBucket, LogFound,
    SlidingLog, SlidingLogState, SlidingWindowCounter, SlidingWindowCounterState, TokenBucket,
    WindowFound,
};
use crate::decision::{Decision, Receipt, Recorded, Tail};
use crate::error::{CostTooHigh, DebtError, UnknownAlgorithm};
use crate::limiter::{Limiter, sealed};
use crate::quota::Quota;
use crate::time::Timestamp;

/// One of the five rules, chosen at run time: what a configuration gives.
///
/// It is a [`Limiter`] and decides exactly as the rule it holds does. A state takes 32 bytes.
///
/// With the feature `serde` it is a table of a configuration file: `algorithm` and `quota`, and what the algorithm
/// takes besides: `burst` (both buckets), `offset` (fixed window and counter), `anchored_at_first_request` (fixed
/// window), `resolution` (log), `max_debt` (all). A field that the algorithm does not take is refused. A quota by itself,
/// such as `"100/min"`, is a token bucket of it.
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
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(into = "config::PolicyTable"))]
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

    /// The same, owed at most `units` by what [`charge`](Limiter::charge) records beyond the limit.
    ///
    /// # Errors
    ///
    /// [`DebtError`] if `units` and what the limit grants at once are more than 2⁶³ − 1 together.
    pub const fn try_with_max_debt(self, units: u64) -> Result<Self, DebtError> {
        macro_rules! capped {
            ($kind:ident, $rule:expr) => {
                match $rule.try_with_max_debt(units) {
                    Ok(rule) => Ok(Self::$kind(rule)),
                    Err(error) => Err(error),
                }
            };
        }
        match self {
            Self::TokenBucket(rule) => capped!(TokenBucket, rule),
            Self::LeakyBucket(rule) => capped!(LeakyBucket, rule),
            Self::FixedWindow(rule) => capped!(FixedWindow, rule),
            Self::SlidingLog(rule) => capped!(SlidingLog, rule),
            Self::SlidingWindowCounter(rule) => capped!(SlidingWindowCounter, rule),
        }
    }

    /// How many units a client may owe.
    #[must_use]
    pub const fn max_debt(&self) -> u64 {
        match self {
            Self::TokenBucket(rule) => rule.max_debt(),
            Self::LeakyBucket(rule) => rule.max_debt(),
            Self::FixedWindow(rule) => rule.max_debt(),
            Self::SlidingLog(rule) => rule.max_debt(),
            Self::SlidingWindowCounter(rule) => rule.max_debt(),
        }
    }

    /// How many units a client may owe, where that was said.
    #[cfg(feature = "serde")]
    const fn set_max_debt(&self) -> Option<u64> {
        match self {
            Self::TokenBucket(rule) => rule.set_max_debt(),
            Self::LeakyBucket(rule) => rule.set_max_debt(),
            Self::FixedWindow(rule) => rule.set_max_debt(),
            Self::SlidingLog(rule) => rule.set_max_debt(),
            Self::SlidingWindowCounter(rule) => rule.set_max_debt(),
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PolicyState(Kept);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
enum Kept {
    Bucket(BucketState),
    FixedWindow(FixedWindowState),
    // Boxed, so that the four that are small stay so.
    SlidingLog(Box<SlidingLogState>),
    SlidingWindowCounter(SlidingWindowCounterState),
}

/// What was found of a state by the rule that a [`Policy`] holds.
#[derive(Clone, Copy, Debug)]
pub enum PolicyFound {
    Bucket(BucketFound),
    Window(WindowFound),
    Log(LogFound),
    Counter(CounterFound),
}

/// Asks the rule that the policy holds about the state that belongs to it.
///
/// A state that another kind of policy made tells nothing: `$other` says what to answer then.
macro_rules! with_rule {
    ($policy:expr, $kept:expr, $rule:ident, $state:pat => $answer:expr, else $other:expr) => {
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

/// Asks the rule that the policy holds about what it has found. `$other` is what never comes: a policy finds what is its
/// own kind's.
macro_rules! with_found {
    ($policy:expr, $found:expr, $rule:ident, $own:ident => $answer:expr, else $other:expr) => {
        match ($policy, $found) {
            (Policy::TokenBucket($rule), PolicyFound::Bucket($own)) => $answer,
            (Policy::LeakyBucket($rule), PolicyFound::Bucket($own)) => $answer,
            (Policy::FixedWindow($rule), PolicyFound::Window($own)) => $answer,
            (Policy::SlidingLog($rule), PolicyFound::Log($own)) => $answer,
            (Policy::SlidingWindowCounter($rule), PolicyFound::Counter($own)) => $answer,
            _ => $other,
        }
    };
}

impl Limiter for Policy {
    type State = PolicyState;
    type Found = PolicyFound;
    const SHAPES: bool = true;

    #[inline]
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

    fn refund(&self, state: &mut PolicyState, now: Timestamp, receipt: Receipt) -> u64 {
        with_rule!(self, &mut state.0, rule, state => rule.refund(state, now, receipt), else 0)
    }

    fn carry(&self, from: &Self, state: PolicyState, now: Timestamp) -> PolicyState {
        PolicyState(match (self, from, state.0) {
            (Self::TokenBucket(rule), Self::TokenBucket(from), Kept::Bucket(state)) => {
                Kept::Bucket(rule.carry(from, state, now))
            }
            (Self::LeakyBucket(rule), Self::LeakyBucket(from), Kept::Bucket(state)) => {
                Kept::Bucket(rule.carry(from, state, now))
            }
            (Self::FixedWindow(rule), Self::FixedWindow(from), Kept::FixedWindow(state)) => {
                Kept::FixedWindow(rule.carry(from, state, now))
            }
            (Self::SlidingLog(rule), Self::SlidingLog(from), Kept::SlidingLog(mut state)) => {
                let carried = rule.carry(from, core::mem::take(&mut state), now);
                *state = carried;
                Kept::SlidingLog(state)
            }
            (
                Self::SlidingWindowCounter(rule),
                Self::SlidingWindowCounter(from),
                Kept::SlidingWindowCounter(state),
            ) => Kept::SlidingWindowCounter(rule.carry(from, state, now)),
            _ => return self.fresh(now),
        })
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

    #[inline]
    #[cfg(feature = "wait")]
    fn check_in_turn(
        &self,
        state: &mut PolicyState,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, CostTooHigh> {
        match (self, &mut state.0) {
            (Self::TokenBucket(rule), Kept::Bucket(state)) => rule.check_in_turn(state, now, cost),
            (Self::LeakyBucket(rule), Kept::Bucket(state)) => rule.check_in_turn(state, now, cost),
            _ => self.check(state, now, cost),
        }
    }

    #[inline]
    fn look(
        &self,
        state: &PolicyState,
        now: Timestamp,
        cost: u64,
    ) -> Result<PolicyFound, CostTooHigh> {
        Ok(match (self, &state.0) {
            (Self::TokenBucket(rule), Kept::Bucket(state)) => {
                PolicyFound::Bucket(rule.look(state, now, cost)?)
            }
            (Self::LeakyBucket(rule), Kept::Bucket(state)) => {
                PolicyFound::Bucket(rule.look(state, now, cost)?)
            }
            (Self::FixedWindow(rule), Kept::FixedWindow(state)) => {
                PolicyFound::Window(rule.look(state, now, cost)?)
            }
            (Self::SlidingLog(rule), Kept::SlidingLog(state)) => {
                PolicyFound::Log(rule.look(state, now, cost)?)
            }
            (Self::SlidingWindowCounter(rule), Kept::SlidingWindowCounter(state)) => {
                PolicyFound::Counter(rule.look(state, now, cost)?)
            }
            _ => self.look(&self.fresh(now), now, cost)?,
        })
    }

    #[inline]
    fn admits(&self, found: &PolicyFound) -> bool {
        with_found!(self, found, rule, found => rule.admits(found), else false)
    }

    #[inline]
    fn take(&self, state: &mut PolicyState, now: Timestamp, found: &PolicyFound, cost: u64) {
        with_rule!(self, &state.0, _rule, _ => (), else *state = self.fresh(now));
        match (self, found, &mut state.0) {
            (Self::TokenBucket(rule), PolicyFound::Bucket(found), Kept::Bucket(state)) => {
                rule.take(state, now, found, cost);
            }
            (Self::LeakyBucket(rule), PolicyFound::Bucket(found), Kept::Bucket(state)) => {
                rule.take(state, now, found, cost);
            }
            (Self::FixedWindow(rule), PolicyFound::Window(found), Kept::FixedWindow(state)) => {
                rule.take(state, now, found, cost);
            }
            (Self::SlidingLog(rule), PolicyFound::Log(found), Kept::SlidingLog(state)) => {
                rule.take(state, now, found, cost);
            }
            (
                Self::SlidingWindowCounter(rule),
                PolicyFound::Counter(found),
                Kept::SlidingWindowCounter(state),
            ) => rule.take(state, now, found, cost),
            _ => {}
        }
    }

    #[inline]
    fn decision(&self, found: &PolicyFound, now: Timestamp, taken: u64) -> Decision {
        with_found!(
            self, found, rule, found => rule.decision(found, now, taken),
            else unreachable!("a policy finds what is of its own kind")
        )
    }

    fn record(&self, state: &mut PolicyState, now: Timestamp, units: u64) -> Recorded {
        with_rule!(self, &mut state.0, rule, state => rule.record(state, now, units), else {
            *state = self.fresh(now);
            self.record(state, now, units)
        })
    }

    #[inline]
    fn tail(&self, state: &PolicyState) -> Tail {
        with_rule!(self, &state.0, rule, state => rule.tail(state), else Tail::NONE)
    }

    fn redate(&self, state: &mut PolicyState, from: Timestamp, to: Timestamp) {
        with_rule!(self, &mut state.0, rule, state => rule.redate(state, from, to), else ());
    }

    fn is_sound(&self, state: &PolicyState) -> bool {
        with_rule!(self, &state.0, rule, state => rule.is_sound(state), else false)
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
