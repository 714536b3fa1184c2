//! Rows that are steps: calls, and what each is answered.

use std::time::Duration;

use serde_json::Value;
use tollgate::Decision;

use crate::IN_DEBT;
use crate::clients::{
    Client, assert_near, at, clients, clients_of_several, faces, policies, with_max_debt,
};
use crate::rows::{Row, read, rows, run};

/// The main part: each step of each row, through `Direct` and `Keyed`.
#[test]
fn canonical_rows_pass() {
    let mut steps = 0;
    let rows = run("vectors", |row| {
        row.knows(&[
            "id",
            "source",
            "algorithm",
            "limit",
            "period_ns",
            "burst",
            "initial",
            "created_t_ns",
            "tolerance_ns",
            "conformance",
            "notes",
            "exact_model_agrees",
            "steps",
        ]);
        // The origin lies at the epoch, and at no round instant of our days.
        for origin in [0, 1_700_000_000_123_456_789] {
            let created = origin + row.number_or("created_t_ns", 0);
            for mut client in clients(row, created) {
                steps += replay(row, client.as_mut(), origin);
            }
        }
    });
    if rows > 0 {
        assert_eq!(
            steps, 2_312,
            "steps replayed, over all algorithms, holders and origins"
        );
    }
}

/// Takes a row's steps, and says how many.
fn replay(row: &Row, client: &mut dyn Client, origin: u64) -> usize {
    let tolerance = row.number_or("tolerance_ns", 0);
    for step in row.list("steps") {
        step.knows(&[
            "t_ns",
            "cost",
            "op",
            "allowed",
            "remaining",
            "retry_after_ns",
            "reset_after_ns",
            "admitted",
            "debt_wait_ns",
        ]);
        let (now, cost) = (at(origin + step.number("t_ns")), step.number("cost"));
        let what = format!(
            "{}: {} by {}, origin {origin}",
            row.id,
            step.value,
            client.name()
        );
        let answer = match step.op() {
            "try" => client.ask(cost, now),
            "peek" | "available" => client.look(cost, now),
            "at_most" => Ok(client.at_most(cost, now)),
            "force" => {
                let charged = client.charge(cost, now);
                assert_eq!(charged.granted(), cost, "{what}: {charged:?}");
                assert_eq!(charged.unrecorded(), 0, "{what}: {charged:?}");
                Ok(charged)
            }
            "add" => {
                client.give_back(cost, now);
                client.look(0, now)
            }
            "clear" => {
                client.reset();
                client.look(0, now)
            }
            new => panic!("{what}: {new} is a new operation"),
        };
        let said = format!("{what}: {answer:?}");
        let can_be_refused = matches!(step.op(), "try" | "peek" | "available");
        assert_eq!(
            answer.is_err(),
            can_be_refused && cost > client.most(),
            "{said}: an error if it can never fit, and only then"
        );
        if let Some(allowed) = step.get("allowed") {
            let ours = answer.as_ref().is_ok_and(Decision::is_allowed);
            assert_eq!(Some(ours), allowed.as_bool(), "{said}: allowed");
        }
        if let Some(admitted) = step.get("admitted") {
            let ours = answer.as_ref().map_or(0, Decision::granted);
            assert_eq!(Some(ours), admitted.as_u64(), "{said}: admitted");
        }
        if let Some(remaining) = step.get("remaining") {
            let (ours, owed) = match &answer {
                Ok(d) => (d.remaining(), d.debt()),
                Err(_) => (client.room(now), client.debt(now)),
            };
            match remaining.as_i64().filter(|&remaining| remaining < 0) {
                Some(less_than_nothing) => {
                    assert!(IN_DEBT.contains(&row.id.as_str()), "{said}: in debt");
                    let debt = less_than_nothing.unsigned_abs();
                    assert_eq!((ours, owed), (0, debt), "{said}: remaining, and owed");
                }
                None => {
                    assert_eq!(Some(ours), remaining.as_u64(), "{said}: remaining");
                    assert_eq!(owed, 0, "{said}: owed");
                }
            }
        }
        if let Some(retry) = step.get("retry_after_ns") {
            match (&answer, retry.as_u64()) {
                (Ok(d), Some(retry)) => assert_near(d.retry_after(), retry, tolerance, &said),
                (Err(_), None) => assert_eq!(retry, "never", "{said}: retry"),
                _ => panic!("{said}: retry after {retry}"),
            }
        }
        if let Some(reset) = step.get("reset_after_ns") {
            let reset = reset.as_u64().expect("a number of nanoseconds");
            assert_near(answer.expect(&what).reset_after(), reset, tolerance, &said);
        }
        if step.get("debt_wait_ns").is_some() {
            // Until nothing is owed any more; a unit is there later still.
            let repaid = now + Duration::from_nanos(step.number("debt_wait_ns"));
            assert_eq!(client.debt(repaid), 0, "{said}: the debt is repaid");
            if repaid > now {
                let before = repaid - Duration::from_nanos(1);
                assert!(client.debt(before) > 0, "{said}: repaid too soon");
            }
        }
    }
    row.list("steps").len()
}

/// What a row charges above the limit is recorded up to the cap on debt, and the rest is said not to be.
#[test]
fn a_charge_beyond_the_cap_on_debt_is_told_apart() {
    let Some(file) = read() else { return };
    let rows = rows(&file);
    let row = rows.iter().find(|row| row.id == "b4j-force-8");
    let row = row.expect("b4j-force-8: 400 of a hundred, and 300 owed");
    let step = &row.list("steps")[0];
    let (now, cost) = (at(step.number("t_ns")), step.number("cost"));
    let owed = step.get("remaining").and_then(Value::as_i64);
    let owed = owed.expect("a number").unsigned_abs();
    for cap in [0, 1, 100, owed - 1, owed, owed + 1] {
        for policy in policies(row, 0) {
            for mut client in faces(with_max_debt(policy, cap)) {
                let what = format!("{} by {}, at most {cap} owed", row.id, client.name());
                let charged = client.charge(cost, now);
                assert_eq!(charged.debt(), cap.min(owed), "{what}");
                assert_eq!(charged.unrecorded(), owed.saturating_sub(cap), "{what}");
                assert_eq!(charged.granted() + charged.unrecorded(), cost, "{what}");
                assert_eq!(
                    (client.room(now), client.debt(now)),
                    (0, cap.min(owed)),
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn the_time_to_full_is_reset_after() {
    run("time_to_full_vectors", |row| {
        row.knows(&[
            "id",
            "source",
            "limits",
            "consume_at_t0",
            "time_to_full_ns",
            "exact_model_agrees",
        ]);
        let limits = row.list("limits");
        let clients = match limits.as_slice() {
            [limit] => clients(limit, 0),
            several => clients_of_several(several),
        };
        for mut client in clients {
            let what = format!("{} by {}", row.id, client.name());
            assert!(
                client
                    .ask(row.number("consume_at_t0"), at(0))
                    .expect(&what)
                    .is_allowed(),
                "{what}"
            );
            let full = client.look(0, at(0)).expect(&what).reset_after();
            assert_near(full, row.number("time_to_full_ns"), 0, &what);
        }
    });
}

/// The same steps, of several limits as one.
#[test]
fn rows_of_several_limits_pass() {
    let mut steps = 0;
    run("multi_limit_vectors", |row| {
        row.knows(&[
            "id",
            "source",
            "limits",
            "steps",
            "exact_model_agrees",
            "notes",
        ]);
        for mut client in clients_of_several(&row.list("limits")) {
            steps += replay(row, client.as_mut(), 0);
        }
    });
    if read().is_some() {
        assert_eq!(steps, 144, "steps replayed, over all kinds and holders");
    }
}
