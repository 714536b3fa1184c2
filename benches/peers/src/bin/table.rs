//! Criterion's medians as Markdown, with the machine and the versions: what the docs' performance page shows.
//!
//! `cargo run --release --bin table -- [--criterion FOLDER]`
//!
//! A cell is nanoseconds per call as a thread sees them, and how many times governor's that is as fast: governor that is
//! told the time for those who are, and governor on its default clock for those who read one.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tollgate_peers::args::option;
use tollgate_peers::load::Workload;
use tollgate_peers::roster::{self, Clock};

fn main() {
    let folder = option::<PathBuf>("criterion").unwrap_or_else(|| target().join("criterion"));
    let mut medians = Vec::new();
    collect(&folder, &mut medians);
    assert!(!medians.is_empty(), "no results in {}", folder.display());

    print!("{}", machine());
    for key in ["u64", "no key"] {
        for workload in Workload::ALL {
            // A workload's text keys are columns of the same table; a single state has tables of its own.
            let keys: &[&str] = if key == "u64" {
                &["u64", "String"]
            } else {
                &[key]
            };
            for clock in [Clock::Told, Clock::Real] {
                print!("{}", table(&medians, workload, keys, clock));
            }
        }
    }
}

/// One result.
struct Median {
    /// `"one key, refused, u64, 1 thr"`.
    group: String,
    peer: String,
    clock: String,
    ns: f64,
}

fn collect(folder: &Path, medians: &mut Vec<Median>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        if entry.file_name() == "new" {
            medians.extend(median(&entry.path()));
        } else {
            collect(&entry.path(), medians);
        }
    }
}

fn median(folder: &Path) -> Option<Median> {
    let benchmark = json(&folder.join("benchmark.json"))?;
    let estimates = json(&folder.join("estimates.json"))?;
    let text = |name| benchmark.get(name)?.as_str().map(ToOwned::to_owned);
    Some(Median {
        group: text("group_id")?,
        peer: text("function_id")?,
        clock: text("value_str")?,
        ns: estimates.get("median")?.get("point_estimate")?.as_f64()?,
    })
}

fn json(file: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(file).ok()?).ok()
}

fn table(medians: &[Median], workload: Workload, keys: &[&str], clock: Clock) -> String {
    let columns: Vec<(String, String)> = keys
        .iter()
        .flat_map(|key| [1, 2].map(|threads| (key, threads)))
        .map(|(key, threads)| {
            let plural = if threads == 1 { "" } else { "s" };
            (
                format!("{}, {key}, {threads} thr", workload.name()),
                format!("{key}, {threads} thread{plural}"),
            )
        })
        .collect();
    let cells: BTreeMap<(&str, &str), f64> = medians
        .iter()
        .filter(|median| median.clock == clock.name())
        .filter(|median| columns.iter().any(|(group, _)| *group == median.group))
        .map(|median| ((&*median.peer, &*median.group), median.ns))
        .collect();
    if cells.is_empty() {
        return String::new();
    }
    let peers: BTreeSet<(Rank, usize, &str)> = cells
        .keys()
        .map(|(peer, _)| (rank(peer), place(peer), *peer))
        .collect();
    let governor = peers
        .iter()
        .find(|(rank, ..)| *rank == Rank::Governor)
        .map(|(.., name)| *name);

    let titles: Vec<&str> = columns.iter().map(|(_, title)| &**title).collect();
    let mut text = format!(
        "\n### {}{}, {}\n\n| | {} |\n|---|{}\n",
        workload.name(),
        if keys == ["no key"] {
            ", one state"
        } else {
            ""
        },
        clock.name(),
        titles.join(" | "),
        "---:|".repeat(titles.len()),
    );
    for (.., peer) in &peers {
        let row: Vec<String> = columns
            .iter()
            .map(|(group, _)| {
                let ns = cells.get(&(*peer, &**group))?;
                let theirs = governor.and_then(|governor| cells.get(&(governor, &**group)));
                Some(match theirs {
                    Some(theirs) if Some(*peer) != governor => {
                        format!("{} ({})", number(*ns), times(theirs / ns))
                    }
                    _ => number(*ns),
                })
            })
            .map(|cell| cell.unwrap_or_else(|| "–".to_owned()))
            .collect();
        text += &format!("| {peer} | {} |\n", row.join(" | "));
    }
    text
}

/// Ours first, then what it is measured by, then the others by name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Ours,
    Governor,
    DashMap,
    Other,
}

/// As on the roster.
fn place(peer: &str) -> usize {
    let roster = roster::keyed::<u64>();
    let place = roster.iter().position(|entry| entry.name == peer);
    place.unwrap_or(roster.len())
}

fn rank(peer: &str) -> Rank {
    match peer.split_whitespace().next() {
        Some("tollgate") => Rank::Ours,
        Some("governor" | "governor,") => Rank::Governor,
        Some("DashMap") => Rank::DashMap,
        _ => Rank::Other,
    }
}

fn number(ns: f64) -> String {
    if ns < 100.0 {
        format!("{ns:.1}")
    } else {
        format!("{ns:.0}")
    }
}

fn times(ratio: f64) -> String {
    match ratio {
        ..0.1 => format!("{ratio:.3}×"),
        ..10.0 => format!("{ratio:.2}×"),
        _ => format!("{ratio:.0}×"),
    }
}

fn machine() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let cpu = cpu.map_or("unknown processor", |line| {
        line.trim_start_matches([' ', '\t', ':'])
    });
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let rustc = Command::new("rustc").arg("--version").output();
    let rustc = rustc.map_or_else(
        |_| String::new(),
        |said| String::from_utf8_lossy(&said.stdout).into_owned(),
    );
    format!(
        "{cpu}, {cores} cores, Linux {}, {}.\n{}.\n\nNanoseconds per call as a thread sees them, medians; in brackets, how many times as fast as governor under the same\nkind of clock.\n",
        kernel.trim(),
        rustc.trim(),
        versions(),
    )
}

/// Of those that are timed, from the lock file.
fn versions() -> String {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest =
        fs::read_to_string(package.join("Cargo.toml")).expect("this package has a manifest");
    let lock =
        fs::read_to_string(package.join("Cargo.lock")).expect("this package has a lock file");
    let mut versions: Vec<String> = Vec::new();
    for block in lock.split("[[package]]") {
        let field = |name: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim_matches(['"', ' ', '=']))
        };
        let (Some(name), Some(version)) = (field("name"), field("version")) else {
            continue;
        };
        // A dependency may be in the lock file in several versions: ours is the one that the manifest asks for.
        let asked = manifest
            .lines()
            .find_map(|line| line.strip_prefix(&*format!("{name} = ")));
        let fits = asked.is_some_and(|asked| {
            let wanted = asked
                .split('"')
                .find(|part| part.starts_with(|c: char| c.is_ascii_digit()));
            wanted.is_none_or(|wanted| {
                version == wanted || version.starts_with(&format!("{wanted}."))
            })
        });
        if fits && TIMED.contains(&name) {
            versions.push(format!("{name} {version}"));
        }
    }
    versions.join(", ")
}

fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target"),
        PathBuf::from,
    )
}

const TIMED: [&str; 13] = [
    "dashmap",
    "foldhash",
    "gcra",
    "governor",
    "leaky-bucket",
    "limitador",
    "pingora-limits",
    "ratelimit",
    "throttlecrab",
    "tokio-rate-limit",
    "tollgate",
    "tower-resilience-ratelimiter",
    "trypema",
];
