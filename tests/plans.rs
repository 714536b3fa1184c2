//! Plans: what a client may do is chosen by name with the call, and what it has used goes with it.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseResult;
use support::hold;
use support::specs::{Spec, specs};
use tollgate::keyed::PlanError;
use tollgate::{
    Algorithm, Decision, FixedWindow, Keyed, LeakyBucket, Limiter, PlanId, Plans, Policy, Quota,
    SlidingLog, SlidingWindowCounter, Timestamp, TokenBucket,
};

const FREE: PlanId = PlanId::new("free");
const PREMIUM: PlanId = PlanId::new("premium");
const TINY: PlanId = PlanId::new("tiny");
const NANO: Duration = Duration::from_nanos(1);
const SECOND: Duration = Duration::from_secs(1);

/// A minute's start, so that all five algorithms begin with a whole window.
const NOW: Timestamp = Timestamp::from_secs(1_700_000_040);

fn buckets() -> Plans<TokenBucket> {
    plans(|limit| TokenBucket::new(Quota::per_minute(limit)))
}

fn plans<L: Limiter>(rule: impl Fn(u64) -> L) -> Plans<L> {
    Plans::new([
        ("free", rule(100)),
        ("premium", rule(1_000)),
        ("tiny", rule(10)),
    ])
    .unwrap()
}

type Store<L = TokenBucket> = Keyed<String, Plans<L>>;

/// Puts a client on a plan without spending anything: by a call that the plan refuses.
fn move_to<L: Limiter>(store: &Store<L>, plan: PlanId, key: &str, now: Timestamp) {
    let most = store.limiter().get(plan).unwrap().quota().limit();
    let decision = store.check_n_as(plan, key, most, now).unwrap();
    assert!(!decision.is_allowed(), "{decision:?}");
}

#[test]
fn a_table_without_plans_or_with_two_of_one_name_is_refused() {
    let rule = TokenBucket::new(Quota::per_minute(1));
    let none: [(&str, TokenBucket); 0] = [];
    let empty = Plans::new(none).unwrap_err();
    assert!(!empty.to_string().is_empty());
    let twice = Plans::new([("free", rule), ("gold", rule), ("free", rule)]).unwrap_err();
    assert!(twice.to_string().contains("free"), "{twice}");
    assert_ne!(empty.to_string(), twice.to_string());
    // A source of errors for `?`.
    let _: Box<dyn std::error::Error + Send + Sync> = twice.into();
}

#[test]
fn a_table_tells_its_plans() {
    let plans = buckets();
    let names: Vec<String> = plans.names().map(|name| name.to_string()).collect();
    assert_eq!(names, ["free", "premium", "tiny"]);
    assert_eq!(plans.get("premium").unwrap().quota().limit(), 1_000);
    assert_eq!(plans.get(TINY).unwrap().quota().limit(), 10);
    assert!(plans.get("gold").is_none());
    assert_eq!(PlanId::from("free"), FREE);
    assert_ne!(PlanId::from("Free"), FREE);
}

#[test]
fn newcomers_are_judged_by_the_first_plan() {
    let store = Store::new(buckets());
    assert_eq!(store.plan_of("ada"), None);
    assert_eq!(store.peek("ada", NOW).limit(), 100);
    assert_eq!(
        store.plan_of("ada"),
        None,
        "a peek makes no client of anybody"
    );
    let decision = store.check("ada", NOW);
    assert_eq!((decision.limit(), decision.remaining()), (100, 99));
    assert_eq!(store.plan_of("ada"), Some(FREE));
    assert_eq!(store.check_n("grace", 101, NOW).unwrap_err().most(), 100);
    assert_eq!(store.len(), 1);
}

#[test]
fn a_call_names_the_plan_that_judges_it() {
    let store = Store::new(buckets());
    let tiny = store.check_n_as(TINY, "ada", 10, NOW).unwrap();
    assert!(tiny.is_allowed());
    assert_eq!((tiny.limit(), tiny.remaining()), (10, 0));
    assert!(!store.allow_as("tiny", "ada", NOW).unwrap());
    assert!(store.allow_as(PREMIUM, "grace", NOW).unwrap());
    let premium = store.check_as("premium", "grace", NOW).unwrap();
    assert_eq!((premium.limit(), premium.remaining()), (1_000, 998));
    assert_eq!(store.plan_of("ada"), Some(TINY));
    assert_eq!(store.plan_of("grace"), Some(PREMIUM));
}

#[test]
fn who_names_no_plan_is_judged_by_the_one_remembered() {
    let store = Store::new(buckets());
    assert!(store.allow_as("premium", "ada", NOW).unwrap());
    assert_eq!(store.peek("ada", NOW).limit(), 1_000);
    let decision = store.check("ada", NOW);
    assert_eq!((decision.limit(), decision.remaining()), (1_000, 998));
    assert!(store.check_n("ada", 998, NOW).unwrap().is_allowed());
    assert!(!store.allow("ada", NOW));
    assert_eq!(store.check("ada", NOW).limit(), 1_000);
    assert_eq!(store.at_most("ada", 5, NOW).limit(), 1_000);
    assert_eq!(store.charge("ada", 5, NOW).debt(), 5);
    assert_eq!(store.plan_of("ada"), Some(PREMIUM));
}

/// What was used at one plan is used at the next: for whatever rule the plans are of.
fn usage_goes_along<L: Limiter>(rule: impl Fn(u64) -> L) {
    let store = Store::new(plans(&rule));
    assert!(store.check_n_as(FREE, "ada", 30, NOW).unwrap().is_allowed());
    for _ in 0..3 {
        move_to(&store, PREMIUM, "ada", NOW);
        assert_eq!(store.peek("ada", NOW).remaining(), 970, "{:?}", rule(1));
        move_to(&store, FREE, "ada", NOW);
        assert_eq!(store.peek("ada", NOW).remaining(), 70, "{:?}", rule(1));
        move_to(&store, TINY, "ada", NOW);
        let below = store.peek("ada", NOW);
        assert_eq!((below.limit(), below.remaining()), (10, 0));
        assert_eq!(below.debt(), 20, "{:?}", rule(1));
        assert!(!store.allow("ada", NOW));
        move_to(&store, FREE, "ada", NOW);
        assert_eq!(store.peek("ada", NOW).remaining(), 70, "{:?}", rule(1));
    }
    // And what is left can be spent, to the unit.
    assert!(
        store
            .check_n_as(PREMIUM, "ada", 970, NOW)
            .unwrap()
            .is_allowed()
    );
    assert!(!store.allow_as(PREMIUM, "ada", NOW).unwrap());
}

#[test]
fn a_change_of_plan_carries_what_was_used() {
    usage_goes_along(|limit| TokenBucket::new(Quota::per_minute(limit)));
    usage_goes_along(|limit| LeakyBucket::new(Quota::per_minute(limit)));
    usage_goes_along(|limit| FixedWindow::new(Quota::per_minute(limit)));
    usage_goes_along(|limit| {
        FixedWindow::new(Quota::per_minute(limit)).anchored_at_first_request()
    });
    usage_goes_along(|limit| SlidingLog::new(Quota::per_minute(limit)));
    usage_goes_along(|limit| SlidingWindowCounter::new(Quota::per_minute(limit)));
    for algorithm in Algorithm::ALL {
        usage_goes_along(|limit| algorithm.policy(Quota::per_minute(limit)));
    }
    usage_goes_along(|limit| {
        (
            TokenBucket::new(Quota::per_minute(limit)),
            FixedWindow::new(Quota::per_minute(limit)),
        )
    });
}

#[test]
fn what_came_back_until_the_change_came_back_at_the_old_rate() {
    let store = Store::new(buckets());
    assert!(store.check_n_as(FREE, "ada", 30, NOW).unwrap().is_allowed());
    // Six seconds of 100 a minute: 10 of the 30 are back.
    let later = NOW + 6 * SECOND;
    move_to(&store, PREMIUM, "ada", later);
    assert_eq!(store.peek("ada", later).remaining(), 980);
    // From there on it comes back at 1 000 a minute.
    let full = later + Duration::from_millis(1_200);
    assert_eq!(store.peek("ada", full - NANO).remaining(), 999);
    assert_eq!(store.peek("ada", full).remaining(), 1_000);
}

#[test]
fn a_change_of_plan_holds_even_where_the_call_is_refused_and_its_wait_is_honest() {
    let store = Store::new(buckets());
    assert!(store.check_n_as(FREE, "ada", 30, NOW).unwrap().is_allowed());
    let refused = store.check_as(TINY, "ada", NOW).unwrap();
    assert!(!refused.is_allowed());
    assert_eq!((refused.limit(), refused.remaining()), (10, 0));
    // 30 are missing and 9 may be: 21 come back in 126 s.
    assert_eq!(refused.retry_after(), 126 * SECOND);
    assert_eq!(store.plan_of("ada"), Some(TINY));
    let due = NOW + refused.retry_after();
    assert!(!store.allow("ada", due - NANO));
    assert!(!store.allow_as(TINY, "ada", due - NANO).unwrap());
    assert!(store.allow_as(TINY, "ada", due).unwrap());
    assert!(!store.allow_as(TINY, "ada", due).unwrap());
}

/// A change that left the time where it was would let a late stamp take back, at the old plan, what came since.
#[test]
fn time_does_not_run_back_behind_a_change_of_plan() {
    let rules = [
        ("free", TokenBucket::new(Quota::per_minute(60))),
        ("tiny", TokenBucket::new(Quota::per_minute(2))),
    ];
    let store = Store::new(Plans::new(rules).unwrap());
    assert!(store.check_n_as(FREE, "ada", 60, NOW).unwrap().is_allowed());
    assert!(!store.allow_as(TINY, "ada", NOW + 9 * SECOND).unwrap());
    // Decided at the change, four seconds after its own stamp: 9 are back, at the old rate.
    let late = store.check_as(FREE, "ada", NOW + 5 * SECOND).unwrap();
    assert!(late.is_allowed());
    assert_eq!(late.remaining(), 8);
    assert_eq!(late.reset_after(), (52 + 4) * SECOND);
}

#[test]
fn a_cost_that_the_plan_can_never_grant_changes_nothing_not_even_the_plan() {
    let store = Store::new(buckets());
    assert!(
        store
            .check_n_as(PREMIUM, "ada", 500, NOW)
            .unwrap()
            .is_allowed()
    );
    let before = store.peek("ada", NOW);
    let error = store.check_n_as(TINY, "ada", 11, NOW).unwrap_err();
    match error {
        PlanError::CostTooHigh(never) => assert_eq!((never.cost(), never.most()), (11, 10)),
        other => panic!("{other:?}"),
    }
    assert_eq!(store.plan_of("ada"), Some(PREMIUM));
    assert_eq!(store.peek("ada", NOW), before);
    assert!(store.check_n_as(TINY, "grace", 11, NOW).is_err());
    assert!(!store.contains("grace"));
    assert_eq!(store.plan_of("grace"), None);
}

/// An idle client that is still known changed its plan with a call that cost nothing, and one that had been forgotten did
/// not: so it could be seen who was forgotten.
#[test]
fn a_cost_of_0_changes_nothing_not_even_the_plan() {
    let stores = [Store::new(buckets()), Store::new(buckets())];
    let later = NOW + 60 * SECOND;
    for store in &stores {
        assert!(store.allow_as(FREE, "ada", NOW).unwrap());
        assert!(
            store
                .check_n_as(PREMIUM, "grace", 0, NOW)
                .unwrap()
                .is_allowed()
        );
        assert!(!store.contains("grace"));
    }
    assert_eq!(stores[0].sweep(later), 1);
    for store in &stores {
        let free_of_charge = store.check_n_as(PREMIUM, "ada", 0, later).unwrap();
        assert_eq!(
            (free_of_charge.limit(), free_of_charge.remaining()),
            (1_000, 1_000)
        );
        assert_eq!(store.peek("ada", later).limit(), 100);
    }
}

#[test]
fn a_plan_that_is_not_known_is_told_the_plans_that_are_and_changes_nothing() {
    let store = Store::new(buckets());
    assert!(store.allow_as(PREMIUM, "ada", NOW).unwrap());
    let before = store.peek("ada", NOW);
    let allow = store.allow_as("gold", "ada", NOW).unwrap_err();
    let check = store.check_as("gold", "ada", NOW).unwrap_err();
    assert_eq!(allow, check);
    for told in ["free", "premium", "tiny"] {
        assert!(check.to_string().contains(told), "{check}");
    }
    let costly = store.check_n_as("gold", "ada", 1_000_000, NOW).unwrap_err();
    match &costly {
        PlanError::UnknownPlan(unknown) => assert_eq!(*unknown, check),
        other => panic!("{other:?}"),
    }
    assert!(costly.to_string().contains("premium"), "{costly}");
    assert_eq!(store.plan_of("ada"), Some(PREMIUM));
    assert_eq!(store.peek("ada", NOW), before);
    assert!(store.allow_as("gold", "grace", NOW).is_err());
    assert!(!store.contains("grace"));
    assert_eq!(store.len(), 1);
}

/// A refusal is remembered in front of the store, and would be answered from there.
#[test]
fn a_refusal_that_is_remembered_never_answers_for_another_plan() {
    let store = Store::new(buckets());
    assert!(
        store
            .check_n_as(FREE, "ada", 100, NOW)
            .unwrap()
            .is_allowed()
    );
    for round in 0..20 {
        for _ in 0..5 {
            assert!(!store.allow_as(FREE, "ada", NOW).unwrap());
            assert!(!store.allow("ada", NOW));
            let refused = store.check_as(FREE, "ada", NOW).unwrap();
            assert_eq!((refused.limit(), refused.is_allowed()), (100, false));
            // 100 of 100 are missing, and `round` more.
            let missing = 600 * (1 + round);
            assert_eq!(refused.retry_after(), Duration::from_millis(missing));
        }
        for _ in 0..5 {
            let refused = store.check_as(TINY, "ada", NOW).unwrap();
            assert_eq!((refused.limit(), refused.is_allowed()), (10, false));
            assert_eq!(refused.retry_after(), (6 * (91 + round)) as u32 * SECOND);
            assert_eq!(store.check("ada", NOW), refused);
        }
        let premium = store.check_as(PREMIUM, "ada", NOW).unwrap();
        assert!(premium.is_allowed());
        assert_eq!(premium.remaining(), 899 - round);
        assert_eq!(store.peek("ada", NOW).limit(), 1_000);
    }
}

#[test]
fn a_client_that_names_no_plan_is_not_answered_for_the_plan_it_had() {
    let store = Store::new(buckets());
    assert!(store.check_n_as(TINY, "ada", 10, NOW).unwrap().is_allowed());
    for _ in 0..10 {
        assert!(!store.allow("ada", NOW));
    }
    // Not even the call that changes the plan is asked for a unit.
    move_to(&store, PREMIUM, "ada", NOW);
    assert!(store.allow("ada", NOW));
    assert_eq!(store.check("ada", NOW).limit(), 1_000);
    move_to(&store, TINY, "ada", NOW);
    assert!(!store.allow("ada", NOW));
}

#[test]
fn idle_clients_are_forgotten_and_nobody_can_tell() {
    let kept = Store::new(buckets());
    let swept = Store::new(buckets());
    let mut now = NOW;
    for round in 0..60_u64 {
        for (at, client) in ["ada", "grace", "edsger"].into_iter().enumerate() {
            let plan = [FREE, PREMIUM, TINY][(at + round as usize / 7) % 3];
            let cost = 1 + round % 10;
            let ask = |store: &Store| match round % 7 {
                // The first of each seven calls names a plan.
                0 => store.check_n_as(plan, client, cost, now).ok(),
                _ => store.check_n(client, cost, now).ok(),
            };
            assert_eq!(ask(&kept), ask(&swept), "{client}, round {round}");
        }
        now += [SECOND, 13 * SECOND, 200 * SECOND][round as usize % 3];
        swept.sweep(now);
    }
    assert!(swept.stats().forgotten > 10);
}

#[test]
fn a_client_of_another_plan_than_the_first_is_remembered_until_it_is_reset() {
    let store = Store::new(plans(|limit| FixedWindow::new(Quota::per_minute(limit))));
    assert!(store.allow_as(PREMIUM, "ada", NOW).unwrap());
    assert!(store.allow_as(FREE, "grace", NOW).unwrap());
    let later = NOW + 3_600 * SECOND;
    assert_eq!(store.sweep(later), 1);
    assert_eq!(store.plan_of("ada"), Some(PREMIUM));
    assert_eq!(store.check("ada", later).limit(), 1_000);
    assert!(store.reset("ada"));
    assert_eq!(store.plan_of("ada"), None);
    assert_eq!(store.check("ada", later).limit(), 100);
}

#[test]
fn a_flood_of_clients_of_the_first_plan_is_forgotten_as_it_passes() {
    let store: Keyed<u64, _> = Keyed::new(buckets());
    let mut now = NOW;
    for key in 0..100_000_u64 {
        now += Duration::from_millis(10);
        assert!(store.allow_as(FREE, &key, now).unwrap());
    }
    // A unit is back after 600 ms: 60 clients are not idle, in up to 256 shards.
    assert!(store.len() <= 5_000, "{}", store.len());
}

#[test]
fn a_limit_that_is_raised_is_raised_for_those_who_are_known() {
    let store = Store::new(buckets());
    assert!(store.check_n_as(FREE, "ada", 30, NOW).unwrap().is_allowed());
    assert!(
        store
            .check_n_as(TINY, "grace", 10, NOW)
            .unwrap()
            .is_allowed()
    );
    for _ in 0..5 {
        assert!(!store.allow("grace", NOW));
    }
    let rule = |limit| TokenBucket::new(Quota::per_minute(limit));
    let raised = [
        ("free", rule(200)),
        ("premium", rule(1_000)),
        ("tiny", rule(12)),
    ];
    store.set_limiter(Plans::new(raised).unwrap(), NOW);
    assert_eq!(store.peek("ada", NOW).remaining(), 170);
    assert_eq!(store.check_as(FREE, "ada", NOW).unwrap().remaining(), 169);
    assert!(store.allow("grace", NOW) && store.allow("grace", NOW));
    assert!(!store.allow("grace", NOW));
    assert_eq!(store.plan_of("grace"), Some(TINY));
    assert_eq!(store.limiter().get("free").unwrap().quota().limit(), 200);
}

#[test]
fn clients_of_a_plan_that_is_gone_go_to_the_first_one_with_what_they_used() {
    let store = Store::new(buckets());
    assert!(
        store
            .check_n_as(PREMIUM, "ada", 30, NOW)
            .unwrap()
            .is_allowed()
    );
    assert!(
        store
            .check_n_as(TINY, "grace", 4, NOW)
            .unwrap()
            .is_allowed()
    );
    let rule = |limit| TokenBucket::new(Quota::per_minute(limit));
    let fewer = Plans::new([("free", rule(100)), ("tiny", rule(10))]).unwrap();
    store.set_limiter(fewer, NOW);
    assert_eq!(store.plan_of("ada"), Some(FREE));
    let decision = store.check("ada", NOW);
    assert_eq!((decision.limit(), decision.remaining()), (100, 69));
    assert_eq!(store.plan_of("grace"), Some(TINY));
    assert_eq!(store.peek("grace", NOW).remaining(), 6);
    let error = store.allow_as(PREMIUM, "ada", NOW).unwrap_err();
    assert!(!error.to_string().contains("premium"), "{error}");
}

#[test]
fn a_plan_that_is_added_can_be_named() {
    let store = Store::new(buckets());
    assert!(store.check_n_as(FREE, "ada", 30, NOW).unwrap().is_allowed());
    assert!(store.allow_as("gold", "ada", NOW).is_err());
    let rule = |limit| TokenBucket::new(Quota::per_minute(limit));
    let more = [
        ("free", rule(100)),
        ("premium", rule(1_000)),
        ("tiny", rule(10)),
        ("gold", rule(500)),
    ];
    store.set_limiter(Plans::new(more).unwrap(), NOW);
    let decision = store.check_as("gold", "ada", NOW).unwrap();
    assert_eq!((decision.limit(), decision.remaining()), (500, 469));
}

/// A table that is read from a map may come in another order.
#[test]
fn plans_are_known_by_their_names_and_not_by_their_places() {
    let store = Store::new(buckets());
    assert!(
        store
            .check_n_as(PREMIUM, "ada", 30, NOW)
            .unwrap()
            .is_allowed()
    );
    assert!(
        store
            .check_n_as(TINY, "grace", 4, NOW)
            .unwrap()
            .is_allowed()
    );
    let rule = |limit| TokenBucket::new(Quota::per_minute(limit));
    let turned = [
        ("tiny", rule(10)),
        ("premium", rule(1_000)),
        ("free", rule(100)),
    ];
    store.set_limiter(Plans::new(turned).unwrap(), NOW);
    assert_eq!(store.plan_of("ada"), Some(PREMIUM));
    assert_eq!(store.peek("ada", NOW).remaining(), 970);
    assert_eq!(store.plan_of("grace"), Some(TINY));
    assert_eq!(store.peek("grace", NOW).remaining(), 6);
    assert_eq!(
        store.check("edsger", NOW).limit(),
        10,
        "the first is the default"
    );
}

#[test]
fn plans_of_several_algorithms_start_afresh_where_nothing_can_be_carried() {
    let quota = Quota::per_minute(10);
    let plans: Plans<Policy> = Plans::new([
        ("even", LeakyBucket::new(quota).into()),
        ("bursty", TokenBucket::new(quota).into()),
    ])
    .unwrap();
    let store: Store<Policy> = Store::new(plans);
    assert!(
        store
            .check_n_as("even", "ada", 7, NOW)
            .unwrap()
            .is_allowed()
    );
    assert_eq!(
        store
            .check_n_as("bursty", "ada", 10, NOW)
            .unwrap()
            .remaining(),
        0
    );
}

const CASES: u32 = 2_000;
const NAMES: [&str; 3] = ["free", "premium", "tiny"];
const KEYS: u8 = 3;

/// A call, in terms of what was told last.
#[derive(Clone, Copy, Debug)]
struct Step {
    key: u8,
    plan: usize,
    /// Named, or left to the store to remember.
    named: bool,
    pause: Pause,
    cost: Cost,
}

#[derive(Clone, Copy, Debug)]
enum Pause {
    None,
    Nanos(u64),
    /// 256ths of the plan's period.
    Part(u8),
    /// To the end of the wait that was told last.
    Retry,
    /// To the end of the longest wait there is.
    Idle,
}

#[derive(Clone, Copy, Debug)]
enum Cost {
    Units(u64),
    Left,
    OneMoreThanLeft,
    Most,
    TooHigh,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pause = prop_oneof![
        8 => Just(Pause::None),
        2 => (1..20_u64).prop_map(Pause::Nanos),
        2 => any::<u8>().prop_map(Pause::Part),
        4 => Just(Pause::Retry),
        1 => Just(Pause::Idle),
    ];
    let cost = prop_oneof![
        8 => Just(Cost::Units(1)),
        1 => Just(Cost::Units(0)),
        2 => (1..12_u64).prop_map(Cost::Units),
        2 => Just(Cost::Left),
        2 => Just(Cost::OneMoreThanLeft),
        1 => Just(Cost::Most),
        1 => Just(Cost::TooHigh),
    ];
    let step = (0..KEYS, 0..NAMES.len(), 0..4_u8, pause, cost).prop_map(
        |(key, plan, named, pause, cost)| Step {
            key,
            plan,
            named: named > 0,
            pause,
            cost,
        },
    );
    vec(step, 1..80)
}

fn tables() -> impl Strategy<Value = [Spec; 3]> {
    const KINDS: [&[Algorithm]; 6] = [
        &[Algorithm::TokenBucket],
        &[Algorithm::LeakyBucket],
        &[Algorithm::FixedWindow],
        &[Algorithm::SlidingLog],
        &[Algorithm::SlidingWindowCounter],
        &Algorithm::ALL,
    ];
    select(&KINDS[..]).prop_flat_map(|kinds| [specs(kinds), specs(kinds), specs(kinds)])
}

/// Every client as a plan and a state of its own, judged by the rules alone.
struct Model {
    rules: [Policy; 3],
    clients: BTreeMap<u8, (usize, <Policy as Limiter>::State)>,
}

impl Model {
    fn plan_of(&self, key: u8) -> usize {
        self.clients.get(&key).map_or(0, |(plan, _)| *plan)
    }

    fn check(&mut self, plan: usize, key: u8, cost: u64, now: Timestamp) -> Option<Decision> {
        let rule = self.rules[plan];
        let mut state = match self.clients.get(&key) {
            Some((had, state)) if *had != plan => rule.carry(&self.rules[*had], state.clone(), now),
            Some((_, state)) => state.clone(),
            None => rule.fresh(now),
        };
        let decision = rule.check(&mut state, now, cost).ok()?;
        let is_kept = self.clients.contains_key(&key) || decision.is_allowed();
        if is_kept && cost > 0 {
            self.clients.insert(key, (plan, state));
        }
        Some(decision)
    }
}

#[test]
fn every_decision_is_the_named_plans_own() {
    hold(
        "plans",
        CASES,
        (tables(), steps()),
        |(table, steps)| -> TestCaseResult {
            let rules = table.map(|spec| spec.policy());
            let plans = Plans::new(NAMES.into_iter().zip(rules)).unwrap();
            let store: Keyed<u8, _> = Keyed::new(plans);
            let mut model = Model {
                rules,
                clients: BTreeMap::new(),
            };
            let mut now = NOW;
            let mut told = Duration::ZERO;
            for step in steps {
                let key = step.key;
                let period = table[step.plan].period;
                now += match step.pause {
                    Pause::None => Duration::ZERO,
                    Pause::Nanos(nanos) => Duration::from_nanos(nanos),
                    Pause::Part(part) => Duration::from_nanos(period / 256 * u64::from(part)),
                    Pause::Retry => told,
                    Pause::Idle => 2 * Duration::from_nanos(period),
                };
                let plan = if step.named {
                    step.plan
                } else {
                    model.plan_of(key)
                };
                let left = store.peek(&key, now).remaining();
                let cost = match step.cost {
                    Cost::Units(units) => units,
                    Cost::Left => left,
                    Cost::OneMoreThanLeft => left + 1,
                    Cost::Most => table[plan].most(),
                    Cost::TooHigh => table[plan].most() + 1,
                };
                let expected = model.check(plan, key, cost, now);
                let got = if step.named {
                    store.check_n_as(NAMES[plan], &key, cost, now).ok()
                } else {
                    store.check_n(&key, cost, now).ok()
                };
                prop_assert_eq!(got, expected, "{:?} of {:?} at {:?}", cost, step, now);
                if let Some(refused) = got.filter(|decision| !decision.is_allowed()) {
                    told = refused.retry_after();
                    retry_is_honest(&store, key, cost, now, told)?;
                }
            }
            Ok(())
        },
    );
}

fn retry_is_honest(
    store: &Keyed<u8, Plans<Policy>>,
    key: u8,
    cost: u64,
    now: Timestamp,
    told: Duration,
) -> TestCaseResult {
    let due = now + told;
    if due.saturating_duration_since(now) < told {
        return Ok(()); // beyond the last stamp
    }
    let fits = |at| {
        let decision = store.peek_n(&key, cost, at);
        decision.is_ok_and(|decision| decision.is_allowed())
    };
    prop_assert!(!fits(due - NANO), "allowed a nanosecond before {:?}", told);
    prop_assert!(fits(due), "refused after {:?}", told);
    Ok(())
}
