//! Bookings before a limit changes, and clients of one hash.

use crate::sim::{START, Sim, clock, manual, ms, refused, went_at};
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;
use tollgate::{Clock, Direct, Keyed, Quota, TokenBucket};

fn ten() -> TokenBucket {
    TokenBucket::new(Quota::per_second(10))
}

#[test]
fn another_limit_does_not_give_back_what_was_booked_after() {
    let store = Direct::new(ten());
    let _ = store.check_n(10, START).unwrap();
    let first = store.reserve(5, START, Duration::MAX).unwrap();
    store.reserve(5, START, Duration::MAX).unwrap().keep();
    store.set_limiter(
        TokenBucket::new(Quota::per_second(20)).with_burst(10),
        START,
    );
    // Five were booked after it.
    assert_eq!(first.cancel(START), 0);
}

/// After a cancelled booking behind others, and one that was kept.
#[test]
fn kept_bookings_are_charged_at_their_instant() {
    let store = Direct::new(ten());
    let clock = clock();
    let _ = store.check_n(10, START).unwrap();
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, told) = sim.wait(&clock, waiting.until_allowed_n(&(), 10));
    sim.run();
    let booked = store.reserve(5, START, Duration::MAX).unwrap();
    assert_eq!(booked.act_at(), START + ms(1_500));
    let act_at = booked.act_at();
    booked.keep();
    // The head leaves; who comes after the booking.
    sim.run_out(&clock);
    assert_eq!(went_at(&told), Some(ms(1_000)));
    let (_, told) = sim.wait(&clock, waiting.until_allowed_n(&(), 5));
    sim.run_out(&clock);
    assert_eq!(went_at(&told), Some(ms(2_000)));
    assert!(clock.now() >= act_at);
}

#[derive(Clone, Default)]
struct Same;
impl BuildHasher for Same {
    type Hasher = Zero;
    fn build_hasher(&self) -> Zero {
        Zero
    }
}
struct Zero;
impl Hasher for Zero {
    fn finish(&self) -> u64 {
        0
    }
    fn write(&mut self, _: &[u8]) {}
}

#[test]
fn two_keys_of_one_hash() {
    let store = Keyed::<u64, _, _>::with_hasher(ten(), Same);
    let clock = clock();
    for key in 0..4 {
        let _ = store.check_n(&key, 10, START).unwrap();
    }
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let tolds: Vec<_> = [0u64, 1, 2]
        .iter()
        .map(|key| {
            sim.wait(
                &clock,
                waiting.until_allowed_n(Box::leak(Box::new(*key)), 1 + key),
            )
            .1
        })
        .collect();
    sim.run();
    for key in 0..3 {
        assert_eq!(waiting.waiters(&key), 1);
        assert!(!store.allow(&key, START));
    }
    assert_eq!(waiting.waiters(&3), 0);
    store.set_limiter(
        TokenBucket::new(Quota::per_second(20)).with_burst(10),
        START,
    );
    store.reset(&1);
    sim.run();
    assert_eq!(went_at(&tolds[1]), Some(ms(0)));
    sim.run_out(&clock);
    assert_eq!(
        tolds
            .iter()
            .map(|t| went_at(t).unwrap())
            .collect::<Vec<_>>(),
        [ms(50), ms(0), ms(150)]
    );
    assert!(store.allow(&1, clock.now()));
    let _ = tolds.iter().map(refused).count();
}
