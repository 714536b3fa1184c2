//! What `Direct` and `Keyed` add to a rule: their time (promise 4), keys, forgetting, and calls from many threads.
//!
//! One check list again, over every holder; each draws its limiters from all five algorithms.

mod support;

use std::any::type_name;
use std::collections::HashSet;
use std::hash::{BuildHasher, DefaultHasher, Hasher};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use num_bigint::BigInt;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use support::histories::{Call, Clock, histories, histories_of_keys};
use support::oracle::{Answer, Holder, Oracle};
use support::specs::{Rule, SECOND, share, specs};
use support::{hold, promises};
use tollgate::keyed::RandomState;
use tollgate::{
    Algorithm, CostTooHigh, Decision, Direct, Keyed, Policy, Quota, Timestamp, TokenBucket,
};

const HISTORIES: u32 = 2_000;
/// Of those that start threads.
const RACES: u32 = 300;
const THREADS: usize = 4;
const NANO: Duration = Duration::from_nanos(1);
const EVERY: &[Algorithm] = &Algorithm::ALL;

promises! {
    direct: tollgate::Direct<tollgate::Policy>,
    keyed: tollgate::Keyed<String, tollgate::Policy>,
    one_shard: super::OneShard;

    exact_at_the_holders_time
    retry_is_honest_by_the_callers_own_stamp
    nobody_waits_for_a_clock_to_catch_up
    no_more_than_one_burst_is_gained_per_step_of_the_clock
    denial_is_free
    a_burst_is_allowed_whole_in_any_order_of_its_stamps
    a_cost_of_1_has_short_forms
    threads_get_the_limit_and_never_more
    mixed_costs_from_threads_add_up
    calls_from_threads_behave_as_some_serial_order
    a_burst_of_one_call_per_thread_is_allowed_whole
    a_burst_is_allowed_whole_while_the_stamps_of_threads_race
}

/// What every holder answers to; one without keys ignores them.
trait Store: Sync + Sized {
    /// How many keys it tells apart.
    const KEYS: u8;
    /// How many keys are sure to share one holder's time.
    const KEYS_OF_ONE_TIME: u8;

    fn new(policy: Policy) -> Self;
    fn check_n(&self, key: u8, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh>;
    fn peek_n(&self, key: u8, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh>;
    fn allow(&self, key: u8, now: Timestamp) -> bool;
    fn check(&self, key: u8, now: Timestamp) -> Decision;
    fn peek(&self, key: u8, now: Timestamp) -> Decision;

    fn ask(&self, call: Call) -> Answer {
        match call {
            Call::Check { .. } => self.check_n(call.key(), call.cost(), call.now()).into(),
            Call::Peek { .. } => self.peek_n(call.key(), call.cost(), call.now()).into(),
        }
    }
}

impl Store for Direct<Policy> {
    const KEYS: u8 = 1;
    const KEYS_OF_ONE_TIME: u8 = 1;

    fn new(policy: Policy) -> Self {
        Direct::new(policy)
    }

    fn check_n(&self, _: u8, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh> {
        self.check_n(cost, now)
    }

    fn peek_n(&self, _: u8, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh> {
        self.peek_n(cost, now)
    }

    fn allow(&self, _: u8, now: Timestamp) -> bool {
        self.allow(now)
    }

    fn check(&self, _: u8, now: Timestamp) -> Decision {
        self.check(now)
    }

    fn peek(&self, _: u8, now: Timestamp) -> Decision {
        self.peek(now)
    }
}

impl<H: HashKeys> Store for Keyed<String, Policy, H> {
    const KEYS: u8 = KEYS;
    const KEYS_OF_ONE_TIME: u8 = H::KEYS_OF_ONE_TIME;

    fn new(policy: Policy) -> Self {
        Keyed::with_hasher(policy, H::default())
    }

    fn check_n(&self, key: u8, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh> {
        self.check_n(name(key), cost, now)
    }

    fn peek_n(&self, key: u8, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh> {
        self.peek_n(name(key), cost, now)
    }

    fn allow(&self, key: u8, now: Timestamp) -> bool {
        self.allow(name(key), now)
    }

    fn check(&self, key: u8, now: Timestamp) -> Decision {
        self.check(name(key), now)
    }

    fn peek(&self, key: u8, now: Timestamp) -> Decision {
        self.peek(name(key), now)
    }
}

trait HashKeys: BuildHasher + Default + Sync {
    const KEYS_OF_ONE_TIME: u8;
}

impl HashKeys for RandomState {
    const KEYS_OF_ONE_TIME: u8 = 1;
}

impl HashKeys for Near {
    const KEYS_OF_ONE_TIME: u8 = KEYS;
}

/// A store whose shards are told apart by bits that its hashes do not differ in: its keys share one shard, and so its time.
type OneShard = Keyed<String, Policy, Near>;

#[derive(Clone, Copy, Debug, Default)]
struct Near;

#[derive(Debug, Default)]
struct NearHasher(DefaultHasher);

impl BuildHasher for Near {
    type Hasher = NearHasher;

    fn build_hasher(&self) -> NearHasher {
        NearHasher::default()
    }
}

impl Hasher for NearHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn finish(&self) -> u64 {
        self.0.finish() & u64::from(u32::MAX)
    }
}

const KEYS: u8 = 9;

fn name(key: u8) -> &'static str {
    [
        "ada", "grace", "edsger", "barbara", "tony", "leslie", "frances", "niklaus", "radia",
    ][usize::from(key)]
}

fn exact_at_the_holders_time<S: Store>() {
    hold(
        &title::<S>("exact"),
        HISTORIES,
        histories_of_keys(EVERY, Clock::SetBack, S::KEYS_OF_ONE_TIME),
        |history| {
            let store = S::new(history.spec.policy());
            history
                .script()
                .iter()
                .try_for_each(|line| agree(line.call, store.ask(line.call), line.answer))
        },
    );
}

fn retry_is_honest_by_the_callers_own_stamp<S: Store>() {
    hold(
        &title::<S>("retry is honest"),
        HISTORIES,
        histories_of_keys(EVERY, Clock::SetBack, S::KEYS_OF_ONE_TIME),
        |history| {
            let store = S::new(history.spec.policy());
            for line in history.script() {
                let (key, now, cost) = (line.call.key(), line.call.now(), line.call.cost());
                let Answer::Decided(verdict) = store.ask(line.call) else {
                    continue;
                };
                prop_assert_eq!(verdict.allowed, verdict.retry_after == 0);
                // Stamps end, and so does what a holder makes of them.
                let retry = Duration::from_nanos(verdict.retry_after);
                let told = (line.counted + retry).saturating_duration_since(line.counted);
                if verdict.allowed || told < retry {
                    continue;
                }
                let fits = |at| {
                    store
                        .peek_n(key, cost, at)
                        .is_ok_and(|decision| decision.is_allowed())
                };
                prop_assert!(
                    !fits(now + retry - NANO),
                    "{:?}: allowed a nanosecond before it was told",
                    line.call
                );
                prop_assert!(
                    fits(now + retry),
                    "{:?}: refused when it was told",
                    line.call
                );
            }
            Ok(())
        },
    );
}

fn nobody_waits_for_a_clock_to_catch_up<S: Store>() {
    hold(
        &title::<S>("no wait for a clock"),
        HISTORIES,
        histories(EVERY, Clock::SetBack),
        |history| {
            let store = S::new(history.spec.policy());
            let longest = history.spec.longest_wait() + u128::from(10 * SECOND);
            for line in history.script() {
                if let Answer::Decided(verdict) = store.ask(line.call) {
                    prop_assert!(
                        u128::from(verdict.retry_after) <= longest,
                        "{:?}: {:?}",
                        line.call,
                        verdict
                    );
                }
            }
            Ok(())
        },
    );
}

/// A clock that steps, and true time beside it.
fn no_more_than_one_burst_is_gained_per_step_of_the_clock<S: Store>() {
    let step_of_clock = prop_oneof![
        4 => Just(0_i64),
        1 => -20 * SECOND as i64..=20 * SECOND as i64,
        1 => prop_oneof![Just(-3_600), Just(3_600), Just(-86_400), Just(86_400)].prop_map(|s| s * SECOND as i64),
    ];
    let tick = (0..=256_u16, step_of_clock, 1..=3_u64);
    let drawn = (specs(EVERY), vec(tick, 1..60));
    hold(
        &title::<S>("one burst per step"),
        HISTORIES,
        drawn,
        |(spec, ticks)| {
            let store = S::new(spec.policy());
            let (mut elapsed, mut clock, mut steps, mut granted) =
                (0, 1_700_000_000 * i128::from(SECOND), 0, 0);
            for (part, step, cost) in ticks {
                let wait = i128::from(share(spec.period, part));
                elapsed += wait;
                clock += wait + i128::from(step);
                steps += u64::from(step != 0);
                let now = Timestamp::from_nanos(u64::try_from(clock.max(0)).unwrap_or(u64::MAX));
                if store
                    .check_n(0, cost, now)
                    .is_ok_and(|decision| decision.is_allowed())
                {
                    granted += cost;
                }
            }
            // What true time gives, and as much at once as the limiter ever grants: at first, and at each step.
            let accrued = BigInt::from(spec.limit) * elapsed;
            let at_once = match spec.rule {
                // Two windows of a grid meet at an instant.
                Rule::FixedWindow { .. } | Rule::SlidingWindowCounter { .. } => 2 * (1 + steps),
                _ => 1 + steps,
            };
            let most = BigInt::from(spec.most()) * at_once * spec.period + accrued;
            prop_assert!(
                BigInt::from(granted) * spec.period <= most,
                "{} granted, {} steps",
                granted,
                steps
            );
            Ok(())
        },
    );
}

/// Two holders: one is asked everything, the other only what is charged. As long as the clock was not set back (which any
/// call may be the one to notice), nothing tells them apart.
fn denial_is_free<S: Store>() {
    hold(
        &title::<S>("denial is free"),
        HISTORIES,
        histories(EVERY, Clock::Late),
        |history| {
            let (asked, spared) = (S::new(history.spec.policy()), S::new(history.spec.policy()));
            for line in history.script() {
                let (key, now, cost) = (line.call.key(), line.call.now(), line.call.cost());
                for free in [history.spec.most(), 1] {
                    prop_assert!(asked.peek_n(key, free, now).is_ok());
                }
                let answer = asked.ask(line.call);
                if line.charges() {
                    agree(line.call, answer, spared.check_n(key, cost, now).into())?;
                }
            }
            Ok(())
        },
    );
}

/// Its costs add up to no more than the limit: whatever its stamps, it fits.
fn a_burst_is_allowed_whole_in_any_order_of_its_stamps<S: Store>() {
    hold(
        &title::<S>("a burst in any order"),
        HISTORIES,
        histories(EVERY, Clock::SetBack),
        |history| {
            let store = S::new(history.spec.policy());
            let mut room = history.spec.most();
            for line in history.script() {
                let cost = line.call.cost().min(room);
                room -= cost;
                prop_assert!(
                    store
                        .check_n(0, cost, line.call.now())
                        .is_ok_and(|decision| decision.is_allowed())
                );
            }
            Ok(())
        },
    );
}

fn a_cost_of_1_has_short_forms<S: Store>() {
    hold(
        &title::<S>("short forms"),
        HISTORIES,
        histories(EVERY, Clock::SetBack),
        |history| {
            let stores = [(); 3].map(|()| S::new(history.spec.policy()));
            let [long, short, shortest] = &stores;
            for line in history.script() {
                let (key, now) = (line.call.key(), line.call.now());
                let foretold = long.peek_n(key, 1, now);
                prop_assert_eq!(&foretold, &Ok(short.peek(key, now)));
                prop_assert_eq!(&foretold, &Ok(shortest.peek(key, now)));
                let decision = long.check_n(key, 1, now);
                prop_assert_eq!(
                    decision.is_ok_and(|decision| decision.is_allowed()),
                    shortest.allow(key, now)
                );
                prop_assert_eq!(&decision, &Ok(short.check(key, now)));
            }
            Ok(())
        },
    );
}

#[test]
fn keys_have_states_of_their_own() {
    hold(
        "keys",
        HISTORIES,
        histories_of_keys(EVERY, Clock::Forward, KEYS),
        |history| {
            let store = <Keyed<String, Policy>>::new(history.spec.policy());
            let mut keys = vec![Oracle::new(&history.spec); KEYS.into()];
            for line in history.script() {
                let oracle = &mut keys[usize::from(line.call.key())];
                let now = i128::from(line.call.now().as_nanos());
                let answer = match line.call {
                    Call::Check { cost, .. } => oracle.check(now, cost),
                    Call::Peek { cost, .. } => oracle.peek(now, cost),
                };
                agree(line.call, Store::ask(&store, line.call), answer)?;
            }
            Ok(())
        },
    );
}

/// A store that is swept after every call, at any stamp, decides as the oracle that forgets nothing; and what it keeps is
/// what is not idle.
#[test]
fn forgetting_is_invisible() {
    let sweep = prop_oneof![
        Just(0),
        -100..=100_i64,
        any::<i32>().prop_map(i64::from),
        any::<i64>()
    ];
    let drawn = (
        histories_of_keys(EVERY, Clock::SetBack, KEYS),
        vec(sweep, 5),
    );
    hold(
        "forgetting is invisible",
        HISTORIES,
        drawn,
        |(history, sweeps)| {
            let store = <OneShard as Store>::new(history.spec.policy());
            let mut holder = Holder::new(&history.spec);
            for (line, sweep) in history.script().iter().zip(sweeps.iter().cycle()) {
                agree(
                    line.call,
                    Store::ask(&store, line.call),
                    holder.ask(line.call),
                )?;
                let at =
                    Timestamp::from_nanos(line.call.now().as_nanos().saturating_add_signed(*sweep));
                let held = store.len();
                let forgotten = store.sweep(at);
                prop_assert_eq!(store.len() + forgotten, held);
                prop_assert_eq!(
                    store.len(),
                    holder.busy_at(at),
                    "{:?}, swept at {:?}",
                    line.call,
                    at
                );
                if forgotten > 0 {
                    holder.swept(at);
                }
            }
            Ok(())
        },
    );
}

#[test]
fn what_is_not_charged_creates_no_key() {
    hold(
        "no key for nothing",
        HISTORIES,
        histories_of_keys(EVERY, Clock::Forward, KEYS),
        |history| {
            let store = <Keyed<String, Policy>>::new(history.spec.policy());
            let mut charged = HashSet::new();
            for line in history.script() {
                let (key, now) = (line.call.key(), line.call.now());
                let answers = [
                    store.check_n(name(key), 0, now),
                    store.peek_n(name(key), history.spec.most(), now),
                ];
                prop_assert!(answers.iter().all(Result::is_ok));
                prop_assert!(
                    store
                        .check_n(name(key), history.spec.most() + 1, now)
                        .is_err()
                );
                Store::ask(&store, line.call);
                if line.charges() {
                    charged.insert(key);
                }
                prop_assert!(store.len() <= charged.len());
                prop_assert!(store.is_empty() || !charged.is_empty());
            }
            Ok(())
        },
    );
}

fn threads_get_the_limit_and_never_more<S: Store>() {
    let keys = usize::from(S::KEYS);
    for algorithm in Algorithm::ALL {
        let store = S::new(algorithm.policy(Quota::per_hour(10_000)));
        let now = Timestamp::from_secs(1_700_000_000);
        let granted = at_once(|thread| {
            let mut granted = vec![0; keys];
            for call in 0..5_000 * keys {
                let key = (call + thread) % keys;
                granted[key] += u32::from(store.allow(key as u8, now));
            }
            granted
        });
        for key in 0..keys {
            let total: u32 = granted.iter().map(|thread| thread[key]).sum();
            assert_eq!(total, 10_000, "{algorithm}, key {key}");
        }
    }
}

/// At one instant, what is left after each grant says which grant went before: the whole order can be read off.
fn mixed_costs_from_threads_add_up<S: Store>() {
    let costs = vec(prop_oneof![8 => 0..=8_u16, 1 => 0..=256_u16], 100..400);
    let drawn = (specs(EVERY), 0..=Timestamp::MAX.as_nanos(), costs);
    hold(
        &title::<S>("mixed costs"),
        RACES,
        drawn,
        |(spec, at, costs)| {
            let now = Timestamp::from_nanos(at);
            let store = S::new(spec.policy());
            let answers = at_once(|thread| {
                let mine = costs
                    .iter()
                    .skip(thread)
                    .step_by(THREADS)
                    .map(|part| share(spec.most(), *part).max(1));
                mine.map(|cost| (cost, store.check_n(0, cost, now).expect("at most all")))
                    .collect::<Vec<_>>()
            });
            for thread in &answers {
                prop_assert!(
                    thread
                        .is_sorted_by_key(|(_, decision)| std::cmp::Reverse(decision.remaining()))
                );
            }
            let (mut granted, refused): (Vec<_>, Vec<_>) = answers
                .into_iter()
                .flatten()
                .partition(|(_, decision)| decision.is_allowed());
            granted.sort_by_key(|(_, decision)| std::cmp::Reverse(decision.remaining()));
            let mut left = spec.most();
            let mut levels = HashSet::from([left]);
            for (cost, decision) in granted {
                prop_assert_eq!(Some(decision.remaining()), left.checked_sub(cost));
                left = decision.remaining();
                levels.insert(left);
            }
            for (cost, decision) in refused {
                prop_assert!(decision.remaining() < cost && levels.contains(&decision.remaining()));
            }
            prop_assert_eq!(store.peek(0, now).remaining(), left);
            Ok(())
        },
    );
}

/// Every answer that every thread got is explained by one order of all calls, in which each call comes after those that
/// had ended when it began.
fn calls_from_threads_behave_as_some_serial_order<S: Store>() {
    let drawn = histories_of_keys(EVERY, Clock::SetBack, S::KEYS_OF_ONE_TIME);
    hold(&title::<S>("a serial order"), RACES, drawn, |history| {
        let store = S::new(history.spec.policy());
        let script = history.script();
        let moment = AtomicU64::new(0);
        let turns = at_once(|thread| {
            let mine = script.iter().skip(thread).step_by(THREADS);
            mine.map(|line| Heard {
                call: line.call,
                begun: moment.fetch_add(1, Ordering::SeqCst),
                answer: store.ask(line.call),
                ended: moment.fetch_add(1, Ordering::SeqCst),
            })
            .collect::<Vec<_>>()
        });
        let holder = Holder::new(&history.spec);
        let explained = some_order_explains(holder, [0; THREADS], &turns, &mut HashSet::new());
        prop_assert!(explained, "{:#?}", turns);
        Ok(())
    });
}

/// What a thread asked and was told, and when on a clock of all threads. (Fields are evaluated in the order of an
/// expression's text.)
#[derive(Debug)]
struct Heard {
    call: Call,
    begun: u64,
    answer: Answer,
    ended: u64,
}

type Place = [usize; THREADS];

fn some_order_explains(
    holder: Holder,
    place: Place,
    turns: &[Vec<Heard>],
    seen: &mut HashSet<(Holder, Place)>,
) -> bool {
    let next = |thread: usize| turns[thread].get(place[thread]);
    // The first of the calls to come that ended: what began later cannot come before it.
    let Some(first_end) = (0..THREADS).filter_map(next).map(|heard| heard.ended).min() else {
        return true;
    };
    if !seen.insert((holder.clone(), place)) {
        return false;
    }
    (0..THREADS).any(|thread| {
        next(thread)
            .filter(|heard| heard.begun < first_end)
            .is_some_and(|heard| {
                let (mut holder, mut place) = (holder.clone(), place);
                place[thread] += 1;
                holder.ask(heard.call) == heard.answer
                    && some_order_explains(holder, place, turns, seen)
            })
    })
}

/// With an instant in the state instead of a holder's time, one of the burst is refused whenever the later stamp wins.
fn a_burst_of_one_call_per_thread_is_allowed_whole<S: Store>() {
    let quota = Quota::new(THREADS as u64, Duration::from_secs(30 * 86_400)).expect("a quota");
    for (round, algorithm) in Algorithm::ALL.iter().cycle().take(300).enumerate() {
        let store = S::new(algorithm.policy(quota));
        let apart = Duration::from_nanos([0, 1, 1_000, SECOND, 10 * SECOND][round / 5 % 5]);
        let latest = Timestamp::from_secs(1_700_000_000);
        let allowed =
            at_once(|thread| store.allow(0, latest - apart * ((thread + round) % THREADS) as u32));
        assert_eq!(
            allowed, [true; THREADS],
            "{algorithm}, stamps {apart:?} apart"
        );
        assert!(
            !store.allow(0, latest),
            "{algorithm}: one more than the burst"
        );
    }
}

/// A call that is dated before the lock is taken finds a charge of its future now and then: a bucket that lacks more, as of
/// then, than its whole burst.
fn a_burst_is_allowed_whole_while_the_stamps_of_threads_race<S: Store>() {
    let calls = 20_000;
    let burst = calls * THREADS as u64;
    let store = S::new(
        TokenBucket::new(Quota::per_second(1_000_000_000))
            .with_burst(burst)
            .into(),
    );
    let allowed = at_once(|_| {
        (0..calls).all(|call| store.allow(0, Timestamp::from_millis(1_700_000_000_000 + call)))
    });
    assert_eq!(allowed, [true; THREADS]);
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
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no thread panics"))
            .collect()
    })
}

fn agree(call: Call, got: Answer, oracle: Answer) -> TestCaseResult {
    if got == oracle {
        return Ok(());
    }
    Err(TestCaseError::fail(format!(
        "{call:?}\n   got {got:?}\noracle {oracle:?}"
    )))
}

fn title<S>(promise: &str) -> String {
    format!("{promise} ({})", type_name::<S>())
}
