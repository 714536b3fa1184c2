//! The two that hold states, as one: so that each promise is tested over both, and over every rule.

use tollgate::wait::Waits;
use tollgate::{
    All, CostTooHigh, Decision, Direct, FixedWindow, Keyed, LeakyBucket, Limiter, Policy, Quota,
    Receipt, SlidingLog, SlidingWindowCounter, Timestamp, TokenBucket,
};

pub(crate) trait Face: Waits<Self::Key> + Sized {
    type L: Limiter;
    type Key;
    const KEY: Self::Key;

    fn of(limiter: Self::L) -> Self;
    fn allow(&self, now: Timestamp) -> bool;
    fn check(&self, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh>;
    fn peek(&self, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh>;
    fn at_most(&self, cost: u64, now: Timestamp) -> Decision;
    fn charge(&self, cost: u64, now: Timestamp) -> Decision;
    fn refund(&self, receipt: Receipt, now: Timestamp) -> u64;
    fn reset(&self);
    fn set_limiter(&self, limiter: Self::L, now: Timestamp);
}

impl<L: Limiter> Face for Direct<L> {
    type L = L;
    type Key = ();
    const KEY: () = ();

    fn of(limiter: L) -> Self {
        Self::new(limiter)
    }
    fn allow(&self, now: Timestamp) -> bool {
        self.allow(now)
    }
    fn check(&self, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh> {
        self.check_n(cost, now)
    }
    fn peek(&self, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh> {
        self.peek_n(cost, now)
    }
    fn at_most(&self, cost: u64, now: Timestamp) -> Decision {
        self.at_most(cost, now)
    }
    fn charge(&self, cost: u64, now: Timestamp) -> Decision {
        self.charge(cost, now)
    }
    fn refund(&self, receipt: Receipt, now: Timestamp) -> u64 {
        self.refund(receipt, now)
    }
    fn reset(&self) {
        self.reset();
    }
    fn set_limiter(&self, limiter: L, now: Timestamp) {
        self.set_limiter(limiter, now);
    }
}

impl<L: Limiter> Face for Keyed<u64, L> {
    type L = L;
    type Key = u64;
    const KEY: u64 = 7;

    fn of(limiter: L) -> Self {
        Self::new(limiter)
    }
    fn allow(&self, now: Timestamp) -> bool {
        self.allow(&Self::KEY, now)
    }
    fn check(&self, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh> {
        self.check_n(&Self::KEY, cost, now)
    }
    fn peek(&self, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh> {
        self.peek_n(&Self::KEY, cost, now)
    }
    fn at_most(&self, cost: u64, now: Timestamp) -> Decision {
        self.at_most(&Self::KEY, cost, now)
    }
    fn charge(&self, cost: u64, now: Timestamp) -> Decision {
        self.charge(&Self::KEY, cost, now)
    }
    fn refund(&self, receipt: Receipt, now: Timestamp) -> u64 {
        self.refund(&Self::KEY, receipt, now)
    }
    fn reset(&self) {
        self.reset(&Self::KEY);
    }
    fn set_limiter(&self, limiter: L, now: Timestamp) {
        self.set_limiter(limiter, now);
    }
}

/// A limiter that can be made of a quota: what grants it at once is its limit.
pub(crate) trait Rule: Limiter {
    fn of(quota: Quota) -> Self;
}

impl Rule for TokenBucket {
    fn of(quota: Quota) -> Self {
        Self::new(quota)
    }
}

impl Rule for LeakyBucket {
    fn of(quota: Quota) -> Self {
        Self::new(quota)
    }
}

impl Rule for FixedWindow {
    fn of(quota: Quota) -> Self {
        Self::new(quota)
    }
}

impl Rule for SlidingLog {
    fn of(quota: Quota) -> Self {
        Self::new(quota)
    }
}

impl Rule for SlidingWindowCounter {
    fn of(quota: Quota) -> Self {
        Self::new(quota)
    }
}

impl Rule for Policy {
    fn of(quota: Quota) -> Self {
        Self::from(LeakyBucket::new(quota))
    }
}

impl Rule for (TokenBucket, FixedWindow) {
    fn of(quota: Quota) -> Self {
        let limit = quota.limit();
        let wider = Quota::new(limit * 6, quota.period() * 5).expect("a wider window");
        (TokenBucket::of(quota), FixedWindow::of(wider))
    }
}

impl Rule for All {
    fn of(quota: Quota) -> Self {
        let queue = LeakyBucket::new(quota);
        let log = SlidingLog::new(quota);
        Self::new([queue.into(), log.into()]).expect("two members")
    }
}

/// One test per promise, over every rule and both holders: `over_all! { promise promise }`.
macro_rules! over_all {
    ($($promise:ident)*) => {
        over_all! { @subjects [$($promise)*]
            token_bucket: tollgate::TokenBucket,
            leaky_bucket: tollgate::LeakyBucket,
            fixed_window: tollgate::FixedWindow,
            sliding_log: tollgate::SlidingLog,
            sliding_window_counter: tollgate::SlidingWindowCounter,
            policy: tollgate::Policy,
            tuple: (tollgate::TokenBucket, tollgate::FixedWindow),
            all: tollgate::All,
        }
    };
    (@subjects $promises:tt $($module:ident: $rule:ty,)*) => { $(
        mod $module {
            mod direct {
                crate::faces::over_all! { @one $promises tollgate::Direct<$rule> }
            }
            mod keyed {
                crate::faces::over_all! { @one $promises tollgate::Keyed<u64, $rule> }
            }
        }
    )* };
    (@one [$($promise:ident)*] $face:ty) => { $(
        #[test]
        fn $promise() {
            super::super::$promise::<$face>();
        }
    )* };
}
pub(crate) use over_all;
