//! [`Direct`]: one limit for everyone.

mod waits;

use core::{fmt, mem};

use parking_lot::{Mutex, MutexGuard};

use crate::decision::{Decision, Receipt};
use crate::error::CostTooHigh;
use crate::estimate::{Estimate, EstimateError, Settle};
use crate::holder::{HolderTime, Instant};
use crate::limiter::{Limiter, expect_grantable};
#[cfg(feature = "wait")]
use crate::queue::Queue;
use crate::time::Timestamp;

/// One limiter with one state: a limit that all callers share, such as a budget for calls to somebody else's API.
///
/// It may be called from any thread. Concurrent calls behave as if they came in some order, one after the other. A call
/// is decided at the later of its stamp and the latest charge, and waits are counted from its own stamp. A stamp more
/// than ten seconds late means that the clock was set back: the difference is then added to all that follow. Time ends at
/// [`Timestamp::MAX`]: a limiter that was charged at such a stamp stands still from then on.
///
/// ```
/// use tollgate::{Clock, Direct, Quota, SystemClock, TokenBucket};
///
/// let clock = SystemClock::new();
/// let limiter = Direct::new(TokenBucket::new(Quota::per_second(50)).with_burst(5));
/// if limiter.allow(clock.now()) { /* call */ } else { /* back off */ }
/// ```
pub struct Direct<L: Limiter> {
    held: Mutex<Held<L>>,
}

struct Held<L: Limiter> {
    limiter: L,
    state: L::State,
    time: HolderTime,
    #[cfg(feature = "wait")]
    queue: Option<Box<Queue<L::State>>>,
}

impl<L: Limiter> Direct<L> {
    /// A limiter that nobody has spent anything of.
    pub fn new(limiter: L) -> Self {
        let held = Held {
            state: limiter.fresh(Timestamp::EPOCH),
            limiter,
            time: HolderTime::default(),
            #[cfg(feature = "wait")]
            queue: None,
        };
        Self {
            held: Mutex::new(held),
        }
    }

    /// Whether a request of cost 1 may go at `now`; if so, its unit is spent.
    #[inline]
    pub fn allow(&self, now: Timestamp) -> bool {
        let mut held = self.held.lock();
        if held.has_queue() {
            drop(held);
            return self.check(now).is_allowed();
        }
        let instant = held.date(now);
        let Held {
            limiter,
            state,
            time,
            ..
        } = &mut *held;
        // No decision is made of what is only asked whether: of several limits, that is most of the work.
        let Ok(found) = limiter.look(state, instant.now, 1) else {
            return false;
        };
        let admits = limiter.admits(&found);
        if admits {
            limiter.take(state, instant.now, &found, 1);
            if limiter.spends(&found) {
                time.pass(instant);
            }
        }
        admits
    }

    /// The decision on a request of cost 1 at `now`, whose unit is spent if it is allowed.
    #[inline]
    pub fn check(&self, now: Timestamp) -> Decision {
        expect_grantable(self.check_n(1, now))
    }

    /// The decision on a request of `cost` units at `now`, which are spent if it is allowed.
    ///
    /// # Errors
    ///
    /// [`CostTooHigh`] if no wait would ever let `cost` pass; nothing has changed.
    #[inline]
    pub fn check_n(&self, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh> {
        self.ask((cost, now), |limiter, state, now| {
            limiter.check(state, now, cost)
        })
    }

    /// Decides as [`check_n`](Self::check_n) does, and tells besides what each of several limits says by itself: see
    /// [`Limiter::check_each`]. `report` must not call this limiter.
    ///
    /// # Errors
    ///
    /// [`CostTooHigh`] if no wait would ever let `cost` pass; nothing has changed, and nothing is reported.
    pub fn check_each(
        &self,
        cost: u64,
        now: Timestamp,
        mut report: impl FnMut(usize, Decision),
    ) -> Result<Decision, CostTooHigh> {
        let mut held = self.held.lock();
        if held.has_queue() {
            if let Some(behind) = self.behind_others(&mut held, cost, now) {
                Self::report_behind(&mut held, cost, now, &mut report);
                return behind;
            }
        }
        let lateness_ns = held.time.date(now).lateness_ns();
        held.ask(now, |limiter, state, now| {
            limiter.check_each(state, now, cost, &mut |member, mut decision| {
                decision.count_from(lateness_ns);
                report(member, decision);
            })
        })
    }

    /// The decision that [`check`](Self::check) would take, spending nothing.
    #[inline]
    pub fn peek(&self, now: Timestamp) -> Decision {
        expect_grantable(self.peek_n(1, now))
    }

    /// The decision that [`check_n`](Self::check_n) would take, spending nothing.
    ///
    /// # Errors
    ///
    /// [`CostTooHigh`] if no wait would ever let `cost` pass.
    pub fn peek_n(&self, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh> {
        let mut held = self.held.lock();
        if held.has_queue() {
            if let Some(found) = self.peek_others(&mut held, cost, now) {
                return found;
            }
        }
        held.ask(now, |limiter, state, now| limiter.peek(state, now, cost))
    }

    /// Grants as many of `cost` units as there are at `now`; [`Decision::granted`] says how many. See
    /// [`Limiter::at_most`].
    ///
    /// ```
    /// use tollgate::{Direct, Quota, Timestamp, TokenBucket};
    ///
    /// let limiter = Direct::new(TokenBucket::new(Quota::per_second(10)));
    /// let now = Timestamp::from_secs(1_000);
    /// assert_eq!(limiter.at_most(7, now).granted(), 7);
    /// assert_eq!(limiter.at_most(7, now).granted(), 3);
    /// assert!(!limiter.at_most(7, now).is_allowed());
    /// ```
    pub fn at_most(&self, cost: u64, now: Timestamp) -> Decision {
        expect_grantable(self.ask((cost.min(1), now), |limiter, state, now| {
            Ok(limiter.at_most(state, now, cost))
        }))
    }

    /// Records `cost` units that were spent already, even beyond the limit. See [`Limiter::charge`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Direct, Quota, Timestamp, TokenBucket};
    ///
    /// let bytes = Direct::new(TokenBucket::new(Quota::per_second(1_000)));
    /// let now = Timestamp::from_secs(1_000);
    /// let after = bytes.charge(1_500, now);
    /// assert_eq!(after.debt(), 500);
    /// assert_eq!(after.retry_after(), Duration::from_millis(501), "the debt, and one unit");
    /// ```
    pub fn charge(&self, cost: u64, now: Timestamp) -> Decision {
        let mut held = self.held.lock();
        // Whoever may go by now was there first.
        if cost > 0 {
            self.serve_queue(&mut held, now);
        }
        let charged = expect_grantable(held.ask(now, |limiter, state, now| {
            Ok(limiter.charge(state, now, cost))
        }));
        if !held.has_queue() {
            return charged;
        }
        if cost > 0 {
            self.changed(&mut held, Some(now));
        }
        match self.peek_others(&mut held, 1, now) {
            Some(Ok(behind)) => charged.charged_behind(behind),
            _ => charged,
        }
    }

    /// Gives back what a charge has spent, and says how many whole units that were. See [`Limiter::refund`].
    ///
    /// It is no charge: it does not move the limiter's time.
    pub fn refund(&self, receipt: Receipt, now: Timestamp) -> u64 {
        let mut held = self.held.lock();
        self.serve_queue(&mut held, now);
        self.refund_at(&mut held, receipt, Some(now))
    }

    /// Spends an estimate of what a request will cost, to be settled when the cost is known.
    ///
    /// # Errors
    ///
    /// [`EstimateError`] if the estimate is refused, or could never be granted.
    pub fn estimate(&self, cost: u64, now: Timestamp) -> Result<Estimate<&Self>, EstimateError> {
        Estimate::new(self, self.check_n(cost, now))
    }

    /// Forgets what was spent: everything is as at the beginning, but for the time.
    pub fn reset(&self) {
        let mut held = self.held.lock();
        let now = held.time.latest().now;
        held.state = held.limiter.fresh(now);
        self.changed(&mut held, None);
    }

    /// Puts another limiter in this one's place, at `now`; what was spent is carried over ([`Limiter::carry`]).
    ///
    /// As by a charge, time comes to `now`: so it is what the clock says.
    pub fn set_limiter(&self, limiter: L, now: Timestamp) {
        let mut held = self.held.lock();
        self.serve_queue(&mut held, now);
        let instant = held.date(now);
        let fresh = limiter.fresh(instant.now);
        let state = mem::replace(&mut held.state, fresh);
        held.state = limiter.carry(&held.limiter, state, instant.now);
        held.limiter = limiter;
        held.time.pass(instant);
        self.relimited(&mut held, now);
    }

    /// The rule.
    pub fn limiter(&self) -> L {
        self.held.lock().limiter.clone()
    }

    #[inline]
    fn ask(
        &self,
        (cost, now): (u64, Timestamp),
        ask: impl FnOnce(&L, &mut L::State, Timestamp) -> Result<Decision, CostTooHigh>,
    ) -> Result<Decision, CostTooHigh> {
        let mut held = self.held.lock();
        if held.has_queue() {
            if let Some(behind) = self.behind_others(&mut held, cost, now) {
                return behind;
            }
        }
        held.ask(now, ask)
    }

    fn refund_at(
        &self,
        held: &mut MutexGuard<'_, Held<L>>,
        receipt: Receipt,
        stamp: Option<Timestamp>,
    ) -> u64 {
        let instant = match stamp {
            Some(stamp) => held.date(stamp),
            None => held.time.latest(),
        };
        let Held { limiter, state, .. } = &mut **held;
        let given = limiter.refund(state, instant.now, receipt);
        self.changed(held, stamp);
        given
    }
}

impl<L: Limiter> Held<L> {
    #[inline]
    fn ask(
        &mut self,
        now: Timestamp,
        ask: impl FnOnce(&L, &mut L::State, Timestamp) -> Result<Decision, CostTooHigh>,
    ) -> Result<Decision, CostTooHigh> {
        let instant = self.time.date(now);
        let mut decision = ask(&self.limiter, &mut self.state, instant.now)?;
        self.time.settle(instant, &mut decision);
        Ok(decision)
    }

    /// Dates what is no decision.
    fn date(&mut self, now: Timestamp) -> Instant {
        let instant = self.time.date(now);
        if instant.clock_was_set_back() {
            self.time.note_set_back(instant);
        }
        instant
    }
}

impl<L: Limiter> Settle for &Direct<L> {
    fn charge(&self, cost: u64, now: Timestamp) -> Decision {
        Direct::charge(self, cost, now)
    }

    fn refund(&self, receipt: Receipt, now: Option<Timestamp>) {
        match now {
            Some(now) => {
                Direct::refund(self, receipt, now);
            }
            None => {
                self.refund_at(&mut self.held.lock(), receipt, None);
            }
        }
    }

    fn peek(&self, now: Timestamp) -> Decision {
        Direct::peek(self, now)
    }
}

impl<L: Limiter> fmt::Debug for Direct<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct")
            .field("limiter", &self.limiter())
            .finish_non_exhaustive()
    }
}
