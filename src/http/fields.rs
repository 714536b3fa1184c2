//! [`QuotaFields`]: a decision as header fields, so that clients that mean well can behave.
//!
//! What a field promises is acted upon, so it must never promise too much. The simplest idea, to say how many units are left and
//! when the bucket is full, breaks at the first hit: 99 left for the next second, of a hundred a minute. So the time beside what is
//! left is the one in which so much may be used up at the quota's own rate; and whoever was refused is told a second at which it is
//! let pass, rounded up, never down: a client that comes back at the second it was told succeeds.

use core::fmt::Write as _;

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use thiserror::Error;

use crate::decision::Decision;
use crate::quota::Quota;
use crate::time::Timestamp;

/// Writes decisions as header fields: what is left of which quota, and when to come back.
///
/// ```
/// use http::HeaderMap;
/// use tollgate::http::QuotaFields;
/// use tollgate::{Direct, FixedWindow, Quota, Timestamp};
///
/// let quota = Quota::per_minute(2);
/// let fields = QuotaFields::new("default", quota)?;
/// let limiter = Direct::new(FixedWindow::new(quota));
/// let now = Timestamp::from_secs(90);
///
/// let mut headers = HeaderMap::new();
/// fields.write(&limiter.check(now), now, &mut headers);
/// assert_eq!(headers["ratelimit-policy"], "\"default\";q=2;w=60");
/// assert_eq!(headers["ratelimit"], "\"default\";r=1;t=30");
///
/// let mut headers = HeaderMap::new();
/// limiter.allow(now);
/// fields.write(&limiter.check(now), now, &mut headers);
/// assert_eq!(headers["ratelimit"], "\"default\";r=0;t=30");
/// assert_eq!(headers["retry-after"], "30");
/// # Ok::<(), tollgate::http::FieldError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaFields {
    members: Vec<Member>,
    styles: Vec<QuotaStyle>,
}

/// One limit, as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    name: String,
    quota: Quota,
}

/// In which syntax a quota is told. None of them is a standard: they are those of drafts, and of what is common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuotaStyle {
    /// `RateLimit-Policy` and `RateLimit` in the syntax of draft-ietf-httpapi-ratelimit-headers-08 to -11: a list of limits, of
    /// which each has `r` units left, to be used in no less than `t` seconds. `r` may be above the quota `q` where the burst is
    /// above the limit.
    Draft11,
    /// `RateLimit-Policy` and `RateLimit` in the syntax of draft -07: `limit=100, remaining=50, reset=30`.
    Draft07,
    /// `RateLimit-Limit`, `-Remaining`, `-Reset` and `-Policy` in the syntax of drafts -04 to -06.
    Draft06,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, which no document defines.
    XRateLimit(XReset),
}

/// What `X-RateLimit-Reset` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum XReset {
    /// Seconds since the Unix epoch, as GitHub and most others have it.
    #[default]
    Epoch,
    /// Seconds from now.
    Delta,
}

/// Why limits cannot be told so.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FieldError {
    /// The name of a limit would make the whole field unreadable.
    #[error("a limit's name must be of printable ASCII, and there must be one: {0:?} is none")]
    Name(String),
    /// Two limits of one name.
    #[error("two limits are named {0:?}: clients could not tell them apart")]
    Twice(String),
    /// Two syntaxes of one field.
    #[error("{0:?} and {1:?} write the same fields: choose one of them")]
    Clash(QuotaStyle, QuotaStyle),
}

impl QuotaFields {
    /// One limit, in the syntax of [draft -11](QuotaStyle::Draft11).
    ///
    /// # Errors
    ///
    /// [`FieldError`] if a field cannot carry the name.
    pub fn new(name: &str, quota: Quota) -> Result<Self, FieldError> {
        let fields = Self {
            members: Vec::new(),
            styles: vec![QuotaStyle::Draft11],
        };
        fields.and(name, quota)
    }

    /// One more, where several are one: in the order in which `check_each` reports them.
    ///
    /// # Errors
    ///
    /// [`FieldError`] if a field cannot carry the name, or another limit has it.
    pub fn and(mut self, name: &str, quota: Quota) -> Result<Self, FieldError> {
        if name.is_empty() || !name.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
            return Err(FieldError::Name(name.to_owned()));
        }
        if self.members.iter().any(|member| member.name == name) {
            return Err(FieldError::Twice(name.to_owned()));
        }
        self.members.push(Member {
            name: name.to_owned(),
            quota,
        });
        Ok(self)
    }

    /// The same in these syntaxes, beside each other where their fields have different names; with none, only `Retry-After` is
    /// written.
    ///
    /// # Errors
    ///
    /// [`FieldError`] if two of them write the same field.
    pub fn with_styles(
        mut self,
        styles: impl IntoIterator<Item = QuotaStyle>,
    ) -> Result<Self, FieldError> {
        self.styles.clear();
        for style in styles {
            if let Some(&other) = self.styles.iter().find(|other| other.clashes_with(style)) {
                return Err(FieldError::Clash(other, style));
            }
            self.styles.push(style);
        }
        Ok(self)
    }

    /// Writes a decision that was taken at `now`: the quotas, and if it is a refusal, `Retry-After`.
    ///
    /// Limits one behind the other are all told where the field is a list. Where it is not, the one that leaves the client less
    /// stays, and the longer wait.
    pub fn write(&self, decision: &Decision, now: Timestamp, headers: &mut HeaderMap) {
        self.write_each(decision, &[], now, headers);
    }

    /// The same of several limits, with what each of them says (`check_each` reports it).
    pub fn write_each(
        &self,
        decision: &Decision,
        members: &[Decision],
        now: Timestamp,
        headers: &mut HeaderMap,
    ) {
        let told = self.told(decision, members);
        for style in &self.styles {
            match style {
                QuotaStyle::Draft11 => self.write_draft_11(&told, headers),
                QuotaStyle::Draft07 => self.write_draft_07(&told, headers),
                QuotaStyle::Draft06 => self.write_draft_06(&told, headers),
                QuotaStyle::XRateLimit(reset) => {
                    self.write_x_rate_limit(&told, decision, *reset, now, headers);
                }
            }
        }
        if !decision.is_allowed() {
            write_retry_after(retry_after_s(decision, &told), headers);
        }
    }

    /// The names of the limits that have refused.
    pub(super) fn violated(&self, decision: &Decision, members: &[Decision]) -> Vec<&str> {
        let told = self.told(decision, members);
        let refused = told.iter().filter(|told| told.refuses);
        refused
            .map(|told| self.members[told.member].name.as_str())
            .collect()
    }

    fn told(&self, decision: &Decision, members: &[Decision]) -> Vec<Told> {
        if members.len() == self.members.len() {
            let members = self.members.iter().zip(members).enumerate();
            return members
                .map(|(index, (member, decision))| Told::of(index, member, decision))
                .collect();
        }
        // Of several it is told what they say together, by the one that has refused, or has the least left.
        let least_left = || {
            let mut members = self.members.iter();
            members.position(|member| member.quota.limit() == decision.limit())
        };
        let named = decision.refused_by().or_else(least_left).unwrap_or(0);
        let named = named.min(self.members.len() - 1);
        vec![Told::of(named, &self.members[named], decision)]
    }

    fn write_draft_11(&self, told: &[Told], headers: &mut HeaderMap) {
        let mut policies = String::new();
        for member in &self.members {
            separate(&mut policies);
            quote(&mut policies, &member.name);
            push(&mut policies, ";q=", member.quota.limit());
            if let Some(seconds) = whole_seconds(member.quota) {
                push(&mut policies, ";w=", seconds);
            }
        }
        append(headers, RATELIMIT_POLICY, &policies);
        let mut left = String::new();
        for told in told {
            separate(&mut left);
            quote(&mut left, &self.members[told.member].name);
            push(&mut left, ";r=", told.left);
            push(&mut left, ";t=", told.seconds);
        }
        append(headers, RATELIMIT, &left);
    }

    fn write_draft_07(&self, told: &[Told], headers: &mut HeaderMap) {
        self.write_old_policy(headers);
        if let Some(told) = nearest(told).filter(|told| is_news(headers, &RATELIMIT, told)) {
            let mut left = String::new();
            push(&mut left, "limit=", self.members[told.member].quota.limit());
            push(&mut left, ", remaining=", told.left);
            push(&mut left, ", reset=", told.seconds);
            insert(headers, RATELIMIT, &left);
        }
    }

    fn write_draft_06(&self, told: &[Told], headers: &mut HeaderMap) {
        self.write_old_policy(headers);
        let is_news = |told: &&Told| is_news(headers, &RATELIMIT_REMAINING, told);
        if let Some(told) = nearest(told).filter(is_news) {
            let limit = self.members[told.member].quota.limit();
            insert_number(headers, RATELIMIT_LIMIT, limit);
            insert_number(headers, RATELIMIT_REMAINING, told.left);
            insert_number(headers, RATELIMIT_RESET, told.seconds);
        }
    }

    /// `100;w=60`, of those limits that have whole seconds.
    fn write_old_policy(&self, headers: &mut HeaderMap) {
        let mut policies = String::new();
        for member in &self.members {
            if let Some(seconds) = whole_seconds(member.quota) {
                separate(&mut policies);
                push(&mut policies, "", member.quota.limit());
                push(&mut policies, ";w=", seconds);
            }
        }
        if !policies.is_empty() {
            append(headers, RATELIMIT_POLICY, &policies);
        }
    }

    fn write_x_rate_limit(
        &self,
        told: &[Told],
        decision: &Decision,
        reset: XReset,
        now: Timestamp,
        headers: &mut HeaderMap,
    ) {
        let is_news = |told: &&Told| is_news(headers, &X_RATELIMIT_REMAINING, told);
        let Some(told) = nearest(told).filter(is_news) else {
            return;
        };
        let limit = self.members[told.member].quota.limit();
        insert_number(headers, X_RATELIMIT_LIMIT, limit);
        insert_number(headers, X_RATELIMIT_REMAINING, told.left);
        let seconds = match reset {
            XReset::Delta => told.seconds,
            XReset::Epoch => {
                // The second at which it may come back, on the calendar: rounded up once, after the sum.
                let wait_ns = if decision.is_allowed() {
                    told.seconds.saturating_mul(NANOS_PER_SECOND)
                } else {
                    told.wait_ns.max(decision.retry_after_ns())
                };
                let at_ns = now.as_nanos().saturating_add(wait_ns);
                at_ns.div_ceil(NANOS_PER_SECOND)
            }
        };
        insert_number(headers, X_RATELIMIT_RESET, seconds);
    }
}

impl QuotaStyle {
    /// Whether both write a field of one name.
    fn clashes_with(self, other: Self) -> bool {
        let is_x = |style| matches!(style, Self::XRateLimit(_));
        // All drafts have `RateLimit-Policy`.
        is_x(self) == is_x(other)
    }
}

/// What is told of a limit.
struct Told {
    member: usize,
    refuses: bool,
    left: u64,
    /// The seconds in which what is left may be used up, or after which a request is let pass.
    seconds: u64,
    wait_ns: u64,
}

impl Told {
    fn of(index: usize, member: &Member, decision: &Decision) -> Self {
        let refuses = !decision.is_allowed();
        let wait_ns = decision.retry_after_ns();
        if refuses {
            return Self {
                member: index,
                refuses,
                left: 0,
                seconds: seconds_up(wait_ns),
                wait_ns,
            };
        }
        let left = decision.remaining();
        let quota = member.quota;
        // 128 bits hold any product of two numbers of 64.
        let at_the_rate =
            (u128::from(left) * u128::from(quota.period_ns())).div_ceil(u128::from(quota.limit()));
        let at_the_rate = u64::try_from(at_the_rate).unwrap_or(u64::MAX);
        let window_ns = if decision.is_of_bucket() {
            0
        } else {
            decision.reset_after_ns()
        };
        Self {
            member: index,
            refuses,
            left,
            seconds: seconds_up(at_the_rate.max(window_ns)),
            wait_ns,
        }
    }
}

/// The one that is told where only one can be: what refuses, and of those the one with the longest wait; else what has the least
/// left.
fn nearest(told: &[Told]) -> Option<&Told> {
    let refusing = told.iter().filter(|told| told.refuses);
    let longest = refusing.max_by_key(|told| told.wait_ns);
    longest.or_else(|| told.iter().min_by_key(|told| told.left))
}

/// Whether another limit has not already written that less is left.
fn is_news(headers: &HeaderMap, remaining: &HeaderName, told: &Told) -> bool {
    let there = headers.get(remaining).and_then(|value| value.to_str().ok());
    let number = there.map(|value| match value.split_once("remaining=") {
        Some((_, rest)) => rest.split(',').next().unwrap_or(rest),
        None => value,
    });
    let left = number.and_then(|number| number.parse::<u64>().ok());
    left.is_none_or(|left| told.left <= left)
}

/// Never earlier than any that has refused allows, nor than all of them do.
fn retry_after_s(decision: &Decision, told: &[Told]) -> u64 {
    let refusing = told.iter().filter(|told| told.refuses);
    let longest = refusing.map(|told| told.seconds).max().unwrap_or(1);
    longest.max(seconds_up(decision.retry_after_ns()))
}

fn write_retry_after(seconds: u64, headers: &mut HeaderMap) {
    let there = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok());
    let there = there.and_then(|value| value.parse().ok()).unwrap_or(0);
    insert_number(headers, RETRY_AFTER, seconds.max(there));
}

/// Whole seconds, rounded up, and one at least.
fn seconds_up(nanos: u64) -> u64 {
    nanos.div_ceil(NANOS_PER_SECOND).max(1)
}

fn whole_seconds(quota: Quota) -> Option<u64> {
    let nanos = quota.period_ns();
    (nanos % NANOS_PER_SECOND == 0).then_some(nanos / NANOS_PER_SECOND)
}

fn separate(list: &mut String) {
    if !list.is_empty() {
        list.push_str(", ");
    }
}

/// A string of a structured field: printable ASCII, as the name was checked to be.
fn quote(field: &mut String, name: &str) {
    field.push('"');
    for character in name.chars() {
        if matches!(character, '"' | '\\') {
            field.push('\\');
        }
        field.push(character);
    }
    field.push('"');
}

/// A number of a structured field has at most 15 digits: a longer one would make the whole field unreadable.
fn push(field: &mut String, before: &str, number: u64) {
    // Writing to a `String` cannot fail.
    let _ = write!(field, "{before}{}", number.min(LARGEST));
}

fn insert_number(headers: &mut HeaderMap, name: HeaderName, number: u64) {
    headers.insert(name, HeaderValue::from(number.min(LARGEST)));
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn append(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.append(name, value);
    }
}

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RATELIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

const LARGEST: u64 = 999_999_999_999_999;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
