//! Row 20: what is given back.

use std::time::Duration;

use tollgate::{
    Algorithm, Direct, Keyed, LeakyBucket, Limiter, Policy, Quota, Receipt, SlidingLog,
};

use crate::faces::*;
use crate::policies::*;

/// A refund was added to whatever was counted when it came: a unit spent in the last second of a minute made eleven
/// of the next one's ten.
#[test]
fn row_20_a_refund_of_an_earlier_window_credits_nothing_to_this_one() {
    for policy in every(10, MIN) {
        each(&[policy], |f, what| {
            let early = f.receipt(59 * SEC, 1, what);
            f.must_allow(60_500 * MS, 5, what);
            let given = f.refund(61 * SEC, early);
            // The minute that was charged is over; and in a queue others stand behind.
            let credits = !is_grid(policy) && !is_leaky(policy);
            assert_eq!(given, u64::from(credits), "{what}: units given back");
            let left = if is_leaky(policy) { 4 } else { 5 };
            assert_eq!(f.room(61 * SEC), left, "{what}: left");
            assert_eq!(f.drain(61 * SEC), left, "{what}: left");
            f.must_deny(61 * SEC, 1, what);
        });
    }
    // A counter remembers the window before: it is that one which gives back, and what was spent since weighs on.
    each(&[counter(10, MIN)], |f, what| {
        let early = f.receipt(59 * SEC, 4, what);
        f.must_allow(60_500 * MS, 5, what);
        assert_eq!(f.refund(61 * SEC, early), 4, "{what}");
        assert_eq!(f.room(61 * SEC), 5, "{what}");
        assert_eq!(
            f.room(2 * MIN),
            5,
            "{what}: the five, in the window after theirs"
        );
        assert_eq!(f.room(2 * MIN + 30 * SEC), 7, "{what}");
    });
}

/// The same kind: a refund that came late gave a unit that had long come back by itself.
#[test]
fn row_20_a_charge_can_be_given_back_for_as_long_as_it_weighs() {
    for (limit, period) in [(10, MIN), (3, 10), (7, 1_000), (1, 4), (MOST, SEC)] {
        for policy in every(limit, period) {
            for cost in [1, limit / 2 + 1, limit] {
                let spent = period / 4;
                let over = weighs_until(policy, spent, cost);
                each(&[policy], |f, what| {
                    let receipt = f.receipt(spent, cost, what);
                    assert_eq!(f.refund(over, receipt), 0, "{what}: {cost} units, over");
                    assert_eq!(f.drain(over), limit, "{what}: {cost} units, over");
                    f.must_deny(over, 1, what);
                });
                each(&[policy], |f, what| {
                    let receipt = f.receipt(spent, cost, what);
                    let given = f.refund(over - 1, receipt);
                    let due = match is_bucket(policy) {
                        // What a bucket lacks it can be given, in whole units.
                        true => still_missing(policy, cost, over - 1 - spent),
                        false => cost,
                    };
                    assert_eq!(given, due, "{what}: {cost} units, a nanosecond before");
                    let d = f.look(over - 1, 0).expect(what);
                    assert_eq!(d.remaining(), limit, "{what}: {cost} units");
                    assert_eq!(nanos(d.reset_after()), 0, "{what}: {cost} units");
                    assert_eq!(f.drain(over - 1), limit, "{what}: {cost} units");
                    f.must_deny(over - 1, 1, what);
                });
            }
        }
    }
}

/// A refund at once, and a twin that never spent: whatever comes, nothing tells them apart.
#[test]
fn row_20_what_is_given_back_at_once_was_never_spent() {
    for (limit, period) in [(3, 10), (10, 100), (7, 61), (5, MIN)] {
        for policy in every(limit, period) {
            each(&[policy], |f, what| {
                let mut twin = Rule::new(policy, 0);
                let mut t = 0;
                for random in irregular().take(200) {
                    t += random % period / 2;
                    let there = f.room(t);
                    if there > 0 {
                        let receipt = f.receipt(t, 1 + random / 7 % there, what);
                        assert_eq!(f.refund(t, receipt), receipt.cost(), "{what}: at {t} ns");
                    }
                    let cost = 1 + random / 11 % limit;
                    for later in [t, t + 1, t + period / 3, t + period] {
                        let (seen, plain) = (f.look(later, cost), twin.look(later, cost));
                        assert_eq!(told(seen.expect(what)), told(plain.expect(what)), "{what}");
                    }
                    if random % 3 == 0 {
                        let (seen, plain) = (f.ask(t, cost), twin.ask(t, cost));
                        assert_eq!(told(seen.expect(what)), told(plain.expect(what)), "{what}");
                    }
                }
            });
        }
    }
}

/// Refunds that were added up, or sent twice, lifted a client above the limit.
#[test]
fn row_20_no_refund_lifts_anyone_above_the_limit() {
    for (limit, period) in [(3, 10), (10, 100), (1, 7), (5, MIN)] {
        for policy in every(limit, period) {
            each(&[policy], |f, what| {
                let (mut receipts, mut t) = (Vec::new(), 0);
                for random in irregular().take(400) {
                    t += random % period / 3;
                    let cost = 1 + random / 7 % limit;
                    let d = match random / 64 % 4 {
                        0 => f.charge(t, cost),
                        1 => f.at_most(t, cost),
                        _ => f.ask(t, cost).expect(what),
                    };
                    receipts.extend(d.receipt());
                    if receipts.is_empty() {
                        continue;
                    }
                    let receipt: Receipt = receipts[(random >> 9) as usize % receipts.len()];
                    let before = balance(f, t);
                    let given = f.refund(t, receipt);
                    let after = balance(f, t);
                    assert!(given <= receipt.cost(), "{what}: {given} of {receipt:?}");
                    assert!(after <= i128::from(limit), "{what}: {after} of {limit}");
                    let gained = after - before;
                    // Where it fills a bucket, it fills the part of a unit that was missing too.
                    assert!(
                        (0..=i128::from(given) + 1).contains(&gained),
                        "{what}: {given} given back, {gained} gained"
                    );
                    let counts_fractions =
                        is_bucket(policy) || policy.algorithm() == Algorithm::SlidingWindowCounter;
                    if !counts_fractions {
                        assert_eq!(gained, i128::from(given), "{what}: at {t} ns");
                    }
                }
                assert_eq!(
                    f.refund(t, receipts[0].part(0)),
                    0,
                    "{what}: a part of nothing"
                );
                // And what is there after all of it is what a limit grants.
                for receipt in receipts.iter().chain(&receipts) {
                    f.refund(t, *receipt);
                }
                let there = f.room(t);
                assert!(there <= limit, "{what}: {there} of {limit}");
                assert_eq!(f.drain(t), there, "{what}");
                f.must_deny(t, 1, what);
            });
        }
    }
}

#[test]
fn row_20_a_part_of_a_charge_can_be_given_back() {
    each(&every(10, MIN), |f, what| {
        let receipt = f.receipt(SEC, 10, what);
        assert_eq!(receipt.part(3).cost(), 3, "{what}");
        assert_eq!(
            receipt.part(11),
            receipt,
            "{what}: no part is more than all"
        );
        assert_eq!(receipt.part(3).charged_at(), receipt.charged_at(), "{what}");
        assert_eq!(f.refund(SEC, receipt.part(3)), 3, "{what}");
        assert_eq!(f.room(SEC), 3, "{what}");
        f.must_allow(SEC, 3, what);
        f.must_deny(SEC, 1, what);
    });
}

/// Somebody else's receipt, or one for a client that was forgotten since, made a client of nobody, with a credit.
#[test]
fn row_20_a_refund_to_a_stranger_is_nothing() {
    for policy in every(10, MIN) {
        let (spent, now) = (Direct::new(policy), at(59 * SEC));
        let receipt = spent.check_n(4, now).expect("it fits").receipt();
        let receipt = receipt.expect("something was spent");

        let stranger = Direct::new(policy);
        assert_eq!(stranger.refund(receipt, now), 0, "{policy:?}");
        assert_eq!(stranger.peek(now).remaining(), 10, "{policy:?}");

        let store: Keyed<String, Policy> = Keyed::new(policy);
        assert_eq!(store.refund("nobody", receipt, now), 0, "{policy:?}");
        assert!(store.is_empty(), "{policy:?}: a refund created a client");
        assert!(!store.contains("nobody"), "{policy:?}");

        let known = store.check_n("ada", 4, now).expect("it fits").receipt();
        let later = at(59 * SEC + 2 * MIN);
        assert_eq!(store.sweep(later), 1, "{policy:?}: idle");
        assert_eq!(store.refund("ada", known.expect("spent"), later), 0);
        assert!(store.is_empty(), "{policy:?}: a refund created a client");
        assert_eq!(store.peek("ada", later).remaining(), 10, "{policy:?}");
    }
}

/// Those who queued behind were told their delays: only the last of a queue can leave it.
#[test]
fn row_20_a_queue_gives_back_its_tail() {
    each(&[leaky(10, SEC, 10)], |f, what| {
        let queue = [3, 2, 1].map(|cost| f.receipt(0, cost, what));
        assert_eq!(f.refund(0, queue[0]), 0, "{what}: two stand behind");
        assert_eq!(f.refund(0, queue[1]), 0, "{what}: one stands behind");
        assert_eq!(f.room(0), 4, "{what}");
        assert_eq!(f.refund(0, queue[2]), 1, "{what}: the last");
        assert_eq!(f.refund(0, queue[2]), 0, "{what}: it has left");
        assert_eq!(f.refund(0, queue[1]), 2, "{what}: the last now");
        let delay = nanos(f.grant(0, 1, what).delay());
        assert_eq!(delay, 300 * MS, "{what}: what is left of the queue");
        assert_eq!(f.refund(0, queue[0]), 0, "{what}: one stands behind again");
    });
    // Half of it has gone through already.
    each(&[leaky(10, SEC, 10)], |f, what| {
        let all = f.receipt(0, 10, what);
        assert_eq!(f.refund(550 * MS, all), 4, "{what}: four and a half wait");
        assert_eq!(f.room(550 * MS), 10, "{what}");
    });
    // It drains while it is asked, and from the front.
    let queue = Direct::new(LeakyBucket::new(Quota::per_second(10)));
    let first = queue.check_n(2, at(0)).expect("it fits").receipt();
    assert!(queue.allow(at(100 * MS)));
    assert_eq!(queue.refund(first.expect("spent"), at(100 * MS)), 0);
    assert_eq!(queue.peek(at(100 * MS)).remaining(), 8);
}

/// A log that is kept in tenths of a second knows the run that a unit joined, and not the unit.
#[test]
fn row_20_a_log_gives_back_to_the_run_that_was_joined() {
    let tenths: Policy = SlidingLog::new(quota(4, SEC))
        .with_resolution(Duration::from_millis(100))
        .into();
    each(&[tenths], |f, what| {
        let first = f.receipt(0, 1, what);
        let second = f.receipt(60 * MS, 2, what);
        let third = f.receipt(200 * MS, 1, what);
        assert_eq!(f.refund(300 * MS, first), 1, "{what}");
        assert_eq!(f.room(300 * MS), 1, "{what}");
        assert_eq!(f.refund(1_060 * MS - 1, second), 2, "{what}: dated 60 ms");
        assert_eq!(f.refund(1_200 * MS - 1, third), 1, "{what}");
        assert_eq!(f.room(1_200 * MS - 1), 4, "{what}");
        // A run without units is none, and the tenth that it began is over with it.
        f.must_allow(1_250 * MS, 4, what);
        f.must_deny(2_250 * MS - 1, 1, what);
        f.must_allow(2_250 * MS, 4, what);
    });
}

/// What was charged together goes back together; the least that a member gave back is told.
#[test]
fn row_20_every_one_of_several_limits_gives_back() {
    each_of_several(&[token(10, SEC, 10), grid(10, MIN)], |f, what| {
        let receipt = f.receipt(59_900 * MS, 4, what);
        assert_eq!(f.refund(59_900 * MS, receipt), 4, "{what}");
        assert_eq!(f.room(59_900 * MS), 10, "{what}");
        // The minute ends; of the four the bucket lacks two.
        let receipt = f.receipt(59_900 * MS, 4, what);
        let (_, members) = f.ask_each(60_100 * MS, 0).expect(what);
        assert_eq!([0, 1].map(|i| members[i].remaining()), [8, 10], "{what}");
        assert_eq!(
            f.refund(60_100 * MS, receipt),
            0,
            "{what}: the window gave none"
        );
        let (_, members) = f.ask_each(60_100 * MS, 0).expect(what);
        assert_eq!([0, 1].map(|i| members[i].remaining()), [10, 10], "{what}");
    });
    // A member that has its units back already keeps none of the others from theirs.
    each_of_several(&[token(10, SEC, 10), log(10, MIN)], |f, what| {
        let receipt = f.receipt(0, 4, what);
        assert_eq!(
            f.refund(10 * SEC, receipt),
            0,
            "{what}: the bucket lacked none"
        );
        assert_eq!(f.room(10 * SEC), 10, "{what}");
        f.must_allow(10 * SEC, 10, what);
        f.must_deny(10 * SEC, 1, what);
    });
    // Each queue of several knows its own tail.
    each_of_several(&[leaky(10, SEC, 10), leaky(5, SEC, 20)], |f, what| {
        let (first, second) = (f.receipt(0, 3, what), f.receipt(0, 2, what));
        assert_eq!(f.refund(0, first), 0, "{what}: one stands behind in both");
        assert_eq!(f.refund(0, second), 2, "{what}");
        assert_eq!(f.refund(0, first), 3, "{what}");
        assert_eq!(f.room(0), 10, "{what}");
    });
}

/// One queue of several may have recorded what another had no room for: who stands before that in the one leaves neither.
#[test]
fn row_20_who_joined_several_queues_leaves_all_of_them_or_none() {
    let strict = with_max_debt(leaky(10, SEC, 10), 0);
    each_of_several(&[strict, leaky(10, SEC, 10)], |f, what| {
        let first = f.receipt(0, 10, what);
        let d = f.charge(0, 5);
        assert_eq!(
            (d.granted(), d.unrecorded()),
            (0, 5),
            "{what}: nothing of it by both"
        );
        // In the second queue those five stand behind.
        assert_eq!(f.refund(0, first), 0, "{what}");
        let (_, members) = f.ask_each(0, 0).expect(what);
        let debts = [0, 1].map(|i| (members[i].remaining(), members[i].debt()));
        assert_eq!(debts, [(0, 0), (0, 5)], "{what}");
    });
}

/// When a charge of `cost` at `spent`, on a client that was fresh, no longer weighs.
fn weighs_until(policy: Policy, spent: u64, cost: u64) -> u64 {
    let period = policy.quota().period_ns();
    match policy {
        Policy::FixedWindow(_) if is_grid(policy) => period,
        Policy::SlidingWindowCounter(_) => 2 * period,
        Policy::FixedWindow(_) | Policy::SlidingLog(_) => spent + period,
        _ => spent + refill(policy, cost),
    }
}

/// The whole units that a bucket still lacks so long after a charge.
fn still_missing(policy: Policy, cost: u64, elapsed: u64) -> u64 {
    let quota = policy.quota();
    let period = u128::from(quota.period_ns());
    let missing = u128::from(cost) * period - u128::from(elapsed) * u128::from(quota.limit());
    u64::try_from(missing / period).expect("at most the cost")
}

/// What is left, or, below nothing, what is owed.
fn balance(f: &dyn Face, ns: u64) -> i128 {
    i128::from(f.room(ns)) - i128::from(f.debt(ns))
}
