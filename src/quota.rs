//! [`Quota`]: a limit and its period, and the parser of what people write.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::error::{ParseProblem, ParseQuotaError, QuotaError, Shown};
use crate::time::saturating_nanos;

/// How many units a client may spend per period.
///
/// The limit is 1..=2⁶³ − 1 units, the period 1 ns..=`u64::MAX` ns; a quota out of this range cannot be built. Zero
/// is an error and never means "unlimited".
///
/// # From text
///
/// A configuration says `100/min`, `10/s`, `5000 per hour`, `1/30s` or `3 per 10ms`: a whole number (underscores may
/// group its digits), `/` or `per`, and a unit of time with or without a count. The units are `ns`, `us` or `µs`,
/// `ms`, `s`, `min` or `m`, `h` and `d`, with their long names, in either case. `Display` writes the same form.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Quota;
///
/// assert_eq!("100/min".parse(), Ok(Quota::per_minute(100)));
/// assert_eq!("3 per 10ms".parse(), Ok(Quota::new(3, Duration::from_millis(10))?));
/// assert_eq!(Quota::per_hour(5000).to_string(), "5000/h");
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota {
    limit: u64,
    period_ns: u64,
}

impl Quota {
    /// The largest limit, 2⁶³ − 1 units.
    pub const MAX_LIMIT: u64 = (1 << 63) - 1;

    /// `limit` units per second.
    ///
    /// # Panics
    ///
    /// If `limit` is 0 or above [`MAX_LIMIT`](Self::MAX_LIMIT). For a number that is not in the code, use
    /// [`Quota::new`].
    pub const fn per_second(limit: u64) -> Self {
        Self::literal(limit, SECOND_NS)
    }

    /// `limit` units per minute.
    ///
    /// # Panics
    ///
    /// As [`per_second`](Self::per_second).
    pub const fn per_minute(limit: u64) -> Self {
        Self::literal(limit, MINUTE_NS)
    }

    /// `limit` units per hour.
    ///
    /// # Panics
    ///
    /// As [`per_second`](Self::per_second).
    pub const fn per_hour(limit: u64) -> Self {
        Self::literal(limit, HOUR_NS)
    }

    /// `limit` units per day of 24 hours.
    ///
    /// # Panics
    ///
    /// As [`per_second`](Self::per_second).
    pub const fn per_day(limit: u64) -> Self {
        Self::literal(limit, DAY_NS)
    }

    /// `limit` units per `period`.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if the limit or the period is zero or too large.
    pub const fn new(limit: u64, period: Duration) -> Result<Self, QuotaError> {
        if period.as_nanos() > u64::MAX as u128 {
            return Err(QuotaError::PeriodTooLong);
        }
        Self::from_nanos(limit, saturating_nanos(period))
    }

    /// The units per period, 1..=2⁶³ − 1.
    #[inline]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The length of time that the limit is for.
    #[inline]
    pub const fn period(&self) -> Duration {
        Duration::from_nanos(self.period_ns)
    }

    /// The period in nanoseconds, 1..=`u64::MAX`.
    #[inline]
    pub const fn period_ns(&self) -> u64 {
        self.period_ns
    }

    const fn from_nanos(limit: u64, period_ns: u64) -> Result<Self, QuotaError> {
        if limit == 0 {
            return Err(QuotaError::ZeroLimit);
        }
        if limit > Self::MAX_LIMIT {
            return Err(QuotaError::LimitTooLarge);
        }
        if period_ns == 0 {
            return Err(QuotaError::ZeroPeriod);
        }
        Ok(Self { limit, period_ns })
    }

    const fn literal(limit: u64, period_ns: u64) -> Self {
        match Self::from_nanos(limit, period_ns) {
            Ok(quota) => quota,
            Err(QuotaError::ZeroLimit) => panic!("a quota's limit must be at least 1"),
            Err(_) => panic!("a quota's limit must be at most 2^63 - 1"),
        }
    }
}

impl FromStr for Quota {
    type Err = ParseQuotaError;

    fn from_str(text: &str) -> Result<Self, ParseQuotaError> {
        parse_quota(text.trim()).map_err(|problem| ParseQuotaError::new(text, problem))
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, unit) = in_largest_unit(self.period_ns);
        match count {
            1 => write!(f, "{}/{unit}", self.limit),
            _ => write!(f, "{}/{count}{unit}", self.limit),
        }
    }
}

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quota({self})")
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Quota {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Quota {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = alloc::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A length of time as a configuration writes it: `30s`, `10ms`, `1h`.
#[cfg(feature = "serde")]
pub(crate) mod period_text {
    use core::time::Duration;

    use alloc::borrow::Cow;
    use alloc::format;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{in_largest_unit, parse_period, saturating_nanos};
    use crate::error::Shown;

    pub(crate) fn serialize<S: Serializer>(
        period: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let (count, unit) = in_largest_unit(saturating_nanos(*period));
        serializer.collect_str(&format_args!("{count}{unit}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        match parse_period(text.trim()) {
            Ok(nanos) => Ok(Duration::from_nanos(nanos)),
            Err(problem) => Err(D::Error::custom(format!(
                "{} is no length of time: {problem}; write a number and a unit, such as \"30s\" or \"10ms\"",
                Shown::new(&text)
            ))),
        }
    }
}

fn parse_quota(text: &str) -> Result<Quota, ParseProblem> {
    if text.is_empty() {
        return Err(ParseProblem::Empty);
    }
    let (number, rest) = split_number(text);
    if number.is_empty() {
        return Err(ParseProblem::NotANumber(Shown::new(first_word(text))));
    }
    // What follows the digits directly belongs to them: "1.5/s" is a bad number, not a missing separator.
    if rest.starts_with(|c: char| !c.is_whitespace() && c != '/') {
        return Err(ParseProblem::NotANumber(Shown::new(first_word(text))));
    }
    let rest = rest.trim_start();
    let period = match rest.strip_prefix('/') {
        Some(period) => period,
        None => strip_per(rest).ok_or_else(|| match rest {
            "" => ParseProblem::NoPeriod,
            per if per.eq_ignore_ascii_case("per") => ParseProblem::NoPeriod,
            _ => ParseProblem::NoSeparator(Shown::new(rest)),
        })?,
    };
    let period = period.trim_start();
    if period.is_empty() {
        return Err(ParseProblem::NoPeriod);
    }
    let period_ns = match split_number(period) {
        ("", unit) => unit_ns(unit)?,
        _ => parse_period(period)?,
    };
    let limit = parse_number(number)?.ok_or(ParseProblem::Quota(QuotaError::LimitTooLarge))?;
    Quota::from_nanos(limit, period_ns).map_err(ParseProblem::Quota)
}

/// `30s` or `10 ms`, in nanoseconds.
fn parse_period(text: &str) -> Result<u64, ParseProblem> {
    if text.is_empty() {
        return Err(ParseProblem::Empty);
    }
    let (number, unit) = split_number(text);
    if number.is_empty() {
        return Err(ParseProblem::NotANumber(Shown::new(text)));
    }
    if unit.starts_with(['.', ',']) {
        return Err(ParseProblem::NotANumber(Shown::new(text)));
    }
    let unit = unit.trim_start();
    if unit.is_empty() {
        return Err(ParseProblem::NoUnit(Shown::new(number)));
    }
    let unit_ns = unit_ns(unit)?;
    parse_number(number)?
        .and_then(|count| count.checked_mul(unit_ns))
        .ok_or(ParseProblem::Quota(QuotaError::PeriodTooLong))
}

/// Splits off the leading digits, with the underscores that group them.
fn split_number(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '_')
        .unwrap_or(text.len());
    text.split_at(end)
}

/// The number, or `None` if it is above `u64::MAX`.
fn parse_number(digits: &str) -> Result<Option<u64>, ParseProblem> {
    // As in Rust, an underscore stands between digits.
    if digits.starts_with('_') || digits.ends_with('_') {
        return Err(ParseProblem::NotANumber(Shown::new(digits)));
    }
    let plain: String = digits.chars().filter(|&c| c != '_').collect();
    Ok(plain.parse().ok())
}

/// What follows a leading `per` and white space.
fn strip_per(text: &str) -> Option<&str> {
    let (per, rest) = text.split_at_checked(3)?;
    (per.eq_ignore_ascii_case("per") && rest.starts_with(char::is_whitespace)).then_some(rest)
}

fn first_word(text: &str) -> &str {
    let end = text.find(|c: char| c.is_whitespace() || c == '/');
    match end {
        Some(0) | None => text,
        Some(end) => &text[..end],
    }
}

fn unit_ns(name: &str) -> Result<u64, ParseProblem> {
    let lower = name.to_lowercase();
    UNITS
        .iter()
        .find(|(_, names)| names.contains(&lower.as_str()))
        .map(|&(nanos, _)| nanos)
        .ok_or_else(|| ParseProblem::UnknownUnit(Shown::new(name)))
}

/// The length as a whole count of the largest unit that divides it.
fn in_largest_unit(nanos: u64) -> (u64, &'static str) {
    let whole = |&&(unit_ns, _): &&(u64, _)| nanos > 0 && nanos % unit_ns == 0;
    let (unit_ns, names) = UNITS.iter().find(whole).unwrap_or(&UNITS[UNITS.len() - 1]);
    (nanos / unit_ns, names[0])
}

const SECOND_NS: u64 = 1_000_000_000;
const MINUTE_NS: u64 = 60 * SECOND_NS;
const HOUR_NS: u64 = 60 * MINUTE_NS;
const DAY_NS: u64 = 24 * HOUR_NS;

/// Each unit with its names, the one that `Display` writes first; the longest unit first.
const UNITS: [(u64, &[&str]); 7] = [
    (DAY_NS, &["d", "day", "days"]),
    (HOUR_NS, &["h", "hr", "hrs", "hour", "hours"]),
    (MINUTE_NS, &["min", "m", "mins", "minute", "minutes"]),
    (SECOND_NS, &["s", "sec", "secs", "second", "seconds"]),
    (1_000_000, &["ms", "msec", "millisecond", "milliseconds"]),
    // The micro sign and the Greek letter look alike; lower-casing keeps both as they are.
    (
        1_000,
        &["us", "µs", "μs", "usec", "microsecond", "microseconds"],
    ),
    (1, &["ns", "nsec", "nanosecond", "nanoseconds"]),
];
