//! Evictions, plans, other limits, limits on trial and shaping beside those who wait.

use std::time::Duration;

use tollgate::wait::{WaitError, WhenQueueFull};
use tollgate::{
    Direct, FixedWindow, Keyed, LeakyBucket, Plans, Quota, Shadow, SlidingLog, TokenBucket,
};

use crate::sim::{START, Sim, clock, manual, ms, refused, roll, went_at};

fn one() -> TokenBucket {
    TokenBucket::new(Quota::per_second(1))
}

fn plans() -> Plans<TokenBucket> {
    Plans::new([
        ("free", TokenBucket::new(Quota::per_second(1))),
        ("premium", TokenBucket::new(Quota::per_second(1_000))),
    ])
    .unwrap()
}

/// Those who moved up when another was evicted were charged as of an instant that was past: fifteen of ten went in a second.
#[test]
fn who_moves_up_by_an_eviction_goes_now() {
    let store = Direct::new(SlidingLog::new(Quota::per_second(10)));
    let clock = clock();
    let _ = store.check_n(5, START).unwrap();
    let waiting = manual(&store, &clock)
        .with_max_waiters(2)
        .when_full(WhenQueueFull::EvictOldest);
    let mut sim = Sim::default();
    let (_, first) = sim.wait(&clock, waiting.until_allowed_n(&(), 10));
    let (_, second) = sim.wait(&clock, waiting.until_allowed_n(&(), 5));
    sim.run();
    clock.set(START + ms(900));
    let (_, third) = sim.wait(&clock, waiting.until_allowed_n(&(), 10));
    sim.run();
    assert!(matches!(refused(&first), Some(WaitError::Evicted)));
    assert_eq!(went_at(&second), Some(ms(900)));
    // Five went at 900 ms: until 1900 ms at most five more.
    sim.run_until(&clock, START + ms(1_899));
    assert_eq!(went_at(&third), None, "15 of 10 within a second");
}

/// A call that names another plan puts its client on it, allowed or refused: but not where it was refused for those who wait.
#[test]
fn a_refused_call_keeps_the_change_of_plan() {
    let (store, clock) = (Keyed::<u64, _>::new(plans()), clock());
    assert!(store.allow(&7, START));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, told) = sim.wait(&clock, waiting.until_allowed(&7));
    sim.run();
    let decision = store.check_as("premium", &7, START).unwrap();
    sim.run();
    assert_eq!(store.plan_of(&7), Some("premium".into()), "{decision:?}");
    assert_eq!(went_at(&told), Some(ms(0)));
}

/// And its cost was judged by the old plan: 500 of 1 000 were "never".
#[test]
fn a_cost_that_the_plan_grants_is_not_too_high() {
    let (store, clock) = (Keyed::<u64, _>::new(plans()), clock());
    assert!(store.allow(&7, START));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, _told) = sim.wait(&clock, waiting.until_allowed(&7));
    sim.run();
    let decision = store.check_n_as("premium", &7, 500, START);
    assert!(decision.is_ok(), "{decision:?}");
}

/// A limit changed for one that never grants what somebody waits for: it was told only when it came to the front.
#[test]
fn never_is_told_at_once_when_the_limit_changes() {
    let (store, clock) = (
        Direct::new(TokenBucket::new(Quota::per_second(10))),
        clock(),
    );
    let _ = store.check_n(10, START).unwrap();
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, _first) = sim.wait(&clock, waiting.until_allowed_n(&(), 2));
    let (_, never) = sim.wait(&clock, waiting.until_allowed_n(&(), 10));
    sim.run();
    store.set_limiter(TokenBucket::new(Quota::per_second(2)), START);
    sim.run();
    assert!(
        matches!(refused(&never), Some(WaitError::CostTooHigh(_))),
        "{:?}",
        never.borrow()
    );
}

/// What had been let in was remembered up to the cap on debt: with seven ahead of it one more was let in to a queue of two.
#[test]
fn a_full_queue_is_full_when_asked_again() {
    let store = Direct::new(LeakyBucket::new(Quota::per_second(1)).with_burst(2));
    let clock = clock();
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    for _ in 0..11 {
        sim.wait(&clock, waiting.until_allowed(&()));
    }
    sim.run();
    let (_, full) = sim.wait(&clock, waiting.shape(&()));
    sim.run();
    assert!(matches!(refused(&full), Some(WaitError::QueueFull(_))));
    sim.run_until(&clock, START + ms(3_000));
    assert_eq!(waiting.waiters(&()), 7);
    let (_, full) = sim.wait(&clock, waiting.shape(&()));
    sim.run();
    assert!(
        matches!(refused(&full), Some(WaitError::QueueFull(_))),
        "seven are before it, and there is room for two: {:?}",
        full.borrow()
    );
}

/// And of a window that was over: one was let in that then waited, where none does.
#[test]
fn who_is_let_in_by_a_window_does_not_wait() {
    let store = Direct::new(FixedWindow::new(Quota::per_second(10)));
    let clock = clock();
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    for _ in 0..5 {
        sim.wait(&clock, waiting.until_allowed_n(&(), 10));
    }
    sim.run();
    let (_, full) = sim.wait(&clock, waiting.shape_n(&(), 10));
    sim.run();
    assert!(matches!(refused(&full), Some(WaitError::QueueFull(_))));
    sim.run_until(&clock, START + ms(1_000));
    let (_, told) = sim.wait(&clock, waiting.shape_n(&(), 10));
    sim.run();
    assert!(
        matches!(refused(&told), Some(WaitError::QueueFull(_))),
        "{:?}",
        told.borrow()
    );
}

/// What it lets in is what a check admits, whatever came before.
#[test]
fn shaping_mixed_is_what_a_check_would_admit() {
    for seed in 1..1_000_u64 {
        let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let leaky = LeakyBucket::new(Quota::per_second(10)).with_burst(5);
        let (shaped, checked) = (Direct::new(leaky), Direct::new(leaky));
        let clock = clock();
        let waiting = manual(&shaped, &clock);
        let mut sim = Sim::default();
        let mut now = START;
        for step in 0..30 {
            now += Duration::from_nanos(roll(&mut dice) % 150_000_000);
            sim.run_until(&clock, now);
            let cost = 1 + roll(&mut dice) % 3;
            let (_, told) = sim.wait(&clock, waiting.shape_n(&(), cost));
            sim.run();
            let check = checked.check_n(cost, now).unwrap();
            assert_eq!(
                refused(&told).is_none(),
                check.is_allowed(),
                "seed {seed}, step {step}"
            );
        }
    }
}

/// One who need not wait went a second late, because somebody waited for another client of its shard.
#[test]
fn who_does_not_wait_has_no_jitter() {
    let (store, clock) = (
        Keyed::<u64, _>::new(TokenBucket::new(Quota::per_second(10))).with_max_keys(100),
        clock(),
    );
    let _ = store.check_n(&1, 10, START).unwrap();
    assert!(store.allow(&2, START));
    let waiting = manual(&store, &clock).with_jitter(|| Duration::from_secs(1));
    let mut sim = Sim::default();
    let (_, alone) = sim.wait(&clock, waiting.until_allowed(&2));
    sim.run();
    assert_eq!(went_at(&alone), Some(ms(0)), "nobody waits in the store");
    let (_, _first) = sim.wait(&clock, waiting.until_allowed(&1));
    let (_, other) = sim.wait(&clock, waiting.until_allowed(&2));
    sim.run_out(&clock);
    assert_eq!(
        went_at(&other),
        Some(ms(0)),
        "somebody waits for another client"
    );
}

/// A limit on trial let one wait for the delay that it would have had, and refused everyone behind it.
#[test]
fn a_limit_on_trial_refuses_nobody() {
    let store = Direct::new(Shadow::new(
        LeakyBucket::new(Quota::per_second(1)).with_burst(5),
    ));
    let clock = clock();
    assert!(store.allow(START));
    assert!(store.allow(START));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, told) = sim.wait(&clock, waiting.until_allowed(&()));
    sim.run();
    assert!(
        store.allow(START),
        "it lets every request pass, and waits: {:?}",
        told.borrow()
    );
}

/// The same beside a real limit.
#[test]
fn nor_does_it_beside_a_real_limit() {
    let store = Direct::new((
        TokenBucket::new(Quota::per_second(1_000)),
        Shadow::new(LeakyBucket::new(Quota::per_second(1)).with_burst(5)),
    ));
    let clock = clock();
    assert!(store.allow(START));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, told) = sim.wait(&clock, waiting.until_allowed(&()));
    sim.run();
    assert!(store.allow(START), "{:?}", told.borrow());
}

/// While somebody waited, `check_each` told of no limit at all.
#[test]
fn each_limit_is_told_of() {
    let store = Direct::new((one(), TokenBucket::new(Quota::per_minute(60))));
    let clock = clock();
    assert!(store.allow(START));
    let count = |store: &Direct<_>| {
        let mut told = 0;
        let _ = store.check_each(1, START, |_, _| told += 1).unwrap();
        told
    };
    assert_eq!(count(&store), 2);
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, _told) = sim.wait(&clock, waiting.until_allowed(&()));
    sim.run();
    assert_eq!(count(&store), 2);
}
