//! What waiting promises, over every rule and both holders.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tollgate::wait::{WaitError, WhenQueueFull};
use tollgate::{Clock, Quota, Timestamp};

use crate::faces::{Face, Rule, over_all};
use crate::sim::{START, Sim, clock, manual, ms, refused, went_at};

over_all! {
    whoever_comes_first_goes_first_whatever_it_costs
    nobody_overtakes_who_waits
    who_leaves_has_spent_nothing
    who_is_dropped_while_it_goes_gives_back
    who_is_never_polled_again_holds_up_nobody
    a_wait_that_is_too_long_is_refused_at_once_and_changes_nothing
    a_deadline_is_a_wait
    a_queue_that_is_full_refuses_the_newest
    a_queue_that_is_full_evicts_the_oldest_if_asked_to
    units_that_wait_are_bounded
    never_is_an_error_at_once
    who_cannot_be_in_time_any_more_is_told
    a_reset_lets_them_go
    a_refund_lets_them_go
    another_limit_is_the_one_they_wait_for
    a_cost_of_nothing_does_not_wait
}

/// Ten units per second, all of them at once.
fn ten<F: Face<L: Rule>>() -> F {
    F::of(F::L::of(Quota::per_second(10)))
}

/// The same, all of them spent.
fn spent<F: Face<L: Rule>>() -> F {
    let store = ten::<F>();
    assert!(store.check(10, START).unwrap().is_allowed());
    store
}

/// How long a request of `cost` waits alone.
fn turn_of<F: Face>(store: &F, cost: u64) -> Duration {
    turn_behind(store, 0, cost)
}

/// How long it waits behind one of `ahead`.
fn turn_behind<F: Face>(store: &F, ahead: u64, cost: u64) -> Duration {
    let (clock, key) = (clock(), F::KEY);
    let waiting = manual(store, &clock);
    let mut sim = Sim::default();
    let _ahead = sim.wait(&clock, waiting.until_allowed_n(&key, ahead));
    let (_, told) = sim.wait(&clock, waiting.until_allowed_n(&key, cost));
    sim.run_out(&clock);
    went_at(&told).unwrap()
}

/// Everything about a store that a later call can see.
fn stands<F: Face>(store: &F, now: Timestamp) -> Vec<(bool, u64, Duration, Duration)> {
    let look = |cost| {
        let decision = store.peek(cost, now).unwrap();
        let (retry, reset) = (decision.retry_after(), decision.reset_after());
        (decision.is_allowed(), decision.remaining(), retry, reset)
    };
    (0..=10).map(look).collect()
}

fn whoever_comes_first_goes_first_whatever_it_costs<F: Face<L: Rule>>() {
    let (store, clock, key) = (spent::<F>(), clock(), F::KEY);
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let told: Vec<_> = [1, 10, 1, 3, 1, 1]
        .map(|cost| sim.wait(&clock, waiting.until_allowed_n(&key, cost)).1)
        .into();
    sim.run_out(&clock);
    let times: Vec<_> = told.iter().map(|told| went_at(told).unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    // Ten cannot go beside the one before it: they need a second of their own at least.
    assert!(times[1] >= times[0] && times[1] >= ms(1_000), "{times:?}");
    assert!(times[5] > times[1], "{times:?}");
}

fn nobody_overtakes_who_waits<F: Face<L: Rule>>() {
    let (store, clock, key) = (ten::<F>(), clock(), F::KEY);
    assert!(store.check(6, START).unwrap().is_allowed());
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, large) = sim.wait(&clock, waiting.until_allowed_n(&key, 8));
    sim.run();
    assert!(clock.sleepers() > 0, "it waits");

    // There are units, but somebody is before them.
    assert!(!store.allow(START));
    assert!(!store.check(1, START).unwrap().is_allowed());
    assert_eq!(store.at_most(1, START).granted(), 0);
    assert_eq!(store.at_most(4, START).granted(), 0);
    assert!(!store.peek(1, START).unwrap().is_allowed());
    assert!(
        store.check(0, START).unwrap().is_allowed(),
        "nothing is always allowed"
    );

    // The wait that it is told counts those ahead: it holds to the nanosecond.
    let retry = store.peek(1, START).unwrap().retry_after();
    sim.run_until(&clock, START + retry - Duration::from_nanos(1));
    assert!(!store.peek(1, clock.now()).unwrap().is_allowed());
    sim.run_until(&clock, START + retry);
    assert!(went_at(&large).is_some_and(|at| at <= retry));
    assert!(store.allow(clock.now()));
}

fn who_leaves_has_spent_nothing<F: Face<L: Rule>>() {
    let (store, clock, key) = (spent::<F>(), clock(), F::KEY);
    let before = stands(&store, START);
    let waiting = manual(&store, &clock);
    for polls in 0..4 {
        let mut until = Box::pin(waiting.until_allowed_n(&key, 3));
        for _ in 0..polls {
            let polled = until.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
        }
        drop(until);
        assert_eq!(stands(&store, START), before, "dropped after {polls} polls");
        assert_eq!((clock.sleepers(), waiting.waiters(&key)), (0, 0));
    }
    // And in the middle: those behind it move up, those before it do not.
    let mut sim = Sim::default();
    let (_, first) = sim.wait(&clock, waiting.until_allowed_n(&key, 2));
    let (middle, _) = sim.wait(&clock, waiting.until_allowed_n(&key, 10));
    let (_, last) = sim.wait(&clock, waiting.until_allowed_n(&key, 2));
    sim.run();
    let behind = store.peek(1, START).unwrap().retry_after();
    sim.drop_task(middle);
    assert!(store.peek(1, START).unwrap().retry_after() < behind);
    sim.run_out(&clock);
    let (first, last) = (went_at(&first).unwrap(), went_at(&last).unwrap());
    assert!(first <= last, "{first:?} {last:?}");

    // As long as two that came alone.
    let alone = spent::<F>();
    let clock = crate::sim::clock();
    let waiting = manual(&alone, &clock);
    let mut sim = Sim::default();
    let both = [2, 2].map(|cost| sim.wait(&clock, waiting.until_allowed_n(&key, cost)).1);
    sim.run_out(&clock);
    let both = both.map(|told| went_at(&told).unwrap());
    assert_eq!([first, last], both);
}

/// Its turn has come, and it was never polled again: what was spent for it is given back.
fn who_is_dropped_while_it_goes_gives_back<F: Face<L: Rule>>() {
    let (store, clock, key) = (spent::<F>(), clock(), F::KEY);
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let turn = turn_of(&spent::<F>(), 10);
    let (gone, _) = sim.wait(&clock, waiting.until_allowed_n(&key, 10));
    sim.run();
    sim.forget(gone);
    sim.run_until(&clock, START + turn);
    assert!(
        !store.allow(clock.now()),
        "all was spent for it, at its turn or when anybody asks"
    );
    sim.drop_task(gone);
    assert_eq!(store.peek(0, clock.now()).unwrap().remaining(), 10);
}

fn who_is_never_polled_again_holds_up_nobody<F: Face<L: Rule>>() {
    for stuck in [1, 2, 3, 20] {
        let (store, clock, key) = (spent::<F>(), clock(), F::KEY);
        let waiting = manual(&store, &clock);
        let mut sim = Sim::default();
        for _ in 0..stuck {
            let (task, _) = sim.wait(&clock, waiting.until_allowed(&key));
            sim.poll(task);
            sim.forget(task);
        }
        let others: [_; 3] = std::array::from_fn(|_| {
            let told = sim.wait(&clock, waiting.until_allowed(&key)).1;
            sim.run();
            told
        });
        sim.run_until(&clock, START + ms(20_000));
        for (index, told) in others.iter().enumerate() {
            assert!(went_at(told).is_some(), "{index} behind {stuck}");
        }
    }
}

fn a_wait_that_is_too_long_is_refused_at_once_and_changes_nothing<F: Face<L: Rule>>() {
    let (store, clock, key) = (spent::<F>(), clock(), F::KEY);
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, first) = sim.wait(&clock, waiting.until_allowed_n(&key, 5));
    sim.run();
    let before = stands(&store, START);
    let turn = turn_behind(&spent::<F>(), 5, 5);

    // Behind those who wait already it would be too long, though alone it would not.
    let short = turn - Duration::from_nanos(1);
    let (_, told) = sim.wait(&clock, waiting.until_allowed_n(&key, 5).within(short));
    sim.run();
    let Some(WaitError::TooLong(decision)) = refused(&told) else {
        panic!("{told:?}");
    };
    assert_eq!(decision.retry_after(), turn);
    assert_eq!(stands(&store, START), before);
    assert_eq!(waiting.waiters(&key), 1);

    let (_, told) = sim.wait(&clock, waiting.until_allowed_n(&key, 5).within(turn));
    sim.run_out(&clock);
    assert!(went_at(&first).is_some());
    assert!(went_at(&told).is_some_and(|at| at <= turn));
}

fn a_deadline_is_a_wait<F: Face<L: Rule>>() {
    let (store, clock, key) = (spent::<F>(), clock(), F::KEY);
    let waiting = manual(&store, &clock);
    let turn = turn_of(&spent::<F>(), 3);
    let mut sim = Sim::default();
    let late = waiting
        .until_allowed_n(&key, 3)
        .by(START + turn - Duration::from_nanos(1));
    let (_, late) = sim.wait(&clock, late);
    let past = waiting.until_allowed_n(&key, 3).by(Timestamp::from_secs(1));
    let (_, past) = sim.wait(&clock, past);
    sim.run();
    assert!(matches!(refused(&late), Some(WaitError::TooLong(_))));
    assert!(matches!(refused(&past), Some(WaitError::TooLong(_))));
    assert_eq!(clock.sleepers(), 0);
    // A request that need not wait is none of a deadline's business.
    clock.advance(Duration::from_secs(60));
    let past = waiting.until_allowed_n(&key, 3).by(Timestamp::from_secs(1));
    let (_, past) = sim.wait(&clock, past);
    sim.run();
    assert!(went_at(&past).is_some());
}

fn a_queue_that_is_full_refuses_the_newest<F: Face<L: Rule>>() {
    let (store, clock, key) = (spent::<F>(), clock(), F::KEY);
    let waiting = manual(&store, &clock).with_max_waiters(2);
    let mut sim = Sim::default();
    let told: Vec<_> = (0..3)
        .map(|_| sim.wait(&clock, waiting.until_allowed(&key)).1)
        .collect();
    sim.run();
    let Some(WaitError::QueueFull(decision)) = refused(&told[2]) else {
        panic!("{told:?}");
    };
    assert_eq!(
        decision.retry_after(),
        store.peek(1, START).unwrap().retry_after()
    );
    sim.run_out(&clock);
    assert!(went_at(&told[0]).is_some() && went_at(&told[1]).is_some());
    // There is room again.
    let (_, told) = sim.wait(&clock, waiting.until_allowed_n(&key, 10));
    sim.run_out(&clock);
    assert!(went_at(&told).is_some());
}

fn a_queue_that_is_full_evicts_the_oldest_if_asked_to<F: Face<L: Rule>>() {
    let (store, clock, key) = (spent::<F>(), clock(), F::KEY);
    let waiting = manual(&store, &clock)
        .with_max_units(6)
        .when_full(WhenQueueFull::EvictOldest);
    let mut sim = Sim::default();
    let told: Vec<_> = [2, 3, 1]
        .map(|cost| sim.wait(&clock, waiting.until_allowed_n(&key, cost)).1)
        .into();
    sim.run();
    // More than the queue ever holds evicts nobody.
    let (_, much) = sim.wait(&clock, waiting.until_allowed_n(&key, 7));
    sim.run();
    assert!(matches!(refused(&much), Some(WaitError::QueueFull(_))));
    assert_eq!(waiting.waiters(&key), 3);
    // Three units need the two oldest to go, and not the third.
    let (_, newest) = sim.wait(&clock, waiting.until_allowed_n(&key, 3));
    sim.run();
    assert!(matches!(refused(&told[0]), Some(WaitError::Evicted)));
    assert!(told[1].borrow().is_none() || refused(&told[1]).is_some());
    let left = waiting.waiters(&key);
    sim.run_out(&clock);
    assert!(went_at(&newest).is_some() && went_at(&told[2]).is_some());
    // 2 gave way: 3 + 1 + 3 are still more than 6, so 3 gave way too.
    assert!(matches!(refused(&told[1]), Some(WaitError::Evicted)));
    assert_eq!(left, 2);
    // Nobody is evicted for one who would not wait so long.
    let clock = crate::sim::clock();
    let store = spent::<F>();
    let waiting = manual(&store, &clock)
        .with_max_waiters(1)
        .when_full(WhenQueueFull::EvictOldest);
    let mut sim = Sim::default();
    let (_, first) = sim.wait(&clock, waiting.until_allowed_n(&key, 1));
    sim.run();
    let hasty = waiting
        .until_allowed_n(&key, 1)
        .within(Duration::from_nanos(1));
    let (_, hasty) = sim.wait(&clock, hasty);
    sim.run_out(&clock);
    assert!(matches!(refused(&hasty), Some(WaitError::TooLong(_))));
    assert!(went_at(&first).is_some());
}

fn units_that_wait_are_bounded<F: Face<L: Rule>>() {
    let (store, clock, key) = (spent::<F>(), clock(), F::KEY);
    let waiting = manual(&store, &clock).with_max_units(5);
    let mut sim = Sim::default();
    let told: Vec<_> = [4, 2, 1, 1]
        .map(|cost| sim.wait(&clock, waiting.until_allowed_n(&key, cost)).1)
        .into();
    sim.run();
    let full = |index: usize| matches!(refused(&told[index]), Some(WaitError::QueueFull(_)));
    assert_eq!([0, 1, 2, 3].map(full), [false, true, false, true]);
}

fn never_is_an_error_at_once<F: Face<L: Rule>>() {
    let (store, clock, key) = (spent::<F>(), clock(), F::KEY);
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    // With others ahead, and without.
    for _ in 0..2 {
        let before = stands(&store, START);
        let (_, told) = sim.wait(&clock, waiting.until_allowed_n(&key, 11));
        sim.run();
        let Some(WaitError::CostTooHigh(never)) = refused(&told) else {
            panic!("{told:?}");
        };
        assert_eq!((never.cost(), never.most()), (11, 10));
        assert_eq!(stands(&store, START), before);
        let _ahead = sim.wait(&clock, waiting.until_allowed_n(&key, 1));
        sim.run();
    }
}

fn who_cannot_be_in_time_any_more_is_told<F: Face<L: Rule>>() {
    let (store, clock, key) = (spent::<F>(), clock(), F::KEY);
    let waiting = manual(&store, &clock);
    let turn = turn_behind(&spent::<F>(), 1, 1);
    let mut sim = Sim::default();
    let (_, patient) = sim.wait(&clock, waiting.until_allowed_n(&key, 1));
    let (_, hasty) = sim.wait(&clock, waiting.until_allowed_n(&key, 1).within(turn));
    sim.run();
    assert!(refused(&hasty).is_none(), "{hasty:?}");
    store.set_limiter(F::L::of(Quota::per_minute(10)), START);
    sim.run();
    let told = refused(&hasty);
    assert!(matches!(told, Some(WaitError::TooLong(_))), "{told:?}");
    sim.run_out(&clock);
    assert!(went_at(&patient).is_some_and(|at| at > turn));
}

fn a_reset_lets_them_go<F: Face<L: Rule>>() {
    let (store, clock, key) = (spent::<F>(), clock(), F::KEY);
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let told = [10, 10].map(|cost| sim.wait(&clock, waiting.until_allowed_n(&key, cost)).1);
    sim.run();
    store.reset();
    sim.run();
    assert_eq!(went_at(&told[0]), Some(Duration::ZERO));
    assert_eq!(went_at(&told[1]), None);
    sim.run_out(&clock);
    assert!(went_at(&told[1]).is_some());
}

fn a_refund_lets_them_go<F: Face<L: Rule>>() {
    let (store, clock, key) = (ten::<F>(), clock(), F::KEY);
    let receipt = store.check(10, START).unwrap().receipt().unwrap();
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let told = [4, 4, 4].map(|cost| sim.wait(&clock, waiting.until_allowed_n(&key, cost)).1);
    sim.run();
    assert_eq!(store.refund(receipt, START), 10);
    sim.run();
    assert_eq!(went_at(&told[0]), Some(Duration::ZERO));
    sim.run_out(&clock);
    assert!(told.iter().all(|told| went_at(told).is_some()));
}

fn another_limit_is_the_one_they_wait_for<F: Face<L: Rule>>() {
    let (store, clock, key) = (spent::<F>(), clock(), F::KEY);
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, one) = sim.wait(&clock, waiting.until_allowed_n(&key, 1));
    let (_, nine) = sim.wait(&clock, waiting.until_allowed_n(&key, 9));
    let (_, last) = sim.wait(&clock, waiting.until_allowed_n(&key, 1));
    sim.run();
    store.set_limiter(F::L::of(Quota::per_second(5)), START);
    sim.run_out(&clock);
    assert!(
        matches!(refused(&nine), Some(WaitError::CostTooHigh(_))),
        "{nine:?}"
    );
    assert!(went_at(&one) <= went_at(&last) && went_at(&one).is_some());
}

fn a_cost_of_nothing_does_not_wait<F: Face<L: Rule>>() {
    let (store, clock, key) = (spent::<F>(), clock(), F::KEY);
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let _ahead = sim.wait(&clock, waiting.until_allowed(&key));
    sim.run();
    let mut nothing = pin!(waiting.until_allowed_n(&key, 0));
    let polled = nothing
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_ready());
}
