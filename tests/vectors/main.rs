//! Replays `../shared/vectors/peers.json`: right answers from the tests of other limiters.
//!
//! Every row has one of three fates, and the counts of each are held below, so that none drops out unseen: it runs, it
//! waits for what this crate cannot do yet, or it is another's choice, listed here with the reason. Without the file
//! the tests skip aloud. `TOLLGATE_VECTORS` names another place for it.

#![cfg(feature = "std")]

#[cfg(feature = "http")]
mod addresses;
mod changes;
mod clients;
mod replay;
mod rows;
mod totals;
#[cfg(feature = "wait")]
mod waiting;

use std::collections::BTreeMap;

use crate::rows::{Fate, Row, read, rows};

/// Rows, and whole groups of rows, whose expectation is another's choice and not ours.
///
/// (Of those that the file's README names, `go-zero-rate`, `b4j-consume-1`, `b4j-consume-3`, `b4j-estimate-1`,
/// `b4j-big-interval-delay`, `b4j-two-interval` and `r4j-reserve` are not in the file.)
const THEIRS: [(&str, &str); 27] = [
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
    (
        "rlf-block-manual",
        "a block for a time, whatever was used: a caller's own list of the blocked, and no limit",
    ),
    (
        "b4j-rc-asis",
        "AS_IS carries the level (1.8): ours what is missing from full (1.2), so that 58 are left of 60",
    ),
    (
        "b4j-rc-asis-interval",
        "AS_IS, and a bucket that is refilled by interval",
    ),
    (
        "b4j-rc-add-interval",
        "a bucket that is refilled by interval: ours for it is a fixed window, and of another kind is fresh",
    ),
    (
        "b4j-rc-prop",
        "PROPORTIONALLY scales the level (1.8 of 3 to 36 of 60): ours is 58",
    ),
    (
        "b4j-rc-prop-fraction",
        "PROPORTIONALLY scales the level (2.25 of 6 to 1.125 of 3): ours owes, as 3.75 are missing",
    ),
    (
        "gub-change-limit-leaky",
        "AS_IS, clipped: 99 of 100 become 10 of 10, and what was used is forgotten",
    ),
    ("ip_keys[2]", "reads ::1.2.3.4 as IPv4"),
    ("ip_keys[12]", "reads ::1.2.3.4 as IPv4"),
    (
        "adaptive_initial_vectors",
        "a first window that starts part-full: no issue asks for it",
    ),
    (
        "go-res-jumpback",
        "a clock set back by 100 ms extends credit (the peer's own test calls it a violation): ours stands still",
    ),
    (
        "go-res-jumpback-cancel",
        "likewise: the same 100 ms fill the bucket twice",
    ),
    (
        "guava-setrate",
        "the next caller pays at the rate at which it was promised: ours drains what waits at the new rate",
    ),
    ("guava-warmup", "a rate that rises while it is used"),
    ("guava-warmup-cold1", "a rate that rises while it is used"),
    (
        "net-zero",
        "a cost of 0 asks whether one is free, and waits: ours is always allowed",
    ),
    (
        "allocations",
        "shares of one capacity: no issue asks for it",
    ),
];

/// Rows that their peers do not call everybody's, and are answered alike by ours: cancelling gives back but what was booked after,
/// and a leaky bucket that is waited for is a pacer.
const AGREED: [&str; 6] = [
    "go-res-cancel-1",
    "go-res-cancel-multi",
    "guava-simple",
    "guava-wait",
    "guava-try-wait",
    "guava-try-negative",
];

/// Rows that say less than nothing remains: ours says 0, and reports the debt apart.
const IN_DEBT: [&str; 5] = [
    "b4j-force-5",
    "b4j-force-6",
    "b4j-force-7",
    "b4j-force-8",
    "b4j-big-delay",
];

/// Groups, and rows, that wait for something of a later issue.
const WAITING: [(&str, &str); 1] = [("gub-global-bound", "a fleet")];

/// How many rows of each group run, wait, and are another's choice.
const FATES: [(&str, usize, usize, usize); 14] = [
    ("vectors", 58, 0, 8),
    ("multi_limit_vectors", 4, 0, 0),
    ("time_to_full_vectors", 4, 0, 0),
    ("adaptive_initial_vectors", 0, 0, 4),
    ("reserve_vectors", 6, 0, 2),
    ("wait_vectors", 7, 0, 1),
    ("pacer_vectors", 4, 0, 3),
    ("reconfig_vectors", 5, 0, 6),
    ("aggregates", 7, 1, 0),
    ("queue_vectors", 6, 0, 1),
    ("allocations", 0, 0, 6),
    ("block_refund_vectors", 5, 0, 2),
    ("ip_keys", 12, 0, 2),
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
