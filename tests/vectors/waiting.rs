//! Rows in which somebody waits, or books.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde_json::Value;
use tollgate::wait::{Reservation, Turn, WaitError, Waiting, WhenQueueFull};
use tollgate::{Clock, Direct, LeakyBucket, Limiter, ManualClock, Policy, Quota, TokenBucket};

use crate::clients::{at, nanos, policies};
use crate::rows::run;

type Manual<L> = Waiting<Direct<L>, ManualClock, ManualClock>;

fn manual<L: Limiter>(limiter: L) -> Manual<L> {
    let clock = ManualClock::new(at(0));
    Waiting::new(Direct::new(limiter), clock.clone(), clock)
}

/// Waits by moving the clock; how long that was.
fn waits<L: Limiter>(
    waiting: &Manual<L>,
    mut turn: Pin<&mut impl Future<Output = Result<Turn, WaitError>>>,
) -> (Duration, Result<Turn, WaitError>) {
    let came = waiting.clock().now();
    loop {
        let polled = turn.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(outcome) = polled {
            return (
                waiting.clock().now().saturating_duration_since(came),
                outcome,
            );
        }
        let woken = waiting.clock().advance_to_next_sleeper();
        assert!(woken.is_some(), "it waits for nothing");
    }
}

#[test]
fn reservations_act_when_the_peers_do() {
    run("reserve_vectors", |row| {
        let (limit, burst) = (row.number("limit"), row.number("burst"));
        let bucket = |limit| TokenBucket::new(row.quota(limit)).with_burst(burst);
        let limiter = Direct::new(bucket(limit));
        let mut named: BTreeMap<String, Option<Reservation<'_, _, ()>>> = BTreeMap::new();
        for (index, step) in row.list("steps").iter().enumerate() {
            let what = format!("{}, step {index}", row.id);
            let now = at(step.number("t_ns"));
            match step.op() {
                "reserve" => {
                    step.knows(&[
                        "op",
                        "t_ns",
                        "cost",
                        "granted",
                        "act_at_ns",
                        "name",
                        "max_wait_ns",
                    ]);
                    let max_wait = Duration::from_nanos(step.number_or("max_wait_ns", u64::MAX));
                    let reserved = limiter.reserve(step.number("cost"), now, max_wait);
                    let granted = step.get("granted").and_then(Value::as_bool);
                    assert_eq!(Some(reserved.is_ok()), granted, "{what}: {reserved:?}");
                    let reserved = reserved.ok();
                    if let Some(reservation) = &reserved {
                        assert_eq!(reservation.act_at(), at(step.number("act_at_ns")), "{what}");
                    }
                    match (step.get("name"), reserved) {
                        (Some(_), reserved) => {
                            named.insert(step.text("name").to_owned(), reserved);
                        }
                        (None, Some(reserved)) => reserved.keep(),
                        (None, None) => {}
                    }
                }
                "cancel" => {
                    // Of one that was refused there is nothing to cancel.
                    if let Some(reservation) = named.get_mut(step.text("name")).expect(&what).take()
                    {
                        reservation.cancel(now);
                    }
                }
                "set_limit" => limiter.set_limiter(bucket(step.number("limit")), now),
                new => panic!("{what}: {new} is a new operation"),
            }
        }
    });
}

/// What a peer waited for is what waiting takes, and what it would not wait for is refused at once.
#[test]
fn waiting_takes_as_long_as_the_peers_waits() {
    run("wait_vectors", |row| {
        for policy in policies(row, 0) {
            // A bucket that starts part-full is one that has spent something; a leaky bucket would shape that.
            if matches!(policy, Policy::LeakyBucket(_)) {
                continue;
            }
            let waiting = manual(policy);
            let initial = row.number_or("initial", row.number("burst"));
            let lacks = row.number("burst") - initial;
            assert!(
                waiting
                    .store()
                    .check_n(lacks, at(0))
                    .expect("it fits")
                    .is_allowed()
            );
            for (index, step) in row.list("steps").iter().enumerate() {
                let what = format!("{}, step {index}, {policy:?}", row.id);
                step.knows(&[
                    "cost",
                    "max_wait_ns",
                    "ok",
                    "waited_ns",
                    "cancelled_after_ns",
                ]);
                let ok = step.get("ok").and_then(Value::as_bool).expect(&what);
                let patience = Duration::from_nanos(step.number_or("max_wait_ns", u64::MAX));
                let mut turn = Box::pin(
                    waiting
                        .until_allowed_n(&(), step.number("cost"))
                        .within(patience),
                );
                if step.get("cancelled_after_ns").is_some() {
                    let polled = turn.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    assert!(polled.is_pending(), "{what}");
                    let after = Duration::from_nanos(step.number("cancelled_after_ns"));
                    waiting.clock().advance(after);
                    continue;
                }
                let (waited, outcome) = waits(&waiting, turn.as_mut());
                assert_eq!(outcome.is_ok(), ok, "{what}: {outcome:?}");
                assert_eq!(nanos(waited), step.number("waited_ns"), "{what}");
            }
        }
    });
}

/// A pacer is a leaky bucket that is waited for.
#[test]
fn a_leaky_bucket_paces_as_a_pacer_does() {
    run("pacer_vectors", |row| {
        let quota = row.quota(row.number("limit"));
        let waiting = manual(LeakyBucket::new(quota).with_burst(row.number("burst")));
        for (index, step) in row.list("steps").iter().enumerate() {
            let what = format!("{}, step {index}", row.id);
            let turn = |cost| waiting.until_allowed_n(&(), cost);
            match step.op() {
                "sleep" => waiting
                    .clock()
                    .advance(Duration::from_nanos(step.number("ns"))),
                "acquire" => {
                    let mut turn = Box::pin(turn(step.number("cost")));
                    let (waited, outcome) = waits(&waiting, turn.as_mut());
                    assert!(outcome.is_ok(), "{what}");
                    assert_eq!(nanos(waited), step.number("wait_ns"), "{what}");
                }
                "try_acquire" => {
                    let patience = Duration::from_nanos(step.number("timeout_ns"));
                    let mut turn = Box::pin(turn(step.number("cost")).within(patience));
                    let (_, outcome) = waits(&waiting, turn.as_mut());
                    let allowed = step.get("allowed").and_then(Value::as_bool);
                    assert_eq!(Some(outcome.is_ok()), allowed, "{what}: {outcome:?}");
                }
                new => panic!("{what}: {new} is a new operation"),
            }
        }
    });
}

#[test]
fn bounded_queues_do_as_the_peers_do() {
    run("queue_vectors", |row| {
        let period = Duration::from_secs(1);
        let refill = Quota::new(row.number("per_replenish"), period).expect("a quota");
        let when_full = match row.text("order") {
            "oldest_first" => WhenQueueFull::RefuseNewest,
            "newest_first" => WhenQueueFull::EvictOldest,
            new => panic!("{}: {new} is a new order", row.id),
        };
        let waiting = manual(TokenBucket::new(refill).with_burst(row.number("capacity")))
            .with_max_units(row.number("queue_limit"))
            .when_full(when_full);
        let mut turns = BTreeMap::new();
        for (index, op) in row.list("ops").iter().enumerate() {
            let what = format!("{}, operation {index}: {}", row.id, op.value);
            let words = op.value.as_array().expect(&what);
            let text = |index: usize| words[index].as_str().expect(&what);
            let outcome = |outcome: Poll<Result<Turn, WaitError>>| match outcome {
                Poll::Pending => "queued",
                Poll::Ready(Ok(_)) => "granted",
                Poll::Ready(Err(WaitError::CostTooHigh(_))) => "error",
                Poll::Ready(Err(WaitError::QueueFull(_) | WaitError::Evicted)) => "refused",
                Poll::Ready(Err(other)) => panic!("{what}: {other}"),
            };
            let mut context = Context::from_waker(Waker::noop());
            match text(0) {
                "replenish" => waiting.clock().advance(period),
                "take" => match words[1].as_u64() {
                    // A cost below zero is no cost: its type says so.
                    None => assert_eq!((text(2), words[1].as_i64()), ("error", Some(-1)), "{what}"),
                    Some(cost) => {
                        let taken = waiting.store().check_n(cost, waiting.clock().now());
                        let taken = taken.map_or("error", |decision| {
                            if decision.is_allowed() {
                                "granted"
                            } else {
                                "refused"
                            }
                        });
                        assert_eq!(taken, text(2), "{what}");
                    }
                },
                first => match first.strip_prefix("wait ") {
                    Some(name) => {
                        let cost = words[1].as_u64().expect(&what);
                        let mut turn = Box::pin(waiting.until_allowed_n(&(), cost));
                        assert_eq!(outcome(turn.as_mut().poll(&mut context)), text(2), "{what}");
                        turns.insert(name.to_owned(), turn);
                    }
                    None => {
                        let turn = turns.get_mut(first).expect(&what);
                        assert_eq!(outcome(turn.as_mut().poll(&mut context)), text(1), "{what}");
                    }
                },
            }
        }
    });
}
