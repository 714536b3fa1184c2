//! Limiters by short names, and what is known of each.

use std::time::Duration;

use tollgate::{
    Algorithm, All, FixedWindow, LeakyBucket, Limiter, Policy, Quota, SlidingLog,
    SlidingWindowCounter, TokenBucket,
};

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000 * US;
pub(crate) const SEC: u64 = 1_000 * MS;
pub(crate) const MIN: u64 = 60 * SEC;
pub(crate) const HOUR: u64 = 60 * MIN;
pub(crate) const DAY: u64 = 24 * HOUR;
pub(crate) const END: u64 = (1 << 63) - 1;
pub(crate) const MOST: u64 = Quota::MAX_LIMIT;

pub(crate) fn quota(limit: u64, period: u64) -> Quota {
    Quota::new(limit, Duration::from_nanos(period)).expect("a quota within DESIGN's range")
}
pub(crate) fn token(limit: u64, period: u64, burst: u64) -> Policy {
    TokenBucket::new(quota(limit, period))
        .with_burst(burst)
        .into()
}
pub(crate) fn leaky(limit: u64, period: u64, burst: u64) -> Policy {
    LeakyBucket::new(quota(limit, period))
        .with_burst(burst)
        .into()
}
pub(crate) fn grid(limit: u64, period: u64) -> Policy {
    FixedWindow::new(quota(limit, period)).into()
}
pub(crate) fn anchored(limit: u64, period: u64) -> Policy {
    FixedWindow::new(quota(limit, period))
        .anchored_at_first_request()
        .into()
}
pub(crate) fn log(limit: u64, period: u64) -> Policy {
    SlidingLog::new(quota(limit, period)).into()
}
pub(crate) fn counter(limit: u64, period: u64) -> Policy {
    SlidingWindowCounter::new(quota(limit, period)).into()
}
pub(crate) fn buckets(limit: u64, period: u64, burst: u64) -> Vec<Policy> {
    vec![token(limit, period, burst), leaky(limit, period, burst)]
}
pub(crate) fn windows(limit: u64, period: u64) -> Vec<Policy> {
    vec![
        grid(limit, period),
        anchored(limit, period),
        log(limit, period),
        counter(limit, period),
    ]
}
/// All five (the fixed window in both its forms), with a burst of the limit.
pub(crate) fn every(limit: u64, period: u64) -> Vec<Policy> {
    [buckets(limit, period, limit), windows(limit, period)].concat()
}

pub(crate) fn is_bucket(policy: Policy) -> bool {
    matches!(policy, Policy::TokenBucket(_) | Policy::LeakyBucket(_))
}
pub(crate) fn is_leaky(policy: Policy) -> bool {
    policy.algorithm() == Algorithm::LeakyBucket
}
/// Whether it is a fixed window that starts on the calendar's grid.
pub(crate) fn is_grid(policy: Policy) -> bool {
    matches!(policy, Policy::FixedWindow(window) if !window.is_anchored_at_first_request())
}
/// The most units that can ever be granted at once.
pub(crate) fn capacity(policy: Policy) -> u64 {
    match policy {
        Policy::TokenBucket(bucket) => bucket.burst(),
        Policy::LeakyBucket(bucket) => bucket.burst(),
        windows => windows.quota().limit(),
    }
}
/// The nanoseconds in which a bucket gains `units`, rounded up, saturating.
pub(crate) fn refill(policy: Policy, units: u64) -> u64 {
    let quota = policy.quota();
    let ns =
        (u128::from(units) * u128::from(quota.period_ns())).div_ceil(u128::from(quota.limit()));
    u64::try_from(ns).unwrap_or(u64::MAX)
}
/// DESIGN: no wait is longer than P, or one refill of the bucket, or 2·P for the counter.
pub(crate) fn longest_wait(policy: Policy, cost: u64) -> u64 {
    match policy {
        Policy::TokenBucket(_) | Policy::LeakyBucket(_) => refill(policy, cost),
        Policy::SlidingWindowCounter(_) => policy.quota().period_ns().saturating_mul(2),
        _ => policy.quota().period_ns(),
    }
}
/// How far below nothing a charge may take a client.
pub(crate) fn max_debt(policy: Policy) -> u64 {
    match policy {
        Policy::TokenBucket(rule) => rule.max_debt(),
        Policy::LeakyBucket(rule) => rule.max_debt(),
        Policy::FixedWindow(rule) => rule.max_debt(),
        Policy::SlidingLog(rule) => rule.max_debt(),
        Policy::SlidingWindowCounter(rule) => rule.max_debt(),
        other => panic!("{other:?}: an algorithm that these rows do not know"),
    }
}

/// The same algorithm with another limit, and a burst of that limit.
pub(crate) fn with_limit(policy: Policy, limit: u64) -> Policy {
    let period = policy.quota().period_ns();
    match policy {
        Policy::TokenBucket(_) => token(limit, period, limit),
        Policy::LeakyBucket(_) => leaky(limit, period, limit),
        Policy::FixedWindow(_) if is_grid(policy) => grid(limit, period),
        Policy::FixedWindow(_) => anchored(limit, period),
        Policy::SlidingLog(_) => log(limit, period),
        Policy::SlidingWindowCounter(_) => counter(limit, period),
        other => panic!("{other:?}: an algorithm that these rows do not know"),
    }
}

/// The same policy with another cap on debt.
pub(crate) fn with_max_debt(policy: Policy, units: u64) -> Policy {
    match policy {
        Policy::TokenBucket(rule) => rule.with_max_debt(units).into(),
        Policy::LeakyBucket(rule) => rule.with_max_debt(units).into(),
        Policy::FixedWindow(rule) => rule.with_max_debt(units).into(),
        Policy::SlidingLog(rule) => rule.with_max_debt(units).into(),
        Policy::SlidingWindowCounter(rule) => rule.with_max_debt(units).into(),
        other => panic!("{other:?}: an algorithm that these rows do not know"),
    }
}

/// A limiter that can be made of a policy, or of several.
pub(crate) trait Of<C>: Limiter + 'static {
    fn of(config: C) -> Self;
}

impl Of<Policy> for Policy {
    fn of(policy: Policy) -> Policy {
        policy
    }
}

impl Of<Policy> for (Policy,) {
    fn of(policy: Policy) -> (Policy,) {
        (policy,)
    }
}

impl Of<Policy> for All {
    fn of(policy: Policy) -> All {
        policy.into()
    }
}

impl Of<Vec<Policy>> for All {
    fn of(policies: Vec<Policy>) -> All {
        All::new(policies).expect("a limit or more")
    }
}

impl Of<Vec<Policy>> for (Policy, Policy) {
    fn of(policies: Vec<Policy>) -> (Policy, Policy) {
        policies
            .try_into()
            .map(|[a, b]: [_; 2]| (a, b))
            .expect("two limits")
    }
}

impl Of<Vec<Policy>> for (Policy, Policy, Policy) {
    fn of(policies: Vec<Policy>) -> (Policy, Policy, Policy) {
        let three = policies.try_into().map(|[a, b, c]: [_; 3]| (a, b, c));
        three.expect("three limits")
    }
}

macro_rules! one_of_five {
    ($($rule:ident)*) => { $(
        impl Of<Policy> for $rule {
            fn of(policy: Policy) -> $rule {
                match policy {
                    Policy::$rule(rule) => rule,
                    other => panic!("{other:?} is another algorithm"),
                }
            }
        }
    )* };
}
one_of_five! { TokenBucket LeakyBucket FixedWindow SlidingLog SlidingWindowCounter }
