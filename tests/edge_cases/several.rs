//! Rows 33-35: several limits on one request.

use tollgate::{All, Direct, FixedWindow, Keyed, Limiter, Policy, Quota, SlidingLog, TokenBucket};

use crate::faces::*;
use crate::policies::*;

/// Each limit was asked in its turn, and those asked first had been paid when the last one refused: a client that
/// waited for its day emptied its second all the while.
#[test]
fn row_33_what_one_limit_refuses_costs_the_others_nothing() {
    let now = 30 * SEC;
    for second in every(10, SEC) {
        for day in every(100, DAY) {
            for day_is in [0, 1] {
                let limits = |day: Policy| match day_is {
                    0 => vec![day, second],
                    _ => vec![second, day],
                };
                each_of_several(&limits(day), |f, what| {
                    let mut alone = Rule::new(day, 0);
                    for turn in 0..10 {
                        f.must_allow(turn * 2 * SEC, 10, what);
                        alone.must_allow(turn * 2 * SEC, 10, what);
                    }
                    let days = alone.refusal(now, 1, what);
                    for _ in 0..5 {
                        let (d, members) = f.ask_each(now, 1).expect(what);
                        assert!(!d.is_allowed(), "{what}");
                        assert_eq!(d.refused_by(), Some(day_is), "{what}");
                        assert_eq!(wait(d), wait(days), "{what}: the day's wait");
                        assert_eq!(d.reset_after(), days.reset_after(), "{what}");
                        assert_eq!((d.limit(), d.remaining()), (100, 0), "{what}: the least");
                        assert_eq!((d.granted(), d.receipt()), (0, None), "{what}");
                        assert_eq!(told(members[day_is]), told(days), "{what}");
                        let other = members[1 - day_is];
                        assert!(other.is_allowed(), "{what}: the second has room");
                        assert_eq!((other.limit(), other.remaining()), (10, 10), "{what}");
                    }
                    assert_eq!(f.at_most(now, 10).granted(), 0, "{what}: at most none");
                    f.must_be_honest(now, 1, what);
                    // With more for the day, what the second has is there: nothing of it was taken.
                    f.change(now, limits(with_limit(day, 1_000)));
                    assert_eq!(f.drain(now), 10, "{what}");
                    f.must_deny(now, 1, what);
                });
            }
        }
    }
}

/// The kind: of those that refuse, the longest wait is told; the least remains, whoever has it.
#[test]
fn row_33_the_longest_wait_and_the_least_that_remains_are_told() {
    each_of_several(&[token(10, SEC, 10), log(10, MIN)], |f, what| {
        f.must_allow(0, 10, what);
        let d = f.refusal(0, 1, what);
        assert_eq!((wait(d), d.refused_by()), (MIN, Some(1)), "{what}");
        assert_eq!(nanos(d.reset_after()), MIN, "{what}");
    });
    // Of those that wait as long, the first.
    for policy in every(10, SEC) {
        each_of_several(&[policy, policy], |f, what| {
            f.must_allow(0, 10, what);
            assert_eq!(f.refusal(0, 1, what).refused_by(), Some(0), "{what}");
        });
    }
    // One has less left, the other a longer way to full: limit 5, as the least is its; the reset is the other's.
    each_of_several(&[token(5, SEC, 5), log(8, MIN)], |f, what| {
        let d = f.grant(0, 2, what);
        assert_eq!((d.limit(), d.remaining()), (5, 3), "{what}");
        assert_eq!(nanos(d.reset_after()), MIN, "{what}");
        let d = f.grant(SEC, 2, what);
        assert_eq!((d.limit(), d.remaining()), (5, 3), "{what}");
        let d = f.grant(2 * SEC, 2, what);
        assert_eq!((d.limit(), d.remaining()), (8, 2), "{what}");
        assert_eq!(nanos(d.reset_after()), MIN, "{what}");
    });
    // A queue among them delays, and the longest delay is told.
    each_of_several(&[leaky(10, SEC, 20), leaky(5, SEC, 20)], |f, what| {
        assert_eq!(nanos(f.grant(0, 5, what).delay()), 0, "{what}");
        assert_eq!(nanos(f.grant(0, 5, what).delay()), SEC, "{what}");
        assert_eq!(nanos(f.refusal(0, 20, what).delay()), 0, "{what}");
    });
}

/// The other way round: the day was charged for every call that the second refused.
#[test]
fn row_34_what_a_second_refuses_is_not_charged_to_the_day() {
    for second in every(10, SEC) {
        for day in every(1_000, DAY) {
            for limits in [[second, day], [day, second]] {
                let left = |f: &mut OfSeveral, what: &str| {
                    let (_, members) = f.ask_each(0, 0).expect(what);
                    let of = |policy| limits.iter().position(|&limit| limit == policy);
                    [second, day].map(|policy| {
                        let d = members[of(policy).expect("a member")];
                        i128::from(d.remaining()) - i128::from(d.debt())
                    })
                };
                each_of_several(&limits, |f, what| {
                    let allowed = (0..1_000)
                        .filter(|_| f.ask(0, 1).expect(what).is_allowed())
                        .count();
                    assert_eq!(allowed, 10, "{what}");
                    assert_eq!(left(f, what), [0, 990], "{what}: left of the day");
                });
                each_of_several(&limits, |f, what| {
                    let d = f.at_most(0, 1_000);
                    assert_eq!((d.is_allowed(), d.granted()), (true, 10), "{what}");
                    assert_eq!(left(f, what), [0, 990], "{what}: left of the day");
                });
                // What was spent already is recorded by each up to its own cap on debt.
                each_of_several(&limits, |f, what| {
                    let d = f.charge(0, 50);
                    assert_eq!((d.granted(), d.unrecorded()), (20, 30), "{what}");
                    assert_eq!((d.remaining(), d.debt()), (0, 10), "{what}");
                    assert!(!d.is_allowed(), "{what}: nothing is left of the second");
                    assert_eq!(left(f, what), [-10, 950], "{what}");
                });
            }
        }
    }
}

/// Elapsed time times 700 000 overflowed after a night.
#[test]
fn row_35_three_limits_after_a_night_grant_what_the_least_of_them_grants() {
    let limits = [(700_000, HOUR), (14_500, MIN), (300, SEC)];
    for kind in 0..every(1, SEC).len() {
        let all = limits.map(|(limit, period)| every(limit, period)[kind]);
        each_of_several(&all, |f, what| {
            f.must_allow(0, 1, what);
            let morning = 12 * HOUR;
            let d = f.grant(morning, 1, what);
            assert_eq!((d.limit(), d.remaining()), (300, 299), "{what}");
            f.must_allow(morning, 299, what);
            let d = f.refusal(morning, 1, what);
            assert_eq!(d.refused_by(), Some(2), "{what}");
            let (_, members) = f.ask_each(morning, 0).expect(what);
            let left: Vec<u64> = members.iter().map(|member| member.remaining()).collect();
            assert_eq!(left, [699_700, 14_200, 0], "{what}");
            f.must_be_honest(morning, 1, what);
        });
    }
}

/// Of several limits it is the first that could never grant it that is named, and nothing of any is touched.
#[test]
fn row_16_a_cost_that_never_fits_one_of_several_is_an_error_that_names_it() {
    for second in every(10, SEC) {
        for day in every(100, DAY) {
            each_of_several(&[day, second], |f, what| {
                for (cost, member, most) in [(11, 1, 10), (101, 0, 100), (u64::MAX, 0, 100)] {
                    let each = f.ask_each(0, cost).map(|(d, _)| d);
                    for refused in [f.ask(0, cost), f.look(0, cost), each] {
                        let error = refused.expect_err(what);
                        assert_eq!(error.member(), member, "{what}: a cost of {cost}");
                        assert_eq!((error.cost(), error.most()), (cost, most), "{what}");
                    }
                }
                let (_, members) = f.ask_each(0, 0).expect(what);
                assert_eq!([0, 1].map(|i| members[i].remaining()), [100, 10], "{what}");
            });
        }
    }
    let limits = || {
        (
            FixedWindow::new(quota(100, DAY)),
            TokenBucket::new(quota(10, SEC)),
        )
    };
    let store: Keyed<String, _> = Keyed::new(limits());
    assert_eq!(
        store
            .check_n("ada", 11, at(0))
            .map_err(|e| e.member())
            .err(),
        Some(1)
    );
    assert!(store.is_empty(), "a cost that never fits created a client");
    // Limits of different kinds are one limit too, and so are limits within limits.
    let nested = Direct::new((limits(), SlidingLog::new(Quota::per_minute(20))));
    assert_eq!(nested.peek(at(0)).remaining(), 10);
    assert_eq!(nested.check_n(10, at(0)).map(|d| d.granted()), Ok(10));
    assert_eq!(nested.check_n(10, at(SEC)).map(|d| d.granted()), Ok(10));
    let d = nested.check(at(2 * SEC));
    assert_eq!((d.refused_by(), wait(d)), (Some(1), 58 * SEC));
}

/// The list of a configuration may grow and shrink while it is used.
#[test]
fn row_36_a_list_of_limits_grows_and_shrinks() {
    for (minute, day) in every(10, MIN).into_iter().zip(every(100, DAY)) {
        let list = |limits: &[Policy]| All::new(limits.to_vec()).expect("a limit or more");
        let client = Direct::new(list(&[minute]));
        assert_eq!(client.check_n(7, at(0)).map(|d| d.remaining()), Ok(3));
        client.set_limiter(list(&[minute, day]), at(0));
        assert_eq!(client.check_n(3, at(0)).map(|d| d.remaining()), Ok(0));
        let mut members = Vec::new();
        let told = client.check_each(0, at(0), |_, d| members.push(d.remaining()));
        assert!(told.is_ok_and(|d| d.is_allowed()));
        assert_eq!(
            members,
            [0, 97],
            "{minute:?}: a limit that is new is unspent"
        );
        client.set_limiter(list(&[minute]), at(0));
        assert!(
            !client.allow(at(0)),
            "{minute:?}: the minute is spent still"
        );
        // What has another kind behind it in the list is another limit.
        client.set_limiter(list(&[other_kind(minute)]), at(0));
        assert_eq!(client.peek(at(0)).remaining(), 10, "{minute:?}");
    }
}

fn other_kind(policy: Policy) -> Policy {
    let quota = policy.quota();
    match is_bucket(policy) {
        true => SlidingLog::new(quota).into(),
        false => TokenBucket::new(quota).into(),
    }
}
