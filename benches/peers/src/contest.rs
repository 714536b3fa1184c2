//! The runner: a peer under a load, on one thread or more.
//!
//! A figure is nanoseconds per call as a thread sees them. Threads are pinned to cores, start together, and all call the
//! same store. Each call takes the same simulated time; it is told to the peer once per [`BATCH`] calls, by the thread
//! that made them. The answers are counted and must be what the workload promises.

use std::any::type_name;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use crate::keys::Key;
use crate::load::{Expected, Load, Workload};
use crate::peer::Peer;
use crate::watch::Watch;

/// How many calls share one stamp: at a microsecond each, a stamp a millisecond.
pub const BATCH: usize = 1_000;

/// One contestant: it can be timed for a while, or for a number of calls.
pub trait Contest {
    /// Calls for about that long (after a tenth of it that does not count); nanoseconds per call.
    fn round(&mut self, time: Duration, watch: Watch) -> f64;

    /// Makes that many calls on each thread; the time until the last has ended.
    fn calls(&mut self, calls: u64) -> Duration;

    /// How many calls there were so far, and how many were allowed.
    fn answers(&self) -> Answers;
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Answers {
    pub calls: u64,
    pub allowed: u64,
}

/// A peer, made by `make`, under that load.
pub fn contest<'a, K, P, M>(load: &'a Load<K>, threads: usize, make: M) -> Box<dyn Contest + 'a>
where
    K: Key,
    P: Peer<K> + 'a,
    M: Fn() -> P + 'a,
{
    if load.workload == Workload::Flood {
        return Box::new(Flood {
            load,
            threads,
            make,
            answers: Answers::default(),
        });
    }
    let peer = make();
    fill(&peer, load);
    let stride = load.order.len() / threads;
    let mut steady = Steady {
        peer,
        load,
        cursors: (0..threads).map(|thread| thread * stride).collect(),
        answers: Answers::default(),
    };
    // Before anything is timed: is this the workload that its name says?
    steady.calls(10 * BATCH as u64);
    verify(load.workload, steady.answers(), type_name::<P>());
    Box::new(steady)
}

/// That the answers were those that the workload promises.
///
/// # Panics
///
/// If they were not.
pub fn verify(workload: Workload, answers: Answers, who: &str) {
    let Answers { calls, allowed } = answers;
    let right = match workload.expected() {
        Expected::AllAllowed => allowed == calls,
        // Some peers know no rate below one a second.
        Expected::AllRefused => allowed <= calls / 1_000,
        Expected::MostlyRefused => allowed < calls / 2,
    };
    assert!(
        right,
        "{who} allowed {allowed} of {calls} calls: that is not '{}'",
        workload.name()
    );
}

/// Every client calls, in another order than in the run: neighbours in the store's memory do not call in turn.
fn fill<K: Key, P: Peer<K>>(peer: &P, load: &Load<K>) {
    let step = load.workload.step() * BATCH as u32;
    // Once makes a client known and spends a burst of one. (The least burst of one peer is two.)
    let rounds = match load.workload.expected() {
        Expected::AllAllowed => 1,
        Expected::AllRefused | Expected::MostlyRefused => 2,
    };
    for _ in 0..rounds {
        let mut now = peer.advance(step);
        for client in 0..load.population {
            if client % BATCH as u64 == BATCH as u64 - 1 {
                now = peer.advance(step);
            }
            peer.allow(&K::of(client), now);
        }
    }
}

struct Steady<'a, K, P> {
    peer: P,
    load: &'a Load<K>,
    /// Where each thread is in the order.
    cursors: Vec<usize>,
    answers: Answers,
}

impl<K: Key, P: Peer<K>> Steady<'_, K, P> {
    fn run(&mut self, until: Until) -> Vec<Lap> {
        let mut walks: Vec<_> = self
            .cursors
            .iter()
            .map(|&cursor| Walk::new(&self.peer, self.load, cursor))
            .collect();
        let laps = together(&mut walks, until);
        for (cursor, walk) in self.cursors.iter_mut().zip(&walks) {
            *cursor = walk.cursor;
        }
        self.answers.add(&laps);
        laps
    }
}

impl<K: Key, P: Peer<K>> Contest for Steady<'_, K, P> {
    fn round(&mut self, time: Duration, watch: Watch) -> f64 {
        per_call(&self.run(Until::Time(time, watch)))
    }

    fn calls(&mut self, calls: u64) -> Duration {
        longest(&self.run(Until::Calls(calls, Watch::Wall)))
    }

    fn answers(&self) -> Answers {
        self.answers
    }
}

/// A flood starts on an empty store, and on another one when all its clients have called.
struct Flood<'a, K, M> {
    load: &'a Load<K>,
    threads: usize,
    make: M,
    answers: Answers,
}

impl<K, P, M> Flood<'_, K, M>
where
    K: Key,
    P: Peer<K>,
    M: Fn() -> P,
{
    fn run(&mut self, calls: u64, watch: Watch) -> Vec<Lap> {
        let peer = (self.make)();
        let stride = self.load.order.len() / self.threads;
        let mut walks: Vec<_> = (0..self.threads)
            .map(|thread| Walk::new(&peer, self.load, thread * stride))
            .collect();
        let laps = together(&mut walks, Until::Calls(calls, watch));
        self.answers.add(&laps);
        laps
    }

    /// How many calls a thread can make before it meets clients who have called.
    fn clients(&self) -> u64 {
        (self.load.order.len() / self.threads) as u64
    }
}

impl<K, P, M> Contest for Flood<'_, K, M>
where
    K: Key,
    P: Peer<K>,
    M: Fn() -> P,
{
    fn round(&mut self, _time: Duration, watch: Watch) -> f64 {
        per_call(&self.run(self.clients(), watch))
    }

    fn calls(&mut self, calls: u64) -> Duration {
        let mut left = calls;
        let mut sum = Duration::ZERO;
        while left > 0 {
            let lap = left.min(self.clients());
            sum += longest(&self.run(lap, Watch::Wall));
            left -= lap;
        }
        sum
    }

    fn answers(&self) -> Answers {
        self.answers
    }
}

#[derive(Clone, Copy)]
enum Until {
    Time(Duration, Watch),
    Calls(u64, Watch),
}

/// What one thread did.
struct Lap {
    calls: u64,
    allowed: u64,
    /// All its calls, also those of the warm-up.
    answered: u64,
    took: Duration,
}

impl Answers {
    fn add(&mut self, laps: &[Lap]) {
        for lap in laps {
            self.calls += lap.answered;
            self.allowed += lap.allowed;
        }
    }
}

/// The harmonic mean over the threads: one that was held up does not count for more.
fn per_call(laps: &[Lap]) -> f64 {
    let per_ns: f64 = laps
        .iter()
        .map(|lap| lap.calls as f64 / lap.took.as_nanos() as f64)
        .sum();
    laps.len() as f64 / per_ns
}

fn longest(laps: &[Lap]) -> Duration {
    laps.iter().map(|lap| lap.took).max().unwrap_or_default()
}

fn together<K: Key, P: Peer<K>>(walks: &mut [Walk<'_, K, P>], until: Until) -> Vec<Lap> {
    let start = Barrier::new(walks.len());
    let cores = core_affinity::get_core_ids().expect("the system says which cores there are");
    thread::scope(|scope| {
        let threads: Vec<_> = walks
            .iter_mut()
            .enumerate()
            .map(|(thread, walk)| {
                let core = cores[thread % cores.len()];
                let start = &start;
                scope.spawn(move || {
                    core_affinity::set_for_current(core);
                    walk.run(until, start)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no call panics"))
            .collect()
    })
}

/// One thread's way through the order.
struct Walk<'a, K, P> {
    peer: &'a P,
    order: &'a [K],
    cursor: usize,
    step: Duration,
}

impl<'a, K: Key, P: Peer<K>> Walk<'a, K, P> {
    fn new(peer: &'a P, load: &'a Load<K>, cursor: usize) -> Self {
        Self {
            peer,
            order: &load.order,
            cursor,
            step: load.workload.step(),
        }
    }

    fn run(&mut self, until: Until, start: &Barrier) -> Lap {
        start.wait();
        let mut lap = Lap {
            calls: 0,
            allowed: 0,
            answered: 0,
            took: Duration::ZERO,
        };
        match until {
            Until::Time(time, watch) => {
                let began = watch.now();
                while watch.since(began) < time / 10 {
                    lap.allowed += self.batch(BATCH);
                    lap.answered += BATCH as u64;
                }
                let began = watch.now();
                while lap.took < time {
                    lap.allowed += self.batch(BATCH);
                    lap.calls += BATCH as u64;
                    lap.took = watch.since(began);
                }
            }
            Until::Calls(calls, watch) => {
                let began = watch.now();
                while lap.calls < calls {
                    let batch = (calls - lap.calls).min(BATCH as u64);
                    lap.allowed += self.batch(batch as usize);
                    lap.calls += batch;
                }
                lap.took = watch.since(began);
            }
        }
        lap.answered += lap.calls;
        lap
    }

    /// How many of the next `calls` were allowed.
    fn batch(&mut self, calls: usize) -> u64 {
        let now = self.peer.advance(self.step * calls as u32);
        if let [key] = self.order {
            return repeat(self.peer, key, now, calls);
        }
        let mut allowed = 0;
        let mut left = calls;
        while left > 0 {
            let keys = &self.order[self.cursor..];
            let keys = &keys[..left.min(keys.len())];
            allowed += walk(self.peer, keys, now);
            left -= keys.len();
            self.cursor = (self.cursor + keys.len()) % self.order.len();
        }
        allowed
    }
}

// In both, the compiler may know nothing from one call for the next: a service would not either.

#[inline(never)]
fn repeat<K, P: Peer<K>>(peer: &P, key: &K, now: P::Now, calls: usize) -> u64 {
    (0..calls)
        .map(|_| u64::from(black_box(peer).allow(black_box(key), black_box(now))))
        .sum()
}

#[inline(never)]
fn walk<K, P: Peer<K>>(peer: &P, keys: &[K], now: P::Now) -> u64 {
    keys.iter()
        .map(|key| u64::from(black_box(peer).allow(black_box(key), black_box(now))))
        .sum()
}
