//! Estimates: units are taken before the work, and what it really cost is settled after it.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use support::specs::{Rule, Spec, share, specs};
use support::{hold, promises};
use tollgate::{
    Algorithm, CostTooHigh, Decision, Direct, EstimateError, FixedWindow, Keyed, LeakyBucket,
    Policy, Quota, Shadow, SlidingLog, SlidingWindowCounter, Timestamp, TokenBucket,
};

const SECOND: Duration = Duration::from_secs(1);
const NANO: Duration = Duration::from_nanos(1);
const CASES: u32 = 2_000;

/// A minute's start.
const NOW: Timestamp = Timestamp::from_secs(1_700_000_040);

promises! {
    direct: tollgate::Direct<tollgate::Policy>,
    keyed: tollgate::Keyed<String, tollgate::Policy>;

    what_was_estimated_is_spent_until_it_is_settled
    an_estimate_that_was_too_low_is_settled_up
    an_estimate_that_was_too_high_is_settled_down
    an_estimate_that_was_right_stays_as_it_is
    work_that_cost_nothing_is_given_back_whole
    what_is_kept_stays_spent
    what_is_dropped_is_given_back
    what_is_dropped_in_a_panic_is_given_back
    an_estimate_of_nothing_can_still_be_settled
    what_is_refused_spends_nothing_and_says_when
    what_could_never_be_granted_is_told_so
    several_estimates_in_flight_are_settled_each_by_itself
    what_lies_above_the_limit_is_owed
    what_lies_above_the_cap_on_debt_is_not_recorded
    a_guard_dropped_late_is_no_clock_that_was_set_back
    a_guard_settled_with_a_late_stamp_is_decided_at_the_holders_time
    what_was_estimated_in_a_window_that_has_ended_is_not_credited_to_the_next
    what_a_log_no_longer_counts_is_not_credited
    a_counter_credits_the_window_that_was_charged
    only_the_tail_of_a_queue_is_given_back
    an_estimate_settled_at_once_is_as_if_the_real_cost_had_been_asked_for
    a_guard_that_is_dropped_leaves_nothing_that_a_later_decision_can_see
}

/// A holder of states, and one client in it.
trait Holder: Sized {
    fn new(policy: Policy) -> Self;
    fn estimate(&self, cost: u64, now: Timestamp) -> Result<InFlight<'_>, EstimateError>;
    fn check_n(&self, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh>;
    fn charge(&self, cost: u64, now: Timestamp) -> Decision;
    fn peek(&self, now: Timestamp) -> Decision;

    /// An estimate that is sure to be granted.
    fn take(&self, cost: u64, now: Timestamp) -> InFlight<'_> {
        match self.estimate(cost, now) {
            Ok(guard) => guard,
            Err(error) => panic!("{error}"),
        }
    }

    fn spend(&self, cost: u64, now: Timestamp) {
        assert!(self.check_n(cost, now).unwrap().is_allowed());
    }

    fn left(&self, now: Timestamp) -> u64 {
        self.peek(now).remaining()
    }
}

/// What becomes of a guard: settled for so much at a stamp, or dropped.
type End<'a> = Box<dyn FnOnce(Option<(u64, Timestamp)>) -> Option<Decision> + 'a>;

/// A guard of whichever holder; dropped, it drops that.
struct InFlight<'a> {
    decision: Decision,
    end: End<'a>,
}

impl InFlight<'_> {
    fn settle(self, real_cost: u64, now: Timestamp) -> Decision {
        (self.end)(Some((real_cost, now))).unwrap()
    }

    fn keep(self) {
        (self.end)(None);
    }
}

macro_rules! in_flight {
    ($estimate:expr) => {{
        let guard = $estimate?;
        Ok(InFlight {
            decision: *guard.decision(),
            end: Box::new(move |end| match end {
                Some((real_cost, now)) => Some(guard.settle(real_cost, now)),
                None => {
                    guard.keep();
                    None
                }
            }),
        })
    }};
}

impl Holder for Direct<Policy> {
    fn new(policy: Policy) -> Self {
        Direct::new(policy)
    }

    fn estimate(&self, cost: u64, now: Timestamp) -> Result<InFlight<'_>, EstimateError> {
        in_flight!(self.estimate(cost, now))
    }

    fn check_n(&self, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh> {
        self.check_n(cost, now)
    }

    fn charge(&self, cost: u64, now: Timestamp) -> Decision {
        self.charge(cost, now)
    }

    fn peek(&self, now: Timestamp) -> Decision {
        self.peek(now)
    }
}

impl Holder for Keyed<String, Policy> {
    fn new(policy: Policy) -> Self {
        Keyed::new(policy)
    }

    fn estimate(&self, cost: u64, now: Timestamp) -> Result<InFlight<'_>, EstimateError> {
        in_flight!(self.estimate("ada", cost, now))
    }

    fn check_n(&self, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh> {
        self.check_n("ada", cost, now)
    }

    fn charge(&self, cost: u64, now: Timestamp) -> Decision {
        self.charge("ada", cost, now)
    }

    fn peek(&self, now: Timestamp) -> Decision {
        self.peek("ada", now)
    }
}

/// 100 a minute, by each of the five.
fn each_rule<S: Holder>(mut promise: impl FnMut(Algorithm, S)) {
    for algorithm in Algorithm::ALL {
        promise(algorithm, S::new(algorithm.policy(Quota::per_minute(100))));
    }
}

fn what_was_estimated_is_spent_until_it_is_settled<S: Holder>() {
    each_rule(|algorithm, holder: S| {
        let guard = holder.take(30, NOW);
        assert!(guard.decision.is_allowed());
        assert_eq!(guard.decision.granted(), 30, "{algorithm}");
        assert_eq!(guard.decision.remaining(), 70, "{algorithm}");
        assert_eq!(holder.left(NOW), 70, "{algorithm}");
        guard.keep();
    });
}

fn an_estimate_that_was_too_low_is_settled_up<S: Holder>() {
    each_rule(|algorithm, holder: S| {
        let after = holder.take(30, NOW).settle(50, NOW);
        assert!(after.is_allowed());
        assert_eq!(after.remaining(), 50, "{algorithm}");
        assert_eq!(holder.left(NOW), 50, "{algorithm}");
    });
}

fn an_estimate_that_was_too_high_is_settled_down<S: Holder>() {
    each_rule(|algorithm, holder: S| {
        let after = holder.take(30, NOW).settle(10, NOW);
        assert!(after.is_allowed());
        assert_eq!(after.remaining(), 90, "{algorithm}");
        assert_eq!(holder.left(NOW), 90, "{algorithm}");
    });
}

fn an_estimate_that_was_right_stays_as_it_is<S: Holder>() {
    each_rule(|algorithm, holder: S| {
        let after = holder.take(100, NOW).settle(100, NOW);
        assert!(!after.is_allowed(), "none is left for the next");
        assert_eq!(standing(&after), standing(&holder.peek(NOW)));
        assert_eq!((after.remaining(), after.debt()), (0, 0), "{algorithm}");
    });
}

fn work_that_cost_nothing_is_given_back_whole<S: Holder>() {
    each_rule(|algorithm, holder: S| {
        let after = holder.take(30, NOW).settle(0, NOW);
        assert_eq!(after.remaining(), 100, "{algorithm}");
        assert_eq!(holder.peek(NOW).reset_after(), Duration::ZERO);
    });
}

fn what_is_kept_stays_spent<S: Holder>() {
    each_rule(|algorithm, holder: S| {
        holder.take(30, NOW).keep();
        assert_eq!(holder.left(NOW), 70, "{algorithm}");
    });
}

fn what_is_dropped_is_given_back<S: Holder>() {
    each_rule(|algorithm, holder: S| {
        holder.spend(20, NOW);
        drop(holder.take(30, NOW));
        assert_eq!(holder.left(NOW), 80, "{algorithm}");
    });
}

fn what_is_dropped_in_a_panic_is_given_back<S: Holder>() {
    let holder = S::new(TokenBucket::new(Quota::per_minute(100)).into());
    let work = catch_unwind(AssertUnwindSafe(|| {
        let _guard = holder.take(30, NOW);
        std::panic::resume_unwind(Box::new("the work fails"));
    }));
    assert!(work.is_err());
    assert_eq!(holder.left(NOW), 100);
}

fn an_estimate_of_nothing_can_still_be_settled<S: Holder>() {
    each_rule(|algorithm, holder: S| {
        assert!(holder.take(0, NOW).decision.is_allowed());
        assert_eq!(holder.left(NOW), 100, "{algorithm}");
        assert_eq!(holder.take(0, NOW).settle(7, NOW).remaining(), 93);
        assert_eq!(holder.left(NOW), 93, "{algorithm}");
    });
}

fn what_is_refused_spends_nothing_and_says_when<S: Holder>() {
    each_rule(|algorithm, holder: S| {
        holder.spend(80, NOW);
        let before = holder.peek(NOW);
        let refused = match holder.estimate(30, NOW) {
            Err(EstimateError::Refused(refused)) => refused,
            Err(other) => panic!("{algorithm}: {other:?}"),
            Ok(_) => panic!("{algorithm}: granted"),
        };
        assert!(!refused.is_allowed());
        assert_eq!((refused.granted(), refused.remaining()), (0, 20));
        assert_eq!(holder.peek(NOW), before, "{algorithm}");
        let due = NOW + refused.retry_after();
        assert!(holder.estimate(30, due - NANO).is_err(), "{algorithm}");
        holder.take(30, due).keep();
    });
}

fn what_could_never_be_granted_is_told_so<S: Holder>() {
    each_rule(|algorithm, holder: S| {
        match holder.estimate(101, NOW) {
            Err(EstimateError::CostTooHigh(never)) => {
                assert_eq!((never.cost(), never.most()), (101, 100), "{algorithm}");
            }
            Err(other) => panic!("{algorithm}: {other:?}"),
            Ok(_) => panic!("{algorithm}: granted"),
        }
        assert_eq!(holder.left(NOW), 100, "{algorithm}");
    });
}

fn several_estimates_in_flight_are_settled_each_by_itself<S: Holder>() {
    for algorithm in Algorithm::ALL {
        if algorithm == Algorithm::LeakyBucket {
            continue; // gives back only the tail of its queue: a promise of its own
        }
        let holder = S::new(algorithm.policy(Quota::per_minute(100)));
        let (first, second) = (holder.take(30, NOW), holder.take(20, NOW));
        let (third, fourth) = (holder.take(10, NOW), holder.take(15, NOW));
        assert_eq!(holder.left(NOW), 25, "{algorithm}");
        assert_eq!(second.settle(25, NOW).remaining(), 20, "{algorithm}");
        drop(first);
        assert_eq!(holder.left(NOW), 50, "{algorithm}");
        third.keep();
        assert_eq!(fourth.settle(5, NOW).remaining(), 60, "{algorithm}");
        assert_eq!(holder.left(NOW), 60, "{algorithm}");
    }
}

fn what_lies_above_the_limit_is_owed<S: Holder>() {
    each_rule(|algorithm, holder: S| {
        let after = holder.take(60, NOW).settle(130, NOW);
        assert!(!after.is_allowed(), "{algorithm}");
        assert_eq!((after.remaining(), after.debt()), (0, 30), "{algorithm}");
        let due = NOW + after.retry_after();
        assert!(!holder.peek(due - NANO).is_allowed(), "{algorithm}");
        assert!(holder.peek(due).is_allowed(), "{algorithm}");
        if matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket) {
            // 31 units at one in 600 ms.
            assert_eq!(after.retry_after(), Duration::from_millis(18_600));
        }
    });
}

fn what_lies_above_the_cap_on_debt_is_not_recorded<S: Holder>() {
    let rule = TokenBucket::new(Quota::per_minute(100)).with_max_debt(10);
    let holder = S::new(rule.into());
    let after = holder.take(60, NOW).settle(1_000_000, NOW);
    assert_eq!(after.debt(), 10);
    assert_eq!(after.retry_after(), Duration::from_millis(600) * 11);
}

/// The guard still knows the stamp it was made with, and by now that lies further back than any slow thread's.
fn a_guard_dropped_late_is_no_clock_that_was_set_back<S: Holder>() {
    let holder = S::new(FixedWindow::new(Quota::per_minute(10)).into());
    let guard = holder.take(4, NOW);
    let later = NOW + 30 * SECOND;
    holder.spend(1, later);
    drop(guard);
    // A time that had been moved on by those 30 s would be in the next window.
    let after = holder.peek(later + SECOND);
    assert_eq!(after.remaining(), 9, "the four are back");
    assert_eq!(after.reset_after(), 29 * SECOND);
    holder.spend(9, later + 29 * SECOND);
    assert!(!holder.peek(later + 30 * SECOND - NANO).is_allowed());
    assert_eq!(holder.left(later + 30 * SECOND), 10);
}

fn a_guard_settled_with_a_late_stamp_is_decided_at_the_holders_time<S: Holder>() {
    let holder = S::new(TokenBucket::new(Quota::per_minute(60)).into());
    holder.spend(50, NOW);
    let guard = holder.take(10, NOW);
    let later = NOW + 9 * SECOND;
    holder.spend(1, later);
    // 8 are there at the latest charge, and stay there for a stamp from before it.
    let after = guard.settle(12, NOW + SECOND);
    assert_eq!(after.remaining(), 6);
    assert_eq!(after.reset_after(), (54 + 8) * SECOND);
    assert_eq!(holder.left(later + SECOND), 7);
}

fn what_was_estimated_in_a_window_that_has_ended_is_not_credited_to_the_next<S: Holder>() {
    let quota = Quota::per_minute(10);
    for rule in [
        FixedWindow::new(quota),
        FixedWindow::new(quota).anchored_at_first_request(),
    ] {
        let holder = S::new(rule.into());
        let (dropped, settled) = (holder.take(4, NOW), holder.take(5, NOW));
        let next = NOW + 60 * SECOND;
        holder.spend(2, next);
        drop(dropped);
        assert_eq!(holder.left(next), 8, "{rule:?}");
        assert_eq!(settled.settle(1, next).remaining(), 8, "{rule:?}");
        // What it cost above the estimate is spent in the window in which that is known.
        let late = holder.take(1, next);
        assert_eq!(late.settle(3, next).remaining(), 5, "{rule:?}");
    }
}

fn what_a_log_no_longer_counts_is_not_credited<S: Holder>() {
    let holder = S::new(SlidingLog::new(Quota::per_minute(10)).into());
    let guards = [holder.take(4, NOW), holder.take(3, NOW + SECOND)];
    let later = NOW + 60 * SECOND;
    holder.spend(2, later);
    let [gone, counted] = guards;
    drop(gone);
    assert_eq!(holder.left(later), 5, "it no longer counts");
    drop(counted);
    assert_eq!(holder.left(later), 8, "it counts for another second");
    assert_eq!(holder.left(later + SECOND), 8);
}

fn a_counter_credits_the_window_that_was_charged<S: Holder>() {
    let minute = 60 * SECOND;
    let rule = SlidingWindowCounter::new(Quota::per_minute(10));
    let holder = S::new(rule.into());
    let guard = holder.take(6, NOW);
    holder.spend(1, NOW + minute);
    // 6 of the window before count in full at the start of this one.
    assert_eq!(holder.left(NOW + minute), 3);
    drop(guard);
    assert_eq!(holder.left(NOW + minute), 9);

    let holder = S::new(rule.into());
    let guard = holder.take(6, NOW);
    holder.spend(1, NOW + 2 * minute);
    drop(guard);
    assert_eq!(
        holder.left(NOW + 2 * minute),
        9,
        "it weighs nothing any more"
    );
}

/// Those behind were told their delays.
fn only_the_tail_of_a_queue_is_given_back<S: Holder>() {
    let rule = LeakyBucket::new(Quota::per_minute(100));
    let holder = S::new(rule.into());
    let (first, second) = (holder.take(30, NOW), holder.take(20, NOW));
    drop(first);
    assert_eq!(holder.left(NOW), 50, "another queues behind it");
    assert_eq!(second.settle(5, NOW).remaining(), 65);

    let holder = S::new(rule.into());
    let (first, second) = (holder.take(30, NOW), holder.take(20, NOW));
    drop(second);
    assert_eq!(holder.left(NOW), 70);
    drop(first);
    assert_eq!(holder.left(NOW), 100, "it was the tail again");
}

/// What a decision tells of the client, whatever was spent by the call itself.
fn standing(decision: &Decision) -> (bool, u64, u64, [Duration; 2]) {
    let waits = [decision.retry_after(), decision.reset_after()];
    (
        decision.is_allowed(),
        decision.remaining(),
        decision.debt(),
        waits,
    )
}

/// Some charges, and the estimate and real cost of what comes then.
fn works() -> impl Strategy<Value = (Vec<(u16, u64)>, u64, u64)> {
    let costs = || prop_oneof![6 => 0..12_u64, 1 => any::<u64>()];
    (vec((0..=300_u16, costs()), 0..6), costs(), costs())
}

/// Whether units that were charged at several instants are dated as one.
fn shares_runs(spec: &Spec) -> bool {
    matches!(spec.rule, Rule::SlidingLog { resolution } if resolution > 1)
}

fn an_estimate_settled_at_once_is_as_if_the_real_cost_had_been_asked_for<S: Holder>() {
    hold(
        "an estimate settled is the real cost",
        CASES,
        (specs(&Algorithm::ALL), works()),
        |(spec, (before, estimate, real))| -> TestCaseResult {
            let (estimated, asked) = (S::new(spec.policy()), S::new(spec.policy()));
            let mut now = NOW;
            for (part, cost) in before {
                now += Duration::from_nanos(share(spec.period, part));
                let told = estimated.check_n(cost, now);
                prop_assert_eq!(told, asked.check_n(cost, now));
            }
            let left = asked.left(now);
            let estimate = estimate.min(left);
            // Of a run that others share the date stays what the estimate has made it.
            let real = real.max(shares_runs(&spec).into());
            let settled = estimated.take(estimate, now).settle(real, now);
            if real <= left {
                prop_assert!(asked.check_n(real, now).unwrap().is_allowed());
            } else {
                // Up to the estimate it was granted; the rest is recorded, as what was spent already is.
                prop_assert!(asked.check_n(estimate, now).unwrap().is_allowed());
                let _ = asked.charge(real - estimate, now);
            }
            prop_assert_eq!(standing(&settled), standing(&asked.peek(now)));
            for part in [0, 1, 64, 128, 256, 300, 520] {
                let later = now + Duration::from_nanos(share(spec.period, part));
                prop_assert_eq!(estimated.peek(later), asked.peek(later), "{} later", part);
            }
            Ok(())
        },
    );
}

fn a_guard_that_is_dropped_leaves_nothing_that_a_later_decision_can_see<S: Holder>() {
    hold(
        "a guard that is dropped",
        CASES,
        (specs(&Algorithm::ALL), works(), 0..=300_u16),
        |(spec, (before, estimate, cost), pause)| -> TestCaseResult {
            if shares_runs(&spec) {
                return Ok(()); // the run that it joined was dated anew
            }
            let (tried, spared) = (S::new(spec.policy()), S::new(spec.policy()));
            let mut now = NOW;
            for (part, cost) in before {
                now += Duration::from_nanos(share(spec.period, part));
                let told = tried.check_n(cost, now);
                prop_assert_eq!(told, spared.check_n(cost, now));
            }
            drop(tried.take(estimate.min(spared.left(now)), now));
            let later = now + Duration::from_nanos(share(spec.period, pause));
            prop_assert_eq!(tried.peek(later), spared.peek(later));
            prop_assert_eq!(tried.check_n(cost, later), spared.check_n(cost, later));
            prop_assert_eq!(tried.peek(later), spared.peek(later));
            Ok(())
        },
    );
}

/// What is only tried refuses nobody; the work is recorded all the same, as far as the limit records.
#[test]
fn an_estimate_of_a_limit_that_is_only_tried_is_granted_and_its_real_cost_recorded() {
    let rule = TokenBucket::new(Quota::per_minute(100)).with_max_debt(50);
    let limiter = Direct::new(Shadow::new(rule));
    let guard = limiter.estimate(1_000, NOW).unwrap();
    assert!(guard.decision().would_have_refused());
    assert_eq!(
        limiter.peek(NOW).remaining(),
        100,
        "a refusal spends nothing"
    );
    assert_eq!(guard.settle(120, NOW).debt(), 20);
    let dropped = limiter.estimate(10, NOW).unwrap();
    drop(dropped);
    assert_eq!(limiter.peek(NOW).debt(), 20);
}

#[test]
fn an_estimate_of_several_limits_is_given_back_to_each() {
    let rule = (
        TokenBucket::new(Quota::per_minute(100)),
        FixedWindow::new(Quota::per_hour(300)),
    );
    let limiter = Direct::new(rule);
    let left = |now| {
        let mut left = Vec::new();
        let each = limiter.check_each(0, now, |_, decision| left.push(decision.remaining()));
        assert!(each.unwrap().is_allowed());
        left
    };
    let guard = limiter.estimate(60, NOW).unwrap();
    assert_eq!(left(NOW), [40, 240]);
    drop(limiter.estimate(30, NOW).unwrap());
    assert_eq!(left(NOW), [40, 240]);
    let _ = guard.settle(20, NOW + 6 * SECOND);
    assert_eq!(left(NOW + 6 * SECOND), [90, 280]);
    match limiter.estimate(101, NOW + 6 * SECOND) {
        Err(EstimateError::CostTooHigh(never)) => {
            assert_eq!((never.member(), never.most()), (0, 100));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_estimate_is_of_one_client_alone() {
    let store: Keyed<String, _> = Keyed::new(TokenBucket::new(Quota::per_minute(100)));
    let ada = store.estimate("ada", 30, NOW).unwrap();
    let grace = store.estimate("grace", 40, NOW).unwrap();
    assert_eq!(ada.settle(50, NOW).remaining(), 50);
    drop(grace);
    assert_eq!(store.peek("ada", NOW).remaining(), 50);
    assert_eq!(store.peek("grace", NOW).remaining(), 100);
}

#[test]
fn a_client_that_is_forgotten_meanwhile_is_not_made_anew_by_what_is_given_back() {
    let store: Keyed<String, _> = Keyed::new(TokenBucket::new(Quota::per_minute(100)));
    let (reset, idle) = (
        store.estimate("ada", 30, NOW).unwrap(),
        store.estimate("grace", 30, NOW).unwrap(),
    );
    assert!(store.reset("ada"));
    drop(reset);
    assert!(!store.contains("ada"));
    assert_eq!(store.peek("ada", NOW).remaining(), 100);
    let later = NOW + 60 * SECOND;
    assert_eq!(store.sweep(later), 1);
    assert_eq!(idle.settle(10, later).remaining(), 100);
    assert!(store.is_empty());
}

#[test]
fn what_is_given_back_is_not_refused_for_an_earlier_refusal() {
    let store: Keyed<u64, _> = Keyed::new(TokenBucket::new(Quota::per_hour(10)));
    let guard = store.estimate(&7, 10, NOW).unwrap();
    for _ in 0..10 {
        assert!(!store.allow(&7, NOW));
    }
    drop(guard);
    assert!(store.allow(&7, NOW));
}
