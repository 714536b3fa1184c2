//! Rows 27-32: windows, counters and logs.

use std::time::Duration;

use tollgate::{Limiter, Policy, SlidingLog, SlidingWindowCounter};

use crate::faces::*;
use crate::policies::*;

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
    // What was given back is not stored either, in whatever order it comes back.
    let mut given = Rule::new(limiter, 0);
    for t in 0..10_000 {
        let receipt = given.receipt(t, 1 + t % 3, "spent");
        assert_eq!(given.refund(t, receipt), receipt.cost());
    }
    assert!(
        limiter.state_bytes(&given.state) <= small,
        "charges that were given back at once are stored"
    );
    let receipts: Vec<_> = (10_000..11_000)
        .map(|t| given.receipt(t, 2, "spent"))
        .collect();
    for i in 0..1_000 {
        let receipt = receipts[i * 389 % 1_000];
        assert_eq!(given.refund(11_000, receipt), 2, "the unit of {receipt:?}");
    }
    assert!(
        limiter.is_idle(&given.state, at(11_000)),
        "all is given back"
    );
    // In debt it stores no more than what was recorded.
    let mut owing = Rule::new(limiter, 0);
    for _ in 0..1_000 {
        let _ = owing.charge(0, 1_000_000);
    }
    assert!(
        limiter.state_bytes(&owing.state) <= small,
        "one instant is one run"
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
    // A window that starts at the first request is over when that request is given back.
    each(&[anchored(2, MIN)], |f, what| {
        let receipt = f.receipt(0, 2, what);
        assert_eq!(f.refund(10 * SEC, receipt), 2, "{what}");
        f.must_allow(30 * SEC, 2, what);
        f.must_deny(90 * SEC - 1, 1, what);
        f.must_allow(90 * SEC, 2, what);
    });
    each(&[anchored(2, MIN)], |f, what| {
        let receipt = f.receipt(0, 2, what);
        assert_eq!(f.refund(10 * SEC, receipt.part(1)), 1, "{what}");
        f.must_allow(30 * SEC, 1, what);
        f.must_deny(MIN - 1, 1, what);
        f.must_allow(MIN, 2, what);
    });
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
