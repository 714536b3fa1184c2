//! What `Direct` and `Keyed` add to a rule: their time (promise 4), keys, forgetting, and calls from many threads.
//!
//! One check list again, over every holder; each draws its limiters from all five algorithms.

mod support;

use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use num_bigint::BigInt;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use support::histories::{Call, Clock, History, checks, histories};
use support::oracle::{Answer, Holder, Verdict, counted_from};
use support::specs::{Composed, Rule, SECOND, Subject, share, specs};
use support::stores::{Asking, KEYS, OneShard, Store, name};
use support::{cases, hold, promises, title};
use tollgate::{Algorithm, Keyed, Policy, Quota, Timestamp, TokenBucket};

const HISTORIES: u32 = 2_000;
/// Of those that start threads.
const RACES: u32 = 300;
const THREADS: usize = 4;
const NANO: Duration = Duration::from_nanos(1);
const EVERY: &[Algorithm] = &Algorithm::ALL;

promises! {
    direct: tollgate::Direct<tollgate::Policy>,
    keyed: tollgate::Keyed<String, tollgate::Policy>,
    one_shard: super::OneShard<tollgate::Policy>;

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

promises! {
    direct_of_several: tollgate::Direct<tollgate::All>,
    keyed_of_several: tollgate::Keyed<String, tollgate::All>,
    one_shard_of_several: super::OneShard<(tollgate::TokenBucket, tollgate::Policy)>,
    direct_on_trial: tollgate::Direct<tollgate::Shadow<tollgate::Policy>>,
    one_shard_on_trial: super::OneShard<(tollgate::Shadow<tollgate::Policy>, tollgate::FixedWindow)>;

    exact_at_the_holders_time
    check_each_is_told_at_the_holders_time
    retry_is_honest_by_the_callers_own_stamp
    calls_from_threads_behave_as_some_serial_order
}

fn exact_at_the_holders_time<S: Store>() {
    let promise = title::<S>("exact");
    let drawn = histories(S::Limiter::kind(), Clock::SetBack, S::KEYS_OF_ONE_TIME);
    hold(
        &promise,
        cases::<S::Limiter>(2 * HISTORIES),
        drawn,
        |history| {
            let store = S::new(S::Limiter::build(&history.limits[0]));
            let mut asking = Asking::of(&store, &history.limits);
            history.script().iter().try_for_each(|line| {
                let answer = asking.ask(line.number, line.call);
                agree(line.call, answer, line.answer)
            })
        },
    );
}

fn check_each_is_told_at_the_holders_time<S: Store>() {
    let promise = title::<S>("check_each");
    let drawn = histories(S::Limiter::kind(), Clock::SetBack, S::KEYS_OF_ONE_TIME);
    hold(&promise, cases::<S::Limiter>(HISTORIES), drawn, |history| {
        let store = S::new(S::Limiter::build(&history.limits[0]));
        let mut asking = Asking::of(&store, &history.limits);
        for (number, call, (mut holder, answer)) in holders(&history) {
            let Call::Check { key, cost, .. } = call else {
                asking.ask(number, call);
                continue;
            };
            let state = holder.state(key).clone();
            let expected = match answer {
                Answer::Never { .. } => Vec::new(),
                _ => {
                    let (counted, decided) = holder.time.read(call.now().as_nanos().into());
                    let each = state.each(decided, cost).into_iter();
                    let told = each.map(|it| counted_from(Answer::Decided(it), decided - counted));
                    told.collect()
                }
            };
            let mut told = Vec::new();
            let report = &mut |member, decision| {
                assert_eq!(member, told.len());
                told.push(Answer::Decided(Verdict::from(decision)));
            };
            let decision = store.check_each(key, cost, call.now(), report);
            asking.keep(number, &decision);
            agree(call, decision.into(), answer)?;
            prop_assert_eq!(told, expected, "{:?}", call);
        }
        Ok(())
    });
}

fn retry_is_honest_by_the_callers_own_stamp<S: Store>() {
    let promise = title::<S>("retry is honest");
    let drawn = histories(S::Limiter::kind(), Clock::SetBack, S::KEYS_OF_ONE_TIME);
    hold(&promise, cases::<S::Limiter>(HISTORIES), drawn, |history| {
        let store = S::new(S::Limiter::build(&history.limits[0]));
        let mut asking = Asking::of(&store, &history.limits);
        for line in history.script() {
            let (key, now) = (line.call.key(), line.call.now());
            let Answer::Decided(verdict) = asking.ask(line.number, line.call) else {
                continue;
            };
            prop_assert_eq!(verdict.allowed, verdict.retry_after == 0);
            // What is charged, or granted in part, is told when a single unit passes.
            let cost = match line.call {
                Call::Charge { .. } | Call::AtMost { .. } => 1,
                _ => line.call.cost(),
            };
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
    });
}

fn nobody_waits_for_a_clock_to_catch_up<S: Store<Limiter = Policy>>() {
    hold(
        &title::<S>("no wait for a clock"),
        HISTORIES,
        checks(Policy::kind(), Clock::SetBack, 1),
        |history| {
            let store = S::new(Policy::build(&history.limits[0]));
            let mut asking = Asking::of(&store, &history.limits);
            let spec = history.limits[0].rule();
            let longest = spec.longest_wait(spec.most()) + u128::from(10 * SECOND);
            for line in history.script() {
                if let Answer::Decided(verdict) = asking.ask(line.number, line.call) {
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
fn no_more_than_one_burst_is_gained_per_step_of_the_clock<S: Store<Limiter = Policy>>() {
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

/// Two holders: one is asked everything, the other only what leaves something behind. As long as the clock was not set
/// back (which any call may be the one to notice), nothing tells them apart.
fn denial_is_free<S: Store<Limiter = Policy>>() {
    hold(
        &title::<S>("denial is free"),
        HISTORIES,
        histories(Policy::kind(), Clock::Late, 1),
        |history| {
            let stores = [(); 2].map(|()| S::new(Policy::build(&history.limits[0])));
            let [mut asked, mut spared] =
                [0, 1].map(|store| Asking::of(&stores[store], &history.limits));
            let mut limits = &history.limits[0];
            for line in history.script() {
                let (key, now) = (line.call.key(), line.call.now());
                for free in [limits.rule().most(), 1] {
                    prop_assert!(asked.store.peek_n(key, free, now).is_ok());
                }
                let answer = asked.ask(line.number, line.call);
                if line.charged || !matches!(line.answer, Answer::Decided(_)) {
                    agree(line.call, answer, spared.ask(line.number, line.call))?;
                }
                if let Call::Change { to, .. } = line.call {
                    limits = &history.limits[to];
                }
            }
            Ok(())
        },
    );
}

/// Its costs add up to no more than the limit: whatever its stamps, it fits.
fn a_burst_is_allowed_whole_in_any_order_of_its_stamps<S: Store<Limiter = Policy>>() {
    hold(
        &title::<S>("a burst in any order"),
        HISTORIES,
        checks(Policy::kind(), Clock::SetBack, 1),
        |history| {
            let store = S::new(Policy::build(&history.limits[0]));
            let mut room = history.limits[0].rule().most();
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

fn a_cost_of_1_has_short_forms<S: Store<Limiter = Policy>>() {
    hold(
        &title::<S>("short forms"),
        HISTORIES,
        checks(Policy::kind(), Clock::SetBack, 1),
        |history| {
            let stores = [(); 3].map(|()| S::new(Policy::build(&history.limits[0])));
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
        histories(Policy::kind(), Clock::Forward, KEYS),
        |history| {
            let store = <Keyed<String, Policy>>::new(Policy::build(&history.limits[0]));
            let mut asking = Asking::of(&store, &history.limits);
            for line in history.script() {
                agree(line.call, asking.ask(line.number, line.call), line.answer)?;
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
        histories(Policy::kind(), Clock::SetBack, KEYS),
        vec(sweep, 5),
    );
    hold(
        "forgetting is invisible",
        HISTORIES,
        drawn,
        |(history, sweeps)| {
            let store = <OneShard<Policy> as Store>::new(Policy::build(&history.limits[0]));
            let mut asking = Asking::of(&store, &history.limits);
            let mut holder = Holder::new(&history.limits);
            for (line, sweep) in history.script().iter().zip(sweeps.iter().cycle()) {
                let oracle = holder.ask(line.number, line.call).answer;
                agree(line.call, asking.ask(line.number, line.call), oracle)?;
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

/// Each with what a peek tells; to look at them changes nothing.
#[test]
fn clients_are_those_who_are_not_idle() {
    hold(
        "clients",
        HISTORIES,
        histories(Policy::kind(), Clock::Late, KEYS),
        |history| {
            let store = <OneShard<Policy> as Store>::new(Policy::build(&history.limits[0]));
            let mut asking = Asking::of(&store, &history.limits);
            let mut holder = Holder::new(&history.limits);
            for line in history.script() {
                let oracle = holder.ask(line.number, line.call).answer;
                agree(line.call, asking.ask(line.number, line.call), oracle)?;
                let now = line.call.now();
                let (counted, decided) = holder.time.clone().read(now.as_nanos().into());
                let mut clients: Vec<_> = store
                    .clients(now)
                    .map(|(key, decision)| (key, Answer::from(decision)))
                    .collect();
                clients.sort_by(|one, other| one.0.cmp(&other.0));
                let mut busy: Vec<_> = (0..KEYS)
                    .filter(|key| holder.is_busy(*key, decided))
                    .map(|key| {
                        let peek = holder.state(key).peek(decided, 1);
                        (name(key).to_owned(), counted_from(peek, decided - counted))
                    })
                    .collect();
                busy.sort_by(|one, other| one.0.cmp(&other.0));
                prop_assert_eq!(clients, busy, "{:?}", line.call);
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
        histories(Policy::kind(), Clock::Forward, KEYS),
        |history| {
            let store = <Keyed<String, Policy>>::new(Policy::build(&history.limits[0]));
            let mut asking = Asking::of(&store, &history.limits);
            let mut limits = &history.limits[0];
            let mut charged = HashSet::new();
            for line in history.script() {
                let (key, now) = (line.call.key(), line.call.now());
                let most = limits.rule().most();
                let answers = [
                    store.check_n(name(key), 0, now),
                    store.peek_n(name(key), most, now),
                    Ok(store.at_most(name(key), 0, now)),
                    Ok(store.charge(name(key), 0, now)),
                ];
                prop_assert!(answers.iter().all(Result::is_ok));
                prop_assert!(store.check_n(name(key), most + 1, now).is_err());
                for (_, receipt) in asking.receipts.iter() {
                    // Nobody that is known has this name.
                    prop_assert_eq!(store.refund("nobody", receipt, now), 0);
                }
                asking.ask(line.number, line.call);
                match line.call {
                    Call::Reset { .. } => {
                        charged.remove(&key);
                        prop_assert!(!store.contains(name(key)) && !store.reset(name(key)));
                    }
                    Call::Change { to, .. } => limits = &history.limits[to],
                    _ if line.charged => {
                        charged.insert(key);
                        prop_assert!(store.contains(name(key)));
                    }
                    _ => {}
                }
                prop_assert!(store.len() <= charged.len());
                prop_assert!(store.is_empty() || !charged.is_empty());
            }
            Ok(())
        },
    );
}

fn threads_get_the_limit_and_never_more<S: Store<Limiter = Policy>>() {
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
fn mixed_costs_from_threads_add_up<S: Store<Limiter = Policy>>() {
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
    let promise = title::<S>("a serial order");
    let drawn = histories(S::Limiter::kind(), Clock::SetBack, S::KEYS_OF_ONE_TIME);
    hold(&promise, RACES, drawn, |history| {
        let store = S::new(S::Limiter::build(&history.limits[0]));
        let rules = || history.limits.iter().flat_map(Composed::rules);
        let has_queue = rules().any(|rule| rule.is_queue());
        let script = history.script();
        let moment = AtomicU64::new(0);
        let turns = at_once(|thread| {
            let mut asking = Asking::of(&store, &history.limits);
            let mine = script.iter().skip(thread).step_by(THREADS);
            mine.map(|line| {
                let (key, at, cost) = (line.call.key(), line.call.now().as_nanos(), 1);
                let call = match line.call {
                    // Nobody gives back what another has taken.
                    Call::Refund { of, .. } if of % THREADS != thread => {
                        Call::Peek { key, at, cost }
                    }
                    // Where a receipt of before names a place in the queue of after it is by chance.
                    Call::Change { .. } if has_queue => Call::Peek { key, at, cost },
                    call => call,
                };
                Heard {
                    number: line.number,
                    call,
                    begun: moment.fetch_add(1, Ordering::SeqCst),
                    answer: asking.ask(line.number, call),
                    ended: moment.fetch_add(1, Ordering::SeqCst),
                }
            })
            .collect::<Vec<_>>()
        });
        let holder = Holder::new(&history.limits);
        let explained = some_order_explains(holder, [0; THREADS], &turns, &mut HashSet::new());
        prop_assert!(explained, "{:#?}", turns);
        Ok(())
    });
}

/// What a thread asked and was told, and when on a clock of all threads. (Fields are evaluated in the order of an
/// expression's text.)
#[derive(Debug)]
struct Heard {
    number: usize,
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
                holder.ask(heard.number, heard.call).answer == heard.answer
                    && some_order_explains(holder, place, turns, seen)
            })
    })
}

/// With an instant in the state instead of a holder's time, one of the burst is refused whenever the later stamp wins.
fn a_burst_of_one_call_per_thread_is_allowed_whole<S: Store<Limiter = Policy>>() {
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
fn a_burst_is_allowed_whole_while_the_stamps_of_threads_race<S: Store<Limiter = Policy>>() {
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

/// The calls of a history with what the oracle was before each, and what it answers.
fn holders(history: &History) -> Vec<(usize, Call, (Holder, Answer))> {
    let mut holder = Holder::new(&history.limits);
    let lines = history.script().into_iter();
    let asked = lines.map(|line| {
        let before = holder.clone();
        let answer = holder.ask(line.number, line.call).answer;
        (line.number, line.call, (before, answer))
    });
    asked.collect()
}

fn agree(call: Call, got: Answer, oracle: Answer) -> TestCaseResult {
    if got == oracle {
        return Ok(());
    }
    Err(TestCaseError::fail(format!(
        "{call:?}\n   got {got:?}\noracle {oracle:?}"
    )))
}
