//! What each operation promises by itself: refund, charge, `at_most`, a change of the limiter, `check_each`. That they equal the
//! definitions, in any order, is in `algorithms.rs`.

mod support;

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use support::histories::{Call, Clock, Line, Walk, histories};
use support::oracle::{Answer, Holder, Verdict};
use support::specs::{Composed, Rule, Spec, Subject};
use support::{cases, hold, promises, title};
use tollgate::{Policy, Timestamp};

const HISTORIES: u32 = 1_000;

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

    refund_never_lifts_anyone_above_the_limit
    refund_of_what_was_not_spent_is_harmless
    refund_at_once_undoes_its_charge
    charge_goes_up_to_the_cap_on_debt_and_not_beyond
    charge_leaves_what_a_check_leaves_where_there_is_room
    at_most_grants_what_remains
    a_change_carries_usage
    a_change_to_the_same_changes_nothing
    check_each_tells_what_each_member_says
}

/// What is free grows by no more than is given back, and never above all that there is.
fn refund_never_lifts_anyone_above_the_limit<S: Subject>() {
    walk::<S>("refund never lifts above the limit", |walk, line| {
        let now = line.call.now();
        let before = stands(walk, now);
        let answer = walk.ask(line.number, line.call);
        let (Call::Refund { units, .. }, Answer::GaveBack(given)) = (line.call, answer) else {
            return Ok(());
        };
        let after = stands(walk, now);
        prop_assert!(given <= units);
        prop_assert!(before.remaining <= after.remaining && after.debt <= before.debt);
        prop_assert!(after.remaining - before.remaining <= units);
        prop_assert!(before.debt - after.debt <= units);
        prop_assert!(after.reset_after <= before.reset_after);
        let most = walk.limits.rules().iter().map(Spec::most).min();
        prop_assert!(Some(after.remaining) <= most);
        Ok(())
    });
}

/// At one instant, what was granted less what was given back is within the limit, however often and of whatever it is asked
/// for; with charges beyond the limit, within the limit and the cap on debt.
#[test]
fn granted_less_given_back_is_within_the_limit_at_one_instant() {
    let drawn = histories(Policy::kind(), Clock::Forward, 1);
    hold("granted less given back", 5 * HISTORIES, drawn, |history| {
        let mut walk = Walk::<Policy>::begin(&history);
        let spec = *history.limits[0].rule();
        let script = history.script();
        let at = script[0].call.now().as_nanos();
        let mut net = 0;
        for Line { number, call, .. } in script {
            let answer = walk.ask(
                number,
                match call {
                    Call::Check { key, cost, .. } => Call::Check { key, at, cost },
                    Call::Peek { key, cost, .. } => Call::Peek { key, at, cost },
                    Call::AtMost { key, cost, .. } => Call::AtMost { key, at, cost },
                    Call::Charge { key, cost, .. } => Call::Charge { key, at, cost },
                    Call::Refund { key, of, units, .. } => Call::Refund { key, at, of, units },
                    Call::Reset { .. } | Call::Change { .. } => continue,
                },
            );
            match answer {
                Answer::Decided(verdict) => {
                    net += u128::from(verdict.granted);
                    let mut most = u128::from(spec.most());
                    if let Call::Charge { .. } = call {
                        most += u128::from(spec.max_debt());
                    }
                    prop_assert!(verdict.granted == 0 || net <= most, "{:?}: {}", call, net);
                    let left = u128::from(spec.most()).saturating_sub(net);
                    prop_assert_eq!(u128::from(verdict.remaining), left);
                }
                Answer::GaveBack(given) => net -= u128::from(given),
                _ => {}
            }
        }
        Ok(())
    });
}

/// A receipt of another client, or of this one before it was reset, gives nothing to who has spent nothing, takes nothing
/// from anyone, and lifts nobody above the limit.
fn refund_of_what_was_not_spent_is_harmless<S: Subject>() {
    let drawn = (
        histories(S::kind(), Clock::Forward, 1),
        histories(S::kind(), Clock::Forward, 1),
    );
    let promise = title::<S>("refund of what was not spent is harmless");
    hold(
        &promise,
        cases::<S>(HISTORIES),
        drawn,
        |(history, others)| {
            let (mut walk, mut other) = (Walk::<S>::begin(&history), Walk::<S>::begin(&others));
            for line in others.script() {
                other.ask(line.number, line.call);
            }
            for line in history.script() {
                let now = line.call.now();
                walk.ask(line.number, line.call);
                let mut fresh = walk.clone();
                fresh.state = walk.limiter.fresh(now);
                let new = answers(&fresh, now);
                for (_, receipt) in walk.receipts.iter().chain(other.receipts.iter()) {
                    let given = walk.limiter.refund(&mut fresh.state, now, receipt);
                    prop_assert_eq!(given, 0, "{:?}", receipt);
                    prop_assert_eq!(&answers(&fresh, now), &new);
                }
                let before = stands(&walk, now);
                for (_, receipt) in other.receipts.iter() {
                    let given = walk.limiter.refund(&mut walk.state, now, receipt);
                    prop_assert!(given <= receipt.cost());
                }
                let after = stands(&walk, now);
                prop_assert!(before.remaining <= after.remaining && after.debt <= before.debt);
                let most = walk.limits.rules().iter().map(Spec::most).min();
                prop_assert!(Some(after.remaining) <= most);
            }
            Ok(())
        },
    );
}

/// As if it had not been. (Not where the charge was dated together with others: those keep the date.)
fn refund_at_once_undoes_its_charge<S: Subject>() {
    walk::<S>("refund at once undoes its charge", |walk, line| {
        walk.ask(line.number, line.call);
        let (now, cost) = (line.call.now(), line.call.cost());
        let mut rules = walk.all.iter().flat_map(Composed::rules);
        if rules.any(|spec| spec.is_coarse()) || is_tried(walk.limits) {
            return Ok(());
        }
        let before = answers(walk, now);
        let mut walk = walk.clone();
        let decision = walk.limiter.at_most(&mut walk.state, now, cost);
        let Some(receipt) = decision.receipt() else {
            return Ok(());
        };
        prop_assert_eq!(receipt.cost(), decision.granted());
        prop_assert_eq!(receipt.charged_at(), now);
        prop_assert_ne!(&answers(&walk, now), &before);
        let given = walk.limiter.refund(&mut walk.state, now, receipt);
        prop_assert_eq!(given, receipt.cost());
        prop_assert_eq!(answers(&walk, now), before);
        Ok(())
    });
}

fn charge_goes_up_to_the_cap_on_debt_and_not_beyond<S: Subject>() {
    walk::<S>("charge up to the cap on debt", |walk, line| {
        walk.ask(line.number, line.call);
        let (now, cost) = (line.call.now(), line.call.cost());
        let mut walk = walk.clone();
        let cap = walk
            .limits
            .rules()
            .iter()
            .map(Spec::max_debt)
            .max()
            .unwrap_or(0);
        let before = stands(&walk, now);
        for cost in [cost, u64::MAX, 1] {
            let charged = Verdict::from(walk.limiter.charge(&mut walk.state, now, cost));
            prop_assert_eq!(charged.granted + charged.unrecorded, cost);
            let recorded = (charged.granted > 0).then_some((charged.granted, now.as_nanos()));
            prop_assert_eq!(charged.receipt, recorded);
            prop_assert!(charged.debt <= cap.max(before.debt));
            let foretold = walk.limiter.peek(&walk.state, now, 1);
            let told = Answer::Decided(Verdict {
                unrecorded: 0,
                ..charged
            });
            prop_assert_eq!(Answer::from(foretold), told.ungranted());
            if charged.unrecorded > 0 {
                // One of the limits is at its cap; more does not come.
                let more = walk.limiter.charge(&mut walk.state.clone(), now, 1);
                prop_assert_eq!((more.granted(), more.unrecorded()), (0, 1));
                prop_assert!(more.receipt().is_none());
            }
        }
        if let Composed::Alone(spec) = walk.limits {
            // A fraction of a unit may be owed less.
            let owed = stands(&walk, now).debt;
            prop_assert!(owed >= spec.max_debt());
        }
        Ok(())
    });
}

fn charge_leaves_what_a_check_leaves_where_there_is_room<S: Subject>() {
    walk::<S>("charge as a check", |walk, line| {
        walk.ask(line.number, line.call);
        let (now, cost) = (line.call.now(), line.call.cost());
        let (mut charged, mut checked) = (walk.clone(), walk.clone());
        let Ok(decision) = walk.limiter.check(&mut checked.state, now, cost) else {
            return Ok(());
        };
        if decision.is_allowed() && !decision.would_have_refused() {
            let decision = walk.limiter.charge(&mut charged.state, now, cost);
            prop_assert_eq!((decision.granted(), decision.unrecorded()), (cost, 0));
            prop_assert_eq!(answers(&charged, now), answers(&checked, now));
            prop_assert_eq!(
                walk.limiter.idle_at(&charged.state),
                walk.limiter.idle_at(&checked.state)
            );
        }
        Ok(())
    });
}

fn at_most_grants_what_remains<S: Subject>() {
    walk::<S>("at_most grants what remains", |walk, line| {
        walk.ask(line.number, line.call);
        let (now, cost) = (line.call.now(), line.call.cost());
        let (mut granted, mut checked) = (walk.clone(), walk.clone());
        let got = Verdict::from(walk.limiter.at_most(&mut granted.state, now, cost));
        if is_tried(walk.limits) {
            if let Composed::Tried(_) = walk.limits {
                prop_assert!(got.allowed && got.granted == cost);
            }
            return Ok(());
        }
        let there = stands(walk, now).remaining.min(cost);
        prop_assert_eq!(got.granted, there);
        prop_assert_eq!(got.allowed, there > 0 || cost == 0);
        // If there is nothing, it is the refusal of a single unit.
        let same = walk
            .limiter
            .check(&mut checked.state, now, there.max(cost.min(1)));
        prop_assert_eq!(Answer::Decided(got), same.into());
        prop_assert_eq!(answers(&granted, now), answers(&checked, now));
        Ok(())
    });
}

/// What was used of each limit, in whole units rounded up, is used of the one that takes its place.
fn a_change_carries_usage<S: Subject>() {
    let drawn = histories(S::kind(), Clock::Forward, 1);
    let promise = title::<S>("a change carries usage");
    hold(&promise, cases::<S>(HISTORIES), drawn, |history| {
        let mut walk = Walk::<S>::begin(&history);
        for line in history.script() {
            walk.ask(line.number, line.call);
            let now = line.call.now();
            for to in &history.limits {
                let used = used(&walk, now);
                let mut changed = walk.clone();
                changed.change(to, now);
                for (was, is) in used.iter().zip(self::used(&changed, now)) {
                    prop_assert!(carries(*was, is), "{:?}: {:?} to {:?}", line.call, was, is);
                }
                // There and back, nothing is forgotten either.
                let mut back = changed.clone();
                back.change(walk.limits, now);
                let through = self::used(&changed, now);
                let came_back = self::used(&back, now);
                for ((was, through), is) in used.iter().zip(through).zip(came_back) {
                    if through.1 == was.1 {
                        prop_assert!(is.1 == was.1, "{:?}: {:?} through {:?}", line.call, was, to);
                    }
                }
            }
        }
        Ok(())
    });
}

/// A rule, and how much of it is used.
type Used = (Spec, u128);

fn carries((was, before): Used, (is, after): Used) -> bool {
    match (was.rule, is.rule) {
        // What is older than the new period has left.
        (Rule::SlidingLog { .. }, Rule::SlidingLog { .. }) if is.period < was.period => {
            after <= before
        }
        (
            Rule::FixedWindow { .. } | Rule::AnchoredWindow,
            Rule::FixedWindow { .. } | Rule::AnchoredWindow,
        ) => after == before,
        (was, is) if std::mem::discriminant(&was) == std::mem::discriminant(&is) => after == before,
        _ => after == 0,
    }
}

/// Of each rule of a limiter that is no deeper than a list.
fn used<S: Subject>(walk: &Walk<'_, S>, now: Timestamp) -> Vec<Used> {
    let rules = walk.limits.rules();
    let mut used = Vec::new();
    let mut state = walk.state.clone();
    let report = &mut |member: usize, decision: tollgate::Decision| {
        let spec = rules[member];
        let units = u128::from(spec.most()) + u128::from(decision.debt());
        used.push((spec, units - u128::from(decision.remaining())));
    };
    let flat = match walk.limits {
        Composed::Alone(_) => true,
        Composed::Together(members) => members
            .iter()
            .all(|member| matches!(member, Composed::Alone(_))),
        Composed::Tried(inner) => matches!(**inner, Composed::Alone(_)),
    };
    if flat {
        let told = walk.limiter.check_each(&mut state, now, 0, report);
        assert!(told.is_ok_and(|decision| decision.is_allowed()));
    }
    used
}

fn a_change_to_the_same_changes_nothing<S: Subject>() {
    walk::<S>("a change to the same", |walk, line| {
        walk.ask(line.number, line.call);
        let now = line.call.now();
        let before = answers(walk, now);
        let idle_at = walk.limiter.idle_at(&walk.state);
        walk.change(walk.limits, now);
        prop_assert_eq!(answers(walk, now), before);
        if idle_at > now {
            prop_assert_eq!(walk.limiter.idle_at(&walk.state), idle_at);
        }
        Ok(())
    });
}

fn check_each_tells_what_each_member_says<S: Subject>() {
    let drawn = histories(S::kind(), Clock::Forward, 1);
    let promise = title::<S>("check_each tells what each member says");
    hold(&promise, cases::<S>(HISTORIES), drawn, |history| {
        let (mut walk, mut holder) = (Walk::<S>::begin(&history), Holder::new(&history.limits));
        for line in history.script() {
            let (now, cost) = (line.call.now(), line.call.cost());
            let (mut asked, mut checked) = (walk.clone(), walk.clone());
            let mut told = Vec::new();
            let report = &mut |member, decision| {
                assert_eq!(member, told.len());
                told.push(Verdict::from(decision));
            };
            let decision = walk.limiter.check_each(&mut asked.state, now, cost, report);
            prop_assert_eq!(
                Answer::from(decision),
                walk.limiter.check(&mut checked.state, now, cost).into()
            );
            prop_assert_eq!(answers(&asked, now), answers(&checked, now));
            let oracle = holder.state(0);
            match oracle.never(cost) {
                Some(_) => prop_assert!(told.is_empty()),
                None => prop_assert_eq!(told, oracle.each(now.as_nanos().into(), cost)),
            }
            walk.ask(line.number, line.call);
            holder.ask(line.number, line.call);
        }
        Ok(())
    });
}

/// Walks every history of `S` through one state; `visit` makes the call.
fn walk<S: Subject>(promise: &str, visit: impl Fn(&mut Walk<'_, S>, &Line) -> TestCaseResult) {
    let drawn = histories(S::kind(), Clock::Forward, 1);
    hold(
        &title::<S>(promise),
        cases::<S>(HISTORIES),
        drawn,
        |history| {
            let mut walk = Walk::begin(&history);
            history.script().iter().try_for_each(|line| {
                visit(&mut walk, line).map_err(|failure| line.call.blame(failure))
            })
        },
    );
}

fn stands<S: Subject>(walk: &Walk<'_, S>, now: Timestamp) -> Verdict {
    let told = walk.limiter.peek(&walk.state, now, 0);
    told.expect("cost 0 is allowed").into()
}

/// What a state answers, now and later.
fn answers<S: Subject>(walk: &Walk<'_, S>, now: Timestamp) -> [Answer; 6] {
    let most = walk.limits.most().unwrap_or(1);
    let period = walk.limits.rules()[0].period;
    let ask = |wait, cost| {
        let later = now + Duration::from_nanos(wait);
        Answer::from(walk.limiter.peek(&walk.state, later, cost))
    };
    let half = period / 2;
    [
        ask(0, 1),
        ask(0, most),
        ask(half, 1),
        ask(half, most),
        ask(period, 1),
        ask(period, most),
    ]
}

fn is_tried(limits: &Composed) -> bool {
    match limits {
        Composed::Alone(_) => false,
        Composed::Together(members) => members.iter().any(is_tried),
        Composed::Tried(_) => true,
    }
}
