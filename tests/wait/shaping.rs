//! A leaky bucket's queue: in at once, out at the drain rate, or refused.

use std::time::Duration;

use tollgate::wait::WaitError;
use tollgate::{Clock, Direct, Keyed, LeakyBucket, Quota, TokenBucket};

use crate::sim::{START, Sim, clock, manual, ms, refused, went_at};

fn ten_with_room_for(burst: u64) -> LeakyBucket {
    LeakyBucket::new(Quota::per_second(10)).with_burst(burst)
}

#[test]
fn let_in_at_once_and_out_at_the_drain_rate() {
    let (shaper, clock) = (Direct::new(ten_with_room_for(4)), clock());
    let waiting = manual(&shaper, &clock);
    let mut sim = Sim::default();
    let told: Vec<_> = (0..6)
        .map(|_| sim.wait(&clock, waiting.shape(&())).1)
        .collect();
    sim.run();
    assert!(clock.sleepers() <= 1, "one timer for all of them");
    // Four are in: one of them goes at once, three wait. The others are refused at once.
    assert_eq!(waiting.waiters(&()), 3);
    for told in &told[4..] {
        let Some(WaitError::QueueFull(decision)) = refused(told) else {
            panic!("{told:?}");
        };
        assert_eq!(decision.retry_after(), ms(100), "when one has drained");
    }
    sim.run_out(&clock);
    let times: Vec<_> = told.iter().filter_map(went_at).collect();
    assert_eq!(times, [0, 100, 200, 300].map(ms));
}

/// What it admits is what a check admits, whatever comes when.
#[test]
fn as_many_are_let_in_as_a_check_admits() {
    for seed in 1..200_u64 {
        let mut dice = seed;
        let burst = 1 + crate::sim::roll(&mut dice) % 6;
        let (shaper, twin) = (
            Direct::new(ten_with_room_for(burst)),
            Direct::new(ten_with_room_for(burst)),
        );
        let clock = clock();
        let waiting = manual(&shaper, &clock);
        let mut sim = Sim::shaken(seed);
        for step in 0..40 {
            let cost = 1 + crate::sim::roll(&mut dice) % burst;
            let now = clock.now();
            let checked = twin.check_n(cost, now).unwrap();
            let (_, told) = sim.wait(&clock, waiting.shape_n(&(), cost));
            sim.run();
            let full = match refused(&told) {
                Some(WaitError::QueueFull(decision)) => Some(decision.retry_after()),
                other => {
                    assert!(other.is_none(), "{other:?}");
                    None
                }
            };
            let twin_full = (!checked.is_allowed()).then(|| checked.retry_after());
            assert_eq!(full, twin_full, "seed {seed}, step {step}");
            if checked.is_allowed() {
                // And it is let go when the twin's delay is over.
                let due = now + checked.delay();
                let went = went_at(&told);
                assert_eq!(went.is_some(), due == now, "seed {seed}, step {step}");
            }
            let step = Duration::from_millis(crate::sim::roll(&mut dice) % 250);
            sim.run_until(&clock, now + step);
        }
    }
}

/// One that gives up frees the drain for those behind it.
#[test]
fn who_leaves_makes_room_and_those_behind_move_up() {
    let (shaper, clock) = (Keyed::<u64, _>::new(ten_with_room_for(3)), clock());
    let waiting = manual(&shaper, &clock);
    let mut sim = Sim::default();
    let (_, first) = sim.wait(&clock, waiting.shape(&7));
    let (middle, _) = sim.wait(&clock, waiting.shape(&7));
    let (_, last) = sim.wait(&clock, waiting.shape(&7));
    sim.run();
    sim.drop_task(middle);
    let (_, new) = sim.wait(&clock, waiting.shape(&7));
    sim.run_out(&clock);
    let times = [first, last, new].map(|told| went_at(&told));
    assert_eq!(times, [0, 100, 200].map(|at| Some(ms(at))));
}

#[test]
fn never_is_an_error_and_a_bucket_of_tokens_has_no_queue() {
    let (shaper, clock) = (Direct::new(ten_with_room_for(3)), clock());
    let waiting = manual(&shaper, &clock);
    assert!(matches!(
        waiting.shape_n(&(), 4).block(),
        Err(WaitError::CostTooHigh(_))
    ));
    let bucket = Direct::new(TokenBucket::new(Quota::per_second(10)).with_burst(2));
    let waiting = manual(&bucket, &clock);
    assert!(waiting.shape_n(&(), 2).block().is_ok());
    assert!(matches!(
        waiting.shape(&()).block(),
        Err(WaitError::QueueFull(_))
    ));
    assert_eq!(bucket.peek(START).retry_after(), ms(100));
}
