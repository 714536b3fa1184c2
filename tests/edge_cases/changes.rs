//! Rows 36-38: limits that change while they are used.

use std::time::Duration;

use tollgate::{FixedWindow, Keyed, PlanId, Plans, Policy, SlidingWindowCounter};

use crate::faces::*;
use crate::policies::*;

/// What was left of the old limit became what is left of the new one: whoever raised a limit gave nothing, and whoever
/// lowered it gave all of the new one again, or came below nothing and wrapped.
#[test]
fn row_36_what_was_used_stays_used() {
    for policy in every(100, MIN) {
        each(&[policy], |f, what| {
            let left = |f: &mut dyn Face, limit| {
                f.change(0, with_limit(policy, limit));
                let d = f.look(0, 0).expect(what);
                assert_eq!(d.limit(), limit, "{what}");
                d.remaining()
            };
            f.must_allow(0, 2, what);
            assert_eq!(left(f, 10), 8, "{what}: of 10");
            assert_eq!(left(f, 200), 198, "{what}: of 200");
            assert_eq!(left(f, 1), 0, "{what}: of 1");
            assert_eq!(f.debt(0), 1, "{what}: of 1");
            f.must_deny(0, 1, what);
            assert_eq!(left(f, 100), 98, "{what}: of 100");
            f.must_allow(0, 98, what);
            f.must_deny(0, 1, what);
            assert_eq!(left(f, 10), 0, "{what}: of 10, 100 used");
            assert_eq!(f.debt(0), 90, "{what}: of 10, 100 used");
            f.must_deny(0, 1, what);
            f.must_be_honest(0, 1, what);
            f.must_be_honest(0, 10, what);
            assert_eq!(f.at_most(0, 5).granted(), 0, "{what}");
            assert_eq!(left(f, 200), 100, "{what}: of 200, 100 used");
            f.must_allow(0, 100, what);
            f.must_deny(0, 1, what);
        });
    }
}

/// The largest limit becomes the smallest, and back.
#[test]
fn row_36_no_change_underflows_or_overflows() {
    for limits in [[MOST, 1], [1, MOST], [MOST, MOST - 1], [1 << 32, 3]] {
        for period in [1, SEC, DAY, u64::MAX] {
            for policy in every(limits[0], period) {
                each(&[policy], |f, what| {
                    let all = limits[0];
                    f.must_allow(0, all, what);
                    f.change(0, with_limit(policy, limits[1]));
                    let d = f.look(0, 1).expect(what);
                    assert_eq!(d.remaining(), limits[1].saturating_sub(all), "{what}");
                    assert_eq!(d.debt(), all.saturating_sub(limits[1]), "{what}");
                    assert_eq!(d.is_allowed(), limits[1] > all, "{what}");
                    // In debt above the cap, nothing more is recorded, and what there is can be told.
                    let d = f.charge(0, u64::MAX);
                    assert_eq!(d.granted() + d.unrecorded(), u64::MAX, "{what}");
                    let _ = (d.retry_after(), d.reset_after());
                    assert!(!d.is_allowed(), "{what}");
                    f.change(0, policy);
                    assert_eq!(f.room(0), 0, "{what}: back");
                    f.must_deny(0, 1, what);
                    f.reset();
                    assert_eq!(f.drain(0), all, "{what}: as good as new");
                });
            }
        }
    }
}

/// To and fro as often as one likes: no change gives a unit, and none takes one.
#[test]
fn row_36_changes_add_up_to_nothing() {
    for policy in every(10, MIN) {
        each(&[policy], |f, what| {
            let mut steady = Rule::new(policy, 0);
            for (turn, step) in strides(60, 9 * SEC).enumerate() {
                for limit in [3, 1_000, 7] {
                    f.change(step, with_limit(policy, limit));
                }
                f.change(step, policy);
                let cost = 1 + turn as u64 % 3;
                let (seen, plain) = (f.ask(step, cost), steady.ask(step, cost));
                assert_eq!(
                    told(seen.expect(what)),
                    told(plain.expect(what)),
                    "{what}: {turn}"
                );
            }
        });
    }
}

/// A receipt outlives the limit that it is of.
#[test]
fn row_36_what_was_spent_under_the_old_limit_is_given_back_under_the_new_one() {
    for policy in every(10, MIN)
        .into_iter()
        .filter(|&policy| !is_leaky(policy))
    {
        given_back_under_another_limit(policy);
    }
}

/// A receipt tells where the queue ended by the old rate; under another it may name no place in it, and never more than was
/// charged.
#[test]
fn row_36_a_queue_gives_back_no_more_under_another_rate() {
    for limit in [10, 20, 7, 3, 1_000] {
        let policy = leaky(10, MIN, 10);
        each(&[policy], |f, what| {
            let receipt = f.receipt(SEC, 6, what);
            f.change(SEC, with_limit(policy, limit));
            let given = f.refund(SEC, receipt);
            assert!(given <= 6, "{what}: {limit}");
            if limit == 10 {
                assert_eq!(given, 6, "{what}: it is the same rate");
            }
            assert!(f.drain(SEC) <= limit, "{what}: {limit}");
        });
    }
}

fn given_back_under_another_limit(policy: Policy) {
    for limit in [10, 20, 7, 3, 1_000] {
        each(&[policy], |f, what| {
            let receipt = f.receipt(SEC, 6, what);
            f.change(SEC, with_limit(policy, limit));
            assert_eq!(f.refund(SEC, receipt), 6, "{what}: {limit}");
            assert_eq!(f.drain(SEC), limit, "{what}: {limit}");
        });
        // And back again in between.
        each(&[policy], |f, what| {
            let receipt = f.receipt(SEC, 6, what);
            f.change(SEC, with_limit(policy, limit));
            f.change(SEC, policy);
            assert_eq!(f.refund(SEC, receipt.part(4)), 4, "{what}: {limit}");
            assert_eq!(f.drain(SEC), 8, "{what}: {limit}");
        });
    }
}

/// Each of several limits goes its own way.
#[test]
fn row_36_each_of_several_limits_carries_its_own() {
    for minute in every(100, MIN) {
        for hour in every(100, HOUR) {
            each_of_several(&[minute, hour], |f, what| {
                f.must_allow(0, 2, what);
                f.change(0, vec![with_limit(minute, 10), with_limit(hour, 200)]);
                let (d, members) = f.ask_each(0, 0).expect(what);
                assert_eq!([0, 1].map(|i| members[i].remaining()), [8, 198], "{what}");
                assert_eq!((d.limit(), d.remaining()), (10, 8), "{what}");
                f.change(0, vec![with_limit(minute, 200), with_limit(hour, 1)]);
                let (d, members) = f.ask_each(0, 0).expect(what);
                assert_eq!([0, 1].map(|i| members[i].remaining()), [198, 0], "{what}");
                assert_eq!((d.remaining(), d.debt()), (0, 1), "{what}");
                assert_eq!(f.refusal(0, 1, what).refused_by(), Some(1), "{what}");
            });
        }
    }
}

/// A client that is put on another plan keeps what it has used, both ways.
#[test]
fn row_36_a_plan_that_changes_carries_what_was_used() {
    for policy in every(100, MIN) {
        let store: Keyed<String, Plans<Policy>> = Keyed::new(plans(&[
            ("hundred", policy),
            ("ten", with_limit(policy, 10)),
            ("two hundred", with_limit(policy, 200)),
        ]));
        // Moved by a call that asks for all of the plan, and is refused.
        let left = |plan: &'static str, all| {
            let d = store.check_n_as(plan, "ada", all, at(0)).expect("a plan");
            assert!(!d.is_allowed(), "{policy:?}: {all} of {plan}");
            let on = store.plan_of("ada");
            assert_eq!(on, Some(PlanId::new(plan)), "{policy:?}");
            (d.remaining(), d.debt())
        };
        assert!(store.check_n("ada", 2, at(0)).is_ok_and(|d| d.is_allowed()));
        assert_eq!(left("ten", 10), (8, 0), "{policy:?}");
        assert_eq!(left("two hundred", 200), (198, 0), "{policy:?}");
        assert_eq!(left("hundred", 100), (98, 0), "{policy:?}");
        assert!(
            store
                .check_n("ada", 98, at(0))
                .is_ok_and(|d| d.is_allowed())
        );
        assert_eq!(left("ten", 10), (0, 90), "{policy:?}");
        assert_eq!(store.allow_as("ten", "ada", at(0)), Ok(false), "{policy:?}");
        assert_eq!(left("two hundred", 200), (100, 0), "{policy:?}");
    }
}

/// The rate that a limiter has when it is asked was used for all the time since it was last asked.
#[test]
fn row_37_time_that_has_passed_counts_at_the_old_rate() {
    for (old, new) in [(10, 1_000), (1_000, 10), (10, 10_000), (7, 11)] {
        // (a bucket that no hour fills)
        for (before, after) in buckets(old, HOUR, 50_000)
            .into_iter()
            .zip(buckets(new, HOUR, 50_000))
        {
            each(&[before], |f, what| {
                f.drain(0);
                f.change(HOUR, after);
                assert_eq!(f.room(HOUR), old, "{what}: the hour that was idle");
                assert_eq!(f.drain(HOUR), old, "{what}");
                f.must_be_honest(HOUR, 1, what);
                assert_eq!(f.room(2 * HOUR), new, "{what}: the hour after the change");
            });
            // Asked or not before the change: it is the same.
            each(&[before], |f, what| {
                f.drain(0);
                for minute in 0..60 {
                    let _ = f.look(minute * MIN, 1);
                }
                f.change(HOUR, after);
                f.change(HOUR, before);
                f.change(HOUR, after);
                assert_eq!(f.drain(HOUR), old, "{what}");
            });
        }
    }
    // A part of a unit is carried as such: two thirds of one, and then the last third at three a minute.
    for (before, after) in buckets(1, MIN, 2).into_iter().zip(buckets(3, MIN, 2)) {
        each(&[before], |f, what| {
            f.drain(0);
            f.change(40 * SEC, after);
            assert_eq!(
                wait(f.refusal(40 * SEC, 1, what)),
                20 * SEC / 3 + 1,
                "{what}"
            );
            f.must_be_honest(40 * SEC, 1, what);
        });
    }
}

/// Windows of another length: what counted when the length changed counts on, and is counted once.
#[test]
fn row_37_what_counts_when_the_period_changes_counts_on() {
    let day = grid(10, DAY);
    each(&[day], |f, what| {
        f.must_allow(0, 4, what);
        f.change(90 * MIN, grid(10, HOUR));
        assert_eq!(f.room(90 * MIN), 6, "{what}");
        assert_eq!(f.room(2 * HOUR - 1), 6, "{what}: that hour");
        assert_eq!(f.room(2 * HOUR), 10, "{what}: the next");
    });
    each(&[day], |f, what| {
        f.must_allow(0, 4, what);
        f.change(DAY, grid(10, HOUR));
        assert_eq!(f.room(DAY), 10, "{what}: its window had ended");
    });
    each(&[anchored(10, HOUR)], |f, what| {
        f.must_allow(10 * MIN, 4, what);
        f.change(30 * MIN, anchored(10, 2 * HOUR));
        assert_eq!(f.room(130 * MIN - 1), 6, "{what}: its start stays");
        assert_eq!(f.room(130 * MIN), 10, "{what}");
    });
    each(&[anchored(10, HOUR)], |f, what| {
        f.must_allow(10 * MIN, 4, what);
        f.change(30 * MIN, anchored(10, 5 * MIN));
        assert_eq!(f.room(35 * MIN - 1), 6, "{what}: it starts anew");
        assert_eq!(f.room(35 * MIN), 10, "{what}");
    });
    each(&[log(10, HOUR)], |f, what| {
        f.must_allow(10 * MIN, 4, what);
        f.must_allow(50 * MIN, 3, what);
        f.change(55 * MIN, log(10, 10 * MIN));
        assert_eq!(
            f.room(55 * MIN),
            7,
            "{what}: the first is older than ten minutes"
        );
        assert_eq!(f.room(HOUR), 10, "{what}");
    });
    each(&[log(10, 10 * MIN)], |f, what| {
        f.must_allow(0, 4, what);
        f.must_allow(5 * MIN, 3, what);
        f.change(10 * MIN, log(10, HOUR));
        assert_eq!(
            f.room(10 * MIN),
            7,
            "{what}: what had left does not come back"
        );
        assert_eq!(f.room(65 * MIN), 10, "{what}");
    });
    // Half of the eight weigh at the change, and count like units of the new window.
    each(&[counter(10, HOUR)], |f, what| {
        f.must_allow(0, 8, what);
        f.must_allow(90 * MIN, 1, what);
        f.change(90 * MIN, counter(10, 20 * MIN));
        assert_eq!(f.room(90 * MIN), 5, "{what}");
        assert_eq!(f.room(110 * MIN), 7, "{what}: half of five weigh");
        assert_eq!(f.room(2 * HOUR), 10, "{what}");
    });
}

/// A grid that only moves is another grid: a window that moved back under a client's feet gave it a new one.
#[test]
fn row_37_a_grid_that_moves_forgives_nothing() {
    let half = Duration::from_secs(30);
    let grids: [[Policy; 2]; 2] = [
        [
            FixedWindow::new(quota(10, MIN)).into(),
            FixedWindow::new(quota(10, MIN)).with_offset(half).into(),
        ],
        [
            SlidingWindowCounter::new(quota(10, MIN)).into(),
            SlidingWindowCounter::new(quota(10, MIN))
                .with_offset(half)
                .into(),
        ],
    ];
    for [old, new] in grids {
        each(&[old], |f, what| {
            f.must_allow(10 * SEC, 10, what);
            f.change(40 * SEC, new);
            f.must_deny(90 * SEC - 1, 1, what);
            f.must_be_honest(40 * SEC, 1, what);
        });
    }
}

/// A debt was written down as an instant at which it would be repaid, at the rate of its day.
#[test]
fn row_38_debt_is_repaid_at_the_new_rate() {
    for (slow, fast) in buckets(5, SEC, 2).into_iter().zip(buckets(10, SEC, 2)) {
        each(&[slow], |f, what| {
            let d = f.charge(0, 4);
            assert_eq!((d.granted(), d.remaining(), d.debt()), (4, 0, 2), "{what}");
            assert_eq!(wait(d), 600 * MS, "{what}: three units at the old rate");
            assert_eq!(f.debt(200 * MS), 1, "{what}");
            f.change(200 * MS, fast);
            assert_eq!(f.debt(200 * MS), 1, "{what}: at the change");
            assert_eq!(wait(f.refusal(200 * MS, 1, what)), 200 * MS, "{what}");
            assert_eq!(f.debt(300 * MS), 0, "{what}: repaid");
            f.must_deny(400 * MS - 1, 1, what);
            f.must_allow(400 * MS, 1, what);
            f.must_deny(400 * MS, 1, what);
        });
        // And at the old one until then.
        each(&[fast], |f, what| {
            assert_eq!(f.charge(0, 4).debt(), 2, "{what}");
            f.change(100 * MS, slow);
            assert_eq!(f.debt(100 * MS), 1, "{what}");
            f.must_deny(500 * MS - 1, 1, what);
            f.must_allow(500 * MS, 1, what);
            f.must_deny(500 * MS, 1, what);
        });
        let store: Keyed<String, Plans<Policy>> =
            Keyed::new(plans(&[("slow", slow), ("fast", fast)]));
        assert_eq!(store.charge("ada", 4, at(0)).debt(), 2, "{slow:?}");
        let refused = |ns| {
            let d = store.check_as("fast", "ada", at(ns)).expect("a plan");
            assert!(!d.is_allowed(), "{slow:?}: at {ns} ns");
            wait(d)
        };
        assert_eq!(refused(200 * MS), 200 * MS, "{slow:?}");
        assert_eq!(refused(400 * MS - 1), 1, "{slow:?}");
        assert!(store.allow("ada", at(400 * MS)), "{slow:?}");
    }
    // Of several limits each repays its own.
    let limits = |per_second| vec![token(per_second, SEC, 2), token(per_second, SEC, 4)];
    each_of_several(&limits(5), |f, what| {
        let d = f.charge(0, 4);
        assert_eq!((d.granted(), d.debt()), (4, 2), "{what}");
        f.change(200 * MS, limits(10));
        assert_eq!(wait(f.refusal(200 * MS, 1, what)), 200 * MS, "{what}");
        f.must_allow(400 * MS, 1, what);
        f.must_deny(400 * MS, 1, what);
    });
}

/// A window's debt is not carried into the next one; that of a counter fades, that of a log leaves as it came.
#[test]
fn row_38_the_debt_of_a_window_ends_with_it() {
    let over = |policy: Policy, end: u64| {
        each(&[policy], |f, what| {
            let d = f.charge(15 * SEC, 17);
            assert_eq!((d.granted(), d.remaining(), d.debt()), (17, 0, 7), "{what}");
            let waited = f.must_be_honest(15 * SEC, 1, what);
            assert_eq!(15 * SEC + waited, end, "{what}");
            assert_eq!(
                f.charge(15 * SEC, 17).unrecorded(),
                14,
                "{what}: the cap on debt"
            );
            assert_eq!(f.debt(15 * SEC), 10, "{what}");
        });
    };
    over(grid(10, MIN), MIN);
    over(anchored(10, MIN), 75 * SEC);
    over(log(10, MIN), 75 * SEC);
    // 17·(60 − e)/60 + 1 ≤ 10 from e = 60 − 60·9/17 on.
    over(counter(10, MIN), 2 * MIN - 9 * MIN / 17);
}

/// A table of plans by name.
fn plans(named: &[(&'static str, Policy)]) -> Plans<Policy> {
    Plans::new(named.iter().copied()).expect("plans with names of their own")
}
