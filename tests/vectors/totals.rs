//! Rows that are totals: waits, and how much has passed by when.

use std::time::Duration;

use serde_json::Value;
use tollgate::{FixedWindow, LeakyBucket, Quota};

use crate::clients::{at, clients, faces, nanos, pacers};
use crate::rows::{Row, run};

/// What a peer waited for is the wait that we name; what it would not wait for is a longer one.
#[test]
fn peers_wait_as_long_as_we_say() {
    run("wait_vectors", |row| {
        if row.id == "go-wait-cancel" {
            return; // a wait that is given up: see `waiting`
        }
        for mut client in clients(row, 0) {
            let what = format!("{} by {}", row.id, client.name());
            assert_eq!(row.list("steps").len(), 1, "{what}: a row of one wait");
            let step = &row.list("steps")[0];
            step.knows(&["cost", "max_wait_ns", "ok", "waited_ns"]);
            let (cost, patience) = (step.number("cost"), step.number("max_wait_ns"));
            let wait = client
                .look(cost, at(0))
                .ok()
                .map(|d| nanos(d.retry_after()));
            let granted = wait.filter(|&wait| wait <= patience);
            assert_eq!(
                Some(granted.is_some()),
                step.get("ok").and_then(Value::as_bool),
                "{what}: we say {wait:?}"
            );
            assert_eq!(
                granted.unwrap_or(0),
                step.number("waited_ns"),
                "{what}: we say {wait:?}"
            );
            if let Some(wait) = granted {
                assert!(
                    wait == 0 || !client.look(cost, at(wait - 1)).expect(&what).is_allowed(),
                    "{what}: too long"
                );
                assert!(
                    client.ask(cost, at(wait)).expect(&what).is_allowed(),
                    "{what}: too short"
                );
            }
        }
    });
}

#[test]
fn totals_over_time_agree() {
    run("aggregates", |row| match row.id.as_str() {
        "throttled-period" => calls_at_one_instant(row),
        "cf-rate" => published_estimate(row),
        "uber-per" => one_queue(row),
        "uber-maxslack" => one_pacer(row),
        "uber-slack-1000ms-150" | "uber-slack-500ms-20" | "uber-slack-500ms-150" => two_pacers(row),
        new => panic!("{new}: a new row, and no way to run it"),
    });
}

/// 27 calls at one instant and a burst of one: the first passes.
fn calls_at_one_instant(row: &Row) {
    for mut client in clients(row, 0) {
        for call in 0..27 {
            let allowed = client.ask(1, at(0)).expect("cost 1").is_allowed();
            assert_eq!(
                allowed,
                call == 0,
                "{}: call {call} by {}",
                row.id,
                client.name()
            );
        }
    }
}

/// A worked example, as a decimal: what is used of the limit.
fn published_estimate(row: &Row) {
    let number = |name| u128::from(row.number(name));
    let (limit, period, elapsed) = (number("limit"), number("period_ns"), number("elapsed_ns"));
    let (previous, current) = (number("previous_window"), number("current_window"));
    let (whole, tenths) = row.text("estimate").split_once('.').expect("one decimal");
    let used_tenths =
        whole.parse::<u128>().expect("digits") * 10 + tenths.parse::<u128>().expect("one digit");
    assert_eq!(
        10 * (previous * (period - elapsed) + current * period),
        used_tenths * period,
        "{}: DESIGN's estimate",
        row.id
    );
    let room = (10 * limit - used_tenths) / 10;
    // A unit more fits when so much of the previous window is left, and no more.
    let may_be_left = (limit - current - room - 1) * period / previous;
    for mut client in clients(row, 0) {
        let what = format!("{} by {}", row.id, client.name());
        let now = row.number("period_ns") + row.number("elapsed_ns");
        assert!(
            client
                .ask(row.number("previous_window"), at(0))
                .expect(&what)
                .is_allowed(),
            "{what}: the previous window"
        );
        assert!(
            client
                .ask(row.number("current_window"), at(now))
                .expect(&what)
                .is_allowed(),
            "{what}: the current window"
        );
        assert_eq!(u128::from(client.room(at(now))), room, "{what}: room");
        let refused = client.ask(room as u64 + 1, at(now)).expect(&what);
        assert!(!refused.is_allowed(), "{what}: a unit more");
        assert_eq!(
            refused.retry_after().as_nanos(),
            period - elapsed - may_be_left,
            "{what}: its wait"
        );
    }
}

/// Without slack, and always asked: a leaky bucket's queue, whose callers wait for its delay.
fn one_queue(row: &Row) {
    assert_eq!(
        (row.number("slack"), row.get("saturated")),
        (0, Some(&Value::Bool(true))),
        "{}",
        row.id
    );
    let quota = Quota::new(
        row.number("limit"),
        Duration::from_nanos(row.number("period_ns")),
    )
    .expect("a quota");
    for mut client in faces(LeakyBucket::new(quota).with_burst(20)) {
        let starts = (0..20)
            .map(|_| nanos(client.ask(1, at(0)).expect("cost 1").delay()))
            .collect::<Vec<_>>();
        assert_totals(row, &starts, |start, by| start <= by, &client.name());
    }
}

/// A pacer with a slack of s: a bucket of s + 1 whose callers wait.
fn one_pacer(row: &Row) {
    for mut client in pacers(row) {
        let (mut now, mut grants) = (0, Vec::new());
        for arrival in row
            .get("arrivals_ns")
            .and_then(Value::as_array)
            .expect("arrivals")
        {
            now = now.max(arrival.as_u64().expect("a stamp"));
            now += nanos(client.look(1, at(now)).expect("cost 1").retry_after());
            assert!(
                client.ask(1, at(now)).expect("cost 1").is_allowed(),
                "{}: after its wait",
                row.id
            );
            grants.push(now);
        }
        assert_totals(row, &grants, |grant, by| grant <= by, &client.name());
    }
}

/// How many are through by each instant of the row; the peers differ in whether a grant of that very instant counts.
fn assert_totals(row: &Row, grants: &[u64], counts: fn(u64, u64) -> bool, name: &str) {
    for total in row.list("admitted_at") {
        let count = grants
            .iter()
            .filter(|&&grant| counts(grant, total.number("t_ns")))
            .count() as u64;
        assert_eq!(
            count,
            total.number("count"),
            "{}: by {} by {name}",
            row.id,
            total.value
        );
    }
}

/// One worker takes from a slow pacer and then from a fast one; from 2 s on two more take from the fast one.
fn two_pacers(row: &Row) {
    #[derive(Clone, Copy, PartialEq)]
    enum From {
        Slow,
        SlowThenFast,
        Fast,
    }
    let pairs = pacers(&row.inner("fast"))
        .into_iter()
        .zip(pacers(&row.inner("slow")));
    for (mut fast, mut slow) in pairs {
        let mut workers = [
            (0, From::Slow),
            (2_000_000_000, From::Fast),
            (2_000_000_000, From::Fast),
        ];
        let mut grants = Vec::new();
        while let Some((time, takes)) = workers
            .iter_mut()
            .min_by_key(|(time, _)| *time)
            .map(|(time, takes)| (time, takes))
        {
            if *time > 3_000_000_000 {
                break;
            }
            let pacer = if *takes == From::Slow {
                &mut slow
            } else {
                &mut fast
            };
            let d = pacer.ask(1, at(*time)).expect("cost 1");
            match (d.is_allowed(), *takes) {
                (false, _) => *time += nanos(d.retry_after()),
                (true, From::Slow) => *takes = From::SlowThenFast,
                (true, From::SlowThenFast) => {
                    *takes = From::Slow;
                    grants.push(*time);
                }
                (true, From::Fast) => grants.push(*time),
            }
        }
        assert_totals(row, &grants, |grant, by| grant < by, &fast.name());
    }
}

/// What is counted in one window. (What this peer counts as near the limit waits for metrics.)
#[test]
fn counts_in_a_window_agree() {
    run("stats_vectors", |row| {
        let quota = Quota::per_minute(row.number("limit"));
        let (before, after) = (row.number("count_before"), row.number("count_after"));
        let windows = [
            FixedWindow::new(quota),
            FixedWindow::new(quota).anchored_at_first_request(),
        ];
        for mut client in windows.into_iter().flat_map(faces) {
            assert!(
                client.ask(before, at(0)).expect("it fits").is_allowed(),
                "{}",
                row.id
            );
            let d = client.ask(after - before, at(0)).expect("it fits");
            assert_eq!(
                Some(d.is_allowed()),
                row.get("allowed").and_then(Value::as_bool),
                "{} by {}",
                row.id,
                client.name()
            );
            assert_eq!(
                d.remaining(),
                row.number("remaining"),
                "{} by {}",
                row.id,
                client.name()
            );
        }
    });
}
