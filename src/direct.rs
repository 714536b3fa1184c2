//! [`Direct`]: one limit for everyone.

use core::fmt;

use parking_lot::Mutex;

use crate::decision::Decision;
use crate::error::CostTooHigh;
use crate::holder::{HolderTime, always_fits};
use crate::limiter::Limiter;
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
    limiter: L,
    held: Mutex<Held<L::State>>,
}

struct Held<S> {
    state: S,
    time: HolderTime,
}

impl<L: Limiter> Direct<L> {
    /// A limiter that nobody has spent anything of.
    pub fn new(limiter: L) -> Self {
        let held = Held {
            state: limiter.fresh(Timestamp::EPOCH),
            time: HolderTime::default(),
        };
        Self {
            limiter,
            held: Mutex::new(held),
        }
    }

    /// Whether a request of cost 1 may go at `now`; if so, its unit is spent.
    #[inline]
    pub fn allow(&self, now: Timestamp) -> bool {
        self.check(now).is_allowed()
    }

    /// The decision on a request of cost 1 at `now`, whose unit is spent if it is allowed.
    #[inline]
    pub fn check(&self, now: Timestamp) -> Decision {
        always_fits(self.check_n(1, now))
    }

    /// The decision on a request of `cost` units at `now`, which are spent if it is allowed.
    ///
    /// # Errors
    ///
    /// [`CostTooHigh`] if no wait would ever let `cost` pass; nothing has changed.
    #[inline]
    pub fn check_n(&self, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh> {
        let mut held = self.held.lock();
        let Held { state, time } = &mut *held;
        let instant = time.date(now);
        let mut decision = self.limiter.check(state, instant.now, cost)?;
        time.settle(instant, &mut decision);
        Ok(decision)
    }

    /// The decision that [`check`](Self::check) would take, spending nothing.
    #[inline]
    pub fn peek(&self, now: Timestamp) -> Decision {
        always_fits(self.peek_n(1, now))
    }

    /// The decision that [`check_n`](Self::check_n) would take, spending nothing.
    ///
    /// # Errors
    ///
    /// [`CostTooHigh`] if no wait would ever let `cost` pass.
    pub fn peek_n(&self, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh> {
        let mut held = self.held.lock();
        let instant = held.time.date(now);
        let mut decision = self.limiter.peek(&held.state, instant.now, cost)?;
        held.time.settle(instant, &mut decision);
        Ok(decision)
    }

    /// The rule.
    pub const fn limiter(&self) -> &L {
        &self.limiter
    }
}

impl<L: Limiter + fmt::Debug> fmt::Debug for Direct<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct")
            .field("limiter", &self.limiter)
            .finish_non_exhaustive()
    }
}
