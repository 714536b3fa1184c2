//! Replays `../shared/vectors/peers.json`: right answers from the tests of other limiters.
//!
//! Every row has one of three fates, and the counts of each are held below, so that none drops out unseen: it runs, it
//! waits for what this crate cannot do yet (and is run as far as it can be), or it is another's choice, listed here
//! with the reason. Without the file the tests skip aloud. `TOLLGATE_VECTORS` names another place for it.

#![cfg(feature = "std")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tollgate::{
    CostTooHigh, Decision, Direct, FixedWindow, Keyed, LeakyBucket, Limiter, Policy, Quota,
    SlidingLog, SlidingWindowCounter, Timestamp, TokenBucket,
};

/// Rows, and whole groups of rows, whose expectation is another's choice and not ours.
///
/// (Of those that the file's README names, `go-zero-rate`, `b4j-consume-1`, `b4j-consume-3`, `b4j-estimate-1`,
/// `b4j-big-interval-delay`, `b4j-two-interval` and `r4j-reserve` are not in the file.)
const THEIRS: [(&str, &str); 16] = [
    (
        "redis-rate-oversize",
        "offers a wait for a cost that can never fit: ours is an error",
    ),
    (
        "pl-swc-previous",
        "floors the previous window's share, which admits up to a unit early",
    ),
    (
        "b4j-aligned-80s",
        "an interval bucket is a fixed window only where burst equals limit",
    ),
    ("b4j-forceadd-2", "a refund above the capacity"),
    ("b4j-forceadd-3", "a refund above the capacity"),
    ("b4j-forceadd-4", "a refund above the capacity"),
    ("b4j-forceadd-5", "a refund above the capacity"),
    ("gub-drain", "a denial that charges"),
    (
        "go-wait-after-zero",
        "a limit of 0: refused at construction",
    ),
    ("rlf-evenly", "a fixed window that delays"),
    ("ip_keys[2]", "reads ::1.2.3.4 as IPv4"),
    ("ip_keys[12]", "reads ::1.2.3.4 as IPv4"),
    (
        "adaptive_initial_vectors",
        "a first window that starts part-full: no issue asks for it",
    ),
    (
        "pacer_vectors",
        "the next caller pays: no issue asks for it",
    ),
    (
        "queue_vectors",
        "a bounded queue of waiters: no issue asks for it",
    ),
    (
        "allocations",
        "shares of one capacity: no issue asks for it",
    ),
];

/// Rows that say less than nothing remains: ours says 0, and will report the debt apart.
const IN_DEBT: [&str; 5] = [
    "b4j-force-5",
    "b4j-force-6",
    "b4j-force-7",
    "b4j-force-8",
    "b4j-big-delay",
];

/// Groups, and rows, that wait for something of a later issue. (Rows of `vectors` say it by their operations.)
const WAITING: [(&str, &str); 8] = [
    ("multi_limit_vectors", "several limits"),
    ("b4j-full-7", "several limits"),
    ("reserve_vectors", "reservations"),
    ("go-wait-cancel", "waiting"),
    ("reconfig_vectors", "a limit that changes"),
    ("block_refund_vectors", "refund, block, overflow"),
    ("ip_keys", "client addresses"),
    ("gub-global-bound", "a fleet"),
];

/// How many rows of each group run, wait, and are another's choice.
const FATES: [(&str, usize, usize, usize); 14] = [
    ("vectors", 38, 20, 8),
    ("multi_limit_vectors", 0, 4, 0),
    ("time_to_full_vectors", 3, 1, 0),
    ("adaptive_initial_vectors", 0, 0, 4),
    ("reserve_vectors", 0, 8, 0),
    ("wait_vectors", 6, 1, 1),
    ("pacer_vectors", 0, 0, 7),
    ("reconfig_vectors", 0, 11, 0),
    ("aggregates", 7, 1, 0),
    ("queue_vectors", 0, 0, 7),
    ("allocations", 0, 0, 6),
    ("block_refund_vectors", 0, 6, 1),
    ("ip_keys", 0, 12, 2),
    ("stats_vectors", 1, 0, 0),
];

#[test]
fn every_row_has_a_fate() {
    let Some(file) = read() else { return };
    let mut counted = BTreeMap::new();
    let mut waiting: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let rows = rows(&file);
    for row in &rows {
        let (run, wait, theirs) = counted.entry(row.group.as_str()).or_insert((0, 0, 0));
        match row.fate() {
            Fate::Runs => *run += 1,
            Fate::Waits(what) => {
                *wait += 1;
                waiting.entry(what).or_default().push(row.id.clone());
            }
            Fate::Theirs => *theirs += 1,
        }
    }
    let expected: BTreeMap<_, _> = FATES
        .iter()
        .map(|&(group, run, wait, theirs)| (group, (run, wait, theirs)))
        .collect();
    assert_eq!(
        counted, expected,
        "rows by group that run, that wait, that are another's choice"
    );
    for (name, reason) in THEIRS.iter().chain(&WAITING) {
        let known = rows.iter().any(|row| row.id == *name || row.group == *name);
        assert!(known, "{name} ({reason}) is in the file no more");
    }
    let steps = rows
        .iter()
        .filter(|row| row.group == "vectors")
        .flat_map(|row| row.list("steps"));
    let is_negative = |step: &Row| step.get("remaining").is_some_and(|n| n.as_i64() < Some(0));
    let in_debt: Vec<String> = steps.filter(is_negative).map(|step| step.id).collect();
    assert_eq!(in_debt, IN_DEBT, "rows in which less than nothing remains");
    for (what, ids) in waiting {
        println!("waiting for {what}: {}", ids.join(", "));
    }
}

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
            steps, 980,
            "steps replayed, over all algorithms, holders and origins"
        );
    }
}

/// Takes a row's steps, up to the first that cannot be taken yet, and says how many.
fn replay(row: &Row, client: &mut dyn Client, origin: u64) -> usize {
    let tolerance = row.number_or("tolerance_ns", 0);
    for (done, step) in row.list("steps").iter().enumerate() {
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
        let mut takes = cost;
        let answer = match step.op() {
            "try" => client.ask(cost, now),
            "peek" | "available" => client.look(cost, now),
            // Two stand-ins, until there are operations for it: the caller takes what a look says is there; and
            // who has not been seen yet is as good as who was forgotten.
            "at_most" => {
                takes = client.room(now).min(cost);
                assert_eq!(
                    Some(takes),
                    step.get("admitted").and_then(Value::as_u64),
                    "{what}: admitted"
                );
                client.ask(takes, now)
            }
            "clear" => {
                client.forget();
                continue;
            }
            _ => return done,
        };
        let said = format!("{what}: {answer:?}");
        assert_eq!(
            answer.is_err(),
            takes > client.most(),
            "{said}: an error if it can never fit, and only then"
        );
        if let Some(allowed) = step.get("allowed") {
            let ours = answer.as_ref().is_ok_and(Decision::is_allowed);
            assert_eq!(Some(ours), allowed.as_bool(), "{said}: allowed");
        }
        if let Some(remaining) = step.get("remaining") {
            let ours = answer
                .as_ref()
                .map_or_else(|_| client.room(now), Decision::remaining);
            let in_debt = IN_DEBT.contains(&row.id.as_str()) && remaining.is_i64();
            let expected = remaining.as_u64().or(in_debt.then_some(0));
            assert_eq!(Some(ours), expected, "{said}: remaining");
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
    }
    row.list("steps").len()
}

#[test]
fn the_time_to_full_is_reset_after() {
    run("time_to_full_vectors", |row| {
        let limits = &row.list("limits")[0];
        for mut client in clients(limits, 0) {
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

/// What a peer waited for is the wait that we name; what it would not wait for is a longer one.
#[test]
fn peers_wait_as_long_as_we_say() {
    run("wait_vectors", |row| {
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

// ---------------------------------------------------------------------------------------------------
// Rows
// ---------------------------------------------------------------------------------------------------

#[derive(PartialEq)]
enum Fate {
    Runs,
    Waits(String),
    Theirs,
}

struct Row {
    group: String,
    id: String,
    value: Value,
}

impl Row {
    fn fate(&self) -> Fate {
        let listed = |list: &[(&str, &'static str)]| {
            let entry = list
                .iter()
                .find(|(name, _)| *name == self.id || *name == self.group);
            entry.map(|&(_, why)| why.to_string())
        };
        if listed(&THEIRS).is_some() {
            return Fate::Theirs;
        }
        if let Some(what) = listed(&WAITING) {
            return Fate::Waits(what);
        }
        if self
            .get("conformance")
            .is_some_and(|conformance| conformance != "canonical")
        {
            panic!(
                "{}: {} is new: is it ours?",
                self.id, self.value["conformance"]
            );
        }
        let steps = if self.group == "vectors" {
            self.list("steps")
        } else {
            Vec::new()
        };
        let mut lacks: Vec<&str> = Vec::new();
        for step in &steps {
            match step.op() {
                "try" | "peek" | "available" => {}
                "force" => lacks.push("charge (debt)"),
                "add" => lacks.push("refund"),
                "at_most" => lacks.push("at_most"),
                "clear" => lacks.push("clear"),
                new => panic!("{}: {new} is a new operation", self.id),
            }
        }
        lacks.sort_unstable();
        lacks.dedup();
        if lacks.is_empty() {
            Fate::Runs
        } else {
            Fate::Waits(lacks.join(" and "))
        }
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.value.get(name)
    }
    fn number(&self, name: &str) -> u64 {
        let number = self.get(name).and_then(Value::as_u64);
        number.unwrap_or_else(|| panic!("{}: no number {name} in {}", self.id, self.value))
    }
    fn number_or(&self, name: &str, absent: u64) -> u64 {
        self.get(name).map_or(absent, |_| self.number(name))
    }
    fn text(&self, name: &str) -> &str {
        let text = self.get(name).and_then(Value::as_str);
        text.unwrap_or_else(|| panic!("{}: no text {name} in {}", self.id, self.value))
    }
    fn op(&self) -> &str {
        self.get("op").map_or("try", |_| self.text("op"))
    }
    fn inner(&self, name: &str) -> Row {
        Row {
            group: self.group.clone(),
            id: self.id.clone(),
            value: self.value[name].clone(),
        }
    }
    fn list(&self, name: &str) -> Vec<Row> {
        let list = self.get(name).and_then(Value::as_array);
        let list = list.unwrap_or_else(|| panic!("{}: no list {name} in {}", self.id, self.value));
        let row = |value: &Value| Row {
            group: self.group.clone(),
            id: self.id.clone(),
            value: value.clone(),
        };
        list.iter().map(row).collect()
    }
    /// A field that nobody reads is an expectation that nobody checks.
    fn knows(&self, fields: &[&str]) {
        for field in self.value.as_object().expect("an object").keys() {
            assert!(
                fields.contains(&field.as_str()),
                "{}: the field {field} is new",
                self.id
            );
        }
    }
}

/// Runs each row of a group that runs, or begins to (see `replay`), and says how many those were.
fn run(group: &str, mut body: impl FnMut(&Row)) -> usize {
    let Some(file) = read() else { return 0 };
    let (mut run, mut begun) = (0, 0);
    for row in rows(&file).iter().filter(|row| row.group == group) {
        match row.fate() {
            Fate::Runs => run += 1,
            Fate::Waits(_) if group == "vectors" => begun += 1,
            _ => continue,
        }
        body(row);
    }
    let &(_, runs, waits, _) = FATES
        .iter()
        .find(|(name, ..)| *name == group)
        .expect("a group of FATES");
    assert_eq!(run, runs, "{group}: rows that were run");
    assert_eq!(
        begun,
        if group == "vectors" { waits } else { 0 },
        "{group}: rows that were run as far as they can be"
    );
    run + begun
}

fn rows(file: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    for (group, list) in file.as_object().expect("an object of groups") {
        for (i, value) in list.as_array().into_iter().flatten().enumerate() {
            let id = value
                .get("id")
                .and_then(Value::as_str)
                .map_or_else(|| format!("{group}[{i}]"), str::to_string);
            rows.push(Row {
                group: group.clone(),
                id,
                value: value.clone(),
            });
        }
    }
    rows
}

/// The file; or a word, on the real standard error (that of a test that passes is not shown), that it is not there.
fn read() -> Option<Value> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/vectors/peers.json");
    let named = std::env::var_os("TOLLGATE_VECTORS").map(PathBuf::from);
    let path = named.clone().unwrap_or(beside);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(
            serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        ),
        Err(error) => {
            assert!(
                named.is_none(),
                "TOLLGATE_VECTORS: {}: {error}",
                path.display()
            );
            let word = "SKIPPED: the answers of other limiters are not checked";
            writeln!(std::io::stderr(), "{word}: {}: {error}", path.display())
                .expect("standard error");
            None
        }
    }
}

// ---------------------------------------------------------------------------------------------------
// Clients
// ---------------------------------------------------------------------------------------------------

/// A client of each rule that the row is about, through `Direct` and `Keyed`, with what it has spent when it starts.
fn clients(row: &Row, created: u64) -> Vec<Box<dyn Client>> {
    let (limit, period) = (row.number("limit"), row.number("period_ns"));
    let burst = row.number_or("burst", limit);
    let quota = Quota::new(limit, Duration::from_nanos(period)).expect("a quota");
    // The grid starts when the limiter is made.
    let offset = Duration::from_nanos(created % period);
    let window = FixedWindow::new(quota).with_offset(offset);
    let by_interval = row.get("refill").is_some_and(|refill| refill == "interval");
    let algorithm = if by_interval {
        "interval_bucket"
    } else {
        row.get("algorithm")
            .map_or("token_bucket", |_| row.text("algorithm"))
    };
    let rules: Vec<Policy> = match algorithm {
        // A leaky bucket admits exactly what a token bucket does, and so do the others' names for them.
        "token_bucket" | "gcra" | "leaky_bucket_meter" => vec![
            TokenBucket::new(quota).with_burst(burst).into(),
            LeakyBucket::new(quota).with_burst(burst).into(),
        ],
        "fixed_window" => vec![window.into(), window.anchored_at_first_request().into()],
        "interval_bucket" => vec![window.into()],
        "sliding_log" => vec![SlidingLog::new(quota).into()],
        "sliding_window_counter" => {
            vec![SlidingWindowCounter::new(quota).with_offset(offset).into()]
        }
        new => panic!("{}: {new} is a new algorithm", row.id),
    };
    let mut clients = Vec::new();
    for rule in rules {
        let made = match rule {
            Policy::TokenBucket(rule) => faces(rule),
            Policy::LeakyBucket(rule) => faces(rule),
            Policy::FixedWindow(rule) => faces(rule),
            Policy::SlidingLog(rule) => faces(rule),
            Policy::SlidingWindowCounter(rule) => faces(rule),
            new => panic!("{new:?} is a new algorithm"),
        };
        for mut client in made {
            assert_eq!(client.most(), burst, "{}: a row for {rule:?}", row.id);
            let spent = burst - row.number_or("initial", burst);
            assert!(
                client
                    .ask(spent, at(created))
                    .expect("it fits")
                    .is_allowed(),
                "{}: spent at the start",
                row.id
            );
            clients.push(client);
        }
    }
    clients
}

/// Both buckets, with the slack of a pacer.
fn pacers(row: &Row) -> Vec<Box<dyn Client>> {
    let quota = Quota::new(
        row.number("limit"),
        Duration::from_nanos(row.number("period_ns")),
    )
    .expect("a quota");
    let burst = row.number("slack") + 1;
    let mut pacers = faces(TokenBucket::new(quota).with_burst(burst));
    pacers.extend(faces(LeakyBucket::new(quota).with_burst(burst)));
    pacers
}

fn faces<L: Limiter + Copy + std::fmt::Debug + 'static>(rule: L) -> Vec<Box<dyn Client>> {
    let direct = Box::new(Direct::new(rule));
    let keyed = Box::new(OfKeyed {
        store: Keyed::new(rule),
        number: 0,
    });
    vec![direct, keyed]
}

type Answer = Result<Decision, CostTooHigh>;

trait Client {
    fn name(&self) -> String;
    fn ask(&mut self, cost: u64, now: Timestamp) -> Answer;
    fn look(&self, cost: u64, now: Timestamp) -> Answer;
    fn forget(&mut self);

    fn room(&self, now: Timestamp) -> u64 {
        self.look(0, now)
            .expect("a cost of zero always fits")
            .remaining()
    }
    /// The most that can be granted at once.
    fn most(&self) -> u64 {
        self.look(u64::MAX, at(0))
            .expect_err("nobody grants this")
            .most()
    }
}

impl<L: Limiter + Copy + std::fmt::Debug> Client for Direct<L> {
    fn name(&self) -> String {
        format!("{:?} through Direct", self.limiter())
    }
    fn ask(&mut self, cost: u64, now: Timestamp) -> Answer {
        self.check_n(cost, now)
    }
    fn look(&self, cost: u64, now: Timestamp) -> Answer {
        self.peek_n(cost, now)
    }
    fn forget(&mut self) {
        *self = Direct::new(*self.limiter());
    }
}

/// One client of a store; when it is to be forgotten it comes back under another name.
struct OfKeyed<L: Limiter> {
    store: Keyed<u64, L>,
    number: u64,
}

impl<L: Limiter + std::fmt::Debug> Client for OfKeyed<L> {
    fn name(&self) -> String {
        format!("{:?} through Keyed", self.store.limiter())
    }
    fn ask(&mut self, cost: u64, now: Timestamp) -> Answer {
        self.store.check_n(&self.number, cost, now)
    }
    fn look(&self, cost: u64, now: Timestamp) -> Answer {
        self.store.peek_n(&self.number, cost, now)
    }
    fn forget(&mut self) {
        self.number += 1;
    }
}

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

fn nanos(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos()).expect("waits saturate at u64::MAX ns")
}

fn assert_near(ours: Duration, expected: u64, tolerance: u64, what: &str) {
    assert!(
        nanos(ours).abs_diff(expected) <= tolerance,
        "{what}: {expected} ns expected, {} ns",
        nanos(ours)
    );
}
