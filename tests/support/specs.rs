//! Limiters in the tests' own words, and how to draw one.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::{
    Algorithm, FixedWindow, LeakyBucket, Limiter, Policy, Quota, SlidingLog, SlidingWindowCounter,
    TokenBucket,
};

pub const SECOND: u64 = 1_000_000_000;

/// A limiter as plain numbers, times in nanoseconds; its `Debug` text is a Rust expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    pub limit: u64,
    pub period: u64,
    pub rule: Rule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    TokenBucket { burst: u64 },
    LeakyBucket { burst: u64 },
    FixedWindow { offset: u128 },
    AnchoredWindow,
    SlidingLog { resolution: u64 },
    SlidingWindowCounter { offset: u128 },
}

impl Spec {
    pub fn quota(&self) -> Quota {
        Quota::new(self.limit, Duration::from_nanos(self.period))
            .expect("drawn within a quota's range")
    }

    pub fn policy(&self) -> Policy {
        let quota = self.quota();
        match self.rule {
            Rule::TokenBucket { burst } => TokenBucket::new(quota).with_burst(burst).into(),
            Rule::LeakyBucket { burst } => LeakyBucket::new(quota).with_burst(burst).into(),
            Rule::FixedWindow { offset } => {
                FixedWindow::new(quota).with_offset(duration(offset)).into()
            }
            Rule::AnchoredWindow => FixedWindow::new(quota).anchored_at_first_request().into(),
            Rule::SlidingLog { resolution } => SlidingLog::new(quota)
                .with_resolution(Duration::from_nanos(resolution))
                .into(),
            Rule::SlidingWindowCounter { offset } => SlidingWindowCounter::new(quota)
                .with_offset(duration(offset))
                .into(),
        }
    }

    /// What could ever be granted at once.
    pub fn most(&self) -> u64 {
        match self.rule {
            Rule::TokenBucket { burst } | Rule::LeakyBucket { burst } => burst,
            _ => self.limit,
        }
    }

    /// The longest that anyone is ever told to wait, before it saturates.
    pub fn longest_wait(&self) -> u128 {
        let period = u128::from(self.period);
        match self.rule {
            Rule::TokenBucket { burst } | Rule::LeakyBucket { burst } => {
                (u128::from(burst) * period).div_ceil(self.limit.into())
            }
            Rule::SlidingWindowCounter { .. } => 2 * period,
            _ => period,
        }
    }

    /// Where the windows begin, or zero for a rule without a grid.
    pub fn offset(&self) -> i128 {
        match self.rule {
            Rule::FixedWindow { offset } | Rule::SlidingWindowCounter { offset } => offset
                .try_into()
                .expect("a duration's nanoseconds fit in 95 bits"),
            _ => 0,
        }
    }
}

/// A limiter under test: which algorithms it can be, and how to build it.
pub trait Subject: Limiter {
    const ALGORITHMS: &[Algorithm];
    fn build(spec: &Spec) -> Self;
}

impl Subject for Policy {
    const ALGORITHMS: &[Algorithm] = &Algorithm::ALL;

    fn build(spec: &Spec) -> Policy {
        spec.policy()
    }
}

macro_rules! subjects {
    ($($name:ident)*) => { $(
        impl Subject for $name {
            const ALGORITHMS: &[Algorithm] = &[Algorithm::$name];

            fn build(spec: &Spec) -> $name {
                match spec.policy() {
                    Policy::$name(limiter) => limiter,
                    other => panic!("{spec:?} became {other:?}"),
                }
            }
        }
    )* };
}

subjects! { TokenBucket LeakyBucket FixedWindow SlidingLog SlidingWindowCounter }

/// Limiters of these algorithms, over the whole range of their numbers; small numbers most often, for they meet most edges.
pub fn specs(algorithms: &'static [Algorithm]) -> impl Strategy<Value = Spec> {
    (
        select(algorithms),
        limits(),
        periods(),
        bursts(),
        offsets(),
        resolutions(),
        any::<bool>(),
    )
        .prop_map(
            |(algorithm, limit, period, burst, offset, resolution, anchored)| {
                let burst = burst.unwrap_or(limit);
                let offset = match offset {
                    Offset::Nanos(nanos) => nanos,
                    Offset::Part(part) => share(period, part).into(),
                };
                let rule = match algorithm {
                    Algorithm::TokenBucket => Rule::TokenBucket { burst },
                    Algorithm::LeakyBucket => Rule::LeakyBucket { burst },
                    Algorithm::FixedWindow if anchored => Rule::AnchoredWindow,
                    Algorithm::FixedWindow => Rule::FixedWindow { offset },
                    Algorithm::SlidingLog => Rule::SlidingLog {
                        resolution: resolution.map_or(1, |part| share(period, part).max(1)),
                    },
                    Algorithm::SlidingWindowCounter => Rule::SlidingWindowCounter { offset },
                    other => panic!("{other:?} is new here"),
                };
                Spec {
                    limit,
                    period,
                    rule,
                }
            },
        )
}

/// So many 256ths of `whole`, rounded down.
pub fn share(whole: u64, parts: u16) -> u64 {
    u64::try_from(u128::from(whole) * u128::from(parts) / 256).unwrap_or(u64::MAX)
}

fn limits() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 1..=12_u64,
        2 => 1..=1_000_u64,
        1 => (0..63_u32).prop_map(|bits| 1 << bits),
        2 => 1..=Quota::MAX_LIMIT,
        1 => Quota::MAX_LIMIT - 3..=Quota::MAX_LIMIT,
    ]
}

fn periods() -> impl Strategy<Value = u64> {
    prop_oneof![
        5 => 1..=30_u64,
        2 => 1..=10_000_u64,
        4 => select(&[1, 60, 3_600, 86_400][..]).prop_map(|seconds| seconds * SECOND),
        1 => (0..64_u32).prop_map(|bits| 1 << bits),
        1 => 1..=u64::MAX,
        1 => u64::MAX - 3..=u64::MAX,
    ]
}

fn bursts() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![2 => Just(None), 3 => limits().prop_map(Some)]
}

#[derive(Clone, Copy, Debug)]
enum Offset {
    Nanos(u128),
    Part(u16),
}

fn offsets() -> impl Strategy<Value = Offset> {
    prop_oneof![
        3 => Just(Offset::Nanos(0)),
        3 => (0..=256_u16).prop_map(Offset::Part),
        2 => (0..=40_u128).prop_map(Offset::Nanos),
        1 => (0..=u128::from(u64::MAX)).prop_map(Offset::Nanos),
        1 => (0..=Duration::MAX.as_nanos()).prop_map(Offset::Nanos),
    ]
}

/// In 256ths of the period; none is the default.
fn resolutions() -> impl Strategy<Value = Option<u16>> {
    prop_oneof![1 => Just(None), 1 => (0..=256_u16).prop_map(Some)]
}

fn duration(nanos: u128) -> Duration {
    let second = u128::from(SECOND);
    Duration::new(
        (nanos / second).try_into().expect("drawn as a duration"),
        (nanos % second) as u32,
    )
}
