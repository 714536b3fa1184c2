//! Booking ahead, and giving back.

use std::time::Duration;

use tollgate::wait::{Book, WaitError, WhenQueueFull};
use tollgate::{Clock, Direct, Keyed, LeakyBucket, Quota, Timestamp, TokenBucket};

use crate::faces::Rule;
use crate::sim::{START, Sim, clock, manual, ms, refused, roll, went_at};

const LONG: Duration = Duration::from_secs(3_600);

fn two_of_ten() -> Direct<TokenBucket> {
    Direct::new(TokenBucket::new(Quota::per_second(10)).with_burst(2))
}

/// Row 39.
#[test]
fn a_reservation_that_is_cancelled_in_time_gives_its_place_back() {
    let limiter = two_of_ten();
    assert!(limiter.check_n(2, START).unwrap().is_allowed());
    let reservation = limiter.reserve(2, START, LONG).unwrap();
    assert_eq!(reservation.act_at(), START + ms(200));
    assert_eq!(reservation.units(), 2);
    assert_eq!(reservation.wait_from(START + ms(50)), ms(150));
    assert_eq!(reservation.cancel(START + ms(100)), 2);
    let again = limiter.reserve(2, START + ms(100), LONG).unwrap();
    assert_eq!(again.act_at(), START + ms(200));
    // Too late: it may have acted.
    assert_eq!(again.cancel(START + ms(201)), 0);
    assert_eq!(limiter.peek(START + ms(300)).remaining(), 1);
}

#[test]
fn dropped_it_is_cancelled_and_kept_it_stands() {
    let limiter: Keyed<String, _> =
        Keyed::new(TokenBucket::new(Quota::per_second(10)).with_burst(2));
    drop(limiter.reserve("ada", 2, START, LONG).unwrap());
    assert_eq!(limiter.peek("ada", START).remaining(), 2);
    limiter.reserve("ada", 2, START, LONG).unwrap().keep();
    assert_eq!(limiter.peek("ada", START).remaining(), 0);
    drop(limiter.reserve("ada", 2, START, LONG).unwrap());
    assert_eq!(limiter.peek("ada", START).debt(), 0);
    let held = limiter.reserve("ada", 2, START, LONG).unwrap();
    assert_eq!(limiter.peek("ada", START).debt(), 2, "{held:?}");
}

/// Row 40.
#[test]
fn a_wait_that_is_too_long_is_refused_and_changes_nothing() {
    let limiter = two_of_ten();
    limiter.reserve(2, START, LONG).unwrap().keep();
    let before = limiter.peek_n(2, START).unwrap();
    let short = ms(200) - Duration::from_nanos(1);
    let Err(WaitError::TooLong(decision)) = limiter.reserve(2, START, short) else {
        panic!("it would have to wait for 200 ms");
    };
    assert_eq!(decision.retry_after(), ms(200));
    assert_eq!(limiter.peek_n(2, START).unwrap(), before);
    let never = limiter.reserve(3, START, LONG);
    assert!(matches!(never, Err(WaitError::CostTooHigh(_))));
    assert_eq!(limiter.peek_n(2, START).unwrap(), before);
    limiter.reserve(2, START, ms(200)).unwrap().keep();
}

/// A leaky bucket's bookings are let go one after the other, at the drain rate.
#[test]
fn a_leaky_buckets_bookings_are_spaced() {
    let limiter = Direct::new(LeakyBucket::new(Quota::per_second(10)).with_burst(3));
    let acts: Vec<_> = [1, 2, 3, 1, 1]
        .into_iter()
        .map(|cost| {
            let reservation = limiter.reserve(cost, START, LONG).unwrap();
            let act_at = reservation.act_at();
            reservation.keep();
            act_at.saturating_duration_since(START)
        })
        .collect();
    assert_eq!(acts, [0, 100, 300, 600, 700].map(ms));
    let Err(WaitError::TooLong(decision)) = limiter.reserve(1, START, ms(799)) else {
        panic!("eight are before it");
    };
    assert_eq!(decision.retry_after(), ms(800));
}

/// Bookings and those who wait are one line.
#[test]
fn bookings_and_waiters_keep_one_order() {
    let (limiter, clock) = (two_of_ten(), clock());
    let waiting = manual(&limiter, &clock);
    limiter.reserve(2, START, LONG).unwrap().keep();
    limiter.reserve(1, START, LONG).unwrap().keep(); // 100 ms
    let mut sim = Sim::default();
    let (_, first) = sim.wait(&clock, waiting.until_allowed_n(&(), 2)); // 300 ms
    sim.run();
    let booked = limiter.reserve(1, START, LONG).unwrap(); // 400 ms
    assert_eq!(booked.act_at(), START + ms(400));
    let given_up = limiter.reserve(2, START, LONG).unwrap(); // 600 ms
    assert_eq!(given_up.act_at(), START + ms(600));
    let (_, last) = sim.wait(&clock, waiting.until_allowed(&())); // 700 ms
    sim.run();
    // Refused for what is before it, and nobody is the worse for it.
    let short = limiter.reserve(1, START, ms(799));
    assert!(matches!(short, Err(WaitError::TooLong(_))));
    assert_eq!(limiter.peek(START).retry_after(), ms(800));
    assert_eq!(given_up.cancel(START), 2);
    booked.keep();
    sim.run_out(&clock);
    assert_eq!(went_at(&first), Some(ms(300)));
    assert_eq!(went_at(&last), Some(ms(500)));
    // A booking is nobody that could be evicted, nor one that is told it is too late.
    assert!(refused(&last).is_none());
}

#[test]
fn a_booking_behind_others_that_is_dropped_gives_its_place_back() {
    let (limiter, clock) = (two_of_ten(), clock());
    let waiting = manual(&limiter, &clock);
    assert!(limiter.check_n(2, START).unwrap().is_allowed());
    let mut sim = Sim::default();
    let (_, first) = sim.wait(&clock, waiting.until_allowed(&()));
    sim.run();
    let booked = limiter.reserve(2, START, LONG).unwrap();
    let (_, last) = sim.wait(&clock, waiting.until_allowed(&()));
    sim.run();
    drop(booked);
    sim.run_out(&clock);
    assert_eq!(
        (went_at(&first), went_at(&last)),
        (Some(ms(100)), Some(ms(200)))
    );
}

/// Whoever booked was promised an instant: it does not give way to those who come later.
#[test]
fn a_booking_is_not_evicted() {
    let (limiter, clock) = (two_of_ten(), clock());
    let waiting = manual(&limiter, &clock)
        .with_max_waiters(2)
        .when_full(WhenQueueFull::EvictOldest);
    assert!(limiter.check_n(2, START).unwrap().is_allowed());
    let mut sim = Sim::default();
    let (_, first) = sim.wait(&clock, waiting.until_allowed(&()));
    sim.run();
    let booked = limiter.reserve(1, START, LONG).unwrap();
    let (_, second) = sim.wait(&clock, waiting.until_allowed(&()));
    sim.run();
    assert!(matches!(refused(&first), Some(WaitError::Evicted)));
    let (_, third) = sim.wait(&clock, waiting.until_allowed(&()));
    sim.run();
    assert!(matches!(refused(&second), Some(WaitError::Evicted)));
    booked.keep();
    sim.run_out(&clock);
    assert_eq!(went_at(&third), Some(ms(200)), "behind what was booked");
}

#[test]
fn a_store_without_room_says_so() {
    let limiter: Keyed<u64, _> =
        Keyed::new(TokenBucket::new(Quota::per_second(10))).with_max_keys(1);
    limiter.reserve(&1, 5, START, LONG).unwrap().keep();
    let refused = limiter.reserve(&2, 5, START, LONG);
    assert!(matches!(refused, Err(WaitError::StoreFull(_))));
    assert!(!limiter.contains(&2));
}

/// The end of what a state can hold, and of time, are refusals and not faults.
#[test]
fn what_no_state_can_hold_is_refused() {
    let most = Quota::MAX_LIMIT;
    let limiter = Direct::new(TokenBucket::new(Quota::per_second(1)).with_burst(most));
    limiter.reserve(most, START, Duration::MAX).unwrap().keep();
    let more = limiter.reserve(1, START, Duration::MAX);
    assert!(matches!(more, Err(WaitError::TooLong(_))));
    let limiter = two_of_ten();
    let end = Timestamp::MAX;
    limiter.reserve(2, end, Duration::MAX).unwrap().keep();
    let beyond = limiter.reserve(1, end, Duration::MAX);
    assert!(matches!(beyond, Err(WaitError::TooLong(_))));
}

#[test]
fn a_cost_of_nothing_books_nothing() {
    let limiter = two_of_ten();
    limiter.reserve(2, START, LONG).unwrap().keep();
    let nothing = limiter.reserve(0, START, Duration::ZERO).unwrap();
    assert_eq!((nothing.act_at(), nothing.units()), (START, 0));
    assert_eq!(nothing.cancel(START), 0);
}

/// Every booking's instant is that at which a request that comes after all before it would be let pass; and what is cancelled is as
/// if it had not been, for those who come after.
#[test]
fn bookings_are_exact() {
    exact::<TokenBucket>();
    exact::<LeakyBucket>();
}

fn exact<L: Rule + Book>() {
    for seed in 1..400 {
        let mut dice = seed * 0x9e37_79b9 + 1;
        let limit = 1 + roll(&mut dice) % 5;
        let period = Duration::from_nanos([7, 1_000, 1_000_003][(roll(&mut dice) % 3) as usize]);
        let rule = L::of(Quota::new(limit, period).unwrap());
        let (limiter, twin) = (Direct::new(rule.clone()), Direct::new(rule.clone()));
        let (clock, twins_clock) = (clock(), clock());
        let waiting = manual(&twin, &twins_clock);
        let mut sim = Sim::default();
        let mut told = Vec::new();
        for _ in 0..8 {
            let cost = 1 + roll(&mut dice) % limit;
            let booked = limiter.reserve(cost, START, LONG).unwrap();
            if roll(&mut dice) % 3 == 0 {
                assert_eq!(booked.cancel(START), cost, "seed {seed}");
                continue;
            }
            // The twin's waits in its queue, where nothing is spent ahead.
            told.push((
                booked.act_at(),
                sim.wait(&twins_clock, waiting.until_allowed_n(&(), cost)).1,
            ));
            booked.keep();
        }
        sim.run_out(&twins_clock);
        for (act_at, told) in told {
            assert_eq!(
                went_at(&told),
                Some(act_at.saturating_duration_since(START)),
                "seed {seed} {rule:?}"
            );
        }
        let end = clock.now() + period * 100;
        let left = |limiter: &Direct<L>| limiter.peek(end).remaining();
        assert_eq!(left(&limiter), left(&twin));
        assert!(rule.is_idle(&rule.fresh(end), end));
    }
}
