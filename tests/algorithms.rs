//! One check list, held against every algorithm, and what is composed of them, by one runner: what DESIGN.md promises of a
//! rule.
//!
//! A rule may rely on stamps that do not run back, so the histories here go forward; [`total`] is what holds of the others.
//! What holders make of such stamps is in `holders.rs`, and what each operation promises by itself in `operations.rs`.

mod support;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use support::histories::{Call, Clock, History, Line, Walk, histories};
use support::oracle::{Answer, Holder, Oracle};
use support::specs::{Composed, Kind, Rule, Spec, Subject, alone, limits_of};
use support::{cases, hold, promises, title};
use tollgate::{
    All, CostTooHigh, Decision, LeakyBucket, Limiter, Policy, Quota, SlidingLog, Timestamp,
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
    policy: tollgate::Policy,
    two_limits: (tollgate::TokenBucket, tollgate::FixedWindow),
    three_limits: (tollgate::LeakyBucket, tollgate::SlidingLog, tollgate::SlidingWindowCounter),
    limits_within_limits: ((tollgate::LeakyBucket, tollgate::LeakyBucket), tollgate::Policy),
    all: tollgate::All,
    shadow: tollgate::Shadow<tollgate::Policy>,
    shadow_of_several: tollgate::Shadow<(tollgate::TokenBucket, tollgate::LeakyBucket)>,
    shadow_among_several: (tollgate::Shadow<tollgate::Policy>, tollgate::TokenBucket);

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
    walk::<S>("exact", EXACT_HISTORIES, |walk, line| {
        let now = line.call.now();
        prop_assert_eq!(walk.ask(line.number, line.call), line.answer);
        let idle_at = walk.limiter.idle_at(&walk.state);
        match line.idle {
            true => prop_assert!(idle_at <= now),
            false => prop_assert_eq!(idle_at, line.idle_at.unwrap_or(Timestamp::MAX)),
        }
        prop_assert_eq!(
            walk.limiter.is_idle(&walk.state, now),
            idle_at <= now && idle_at < Timestamp::MAX
        );
        Ok(())
    });
}

fn retry_is_honest<S: Subject>() {
    walk::<S>("retry is honest", HISTORIES, |walk, line| {
        let (now, cost) = (line.call.now(), line.call.cost());
        if let Ok(decision) = walk.limiter.peek(&walk.state, now, cost) {
            let retry = decision.retry_after();
            prop_assert_eq!(decision.is_allowed(), retry.is_zero());
            if let Some(then) = later(now, retry).filter(|_| !decision.is_allowed()) {
                prop_assert!(
                    !allows(walk, then - NANO, cost),
                    "allowed a nanosecond before {}",
                    then
                );
                prop_assert!(allows(walk, then, cost), "still refused at {}", then);
            }
        }
        walk.ask(line.number, line.call);
        Ok(())
    });
}

/// Nobody is told to wait longer than it takes to make up for all that may be owed, by whichever of the limiters it came to
/// be owed.
fn no_wait_is_longer_than_promised<S: Subject>() {
    let promise = "no wait is longer than promised";
    walk_all::<S>(promise, HISTORIES, |history, walk, line| {
        let units = |spec: &Spec| spec.most() + spec.max_debt();
        let rules = history.limits.iter().flat_map(Composed::rules);
        let owed = rules.map(|spec| units(&spec)).max().unwrap_or(0);
        if let Answer::Decided(verdict) = walk.ask(line.number, line.call) {
            let longest = walk
                .limits
                .rules()
                .iter()
                .map(|spec| spec.longest_wait(owed))
                .max();
            prop_assert!(Some(u128::from(verdict.retry_after)) <= longest);
        }
        Ok(())
    });
}

fn reset_after_is_the_smallest_wait_to_be_as_good_as_new<S: Subject>() {
    walk::<S>("reset_after is minimal", HISTORIES, |walk, line| {
        let now = line.call.now();
        walk.ask(line.number, line.call);
        let reset_at = |at: Timestamp| {
            let told = walk.limiter.peek(&walk.state, at, 0);
            told.expect("cost 0 is allowed").reset_after()
        };
        let reset = reset_at(now);
        if reset.is_zero() {
            prop_assert!(is_whole(walk, now));
        } else if let Some(then) = later(now, reset) {
            prop_assert!(!is_whole(walk, then - NANO));
            prop_assert!(is_whole(walk, then));
            prop_assert_eq!(reset_at(then - NANO), NANO);
            prop_assert_eq!(reset_at(then), Duration::ZERO);
        }
        Ok(())
    });
}

/// Two states of one limiter: one is asked everything, the other only what leaves something behind. Nothing tells them
/// apart.
fn denial_is_free<S: Subject>() {
    for_each::<S>("denial is free", |history| {
        let (mut asked, mut spared) = (Walk::<S>::begin(&history), Walk::<S>::begin(&history));
        for line in history.script() {
            let (now, cost) = (line.call.now(), line.call.cost());
            let most = asked.limits.most().unwrap_or(0);
            for refused in [1, 2, cost, most, u64::MAX, 0] {
                // What is only tried lets everything pass, and keeps the units of what it would have.
                if refused == 0 || !allows(&asked, now, refused) {
                    let answer = asked.limiter.check(&mut asked.state, now, refused);
                    prop_assert!(answer.is_ok_and(|it| it.is_allowed()) == (refused == 0));
                }
            }
            let answer = asked.ask(line.number, line.call);
            let matters = line.charged || !matches!(line.answer, Answer::Decided(_));
            if matters {
                prop_assert_eq!(answer, spared.ask(line.number, line.call));
            } else if let Call::Check { .. } | Call::Peek { .. } = line.call {
                let foretold = Answer::from(spared.limiter.peek(&spared.state, now, cost));
                prop_assert_eq!(answer.ungranted(), foretold);
            }
            prop_assert_eq!(
                asked.limiter.idle_at(&asked.state),
                spared.limiter.idle_at(&spared.state)
            );
            prop_assert_eq!(
                asked.limiter.state_bytes(&asked.state),
                spared.limiter.state_bytes(&spared.state)
            );
        }
        Ok(())
    });
}

/// A peek tells what the same check would, with what is left before it.
fn peek_equals_the_check_that_follows<S: Subject>() {
    walk::<S>(
        "peek equals the check that follows",
        HISTORIES,
        |walk, line| {
            let (now, cost) = (line.call.now(), line.call.cost());
            let found = walk
                .limiter
                .peek(&walk.state, now, 0)
                .expect("cost 0 is allowed");
            if let Ok(foretold) = walk.limiter.peek(&walk.state, now, cost) {
                prop_assert_eq!(foretold.remaining(), found.remaining());
                prop_assert_eq!(foretold.reset_after(), found.reset_after());
                prop_assert_eq!(foretold.debt(), found.debt());
            }
            // Of a copy, for not every call of a history is a check.
            let mut state = walk.state.clone();
            ask_twice(&walk.limiter, &mut state, now, cost)?;
            walk.ask(line.number, line.call);
            Ok(())
        },
    );
}

fn cost_zero_is_always_allowed_and_changes_nothing<S: Subject>() {
    walk::<S>("cost 0 is always allowed", HISTORIES, |walk, line| {
        walk.ask(line.number, line.call);
        let now = line.call.now();
        let before = portrait(walk, now);
        let Walk { limiter, state, .. } = walk;
        let free = limiter.check(state, now, 0).expect("cost 0 is allowed");
        prop_assert!(free.is_allowed() && free.retry_after().is_zero() && free.delay().is_zero());
        let none = [
            free,
            limiter.at_most(state, now, 0),
            limiter.charge(state, now, 0),
        ];
        for decision in none {
            prop_assert_eq!(decision.granted(), 0);
            prop_assert!(decision.receipt().is_none());
            prop_assert_eq!(decision.unrecorded(), 0);
        }
        prop_assert!(limiter.at_most(state, now, 0).is_allowed());
        prop_assert_eq!(before, portrait(walk, now));
        Ok(())
    });
}

fn cost_too_high_is_never_and_changes_nothing<S: Subject>() {
    walk::<S>("cost too high is never", HISTORIES, |walk, line| {
        walk.ask(line.number, line.call);
        let now = line.call.now();
        let before = portrait(walk, now);
        let oracle = Oracle::new(walk.limits);
        let least = walk.limits.most().unwrap_or(u64::MAX - 2);
        for cost in [least + 1, u64::MAX - 1, u64::MAX] {
            let checked = Answer::from(walk.limiter.check(&mut walk.state, now, cost));
            let peeked = Answer::from(walk.limiter.peek(&walk.state, now, cost));
            match oracle.never(cost) {
                Some(never) => prop_assert_eq!((never, never), (checked, peeked)),
                // What is only tried lets it pass.
                None => {
                    let verdict = checked.verdict().expect("it is decided");
                    prop_assert!(verdict.allowed && verdict.receipt.is_none());
                    prop_assert_eq!(verdict.granted, cost);
                    prop_assert_eq!(peeked, checked.ungranted());
                }
            }
        }
        prop_assert_eq!(before, portrait(walk, now));
        Ok(())
    });
}

/// A state is dropped for a fresh one whenever it is idle, the oracle forgets nothing. A nanosecond earlier the two differ.
fn forgetting_is_invisible<S: Subject>() {
    walk::<S>("forgetting is invisible", HISTORIES, |walk, line| {
        let now = line.call.now();
        if walk.limiter.is_idle(&walk.state, now) {
            walk.state = walk.limiter.fresh(now);
        }
        prop_assert_eq!(walk.ask(line.number, line.call), line.answer);
        let idle_at = walk.limiter.idle_at(&walk.state);
        if now < idle_at && idle_at < Timestamp::MAX {
            let is_idle = |at| walk.limiter.is_idle(&walk.state, at);
            prop_assert!(is_idle(idle_at) && !is_idle(idle_at - NANO));
            prop_assert!(is_whole(walk, idle_at));
            prop_assert!(!is_whole(walk, idle_at - NANO), "idle a nanosecond earlier");
        }
        Ok(())
    });
}

/// No panic, no wrap, and no contradiction, for a state of stamps that ran back by anything, and for receipts of anybody.
/// (Overflow is checked in tests.)
fn total<S: Subject>() {
    let drawn = (
        histories(S::kind(), Clock::SetBack, 1),
        histories(S::kind(), Clock::SetBack, 1),
    );
    let promise = title::<S>("total");
    hold(
        &promise,
        cases::<S>(HISTORIES),
        drawn,
        |(history, others)| is_total::<S>(&history, &others),
    );
}

fn is_total<S: Subject>(history: &History, others: &History) -> TestCaseResult {
    let (mut walk, mut other) = (Walk::<S>::begin(history), Walk::<S>::begin(others));
    for line in others.script() {
        other.ask(line.number, line.call);
    }
    let foreign: Vec<_> = other.receipts.iter().map(|(_, receipt)| receipt).collect();
    let script = history.script();
    for line in &script {
        let (now, cost) = (line.call.now(), line.call.cost());
        match ask_twice(&walk.limiter, &mut walk.state, now, cost)? {
            Answer::Never { most, .. } => prop_assert!(cost > most),
            answer => consistent(&walk, cost, &answer)?,
        }
        let answer = walk.ask(line.number, line.call);
        match (line.call, answer) {
            (Call::Charge { .. }, Answer::Decided(verdict)) => {
                prop_assert_eq!(verdict.granted + verdict.unrecorded, cost);
                consistent(&walk, 1, &answer)?;
            }
            (Call::AtMost { .. }, Answer::Decided(verdict)) => {
                prop_assert!(verdict.granted <= cost);
                consistent(&walk, cost.min(1), &answer)?;
            }
            (Call::Refund { units, .. }, Answer::GaveBack(given)) => {
                prop_assert!(given <= units);
            }
            _ => {}
        }
        for other in &script {
            let at = other.call.now();
            walk.limiter.is_idle(&walk.state, at);
            let most = walk.limits.most().unwrap_or(u64::MAX);
            let _ = Answer::from(walk.limiter.peek(&walk.state, at, most));
        }
        for receipt in &foreign {
            let given = walk.limiter.refund(&mut walk.state.clone(), now, *receipt);
            prop_assert!(given <= receipt.cost());
        }
        if let Some(receipt) = foreign.get(line.number) {
            walk.limiter.refund(&mut walk.state, now, *receipt);
        }
        let fresh = walk.limiter.fresh(now);
        prop_assert!(walk.limiter.is_idle(&fresh, now) || now == Timestamp::MAX);
    }
    Ok(())
}

/// No panic and no wrap either for a state that a limiter of other numbers, or another kind of policy, has written.
fn total_for_the_state_of_another<S: Subject>() {
    let drawn = (
        histories(S::kind(), Clock::SetBack, 1),
        limits_of(S::kind(), 1),
    );
    let promise = title::<S>("total for any state");
    hold(
        &promise,
        cases::<S>(HISTORIES),
        drawn,
        |(history, others)| {
            let other = S::build(&others[0]);
            let mut walk = Walk::<S>::begin(&history);
            for Line { number, call, .. } in history.script() {
                walk.ask(number, call);
                let (state, now, cost) = (&mut walk.state, call.now(), call.cost());
                ask_twice(&other, state, now, cost)?;
                let taken = other.at_most(state, now, cost).receipt();
                let owed = other.charge(state, now, cost).receipt();
                for receipt in [taken, owed].into_iter().flatten() {
                    prop_assert!(other.refund(state, now, receipt) <= receipt.cost());
                }
                other.is_idle(state, now);
                other.state_bytes(state);
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
            let (now, mut cost) = (line.call.now(), line.call.cost());
            note("a call", true);
            note("a stamp at the end of time", now == Timestamp::MAX);
            note("an idle state", line.idle);
            let verdict = match line.answer {
                Answer::Decided(verdict) => verdict,
                Answer::Never { .. } => {
                    note("a cost too high", true);
                    continue;
                }
                Answer::GaveBack(units) => {
                    note("a refund", units > 0);
                    note("a refund of nothing", units == 0);
                    continue;
                }
                Answer::Nothing => {
                    note("a change of what was used", !line.idle);
                    continue;
                }
            };
            let allowed = verdict.allowed && !verdict.would_have_refused;
            match line.call {
                Call::AtMost { .. } => {
                    let granted = verdict.granted;
                    note("less than was asked for", granted > 0 && granted < cost);
                    cost = 1;
                }
                Call::Charge { .. } => {
                    note("a debt", verdict.debt > 0);
                    note("a charge beyond the cap", verdict.unrecorded > 0);
                    cost = 1;
                }
                _ => {
                    let drained = verdict.remaining == 0;
                    note("a grant", allowed && cost > 0);
                    note("a grant that drains", allowed && cost > 0 && drained);
                    note("a refusal", !allowed);
                    note("a grant when told", allowed && told == Some((now, cost)));
                    note(
                        "a refusal just before",
                        !allowed && told == Some((now + NANO, cost)),
                    );
                }
            }
            if !verdict.allowed {
                let retry = Duration::from_nanos(verdict.retry_after);
                told = later(now, retry).map(|then| (then, cost));
            }
        }
        Ok(())
    });
    let mut seen = seen.into_inner();
    if let Kind::Tried(_) = S::kind() {
        // It tells no waits, and grants what is asked for.
        for never in [
            "a grant when told",
            "a refusal just before",
            "less than was asked for",
        ] {
            seen.remove(never);
        }
    }
    println!("{seen:#?}");
    for (what, times) in &seen {
        assert!(times * 300 > seen["a call"], "{what} is rare: {seen:#?}");
    }
    assert!(seen["a refusal"] * 8 > seen["a call"], "{seen:#?}");
}

#[test]
fn a_leaky_bucket_admits_exactly_what_a_token_bucket_admits() {
    hold(
        "leaky as token",
        HISTORIES,
        histories(TokenBucket::kind(), Clock::Forward, 1),
        |history| {
            let mut queue = history.clone();
            for limits in &mut queue.limits {
                let Composed::Alone(spec) = limits else {
                    panic!("{limits:?} is no bucket");
                };
                let burst = spec.most();
                spec.rule = Rule::LeakyBucket { burst };
            }
            let mut level = Walk::<TokenBucket>::begin(&history);
            let mut backlog = Walk::<LeakyBucket>::begin(&queue);
            for Line { number, call, .. } in history.script() {
                // What a refund gives differs: it is not for those in the middle of a queue.
                if let Call::Refund { .. } = call {
                    continue;
                }
                let admitted = level.ask(number, call);
                let mut queued = backlog.ask(number, call);
                if let Answer::Decided(verdict) = &mut queued {
                    verdict.delay = 0;
                }
                prop_assert_eq!(admitted, queued);
            }
            Ok(())
        },
    );
}

/// A refund may drop the newest run of a log; a charge whose stamp ran back came to lie behind a later one then, and the log
/// refused with a wait of zero.
#[test]
fn a_log_stays_in_order_after_a_refund() {
    let limits = alone(Spec {
        limit: 4,
        period: 10,
        rule: Rule::SlidingLog { resolution: 1 },
        max_debt: None,
    });
    let check = |at| Call::Check {
        key: 0,
        at,
        cost: 1,
    };
    let of_the_newest = Call::Refund {
        key: 0,
        at: 102,
        of: 2,
        units: 1,
    };
    let late = Call::Charge {
        key: 0,
        at: 95,
        cost: 6,
    };
    let calls = [
        check(100),
        check(101),
        check(102),
        of_the_newest,
        late,
        check(105),
    ];
    let history = History::told(&[limits], &calls);
    let mut walk = Walk::<SlidingLog>::begin(&history);
    let answers = calls
        .iter()
        .enumerate()
        .map(|(number, call)| walk.ask(number, *call));
    let last = answers.last().expect("there are calls");
    assert!(!last.allowed(), "{last:?}");
    consistent(&walk, 1, &last).expect("who is refused is told a wait");
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
    let costs = (histories(Policy::kind(), Clock::Forward, 1), any::<u16>());
    hold("the oracle's waits", HISTORIES, costs, |(history, part)| {
        let mut holder = Holder::new(&history.limits);
        for Line { number, call, .. } in history.script() {
            let now = i128::from(call.now().as_nanos());
            let (oracle, most) = (holder.state(0), holder.limits().rule().most());
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
            holder.ask(number, call);
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
        histories(All::kind(), Clock::SetBack, 3),
        |history| {
            let script = history.script();
            let calls: Vec<_> = script.iter().map(|line| line.call).collect();
            let told = History::told(&history.limits, &calls);
            prop_assert_eq!(format!("{:?}", history), format!("{:?}", told));
            Ok(())
        },
    );
}

/// Walks every history of `S` through one state; `visit` makes the call.
fn walk<S: Subject>(
    promise: &str,
    histories: u32,
    visit: impl Fn(&mut Walk<'_, S>, &Line) -> TestCaseResult,
) {
    walk_all(promise, histories, |_, walk, line| visit(walk, line));
}

fn walk_all<S: Subject>(
    promise: &str,
    count: u32,
    visit: impl Fn(&History, &mut Walk<'_, S>, &Line) -> TestCaseResult,
) {
    let drawn = histories(S::kind(), Clock::Forward, 1);
    hold(&title::<S>(promise), cases::<S>(count), drawn, |history| {
        let mut walk = Walk::begin(&history);
        history.script().iter().try_for_each(|line| {
            visit(&history, &mut walk, line).map_err(|failure| line.call.blame(failure))
        })
    });
}

fn for_each<S: Subject>(promise: &str, test: impl Fn(History) -> TestCaseResult) {
    let drawn = histories(S::kind(), Clock::Forward, 1);
    hold(&title::<S>(promise), cases::<S>(HISTORIES), drawn, test);
}

/// A peek and then a check, which must agree in all but what the check leaves.
fn ask_twice<L: Limiter>(
    limiter: &L,
    state: &mut L::State,
    now: Timestamp,
    cost: u64,
) -> Result<Answer, TestCaseError> {
    let ruling = |answer: Result<Decision, CostTooHigh>| {
        answer.map(|it| {
            let refused = (it.refused_by(), it.would_have_refused());
            (it.is_allowed(), refused, it.retry_after(), it.delay())
        })
    };
    let foretold = limiter.peek(state, now, cost);
    let answer = limiter.check(state, now, cost);
    prop_assert_eq!(ruling(foretold), ruling(answer));
    Ok(answer.into())
}

/// What every decision on a request of this cost must fulfil, whatever the state.
fn consistent<S: Subject>(walk: &Walk<'_, S>, cost: u64, answer: &Answer) -> TestCaseResult {
    let Some(verdict) = answer.verdict() else {
        return Ok(());
    };
    let most = walk.limits.rules().iter().map(Spec::most).min();
    prop_assert!(Some(verdict.remaining) <= most);
    prop_assert_eq!(verdict.allowed, verdict.retry_after == 0);
    prop_assert_eq!(verdict.allowed, verdict.refused_by.is_none());
    prop_assert!(verdict.allowed || cost > verdict.remaining);
    prop_assert!(verdict.debt == 0 || verdict.remaining == 0);
    if let Some((units, _)) = verdict.receipt {
        prop_assert!(0 < units && units <= verdict.granted);
    }
    Ok(())
}

/// What a state answers, now and later.
fn portrait<S: Subject>(walk: &Walk<'_, S>, now: Timestamp) -> ([Answer; 4], Timestamp, usize) {
    let most = walk.limits.most().unwrap_or(1);
    let ask = |at, cost| Answer::from(walk.limiter.peek(&walk.state, at, cost));
    let later = now + Duration::from_nanos(walk.limits.rules()[0].period / 2);
    let answers = [(now, 1), (now, most), (later, 1), (later, most)];
    (
        answers.map(|(at, cost)| ask(at, cost)),
        walk.limiter.idle_at(&walk.state),
        walk.limiter.state_bytes(&walk.state),
    )
}

fn allows<S: Subject>(walk: &Walk<'_, S>, now: Timestamp, cost: u64) -> bool {
    walk.limiter
        .peek(&walk.state, now, cost)
        .is_ok_and(|decision| decision.is_allowed())
}

/// Whether all is there that a limiter could ever grant at once. Of what several limits grant together, or one on trial,
/// it does not tell whether each of them is whole.
fn is_whole<S: Subject>(walk: &Walk<'_, S>, now: Timestamp) -> bool {
    match walk.limits {
        Composed::Alone(spec) => allows(walk, now, spec.most()),
        _ => walk.limiter.is_idle(&walk.state, now) || now == Timestamp::MAX,
    }
}

/// `now + wait`, if a stamp can name it.
fn later(now: Timestamp, wait: Duration) -> Option<Timestamp> {
    let then = now + wait;
    (then.saturating_duration_since(now) == wait).then_some(then)
}
