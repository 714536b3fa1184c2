//! What a cancelled booking gives back, and how it stands beside those who wait.

use std::time::Duration;

use tollgate::{Clock, Direct, Quota, TokenBucket};

use crate::sim::{START, Sim, clock, manual, ms, went_at};

fn ten() -> TokenBucket {
    TokenBucket::new(Quota::per_second(10))
}

/// What the first gave back was taken for something booked after the second, which gave nothing back.
#[test]
fn cancelled_one_after_the_other_as_x_time_rate() {
    // x/time/rate: R1 (5), R2 (2). R1.Cancel: 5 - 2 = 3 come back. R2.Cancel: lastEvent is R2's, so all 2.
    let store = Direct::new(TokenBucket::new(Quota::per_second(10)));
    let _ = store.check_n(10, START).unwrap();
    let first = store.reserve(5, START, Duration::MAX).unwrap();
    let second = store.reserve(2, START, Duration::MAX).unwrap();
    assert_eq!(first.cancel(START), 3);
    assert_eq!(second.cancel(START), 2);
}

/// So was a refund of an earlier charge.
#[test]
fn a_refund_of_something_else_is_no_later_booking() {
    let store = Direct::new(TokenBucket::new(Quota::per_second(10)));
    let receipt = store.check_n(10, START).unwrap().receipt().unwrap();
    let booked = store.reserve(2, START, Duration::MAX).unwrap();
    assert_eq!(store.refund(receipt, START + ms(100)), 10);
    // Nobody booked after it, so both come back; of which the bucket lacks one only.
    assert_eq!(booked.cancel(START + ms(100)), 1);
    assert_eq!(store.peek(START + ms(100)).remaining(), 10);
}

/// With another limit it cannot be told what was booked after: it was taken for nothing, and units of others were given away.
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

/// A booking behind one who waits has its instant, and who comes later waits for it.
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
    sim.run_out(&clock);
    assert_eq!(went_at(&told), Some(ms(1_000)));
    let (_, told) = sim.wait(&clock, waiting.until_allowed_n(&(), 5));
    sim.run_out(&clock);
    assert_eq!(went_at(&told), Some(ms(2_000)));
    assert!(clock.now() >= act_at);
}

/// Nothing is always allowed, but a booking of nothing stood behind others.
#[test]
fn a_booking_of_nothing_does_not_wait() {
    let (store, clock) = (Direct::new(TokenBucket::new(Quota::per_second(1))), clock());
    assert!(store.allow(START));
    let waiting = manual(&store, &clock);
    let mut sim = Sim::default();
    let (_, _told) = sim.wait(&clock, waiting.until_allowed(&()));
    sim.run();
    assert!(store.check_n(0, START).unwrap().is_allowed());
    let booked = store.reserve(0, START, Duration::MAX).unwrap();
    assert_eq!(booked.act_at(), START);
}
