//! Rows in which a limit changes, or something is given back.

use serde_json::Value;
use tollgate::{Decision, Direct, FixedWindow};

use crate::clients::{at, clients, every_kind, faces, nanos, policies, spent};
use crate::rows::{Fate, Row, read, rows, run};

/// What is missing from full is carried to the new limit: the peers' additive mode, and those rows of their other modes
/// in which nothing is missing.
#[test]
fn a_limit_that_changes_carries_what_is_missing() {
    run("reconfig_vectors", |row| match row.id.as_str() {
        "b4j-rc-add" | "b4j-rc-asis-shrink" | "b4j-rc-prop-over" => bucket_that_changes(row),
        "gub-change-limit-token" | "gub-reset-remaining" => requests_that_name_their_limit(row),
        new => panic!("{new}: a new row, and no way to run it"),
    });
}

/// What is listed as another's choice is answered otherwise by ours, or it would be a row that runs.
#[test]
fn other_ways_to_carry_are_not_ours() {
    let Some(file) = read() else { return };
    let of_others = |row: &Row| row.group == "reconfig_vectors" && row.fate() == Fate::Theirs;
    for row in rows(&file).into_iter().filter(of_others) {
        let answers = match row.get("new") {
            Some(_) => left_after_a_change(&row),
            None => left_after_requests(&row),
        };
        for answers in answers {
            let agrees = answers.iter().all(|(ours, theirs)| ours == theirs);
            assert!(!agrees, "{}: ours and theirs: {answers:?}", row.id);
        }
    }
}

/// What ours and what theirs says is left, of a bucket that changes.
fn left_after_a_change(row: &Row) -> Vec<Vec<(u64, u64)>> {
    let (old, new) = (row.inner("old"), row.inner("new"));
    let pairs = policies(&old, 0).into_iter().zip(policies(&new, 0));
    let answers = pairs.map(|(before, after)| {
        let client = Direct::new(before);
        let lacks = old.number("burst") - old.number_or("initial", old.number("burst"));
        assert!(client.check_n(lacks, at(0)).expect("it fits").is_allowed());
        client.set_limiter(after, at(row.number("change_at_ns")));
        let left = |step: &Row| {
            let d = client
                .peek_n(0, at(step.number("t_ns")))
                .expect("a cost of zero");
            (d.remaining(), step.number("remaining"))
        };
        row.list("available_after").iter().map(left).collect()
    });
    answers.collect()
}

/// The same of requests that bring their limit along.
fn left_after_requests(row: &Row) -> Vec<Vec<(u64, u64)>> {
    let steps = row.list("steps");
    let kinds = every_kind(row, steps[0].number("limit"));
    let answers = kinds.iter().enumerate().map(|(kind, policy)| {
        let client = Direct::new(*policy);
        let left = |step: &Row| {
            client.set_limiter(every_kind(row, step.number("limit"))[kind], at(0));
            let d = client.check_n(step.number("cost"), at(0)).expect("it fits");
            (d.remaining(), step.number("remaining"))
        };
        steps.iter().map(left).collect()
    });
    answers.collect()
}

fn bucket_that_changes(row: &Row) {
    row.knows(&[
        "id",
        "source",
        "mode",
        "old",
        "change_at_ns",
        "new",
        "available_after",
        "exact_model_agrees",
        "notes",
        "force_add_before",
    ]);
    let (old, new) = (row.inner("old"), row.inner("new"));
    for (before, after) in policies(&old, 0).into_iter().zip(policies(&new, 0)) {
        for mut client in spent(&old, 0, faces(before)) {
            let what = format!("{} by {}", row.id, client.name());
            // (What is added above the capacity is clipped in the end; ours clips it at once.)
            client.give_back(row.number_or("force_add_before", 0), at(0));
            client.change(after, at(row.number("change_at_ns")));
            for step in row.list("available_after") {
                step.knows(&["t_ns", "remaining"]);
                let room = client.room(at(step.number("t_ns")));
                assert_eq!(room, step.number("remaining"), "{what}: {}", step.value);
            }
        }
    }
}

/// A peer whose requests bring the limit along. What its window says here, all five algorithms do.
fn requests_that_name_their_limit(row: &Row) {
    row.knows(&["id", "source", "mode", "steps", "period_ns", "notes"]);
    let steps = row.list("steps");
    for kind in 0..every_kind(row, steps[0].number("limit")).len() {
        let policy = |step: &Row| every_kind(row, step.number("limit"))[kind];
        for mut client in faces(policy(&steps[0])) {
            let what = format!("{} by {}", row.id, client.name());
            for step in &steps {
                step.knows(&["limit", "cost", "allowed", "remaining", "reset"]);
                let cost = step.number("cost");
                client.change(policy(step), at(0));
                // The request that resets is not charged.
                let answer = match step.get("reset").is_some_and(|reset| reset == true) {
                    true => {
                        client.reset();
                        client.look(cost, at(0))
                    }
                    false => client.ask(cost, at(0)),
                };
                let d = answer.expect(&what);
                let allowed = step.get("allowed").and_then(Value::as_bool);
                assert_eq!(Some(d.is_allowed()), allowed, "{what}: {}", step.value);
                assert_eq!(
                    d.remaining(),
                    step.number("remaining"),
                    "{what}: {}",
                    step.value
                );
            }
        }
    }
}

#[test]
fn refunds_and_overflows_agree() {
    run("block_refund_vectors", |row| match row.id.as_str() {
        "rlf-reward" => refund_in_a_window(row),
        "rlf-set" => count_that_is_set(row),
        "rlf-burst" => second_limit_for_what_the_first_refuses(row),
        "upstash-refund-at-limit" | "upstash-refund-mix" => negative_costs(row),
        new => panic!("{new}: a new row, and no way to run it"),
    });
}

fn refund_in_a_window(row: &Row) {
    row.knows(&["id", "source", "algorithm", "limit", "period_ns", "steps"]);
    for mut client in clients(row, 0) {
        let what = format!("{} by {}", row.id, client.name());
        for step in row.list("steps") {
            let (now, cost) = (at(step.number("t_ns")), step.number("cost"));
            match step.op() {
                "try" => {
                    let allowed = client.ask(cost, now).expect(&what).is_allowed();
                    assert_eq!(Some(allowed), step.get("allowed").and_then(Value::as_bool));
                }
                "reward" => {
                    assert_eq!(client.give_back(cost, now), cost, "{what}: given back");
                    let consumed = row.number("limit") - client.room(now);
                    assert_eq!(consumed, step.number("consumed"), "{what}: consumed");
                }
                new => panic!("{what}: {new} is a new operation"),
            }
        }
    }
}

/// To set a count is to reset it and to charge what it should be.
fn count_that_is_set(row: &Row) {
    row.knows(&[
        "id",
        "source",
        "algorithm",
        "limit",
        "period_ns",
        "steps",
        "notes",
    ]);
    for mut client in clients(row, 0) {
        let what = format!("{} by {}", row.id, client.name());
        assert!(
            client.ask(3, at(0)).expect(&what).is_allowed(),
            "{what}: before it"
        );
        for step in row.list("steps") {
            assert_eq!(step.op(), "set", "{what}");
            let (now, count) = (at(step.number("t_ns")), step.number("consumed"));
            client.reset();
            let d = client.charge(count, now);
            assert_eq!(d.granted(), count, "{what}: {d:?}");
            assert_eq!(d.remaining(), step.number("remaining"), "{what}: {d:?}");
            assert_eq!(row.number("limit") + d.debt(), count, "{what}: owed");
        }
    }
}

/// Two limiters, the second asked for what the first has refused: no limit of ours, but what a caller makes of two.
fn second_limit_for_what_the_first_refuses(row: &Row) {
    row.knows(&["id", "source", "limits", "mode", "steps"]);
    let limits = row.list("limits");
    let each = |i: usize| {
        let quota = limits[i].quota(limits[i].number("limit"));
        let window = FixedWindow::new(quota);
        [window, window.anchored_at_first_request()]
            .into_iter()
            .flat_map(faces)
    };
    for (mut first, mut second) in each(0).zip(each(1)) {
        let what = format!("{} by {}", row.id, first.name());
        for step in row.list("steps") {
            step.knows(&["t_ns", "cost", "allowed", "retry_after_max_ns"]);
            let (now, cost) = (at(step.number("t_ns")), step.number("cost"));
            let mut answers = vec![first.ask(cost, now).expect(&what)];
            if !answers[0].is_allowed() {
                answers.push(second.ask(cost, now).expect(&what));
            }
            let allowed = answers.iter().any(Decision::is_allowed);
            let expected = step.get("allowed").and_then(Value::as_bool);
            assert_eq!(Some(allowed), expected, "{what}: {}", step.value);
            if step.get("retry_after_max_ns").is_some() {
                let retry = answers.iter().map(|d| nanos(d.retry_after())).min();
                let most = Some(step.number("retry_after_max_ns"));
                assert!(retry <= most, "{what}: {retry:?} ns");
            }
        }
    }
}

/// A cost below zero is a refund of so much of what was spent.
fn negative_costs(row: &Row) {
    row.knows(&["id", "source", "algorithm", "limit", "period_ns", "steps"]);
    assert_eq!(row.text("algorithm"), "any", "{}", row.id);
    for policy in every_kind(row, row.number("limit")) {
        for mut client in faces(policy) {
            let what = format!("{} by {}", row.id, client.name());
            for step in row.list("steps") {
                step.knows(&["cost", "allowed", "remaining", "op"]);
                let cost = step
                    .get("cost")
                    .map_or(0, |cost| cost.as_i64().expect("a cost"));
                let units = cost.unsigned_abs();
                let d = if step.op() == "available" {
                    client.look(0, at(0))
                } else if cost < 0 {
                    assert_eq!(client.give_back(units, at(0)), units, "{what}: given back");
                    client.look(0, at(0))
                } else {
                    client.ask(units, at(0))
                };
                let d = d.expect(&what);
                if let Some(allowed) = step.get("allowed") {
                    assert_eq!(Some(d.is_allowed()), allowed.as_bool(), "{what}: {d:?}");
                }
                if let Some(remaining) = step.get("remaining") {
                    assert_eq!(Some(d.remaining()), remaining.as_u64(), "{what}: {d:?}");
                }
            }
        }
    }
}
