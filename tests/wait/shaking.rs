//! Everything at once, in every order: those who wait, leave, are never polled again, and whoever else changes the limit, against
//! a [`Model`].

use std::time::Duration;

use tollgate::wait::WaitError;
use tollgate::{Clock, Limiter, ManualClock, Quota, Receipt};

use crate::faces::{Face, Rule, over_all};
use crate::model::Model;
use crate::sim::{START, Sim, Told, clock, manual, roll};

over_all! {
    as_the_model_has_it
    as_the_model_has_it_though_timers_are_late
    as_the_model_has_it_though_some_are_never_polled_again
}

const RUNS: u64 = 250;

fn as_the_model_has_it<F: Face<L: Rule>>() {
    for seed in 1..=RUNS {
        Run::<F>::shake(seed, false, false);
    }
}

fn as_the_model_has_it_though_timers_are_late<F: Face<L: Rule>>() {
    for seed in 1..=RUNS {
        Run::<F>::shake(seed, true, false);
    }
}

fn as_the_model_has_it_though_some_are_never_polled_again<F: Face<L: Rule>>() {
    for seed in 1..=RUNS {
        Run::<F>::shake(seed, false, true);
    }
}

struct Waiter {
    task: usize,
    told: Told,
    is_there: bool,
}

struct Run<'a, F: Face> {
    store: &'a F,
    clock: &'a ManualClock,
    sim: Sim<'a>,
    model: Model<F::L>,
    waiters: Vec<Waiter>,
    receipts: Vec<Receipt>,
}

impl<F: Face<L: Rule>> Run<'_, F> {
    fn shake(seed: u64, late: bool, stuck: bool) {
        let mut dice = seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
        let limit = 1 + roll(&mut dice) % 6;
        let period = Duration::from_nanos([7, 1_000, 1_000_003][(roll(&mut dice) % 3) as usize]);
        // Buckets drain between two nanoseconds, which the model does not know: these drain at whole ones.
        let period = period * limit as u32;
        let limiter = F::L::of(Quota::new(limit, period).unwrap());
        let (store, clock, key) = (F::of(limiter.clone()), clock(), F::KEY);
        let waiting = manual(&store, &clock);
        let mut run = Run {
            store: &store,
            clock: &clock,
            sim: Sim::shaken(seed),
            model: Model::new(limiter, START),
            waiters: Vec::new(),
            receipts: Vec::new(),
        };
        for step in 0..60 {
            let at = format!("seed {seed}, step {step}");
            match roll(&mut dice) % 16 {
                0..6 => {
                    let cost = roll(&mut dice) % (limit + 1);
                    let until = waiting.until_allowed_n(&key, cost);
                    let (task, told) = run.sim.wait(&clock, until);
                    run.sim.poll(task);
                    if stuck && roll(&mut dice) % 3 > 0 {
                        run.sim.forget(task);
                    }
                    run.sim.run();
                    run.model.arrive(run.waiters.len(), cost);
                    run.waiters.push(Waiter {
                        task,
                        told,
                        is_there: true,
                    });
                }
                6 => run.one_leaves(&mut dice),
                7..9 => run.one_asks(roll(&mut dice) % (limit + 1), &at),
                9 if !late && roll(&mut dice) % 2 == 0 => {
                    let units = roll(&mut dice) % (2 * limit);
                    let now = clock.now();
                    let _ = store.charge(units, now);
                    run.model.change(|limiter, state, now| {
                        let _ = limiter.charge(state, now, units);
                    });
                    run.sim.run();
                }
                10 if !late => {
                    if let Some(receipt) = run.receipts.pop() {
                        store.refund(receipt, clock.now());
                        run.model.change(|limiter, state, now| {
                            limiter.refund(state, now, receipt);
                        });
                        run.sim.run();
                    }
                }
                11 if !late && roll(&mut dice) % 4 == 0 => {
                    // A reset forgets who is not waited for, so that its time is the store's; the model's is the clock's.
                    if run.model.waiters() > 0 {
                        continue;
                    }
                    // It has no stamp: whoever could have gone by now, but was not looked after, would go after it.
                    let _ = waiting.waiters(&key);
                    store.reset();
                    run.model
                        .change(|limiter, state, now| *state = limiter.fresh(now));
                    run.sim.run();
                }
                _ => {
                    let most = 1 + period.as_nanos() as u64 / [1, 3, 20][step % 3];
                    let until = clock.now() + Duration::from_nanos(roll(&mut dice) % most);
                    run.pass_to(until, late);
                }
            }
            // (One who is not polled any more cannot give his up.)
            assert!(clock.sleepers() <= 1 || stuck, "{at}: one timer");
            run.compare(&at, late);
        }
        let end = clock.now() + period * 10_000;
        run.pass_to(end, late);
        run.compare(&format!("seed {seed}, at the end"), late);
        assert_eq!(run.model.waiters(), 0, "seed {seed}");
        run.sim.run_out(&clock);
        assert_eq!(waiting.waiters(&F::KEY), 0, "seed {seed}");
        let stands = store.peek(0, clock.now()).unwrap();
        run.model.pass_to(clock.now());
        assert_eq!(
            (stands.remaining(), stands.debt()),
            run.model.remaining(),
            "seed {seed}"
        );
    }

    fn pass_to(&mut self, until: tollgate::Timestamp, late: bool) {
        if late {
            self.clock.set(until);
            self.sim.run();
        } else {
            self.sim.run_until(self.clock, until);
        }
        self.model.pass_to(until);
    }

    fn one_leaves(&mut self, dice: &mut u64) {
        let waiting: Vec<usize> = (0..self.waiters.len())
            .filter(|&who| {
                let waiter = &self.waiters[who];
                // One that went already, and was not polled since, would give back what it has spent.
                let gone = self.model.gone.iter().any(|&(gone, _)| gone == who);
                waiter.is_there && !gone && !self.sim.is_done(waiter.task)
            })
            .collect();
        if waiting.is_empty() {
            return;
        }
        let who = waiting[(roll(dice) % waiting.len() as u64) as usize];
        self.sim.drop_task(self.waiters[who].task);
        self.waiters[who].is_there = false;
        self.model.leave(who);
        self.sim.run();
    }

    fn one_asks(&mut self, cost: u64, at: &str) {
        let now = self.clock.now();
        // Whoever peeks is told what whoever asks would be.
        let peeked = self.store.peek(cost, now).unwrap();
        let decision = self.store.check(cost, now).unwrap();
        let (allowed, retry_ns) = self.model.check(cost);
        assert_eq!(decision.is_allowed(), allowed, "{at}: {decision:?}");
        assert_eq!(peeked.is_allowed(), allowed, "{at}: {peeked:?}");
        if !allowed {
            assert_eq!(
                decision.retry_after().as_nanos(),
                u128::from(retry_ns),
                "{at}"
            );
            assert_eq!(
                peeked.retry_after().as_nanos(),
                u128::from(retry_ns),
                "{at}"
            );
        } else if let Some(receipt) = decision.receipt() {
            self.receipts.push(receipt);
        }
    }

    /// All who went by the model were told so, if they are polled at all; as of the model's instant, and, where timers are on
    /// time, at it.
    fn compare(&self, at: &str, late: bool) {
        for &(who, went) in &self.model.gone {
            let waiter = &self.waiters[who];
            let told = waiter.told.borrow();
            let Some((when, outcome)) = &*told else {
                assert!(!self.sim.is_done(waiter.task), "{at}: {who}");
                assert!(
                    self.sim.is_stuck(waiter.task),
                    "{at}: {who} was to go at {went:?}"
                );
                continue;
            };
            let turn: Result<_, WaitError> = outcome.clone();
            if let Some(receipt) = turn.expect(at).receipt() {
                assert_eq!(receipt.charged_at(), went, "{at}: {who}");
            }
            assert!(
                late || *when == went,
                "{at}: {who} went at {when:?} and not {went:?}"
            );
        }
        let told = |waiter: &&Waiter| waiter.told.borrow().is_some();
        let count = self.waiters.iter().filter(told).count();
        assert!(
            count <= self.model.gone.len(),
            "{at}: somebody went who may not"
        );
    }
}
