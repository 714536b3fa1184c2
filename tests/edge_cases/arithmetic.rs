//! Rows 1-12: units, rates and waits are exact, however large, small or old they are.

use std::time::Duration;

use tollgate::{LeakyBucket, Limiter, TokenBucket};

use crate::faces::*;
use crate::policies::*;

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
                        let (seen, plain) = (seen.expect(what), plain.expect(what));
                        assert_eq!(told(seen), told(plain), "{what}: at {t} ns");
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
