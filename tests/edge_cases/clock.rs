//! Rows 22-26: clocks that run back, jump ahead, or were asked nothing for a month.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::{Direct, Keyed, Policy, Receipt, SlidingLog};

use crate::faces::*;
use crate::policies::*;

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
            let mut straight = Held::new(policy, 0);
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
                    assert_eq!(told(seen), told(plain), "{what}: {step} ns after the step");
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

/// The same kind: what a receipt names is an instant of the holder, and not of the clock that was set back since.
#[test]
fn row_24_a_refund_finds_its_charge_though_the_clock_was_set_back() {
    let (then, back) = (10 * HOUR + 10 * MIN, 9 * HOUR + 10 * MIN);
    for policy in every(10, HOUR) {
        for late in [1, SEC, 10 * SEC, 10 * SEC + 1, MIN, HOUR, 9 * HOUR] {
            each_held(&[policy], |f, what| {
                let receipt = f.receipt(then, 4, what);
                assert_eq!(f.refund(then - late, receipt), 4, "{what}: {late} ns late");
                assert_eq!(f.drain(then - late), 10, "{what}: {late} ns late");
                f.must_deny(then - late, 1, what);
                f.must_be_honest(then - late, 1, what);
            });
        }
        // Any call may be the one that notices, and from then on time goes on.
        type Notice = fn(&mut dyn Face, u64, Policy, Receipt);
        let notice: [Notice; 7] = [
            |f, ns, _, _| assert!(f.ask(ns, 1).is_ok_and(|d| !d.is_allowed())),
            |f, ns, _, _| assert!(f.look(ns, 1).is_ok_and(|d| !d.is_allowed())),
            |f, ns, _, _| assert_eq!(f.at_most(ns, 1).granted(), 0),
            |f, ns, _, _| assert_eq!(f.charge(ns, 0).granted(), 0),
            |f, ns, policy, _| f.change(ns, policy),
            |f, ns, _, spent| assert_eq!(f.refund(ns, spent.part(0)), 0),
            |f, ns, _, _| {
                let receipt = f.charge(ns, 1).receipt().expect("recorded");
                assert_eq!(f.refund(ns, receipt), 1);
            },
        ];
        for (i, notice) in notice.iter().enumerate() {
            each_held(&[policy], |f, what| {
                let spent = f.receipt(then, 10, what);
                notice(f, back, policy, spent);
                let mut steady = Rule::new(policy, 0);
                steady.must_allow(then, 10, what);
                for step in strides(100, MIN).map(|step| step + 1) {
                    let (seen, plain) = (f.ask(back + step, 1), steady.ask(then + step, 1));
                    let (seen, plain) = (seen.expect(what), plain.expect(what));
                    assert_eq!(told(seen), told(plain), "{what}: noticed in way {i}");
                }
            });
        }
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
                    assert_eq!(
                        told(seen),
                        told(plain),
                        "{what}: {step} ns after the step back"
                    );
                }
            });
            each_held(&[policy], |f, what| {
                let mut total = 0;
                for jump in 0..6 {
                    total += f.drain(then + jump * MS) + f.drain(then + DAY + jump * MS);
                }
                assert!(total <= 12 * limit, "{what}: {total} in twelve steps");
            });
            // The wild reading may be that of whoever changes the limit.
            each_held(&[policy], |f, what| {
                f.drain(then);
                f.change(then + DAY, policy);
                let gained = f.drain(then + SEC);
                assert!(gained <= limit, "{what}: {gained} gained by the step back");
                let d = f.refusal(then + SEC, 1, what);
                assert!(wait(d) <= longest_wait(policy, 1), "{what}: {d:?}");
                f.must_be_honest(then + SEC, 1, what);
            });
        }
    }
    // Something is given back at the wild reading: whether it finds anything then or not, it takes nothing.
    for policy in every(10, MIN) {
        for ahead in [SEC, MIN, HOUR, DAY] {
            each_held(&[policy], |f, what| {
                let receipt = f.receipt(then, 10, what);
                let here = then + 6 * SEC;
                let room = f.room(here);
                let given = f.refund(here + ahead, receipt.part(3));
                let after = f.room(here);
                assert!(given <= 3, "{what}: {given} given back");
                assert!(
                    (room..=room + 3).contains(&after),
                    "{what}: {room} before, {after} after a refund {ahead} ns ahead"
                );
                assert_eq!(f.drain(here), after, "{what}");
                f.must_be_honest(here, 1, what);
            });
        }
    }
    // A jump that charged nothing leaves nothing: only charges move the holder's time.
    for policy in every(1, 3 * DAY) {
        each_held(&[policy], |f, what| {
            let receipt = f.receipt(then, 1, what);
            let before = f.look(then + SEC, 1).expect(what);
            f.must_deny(then + DAY, 1, what);
            let _ = (
                f.look(then + DAY, 1),
                f.ask(then + DAY, 0),
                f.ask(then + DAY, 2),
                f.at_most(then + DAY, 1),
                f.charge(then + DAY, 0),
                f.refund(then + DAY, receipt.part(0)),
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
