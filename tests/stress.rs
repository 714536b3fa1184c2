//! Many threads at once, over and over: what holds of a store whatever the order of its calls.
//!
//! What the threads do is drawn from a seed, the same in every run; only the order of their turns is left to chance.
//! `TOLLGATE_ROUNDS` changes how often each test is run.

#![cfg(feature = "std")]

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use tollgate::keyed::{RandomState, WhenFull};
use tollgate::{
    Direct, FixedWindow, Keyed, LeakyBucket, Limiter, Plans, Policy, Quota, Receipt, SlidingLog,
    SlidingWindowCounter, Timestamp, TokenBucket,
};

const ROUNDS: u64 = 100;
const THREADS: usize = 4;

const MS: u64 = 1_000_000;
const SEC: u64 = 1_000 * MS;
const HOUR: u64 = 3_600 * SEC;
const DAY: u64 = 24 * HOUR;
/// A multiple of a day, and of every shorter period here.
const START: u64 = 1_699_920_000 * SEC;

/// Newcomers, debtors, refunds, resets, sweeps and a clock that steps, in a store that is full: the cap holds, and when
/// all have gone there is room for as many again. (A place that is lost is a client that is refused for ever.)
#[test]
fn a_cap_on_clients_holds_and_no_place_is_lost() {
    each_round(|round, policy| {
        let caps = [1, 2, 3, 10, 40, 200, 511, 700, 1_500];
        let cap = caps[round as usize / 3 % caps.len()];
        let when_full = [
            WhenFull::RefuseNewcomer,
            WhenFull::AllowUnrecorded,
            WhenFull::ForgetNearestToIdle,
        ][round as usize % 3];
        let what = format!("round {round}: {policy:?}, at most {cap} clients, {when_full:?}");
        let store: Keyed<u64, Policy> = Keyed::new(policy).with_max_keys(cap).when_full(when_full);
        // A store of so few has one shard, and counts itself at one instant.
        let counts_at_once = cap < 512;
        let clock = SteppedClock::new();
        at_once(|thread| {
            let mut random = Random::new(round, thread);
            let mut receipts = Vec::new();
            for _ in 0..500 {
                let now = clock.tick(random.below(20 * MS));
                let (key, cost) = (random.below(3 * cap as u64 + 5), 1 + random.below(3));
                match random.below(32) {
                    0..=9 => receipts.extend(store.check(&key, now).receipt().map(|r| (key, r))),
                    10..=13 => {
                        let d = store.charge(&key, 2 * cost, now);
                        receipts.extend(d.receipt().map(|r| (key, r)));
                    }
                    14..=16 => {
                        let d = store.at_most(&key, cost, now);
                        receipts.extend(d.receipt().map(|r| (key, r)));
                    }
                    17..=21 => {
                        if let Some((key, receipt)) = random.take(&mut receipts) {
                            store.refund(&key, receipt, now);
                        }
                    }
                    22..=23 => {
                        store.reset(&key);
                    }
                    24..=25 => {
                        store.sweep(now);
                    }
                    26 => {
                        if let Ok(guard) = store.estimate(&key, cost, now) {
                            match random.below(3) {
                                0 => drop(guard),
                                1 => guard.keep(),
                                _ => drop(guard.settle(random.below(5), now)),
                            }
                        }
                    }
                    27 => store.set_limiter(every(1 + random.below(5), SEC)[key as usize % 6], now),
                    28 => {
                        let listed = store.clients(now).count();
                        assert!(
                            !counts_at_once || listed <= cap,
                            "{what}: {listed} are listed"
                        );
                    }
                    29 => clock.step(&mut random),
                    _ => {
                        let stats = store.stats();
                        assert!(!counts_at_once || stats.keys <= cap, "{what}: {stats:?}");
                    }
                }
            }
        });
        assert!(store.len() <= cap, "{what}: {} clients", store.len());
        assert_eq!(store.stats().keys, store.len(), "{what}");

        let later = clock.after_all();
        store.set_limiter(policy, later);
        store.sweep(later + Duration::from_secs(3_600));
        assert!(store.is_empty(), "{what}: {} are left", store.len());
        let now = later + Duration::from_secs(3_600);
        let newcomers = 1_000_000..1_000_000 + cap as u64;
        for key in newcomers.clone() {
            let d = store.check(&key, now);
            assert!(d.is_allowed() && !d.is_store_full(), "{what}: {d:?}");
        }
        assert_eq!(store.len(), cap, "{what}: all places are given");
        let d = store.check(&newcomers.end, now);
        let (allowed, full) = match when_full {
            WhenFull::RefuseNewcomer => (false, true),
            WhenFull::AllowUnrecorded => (true, true),
            _ => (true, false),
        };
        assert_eq!(
            (d.is_allowed(), d.is_store_full()),
            (allowed, full),
            "{what}"
        );
        assert_eq!(store.len(), cap, "{what}: one more than there are places");
    });
}

/// What a client was granted and has not been given back is never more than what true time gives, and as much at once as
/// the limit grants: at first, and at each step of the clock.
#[test]
fn no_client_gets_more_than_time_and_the_steps_of_the_clock_give() {
    each_round(|round, policy| match round / 6 % 2 {
        0 => bounded::<RandomState>(round, policy),
        _ => bounded::<Near>(round, policy),
    });
}

/// Of the clients, those who may come to owe, and those who are reset.
const OWING: Range<u64> = 3..5;
const RESET: Range<u64> = 5..7;
const KEYS: u64 = 7;

fn bounded<H: BuildHasher + Default + Sync>(round: u64, policy: Policy) {
    let limit = policy.quota().limit();
    let (steps_clock, changes_limit) = (round / 12 % 2 == 0, round / 24 % 2 == 0);
    // A queue gives back its tail or nothing, and does not say which: so it is tried without, too.
    let gives_back = !matches!(policy, Policy::LeakyBucket(_)) || round / 48 % 2 == 0;
    let what = format!("round {round}: {policy:?}");
    let store: Keyed<u64, Policy, H> = Keyed::with_hasher(policy, H::default());
    let clock = SteppedClock::new();
    let spent: Vec<AtomicI64> = (0..KEYS).map(|_| AtomicI64::new(0)).collect();
    let resets: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let mut steps = 0;
    for phase in 0..8 {
        let mut random = Random::new(round, 1_000 + phase);
        // Nobody calls while it steps: a stamp from before would be a step of its own.
        if steps_clock && random.below(4) > 0 {
            clock.step(&mut random);
            steps += 1;
        }
        at_once(|thread| {
            let mut random = Random::new(round, 10 * phase + thread);
            let mut receipts: Vec<(u64, Receipt)> = Vec::new();
            let count = |key: u64, units: u64| {
                spent[key as usize].fetch_add(units as i64, Ordering::Relaxed);
            };
            for _ in 0..300 {
                // Far less than ten seconds in a phase, so that no thread looks like a clock that was set back.
                let now = clock.tick(random.below(3 * MS));
                let (key, cost) = (random.below(KEYS), 1 + random.below(limit + 1));
                let answer = match random.below(24) {
                    0..=5 => store.check(&key, now),
                    6..=7 => match store.check_n(&key, cost, now) {
                        Ok(d) => d,
                        Err(_) => continue,
                    },
                    8..=11 => store.at_most(&key, cost, now),
                    12..=13 if OWING.contains(&key) => store.charge(&key, cost, now),
                    14..=19 if gives_back => {
                        if let Some((key, receipt)) = random.take(&mut receipts) {
                            let given = store.refund(&key, receipt, now);
                            assert!(given <= receipt.cost(), "{what}: {given} of {receipt:?}");
                            // A bucket that is filled by it is filled to the fraction; and full for a stamp that comes
                            // may be less than full for one that came before, and is late.
                            let given = match policy {
                                Policy::TokenBucket(_) | Policy::LeakyBucket(_) => receipt.cost(),
                                _ => given,
                            };
                            spent[key as usize].fetch_sub(given as i64, Ordering::Relaxed);
                        }
                        continue;
                    }
                    20 => {
                        if let Ok(guard) = store.estimate(&key, cost, now) {
                            let kept = match random.below(3) {
                                0 => {
                                    drop(guard);
                                    continue;
                                }
                                1 => {
                                    guard.keep();
                                    cost
                                }
                                _ => {
                                    let real = random.below(cost + 1);
                                    let _ = guard.settle(real, now);
                                    real
                                }
                            };
                            // A window that ended meanwhile keeps it all; it does not end at an instant that stands.
                            count(key, kept);
                        }
                        continue;
                    }
                    21 if RESET.contains(&key) => {
                        resets[key as usize].fetch_add(1, Ordering::Relaxed);
                        store.reset(&key);
                        continue;
                    }
                    22 if changes_limit => {
                        store.set_limiter(of_limit(policy, limit - random.below(limit)), now);
                        continue;
                    }
                    _ => {
                        store.sweep(now);
                        continue;
                    }
                };
                assert!(answer.granted() <= limit + limit, "{what}: {answer:?}");
                count(key, answer.granted());
                receipts.extend(answer.receipt().map(|receipt| (key, receipt)));
            }
        });
        let elapsed = clock.elapsed();
        for key in 0..KEYS {
            let granted = spent[key as usize].load(Ordering::Relaxed);
            let steps = steps + resets[key as usize].load(Ordering::Relaxed);
            let owes = u64::from(OWING.contains(&key));
            let most = most_granted(policy, elapsed, steps, owes * limit);
            assert!(
                i128::from(granted) <= most,
                "{what}: client {key} was granted {granted} of {most} in {elapsed} ns and {steps} steps"
            );
        }
    }
}

/// By how much a client may come ahead in so much time and so many steps, if it may owe `debt`.
fn most_granted(policy: Policy, elapsed: u64, steps: u64, debt: u64) -> i128 {
    let quota = policy.quota();
    let (limit, debt) = (i128::from(quota.limit()), i128::from(debt));
    let (elapsed, period) = (i128::from(elapsed), i128::from(quota.period_ns()));
    let starts = 1 + i128::from(steps);
    match policy {
        Policy::TokenBucket(_) | Policy::LeakyBucket(_) => {
            // (A step may also repay what was owed.)
            (limit + debt) * starts + limit * elapsed / period
        }
        // Two windows of a grid meet at an instant.
        Policy::FixedWindow(window) if !window.is_anchored_at_first_request() => {
            (limit + debt) * (2 * starts + elapsed / period)
        }
        Policy::SlidingWindowCounter(_) => (limit + debt) * (2 * starts + elapsed / period),
        _ => (limit + debt) * (starts + elapsed / period),
    }
}

/// Of N units, at one instant: whoever takes and gives back, in whatever order, what is out and what is left are N.
#[test]
fn at_one_instant_no_unit_is_lost_and_none_is_made() {
    each_round(|round, policy| {
        let units = 1 + round * 7 % 60;
        let policy = of_limit(policy, units);
        let direct = Direct::new(policy);
        let keyed: Keyed<u64, Policy> = Keyed::new(policy);
        let now = at(START + round * MS);
        for held_by in ["Direct", "Keyed"] {
            let what = format!("round {round}: {policy:?} by {held_by}");
            let holder: &dyn Held = match held_by {
                "Direct" => &direct,
                _ => &keyed,
            };
            let out = at_once(|thread| {
                let mut random = Random::new(round, thread);
                let (mut out, mut receipts) = (0, Vec::new());
                for _ in 0..600 {
                    let cost = 1 + random.below(units);
                    let d = match random.below(10) {
                        0..=2 => holder.check_n(1, now),
                        3..=4 => holder.check_n(cost, now),
                        5..=6 => holder.at_most(cost, now),
                        _ => {
                            let Some(receipt) = random.take(&mut receipts) else {
                                continue;
                            };
                            let given = holder.refund(receipt, now);
                            let of_queue = given == 0 && matches!(policy, Policy::LeakyBucket(_));
                            assert!(given == receipt.cost() || of_queue, "{what}: {receipt:?}");
                            out -= given as i64;
                            continue;
                        }
                    };
                    assert!(d.remaining() <= units - d.granted(), "{what}: {d:?}");
                    out += d.granted() as i64;
                    receipts.extend(d.receipt());
                }
                out
            });
            let out: i64 = out.iter().sum();
            let left = holder.at_most(u64::MAX, now).granted();
            assert_eq!(
                out + left as i64,
                units as i64,
                "{what}: {out} out, {left} left"
            );
            assert!(!holder.check_n(1, now).is_allowed(), "{what}: one more");
        }
    });
}

/// The same while the limit is raised and lowered: what is out stays out.
#[test]
fn at_one_instant_a_limit_that_changes_loses_no_unit() {
    each_round(|round, policy| {
        let units = 2 + round * 7 % 40;
        let policy = of_limit(policy, units);
        let store: Keyed<u64, Policy> = Keyed::new(policy);
        let now = at(START + round * MS);
        let what = format!("round {round}: {policy:?}");
        let out = at_once(|thread| {
            let mut random = Random::new(round, thread);
            let mut out = 0;
            for turn in 0..400 {
                if thread == 0 {
                    store.set_limiter(of_limit(policy, 1 + random.below(2 * units)), now);
                }
                let cost = 1 + random.below(3);
                let d = match turn % 4 {
                    0 => store.check(&1, now),
                    1 => store.at_most(&1, cost, now),
                    2 => store.charge(&1, cost, now),
                    _ => store.at_most(&1, units, now),
                };
                out += d.granted() as i64;
                if let Some(receipt) = d.receipt().filter(|_| random.below(3) > 0) {
                    out -= store.refund(&1, receipt, now) as i64;
                }
            }
            out
        });
        let out: i64 = out.iter().sum();
        store.set_limiter(policy, now);
        let d = store.peek_n(&1, 0, now).expect("a cost of zero");
        let left = d.remaining() as i64 - d.debt() as i64;
        assert_eq!(out + left, units as i64, "{what}: {out} out, {left} left");
    });
}

/// Some give back as much as others charge: the client is as it was.
#[test]
fn refunds_beside_equal_charges_leave_a_client_as_it_was() {
    each_round(|round, policy| {
        // (A queue gives back its tail only, and which charge that is is what the race decides.)
        if matches!(policy, Policy::LeakyBucket(_)) {
            return;
        }
        let (cost, count) = (1 + round % 5, 20);
        let policy = of_limit(policy, cost * count + round % 17);
        let what = format!("round {round}: {policy:?}");
        let store: Keyed<u64, Policy> = Keyed::new(policy);
        let now = at(START + round * MS);
        let receipts: Vec<Receipt> = (0..count)
            .map(|_| store.check_n(&1, cost, now).expect("it fits").receipt())
            .map(|receipt| receipt.expect("something was spent"))
            .collect();
        let look = || {
            [0, 1, 50 * MS, SEC, HOUR].map(|later| {
                let at = now + Duration::from_nanos(later);
                [0, 1, cost].map(|cost| store.peek_n(&1, cost, at))
            })
        };
        let before = look();
        at_once(|thread| {
            for receipt in receipts.iter().skip(thread / 2).step_by(2) {
                match thread % 2 {
                    0 => assert_eq!(store.refund(&1, *receipt, now), cost, "{what}"),
                    _ => assert_eq!(store.charge(&1, cost, now).granted(), cost, "{what}"),
                }
            }
        });
        assert_eq!(look(), before, "{what}");
    });
}

/// One thread gives something back and says so; another, which has been refused again and again until then, asks: its
/// very next call is allowed. Beside them others are refused on the same line of the table of denials.
#[test]
fn whoever_is_told_of_a_refund_is_allowed_by_its_very_next_call() {
    each_round(|round, policy| {
        let policy = of_limit(policy, 3);
        let what = format!("round {round}: {policy:?}");
        let store: Keyed<u64, Policy, Near> = Keyed::with_hasher(policy, Near::default());
        let raised = AtomicU64::new(3);
        let give = |_: u64, last: Receipt| match round / 6 % 4 {
            0 => assert_eq!(store.refund(&HOT, last, at(START)), 1, "{what}"),
            1 => assert!(store.reset(&HOT), "{what}"),
            2 => {
                let limit = raised.fetch_add(1, Ordering::Relaxed) + 1;
                store.set_limiter(of_limit(policy, limit), at(START));
            }
            _ => {
                // An estimate that took the unit, and is not needed.
                assert_eq!(store.refund(&HOT, last, at(START)), 1, "{what}");
                let Ok(guard) = store.estimate(&HOT, 1, at(START)) else {
                    return; // the other was faster
                };
                assert!(store.peek(&HOT, at(START)).remaining() == 0, "{what}");
                drop(guard);
            }
        };
        handed_over(&store, round, &what, &give);
    });
}

/// The same for a client that moves to a better plan.
#[test]
fn whoever_is_told_of_a_better_plan_is_allowed_by_its_very_next_call() {
    each_round(|round, policy| {
        let what = format!("round {round}: {policy:?}");
        let names: Vec<String> = (0..=TURNS).map(|turn| format!("plan {turn}")).collect();
        let named = names.iter().enumerate();
        let plans =
            Plans::new(named.map(|(i, name)| (name.as_str(), of_limit(policy, 3 + i as u64))));
        let plans = plans.expect("names of their own");
        let store: Keyed<u64, Plans<Policy>, Near> = Keyed::with_hasher(plans, Near::default());
        let give = |turn: u64, _: Receipt| {
            let plan = names[turn as usize].as_str();
            // By a call that the better plan refuses: it asks for all of it, and all but a unit is spent.
            let moved = store.check_n_as(plan, &HOT, 3 + turn, at(START));
            assert!(!moved.expect("a plan").is_allowed(), "{what}: turn {turn}");
        };
        handed_over(&store, round, &what, &give);
    });
}

const HOT: u64 = 7;
const TURNS: u64 = 12;

/// One thread gives, by `give`, what another then asks for; both the turn of the gift and the receipt of the last unit that
/// was spent are told to it.
fn handed_over<L>(
    store: &Keyed<u64, L, Near>,
    round: u64,
    what: &str,
    give: &(dyn Fn(u64, Receipt) + Sync),
) where
    L: Limiter + Send + Sync,
    L::State: Send,
{
    let (told, asked) = (AtomicU64::new(0), AtomicU64::new(0));
    let (over, last) = (AtomicBool::new(false), Mutex::new(None));
    let wait_for = |what: &AtomicU64, turn: u64, meanwhile: &mut dyn FnMut()| {
        while what.load(Ordering::Acquire) < turn && !over.load(Ordering::Acquire) {
            meanwhile();
            thread::yield_now();
        }
    };
    // Asks for a unit at a stamp, keeps what names it, and says whether there was one.
    let ask = |now: Timestamp| {
        let receipt = store.check(&HOT, now).receipt();
        if receipt.is_some() {
            *last.lock().expect("no panic under this lock") = receipt;
        }
        receipt.is_some()
    };
    while ask(at(START)) {}
    for key in 1_000..1_400 {
        assert!(store.allow(&key, at(START)), "{what}");
    }
    at_once(|thread| match thread {
        0 => {
            let _over = SetWhenDropped(&over);
            for turn in 1..=TURNS {
                let receipt = last.lock().expect("no panic under this lock").take();
                give(turn, receipt.expect("the last unit was spent"));
                told.store(turn, Ordering::Release);
                wait_for(&asked, turn, &mut || {});
            }
        }
        1 => {
            let _over = SetWhenDropped(&over);
            for turn in 1..=TURNS {
                // It hears of it when it is done, and may have found it before it heard.
                let mut found = false;
                wait_for(&told, turn, &mut || found |= ask(at(START)));
                let late = Duration::from_secs(round % 9);
                assert!(ask(at(START) - late) || found, "{what}: turn {turn}");
                while ask(at(START)) {}
                asked.store(turn, Ordering::Release);
            }
        }
        _ => {
            let mut random = Random::new(round, thread);
            // Others on the line push the note out, or void it; or nobody does; or the lock is held for long, so that
            // calls that have looked at the table wait for the shard.
            let kinds = [1, 4, 7, 0][round as usize / 24 % 4];
            while !over.load(Ordering::Acquire) {
                let key = 100 * thread as u64 + random.below(4);
                if kinds == 0 {
                    assert!(store.clients(at(START)).count() > 300, "{what}");
                    continue;
                }
                let _ = match random.below(kinds) {
                    0 => store.peek(&HOT, at(START)),
                    1..=3 => store.check(&key, at(START)),
                    4 => store.charge(&HOT, 0, at(START)),
                    5 => store.at_most(&key, 9, at(START)),
                    _ => {
                        store.reset(&key);
                        continue;
                    }
                };
                thread::yield_now();
            }
        }
    });
}

/// So that nobody waits for a thread that has panicked.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A store lists its clients one shard at a time, and holds no lock while the caller looks at them.
#[test]
fn a_store_can_be_called_while_its_clients_are_listed() {
    let store: Keyed<u64, Policy, Near> = Keyed::with_hasher(every(3, HOUR)[0], Near::default());
    for key in 0..50 {
        assert!(store.allow(&key, at(START)));
    }
    let mut listed = 0;
    for (key, d) in store.clients(at(START)) {
        assert_eq!(d.remaining(), 2, "client {key}");
        assert!(store.allow(&key, at(START)), "client {key}");
        assert!(store.reset(&key), "client {key}");
        listed += 1;
    }
    assert_eq!((listed, store.len()), (50, 0));
}

// ---------------------------------------------------------------------------------------------------
// Rounds, threads, and a clock
// ---------------------------------------------------------------------------------------------------

/// Runs `body` so many times, each algorithm in its turn.
fn each_round(body: impl Fn(u64, Policy)) {
    let rounds = match std::env::var("TOLLGATE_ROUNDS") {
        Ok(text) => text.parse().expect("TOLLGATE_ROUNDS wants a whole number"),
        Err(_) => ROUNDS,
    };
    for round in 0..rounds {
        let policies = every(5, SEC);
        body(round, policies[round as usize % policies.len()]);
    }
}

/// What each thread made of its turn, all begun together.
fn at_once<T: Send>(turn: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(THREADS);
    let run = |thread| {
        barrier.wait();
        turn(thread)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || run(thread)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|turn| turn.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// A clock that all threads share, and that somebody sets now and then.
struct SteppedClock {
    reads: AtomicU64,
    latest: AtomicU64,
    elapsed: AtomicU64,
}

impl SteppedClock {
    fn new() -> Self {
        SteppedClock {
            reads: AtomicU64::new(START),
            latest: AtomicU64::new(START),
            elapsed: AtomicU64::new(0),
        }
    }

    /// The time, when so much more has passed.
    fn tick(&self, by: u64) -> Timestamp {
        self.elapsed.fetch_add(by, Ordering::Relaxed);
        let now = self.reads.fetch_add(by, Ordering::Relaxed) + by;
        self.latest.fetch_max(now, Ordering::Relaxed);
        at(now)
    }

    /// Ahead, or back by more than ten seconds, or by less.
    fn step(&self, random: &mut Random) {
        let (back, by) = [
            (true, 3 * SEC),
            (true, 9 * SEC),
            (true, 10 * SEC + 1),
            (true, HOUR),
            (false, 700 * MS),
            (false, 30 * SEC),
            (false, HOUR),
            (false, DAY),
        ][random.below(8) as usize];
        match back {
            true => self.reads.fetch_sub(by, Ordering::Relaxed),
            false => self.reads.fetch_add(by, Ordering::Relaxed),
        };
    }

    fn elapsed(&self) -> u64 {
        self.elapsed.load(Ordering::Relaxed)
    }

    /// Later than anything it ever showed.
    fn after_all(&self) -> Timestamp {
        let latest = self.latest.load(Ordering::Relaxed);
        at(latest.max(self.reads.load(Ordering::Relaxed)) + DAY)
    }
}

/// Numbers without a pattern, the same in every run.
struct Random(u64);

impl Random {
    fn new(round: u64, thread: usize) -> Self {
        let seed = round * 2_001 + thread as u64 + 1;
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for _ in 0..4 {
            random.below(1);
        }
        random
    }

    /// A number from 0 to `most` - 1.
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }

    /// One of them, taken out.
    fn take<T>(&mut self, of: &mut Vec<T>) -> Option<T> {
        let place = self.below(of.len().max(1) as u64) as usize;
        (place < of.len()).then(|| of.swap_remove(place))
    }
}

/// `Direct`, or one client of `Keyed`.
trait Held: Sync {
    fn check_n(&self, cost: u64, now: Timestamp) -> tollgate::Decision;
    fn at_most(&self, cost: u64, now: Timestamp) -> tollgate::Decision;
    fn refund(&self, receipt: Receipt, now: Timestamp) -> u64;
}

impl Held for Direct<Policy> {
    fn check_n(&self, cost: u64, now: Timestamp) -> tollgate::Decision {
        self.check_n(cost, now).expect("it fits")
    }
    fn at_most(&self, cost: u64, now: Timestamp) -> tollgate::Decision {
        self.at_most(cost, now)
    }
    fn refund(&self, receipt: Receipt, now: Timestamp) -> u64 {
        self.refund(receipt, now)
    }
}

impl Held for Keyed<u64, Policy> {
    fn check_n(&self, cost: u64, now: Timestamp) -> tollgate::Decision {
        self.check_n(&HOT, cost, now).expect("it fits")
    }
    fn at_most(&self, cost: u64, now: Timestamp) -> tollgate::Decision {
        self.at_most(&HOT, cost, now)
    }
    fn refund(&self, receipt: Receipt, now: Timestamp) -> u64 {
        self.refund(&HOT, receipt, now)
    }
}

/// All five algorithms, the fixed window in both its forms.
fn every(limit: u64, period: u64) -> [Policy; 6] {
    let quota = Quota::new(limit, Duration::from_nanos(period)).expect("a quota");
    [
        TokenBucket::new(quota).into(),
        LeakyBucket::new(quota).into(),
        FixedWindow::new(quota).into(),
        FixedWindow::new(quota).anchored_at_first_request().into(),
        SlidingLog::new(quota).into(),
        SlidingWindowCounter::new(quota).into(),
    ]
}

/// The same algorithm with another limit.
fn of_limit(policy: Policy, limit: u64) -> Policy {
    let of_same_kind = every(policy.quota().limit(), policy.quota().period_ns())
        .iter()
        .position(|same| *same == policy);
    every(limit, policy.quota().period_ns())[of_same_kind.expect("one of six")]
}

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

/// Keys whose hashes differ only in bits that choose neither a shard nor a line of the table of denials.
type Near = BuildHasherDefault<NearHasher>;

#[derive(Default)]
struct NearHasher(DefaultHasher);

impl Hasher for NearHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }
    fn finish(&self) -> u64 {
        self.0.finish() & u64::from(u32::MAX)
    }
}
