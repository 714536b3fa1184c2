//! [`Reservation`]: units booked now for an instant to come.

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::WaitError;
use crate::algorithm::{Booking, LeakyBucket, TokenBucket};
use crate::decision::{Decision, Recorded};
use crate::direct::Direct;
use crate::error::CostTooHigh;
use crate::keyed::{Keyed, Lookup};
use crate::limiter::Limiter;
use crate::queue::{Bounds, Place, Waits};
use crate::time::{Timestamp, saturating_nanos};

/// A limiter whose units can be booked ahead: its state goes below empty, and orders everyone by itself.
///
/// That is what the buckets can. What a window counts it counts from now on: it has no place for a unit to come.
pub trait Book: Limiter {
    /// Books `cost` units for the first instant at which they may be spent, if that is at most `max_wait_ns` away and the state
    /// can hold it; otherwise says how long it would be.
    #[doc(hidden)]
    fn book(
        &self,
        state: &mut Self::State,
        now: Timestamp,
        cost: u64,
        max_wait_ns: u64,
    ) -> Result<Result<Booking, u64>, CostTooHigh>;

    /// Gives back what can still be given of a booking; says how many whole units that were.
    #[doc(hidden)]
    fn cancel(&self, state: &mut Self::State, now: Timestamp, booking: &Booking) -> u64;
}

macro_rules! book_in_bucket {
    ($rule:ty) => {
        impl Book for $rule {
            fn book(
                &self,
                state: &mut Self::State,
                now: Timestamp,
                cost: u64,
                max_wait_ns: u64,
            ) -> Result<Result<Booking, u64>, CostTooHigh> {
                let delays = Self::SHAPES;
                self.bucket().book(state, now, cost, max_wait_ns, delays)
            }

            fn cancel(&self, state: &mut Self::State, now: Timestamp, booking: &Booking) -> u64 {
                self.bucket().cancel(state, now, booking)
            }
        }
    };
}

book_in_bucket!(TokenBucket);
book_in_bucket!(LeakyBucket);

/// Units that were booked, and the instant from which whoever booked them may act.
///
/// Whoever has acted says so ([`keep`](Self::keep)), and whoever will not [cancels](Self::cancel): what nobody has booked after
/// it is given back, and nothing once its instant has passed (these are the rules of Go's `x/time/rate`). Dropped without either,
/// it is cancelled, at the instant of the latest charge that the limiter has seen, for it has no clock.
#[must_use = "a reservation that is dropped is cancelled"]
pub struct Reservation<'a, S: Waits<Q, Limiter: Book>, Q: ?Sized> {
    store: &'a S,
    key: &'a Q,
    units: u64,
    act_at: Timestamp,
    /// `None` once nothing is to be given back.
    booked: Option<Booked>,
}

enum Booked {
    InState(Booking),
    /// Others wait, and nothing is spent before they have gone.
    Behind(Arc<Place>),
}

impl<L: Book> Direct<L> {
    /// Books `cost` units for the first instant at which they may be spent, behind whoever waits already.
    ///
    /// It is a charge: who comes after has to wait until these units have come in.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Direct, Quota, Timestamp, TokenBucket};
    ///
    /// let limiter = Direct::new(TokenBucket::new(Quota::per_second(10)).with_burst(2));
    /// let now = Timestamp::from_secs(1_000);
    /// limiter.reserve(2, now, Duration::ZERO)?.keep();
    /// let reservation = limiter.reserve(2, now, Duration::from_secs(1))?;
    /// assert_eq!(reservation.act_at(), now + Duration::from_millis(200));
    /// // On second thoughts:
    /// assert_eq!(reservation.cancel(now + Duration::from_millis(100)), 2);
    /// # Ok::<(), tollgate::wait::WaitError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`WaitError`], and nothing has changed: the instant is further than `max_wait` away, or the cost is above what the
    /// limit can grant at once.
    pub fn reserve(
        &self,
        cost: u64,
        now: Timestamp,
        max_wait: Duration,
    ) -> Result<Reservation<'_, Self, ()>, WaitError> {
        Reservation::new(self, &(), cost, now, max_wait)
    }
}

impl<K, L, H> Keyed<K, L, H>
where
    K: std::hash::Hash + Eq,
    L: Book,
    H: std::hash::BuildHasher,
{
    /// Books `cost` units of `key` for the first instant at which they may be spent, behind whoever waits already. See
    /// [`Direct::reserve`].
    ///
    /// # Errors
    ///
    /// [`WaitError`], and nothing has changed: the instant is further than `max_wait` away, the cost is above what the limit can
    /// grant at once, or the store has no room for a newcomer.
    pub fn reserve<'a, Q: Lookup<K> + ?Sized>(
        &'a self,
        key: &'a Q,
        cost: u64,
        now: Timestamp,
        max_wait: Duration,
    ) -> Result<Reservation<'a, Self, Q>, WaitError> {
        Reservation::new(self, key, cost, now, max_wait)
    }
}

impl<'a, S: Waits<Q, Limiter: Book>, Q: ?Sized> Reservation<'a, S, Q> {
    fn new(
        store: &'a S,
        key: &'a Q,
        cost: u64,
        now: Timestamp,
        max_wait: Duration,
    ) -> Result<Self, WaitError> {
        let max_wait_ns = saturating_nanos(max_wait);
        let (booked, wait_ns) = if cost == 0 {
            (None, 0)
        } else {
            let (booked, wait_ns) = book(store, key, cost, now, max_wait_ns)?;
            (Some(booked), wait_ns)
        };
        Ok(Self {
            store,
            key,
            units: cost,
            act_at: Timestamp::from_nanos(now.as_nanos().saturating_add(wait_ns)),
            booked,
        })
    }

    /// The instant from which the units may be spent, by the caller's clock.
    #[must_use]
    pub const fn act_at(&self) -> Timestamp {
        self.act_at
    }

    /// How long that is from `now`.
    #[must_use]
    pub fn wait_from(&self, now: Timestamp) -> Duration {
        Duration::from_nanos(self.act_at.nanos_since(now))
    }

    /// The units that are booked.
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.units
    }

    /// Lets the units be spent: somebody has acted, or will.
    pub fn keep(mut self) {
        self.booked = None;
    }

    /// Gives back what can still be given at `now`; says how many units that were.
    ///
    /// Nothing once the instant has passed. Before, all but what was booked after it: whoever booked that was told an instant
    /// which holds. Where the limit is another since, that cannot be told, and nothing is given back.
    pub fn cancel(mut self, now: Timestamp) -> u64 {
        if now > self.act_at {
            self.booked = None;
            return 0;
        }
        self.give_back(Some(now))
    }

    fn give_back(&mut self, now: Option<Timestamp>) -> u64 {
        let Some(booked) = self.booked.take() else {
            return 0;
        };
        let given = self
            .store
            .at_counter(self.key, now, |counter| match booked {
                Booked::InState(booking) => {
                    counter.change(|limiter, state, now| limiter.cancel(state, now, &booking))
                }
                Booked::Behind(place) => counter.leave(&place),
            });
        given.unwrap_or(0)
    }
}

/// Books in the state, or behind those who wait; says how long it is until then, by the caller's stamp.
fn book<S: Waits<Q, Limiter: Book>, Q: ?Sized>(
    store: &S,
    key: &Q,
    cost: u64,
    now: Timestamp,
    max_wait_ns: u64,
) -> Result<(Booked, u64), WaitError> {
    loop {
        let mut outcome = None;
        let decision = store.take_by(key, cost, now, |limiter, state, (at, late_ns)| {
            // Waits are counted from the caller's own stamp.
            let max_wait_ns = max_wait_ns.saturating_sub(late_ns);
            let booked = limiter.book(state, at, cost, max_wait_ns)?;
            let stands = limiter.peek(state, at, cost)?;
            outcome = Some(booked);
            Ok(match booked {
                Ok(booking) => {
                    let wait_ns = booking.act_at.nanos_since(at);
                    stands.booked(Recorded::of(cost), wait_ns)
                }
                Err(wait_ns) => Decision::behind_others(&stands, (0, wait_ns), stands.debt(), at),
            })
        })?;
        if decision.is_store_full() {
            return Err(WaitError::StoreFull(Box::new(decision)));
        }
        match outcome {
            Some(Ok(booking)) => return Ok((Booked::InState(booking), decision.delay_ns())),
            Some(Err(_)) => return Err(WaitError::TooLong(Box::new(decision))),
            // It was refused because others wait.
            None => {}
        }
        let bounds = Bounds {
            max_wait_ns,
            ..Bounds::OF_A_BOOKING
        };
        let joined = store.at_counter(key, Some(now), |counter| counter.join_others(cost, &bounds));
        if let Some(joined) = joined.flatten() {
            let joined = joined?;
            return Ok((Booked::Behind(joined.place), joined.wait_ns));
        }
        // They have gone in between.
    }
}

impl<S: Waits<Q, Limiter: Book>, Q: ?Sized> Drop for Reservation<'_, S, Q> {
    fn drop(&mut self) {
        self.give_back(None);
    }
}

impl<S: Waits<Q, Limiter: Book>, Q: ?Sized> fmt::Debug for Reservation<'_, S, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("units", &self.units())
            .field("act_at", &self.act_at)
            .finish_non_exhaustive()
    }
}
