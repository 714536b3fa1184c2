//! Those who wait for a [`Direct`]: nobody is let past them.

use parking_lot::MutexGuard;

use super::{Direct, Held};
use crate::decision::Decision;
use crate::error::CostTooHigh;
use crate::limiter::Limiter;
use crate::time::Timestamp;

#[cfg(feature = "wait")]
mod queue {
    use std::task::Waker;

    use super::*;
    use crate::decision::Spent;
    use crate::queue::{Counter, Waits, sealed, serve_until_quiet, wake_after, wake_all};

    impl<L: Limiter> sealed::Sealed for Direct<L> {}

    impl<L: Limiter> Waits<()> for Direct<L> {
        type Limiter = L;

        fn take_by(
            &self,
            (): &(),
            cost: u64,
            now: Timestamp,
            mut take: impl FnMut(&L, &mut L::State, (Timestamp, u64)) -> Result<Decision, CostTooHigh>,
        ) -> Result<Decision, CostTooHigh> {
            let mut held = self.held.lock();
            if held.has_queue() {
                if let Some(behind) = self.behind_others(&mut held, cost, now) {
                    return behind;
                }
            }
            let late_ns = held.time.date(now).lateness_ns();
            held.ask(now, |limiter, state, at| {
                take(limiter, state, (at, late_ns))
            })
        }

        #[inline]
        fn pass(&self, (): &(), cost: u64, now: Timestamp) -> Option<Spent> {
            let mut held = self.held.lock();
            if held.has_queue() && cost > 0 {
                return None;
            }
            let instant = held.date(now);
            let Held {
                limiter,
                state,
                time,
                ..
            } = &mut *held;
            let found = limiter.look(state, instant.now, cost).ok()?;
            let spent = limiter.pass(state, instant.now, &found, cost)?;
            if spent.is_something() {
                time.pass(instant);
            }
            Some(spent)
        }

        fn at_counter<T>(
            &self,
            (): &(),
            now: Option<Timestamp>,
            ask: impl FnOnce(&mut Counter<'_, L>) -> T,
        ) -> Option<T> {
            let mut held = self.held.lock();
            let (answer, woken) = held.at_counter(now, ask);
            drop(held);
            wake_all(woken);
            Some(answer)
        }
    }

    impl<L: Limiter> Held<L> {
        #[inline]
        pub(in super::super) const fn has_queue(&self) -> bool {
            self.queue.is_some()
        }

        /// Asks at the counter; those who are to be woken are, when the lock is released.
        fn at_counter<T>(
            &mut self,
            now: Option<Timestamp>,
            ask: impl FnOnce(&mut Counter<'_, L>) -> T,
        ) -> (T, Vec<Waker>) {
            let instant = match now {
                Some(now) => self.date(now),
                None => self.time.latest(),
            };
            let dated = (instant, now.is_some());
            let mut counter = Counter::new(&self.limiter, &mut self.state, &mut self.queue, dated);
            let answer = ask(&mut counter);
            let left = counter.closed();
            if let Some(charged_at) = left.charged_at {
                self.time.pass_to(charged_at);
            }
            (answer, left.woken)
        }
    }

    impl<L: Limiter> Direct<L> {
        /// The decision on a request that finds others who wait.
        #[cold]
        pub(in super::super) fn behind_others(
            &self,
            held: &mut MutexGuard<'_, Held<L>>,
            cost: u64,
            now: Timestamp,
        ) -> Option<Result<Decision, CostTooHigh>> {
            at_counter_until_quiet(held, now, |counter| counter.behind(cost))
        }

        /// The decision that a request would be told that finds others who wait.
        #[cold]
        pub(in super::super) fn peek_others(
            &self,
            held: &mut MutexGuard<'_, Held<L>>,
            cost: u64,
            now: Timestamp,
        ) -> Option<Result<Decision, CostTooHigh>> {
            at_counter_until_quiet(held, now, |counter| counter.peek(cost))
        }

        /// What each of several limits holds, of a request that is refused because others wait.
        pub(in super::super) fn report_behind(
            held: &mut Held<L>,
            cost: u64,
            now: Timestamp,
            report: &mut dyn FnMut(usize, Decision),
        ) {
            // What can never be granted was told already.
            let _told = held.at_counter(Some(now), |counter| counter.report(cost, report));
        }

        /// Lets all go who may by now.
        pub(in super::super) fn serve_queue(
            &self,
            held: &mut MutexGuard<'_, Held<L>>,
            now: Timestamp,
        ) {
            if held.has_queue() {
                at_counter_until_quiet(held, now, |counter| {
                    counter.serve();
                    None::<()>
                });
            }
        }

        /// The state has changed by something else than those who wait.
        pub(in super::super) fn changed(
            &self,
            held: &mut MutexGuard<'_, Held<L>>,
            now: Option<Timestamp>,
        ) {
            if held.has_queue() {
                wake_after(held, |held| {
                    held.at_counter(now, |counter| counter.changed()).1
                });
            }
        }

        /// The limit is another.
        pub(in super::super) fn relimited(
            &self,
            held: &mut MutexGuard<'_, Held<L>>,
            now: Timestamp,
        ) {
            if held.has_queue() {
                wake_after(held, |held| {
                    held.at_counter(Some(now), |counter| counter.relimited()).1
                });
            }
        }
    }

    /// Asks until there is an answer or nobody is to be woken any more, which is done without the lock.
    fn at_counter_until_quiet<L: Limiter, T>(
        held: &mut MutexGuard<'_, Held<L>>,
        now: Timestamp,
        ask: impl Fn(&mut Counter<'_, L>) -> Option<T>,
    ) -> Option<T> {
        serve_until_quiet(held, |held| held.at_counter(Some(now), &ask))
    }
}

#[cfg(not(feature = "wait"))]
mod no_queue {
    use super::*;

    impl<L: Limiter> Held<L> {
        #[inline]
        pub(in super::super) const fn has_queue(&self) -> bool {
            false
        }
    }

    impl<L: Limiter> Direct<L> {
        pub(in super::super) fn behind_others(
            &self,
            _held: &mut MutexGuard<'_, Held<L>>,
            _cost: u64,
            _now: Timestamp,
        ) -> Option<Result<Decision, CostTooHigh>> {
            None
        }

        pub(in super::super) fn peek_others(
            &self,
            _held: &mut MutexGuard<'_, Held<L>>,
            _cost: u64,
            _now: Timestamp,
        ) -> Option<Result<Decision, CostTooHigh>> {
            None
        }

        pub(in super::super) fn report_behind(
            _held: &mut Held<L>,
            _cost: u64,
            _now: Timestamp,
            _report: &mut dyn FnMut(usize, Decision),
        ) {
        }

        pub(in super::super) fn relimited(
            &self,
            _held: &mut MutexGuard<'_, Held<L>>,
            _now: Timestamp,
        ) {
        }

        pub(in super::super) fn serve_queue(
            &self,
            _held: &mut MutexGuard<'_, Held<L>>,
            _now: Timestamp,
        ) {
        }

        pub(in super::super) fn changed(
            &self,
            _held: &mut MutexGuard<'_, Held<L>>,
            _now: Option<Timestamp>,
        ) {
        }
    }
}
