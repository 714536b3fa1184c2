//! The errors of the rules: each says what is wrong and what would be right.

use alloc::string::String;
use core::fmt;

use thiserror::Error;

/// A cost that no wait would ever let pass: it is above what the limiter can grant at once.
///
/// "Never" is an error and not a refusal, so that no client waits for what cannot come.
///
/// ```
/// use tollgate::{Direct, Quota, Timestamp, TokenBucket};
///
/// let limiter = Direct::new(TokenBucket::new(Quota::per_minute(100)));
/// let error = limiter.check_n(101, Timestamp::EPOCH).unwrap_err();
/// assert_eq!((error.cost(), error.most()), (101, 100));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[error("a cost of {cost} can never be granted: this limit grants at most {most} at once")]
pub struct CostTooHigh {
    cost: u64,
    most: u64,
    member: usize,
}

impl CostTooHigh {
    #[cold]
    pub(crate) const fn new(cost: u64, most: u64) -> Self {
        Self {
            cost,
            most,
            member: 0,
        }
    }

    /// The same of a limit that is one of several.
    #[cold]
    pub(crate) const fn of_member(self, member: usize) -> Self {
        Self { member, ..self }
    }

    /// The cost that was asked for, in units.
    pub const fn cost(&self) -> u64 {
        self.cost
    }

    /// The largest cost that can be granted at once, in units.
    pub const fn most(&self) -> u64 {
        self.most
    }

    /// Which of several limits can never grant it: the first that cannot. A limit by itself is number 0.
    pub const fn member(&self) -> usize {
        self.member
    }
}

/// Why a limit and a period make no [`Quota`](crate::Quota).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum QuotaError {
    /// The limit is 0. Zero never means "unlimited": use no limiter for that.
    #[error("a limit of 0 would refuse everything for ever: use a limit of 1 or more")]
    ZeroLimit,
    /// The limit is above [`Quota::MAX_LIMIT`](crate::Quota::MAX_LIMIT).
    #[error("the limit is too large: use at most 9223372036854775807 (2^63 - 1)")]
    LimitTooLarge,
    /// The period is 0.
    #[error("a period of 0 is no length of time: use a period of 1 ns or more")]
    ZeroPeriod,
    /// The period is longer than `u64::MAX` nanoseconds.
    #[error("the period is too long: use at most 18446744073709551615 ns (584 years)")]
    PeriodTooLong,
}

/// Why a text is no [`Quota`](crate::Quota).
///
/// The message shows the text, what is wrong with it and what would be right.
///
/// ```
/// use tollgate::Quota;
///
/// let error = "100/fortnight".parse::<Quota>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r#""100/fortnight" is no quota: "fortnight" is no unit of time (ns, us, ms, s, min, h, d); write a limit and a period, such as "100/min", "10/s", "5000 per hour" or "1/30s""#
/// );
/// assert!("0/s".parse::<Quota>().unwrap_err().quota_error().is_some());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{text} is no quota: {problem}; write a limit and a period, such as \"100/min\", \"10/s\", \"5000 per hour\" or \"1/30s\""
)]
pub struct ParseQuotaError {
    text: Shown,
    problem: ParseProblem,
}

impl ParseQuotaError {
    pub(crate) fn new(text: &str, problem: ParseProblem) -> Self {
        Self {
            text: Shown::new(text),
            problem,
        }
    }

    /// The reason, if the text was read but its limit or period is out of range (zero, or too large).
    pub const fn quota_error(&self) -> Option<QuotaError> {
        match self.problem {
            ParseProblem::Quota(error) => Some(error),
            _ => None,
        }
    }
}

/// What is wrong with a text that should be a quota or a length of time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ParseProblem {
    #[error("it is empty")]
    Empty,
    #[error("{0} is no whole number")]
    NotANumber(Shown),
    #[error("after the limit comes \"/\" or \" per \", not {0}")]
    NoSeparator(Shown),
    #[error("the period is missing")]
    NoPeriod,
    #[error("{0} needs a unit of time (ns, us, ms, s, min, h, d)")]
    NoUnit(Shown),
    #[error("{0} is no unit of time (ns, us, ms, s, min, h, d)")]
    UnknownUnit(Shown),
    #[error("{0}")]
    Quota(QuotaError),
}

/// A burst out of range: a bucket holds at least 1 unit, and at most 2⁶³ − 1 less the cap on debt that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[error("a bucket cannot hold {burst} units: use a burst from 1 to {most}{}", self.why())]
pub struct BurstError {
    burst: u64,
    most: u64,
}

impl BurstError {
    pub(crate) const fn new(burst: u64, most: u64) -> Self {
        Self { burst, most }
    }

    /// The burst that was asked for, in units.
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    const fn why(&self) -> &'static str {
        if self.most == MOST_UNITS {
            " (2^63 - 1)"
        } else {
            " (2^63 - 1, less the cap on debt)"
        }
    }
}

/// A cap on debt out of range: what a limit grants at once and what it may be owed are together at most 2⁶³ − 1 units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[error(
    "a debt of {units} units is too much: use at most {most} (2^63 - 1, less what the limit grants at once)"
)]
pub struct DebtError {
    units: u64,
    most: u64,
}

impl DebtError {
    pub(crate) const fn new(units: u64, most: u64) -> Self {
        Self { units, most }
    }

    /// The cap that was asked for, in units.
    pub const fn units(&self) -> u64 {
        self.units
    }
}

/// A resolution longer than the period it divides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[error("a resolution of {resolution:?} is coarser than the whole period: use at most {period:?}")]
pub struct ResolutionError {
    resolution: core::time::Duration,
    period: core::time::Duration,
}

impl ResolutionError {
    pub(crate) const fn new(
        resolution: core::time::Duration,
        period: core::time::Duration,
    ) -> Self {
        Self { resolution, period }
    }
}

/// A name that is none of the five algorithms'.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{name} is no algorithm: use token-bucket, leaky-bucket, fixed-window, sliding-log or sliding-window-counter"
)]
pub struct UnknownAlgorithm {
    name: Shown,
}

impl UnknownAlgorithm {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: Shown::new(name),
        }
    }
}

/// A piece of somebody's text, quoted for an error message: one line, no control characters, not too long.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Shown(String);

impl Shown {
    pub(crate) fn new(text: &str) -> Self {
        let mut shown = String::from("\"");
        let mut chars = text.chars();
        for c in chars.by_ref().take(LONGEST_SHOWN_CHARS) {
            match c {
                '"' | '\\' => shown.extend(c.escape_default()),
                // What a terminal might obey, or what could not be told apart, is spelled out.
                _ => shown.extend(c.escape_debug()),
            }
        }
        shown.push_str(if chars.next().is_some() {
            "…\""
        } else {
            "\""
        });
        Self(shown)
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const LONGEST_SHOWN_CHARS: usize = 60;

/// The most units that any limit may count: 2⁶³ − 1.
const MOST_UNITS: u64 = (1 << 63) - 1;
