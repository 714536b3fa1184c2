//! Crowds: fairness beside loopers, thousands at once, and what is left of them.

use std::cell::Cell;
use std::time::Duration;

use tollgate::{
    Clock, Direct, FixedWindow, Keyed, LeakyBucket, Quota, SlidingLog, SlidingWindowCounter,
    TokenBucket,
};

use crate::faces::{Face, Rule, over_all};
use crate::sim::{START, Sim, clock, manual, ms, roll, went_at};

over_all! {
    loopers_and_one_large_request_all_get_their_share
}

/// Row 42, and its sibling with eight loopers.
///
/// The peers starve somebody here: governor's `until_n_ready(10)` never ends beside single waiters, and a fair semaphore
/// serves the task that was just served.
fn loopers_and_one_large_request_all_get_their_share<F: Face<L: Rule>>() {
    for loopers in [1_usize, 8] {
        let limit = F::of(F::L::of(Quota::new(10, ms(100)).unwrap()));
        assert!(
            limit.check(10, START).unwrap().is_allowed(),
            "no burst to begin with"
        );
        let (clock, key) = (clock(), F::KEY);
        let end = START + Duration::from_secs(10);
        let counts: Vec<Cell<u64>> = vec![Cell::new(0); loopers];
        let large = Cell::new((0_u64, Duration::ZERO));
        let waiting = manual(&limit, &clock);
        let mut sim = Sim::default();
        for count in &counts {
            let (waiting, clock, key) = (&waiting, &clock, &key);
            sim.spawn(async move {
                while clock.now() < end {
                    waiting.until_allowed(key).await.unwrap();
                    count.set(count.get() + 1);
                }
            });
        }
        {
            let (waiting, clock, key, large) = (&waiting, &clock, &key, &large);
            sim.spawn(async move {
                while clock.now() < end {
                    let came = clock.now();
                    waiting.until_allowed_n(key, 10).await.unwrap();
                    let (served, longest) = large.get();
                    let waited = clock.now().saturating_duration_since(came);
                    large.set((served + 1, longest.max(waited)));
                }
            });
        }
        sim.run_until(&clock, end);
        let counts: Vec<u64> = counts.iter().map(Cell::get).collect();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most - least <= 1, "{counts:?}");
        let (served, longest) = large.get();
        // In turn: each round is one for each looper and ten for the large one.
        assert!(served.abs_diff(*most) <= 1, "{served} beside {counts:?}");
        // Behind one of each looper and its own ten; of a window's, two windows more, for no window holds both.
        let implied = ms(10) * (loopers as u32 + 10);
        assert!(longest <= implied + ms(200), "{longest:?}");
    }
}

/// 100 per second, burst 1: the exact shares.
#[test]
fn a_bucket_gives_each_looper_its_share_to_the_unit() {
    let limiter = Direct::new(TokenBucket::new(Quota::per_second(100)).with_burst(10));
    assert!(limiter.check_n(10, START).unwrap().is_allowed());
    let clock = clock();
    let waiting = manual(&limiter, &clock);
    let end = START + Duration::from_secs(10);
    let counts: Vec<Cell<u64>> = vec![Cell::new(0); 8];
    let mut sim = Sim::default();
    for count in &counts {
        let (waiting, clock) = (&waiting, &clock);
        sim.spawn(async move {
            while clock.now() < end {
                waiting.until_allowed(&()).await.unwrap();
                count.set(count.get() + 1);
            }
        });
    }
    sim.run_until(&clock, START + ms(500));
    let (_, ten) = sim.wait(&clock, waiting.until_allowed_n(&(), 10));
    sim.run_until(&clock, end);
    // Behind the eight that wait already: 18 units at 100 per second.
    assert_eq!(went_at(&ten), Some(ms(500) + ms(180)));
    // 1 000 units in ten seconds, ten of them the large one's: 990 / 8 = 123.75 each.
    for count in &counts {
        let count = count.get();
        assert!((123..=125).contains(&count), "{counts:?}");
    }
}

const CROWD: usize = 10_000;

#[test]
fn ten_thousand_on_one_key_go_at_exactly_the_rate() {
    on_one_key(
        TokenBucket::new(Quota::per_second(1_000)).with_burst(1),
        |index| Duration::from_millis(1) * index,
    );
    on_one_key(LeakyBucket::new(Quota::per_second(1_000)), |index| {
        Duration::from_millis(1) * index
    });
    let a_thousand_each_second = |index| Duration::from_secs(1) * (index / 1_000);
    on_one_key(
        FixedWindow::new(Quota::per_second(1_000)),
        a_thousand_each_second,
    );
    on_one_key(
        SlidingLog::new(Quota::per_second(1_000)),
        a_thousand_each_second,
    );
}

/// Its releases thin out, for each window counts the one before it: so they are compared with a check at each instant.
#[test]
fn ten_thousand_on_one_counter_go_as_soon_as_it_allows() {
    let quota = Quota::per_second(1_000);
    let twin = Direct::new(SlidingWindowCounter::new(quota));
    let mut now = START;
    let mut times = Vec::new();
    while times.len() < CROWD {
        let decision = twin.check(now);
        if decision.is_allowed() {
            times.push(now.saturating_duration_since(START));
        } else {
            now += decision.retry_after();
        }
    }
    on_one_key(SlidingWindowCounter::new(quota), |index| {
        times[index as usize]
    });
}

fn on_one_key<L: tollgate::Limiter>(limiter: L, due: impl Fn(u32) -> Duration) {
    let store: Keyed<u64, L> = Keyed::new(limiter);
    let clock = clock();
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let told: Vec<_> = (0..CROWD)
        .map(|_| sim.wait(&clock, waiting.until_allowed(&7)))
        .collect();
    sim.run();
    let mut most = clock.sleepers();
    while clock.advance_to_next_sleeper().is_some() {
        sim.run();
        most = most.max(clock.sleepers());
    }
    assert_eq!(most, 1, "timers armed at a time");
    for (index, (_, told)) in told.iter().enumerate() {
        assert_eq!(went_at(told), Some(due(index as u32)), "{index}");
    }
    // Each is woken a few times, and not once for each who goes before it.
    let polls: usize = told.iter().map(|&(task, _)| sim.polls(task)).sum();
    assert!(polls < 6 * CROWD, "{polls} polls");
    assert_eq!(waiting.waiters(&7), 0);
}

#[test]
fn ten_thousand_keys_with_one_waiter_each_have_a_timer_each() {
    let store: Keyed<u64, _> = Keyed::new(TokenBucket::new(Quota::per_second(10)).with_burst(1));
    let clock = clock();
    let waiting = manual(&store, &clock);
    let keys: Vec<u64> = (0..CROWD as u64).collect();
    for key in &keys {
        assert!(store.allow(key, START));
    }
    let mut sim = Sim::default();
    let told: Vec<_> = keys
        .iter()
        .map(|key| sim.wait(&clock, waiting.until_allowed(key)).1)
        .collect();
    sim.run();
    assert_eq!(clock.sleepers(), CROWD);
    clock.advance(ms(99));
    sim.run();
    assert!(told.iter().all(|told| went_at(told).is_none()));
    clock.advance(ms(1));
    sim.run();
    assert!(told.iter().all(|told| went_at(told) == Some(ms(100))));
    assert_eq!(clock.sleepers(), 0);
}

/// What a crowd has taken is given back when it is gone: not a byte is left but the clients' own states.
#[test]
fn memory_returns_to_where_it_was() {
    let clock = clock();
    let store: Keyed<u64, _> = Keyed::new(TokenBucket::new(Quota::per_second(10)).with_burst(1));
    let keys: Vec<u64> = (0..CROWD as u64).collect();
    for key in &keys {
        assert!(store.allow(key, START));
    }
    let crowd = |on_one_key: bool| {
        let waiting = manual(&store, &clock);
        let mut sim = Sim::default();
        for key in &keys {
            let key = if on_one_key { &keys[0] } else { key };
            sim.wait(&clock, waiting.until_allowed(key));
        }
        sim.run_out(&clock);
        assert!((0..CROWD).all(|task| sim.is_done(task)));
    };
    // The first makes the registry itself.
    crowd(false);
    for on_one_key in [false, true] {
        let counted = allocation_counter::measure(|| crowd(on_one_key));
        assert!(counted.bytes_max > 1_000_000, "{counted:?}");
        assert!(counted.bytes_current.abs() < 4_096, "{counted:?}");
    }
}

#[test]
fn of_a_thousand_half_of_which_leave_exactly_the_other_half_is_spent() {
    for seed in 1..=20 {
        let store: Keyed<u64, _> =
            Keyed::new(TokenBucket::new(Quota::per_second(1_000)).with_burst(1_000));
        let clock = clock();
        assert!(store.check_n(&7, 1_000, START).unwrap().is_allowed());
        let waiting = manual(&store, &clock);
        let mut dice = seed;
        let mut sim = Sim::shaken(seed);
        let mut waiters: Vec<_> = (0..1_000)
            .map(|_| {
                let waiter = sim.wait(&clock, waiting.until_allowed(&7));
                if roll(&mut dice) % 4 == 0 {
                    sim.run(); // some have their place already, some have never been polled
                }
                waiter
            })
            .collect();
        let mut left = 0;
        while left < 500 {
            let index = (roll(&mut dice) % waiters.len() as u64) as usize;
            let (task, told) = &waiters[index];
            // One that has gone cannot leave any more.
            if told.borrow().is_none() {
                sim.drop_task(*task);
                waiters.swap_remove(index);
                left += 1;
            }
            if roll(&mut dice) % 8 == 0 {
                sim.run();
                sim.run_until(
                    &clock,
                    clock.now() + Duration::from_micros(roll(&mut dice) % 900),
                );
            }
        }
        sim.run_out(&clock);
        let gone = waiters
            .iter()
            .filter(|(_, told)| went_at(told).is_some())
            .count();
        assert_eq!(gone, 500);
        // Refilled since, but for what was spent.
        let passed_ms = clock.now().saturating_duration_since(START).as_millis() as u64;
        let stands = store.peek(&7, clock.now());
        assert_eq!(
            stands.remaining(),
            passed_ms.min(1_500) - 500,
            "seed {seed}"
        );
    }
}
