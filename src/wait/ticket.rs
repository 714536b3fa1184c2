//! [`Ticket`]: one request's way through a queue. All that waits is made of it.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::error::WaitError;
use super::sleep::Timers;
use super::{Limits, Turn, Waiting};
use crate::clock::Clock;
use crate::decision::Decision;
use crate::error::CostTooHigh;
use crate::limiter::Limiter;
use crate::queue::{Place, Waits};
use crate::time::Timestamp;

pub(super) struct Ticket<F> {
    cost: u64,
    limits: Limits,
    phase: Phase<F>,
}

enum Phase<F> {
    /// Nobody has asked yet.
    Comes,
    Waits {
        place: Arc<Place>,
        alarm: Option<Alarm<F>>,
    },
    /// It may go, and does so a little later.
    Lingers {
        turn: Turn,
        sleep: Pin<Box<F>>,
    },
    Gone,
}

/// The timer of a queue, kept by one who stands in it.
struct Alarm<F> {
    ends_at: Timestamp,
    /// Whom it wakes: not this one alone.
    bell: Waker,
    sleep: Pin<Box<F>>,
}

impl<F: Future<Output = ()>> Ticket<F> {
    pub(super) const fn new(cost: u64, limits: Limits) -> Self {
        Self {
            cost,
            limits,
            phase: Phase::Comes,
        }
    }

    pub(super) const fn limits_mut(&mut self) -> &mut Limits {
        &mut self.limits
    }

    #[inline]
    pub(super) fn poll<S, C, T, Q>(
        &mut self,
        waiting: &Waiting<S, C, T>,
        key: &Q,
        context: &mut Context<'_>,
    ) -> Poll<Result<Turn, WaitError>>
    where
        S: Waits<Q>,
        C: Clock,
        T: Timers<Future = F>,
        Q: ?Sized,
    {
        // Most need not wait, and are not to pay for those who do.
        if matches!(self.phase, Phase::Comes) {
            let now = waiting.clock.now();
            if let Some(receipt) = waiting.store.pass(key, self.cost, now) {
                self.phase = Phase::Gone;
                return Poll::Ready(Ok(Turn::new(receipt)));
            }
        }
        self.poll_on(waiting, key, context)
    }

    #[inline(never)]
    fn poll_on<S, C, T, Q>(
        &mut self,
        waiting: &Waiting<S, C, T>,
        key: &Q,
        context: &mut Context<'_>,
    ) -> Poll<Result<Turn, WaitError>>
    where
        S: Waits<Q>,
        C: Clock,
        T: Timers<Future = F>,
        Q: ?Sized,
    {
        loop {
            match mem::replace(&mut self.phase, Phase::Gone) {
                Phase::Comes => {
                    let now = waiting.clock.now();
                    match self.come(waiting, key, now) {
                        Some(Ok(place)) => {
                            self.phase = Phase::Waits { place, alarm: None };
                        }
                        Some(Err(at_once)) => return Poll::Ready(at_once),
                        // It was forgotten in between: so it is another's now.
                        None => self.phase = Phase::Comes,
                    }
                }
                Phase::Waits { place, mut alarm } => {
                    match wait(waiting, key, &place, &mut alarm, context) {
                        Poll::Ready(Ok(turn)) => match waiting.jitter.draw() {
                            Duration::ZERO => return Poll::Ready(Ok(turn)),
                            more => {
                                let sleep = Box::pin(waiting.timers.sleep(more));
                                self.phase = Phase::Lingers { turn, sleep };
                            }
                        },
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                        Poll::Pending => {
                            self.phase = Phase::Waits { place, alarm };
                            return Poll::Pending;
                        }
                    }
                }
                Phase::Lingers { turn, mut sleep } => {
                    if sleep.as_mut().poll(context).is_ready() {
                        return Poll::Ready(Ok(turn));
                    }
                    self.phase = Phase::Lingers { turn, sleep };
                    return Poll::Pending;
                }
                // As of every future: whoever polls on has had the answer.
                Phase::Gone => return Poll::Pending,
            }
        }
    }

    /// Gives back the place, or what was spent, of one who does not go after all.
    #[inline]
    pub(super) fn give_back<S, C, T, Q>(&mut self, waiting: &Waiting<S, C, T>, key: &Q)
    where
        S: Waits<Q>,
        C: Clock,
        Q: ?Sized,
    {
        if !matches!(self.phase, Phase::Comes | Phase::Gone) {
            self.leave(waiting, key);
        }
    }

    #[inline(never)]
    fn leave<S, C, T, Q>(&mut self, waiting: &Waiting<S, C, T>, key: &Q)
    where
        S: Waits<Q>,
        C: Clock,
        Q: ?Sized,
    {
        let now = || Some(waiting.clock.now());
        match mem::replace(&mut self.phase, Phase::Gone) {
            Phase::Comes | Phase::Gone => {}
            Phase::Waits { place, .. } => {
                waiting
                    .store
                    .at_counter(key, now(), |counter| counter.leave(&place));
            }
            Phase::Lingers { turn, .. } => {
                waiting
                    .store
                    .at_counter(key, now(), |counter| counter.give_back(turn.receipt()));
            }
        }
    }

    /// Asks, and takes a place if it may not go at once. `None` if the client is not known any more.
    fn come<S, C, T, Q>(
        &self,
        waiting: &Waiting<S, C, T>,
        key: &Q,
        now: Timestamp,
    ) -> Option<Result<Arc<Place>, Result<Turn, WaitError>>>
    where
        S: Waits<Q>,
        Q: ?Sized,
    {
        let store = &waiting.store;
        match take_undelayed(store, key, self.cost, now) {
            Ok(decision) if goes(&decision) => {
                return Some(Err(Ok(Turn::new(decision.receipt()))));
            }
            Ok(decision) if decision.is_store_full() => {
                return Some(Err(Err(WaitError::StoreFull(Box::new(decision)))));
            }
            Ok(_) => {}
            Err(never) => return Some(Err(Err(WaitError::CostTooHigh(never)))),
        }
        let bounds = self.limits.bounds(now);
        let joined =
            store.at_counter(key, Some(now), |counter| counter.join(self.cost, &bounds))?;
        Some(match joined {
            Ok(joined) => Ok(joined.place),
            Err(refusal) => Err(Err(refusal.into())),
        })
    }
}

/// Looks whether the place's turn has come, and after the queue's timer if nobody else does.
fn wait<S, C, T, Q>(
    waiting: &Waiting<S, C, T>,
    key: &Q,
    place: &Place,
    alarm: &mut Option<Alarm<T::Future>>,
    context: &mut Context<'_>,
) -> Poll<Result<Turn, WaitError>>
where
    S: Waits<Q>,
    C: Clock,
    T: Timers,
    Q: ?Sized,
{
    place.comes_by();
    for _ in 0..MOST_TURNS {
        if let Some(outcome) = place.outcome(context.waker()) {
            return Poll::Ready(outcome.into());
        }
        let now = waiting.clock.now();
        let timer = waiting
            .store
            .at_counter(key, Some(now), |counter| counter.keep(place))
            .flatten();
        // It may have been its own turn.
        if let Some(outcome) = place.outcome(context.waker()) {
            return Poll::Ready(outcome.into());
        }
        let Some(timer) = timer else {
            *alarm = None;
            return Poll::Pending;
        };
        let mut kept = match alarm.take() {
            Some(kept) if kept.ends_at == timer.ends_at => kept,
            _ => Alarm {
                ends_at: timer.ends_at,
                bell: Waker::from(timer.bell),
                sleep: {
                    let wait = Duration::from_nanos(timer.wait_ns).min(LONGEST_SLEEP);
                    Box::pin(waiting.timers.sleep(wait))
                },
            },
        };
        let slept = kept
            .sleep
            .as_mut()
            .poll(&mut Context::from_waker(&kept.bell));
        if slept.is_pending() {
            *alarm = Some(kept);
            return Poll::Pending;
        }
    }
    // Its timers are over before the clock says so: others shall run in between.
    context.waker().wake_by_ref();
    Poll::Pending
}

/// Decides a request as a check does, but spends nothing if it would have to be delayed.
fn take_undelayed<S: Waits<Q>, Q: ?Sized>(
    store: &S,
    key: &Q,
    cost: u64,
    now: Timestamp,
) -> Result<Decision, CostTooHigh> {
    if S::Limiter::SHAPES {
        return store.take_by(key, cost, now, |limiter, state, now| {
            limiter.check_undelayed(state, now, cost)
        });
    }
    store.take(key, cost, now)
}

fn goes(decision: &Decision) -> bool {
    decision.is_allowed() && decision.delay_ns() == 0
}

/// How often a timer that is over too soon is set anew before others get their turn.
const MOST_TURNS: usize = 4;

/// Sleeping a year is like sleeping for good, and no runtime's timers overflow by it.
const LONGEST_SLEEP: Duration = Duration::from_secs(365 * 24 * 60 * 60);
