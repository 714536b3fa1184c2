//! One check list, held against every algorithm by one runner: what DESIGN.md promises of a rule.
//!
//! A rule may rely on stamps that do not run back, so the histories here go forward; [`total`] is what holds of the others.
//! What holders make of such stamps is in `holders.rs`.

mod support;

use std::any::type_name;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use support::histories::{Clock, History, Line, histories};
use support::oracle::{Answer, Oracle};
use support::specs::{Subject, specs};
use support::{hold, promises};
use tollgate::{
    Algorithm, CostTooHigh, Decision, LeakyBucket, Limiter, Quota, SlidingLog, Timestamp,
    TokenBucket,
};

/// Twenty thousand for each of the five algorithms: a hundred thousand histories equal the oracle in one run.
const EXACT_HISTORIES: u32 = 20_000;
const HISTORIES: u32 = 2_000;
const NANO: Duration = Duration::from_nanos(1);

promises! {
    token_bucket: tollgate::TokenBucket,
    leaky_bucket: tollgate::LeakyBucket,
    fixed_window: tollgate::FixedWindow,
    sliding_log: tollgate::SlidingLog,
    sliding_window_counter: tollgate::SlidingWindowCounter,
    policy: tollgate::Policy;

    exact
    retry_is_honest
    no_wait_is_longer_than_promised
    reset_after_is_the_smallest_wait_to_be_as_good_as_new
    denial_is_free
    peek_equals_the_check_that_follows
    cost_zero_is_always_allowed_and_changes_nothing
    cost_too_high_is_never_and_changes_nothing
    forgetting_is_invisible
    total
    total_for_the_state_of_another
    histories_meet_the_edges
}

fn exact<S: Subject>() {
    walk::<S>("exact", EXACT_HISTORIES, |limiter, state, line| {
        let now = line.call.now();
        prop_assert_eq!(line.call.ask(limiter, state), line.answer);
        let idle_at = limiter.idle_at(state);
        match line.idle {
            true => prop_assert!(idle_at <= now),
            false => prop_assert_eq!(idle_at, line.idle_at.unwrap_or(Timestamp::MAX)),
        }
        prop_assert_eq!(
            limiter.is_idle(state, now),
            idle_at <= now && idle_at < Timestamp::MAX
        );
        Ok(())
    });
}

fn retry_is_honest<S: Subject>() {
    walk::<S>("retry is honest", HISTORIES, |limiter, state, line| {
        let (now, cost) = (line.call.now(), line.call.cost());
        let Ok(decision) = limiter.peek(state, now, cost) else {
            return proceed(limiter, state, line);
        };
        let retry = decision.retry_after();
        prop_assert_eq!(decision.is_allowed(), retry.is_zero());
        if let Some(then) = later(now, retry).filter(|_| !decision.is_allowed()) {
            prop_assert!(
                !allows(limiter, state, then - NANO, cost),
                "allowed a nanosecond before {}",
                then
            );
            prop_assert!(
                allows(limiter, state, then, cost),
                "still refused at {}",
                then
            );
        }
        proceed(limiter, state, line)
    });
}

fn no_wait_is_longer_than_promised<S: Subject>() {
    for_each::<S>("no wait is longer than promised", |history| {
        let limiter = S::build(&history.spec);
        let mut state = None;
        for line in history.script() {
            let state = state.get_or_insert_with(|| limiter.fresh(line.call.now()));
            if let Answer::Decided(verdict) = line.call.ask(&limiter, state) {
                prop_assert!(u128::from(verdict.retry_after) <= history.spec.longest_wait());
            }
        }
        Ok(())
    });
}

fn reset_after_is_the_smallest_wait_to_be_as_good_as_new<S: Subject>() {
    walk::<S>(
        "reset_after is minimal",
        HISTORIES,
        |limiter, state, line| {
            let now = line.call.now();
            proceed(limiter, state, line)?;
            let reset = limiter
                .peek(state, now, 0)
                .expect("cost 0 is allowed")
                .reset_after();
            if reset.is_zero() {
                prop_assert!(allows(limiter, state, now, most(limiter)));
            } else if let Some(then) = later(now, reset) {
                prop_assert!(!allows(limiter, state, then - NANO, most(limiter)));
                prop_assert!(allows(limiter, state, then, most(limiter)));
                prop_assert_eq!(
                    limiter
                        .peek(state, then - NANO, 0)
                        .map(|early| early.reset_after()),
                    Ok(NANO)
                );
                prop_assert_eq!(
                    limiter.peek(state, then, 0).map(|new| new.reset_after()),
                    Ok(Duration::ZERO)
                );
            }
            Ok(())
        },
    );
}

/// Two states of one limiter: one is asked everything, the other only what is charged. Nothing tells them apart.
fn denial_is_free<S: Subject>() {
    for_each::<S>("denial is free", |history| {
        let limiter = S::build(&history.spec);
        let mut states = None;
        for line in history.script() {
            let (now, cost) = (line.call.now(), line.call.cost());
            let (asked, spared) =
                states.get_or_insert_with(|| (limiter.fresh(now), limiter.fresh(now)));
            for refused in [1, 2, cost, most(&limiter), u64::MAX, 0] {
                if refused == 0 || !allows(&limiter, asked, now, refused) {
                    prop_assert!(
                        limiter
                            .check(asked, now, refused)
                            .is_ok_and(|it| it.is_allowed())
                            == (refused == 0)
                    );
                }
            }
            let answer = line.call.ask(&limiter, asked);
            if line.charges() {
                prop_assert_eq!(answer, limiter.check(spared, now, cost).into());
            } else {
                prop_assert_eq!(answer, limiter.peek(spared, now, cost).into());
            }
            prop_assert_eq!(limiter.idle_at(asked), limiter.idle_at(spared));
            prop_assert_eq!(limiter.state_bytes(asked), limiter.state_bytes(spared));
        }
        Ok(())
    });
}

/// A peek tells what the same check would, with what is left before it.
fn peek_equals_the_check_that_follows<S: Subject>() {
    walk::<S>(
        "peek equals the check that follows",
        HISTORIES,
        |limiter, state, line| {
            let (now, cost) = (line.call.now(), line.call.cost());
            let found = limiter.peek(state, now, 0).expect("cost 0 is allowed");
            if let Ok(foretold) = limiter.peek(state, now, cost) {
                prop_assert_eq!(foretold.remaining(), found.remaining());
                prop_assert_eq!(foretold.reset_after(), found.reset_after());
            }
            ask_twice(limiter, state, now, cost).map(drop)
        },
    );
}

fn cost_zero_is_always_allowed_and_changes_nothing<S: Subject>() {
    walk::<S>(
        "cost 0 is always allowed",
        HISTORIES,
        |limiter, state, line| {
            proceed(limiter, state, line)?;
            let (now, idle_at) = (line.call.now(), limiter.idle_at(state));
            let before = Answer::from(limiter.peek(state, now, most(limiter)));
            let free = limiter.check(state, now, 0).expect("cost 0 is allowed");
            prop_assert!(
                free.is_allowed() && free.retry_after().is_zero() && free.delay().is_zero()
            );
            prop_assert_eq!(before, limiter.peek(state, now, most(limiter)).into());
            prop_assert_eq!(idle_at, limiter.idle_at(state));
            Ok(())
        },
    );
}

fn cost_too_high_is_never_and_changes_nothing<S: Subject>() {
    walk::<S>(
        "cost too high is never",
        HISTORIES,
        |limiter, state, line| {
            proceed(limiter, state, line)?;
            let (now, idle_at, most) = (line.call.now(), limiter.idle_at(state), most(limiter));
            let before = Answer::from(limiter.peek(state, now, 1));
            for cost in [most + 1, u64::MAX - 1, u64::MAX] {
                let never = Answer::Never { cost, most };
                prop_assert_eq!(never, limiter.check(state, now, cost).into());
                prop_assert_eq!(never, limiter.peek(state, now, cost).into());
            }
            prop_assert_eq!(before, limiter.peek(state, now, 1).into());
            prop_assert_eq!(idle_at, limiter.idle_at(state));
            Ok(())
        },
    );
}

/// A state is dropped for a fresh one whenever it is idle, the oracle forgets nothing. A nanosecond earlier the two differ.
fn forgetting_is_invisible<S: Subject>() {
    walk::<S>(
        "forgetting is invisible",
        HISTORIES,
        |limiter, state, line| {
            let now = line.call.now();
            if limiter.is_idle(state, now) {
                *state = limiter.fresh(now);
            }
            prop_assert_eq!(line.call.ask(limiter, state), line.answer);
            let idle_at = limiter.idle_at(state);
            if now < idle_at && idle_at < Timestamp::MAX {
                prop_assert!(
                    limiter.is_idle(state, idle_at) && !limiter.is_idle(state, idle_at - NANO)
                );
                prop_assert!(allows(limiter, state, idle_at, most(limiter)));
                prop_assert!(
                    !allows(limiter, state, idle_at - NANO, most(limiter)),
                    "idle a nanosecond earlier"
                );
            }
            Ok(())
        },
    );
}

/// No panic, no wrap, and no contradiction, for a state of stamps that ran back by anything. (Overflow is checked in tests.)
fn total<S: Subject>() {
    let drawn = histories(S::ALGORITHMS, Clock::SetBack);
    hold(&title::<S>("total"), HISTORIES, drawn, |history| {
        let limiter = S::build(&history.spec);
        let script = history.script();
        let mut state = limiter.fresh(script[0].call.now());
        for Line { call, .. } in &script {
            let (now, cost) = (call.now(), call.cost());
            match ask_twice(&limiter, &mut state, now, cost)? {
                Answer::Never { most, .. } => prop_assert!(cost > most),
                Answer::Decided(verdict) => {
                    prop_assert!(verdict.remaining <= most(&limiter));
                    prop_assert_eq!(verdict.allowed, verdict.retry_after == 0);
                    prop_assert!(verdict.allowed || cost > verdict.remaining);
                }
            }
            for other in &script {
                let at = other.call.now();
                limiter.is_idle(&state, at);
                let _ = Answer::from(limiter.peek(&state, at, most(&limiter)));
            }
            prop_assert!(limiter.is_idle(&limiter.fresh(now), now) || now == Timestamp::MAX);
        }
        Ok(())
    });
}

/// No panic and no wrap either for a state that a limiter of other numbers, or another kind of policy, has written.
fn total_for_the_state_of_another<S: Subject>() {
    let drawn = (
        histories(S::ALGORITHMS, Clock::SetBack),
        specs(S::ALGORITHMS),
    );
    hold(
        &title::<S>("total for any state"),
        HISTORIES,
        drawn,
        |(history, other)| {
            let limiters = [S::build(&history.spec), S::build(&other)];
            let script = history.script();
            let mut state = limiters[0].fresh(script[0].call.now());
            for Line { call, .. } in &script {
                for limiter in &limiters {
                    ask_twice(limiter, &mut state, call.now(), call.cost())?;
                    limiter.is_idle(&state, call.now());
                    limiter.state_bytes(&state);
                }
            }
            Ok(())
        },
    );
}

/// Histories that are never refused, or never wait to the very end, would show little: these meet every edge, and often.
fn histories_meet_the_edges<S: Subject>() {
    let seen = RefCell::new(BTreeMap::new());
    for_each::<S>("histories meet the edges", |history| {
        let mut seen = seen.borrow_mut();
        let mut note = |what: &'static str, happened: bool| {
            *seen.entry(what).or_insert(0) += u32::from(happened);
        };
        let mut told = None;
        for line in history.script() {
            let (now, cost) = (line.call.now(), line.call.cost());
            note("a call", true);
            note("a stamp at the end of time", now == Timestamp::MAX);
            note("an idle state", line.idle);
            let Answer::Decided(verdict) = line.answer else {
                note("a cost too high", true);
                continue;
            };
            note("a grant", verdict.allowed && cost > 0);
            note(
                "a grant that drains",
                verdict.allowed && cost > 0 && verdict.remaining == 0,
            );
            note("a refusal", !verdict.allowed);
            note(
                "a grant at the instant told",
                verdict.allowed && told == Some((now, cost)),
            );
            note(
                "a refusal a nanosecond before it",
                !verdict.allowed && told == Some((now + NANO, cost)),
            );
            if !verdict.allowed {
                told =
                    later(now, Duration::from_nanos(verdict.retry_after)).map(|then| (then, cost));
            }
        }
        Ok(())
    });
    let seen = seen.into_inner();
    println!("{seen:#?}");
    for (what, times) in &seen {
        assert!(times * 200 > seen["a call"], "{what} is rare: {seen:#?}");
    }
    assert!(seen["a refusal"] * 4 > seen["a call"], "{seen:#?}");
}

#[test]
fn a_leaky_bucket_admits_exactly_what_a_token_bucket_admits() {
    hold(
        "leaky as token",
        HISTORIES,
        histories(&[Algorithm::TokenBucket], Clock::Forward),
        |history| {
            let token = TokenBucket::build(&history.spec);
            let leaky = LeakyBucket::new(token.quota()).with_burst(token.burst());
            let mut states = None;
            for Line { call, .. } in history.script() {
                let (level, backlog) = states
                    .get_or_insert_with(|| (token.fresh(call.now()), leaky.fresh(call.now())));
                let admitted = call.ask(&token, level);
                let mut queued = call.ask(&leaky, backlog);
                if let Answer::Decided(verdict) = &mut queued {
                    verdict.delay = 0;
                }
                prop_assert_eq!(admitted, queued);
            }
            Ok(())
        },
    );
}

#[test]
fn a_sliding_log_is_bounded_by_what_its_limit_admits() {
    fn admits(
        log: &SlidingLog,
        state: &mut <SlidingLog as Limiter>::State,
        nanos: u64,
        cost: u64,
    ) -> bool {
        let decision = log.check(state, Timestamp::from_nanos(nanos), cost);
        decision.expect("within the limit").is_allowed()
    }

    let few = SlidingLog::new(Quota::per_second(3));
    let mut state = few.fresh(Timestamp::EPOCH);
    assert!((0..3).all(|now| admits(&few, &mut state, now, 1)));
    let full = few.state_bytes(&state);
    assert!((3..100_000).all(|now| !admits(&few, &mut state, now, 1)));
    assert_eq!(
        few.state_bytes(&state),
        full,
        "what is refused is not stored"
    );

    let many = SlidingLog::new(Quota::per_second(Quota::MAX_LIMIT));
    let mut state = many.fresh(Timestamp::EPOCH);
    let empty = many.state_bytes(&state);
    assert!(admits(&many, &mut state, 0, 1));
    let one = many.state_bytes(&state);
    assert!(admits(&many, &mut state, 0, 1_000_000_000_000));
    assert_eq!(
        many.state_bytes(&state),
        one,
        "a cost of any size is one run"
    );

    let coarse = many.with_resolution(Duration::from_millis(100));
    let mut state = coarse.fresh(Timestamp::EPOCH);
    assert!((0..100_000).all(|tick| admits(&coarse, &mut state, tick * 100_000, 1)));
    let room = coarse.state_bytes(&state) - empty;
    assert!(
        room <= 1_024,
        "{room} bytes for the ten runs of a second at a resolution of 100 ms"
    );
}

/// The waits of the oracle are closed forms; what they mean is plain: the cost fits then, and at no earlier instant.
#[test]
fn the_oracle_itself_waits_no_longer_than_it_must() {
    let costs = (histories(&Algorithm::ALL, Clock::Forward), any::<u16>());
    hold("the oracle's waits", HISTORIES, costs, |(history, part)| {
        let most = history.spec.most();
        let mut oracle = Oracle::new(&history.spec);
        for Line { call, .. } in history.script() {
            let now = i128::from(call.now().as_nanos());
            let idle = i128::try_from(oracle.wait_until_idle(now)).expect("well below 2¹²⁷");
            prop_assert_eq!(oracle.wait_for(now, most), idle.into());
            for cost in [1, most, call.cost()]
                .into_iter()
                .filter(|cost| (1..=most).contains(cost))
            {
                let wait = i128::try_from(oracle.wait_for(now, cost)).expect("well below 2¹²⁷");
                prop_assert!(oracle.fits(now + wait, cost));
                if wait > 0 {
                    let within = wait / (1 << 16) * i128::from(part);
                    prop_assert!(
                        !oracle.fits(now + wait - 1, cost) && !oracle.fits(now + within, cost)
                    );
                }
                prop_assert!(wait <= idle);
            }
            oracle.check(now, call.cost());
        }
        Ok(())
    });
}

/// What a failure prints can be pasted into a test.
#[test]
fn a_history_that_is_told_is_the_same() {
    hold(
        "told",
        200,
        histories(&Algorithm::ALL, Clock::SetBack),
        |history| {
            let script = history.script();
            let calls: Vec<_> = script.iter().map(|line| line.call).collect();
            let told = History::told(history.spec, &calls);
            prop_assert_eq!(format!("{:?}", history), format!("{:?}", told));
            Ok(())
        },
    );
}

/// Walks every history of `S` through one state; `visit` makes the call.
fn walk<S: Subject>(
    promise: &str,
    cases: u32,
    visit: impl Fn(&S, &mut S::State, &Line) -> TestCaseResult,
) {
    let drawn = histories(S::ALGORITHMS, Clock::Forward);
    hold(&title::<S>(promise), cases, drawn, |history| {
        let limiter = S::build(&history.spec);
        let mut state = None;
        history.script().iter().try_for_each(|line| {
            let state = state.get_or_insert_with(|| limiter.fresh(line.call.now()));
            visit(&limiter, state, line).map_err(|failure| line.call.blame(failure))
        })
    });
}

fn for_each<S: Subject>(promise: &str, test: impl Fn(History) -> TestCaseResult) {
    let drawn = histories(S::ALGORITHMS, Clock::Forward);
    hold(&title::<S>(promise), HISTORIES, drawn, test);
}

fn title<S>(promise: &str) -> String {
    format!("{promise} ({})", type_name::<S>())
}

fn proceed<S: Subject>(limiter: &S, state: &mut S::State, line: &Line) -> TestCaseResult {
    line.call.ask(limiter, state);
    Ok(())
}

/// A peek and then a check, which must agree in all but what the check leaves.
fn ask_twice<L: Limiter>(
    limiter: &L,
    state: &mut L::State,
    now: Timestamp,
    cost: u64,
) -> Result<Answer, TestCaseError> {
    let ruling = |answer: Result<Decision, CostTooHigh>| {
        answer.map(|it| (it.is_allowed(), it.limit(), it.retry_after(), it.delay()))
    };
    let foretold = limiter.peek(state, now, cost);
    let answer = limiter.check(state, now, cost);
    prop_assert_eq!(ruling(foretold), ruling(answer));
    Ok(answer.into())
}

fn allows<L: Limiter>(limiter: &L, state: &L::State, now: Timestamp, cost: u64) -> bool {
    limiter
        .peek(state, now, cost)
        .is_ok_and(|decision| decision.is_allowed())
}

/// What a limiter could ever grant at once, in its own words.
fn most<L: Limiter>(limiter: &L) -> u64 {
    let fresh = limiter.fresh(Timestamp::EPOCH);
    limiter
        .peek(&fresh, Timestamp::EPOCH, u64::MAX)
        .expect_err("no limiter grants so much")
        .most()
}

/// `now + wait`, if a stamp can name it.
fn later(now: Timestamp, wait: Duration) -> Option<Timestamp> {
    let then = now + wait;
    (then.saturating_duration_since(now) == wait).then_some(then)
}
