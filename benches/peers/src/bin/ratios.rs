//! Ours beside governor in alternating rounds: the ratios of the medians, next to those that were promised.
//!
//! `cargo run --release --bin ratios -- [--filter TEXT] [--rounds N] [--ms N] [--threads N] [--cpu]`
//!
//! `--cpu` counts the thread's time on a core instead of the wall's: for a machine that others use as well. It does not see
//! what waiting for a lock costs, so it goes with one thread only.
//!
//! The filter is a part of a row's title, `"one key, refused / u64 / 1 thread"`; several, with `|` between them, are any of them.

use std::time::Duration;

use tollgate::SystemClock;
use tollgate_peers::args::{flag, option};
use tollgate_peers::contest::{Contest, contest, verify};
use tollgate_peers::keys::Key;
use tollgate_peers::load::{Load, Workload};
use tollgate_peers::peers::tollgate::{Allow, Check, CheckFields, token_bucket};
use tollgate_peers::peers::{dashmap, governor, tollgate as ours};
use tollgate_peers::watch::Watch;

fn main() {
    let plan = Plan::from_args();
    println!(
        "median ns per call of {} alternating rounds of {} ms\n",
        plan.rounds,
        plan.time.as_millis()
    );
    let mut failed = 0;
    for workload in Workload::ALL {
        failed += plan.run::<u64>(workload);
        failed += plan.run::<String>(workload);
    }
    match failed {
        0 => println!("every ratio that was run is reached"),
        n => println!("{n} ratios are not reached"),
    }
}

struct Plan {
    filters: Vec<String>,
    rounds: usize,
    time: Duration,
    threads: Option<usize>,
    watch: Watch,
}

impl Plan {
    fn from_args() -> Self {
        let filters: String = option("filter").unwrap_or_default();
        let cpu = flag("cpu");
        Self {
            filters: filters
                .split('|')
                .map(|part| part.trim().to_owned())
                .collect(),
            rounds: option("rounds").unwrap_or(15).max(1),
            time: Duration::from_millis(option("ms").unwrap_or(60)),
            threads: if cpu { Some(1) } else { option("threads") },
            watch: if cpu { Watch::Cpu } else { Watch::Wall },
        }
    }

    fn run<K: Key>(&self, workload: Workload) -> usize {
        let threads: Vec<usize> = [1, 2]
            .into_iter()
            .filter(|&threads| self.threads.is_none_or(|only| only == threads))
            .filter(|&threads| self.wants(&title::<K>(workload, threads)))
            .collect();
        if threads.is_empty() {
            return 0;
        }
        let load = Load::<K>::new(workload);
        let mut failed = 0;
        let mut alone = None;
        for threads in threads {
            println!("{}", title::<K>(workload, threads));
            let times = self.times(&load, threads);
            failed += report(workload, K::NAME, threads, &times);
            if workload == Workload::OneRefused {
                let allow = median_of(&times, Who::Allow);
                match (threads, alone) {
                    (1, _) => alone = Some(allow),
                    (2, Some(alone)) => {
                        failed += line("two threads' work / one's", 2.0 * alone / allow, 1.8);
                    }
                    _ => {}
                }
            }
            println!();
        }
        failed
    }

    fn wants(&self, title: &str) -> bool {
        self.filters.iter().any(|filter| title.contains(filter))
    }

    /// Everyone's rounds, in turn: what else the machine does meets all alike.
    fn times<K: Key>(&self, load: &Load<K>, threads: usize) -> Vec<(Who, Vec<f64>)> {
        let mut contests: Vec<_> = Who::ALL
            .into_iter()
            .map(|who| (who, who.under(load, threads), Vec::new()))
            .collect();
        for _ in 0..self.rounds {
            for (_, contest, times) in &mut contests {
                times.push(contest.round(self.time, self.watch));
            }
        }
        contests
            .into_iter()
            .map(|(who, contest, times)| {
                verify(load.workload, contest.answers(), who.name());
                (who, times)
            })
            .collect()
    }
}

fn title<K: Key>(workload: Workload, threads: usize) -> String {
    let plural = if threads == 1 { "" } else { "s" };
    format!(
        "{} / {} / {threads} thread{plural}",
        workload.name(),
        K::NAME
    )
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Governor,
    Allow,
    Check,
    CheckFields,
    DashMap,
    GovernorReal,
    System,
    Ticking,
}

impl Who {
    const ALL: [Self; 8] = [
        Self::Governor,
        Self::Allow,
        Self::Check,
        Self::CheckFields,
        Self::DashMap,
        Self::GovernorReal,
        Self::System,
        Self::Ticking,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Governor => "governor, fake clock",
            Self::Allow => "tollgate allow",
            Self::Check => "tollgate check",
            Self::CheckFields => "tollgate check, fields read",
            Self::DashMap => "DashMap get_mut + state",
            Self::GovernorReal => "governor, default clock",
            Self::System => "tollgate allow, SystemClock",
            Self::Ticking => "tollgate allow, TickingClock",
        }
    }

    fn under<K: Key>(self, load: &Load<K>, threads: usize) -> Box<dyn Contest + '_> {
        let rule = load.workload.rule();
        let limiter = token_bucket(rule);
        match self {
            Self::Governor => contest(load, threads, move || governor::Simulated::new(rule)),
            Self::Allow => contest(load, threads, move || {
                ours::Simulated::<K, _, Allow>::new(limiter)
            }),
            Self::Check => contest(load, threads, move || {
                ours::Simulated::<K, _, Check>::new(limiter)
            }),
            Self::CheckFields => contest(load, threads, move || {
                ours::Simulated::<K, _, CheckFields>::new(limiter)
            }),
            Self::DashMap => contest(load, threads, move || dashmap::Simulated::new(rule)),
            Self::GovernorReal => contest(load, threads, move || governor::Real::new(rule)),
            Self::System => contest(load, threads, move || {
                ours::Real::new(limiter, SystemClock::new())
            }),
            Self::Ticking => contest(load, threads, move || {
                ours::Real::new(limiter, ours::ticking())
            }),
        }
    }

    /// Who it is measured against.
    const fn against(self) -> Option<Self> {
        match self {
            Self::Governor | Self::GovernorReal => None,
            Self::Allow | Self::Check | Self::CheckFields | Self::DashMap => Some(Self::Governor),
            Self::System | Self::Ticking => Some(Self::GovernorReal),
        }
    }

    /// How many times as fast it was promised to be.
    fn target(self, workload: Workload, key: &str, threads: usize) -> Option<f64> {
        use Workload::*;
        let text = key == "String";
        let fake = match (workload, threads) {
            (OneRefused, 1) if text => 4.0,
            (OneRefused, 1) => 6.0,
            (OneRefused, _) => 25.0,
            (OneAllowed, 1) => 1.6,
            (OneAllowed, _) => 3.0,
            (ThousandAllowed, _) if text => 1.35,
            (ThousandAllowed, _) => 1.6,
            (MillionAllowed, _) if text => 1.4,
            (MillionAllowed, _) => 1.25,
            (MillionZipf, _) => 1.35,
            (Flood, _) => 1.0,
        };
        match self {
            Self::Governor | Self::GovernorReal | Self::DashMap => None,
            Self::Allow | Self::Check => Some(fake),
            Self::CheckFields => Some(fake / FIELDS),
            Self::System => Some(match workload {
                OneRefused => 1.5,
                OneAllowed | ThousandAllowed => 1.05,
                MillionAllowed | MillionZipf | Flood => 1.0,
            }),
            Self::Ticking => match workload {
                OneRefused | OneAllowed | ThousandAllowed => Some(1.5),
                MillionAllowed | MillionZipf | Flood => None,
            },
        }
    }
}

/// How many ratios were missed.
fn report(workload: Workload, key: &str, threads: usize, times: &[(Who, Vec<f64>)]) -> usize {
    let mut missed = 0;
    for (who, rounds) in times {
        let ns = median(rounds);
        print!("  {:<28} {ns:>8.1} ns  [{}]", who.name(), spread(rounds));
        if let Some(other) = who.against() {
            let ratio = median_of(times, other) / ns;
            print!("  {ratio:>6.2}x");
            if let Some(target) = who.target(workload, key, threads) {
                missed += usize::from(ratio < target);
                print!(" of {target:>5.2}x  {}", verdict(ratio >= target));
            }
        }
        println!();
    }
    let (fields, allow) = (
        median_of(times, Who::CheckFields),
        median_of(times, Who::Allow),
    );
    missed
        + line(
            "allow's cost * 1.3 / check's with fields",
            FIELDS * allow / fields,
            1.0,
        )
}

fn line(name: &str, ratio: f64, target: f64) -> usize {
    println!(
        "  {name:<58}  {ratio:>6.2}x of {target:>5.2}x  {}",
        verdict(ratio >= target)
    );
    usize::from(ratio < target)
}

const fn verdict(reached: bool) -> &'static str {
    if reached { "ok" } else { "MISSED" }
}

fn median_of(times: &[(Who, Vec<f64>)], who: Who) -> f64 {
    let (_, rounds) = times
        .iter()
        .find(|(other, _)| *other == who)
        .expect("all ran");
    median(rounds)
}

fn median(rounds: &[f64]) -> f64 {
    let sorted = sorted(rounds);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

/// The middle half of the rounds.
fn spread(rounds: &[f64]) -> String {
    let sorted = sorted(rounds);
    let quarter = sorted.len() / 4;
    format!(
        "{:>7.1} – {:>7.1}",
        sorted[quarter],
        sorted[sorted.len() - 1 - quarter]
    )
}

fn sorted(rounds: &[f64]) -> Vec<f64> {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// What reading a decision's fields may cost.
const FIELDS: f64 = 1.3;
