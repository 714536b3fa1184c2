//! Limiters in the tests' own words, and how to draw one.

use std::fmt;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tollgate::{
    Algorithm, All, FixedWindow, LeakyBucket, Limiter, Policy, Quota, Shadow, SlidingLog,
    SlidingWindowCounter, TokenBucket,
};

pub const SECOND: u64 = 1_000_000_000;

/// A limiter as plain numbers, times in nanoseconds; its `Debug` text is a Rust expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    pub limit: u64,
    pub period: u64,
    pub rule: Rule,
    /// None is the default.
    pub max_debt: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
        /// The rule, with a cap on debt where one was drawn.
        macro_rules! owing {
            ($rule:expr) => {{
                let rule = $rule;
                self.max_debt
                    .map_or(rule, |units| rule.with_max_debt(units))
                    .into()
            }};
        }
        let quota = self.quota();
        match self.rule {
            Rule::TokenBucket { burst } => owing!(TokenBucket::new(quota).with_burst(burst)),
            Rule::LeakyBucket { burst } => owing!(LeakyBucket::new(quota).with_burst(burst)),
            Rule::FixedWindow { offset } => {
                owing!(FixedWindow::new(quota).with_offset(duration(offset)))
            }
            Rule::AnchoredWindow => owing!(FixedWindow::new(quota).anchored_at_first_request()),
            Rule::SlidingLog { resolution } => {
                owing!(SlidingLog::new(quota).with_resolution(Duration::from_nanos(resolution)))
            }
            Rule::SlidingWindowCounter { offset } => {
                owing!(SlidingWindowCounter::new(quota).with_offset(duration(offset)))
            }
        }
    }

    /// What could ever be granted at once.
    pub fn most(&self) -> u64 {
        match self.rule {
            Rule::TokenBucket { burst } | Rule::LeakyBucket { burst } => burst,
            _ => self.limit,
        }
    }

    /// How many units a client may owe: as many as could be granted, unless said otherwise; both together have a bound.
    pub fn max_debt(&self) -> u64 {
        let bound = Quota::MAX_LIMIT - self.most();
        self.max_debt.unwrap_or(self.most().min(bound))
    }

    /// The longest that anyone who has used at most so many units is told to wait, before it saturates.
    pub fn longest_wait(&self, used: u64) -> u128 {
        let period = u128::from(self.period);
        match self.rule {
            Rule::TokenBucket { .. } | Rule::LeakyBucket { .. } => {
                (u128::from(used) * period).div_ceil(self.limit.into())
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

    /// Whether charges of different instants may be dated together.
    pub const fn is_coarse(&self) -> bool {
        matches!(self.rule, Rule::SlidingLog { resolution } if resolution > 1)
    }

    pub const fn is_queue(&self) -> bool {
        matches!(self.rule, Rule::LeakyBucket { .. })
    }
}

/// Limiters as one; its `Debug` text is a Rust expression.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Composed {
    Alone(Spec),
    Together(Vec<Composed>),
    Tried(Box<Composed>),
}

pub fn alone(spec: Spec) -> Composed {
    Composed::Alone(spec)
}

pub fn together<const N: usize>(members: [Composed; N]) -> Composed {
    Composed::Together(members.into())
}

/// In shadow mode.
pub fn tried(inner: Composed) -> Composed {
    Composed::Tried(Box::new(inner))
}

impl Composed {
    /// The rules that this is made of, in order.
    pub fn rules(&self) -> Vec<Spec> {
        match self {
            Composed::Alone(spec) => vec![*spec],
            Composed::Together(members) => members.iter().flat_map(Composed::rules).collect(),
            Composed::Tried(inner) => inner.rules(),
        }
    }

    /// The only rule of a limiter that is not composed.
    pub fn rule(&self) -> &Spec {
        match self {
            Composed::Alone(spec) => spec,
            composed => panic!("{composed:?} is several limits, or one that is tried"),
        }
    }

    /// What could ever be granted at once, or `None` where nothing is too much.
    pub fn most(&self) -> Option<u64> {
        match self {
            Composed::Alone(spec) => Some(spec.most()),
            Composed::Together(members) => members.iter().filter_map(Composed::most).min(),
            Composed::Tried(_) => None,
        }
    }
}

impl fmt::Debug for Composed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Composed::Alone(spec) => write!(f, "alone({spec:?})"),
            Composed::Together(members) => write!(f, "together({members:?})"),
            Composed::Tried(inner) => write!(f, "tried({inner:?})"),
        }
    }
}

/// What a limiter is made of.
#[derive(Clone, Debug)]
pub enum Kind {
    /// One rule, of one of these algorithms.
    Alone(&'static [Algorithm]),
    Together(Vec<Kind>),
    /// As many rules as may be drawn, of these algorithms.
    List(&'static [Algorithm]),
    Tried(Box<Kind>),
}

/// How many members at most are drawn for a list.
const LONGEST_LIST: usize = 3;

impl Kind {
    pub fn rules(&self) -> usize {
        match self {
            Kind::Alone(_) => 1,
            Kind::Together(members) => members.iter().map(Kind::rules).sum(),
            Kind::List(_) => LONGEST_LIST,
            Kind::Tried(inner) => inner.rules(),
        }
    }

    /// A limiter of this kind, of rules that `next` draws.
    fn composed(&self, next: &mut impl FnMut(&'static [Algorithm]) -> (Spec, u16)) -> Composed {
        match self {
            Kind::Alone(algorithms) => alone(next(algorithms).0),
            Kind::Together(members) => {
                Composed::Together(members.iter().map(|kind| kind.composed(next)).collect())
            }
            Kind::List(algorithms) => {
                let mut members = Vec::new();
                for _ in 0..LONGEST_LIST {
                    let (spec, chance) = next(algorithms);
                    // The first is always there: a list is never empty.
                    if members.is_empty() || chance % 3 > 0 {
                        members.push(alone(spec));
                    }
                }
                Composed::Together(members)
            }
            Kind::Tried(inner) => tried(inner.composed(next)),
        }
    }
}

/// A limiter under test: what it is made of, and how to build it.
pub trait Subject: Limiter<State: Clone> {
    fn kind() -> Kind;
    fn build(limits: &Composed) -> Self;
}

impl Subject for Policy {
    fn kind() -> Kind {
        Kind::Alone(&Algorithm::ALL)
    }

    fn build(limits: &Composed) -> Policy {
        limits.rule().policy()
    }
}

impl Subject for All {
    fn kind() -> Kind {
        Kind::List(&Algorithm::ALL)
    }

    fn build(limits: &Composed) -> All {
        match limits {
            Composed::Together(members) => {
                let policies = members.iter().map(|member| member.rule().policy());
                All::new(policies).expect("a list is drawn with at least one member")
            }
            other => panic!("{other:?} is no list"),
        }
    }
}

impl<S: Subject> Subject for Shadow<S> {
    fn kind() -> Kind {
        Kind::Tried(Box::new(S::kind()))
    }

    fn build(limits: &Composed) -> Shadow<S> {
        match limits {
            Composed::Tried(inner) => Shadow::new(S::build(inner)),
            other => panic!("{other:?} is not in shadow mode"),
        }
    }
}

macro_rules! subjects {
    ($($name:ident)*) => { $(
        impl Subject for $name {
            fn kind() -> Kind {
                Kind::Alone(&[Algorithm::$name])
            }

            fn build(limits: &Composed) -> $name {
                match limits.rule().policy() {
                    Policy::$name(limiter) => limiter,
                    other => panic!("{limits:?} became {other:?}"),
                }
            }
        }
    )* };
}

subjects! { TokenBucket LeakyBucket FixedWindow SlidingLog SlidingWindowCounter }

macro_rules! tuples {
    ($(($($member:ident)*))*) => { $(
        impl<$($member: Subject),*> Subject for ($($member,)*) {
            fn kind() -> Kind {
                Kind::Together(vec![$($member::kind()),*])
            }

            fn build(limits: &Composed) -> ($($member,)*) {
                let Composed::Together(members) = limits else {
                    panic!("{limits:?} is no tuple");
                };
                let mut members = members.iter();
                ($($member::build(members.next().expect("a member for each")),)*)
            }
        }
    )* };
}

tuples! { (A) (A B) (A B C) }

/// Limiters of these algorithms, over the whole range of their numbers; small numbers most often, for they meet most edges.
pub fn specs(algorithms: &'static [Algorithm]) -> impl Strategy<Value = Spec> {
    numbers().prop_map(move |numbers| numbers.spec(algorithms))
}

/// Limiters of one kind; those after the first are changes of it, which often keep some of its numbers.
pub fn limits_of(kind: Kind, most: usize) -> impl Strategy<Value = Vec<Composed>> {
    let rules = kind.rules();
    vec(vec(numbers(), rules), 1..=most).prop_map(move |mut drawn| {
        // What one limit says of another is seldom told from numbers that have nothing in common.
        for at in 1..rules {
            drawn[0][at] = drawn[0][at].beside(&drawn[0][at - 1]);
        }
        let first = drawn[0].clone();
        for changed in &mut drawn[1..] {
            for (changed, was) in changed.iter_mut().zip(&first) {
                *changed = changed.after(was);
            }
        }
        let composed = drawn.iter().map(|numbers| {
            let mut numbers = numbers.iter();
            kind.composed(&mut |algorithms| {
                let numbers = numbers.next().expect("as many as there are rules");
                (numbers.spec(algorithms), numbers.chance)
            })
        });
        composed.collect()
    })
}

/// The numbers of a rule before it is known which of them its algorithm takes.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    algorithm: u8,
    limit: u64,
    period: u64,
    burst: Option<u64>,
    offset: Offset,
    /// In 256ths of the period; none is the default.
    resolution: Option<u16>,
    anchored: bool,
    debt: Debt,
    /// What it keeps of another's numbers, bit by bit.
    keeps: u16,
    chance: u16,
}

fn numbers() -> impl Strategy<Value = Numbers> {
    let rule = (any::<u8>(), limits(), periods(), bursts(), offsets());
    let rest = (
        resolutions(),
        any::<bool>(),
        debts(),
        any::<u16>(),
        any::<u16>(),
    );
    (rule, rest).prop_map(|(rule, rest)| {
        let (algorithm, limit, period, burst, offset) = rule;
        let (resolution, anchored, debt, keeps, chance) = rest;
        Numbers {
            algorithm,
            limit,
            period,
            burst,
            offset,
            resolution,
            anchored,
            debt,
            keeps,
            chance,
        }
    })
}

impl Numbers {
    /// These, as a change of others. An algorithm is kept more often than not: else a change carries nothing.
    fn after(self, was: &Numbers) -> Numbers {
        let keeps = |bit: u32| self.keeps >> bit & 1 == 1;
        let mut changed = self;
        if keeps(0) || keeps(1) {
            changed.algorithm = was.algorithm;
        }
        if keeps(2) {
            changed.limit = was.limit;
        }
        if keeps(3) {
            changed.period = was.period;
        }
        if keeps(4) {
            changed.burst = was.burst;
        }
        if keeps(5) {
            changed.offset = was.offset;
        }
        if keeps(6) {
            changed.resolution = was.resolution;
        }
        if keeps(7) {
            changed.anchored = was.anchored;
        }
        if keeps(8) {
            changed.debt = was.debt;
        }
        changed
    }

    /// These, as those of a limit beside another.
    fn beside(self, other: &Numbers) -> Numbers {
        let mut numbers = self;
        if self.keeps & 1 == 1 {
            numbers.period = other.period;
        }
        if self.keeps & 2 == 2 {
            numbers.limit = other.limit;
        }
        numbers
    }

    fn spec(&self, algorithms: &[Algorithm]) -> Spec {
        let Numbers { limit, period, .. } = *self;
        let burst = self.burst.unwrap_or(limit);
        let offset = match self.offset {
            Offset::Nanos(nanos) => nanos,
            Offset::Part(part) => share(period, part).into(),
        };
        let rule = match algorithms[usize::from(self.algorithm) % algorithms.len()] {
            Algorithm::TokenBucket => Rule::TokenBucket { burst },
            Algorithm::LeakyBucket => Rule::LeakyBucket { burst },
            Algorithm::FixedWindow if self.anchored => Rule::AnchoredWindow,
            Algorithm::FixedWindow => Rule::FixedWindow { offset },
            Algorithm::SlidingLog => Rule::SlidingLog {
                resolution: self.resolution.map_or(1, |part| share(period, part).max(1)),
            },
            Algorithm::SlidingWindowCounter => Rule::SlidingWindowCounter { offset },
            other => panic!("{other:?} is new here"),
        };
        let mut spec = Spec {
            limit,
            period,
            rule,
            max_debt: None,
        };
        let bound = Quota::MAX_LIMIT - spec.most();
        spec.max_debt = match self.debt {
            Debt::Default => None,
            Debt::Units(units) => Some(units.min(bound)),
            Debt::Share(parts) => Some(share(spec.most(), parts).min(bound)),
            Debt::Bound(less) => Some(bound.saturating_sub(less)),
        };
        spec
    }
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
enum Debt {
    Default,
    Units(u64),
    /// 256ths of what could be granted.
    Share(u16),
    /// The most that may be set, less so many units.
    Bound(u64),
}

fn debts() -> impl Strategy<Value = Debt> {
    prop_oneof![
        4 => Just(Debt::Default),
        2 => Just(Debt::Units(0)),
        3 => (1..=6_u64).prop_map(Debt::Units),
        2 => (0..=512_u16).prop_map(Debt::Share),
        1 => limits().prop_map(Debt::Units),
        1 => (0..=2_u64).prop_map(Debt::Bound),
    ]
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
