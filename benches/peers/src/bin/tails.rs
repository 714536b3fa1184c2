//! A flood of clients who call once each: the longest calls, the memory, and how many states are kept.
//!
//! `cargo run --release --bin tails -- [--keys N] [--peer NAME] [--quota idle|never-idle] [--cpu]`
//!
//! A client arrives every ten microseconds of simulated time. With the quota `idle` (10 a second) it is idle, that is as
//! good as new, a tenth of a second later; with `never-idle` (ten at once, then one an hour) nobody is while the flood
//! lasts. Each peer floods a process of its own, so that what it leaves in memory is nobody else's.
//!
//! `--cpu` counts the thread's time on a core: on a machine that others use as well the longest call is else the one during
//! which they had it. Reading that clock is a call into the system, which is in each figure; waiting for a lock is in none.

use std::env;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tollgate_peers::args::{flag, option};
use tollgate_peers::keys::Key;
use tollgate_peers::load::{FLOOD, FLOOD_NEVER_IDLE};
use tollgate_peers::peer::{Peer, Rule};
use tollgate_peers::peers::tollgate::{Allow, token_bucket};
use tollgate_peers::peers::{dashmap, governor, tollgate as ours};
use tollgate_peers::watch::Watch;

fn main() {
    let keys = option("keys").unwrap_or(10_000_000);
    let peer: Option<String> = option("peer");
    let quota: Option<String> = option("quota");
    if let (Some(peer), Some(quota)) = (&peer, &quota) {
        return flood(Quota::named(quota), Who::named(peer), keys);
    }
    for of in Quota::ALL {
        if quota.as_ref().is_none_or(|quota| quota == of.name()) {
            compare(of, peer.as_deref(), keys);
        }
    }
}

/// Everyone, each in a process of its own, and what was promised of the longest call.
fn compare(quota: Quota, only: Option<&str>, keys: u64) {
    let mut longest = Vec::new();
    for who in Who::ALL {
        if only.is_none_or(|only| only == who.name()) {
            longest.push((who, longest_in_child(quota, who, keys)));
        }
    }
    let of = |who| {
        let found = longest.iter().find(|(other, _)| *other == who);
        found.map(|&(_, ns)| ns)
    };
    if let (Some(ours), Some(theirs)) = (of(Who::Tollgate), of(Who::Governor)) {
        let ratio = ours / theirs;
        let verdict = if ratio <= 0.1 { "ok" } else { "MISSED" };
        println!("tollgate's longest call / governor's: {ratio:.3} of 0.100  {verdict}\n");
    }
}

fn longest_in_child(quota: Quota, who: Who, keys: u64) -> f64 {
    let keys = keys.to_string();
    let child = Command::new(env::current_exe().expect("this program has a file"))
        .args([
            "--quota",
            quota.name(),
            "--peer",
            who.name(),
            "--keys",
            &keys,
        ])
        .args(flag("cpu").then_some("--cpu"))
        .stderr(Stdio::inherit())
        .output()
        .expect("this program can be started again");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{} failed", who.name());
    let mut longest = 0.0;
    for line in said.lines() {
        match line.strip_prefix(LONGEST) {
            Some(ns) => longest = ns.parse().expect("the child says a number"),
            None => println!("{line}"),
        }
    }
    longest
}

fn flood(quota: Quota, who: Who, keys: u64) {
    println!("{}, quota {}, {keys} clients", who.name(), quota.title());
    let rule = quota.rule();
    let longest = match who {
        Who::Tollgate => {
            let peer = Arc::new(ours::Simulated::<u64, _, Allow>::new(token_bucket(rule)));
            let store = Arc::clone(&peer);
            run(&*peer, keys, rule, || store.keyed().len(), || {})
        }
        Who::Governor => {
            let peer = Arc::new(governor::Simulated::<u64>::new(rule));
            let store = Arc::clone(&peer);
            run(&*peer, keys, rule, || store.keyed().len(), || {})
        }
        Who::GovernorRetaining => {
            let peer = Arc::new(governor::Simulated::<u64>::new(rule));
            let store = Arc::clone(&peer);
            let sweeper = Sweeper::start(Arc::clone(&peer));
            let longest = run(
                &*peer,
                keys,
                rule,
                || store.keyed().len(),
                || sweeper.wake(),
            );
            sweeper.stop();
            longest
        }
        Who::DashMap => {
            let peer = Arc::new(dashmap::Simulated::<u64>::new(rule));
            let store = Arc::clone(&peer);
            run(&*peer, keys, rule, || store.len(), || {})
        }
    };
    println!("{LONGEST}{longest}");
}

/// The longest call, in nanoseconds.
fn run<P: Peer<u64>>(
    peer: &P,
    keys: u64,
    rule: Rule,
    states: impl Fn() -> usize,
    every_ten_seconds: impl Fn(),
) -> f64 {
    let cores = core_affinity::get_core_ids().expect("the system says which cores there are");
    core_affinity::set_for_current(cores[0]);
    let mut latencies = Histogram::<u64>::new_with_max(60_000_000_000, 3).expect("a valid range");
    let watch = if flag("cpu") { Watch::Cpu } else { Watch::Wall };
    let reading = cost_of_reading(watch);
    let (preempted, resident) = (preemptions(), resident_kib());
    let not_idle = (rule.refill.as_nanos() / STEP.as_nanos()).min(keys.into()) as u64;

    println!("  simulated s      states  states / not idle   memory, MiB");
    let began = Instant::now();
    let mut most = 0.0_f64;
    for client in 0..keys {
        let key = u64::of(client);
        let now = peer.advance(STEP);
        let before = watch.now();
        let allowed = peer.allow(&key, now);
        let took = watch.since(before);
        assert!(allowed, "a client's first call is allowed");
        latencies.saturating_record(took.as_nanos() as u64);
        let calls = client + 1;
        if calls % TEN_SECONDS == 0 {
            every_ten_seconds();
        }
        if calls % (keys / ROWS).max(1) == 0 {
            let states = states();
            let ratio = states as f64 / not_idle.min(calls) as f64;
            most = most.max(ratio);
            println!(
                "  {:>11.1}  {states:>10}  {ratio:>17.2}  {:>12.1}",
                (STEP * calls as u32).as_secs_f64(),
                (resident_kib() - resident) as f64 / 1024.0,
            );
        }
    }
    println!(
        "  took {:.1} s; preempted {} times; reading the clock is {reading} ns of each figure",
        began.elapsed().as_secs_f64(),
        preemptions() - preempted,
    );
    println!(
        "  most states: {most:.2} times those not idle\n  p50 {}, p99.9 {}, p99.999 {}, longest {}\n",
        shown(latencies.value_at_quantile(0.5)),
        shown(latencies.value_at_quantile(0.999)),
        shown(latencies.value_at_quantile(0.999_99)),
        shown(latencies.max()),
    );
    latencies.max() as f64
}

/// governor forgets idle clients only when it is told to: by a thread, while others call.
struct Sweeper {
    wake: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Sweeper {
    fn start(peer: Arc<governor::Simulated<u64>>) -> Self {
        let (wake, woken) = mpsc::sync_channel(1);
        let thread = thread::spawn(move || {
            let mut sweeps = Vec::new();
            while woken.recv().is_ok() {
                let began = Instant::now();
                peer.keyed().retain_recent();
                sweeps.push(began.elapsed());
            }
            let longest = sweeps.iter().max().copied().unwrap_or_default();
            println!(
                "  {} times retain_recent, {longest:?} at most\n",
                sweeps.len()
            );
        });
        Self { wake, thread }
    }

    fn wake(&self) {
        // One that is still at it need not start again.
        let _ = self.wake.try_send(());
    }

    fn stop(self) {
        drop(self.wake);
        self.thread.join().expect("sweeping does not panic");
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Tollgate,
    Governor,
    GovernorRetaining,
    DashMap,
}

impl Who {
    const ALL: [Self; 4] = [
        Self::Tollgate,
        Self::Governor,
        Self::GovernorRetaining,
        Self::DashMap,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Tollgate => "tollgate",
            Self::Governor => "governor",
            Self::GovernorRetaining => "governor-retaining",
            Self::DashMap => "dashmap",
        }
    }

    fn named(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|who| who.name() == name);
        found.unwrap_or_else(|| panic!("no such peer: {name}"))
    }
}

#[derive(Clone, Copy)]
enum Quota {
    Idle,
    NeverIdle,
}

impl Quota {
    const ALL: [Self; 2] = [Self::Idle, Self::NeverIdle];

    const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::NeverIdle => "never-idle",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Idle => "10 a second",
            Self::NeverIdle => "10 at once and one an hour",
        }
    }

    const fn rule(self) -> Rule {
        match self {
            Self::Idle => FLOOD,
            Self::NeverIdle => FLOOD_NEVER_IDLE,
        }
    }

    fn named(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|quota| quota.name() == name);
        found.unwrap_or_else(|| panic!("no such quota: {name}"))
    }
}

fn cost_of_reading(watch: Watch) -> u64 {
    let mut costs: Vec<_> = (0..10_001)
        .map(|_| watch.since(watch.now()).as_nanos() as u64)
        .collect();
    costs.sort_unstable();
    costs[costs.len() / 2]
}

/// How often this thread has been taken off its core: each of those is somebody's longest call.
fn preemptions() -> u64 {
    field("/proc/thread-self/status", "nonvoluntary_ctxt_switches:")
}

fn resident_kib() -> u64 {
    field("/proc/self/status", "VmRSS:")
}

fn field(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).expect("Linux has this file");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .expect("it has this line")
}

fn shown(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

const STEP: Duration = Duration::from_micros(10);

/// How many calls ten seconds of simulated time are.
const TEN_SECONDS: u64 = 1_000_000;

const ROWS: u64 = 20;

/// How a child tells its parent.
const LONGEST: &str = "longest in ns: ";
