//! Rows 1-32 of `EDGE_CASES.md`: inputs on which real limiters failed.
//!
//! Each test opens with the story of the fault and then tries its *kind*: over every algorithm it can
//! happen to, through the bare rule, `Direct` and `Keyed`, at the Unix epoch and in our own days.
//! Row 20 waits for refunds; of row 16 the Redis half waits for Redis.

#![cfg(feature = "std")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::{
    CostTooHigh, Decision, Direct, FixedWindow, Keyed, LeakyBucket, Limiter, Policy, Quota,
    SlidingLog, SlidingWindowCounter, Timestamp, TokenBucket,
};

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const SEC: u64 = 1_000 * MS;
const MIN: u64 = 60 * SEC;
const HOUR: u64 = 60 * MIN;
const DAY: u64 = 24 * HOUR;
const END: u64 = (1 << 63) - 1;
const MOST: u64 = Quota::MAX_LIMIT;

// ---------------------------------------------------------------------------------------------------
// Arithmetic
// ---------------------------------------------------------------------------------------------------

/// Whoever stores whole units drops the part of a unit that had already accrued at the last call.
#[test]
fn row_01_a_fraction_of_a_unit_is_carried() {
    each(&buckets(10, 100, 10), |f, what| {
        f.drain(0);
        f.must_allow(97, 9, what);
        f.must_deny(97, 1, what);
        f.must_deny(99, 1, what);
        f.must_allow(100, 1, what);
        f.must_deny(100, 1, what);
    });
    // The counter carries the fraction of the previous window's weight, with the same numbers.
    each(&[counter(10, 100)], |f, what| {
        f.must_allow(0, 10, what);
        f.must_allow(197, 9, what);
        f.must_deny(197, 1, what);
        f.must_deny(199, 1, what);
        f.must_allow(200, 1, what);
        f.must_deny(200, 1, what);
    });
    // Whoever takes all there is, at any instants, has taken exactly floor(t * L / P) by t.
    for (limit, period) in [
        (10, 100),
        (3, 10),
        (7, 1_000),
        (1_000, 7),
        (999_999_937, SEC),
        (1, 86_400),
    ] {
        each(&buckets(limit, period, MOST), |f, what| {
            f.must_allow(0, MOST, what);
            let (mut taken, mut t) = (0u128, 0u64);
            for step in irregular().take(300) {
                t += step % (3 * period) + 1;
                let there = f.room(t);
                f.must_allow(t, there, what);
                taken += u128::from(there);
                let exact = u128::from(t) * u128::from(limit) / u128::from(period);
                assert_eq!(taken, exact, "{what}: units taken by {t} ns");
            }
        });
    }
}

/// A wait that is rounded down sends the client back just before its unit is there.
#[test]
fn row_02_the_wait_is_rounded_up_to_the_nanosecond_that_grants() {
    each(&buckets(3, 10, 3), |f, what| {
        f.drain(0);
        assert_eq!(
            wait(f.refusal(0, 1, what)),
            4,
            "{what}: a third of ten nanoseconds, rounded up"
        );
        f.must_deny(3, 1, what);
        f.must_allow(4, 1, what);
    });
    // A queue's delay is such a wait too: three thirds of ten nanoseconds, each rounded up.
    each(&[leaky(3, 10, 3)], |f, what| {
        let delays = [0, 1, 2].map(|_| nanos(f.grant(0, 1, what).delay()));
        assert_eq!(delays, [0, 4, 7], "{what}: delays");
        assert_eq!(
            nanos(f.grant(8, 2, what).delay()),
            2,
            "{what}: 0.6 of a unit leaves in 2 ns"
        );
        assert_eq!(
            nanos(f.grant(8, 0, what).delay()),
            0,
            "{what}: nothing waits for nothing"
        );
    });
    for (limit, period) in [
        (3, 10),
        (7, 1_000),
        (11, 13),
        (1, 1),
        (5, 3),
        (7, SEC),
        (MOST, SEC),
        (999_983, DAY),
    ] {
        each(&every(limit, period), |f, what| {
            f.drain(period);
            for t in [period, period + 1, period + period / 3, 2 * period - 1] {
                for cost in [1, limit / 2 + 1, limit] {
                    f.must_be_honest(t, cost, what);
                }
            }
        });
    }
}

/// Spacing of 333 333 333 ns instead of a third of a second gives a client a unit too many every few years,
/// 333 333 334 ns a unit too few.
#[test]
fn row_03_three_per_second_for_a_million_seconds_is_three_million() {
    let quota = quota(3, SEC);
    let end = 1_000_000 * SEC;
    for burst in [2, 3, 10] {
        let bucket = TokenBucket::new(quota).with_burst(burst);
        let allowed = greed(&mut Rule::new(bucket, 0), end + 1);
        assert_eq!(allowed, 3_000_000 + burst, "burst {burst}");
    }
    let allowed = greed(&mut Rule::new(LeakyBucket::new(quota), 0), end + 1);
    assert_eq!(allowed, 3_000_003, "leaky bucket");
    // A bucket of one is full at a third of a nanosecond before it can be asked, and loses that much each time:
    // it grants every 333 333 334 ns, because nobody can ask in between.
    let bucket = TokenBucket::new(quota).with_burst(1);
    let allowed = greed(&mut Rule::new(bucket, 0), end + 1);
    assert_eq!(allowed, 1 + end / 333_333_334, "burst 1");
    // Through every face and every algorithm for a shorter while. The end is not asked any more.
    let end = 2_000 * SEC;
    each(&buckets(3, SEC, 5), |f, what| {
        assert_eq!(greed(f, end + 1), 6_000 + 5, "{what}");
    });
    each(&[grid(3, SEC), anchored(3, SEC), log(3, SEC)], |f, what| {
        assert_eq!(greed(f, end), 6_000, "{what}");
    });
    each(&[counter(3, SEC)], |f, what| {
        let allowed = greed(f, end);
        assert!(allowed <= 6_000, "{what}: {allowed} is more than the rate");
        assert!(
            allowed >= 3_000,
            "{what}: {allowed} is less than half the rate"
        );
    });
}

/// At 600 000 000 per second an interval of one (truncated) nanosecond is 1 000 000 000 per second.
#[test]
fn row_04_a_rate_that_does_not_divide_the_second_is_not_exceeded() {
    for limit in [600_000_000, 999_999_999, 700_000_001, 3, 7] {
        each(&every(limit, SEC), |f, what| {
            f.drain(0);
            let mut taken = 0;
            for step in 1..=1_000 {
                taken += f.drain(step * MS);
            }
            assert!(
                taken <= limit,
                "{what}: {taken} in the second after it was drained"
            );
            if !what.contains("Counter") {
                assert_eq!(taken, limit, "{what}: and not less either");
            }
        });
        // The same second, with one call at its end.
        each(&buckets(limit, SEC, MOST), |f, what| {
            f.must_allow(0, MOST, what);
            assert_eq!(f.drain(SEC), limit, "{what}");
            assert_eq!(f.drain(SEC), 0, "{what}");
        });
    }
}

/// More than one unit per nanosecond makes a zero of every truncated interval: unlimited, or a division by zero.
#[test]
fn row_05_more_than_a_unit_per_nanosecond_is_honoured_exactly() {
    each(&buckets(2 * SEC, SEC, 2 * SEC), |f, what| {
        f.drain(0);
        assert_eq!(
            wait(f.refusal(0, 1, what)),
            1,
            "{what}: half a nanosecond, rounded up"
        );
        assert_eq!(
            wait(f.refusal(0, 3, what)),
            2,
            "{what}: one and a half, rounded up"
        );
        f.must_deny(1, 3, what);
        f.must_allow(1, 2, what);
        f.must_deny(1, 1, what);
        f.must_allow(1 + 500, 1_000, what);
        f.must_deny(1 + 500, 1, what);
    });
    for (limit, period) in [
        (2 * SEC, SEC),
        (7, 2),
        (MOST, 1),
        (MOST, SEC),
        (10 * SEC + 1, SEC),
        (SEC + 1, SEC),
    ] {
        each(&every(limit, period), |f, what| {
            f.must_allow(period, limit, what);
            f.must_deny(period, 1, what);
            let waited = f.must_be_honest(period, 1, what);
            assert!(waited > 0, "{what}: a refusal without a wait");
            f.must_be_honest(period, limit, what);
        });
    }
}

/// A limiter that loses what accrued since the last poll starves a client that polls faster than it accrues.
#[test]
fn row_06_polling_neither_starves_nor_feeds_a_slow_limit() {
    // A denial is free, so the quiet hours need fewer polls: all of them are made around the moments that
    // matter, every thousandth elsewhere. The ignored twin below makes them all.
    for every_ms in [10, 100, 172] {
        each(&every(1, DAY), |f, what| {
            let allowed = poll_for_thirty_days(f, every_ms * MS, 1_000);
            assert_eq!(
                allowed,
                if what.contains("Counter") { 15 } else { 30 },
                "{what}: polled every {every_ms} ms"
            );
        });
    }
}

/// Row 6 with every single poll: about 300 million of them.
#[test]
#[ignore = "300 million calls, seconds in release: `cargo test --release --test edge_cases -- --ignored`"]
fn row_06_polling_with_every_single_poll() {
    for every_ms in [10, 100, 172] {
        let mut rule = Rule::new(TokenBucket::new(quota(1, DAY)), 0);
        assert_eq!(
            poll_for_thirty_days(&mut rule, every_ms * MS, 1),
            30,
            "polled every {every_ms} ms"
        );
    }
}

/// 1.5 ms kept as one millisecond is a rate half as high again; kept as two, a quarter too low.
#[test]
fn row_07_a_period_of_one_and_a_half_milliseconds_is_that_long() {
    let period = 1_500 * US;
    for burst in [10_000, 10_001, 50_000, MOST] {
        each(&buckets(1, period, burst), |f, what| {
            f.must_allow(0, burst, what);
            assert_eq!(
                f.room(15 * SEC - 1),
                9_999,
                "{what}: one nanosecond short of 15 s"
            );
            assert_eq!(f.drain(15 * SEC), 10_000, "{what}: 15 s idle");
            f.must_deny(15 * SEC, 1, what);
        });
    }
    each(&every(1, period), |f, what| {
        let expected = if what.contains("Counter") {
            5_000
        } else {
            10_000
        };
        assert_eq!(
            greed(f, 15 * SEC),
            expected,
            "{what}: asked without pause for 15 s"
        );
    });
}

/// A slow rate times a huge burst leaves the range of the type in which the wait is computed: a panic in
/// debug, an enormous gift in release.
#[test]
fn row_08_no_limit_period_or_burst_overflows() {
    for burst in [0, 1 << 63, u64::MAX] {
        let day = quota(1, DAY);
        assert!(
            TokenBucket::new(day).try_with_burst(burst).is_err(),
            "token bucket took a burst of {burst}"
        );
        assert!(
            LeakyBucket::new(day).try_with_burst(burst).is_err(),
            "leaky bucket took a burst of {burst}"
        );
    }
    let mut policies = Vec::new();
    for limit in [1, 3, u64::from(u32::MAX), MOST - 1, MOST] {
        for period in [1, 3, SEC, DAY, END, u64::MAX - 1, u64::MAX] {
            policies.extend(windows(limit, period));
            for burst in [1, 2, u64::from(u32::MAX), MOST - 1, MOST] {
                policies.extend(buckets(limit, period, burst));
            }
        }
    }
    for policy in policies {
        for start in [0, 1, 1_700_000_000 * SEC, END - 1, END, u64::MAX] {
            each_at(&[policy], &[0], |f, what| {
                let what = &format!("{what}, at {start} ns");
                let most = capacity(policy);
                f.ask(start, most + 1).expect_err(what);
                f.ask(start, u64::MAX).expect_err(what);
                let d = f.grant(start, most, what);
                assert_eq!(
                    (d.remaining(), d.limit()),
                    (0, policy.quota().limit()),
                    "{what}"
                );
                for cost in [1, most / 2 + 1, most] {
                    let d = f.refusal(start, cost, what);
                    assert!(wait(d) > 0, "{what}: cost {cost} is refused without a wait");
                    assert!(
                        wait(d) <= longest_wait(policy, cost),
                        "{what}: cost {cost} must wait for {:?}",
                        d.retry_after()
                    );
                    if is_bucket(policy) {
                        assert_eq!(wait(d), refill(policy, cost), "{what}: cost {cost}");
                        assert_eq!(nanos(d.reset_after()), refill(policy, most), "{what}");
                    }
                }
                // Whatever is asked afterwards answers, and gives nothing that was not there.
                for later in [start, start.saturating_add(1), END / 2, END, u64::MAX] {
                    let later = later.max(start);
                    let d = f.look(later, 1).expect(what);
                    assert!(
                        d.remaining() <= most,
                        "{what}: {} units of {most} at {later} ns",
                        d.remaining()
                    );
                    let _ = (d.retry_after(), d.reset_after(), d.delay(), d.limit());
                }
            });
        }
    }
}

/// Rates are often cast to 32 bits, where 2^32 per second is none at all and 2^32 + 5 is five.
#[test]
fn row_09_limits_beyond_32_bits_are_not_truncated() {
    for limit in [
        (1 << 32) - 1,
        1 << 32,
        (1 << 32) + 1,
        (1 << 33) + 5,
        (1 << 53) + 1,
        1 << 62,
        MOST,
    ] {
        each(&every(limit, SEC), |f, what| {
            let d = f.grant(0, 1, what);
            assert_eq!((d.limit(), d.remaining()), (limit, limit - 1), "{what}");
            let d = f.grant(0, limit - 6, what);
            assert_eq!(d.remaining(), 5, "{what}");
            f.must_allow(0, 5, what);
            f.must_deny(0, 1, what);
        });
        each(&buckets(limit, SEC, limit), |f, what| {
            f.drain(0);
            let exact = (u128::from(limit) * 7 / u128::from(SEC)) as u64;
            assert_eq!(f.room(7), exact, "{what}: after 7 ns");
        });
        each(&buckets(1, SEC, limit), |f, what| {
            f.drain(0);
            assert_eq!(
                wait(f.refusal(0, limit, what)),
                limit.saturating_mul(SEC),
                "{what}"
            );
        });
    }
}

/// Elapsed nanoseconds times the rate overflow after a long sleep, or at the very first call of a process
/// whose clock counts from far away.
#[test]
fn row_10_centuries_of_idleness_fill_the_bucket_and_no_more() {
    for (limit, period) in [
        (1, 1),
        (10, SEC),
        (1, DAY),
        (MOST, SEC),
        (MOST, 1),
        (7, 365 * DAY),
    ] {
        for drained in [0, 1, 1_000 * SEC] {
            each_at(&every(limit, period), &[0], |f, what| {
                f.must_allow(drained, limit, what);
                f.must_deny(drained, 1, what);
                for now in [END / 2, END - 1, END] {
                    let d = f.look(now, 0).expect(what);
                    assert_eq!(d.remaining(), limit, "{what}: at {now} ns");
                    assert_eq!(
                        d.reset_after(),
                        Duration::ZERO,
                        "{what}: as good as new at {now} ns"
                    );
                }
                f.must_allow(END, limit, what);
                f.must_deny(END, 1, what);
                f.must_deny(u64::MAX, 1, what);
            });
        }
        each_at(&every(limit, period), &[0], |f, what| {
            f.must_allow(END, limit, what);
            f.must_deny(END, 1, what);
        });
    }
    // A refill slower than time itself: half of it is there at the end.
    each_at(&buckets(2, u64::MAX, 2), &[0], |f, what| {
        f.must_allow(0, 2, what);
        f.must_deny(END - 1, 1, what);
        assert_eq!(
            f.room(END),
            0,
            "{what}: 2^63 - 1 of 2^64 - 1 ns are just less than half"
        );
    });
}

/// A look that writes back the floor of the level (and the time of the look) lets a watcher starve a client.
#[test]
fn row_11_looking_does_not_erase_what_accrues() {
    each(&buckets(3, 10, 3), |f, what| {
        f.drain(0);
        for t in 0..4 {
            assert!(!f.look(t, 1).expect(what).is_allowed(), "{what}: at {t} ns");
        }
        f.must_allow(4, 1, what);
    });
    // Beside an unwatched twin: the same decisions, whatever is looked at, asked for nothing, or refused.
    for (limit, period) in [(3, 10), (7, 100), (5, 61)] {
        for policy in every(limit, period) {
            each(&[policy], |watched, what| {
                let mut quiet = Rule::new(policy, 0);
                for t in 0..4 * period {
                    for cost in [0, 1, limit, limit + 1, u64::MAX] {
                        let _ = watched.look(t, cost);
                    }
                    let _ = (
                        watched.ask(t, 0),
                        watched.ask(t, limit + 1),
                        watched.ask(t, u64::MAX),
                    );
                    if t % 3 == 0 {
                        let cost = 1 + t % 2;
                        let (seen, plain) = (watched.ask(t, cost), quiet.ask(t, cost));
                        assert_eq!(seen.expect(what), plain.expect(what), "{what}: at {t} ns");
                    }
                }
            });
        }
    }
}

/// Taking whole units from a level and storing the integer throws the fraction away at each grant.
#[test]
fn row_12_the_fraction_stays_when_units_are_taken() {
    each(&buckets(10, 100, 10), |f, what| {
        f.drain(0);
        assert_eq!(f.room(27), 2, "{what}: 2.7 units");
        assert_eq!(f.grant(27, 2, what).remaining(), 0, "{what}: 0.7 of a unit");
        f.must_deny(29, 1, what);
        f.must_allow(30, 1, what);
        f.must_deny(30, 1, what);
    });
    each(&[counter(10, 100)], |f, what| {
        f.must_allow(0, 10, what);
        assert_eq!(f.room(127), 2, "{what}: 2.7 units");
        assert_eq!(
            f.grant(127, 2, what).remaining(),
            0,
            "{what}: 0.7 of a unit"
        );
        f.must_deny(129, 1, what);
        f.must_allow(130, 1, what);
        f.must_deny(130, 1, what);
    });
}

// ---------------------------------------------------------------------------------------------------
// Burst and cost
// ---------------------------------------------------------------------------------------------------

/// A burst of one that is read as "one beside the steady one" lets two through at the start.
#[test]
fn row_13_a_burst_of_one_is_one() {
    each(&every(1, MIN), |f, what| {
        let answers: Vec<bool> = (0..4)
            .map(|s| f.ask(s * SEC, 1).expect(what).is_allowed())
            .collect();
        assert_eq!(answers, [true, false, false, false], "{what}");
    });
    each(&buckets(60, HOUR, 1), |f, what| {
        let answers: Vec<bool> = (0..4)
            .map(|s| f.ask(s * SEC, 1).expect(what).is_allowed())
            .collect();
        assert_eq!(answers, [true, false, false, false], "{what}");
    });
}

/// What accrues while the bucket is almost full was added on top of the burst instead of being capped by it.
#[test]
fn row_14_idling_never_saves_more_than_the_burst() {
    each(&buckets(1, SEC, 10), |f, what| {
        f.must_allow(0, 1, what);
        let t = 8_900 * MS;
        assert_eq!(
            (0..30)
                .filter(|_| f.ask(t, 1).expect(what).is_allowed())
                .count(),
            10,
            "{what}"
        );
    });
    for spent in 1..=10 {
        for idle in [
            1,
            SEC - 1,
            SEC,
            3 * SEC,
            8_900 * MS,
            10 * SEC,
            11 * SEC,
            HOUR,
            DAY,
        ] {
            each(&buckets(1, SEC, 10), |f, what| {
                f.must_allow(0, spent, what);
                let expected = (10 - spent + idle / SEC).min(10);
                assert_eq!(
                    f.drain(idle),
                    expected,
                    "{what}: {spent} spent, {idle} ns idle"
                );
                f.must_deny(idle, 1, what);
            });
            each(&windows(10, 10 * SEC), |f, what| {
                f.must_allow(0, spent, what);
                let there = (0..30)
                    .filter(|_| f.ask(idle, 1).expect(what).is_allowed())
                    .count();
                assert!(
                    there <= 10,
                    "{what}: {there} at once after {spent} spent and {idle} ns idle"
                );
            });
        }
    }
}

/// A cap applied before the refill, or a unit granted "for the call itself", makes six of five.
#[test]
fn row_15_full_is_full_after_any_wait() {
    for capacity in [1, 5, 100] {
        for spent in [1, capacity / 2 + 1, capacity - 1, capacity] {
            for idle in [2 * SEC, 2 * SEC + 1, MIN, DAY, 10_000 * DAY] {
                each(&every(capacity, SEC), |f, what| {
                    f.must_allow(0, spent, what);
                    let d = f.look(idle, 0).expect(what);
                    assert_eq!(
                        d.remaining(),
                        capacity,
                        "{what}: {spent} spent, then {idle} ns"
                    );
                    let there = (0..capacity + 3)
                        .filter(|_| f.ask(idle, 1).expect(what).is_allowed())
                        .count();
                    assert_eq!(
                        there as u64, capacity,
                        "{what}: {spent} spent, then {idle} ns"
                    );
                });
            }
        }
    }
    // A refill to the nanosecond: a full one gives all, one nanosecond less does not.
    each(&buckets(1, SEC, 100), |f, what| {
        f.must_allow(0, 99, what);
        assert_eq!(f.room(99 * SEC - 1), 99, "{what}");
        assert_eq!(f.room(99 * SEC), 100, "{what}");
        assert_eq!(f.drain(100 * SEC), 100, "{what}");
        f.must_deny(100 * SEC, 1, what);
    });
}

/// A cost that can never fit was answered with a wait (after which it did not fit either), or emptied the
/// bucket, or wrote a state that made the next small request pass.
#[test]
fn row_16_a_cost_that_never_fits_is_an_error_and_stores_nothing() {
    for (limit, period) in [(10, SEC), (1, 1), (1, DAY), (MOST, u64::MAX)] {
        let mut policies = every(limit, period);
        policies.extend(buckets(limit, period, 5));
        for policy in policies {
            let most = capacity(policy);
            each(&[policy], |f, what| {
                for cost in [
                    most + 1,
                    most.saturating_mul(2),
                    most.saturating_mul(100),
                    u64::MAX,
                ] {
                    for refused in [f.ask(0, cost), f.look(0, cost)] {
                        let error = refused.expect_err(what);
                        assert_eq!((error.cost(), error.most()), (cost, most), "{what}");
                    }
                    assert_eq!(
                        f.room(0),
                        most,
                        "{what}: a fresh client after a cost of {cost}"
                    );
                }
                f.must_allow(0, most, what);
                let before = f.look(0, 1).expect(what);
                f.ask(0, most + 1).expect_err(what);
                f.ask(0, u64::MAX).expect_err(what);
                assert_eq!(
                    f.refusal(0, 1, what),
                    before,
                    "{what}: drained, after a cost that never fits"
                );
            });
            let store: Keyed<String, Policy> = Keyed::new(policy);
            for key in ["a", "b", "c"] {
                store
                    .check_n(key, most + 1, at(0))
                    .expect_err("more than it could ever grant");
                store
                    .peek_n(key, u64::MAX, at(0))
                    .expect_err("more than it could ever grant");
            }
            assert!(
                store.is_empty(),
                "{policy:?}: a cost that never fits created a key"
            );
        }
    }
}

/// "Never" by one: a cost of exactly the capacity fits a full bucket, so its wait is finite.
#[test]
fn row_17_the_whole_capacity_has_a_finite_wait() {
    for (limit, period) in [(10, SEC), (3, 10), (1, 1), (7, DAY), (MOST, SEC)] {
        let mut policies = every(limit, period);
        policies.extend(buckets(limit, period, 4));
        for policy in policies {
            each(&[policy], |f, what| {
                let start = period + period / 2;
                f.must_allow(start, capacity(policy), what);
                let waited = f.must_be_honest(start, capacity(policy), what);
                assert!(
                    waited <= longest_wait(policy, capacity(policy)),
                    "{what}: must wait for {waited} ns"
                );
                f.must_allow(start + waited, capacity(policy), what);
            });
        }
    }
}

/// A request for nothing was refused when nothing was left, created a client, or kept one alive.
#[test]
fn row_18_a_cost_of_zero_is_always_allowed_and_leaves_no_trace() {
    for (limit, period) in [(10, SEC), (1, 1), (1, DAY), (MOST, u64::MAX)] {
        each(&every(limit, period), |f, what| {
            assert_eq!(f.grant(0, 0, what).remaining(), limit, "{what}: fresh");
            f.drain(1);
            let (before, nothing) = (f.look(1, 1).expect(what), f.grant(1, 0, what));
            assert_eq!(nothing.remaining(), 0, "{what}: drained");
            assert_eq!(
                (wait(nothing), nothing.delay()),
                (0, Duration::ZERO),
                "{what}: nothing to wait for"
            );
            let half = nanos(before.reset_after()) / 2;
            f.must_allow(1 + half, 0, what);
            let left = nanos(before.reset_after()) - half;
            if before.reset_after() < Duration::from_nanos(u64::MAX)
                && 1 + half < END - 1_700_000_000 * SEC
            {
                assert_eq!(
                    nanos(f.look(1 + half, 0).expect(what).reset_after()),
                    left,
                    "{what}: its end has moved"
                );
            }
            assert_eq!(f.look(1, 1).expect(what), before, "{what}: it left a trace");
        });
        for policy in every(limit, period) {
            let store: Keyed<String, Policy> = Keyed::new(policy);
            for key in ["a", "b", "c"] {
                assert!(
                    store
                        .check_n(key, 0, at(0))
                        .expect("a cost of zero")
                        .is_allowed(),
                    "{policy:?}"
                );
                assert!(
                    store
                        .peek_n(key, 0, at(0))
                        .expect("a cost of zero")
                        .is_allowed(),
                    "{policy:?}"
                );
                assert!(store.peek(key, at(0)).is_allowed(), "{policy:?}");
            }
            assert!(
                store.is_empty(),
                "{policy:?}: a cost of zero, or a look, created a key"
            );

            let mut rule = Rule::new(policy, 0);
            rule.must_allow(0, 1, "charged");
            let idle_at = policy.idle_at(&rule.state);
            for t in [0, 1, period / 2] {
                rule.must_allow(t, 0, "a cost of zero");
                assert_eq!(
                    policy.idle_at(&rule.state),
                    idle_at,
                    "{policy:?}: a cost of zero at {t} ns moved its end"
                );
            }
        }
    }
    // An anchored window opens at the first charge, not at the first question.
    each(&[anchored(2, SEC)], |f, what| {
        f.must_allow(0, 0, what);
        f.must_allow(600 * MS, 2, what);
        f.must_deny(1_500 * MS, 1, what);
        f.must_allow(1_600 * MS, 2, what);
    });
}

/// The sum of count and cost wrapped, and the largest request of all was let through.
#[test]
fn row_19_count_plus_cost_does_not_wrap() {
    for limit in [1, 10, u64::from(u32::MAX), MOST] {
        for policy in every(limit, SEC) {
            each(&[policy], |f, what| {
                for used in [1, limit / 2, limit] {
                    f.ask(0, u64::MAX).expect_err(what);
                    let _ = f.ask(0, used.min(f.room(0))).expect(what);
                    let room = f.room(0);
                    // Costs that wrap to something small when the count is added to them.
                    for cost in [
                        u64::MAX,
                        u64::MAX - limit,
                        u64::MAX - limit + 1,
                        u64::MAX - used.max(1) + 1,
                        1 << 63,
                        limit + 1,
                    ] {
                        assert!(
                            f.ask(0, cost).is_err() && f.look(0, cost).is_err(),
                            "{what}: cost {cost} on {used}"
                        );
                    }
                    assert_eq!(f.room(0), room, "{what}: a huge cost changed something");
                }
                f.must_allow(0, f.room(0), what);
                f.must_deny(0, limit, what);
                f.must_deny(0, limit / 2 + 1, what);
            });
        }
    }
}

/// A refusal reported the full burst as left, because the level was computed for a fresh state.
#[test]
fn row_21_a_refusal_on_a_drained_client_has_nothing_remaining() {
    for (limit, period) in [(10, SEC), (1, DAY), (3, 10), (MOST, SEC)] {
        let mut policies = every(limit, period);
        policies.extend(buckets(limit, period, 50));
        for policy in policies {
            each(&[policy], |f, what| {
                f.must_allow(0, capacity(policy), what);
                for cost in [1, capacity(policy)] {
                    assert_eq!(
                        f.refusal(0, cost, what).remaining(),
                        0,
                        "{what}: cost {cost}"
                    );
                    assert_eq!(
                        f.look(0, cost).expect(what).remaining(),
                        0,
                        "{what}: a look, cost {cost}"
                    );
                }
                assert_eq!(f.room(0), 0, "{what}");
            });
        }
    }
    // Refused because the cost is too high for what is left: what is left is still said.
    each(&every(10, SEC), |f, what| {
        f.must_allow(0, 7, what);
        assert_eq!(f.refusal(0, 4, what).remaining(), 3, "{what}");
    });
}

// ---------------------------------------------------------------------------------------------------
// Clock
// ---------------------------------------------------------------------------------------------------

/// Each stamp that ran back set the state's time back, and the next one was paid for the same time again.
#[test]
fn row_22_stamps_that_run_back_are_not_paid_twice() {
    let stamps = [100, 0, 0, 0, 0, 100, 200].map(|ms| ms * MS);
    each_held(&buckets(10, SEC, 3), |f, what| {
        let answers = stamps.map(|t| f.ask(t, 1).expect(what).is_allowed());
        assert_eq!(
            answers,
            [true, true, true, false, false, false, true],
            "{what}"
        );
    });
    each_held(&windows(3, SEC), |f, what| {
        let answers = stamps.map(|t| f.ask(t, 1).expect(what).is_allowed());
        assert_eq!(
            answers,
            [true, true, true, false, false, false, false],
            "{what}"
        );
    });
    // To and fro as often as one likes: no more than time that only ran on would give.
    for step in [1, MS, 99 * MS, SEC, 9 * SEC] {
        let base = 10 * SEC;
        each_held(&every(3, 300 * MS), |f, what| {
            f.drain(base + step);
            for _ in 0..200 {
                f.must_deny(base, 1, what);
                f.must_deny(base + step, 1, what);
            }
        });
    }
}

/// Two threads read the clock, the later reading is applied first: either the other is refused although the
/// burst has room (the state only knows an instant), or it is paid for time that was already spent.
#[test]
fn row_23_the_order_of_arrival_gives_nothing_and_takes_nothing_of_a_burst() {
    // Five requests, a burst of five, in all 120 orders.
    let stamps = [0, 1, MS, 20 * MS, 21 * MS].map(|t| SEC + t);
    for order in permutations(5) {
        each_held(&every(5, HOUR), |f, what| {
            for &i in &order {
                f.must_allow(stamps[i], 1, &format!("{what}: in the order {order:?}"));
            }
            f.must_deny(stamps[4], 1, what);
            f.must_deny(stamps[0], 1, what);
        });
    }
    // For real: as many threads as the burst has units, each with its own stamp, and one asker too many.
    for policy in every(8, HOUR) {
        for round in 0..25 {
            let (direct, keyed) = (Direct::new(policy), Keyed::<String, Policy>::new(policy));
            let (barrier, allowed, stored) =
                (Barrier::new(8), AtomicU64::new(0), AtomicU64::new(0));
            std::thread::scope(|scope| {
                for i in 0..8u64 {
                    let (direct, keyed, barrier, allowed, stored) =
                        (&direct, &keyed, &barrier, &allowed, &stored);
                    scope.spawn(move || {
                        let now = at(MIN + (i * 37 + round) % 8 * MS);
                        barrier.wait();
                        allowed.fetch_add(u64::from(direct.allow(now)), Ordering::Relaxed);
                        stored.fetch_add(u64::from(keyed.allow("client", now)), Ordering::Relaxed);
                    });
                }
            });
            assert_eq!(
                allowed.into_inner(),
                8,
                "{policy:?} through Direct, round {round}"
            );
            assert_eq!(
                stored.into_inner(),
                8,
                "{policy:?} through Keyed, round {round}"
            );
            assert!(
                !direct.allow(at(MIN + 7 * MS)),
                "{policy:?}: a ninth through Direct, round {round}"
            );
            assert!(
                !keyed.allow("client", at(MIN + 7 * MS)),
                "{policy:?}: a ninth through Keyed, round {round}"
            );
        }
    }
    // Saturated: whoever asks at every hundredth of a second gets no more when the calls are shuffled.
    let in_order: Vec<u64> = (0..300).map(|i| 10 * SEC + i * 10 * MS).collect();
    for seed in 1..=20 {
        let shuffled = shuffle(&in_order, seed);
        for policy in [
            token(5, SEC, 5),
            leaky(5, SEC, 7),
            grid(5, SEC),
            anchored(5, SEC),
            log(5, SEC),
        ] {
            let mut straight = Held {
                direct: Direct::new(policy),
                origin: 0,
            };
            let most = count_allowed(&mut straight, &in_order);
            each_held(&[policy], |f, what| {
                let got = count_allowed(f, &shuffled);
                assert!(
                    got <= most,
                    "{what}: {got} out of order, {most} in order (seed {seed})"
                );
            });
        }
        // The counter forgives a window that was not used up, so its bound is the window's.
        let window: Vec<u64> = shuffled.iter().copied().filter(|t| t / SEC == 11).collect();
        each_held(&[counter(5, SEC)], |f, what| {
            assert_eq!(count_allowed(f, &window), 5, "{what} (seed {seed})");
        });
    }
}

/// An hour's step back left every client refused for that hour, or gave a full burst at each of many steps.
#[test]
fn row_24_a_clock_set_back_costs_no_wait_and_gives_no_feast() {
    // 100 s, 98 s, 100 s, 98 s, …: late stamps, not a clock set back.
    each_held(&every(1, SEC), |f, what| {
        let stamps: Vec<u64> = (0..1_000)
            .map(|i| if i % 2 == 0 { 100 * SEC } else { 98 * SEC })
            .collect();
        assert_eq!(count_allowed(f, &stamps), 1, "{what}");
    });

    let (then, back) = (10 * HOUR, 9 * HOUR);
    for (limit, period) in [(10, SEC), (1, MIN), (100, MIN), (7, HOUR)] {
        for policy in every(limit, period) {
            each_held(&[policy], |f, what| {
                f.drain(then);
                let d = f.refusal(back, 1, what);
                assert!(
                    wait(d) <= longest_wait(policy, 1),
                    "{what}: must wait for {:?}",
                    d.retry_after()
                );
                f.must_be_honest(back, 1, what);
                f.must_be_honest(back, limit, what);
                assert_eq!(f.drain(back), 0, "{what}: the step itself gave something");

                // From there on time goes on as if nothing had happened: the same as a steady clock shows.
                let mut steady = Rule::new(policy, 0);
                steady.drain(then);
                for step in strides(200, period / 3) {
                    let (seen, plain) = (
                        f.ask(back + step, 1).expect(what),
                        steady.ask(then + step, 1).expect(what),
                    );
                    assert_eq!(seen, plain, "{what}: {step} ns after the step");
                }
            });
            // Step after step, and as much as can be had at each: at most one burst per step.
            each_held(&[policy], |f, what| {
                f.drain(then);
                for step in 1..=8 {
                    let gained = f.drain(then - step * HOUR);
                    assert!(gained <= limit, "{what}: {gained} gained at step {step}");
                    let waited = wait(f.refusal(then - step * HOUR, 1, what));
                    assert!(
                        waited <= longest_wait(policy, 1),
                        "{what}: must wait for {waited} ns at step {step}"
                    );
                }
            });
        }
    }

    // Ten seconds are late, a nanosecond more is a step; waits count from the caller's own stamp.
    for policy in every(3, 3 * SEC) {
        for late in [1, 3 * SEC, 10 * SEC - 1, 10 * SEC] {
            each_held(&[policy], |f, what| {
                f.drain(then);
                let here = wait(f.refusal(then, 1, what));
                assert_eq!(
                    wait(f.refusal(then - late, 1, what)),
                    here + late,
                    "{what}: {late} ns late"
                );
                f.must_be_honest(then - late, 1, what);
                assert_eq!(
                    wait(f.refusal(then, 1, what)),
                    here,
                    "{what}: {late} ns late moved the clock"
                );
            });
        }
        each_held(&[policy], |f, what| {
            f.drain(then);
            let here = wait(f.refusal(then, 1, what));
            let stepped = then - 10 * SEC - 1;
            assert_eq!(
                wait(f.refusal(stepped, 1, what)),
                here,
                "{what}: a step of 10 s and 1 ns"
            );
            f.must_be_honest(stepped, 1, what);
        });
        // A look notices the step too.
        each_held(&[policy], |f, what| {
            f.drain(then);
            let here = wait(f.refusal(then, 1, what));
            assert_eq!(
                wait(f.look(then - HOUR, 1).expect(what)),
                here,
                "{what}: seen by a look"
            );
            assert_eq!(
                wait(f.refusal(then - HOUR, 1, what)),
                here,
                "{what}: seen by a look, then asked"
            );
            f.must_allow(then - HOUR + here, 1, what);
        });
    }
}

/// One wild reading a day ahead wrote the day into the state, and the client was refused until it came.
#[test]
fn row_25_a_jump_forward_and_back_is_survived() {
    let then = 10 * DAY;
    for (limit, period) in [(10, SEC), (1, MIN), (100, HOUR), (7, 4 * HOUR)] {
        for policy in every(limit, period) {
            each_held(&[policy], |f, what| {
                f.drain(then);
                assert_eq!(
                    f.drain(then + DAY),
                    limit,
                    "{what}: one burst for the step forward"
                );
                let gained = f.drain(then + SEC);
                assert!(gained <= limit, "{what}: {gained} gained by the step back");
                let d = f.refusal(then + SEC, 1, what);
                assert!(
                    wait(d) <= longest_wait(policy, 1),
                    "{what}: must wait for {:?}",
                    d.retry_after()
                );
                f.must_be_honest(then + SEC, 1, what);

                let mut steady = Rule::new(policy, 0);
                steady.drain(then + DAY);
                for step in strides(200, period / 3) {
                    let (seen, plain) = (
                        f.ask(then + SEC + step, 1).expect(what),
                        steady.ask(then + DAY + step, 1).expect(what),
                    );
                    assert_eq!(seen, plain, "{what}: {step} ns after the step back");
                }
            });
            each_held(&[policy], |f, what| {
                let mut total = 0;
                for jump in 0..6 {
                    total += f.drain(then + jump * MS) + f.drain(then + DAY + jump * MS);
                }
                assert!(total <= 12 * limit, "{what}: {total} in twelve steps");
            });
        }
    }
    // A jump that charged nothing leaves nothing: only charges move the holder's time.
    for policy in every(1, 3 * DAY) {
        each_held(&[policy], |f, what| {
            f.drain(then);
            let before = f.look(then + SEC, 1).expect(what);
            f.must_deny(then + DAY, 1, what);
            let _ = (
                f.look(then + DAY, 1),
                f.ask(then + DAY, 0),
                f.ask(then + DAY, 2),
            );
            assert_eq!(
                f.refusal(then + SEC, 1, what),
                before,
                "{what}: after a refused jump"
            );
        });
    }
}

/// Catching up window by window after a month of silence takes 2.6 billion turns of a loop.
#[test]
fn row_26_a_month_of_silence_costs_no_more_than_a_millisecond() {
    // No clock is needed to see it: 3 000 months of a millisecond's windows would take hours.
    let month = 30 * DAY;
    let mut policies = every(5, MS);
    policies.extend(every(5, 1));
    policies.extend(buckets(1, MS, 5));
    policies.push(
        SlidingLog::new(quota(5, MS))
            .with_resolution(Duration::from_nanos(10 * US))
            .into(),
    );
    each_at(&policies, &[0], |f, what| {
        for i in 0..3_000 {
            let now = i * month + i % 7;
            assert_eq!(f.drain(now), 5, "{what}: month {i}");
            f.must_deny(now, 1, what);
        }
    });
}

// ---------------------------------------------------------------------------------------------------
// Windows and logs
// ---------------------------------------------------------------------------------------------------

/// The wait was taken as the time to the window's end, although the previous window's weight frees a unit much sooner.
#[test]
fn row_27_the_counter_waits_for_the_weight_that_frees_a_unit() {
    each(&[counter(60, MIN)], |f, what| {
        f.must_allow(30 * SEC, 60, what);
        f.must_allow(MIN + 12 * SEC, 12, what);
        assert_eq!(
            wait(f.refusal(MIN + 12 * SEC, 1, what)),
            SEC,
            "{what}: not 48 s"
        );
        f.must_be_honest(MIN + 12 * SEC, 1, what);
        for cost in 1..=60 {
            let waited = f.must_be_honest(MIN + 12 * SEC, cost, what);
            // Up to 48 units the previous window pays, one a second; after that the current one must age.
            let expected = if cost <= 48 {
                cost * SEC
            } else {
                48 * SEC + (cost - 48) * 5 * SEC
            };
            assert_eq!(waited, expected, "{what}: cost {cost}");
        }
    });
    let shifted = SlidingWindowCounter::new(quota(60, MIN)).with_offset(Duration::from_secs(7));
    each(&[shifted.into()], |f, what| {
        f.must_allow(37 * SEC, 60, what);
        f.must_allow(MIN + 19 * SEC, 12, what);
        assert_eq!(wait(f.refusal(MIN + 19 * SEC, 1, what)), SEC, "{what}");
    });
}

/// An estimate of nine and a half was floored to nine, and the eleventh half of a unit let in.
#[test]
fn row_28_the_counter_does_not_floor_its_estimate() {
    each(&[counter(10, MIN)], |f, what| {
        f.must_allow(0, 9, what);
        let half = MIN + 30 * SEC;
        f.must_allow(half, 5, what);
        let d = f.refusal(half, 1, what);
        assert_eq!(d.remaining(), 0, "{what}: half a unit is none");
        // 9 * (1 - x) + 5 = 9 at x = 5/9 of the minute, which is not a whole nanosecond.
        assert_eq!(half + wait(d), MIN + (5 * MIN).div_ceil(9), "{what}");
        f.must_be_honest(half, 1, what);
    });
    // Every fraction, however near to a whole: one nanosecond before the unit is whole it is refused.
    for previous in 1..=10u64 {
        each(&[counter(10, 997)], |f, what| {
            f.must_allow(0, previous, what);
            for e in 0..997 {
                let exact = (10 * 997 - previous * (997 - e)) / 997;
                assert_eq!(
                    f.room(997 + e),
                    exact,
                    "{what}: {previous} before, {e} ns in"
                );
                assert!(
                    !f.look(997 + e, exact + 1).is_ok_and(|d| d.is_allowed()),
                    "{what}: {e} ns in"
                );
            }
        });
    }
}

/// Two seconds after ten hits in a window's last second the floored estimate let an eleventh in.
#[test]
fn row_29_the_counter_remembers_the_last_second_of_the_window_before() {
    each(&[counter(10, MIN)], |f, what| {
        for _ in 0..10 {
            f.must_allow(59 * SEC, 1, what);
        }
        let asked = 61 * SEC;
        assert_eq!(
            (0..20)
                .filter(|_| f.ask(asked, 1).expect(what).is_allowed())
                .count(),
            0,
            "{what}"
        );
        assert_eq!(
            wait(f.refusal(asked, 1, what)),
            5 * SEC,
            "{what}: a tenth of the minute after its start"
        );
        f.must_be_honest(asked, 1, what);
    });
    // The log forgets nothing either; only the fixed window starts anew (that is its known trap).
    each(&[log(10, MIN)], |f, what| {
        f.must_allow(59 * SEC, 10, what);
        assert_eq!(wait(f.refusal(61 * SEC, 1, what)), 58 * SEC, "{what}");
    });
    each(&[grid(10, MIN)], |f, what| {
        f.must_allow(59 * SEC, 10, what);
        f.must_allow(61 * SEC, 10, what);
    });
    each(&[anchored(10, MIN)], |f, what| {
        f.must_allow(59 * SEC, 10, what);
        assert_eq!(wait(f.refusal(61 * SEC, 1, what)), 58 * SEC, "{what}");
    });
}

/// The wait was counted from the newest entry, or for one unit whatever the request cost.
#[test]
fn row_30_the_log_waits_for_the_entry_that_frees_enough() {
    each(&[log(2, MIN)], |f, what| {
        f.must_allow(0, 1, what);
        f.must_allow(SEC, 1, what);
        assert_eq!(
            wait(f.refusal(2 * SEC, 1, what)),
            58 * SEC,
            "{what}: the oldest"
        );
        assert_eq!(
            wait(f.refusal(2 * SEC, 2, what)),
            59 * SEC,
            "{what}: both must go"
        );
        f.must_be_honest(2 * SEC, 1, what);
        f.must_be_honest(2 * SEC, 2, what);
    });
    each(&[log(10, MIN)], |f, what| {
        for (second, units) in [(0, 2), (10, 1), (20, 4), (30, 3)] {
            f.must_allow(second * SEC, units, what);
        }
        let now = 40 * SEC;
        for cost in 1..=10 {
            let second = match cost {
                1..=2 => 0,
                3 => 10,
                4..=7 => 20,
                _ => 30,
            };
            assert_eq!(
                f.must_be_honest(now, cost, what),
                second * SEC + MIN - now,
                "{what}: cost {cost}"
            );
        }
    });
}

/// Entries keyed by their time overwrote one another, refused hits were logged too, and a big cost was a big list.
#[test]
fn row_31_the_log_counts_units_and_stores_runs() {
    for resolution in [1, MS, SEC, MIN] {
        let coarse: Policy = SlidingLog::new(quota(5, MIN))
            .with_resolution(Duration::from_nanos(resolution))
            .into();
        each(&[coarse], |f, what| {
            for left in (0..5).rev() {
                assert_eq!(f.grant(7 * SEC, 1, what).remaining(), left, "{what}");
            }
            for _ in 0..100 {
                f.must_deny(8 * SEC, 1, what);
            }
            assert_eq!(f.room(7 * SEC + MIN - 1), 0, "{what}");
            assert_eq!(
                f.room(7 * SEC + MIN),
                5,
                "{what}: refused hits left something"
            );
        });
    }
    // Memory: a million units at once, or refused a million times, are as small as one.
    let limiter = SlidingLog::new(quota(10_000_000, MIN));
    let mut one = Rule::new(limiter, 0);
    one.must_allow(0, 1, "one unit");
    let small = limiter.state_bytes(&one.state);
    let mut many = Rule::new(limiter, 0);
    many.must_allow(0, 1_000_000, "a million at once");
    assert!(
        limiter.state_bytes(&many.state) <= small,
        "a cost of a million takes more memory than a cost of one"
    );
    for _ in 0..1_000 {
        many.must_allow(0, 1, "more at the same instant");
    }
    assert!(
        limiter.state_bytes(&many.state) <= small,
        "one instant is one run"
    );
    many.drain(0);
    for t in 0..100_000 {
        many.must_deny(t, 1, "refused");
    }
    assert!(
        limiter.state_bytes(&many.state) <= small,
        "refusals are stored"
    );
    // A resolution bounds the runs, and errs against the client: the whole run is as young as its youngest.
    let coarse = SlidingLog::new(quota(MOST, SEC)).with_resolution(Duration::from_millis(100));
    let mut busy = Rule::new(coarse, 0);
    for i in 0..100_000 {
        busy.must_allow(i * 100 * US, 1, "spread over ten seconds");
    }
    let bytes = coarse.state_bytes(&busy.state);
    assert!(bytes <= 1024, "{bytes} bytes for a second in tenths");
    each(
        &[SlidingLog::new(quota(2, SEC))
            .with_resolution(Duration::from_millis(100))
            .into()],
        |f, what| {
            f.must_allow(0, 1, what);
            f.must_allow(60 * MS, 1, what);
            assert_eq!(
                wait(f.refusal(70 * MS, 1, what)),
                990 * MS,
                "{what}: both are dated 60 ms"
            );
            f.must_be_honest(70 * MS, 1, what);
        },
    );
}

/// Each hit pushed the window's expiry on, so a steady slow client filled a window that never ended.
#[test]
fn row_32_a_window_ends_however_steadily_it_is_asked() {
    each(&every(3, MIN), |f, what| {
        for i in 0..1_000 {
            f.must_allow(i * 30 * SEC, 1, what);
        }
    });
    each(
        &[
            grid(2, MIN),
            anchored(2, MIN),
            log(2, MIN),
            token(2, MIN, 2),
            leaky(2, MIN, 2),
        ],
        |f, what| {
            for i in 0..1_000 {
                f.must_allow(i * 30 * SEC, 1, what);
            }
        },
    );
    // Refused hits push it on as little.
    each(&every(1, MIN), |f, what| {
        let turns = if what.contains("Counter") { 4 } else { 2 };
        for i in 0..1_000 {
            let allowed = f.ask(i * 30 * SEC, 1).expect(what).is_allowed();
            assert_eq!(allowed, i % turns == 0, "{what}: at {} s", i * 30);
        }
    });
    // A whole minute after the last charge (two for the counter) the client is as good as new.
    each(&every(10, MIN), |f, what| {
        for i in 0..5 {
            f.must_allow(i * 30 * SEC, 1, what);
        }
        let last = 4 * 30 * SEC;
        assert_eq!(f.room(last + 2 * MIN), 10, "{what}");
        let reset = nanos(f.look(last, 0).expect(what).reset_after());
        assert_eq!(
            f.look(last + reset, 0).expect(what).reset_after(),
            Duration::ZERO,
            "{what}"
        );
        assert!(
            f.look(last + reset - 1, 0).expect(what).reset_after() > Duration::ZERO,
            "{what}"
        );
    });
}

// ---------------------------------------------------------------------------------------------------
// Policies
// ---------------------------------------------------------------------------------------------------

fn quota(limit: u64, period: u64) -> Quota {
    Quota::new(limit, Duration::from_nanos(period)).expect("a quota within DESIGN's range")
}
fn token(limit: u64, period: u64, burst: u64) -> Policy {
    TokenBucket::new(quota(limit, period))
        .with_burst(burst)
        .into()
}
fn leaky(limit: u64, period: u64, burst: u64) -> Policy {
    LeakyBucket::new(quota(limit, period))
        .with_burst(burst)
        .into()
}
fn grid(limit: u64, period: u64) -> Policy {
    FixedWindow::new(quota(limit, period)).into()
}
fn anchored(limit: u64, period: u64) -> Policy {
    FixedWindow::new(quota(limit, period))
        .anchored_at_first_request()
        .into()
}
fn log(limit: u64, period: u64) -> Policy {
    SlidingLog::new(quota(limit, period)).into()
}
fn counter(limit: u64, period: u64) -> Policy {
    SlidingWindowCounter::new(quota(limit, period)).into()
}
fn buckets(limit: u64, period: u64, burst: u64) -> Vec<Policy> {
    vec![token(limit, period, burst), leaky(limit, period, burst)]
}
fn windows(limit: u64, period: u64) -> Vec<Policy> {
    vec![
        grid(limit, period),
        anchored(limit, period),
        log(limit, period),
        counter(limit, period),
    ]
}
/// All five (the fixed window in both its forms), with a burst of the limit.
fn every(limit: u64, period: u64) -> Vec<Policy> {
    [buckets(limit, period, limit), windows(limit, period)].concat()
}

fn is_bucket(policy: Policy) -> bool {
    matches!(policy, Policy::TokenBucket(_) | Policy::LeakyBucket(_))
}
/// The most units that can ever be granted at once.
fn capacity(policy: Policy) -> u64 {
    match policy {
        Policy::TokenBucket(bucket) => bucket.burst(),
        Policy::LeakyBucket(bucket) => bucket.burst(),
        windows => windows.quota().limit(),
    }
}
/// The nanoseconds in which a bucket gains `units`, rounded up, saturating.
fn refill(policy: Policy, units: u64) -> u64 {
    let quota = policy.quota();
    let ns =
        (u128::from(units) * u128::from(quota.period_ns())).div_ceil(u128::from(quota.limit()));
    u64::try_from(ns).unwrap_or(u64::MAX)
}
/// DESIGN: no wait is longer than P, or one refill of the bucket, or 2·P for the counter.
fn longest_wait(policy: Policy, cost: u64) -> u64 {
    match policy {
        Policy::TokenBucket(_) | Policy::LeakyBucket(_) => refill(policy, cost),
        Policy::SlidingWindowCounter(_) => policy.quota().period_ns().saturating_mul(2),
        _ => policy.quota().period_ns(),
    }
}

// ---------------------------------------------------------------------------------------------------
// One client, seen through the rule, `Direct` and `Keyed`
// ---------------------------------------------------------------------------------------------------

type Answer = Result<Decision, CostTooHigh>;

/// One client. Stamps are nanoseconds since the face's origin.
trait Face {
    fn ask(&mut self, ns: u64, cost: u64) -> Answer;
    fn look(&self, ns: u64, cost: u64) -> Answer;

    /// What is left, by a look that costs nothing.
    fn room(&self, ns: u64) -> u64 {
        self.look(ns, 0)
            .expect("a cost of zero always fits")
            .remaining()
    }
    /// Takes all there is and says how much it was.
    fn drain(&mut self, ns: u64) -> u64 {
        let room = self.room(ns);
        assert!(
            self.ask(ns, room).expect("what remains fits").is_allowed(),
            "{room} remain and are refused"
        );
        assert_eq!(self.room(ns), 0, "something remains after all was taken");
        room
    }
    fn must_allow(&mut self, ns: u64, cost: u64, what: &str) {
        let _ = self.grant(ns, cost, what);
    }
    fn must_deny(&mut self, ns: u64, cost: u64, what: &str) {
        let _ = self.refusal(ns, cost, what);
    }
    /// Must be allowed; the decision.
    fn grant(&mut self, ns: u64, cost: u64, what: &str) -> Decision {
        let d = self
            .ask(ns, cost)
            .unwrap_or_else(|e| panic!("{what}: cost {cost} at {ns} ns: {e}"));
        assert!(
            d.is_allowed(),
            "{what}: cost {cost} at {ns} ns must be allowed: {d:?}"
        );
        assert_eq!(
            d.retry_after(),
            Duration::ZERO,
            "{what}: allowed, and told to wait"
        );
        d
    }
    /// Must be refused; the decision.
    fn refusal(&mut self, ns: u64, cost: u64, what: &str) -> Decision {
        let d = self
            .ask(ns, cost)
            .unwrap_or_else(|e| panic!("{what}: cost {cost} at {ns} ns: {e}"));
        assert!(
            !d.is_allowed(),
            "{what}: cost {cost} at {ns} ns must be refused: {d:?}"
        );
        assert!(
            d.retry_after() > Duration::ZERO,
            "{what}: refused without a wait"
        );
        assert_eq!(d.delay(), Duration::ZERO, "{what}: refused, and delayed");
        d
    }
    /// Refused until exactly the moment named; says the wait.
    fn must_be_honest(&self, ns: u64, cost: u64, what: &str) -> u64 {
        let waited = wait(self.look(ns, cost).expect(what));
        if waited > 0 {
            let early = self.look(ns + waited - 1, cost).expect(what);
            assert!(
                !early.is_allowed(),
                "{what}: cost {cost} at {ns} ns: allowed before its wait of {waited} ns"
            );
            let due = self.look(ns + waited, cost).expect(what);
            assert!(
                due.is_allowed(),
                "{what}: cost {cost} at {ns} ns: refused after its wait of {waited} ns"
            );
        }
        waited
    }
}

struct Rule<L: Limiter> {
    limiter: L,
    state: L::State,
    origin: u64,
}
impl<L: Limiter> Rule<L> {
    fn new(limiter: L, origin: u64) -> Self {
        let state = limiter.fresh(at(origin));
        Rule {
            limiter,
            state,
            origin,
        }
    }
}
impl<L: Limiter> Face for Rule<L> {
    fn ask(&mut self, ns: u64, cost: u64) -> Answer {
        self.limiter
            .check(&mut self.state, at(self.origin.saturating_add(ns)), cost)
    }
    fn look(&self, ns: u64, cost: u64) -> Answer {
        self.limiter
            .peek(&self.state, at(self.origin.saturating_add(ns)), cost)
    }
}

struct Held<L: Limiter> {
    direct: Direct<L>,
    origin: u64,
}
impl<L: Limiter> Face for Held<L> {
    fn ask(&mut self, ns: u64, cost: u64) -> Answer {
        self.direct
            .check_n(cost, at(self.origin.saturating_add(ns)))
    }
    fn look(&self, ns: u64, cost: u64) -> Answer {
        self.direct.peek_n(cost, at(self.origin.saturating_add(ns)))
    }
}

struct Stored<L: Limiter> {
    keyed: Keyed<String, L>,
    origin: u64,
}
impl<L: Limiter> Face for Stored<L> {
    fn ask(&mut self, ns: u64, cost: u64) -> Answer {
        self.keyed
            .check_n("client", cost, at(self.origin.saturating_add(ns)))
    }
    fn look(&self, ns: u64, cost: u64) -> Answer {
        self.keyed
            .peek_n("client", cost, at(self.origin.saturating_add(ns)))
    }
}

/// Runs `body` on a fresh client of each policy, through each face, at the epoch and in our days.
fn each(policies: &[Policy], mut body: impl FnMut(&mut dyn Face, &str)) {
    for &policy in policies {
        each_at(&[policy], &origins(policy), &mut body);
    }
}

/// As `each`, with the origins given.
fn each_at(policies: &[Policy], origins: &[u64], mut body: impl FnMut(&mut dyn Face, &str)) {
    run(policies, origins, true, &mut body);
}

/// As `each`, through `Direct` and `Keyed` only: a bare rule may rely on time that does not run back.
fn each_held(policies: &[Policy], mut body: impl FnMut(&mut dyn Face, &str)) {
    for &policy in policies {
        run(&[policy], &origins(policy), false, &mut body);
    }
}

/// The epoch, and the last multiple of the period before November 2023, where the grid lies as at the epoch.
fn origins(policy: Policy) -> Vec<u64> {
    let period = policy.quota().period_ns();
    let ours = 1_700_000_000 * SEC / period * period;
    if ours == 0 { vec![0] } else { vec![0, ours] }
}

fn run(
    policies: &[Policy],
    origins: &[u64],
    rule: bool,
    body: &mut dyn FnMut(&mut dyn Face, &str),
) {
    fn through<L>(limiter: L, origin: u64, rule: bool, body: &mut dyn FnMut(&mut dyn Face, &str))
    where
        L: Limiter + Copy + std::fmt::Debug,
    {
        if rule {
            body(
                &mut Rule::new(limiter, origin),
                &format!("{limiter:?} by the rule, origin {origin}"),
            );
        }
        let mut held = Held {
            direct: Direct::new(limiter),
            origin,
        };
        body(
            &mut held,
            &format!("{limiter:?} through Direct, origin {origin}"),
        );
        let mut stored = Stored {
            keyed: Keyed::new(limiter),
            origin,
        };
        body(
            &mut stored,
            &format!("{limiter:?} through Keyed, origin {origin}"),
        );
    }
    for &policy in policies {
        for &origin in origins {
            match policy {
                Policy::TokenBucket(limiter) => through(limiter, origin, rule, body),
                Policy::LeakyBucket(limiter) => through(limiter, origin, rule, body),
                Policy::FixedWindow(limiter) => through(limiter, origin, rule, body),
                Policy::SlidingLog(limiter) => through(limiter, origin, rule, body),
                Policy::SlidingWindowCounter(limiter) => through(limiter, origin, rule, body),
                other => panic!("{other:?}: an algorithm that these rows do not know"),
            }
            // Chosen at run time it is the same rule.
            let mut chosen = Held {
                direct: Direct::new(policy),
                origin,
            };
            body(
                &mut chosen,
                &format!("{policy:?} chosen at run time, origin {origin}"),
            );
        }
    }
}

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}
fn nanos(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos()).expect("waits saturate at u64::MAX ns")
}
fn wait(d: Decision) -> u64 {
    nanos(d.retry_after())
}

/// Asks without pause for one unit until `end` (which is not asked any more), skipping what is refused anyway.
fn greed(face: &mut (impl Face + ?Sized), end: u64) -> u64 {
    let (mut t, mut allowed) = (0, 0);
    while t < end {
        let d = face.ask(t, 1).expect("a cost of one always fits");
        if d.is_allowed() {
            allowed += 1;
        } else {
            assert!(wait(d) > 0, "refused at {t} ns without a wait");
            t += wait(d);
        }
    }
    allowed
}

/// Polls at every multiple of `every` within a minute of a midnight, at every `sparse`th of them elsewhere.
fn poll_for_thirty_days(face: &mut (impl Face + ?Sized), every: u64, sparse: u64) -> u64 {
    let (mut poll, mut allowed) = (0u64, 0);
    while poll * every < 30 * DAY {
        let t = poll * every;
        allowed += u64::from(
            face.ask(t, 1)
                .expect("a cost of one always fits")
                .is_allowed(),
        );
        let of_day = t % DAY;
        let busy = of_day < MIN || of_day > DAY - MIN - sparse * every;
        poll += if busy { 1 } else { sparse };
    }
    allowed
}

fn count_allowed(face: &mut (impl Face + ?Sized), stamps: &[u64]) -> u64 {
    stamps
        .iter()
        .map(|&t| {
            u64::from(
                face.ask(t, 1)
                    .expect("a cost of one always fits")
                    .is_allowed(),
            )
        })
        .sum()
}

/// Numbers without a pattern, the same in every run.
fn irregular() -> impl Iterator<Item = u64> {
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    std::iter::repeat_with(move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x >> 8
    })
}

/// Instants that move on by less than `most` at a time.
fn strides(count: usize, most: u64) -> impl Iterator<Item = u64> {
    irregular().take(count).scan(0, move |sum, x| {
        *sum += x % most;
        Some(*sum)
    })
}

fn shuffle(of: &[u64], seed: usize) -> Vec<u64> {
    let mut all = of.to_vec();
    for (i, x) in (1..all.len()).rev().zip(irregular().skip(seed * 1_000)) {
        all.swap(i, x as usize % (i + 1));
    }
    all
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(n - 1);
    let put = |order: &Vec<usize>, at| [&order[..at], &[n - 1], &order[at..]].concat();
    shorter
        .iter()
        .flat_map(|order| (0..n).map(move |at| put(order, at)))
        .collect()
}
