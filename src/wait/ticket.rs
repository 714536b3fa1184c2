//! [`Ticket`]: one request's way through a queue. All that waits is made of it.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use super::error::WaitError;
use super::sleep::Timers;
use super::{Turn, Waiting};
use crate::clock::Clock;
use crate::limiter::Limiter;
use crate::queue::{Counter, Place, Waits};
use crate::time::Timestamp;

pub(super) struct Ticket<F> {
    cost: u64,
    /// `None` for everyone's. Few have others, and a future is moved a few times.
    terms: Option<Box<Terms>>,
    phase: Phase<F>,
}

/// On what terms a request waits, beside those that are everyone's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) max_wait_ns: u64,
    pub(super) deadline: Timestamp,
    /// It is let in at once, with all who wait, or not at all.
    pub(super) within_burst: bool,
}

impl Terms {
    pub(super) const NONE: Self = Self {
        max_wait_ns: u64::MAX,
        deadline: Timestamp::MAX,
        within_burst: false,
    };
}

/// Small, for most need not stay: they are not to pay for those who do.
enum Phase<F> {
    /// Nobody has asked yet.
    Comes,
    Stays(Box<Stay<F>>),
    Gone,
}

enum Stay<F> {
    Waits {
        place: Arc<Place>,
        alarm: Option<Alarm<F>>,
        /// It could not go when it came.
        has_waited: bool,
    },
    /// It may go, and does so a little later.
    Lingers { turn: Turn, sleep: Pin<Box<F>> },
}

/// The timer of a queue, kept by one who stands in it.
struct Alarm<F> {
    ends_at: Timestamp,
    /// Whom it wakes: not this one alone.
    bell: Waker,
    sleep: Pin<Box<F>>,
}

impl<F: Future<Output = ()>> Ticket<F> {
    #[inline]
    pub(super) const fn new(cost: u64) -> Self {
        Self {
            cost,
            terms: None,
            phase: Phase::Comes,
        }
    }

    pub(super) fn terms_mut(&mut self) -> &mut Terms {
        self.terms.get_or_insert_with(|| Box::new(Terms::NONE))
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
        if matches!(self.phase, Phase::Comes) {
            let now = waiting.clock.now();
            if let Some(spent) = waiting.store.pass(key, self.cost, now) {
                self.phase = Phase::Gone;
                return Poll::Ready(Ok(Turn::new(spent)));
            }
            if let Err(at_once) = self.come(waiting, key, now) {
                self.phase = Phase::Gone;
                return Poll::Ready(at_once);
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
        // As of every future: whoever polls on has had the answer.
        let Phase::Stays(stay) = &mut self.phase else {
            return Poll::Pending;
        };
        let outcome = ready!(stay.poll(waiting, key, context));
        self.phase = Phase::Gone;
        Poll::Ready(outcome)
    }

    /// Gives back the place, or what was spent, of one who does not go after all.
    #[inline]
    pub(super) fn give_back<S, C, T, Q>(&mut self, waiting: &Waiting<S, C, T>, key: &Q)
    where
        S: Waits<Q>,
        C: Clock,
        Q: ?Sized,
    {
        if matches!(self.phase, Phase::Stays(_)) {
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
        let Phase::Stays(stay) = mem::replace(&mut self.phase, Phase::Gone) else {
            return;
        };
        if let Stay::Waits { place, .. } = &*stay {
            place.forget_waker();
        }
        let now = Some(waiting.clock.now());
        waiting.store.at_counter(key, now, |counter| match &*stay {
            Stay::Waits { place, .. } => counter.leave(place),
            Stay::Lingers { turn, .. } => counter.give_back(turn.spent()),
        });
    }

    /// Takes a place, unless it has its answer at once.
    #[inline(never)]
    fn come<S, C, T, Q>(
        &mut self,
        waiting: &Waiting<S, C, T>,
        key: &Q,
        now: Timestamp,
    ) -> Result<(), Result<Turn, WaitError>>
    where
        S: Waits<Q>,
        Q: ?Sized,
    {
        let terms = self.terms.as_deref().unwrap_or(&Terms::NONE);
        let bounds = waiting.limits.bounds(now, terms);
        loop {
            let join = |counter: &mut Counter<'_, S::Limiter>| counter.join(self.cost, &bounds);
            if let Some(joined) = waiting.store.at_counter(key, Some(now), join) {
                let place = joined.map_err(|refusal| Err(refusal.into()))?.place;
                let stay = Stay::Waits {
                    place,
                    alarm: None,
                    has_waited: false,
                };
                self.phase = Phase::Stays(Box::new(stay));
                return Ok(());
            }
            // Nobody waits for a client that is not known: it is a newcomer.
            let cost = self.cost;
            let decision = waiting
                .store
                .take_by(key, cost, now, |limiter, state, (at, _)| {
                    limiter.check_undelayed(state, at, cost)
                });
            match decision {
                Ok(decision) if decision.is_allowed() && decision.delay_ns() == 0 => {
                    return Err(Ok(Turn::new(decision.spent())));
                }
                Ok(decision) if decision.is_store_full() => {
                    return Err(Err(WaitError::StoreFull(Box::new(decision))));
                }
                // It has come to be known in between.
                Ok(_) => {}
                Err(never) => return Err(Err(WaitError::CostTooHigh(never))),
            }
        }
    }
}

impl<F: Future<Output = ()>> Stay<F> {
    fn poll<S, C, T, Q>(
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
            match self {
                Self::Waits {
                    place,
                    alarm,
                    has_waited,
                } => {
                    let Poll::Ready(outcome) = wait(waiting, key, place, alarm, context) else {
                        *has_waited = true;
                        return Poll::Pending;
                    };
                    let turn = outcome?;
                    let more = if *has_waited {
                        waiting.jitter.draw()
                    } else {
                        Duration::ZERO
                    };
                    if more.is_zero() {
                        return Poll::Ready(Ok(turn));
                    }
                    let sleep = Box::pin(waiting.timers.sleep(more));
                    *self = Self::Lingers { turn, sleep };
                }
                Self::Lingers { turn, sleep } => {
                    ready!(sleep.as_mut().poll(context));
                    return Poll::Ready(Ok(*turn));
                }
            }
        }
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

/// How often a timer that is over too soon is set anew before others get their turn.
const MOST_TURNS: usize = 4;

/// Sleeping a year is like sleeping for good, and no runtime's timers overflow by it.
const LONGEST_SLEEP: Duration = Duration::from_secs(365 * 24 * 60 * 60);
