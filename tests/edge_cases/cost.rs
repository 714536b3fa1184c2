//! Rows 13-19 and 21: bursts, and costs of nothing, of everything and of more than that.

use std::time::Duration;

use tollgate::{EstimateError, Keyed, Limiter, Policy};

use crate::faces::*;
use crate::policies::*;

/// A burst of one that is read as "one beside the steady one" lets two through at the start.
#[test]
fn row_13_a_burst_of_one_is_one() {
    each(&every(1, MIN), |f, what| {
        let answers: Vec<bool> = (0..4)
            .map(|s| f.ask(s * SEC, 1).expect(what).is_allowed())
            .collect();
        assert_eq!(answers, [true, false, false, false], "{what}");
    });
    each(&buckets(60, HOUR, 1), |f, what| {
        let answers: Vec<bool> = (0..4)
            .map(|s| f.ask(s * SEC, 1).expect(what).is_allowed())
            .collect();
        assert_eq!(answers, [true, false, false, false], "{what}");
    });
}

/// What accrues while the bucket is almost full was added on top of the burst instead of being capped by it.
#[test]
fn row_14_idling_never_saves_more_than_the_burst() {
    each(&buckets(1, SEC, 10), |f, what| {
        f.must_allow(0, 1, what);
        let t = 8_900 * MS;
        assert_eq!(
            (0..30)
                .filter(|_| f.ask(t, 1).expect(what).is_allowed())
                .count(),
            10,
            "{what}"
        );
    });
    for spent in 1..=10 {
        for idle in [
            1,
            SEC - 1,
            SEC,
            3 * SEC,
            8_900 * MS,
            10 * SEC,
            11 * SEC,
            HOUR,
            DAY,
        ] {
            each(&buckets(1, SEC, 10), |f, what| {
                f.must_allow(0, spent, what);
                let expected = (10 - spent + idle / SEC).min(10);
                assert_eq!(
                    f.drain(idle),
                    expected,
                    "{what}: {spent} spent, {idle} ns idle"
                );
                f.must_deny(idle, 1, what);
            });
            each(&windows(10, 10 * SEC), |f, what| {
                f.must_allow(0, spent, what);
                let there = (0..30)
                    .filter(|_| f.ask(idle, 1).expect(what).is_allowed())
                    .count();
                assert!(
                    there <= 10,
                    "{what}: {there} at once after {spent} spent and {idle} ns idle"
                );
            });
        }
    }
}

/// A cap applied before the refill, or a unit granted "for the call itself", makes six of five.
#[test]
fn row_15_full_is_full_after_any_wait() {
    for capacity in [1, 5, 100] {
        for spent in [1, capacity / 2 + 1, capacity - 1, capacity] {
            for idle in [2 * SEC, 2 * SEC + 1, MIN, DAY, 10_000 * DAY] {
                each(&every(capacity, SEC), |f, what| {
                    f.must_allow(0, spent, what);
                    let d = f.look(idle, 0).expect(what);
                    assert_eq!(
                        d.remaining(),
                        capacity,
                        "{what}: {spent} spent, then {idle} ns"
                    );
                    let there = (0..capacity + 3)
                        .filter(|_| f.ask(idle, 1).expect(what).is_allowed())
                        .count();
                    assert_eq!(
                        there as u64, capacity,
                        "{what}: {spent} spent, then {idle} ns"
                    );
                });
            }
        }
    }
    // A refill to the nanosecond: a full one gives all, one nanosecond less does not.
    each(&buckets(1, SEC, 100), |f, what| {
        f.must_allow(0, 99, what);
        assert_eq!(f.room(99 * SEC - 1), 99, "{what}");
        assert_eq!(f.room(99 * SEC), 100, "{what}");
        assert_eq!(f.drain(100 * SEC), 100, "{what}");
        f.must_deny(100 * SEC, 1, what);
    });
}

/// A cost that can never fit was answered with a wait (after which it did not fit either), or emptied the
/// bucket, or wrote a state that made the next small request pass.
#[test]
fn row_16_a_cost_that_never_fits_is_an_error_and_stores_nothing() {
    for (limit, period) in [(10, SEC), (1, 1), (1, DAY), (MOST, u64::MAX)] {
        let mut policies = every(limit, period);
        policies.extend(buckets(limit, period, 5));
        for policy in policies {
            let most = capacity(policy);
            each(&[policy], |f, what| {
                for cost in [
                    most + 1,
                    most.saturating_mul(2),
                    most.saturating_mul(100),
                    u64::MAX,
                ] {
                    for refused in [f.ask(0, cost), f.look(0, cost)] {
                        let error = refused.expect_err(what);
                        assert_eq!((error.cost(), error.most()), (cost, most), "{what}");
                    }
                    assert_eq!(
                        f.room(0),
                        most,
                        "{what}: a fresh client after a cost of {cost}"
                    );
                }
                // At most so much is no such cost: it takes what is there.
                let d = f.at_most(0, u64::MAX);
                assert_eq!((d.is_allowed(), d.granted()), (true, most), "{what}");
                let before = f.look(0, 1).expect(what);
                f.ask(0, most + 1).expect_err(what);
                f.ask_each(0, most + 1).expect_err(what);
                f.ask(0, u64::MAX).expect_err(what);
                assert_eq!(
                    f.refusal(0, 1, what),
                    before,
                    "{what}: drained, after a cost that never fits"
                );
            });
            let store: Keyed<String, Policy> = Keyed::new(policy);
            for key in ["a", "b", "c"] {
                store
                    .check_n(key, most + 1, at(0))
                    .expect_err("more than it could ever grant");
                store
                    .peek_n(key, u64::MAX, at(0))
                    .expect_err("more than it could ever grant");
                let estimate = store.estimate(key, most + 1, at(0));
                let error = estimate.expect_err("more than it could ever grant");
                assert!(
                    matches!(&error, EstimateError::CostTooHigh(e) if e.most() == most),
                    "{policy:?}: {error:?}"
                );
            }
            assert!(
                store.is_empty(),
                "{policy:?}: a cost that never fits created a key"
            );
        }
    }
}

/// "Never" by one: a cost of exactly the capacity fits a full bucket, so its wait is finite.
#[test]
fn row_17_the_whole_capacity_has_a_finite_wait() {
    for (limit, period) in [(10, SEC), (3, 10), (1, 1), (7, DAY), (MOST, SEC)] {
        let mut policies = every(limit, period);
        policies.extend(buckets(limit, period, 4));
        for policy in policies {
            each(&[policy], |f, what| {
                let start = period + period / 2;
                f.must_allow(start, capacity(policy), what);
                let waited = f.must_be_honest(start, capacity(policy), what);
                assert!(
                    waited <= longest_wait(policy, capacity(policy)),
                    "{what}: must wait for {waited} ns"
                );
                f.must_allow(start + waited, capacity(policy), what);
            });
            // In debt up to its cap as well.
            each(&[policy], |f, what| {
                let start = period + period / 2;
                let owed = f.charge(start, u64::MAX).debt();
                assert_eq!(owed, max_debt(policy), "{what}: the cap on debt");
                let waited = f.must_be_honest(start, capacity(policy), what);
                let longest = match is_bucket(policy) {
                    true => refill(policy, capacity(policy) + owed),
                    false => longest_wait(policy, capacity(policy)),
                };
                assert!(waited <= longest, "{what}: must wait for {waited} ns");
                f.must_allow(start + waited, capacity(policy), what);
            });
        }
    }
}

/// A request for nothing was refused when nothing was left, created a client, or kept one alive.
#[test]
fn row_18_a_cost_of_zero_is_always_allowed_and_leaves_no_trace() {
    for (limit, period) in [(10, SEC), (1, 1), (1, DAY), (MOST, u64::MAX)] {
        each(&every(limit, period), |f, what| {
            assert_eq!(f.grant(0, 0, what).remaining(), limit, "{what}: fresh");
            f.drain(1);
            let (before, nothing) = (f.look(1, 1).expect(what), f.grant(1, 0, what));
            assert_eq!(nothing.remaining(), 0, "{what}: drained");
            assert_eq!(
                (wait(nothing), nothing.delay()),
                (0, Duration::ZERO),
                "{what}: nothing to wait for"
            );
            let half = nanos(before.reset_after()) / 2;
            f.must_allow(1 + half, 0, what);
            let left = nanos(before.reset_after()) - half;
            if before.reset_after() < Duration::from_nanos(u64::MAX)
                && 1 + half < END - 1_700_000_000 * SEC
            {
                assert_eq!(
                    nanos(f.look(1 + half, 0).expect(what).reset_after()),
                    left,
                    "{what}: its end has moved"
                );
            }
            assert_eq!(f.look(1, 1).expect(what), before, "{what}: it left a trace");
            let d = f.at_most(1, 0);
            assert_eq!(
                (d.is_allowed(), d.granted(), d.receipt()),
                (true, 0, None),
                "{what}"
            );
            let d = f.charge(1, 0);
            assert_eq!(
                (d.granted(), d.unrecorded(), d.receipt()),
                (0, 0, None),
                "{what}"
            );
            assert_eq!(
                told(d),
                told(before),
                "{what}: a charge of nothing is a look"
            );
            assert_eq!(f.look(1, 1).expect(what), before, "{what}: it left a trace");
        });
        for policy in every(limit, period) {
            let store: Keyed<String, Policy> = Keyed::new(policy);
            for key in ["a", "b", "c"] {
                assert!(
                    store
                        .check_n(key, 0, at(0))
                        .expect("a cost of zero")
                        .is_allowed(),
                    "{policy:?}"
                );
                assert!(
                    store
                        .peek_n(key, 0, at(0))
                        .expect("a cost of zero")
                        .is_allowed(),
                    "{policy:?}"
                );
                assert!(store.peek(key, at(0)).is_allowed(), "{policy:?}");
                assert!(store.at_most(key, 0, at(0)).is_allowed(), "{policy:?}");
                assert!(store.charge(key, 0, at(0)).is_allowed(), "{policy:?}");
                store
                    .estimate(key, 0, at(0))
                    .expect("a cost of zero")
                    .keep();
                assert!(store.estimate(key, 0, at(0)).is_ok(), "{policy:?}");
                assert!(!store.reset(key), "{policy:?}: it was never known");
            }
            assert_eq!(store.clients(at(0)).count(), 0, "{policy:?}");
            assert!(
                store.is_empty(),
                "{policy:?}: a cost of zero, or a look, created a key"
            );

            let mut rule = Rule::new(policy, 0);
            rule.must_allow(0, 1, "charged");
            let idle_at = policy.idle_at(&rule.state);
            for t in [0, 1, period / 2] {
                rule.must_allow(t, 0, "a cost of zero");
                let _ = (rule.at_most(t, 0), rule.charge(t, 0));
                assert_eq!(
                    policy.idle_at(&rule.state),
                    idle_at,
                    "{policy:?}: a cost of zero at {t} ns moved its end"
                );
            }
        }
    }
    // An anchored window opens at the first charge, not at the first question.
    each(&[anchored(2, SEC)], |f, what| {
        f.must_allow(0, 0, what);
        f.must_allow(600 * MS, 2, what);
        f.must_deny(1_500 * MS, 1, what);
        f.must_allow(1_600 * MS, 2, what);
    });
}

/// The sum of count and cost wrapped, and the largest request of all was let through.
#[test]
fn row_19_count_plus_cost_does_not_wrap() {
    for limit in [1, 10, u64::from(u32::MAX), MOST] {
        for policy in every(limit, SEC) {
            each(&[policy], |f, what| {
                for used in [1, limit / 2, limit] {
                    f.ask(0, u64::MAX).expect_err(what);
                    let _ = f.ask(0, used.min(f.room(0))).expect(what);
                    let room = f.room(0);
                    // Costs that wrap to something small when the count is added to them.
                    for cost in [
                        u64::MAX,
                        u64::MAX - limit,
                        u64::MAX - limit + 1,
                        u64::MAX - used.max(1) + 1,
                        1 << 63,
                        limit + 1,
                    ] {
                        assert!(
                            f.ask(0, cost).is_err() && f.look(0, cost).is_err(),
                            "{what}: cost {cost} on {used}"
                        );
                    }
                    assert_eq!(f.room(0), room, "{what}: a huge cost changed something");
                }
                f.must_allow(0, f.room(0), what);
                f.must_deny(0, limit, what);
                f.must_deny(0, limit / 2 + 1, what);
                // What a charge adds to the count ends at the cap on debt, however often it comes.
                let mut owed = 0;
                for cost in [
                    1,
                    u64::MAX,
                    u64::MAX - limit,
                    u64::MAX - 1,
                    1 << 63,
                    limit,
                    1,
                ] {
                    let d = f.charge(0, cost);
                    assert_eq!(
                        d.granted().checked_add(d.unrecorded()),
                        Some(cost),
                        "{what}"
                    );
                    owed += d.granted();
                    assert_eq!((d.remaining(), d.debt()), (0, owed), "{what}");
                    assert!(owed <= max_debt(policy), "{what}: {owed} owed");
                }
                assert_eq!(owed, max_debt(policy), "{what}");
                f.must_deny(0, 1, what);
                assert_eq!(f.at_most(0, u64::MAX).granted(), 0, "{what}");
            });
            // What is given back is not subtracted below nothing either.
            each(&[policy], |f, what| {
                let d = f.charge(0, u64::MAX);
                let all = d.receipt().expect("something was recorded");
                assert_eq!(all.cost(), limit + max_debt(policy), "{what}");
                f.must_deny(0, 1, what);
                assert_eq!(f.refund(0, all), all.cost(), "{what}");
                assert_eq!(f.room(0), limit, "{what}");
                f.must_allow(0, 1, what);
                assert!(f.refund(0, all) <= 1, "{what}: one was spent");
                assert!(f.room(0) <= limit, "{what}: {} left", f.room(0));
                f.must_allow(0, f.room(0), what);
                f.must_deny(0, 1, what);
            });
            // The largest cap on debt there can be.
            let largest = with_max_debt(policy, MOST - limit);
            each(&[largest], |f, what| {
                let d = f.charge(0, u64::MAX);
                assert_eq!((d.granted(), d.debt()), (MOST, MOST - limit), "{what}");
                assert!(wait(d) > 0 && !d.is_allowed(), "{what}");
                assert_eq!(f.charge(0, u64::MAX).granted(), 0, "{what}: twice");
                let _ = (d.reset_after(), f.look(END, 1).expect(what).retry_after());
            });
        }
    }
}

/// A refusal reported the full burst as left, because the level was computed for a fresh state.
#[test]
fn row_21_a_refusal_on_a_drained_client_has_nothing_remaining() {
    for (limit, period) in [(10, SEC), (1, DAY), (3, 10), (MOST, SEC)] {
        let mut policies = every(limit, period);
        policies.extend(buckets(limit, period, 50));
        for policy in policies {
            each(&[policy], |f, what| {
                f.must_allow(0, capacity(policy), what);
                for cost in [1, capacity(policy)] {
                    assert_eq!(
                        f.refusal(0, cost, what).remaining(),
                        0,
                        "{what}: cost {cost}"
                    );
                    assert_eq!(
                        f.look(0, cost).expect(what).remaining(),
                        0,
                        "{what}: a look, cost {cost}"
                    );
                }
                assert_eq!(f.room(0), 0, "{what}");
                let d = f.at_most(0, capacity(policy));
                assert_eq!(
                    (d.is_allowed(), d.granted(), d.remaining()),
                    (false, 0, 0),
                    "{what}"
                );
                assert_eq!(
                    d.retry_after(),
                    f.refusal(0, 1, what).retry_after(),
                    "{what}"
                );
                // In debt there is nothing left either, and what is owed is told apart.
                let owed = f.charge(0, 3).granted();
                let d = f.refusal(0, 1, what);
                assert_eq!((d.remaining(), d.debt()), (0, owed), "{what}");
                assert_eq!((f.room(0), f.debt(0)), (0, owed), "{what}");
            });
        }
    }
    // Refused because the cost is too high for what is left: what is left is still said.
    each(&every(10, SEC), |f, what| {
        f.must_allow(0, 7, what);
        assert_eq!(f.refusal(0, 4, what).remaining(), 3, "{what}");
    });
}
