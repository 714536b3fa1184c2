//! What one decision costs: each rule alone, allowed and refused, of cost 1 and of cost n, and through `Direct` and
//! `Keyed`; two limits as one, a limit that is only tried, and plans, each beside what it adds to; beside them all what
//! reading the clock costs, in the same run.
//!
//! Time is simulated and advances by a microsecond a call, so that nothing is answered from a clock that stands still.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use tollgate::{
    Algorithm, All, Clock, Direct, Keyed, Limiter, PlanId, Plans, Policy, Quota, Shadow,
    SlidingLog, SystemClock, TickingClock, Timestamp, TokenBucket,
};

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = clocks, rules, direct, keyed, composed, plans
}
criterion_main!(benches);

fn clocks(c: &mut Criterion) {
    let mut group = c.benchmark_group("clock");
    group.bench_function("Instant::now", |b| b.iter(Instant::now));
    group.bench_function("SystemClock", |b| b.iter(|| SystemClock::new().now()));
    let ticking = TickingClock::new();
    group.bench_function("TickingClock", |b| b.iter(|| ticking.now()));
}

fn rules(c: &mut Criterion) {
    let mut group = c.benchmark_group("rule");
    each_rule(|name, generous, exhausted| {
        for cost in [1, 7] {
            rule(
                &mut group,
                &format!("{name}/allowed/cost {cost}"),
                generous,
                cost,
            );
            rule(
                &mut group,
                &format!("{name}/refused/cost {cost}"),
                exhausted,
                cost,
            );
        }
        match generous {
            Policy::TokenBucket(limiter) => bare(&mut group, name, limiter),
            Policy::LeakyBucket(limiter) => bare(&mut group, name, limiter),
            Policy::FixedWindow(limiter) => bare(&mut group, name, limiter),
            Policy::SlidingLog(limiter) => bare(&mut group, name, limiter),
            Policy::SlidingWindowCounter(limiter) => bare(&mut group, name, limiter),
            other => panic!("a rule without a bench: {other:?}"),
        }
    });
}

/// Through `Policy`, which chooses the rule at run time.
fn rule(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, policy: Policy, cost: u64) {
    let mut state = policy.fresh(START);
    let _ = policy.check(
        &mut state,
        START,
        policy.quota().limit().min(EXHAUSTED_LIMIT),
    );
    let mut time = Ticks::new();
    group.bench_function(format!("policy/{name}"), |b| {
        b.iter(|| {
            policy
                .check(&mut state, time.next(), black_box(cost))
                .is_ok_and(|d| d.is_allowed())
        });
    });
}

/// The rule itself, whose type the compiler knows.
fn bare<L: Limiter + Copy>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, limiter: L) {
    let mut state = limiter.fresh(START);
    let mut time = Ticks::new();
    group.bench_function(format!("{name}/allowed"), |b| {
        b.iter(|| {
            limiter
                .check(&mut state, time.next(), 1)
                .is_ok_and(|d| d.is_allowed())
        });
    });
    let mut time = Ticks::new();
    group.bench_function(format!("{name}/allowed, all fields read"), |b| {
        b.iter(|| {
            limiter.check(&mut state, time.next(), 1).map(|d| {
                (
                    d.is_allowed(),
                    d.remaining(),
                    d.retry_after(),
                    d.reset_after(),
                    d.delay(),
                )
            })
        });
    });
}

fn direct(c: &mut Criterion) {
    let mut group = c.benchmark_group("direct");
    each_rule(|name, generous, exhausted| {
        for (outcome, policy) in [("allowed", generous), ("refused", exhausted)] {
            let limiter = Direct::new(policy);
            let _ = limiter.check_n(policy.quota().limit().min(EXHAUSTED_LIMIT), START);
            let mut time = Ticks::new();
            group.bench_function(format!("{name}/{outcome}"), |b| {
                b.iter(|| limiter.allow(time.next()));
            });
        }
    });
}

fn keyed(c: &mut Criterion) {
    let mut group = c.benchmark_group("keyed");
    each_rule(|name, generous, exhausted| {
        for (outcome, policy) in [("allowed", generous), ("refused", exhausted)] {
            let limiter: Keyed<u64, _> = Keyed::new(policy);
            let _ = limiter.check_n(&7, policy.quota().limit().min(EXHAUSTED_LIMIT), START);
            let mut time = Ticks::new();
            group.bench_function(format!("{name}/{outcome}"), |b| {
                b.iter(|| limiter.allow(&7, time.next()));
            });
        }
    });
}

/// One token bucket, and two of them as one limit; all that are called are allowed, or refused by the last.
fn composed(c: &mut Criterion) {
    let mut group = c.benchmark_group("composed");
    let generous = TokenBucket::new(Quota::per_hour(1 << 62));
    let exhausted = TokenBucket::new(Quota::per_day(EXHAUSTED_LIMIT));
    for (outcome, last) in [("allowed", generous), ("refused", exhausted)] {
        let all = All::new([generous.into(), last.into()]).expect("two policies");
        beside(&mut group, &format!("one/{outcome}"), last);
        beside(
            &mut group,
            &format!("tuple of two/{outcome}"),
            (generous, last),
        );
        beside(&mut group, &format!("All of two/{outcome}"), all);
        beside(&mut group, &format!("Shadow/{outcome}"), Shadow::new(last));
    }
}

/// By itself and through `Direct`.
fn beside<L: Limiter>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, limiter: L) {
    let mut state = limiter.fresh(START);
    let _ = limiter.check(&mut state, START, EXHAUSTED_LIMIT);
    let mut time = Ticks::new();
    group.bench_function(format!("check/{name}"), |b| {
        b.iter(|| {
            limiter
                .check(&mut state, time.next(), black_box(1))
                .is_ok_and(|d| d.is_allowed())
        });
    });
    let direct = Direct::new(limiter);
    let _ = direct.check_n(EXHAUSTED_LIMIT, START);
    let mut time = Ticks::new();
    group.bench_function(format!("direct/{name}"), |b| {
        b.iter(|| direct.allow(time.next()));
    });
}

/// A thousand clients in turn, with and without a plan named in each call.
fn plans(c: &mut Criterion) {
    let mut group = c.benchmark_group("plans");
    let generous = TokenBucket::new(Quota::per_hour(1 << 62));
    let exhausted = TokenBucket::new(Quota::per_day(EXHAUSTED_LIMIT));
    for (outcome, rule) in [("allowed", generous), ("refused", exhausted)] {
        let limiter: Keyed<u64, _> = Keyed::new(rule);
        let planned: Keyed<u64, _> =
            Keyed::new(Plans::new([("free", exhausted), ("premium", rule)]).expect("two names"));
        for key in 0..CLIENTS {
            let _ = limiter.check_n(&key, EXHAUSTED_LIMIT, START);
            let _ = planned.check_n_as(PREMIUM, &key, EXHAUSTED_LIMIT, START);
        }
        let mut time = Ticks::new();
        let mut keys = (0..CLIENTS).cycle();
        group.bench_function(format!("allow/{outcome}"), |b| {
            b.iter(|| {
                let key = keys.next().unwrap_or_default();
                limiter.allow(&key, time.next())
            });
        });
        let mut time = Ticks::new();
        let mut keys = (0..CLIENTS).cycle();
        group.bench_function(format!("allow_as/{outcome}"), |b| {
            b.iter(|| {
                let key = keys.next().unwrap_or_default();
                planned
                    .allow_as(black_box(PREMIUM), &key, time.next())
                    .is_ok_and(|allowed| allowed)
            });
        });
        let mut time = Ticks::new();
        let mut keys = (0..CLIENTS).cycle();
        group.bench_function(format!("allow, plan remembered/{outcome}"), |b| {
            b.iter(|| {
                let key = keys.next().unwrap_or_default();
                planned.allow(&key, time.next())
            });
        });
    }
}

/// Each rule with a quota that allows all of a bench, and one that is spent at its start and for its length.
fn each_rule(mut bench: impl FnMut(&str, Policy, Policy)) {
    for algorithm in Algorithm::ALL {
        let policy = |quota| match algorithm {
            // A log of one run per microsecond would measure the allocator.
            Algorithm::SlidingLog => SlidingLog::new(quota)
                .with_resolution(Duration::from_secs(1))
                .into(),
            _ => algorithm.policy(quota),
        };
        let generous = policy(Quota::per_hour(1 << 62));
        let exhausted = policy(Quota::per_day(EXHAUSTED_LIMIT));
        bench(algorithm.name(), generous, exhausted);
    }
}

struct Ticks(u64);

impl Ticks {
    fn new() -> Self {
        Self(START.as_nanos())
    }

    fn next(&mut self) -> Timestamp {
        self.0 += 1_000;
        Timestamp::from_nanos(self.0)
    }
}

const START: Timestamp = Timestamp::from_secs(1_700_000_000);
const EXHAUSTED_LIMIT: u64 = 7;
const PREMIUM: PlanId = PlanId::new("premium");
const CLIENTS: u64 = 1_000;
