//! Holders under one face, and how a history's calls are put to them.

use std::hash::{BuildHasher, DefaultHasher, Hasher};

use tollgate::keyed::RandomState;
use tollgate::{CostTooHigh, Decision, Direct, Keyed, Receipt, Timestamp};

use super::histories::{Call, Receipts};
use super::oracle::Answer;
use super::specs::{Composed, Subject};

/// What every holder answers to; one without keys ignores them.
pub trait Store: Sync + Sized {
    type Limiter: Subject;
    /// How many keys it tells apart.
    const KEYS: u8;
    /// How many keys are sure to share one holder's time.
    const KEYS_OF_ONE_TIME: u8;

    fn new(limiter: Self::Limiter) -> Self;
    fn check_n(&self, key: u8, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh>;
    fn peek_n(&self, key: u8, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh>;
    fn allow(&self, key: u8, now: Timestamp) -> bool;
    fn check(&self, key: u8, now: Timestamp) -> Decision;
    fn peek(&self, key: u8, now: Timestamp) -> Decision;
    fn at_most(&self, key: u8, cost: u64, now: Timestamp) -> Decision;
    fn charge(&self, key: u8, cost: u64, now: Timestamp) -> Decision;
    fn refund(&self, key: u8, receipt: Receipt, now: Timestamp) -> u64;
    fn reset(&self, key: u8);
    fn check_each(
        &self,
        key: u8,
        cost: u64,
        now: Timestamp,
        report: &mut dyn FnMut(usize, Decision),
    ) -> Result<Decision, CostTooHigh>;
    fn set_limiter(&self, limiter: Self::Limiter, now: Timestamp);
}

/// What is asked of one store, call by call; or by one of the threads that ask it.
pub struct Asking<'a, S: Store> {
    pub store: &'a S,
    limits: &'a [Composed],
    pub receipts: Receipts,
}

impl<'a, S: Store> Asking<'a, S> {
    pub fn of(store: &'a S, limits: &'a [Composed]) -> Self {
        Asking {
            store,
            limits,
            receipts: Receipts::default(),
        }
    }

    pub fn ask(&mut self, number: usize, call: Call) -> Answer {
        let Asking { store, .. } = self;
        let (key, cost, now) = (call.key(), call.cost(), call.now());
        let decision = match call {
            Call::Check { .. } => store.check_n(key, cost, now),
            Call::Peek { .. } => store.peek_n(key, cost, now),
            Call::AtMost { .. } => Ok(store.at_most(key, cost, now)),
            Call::Charge { .. } => Ok(store.charge(key, cost, now)),
            Call::Refund { of, units, .. } => {
                return match self.receipts.part(of, units) {
                    Some(receipt) => Answer::GaveBack(store.refund(key, receipt, now)),
                    None => Answer::Nothing,
                };
            }
            Call::Reset { .. } => {
                store.reset(key);
                return Answer::Nothing;
            }
            Call::Change { to, .. } => {
                store.set_limiter(S::Limiter::build(&self.limits[to]), now);
                return Answer::Nothing;
            }
        };
        self.keep(number, &decision);
        decision.into()
    }

    /// Keeps the receipt that a call was given.
    pub fn keep(&mut self, number: usize, decision: &Result<Decision, CostTooHigh>) {
        let receipt = decision.as_ref().ok().and_then(Decision::receipt);
        self.receipts.keep(number, receipt);
    }
}

impl<L> Store for Direct<L>
where
    L: Subject<State: Send> + Send,
{
    type Limiter = L;
    const KEYS: u8 = 1;
    const KEYS_OF_ONE_TIME: u8 = 1;

    fn new(limiter: L) -> Self {
        Direct::new(limiter)
    }

    fn check_n(&self, _: u8, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh> {
        self.check_n(cost, now)
    }

    fn peek_n(&self, _: u8, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh> {
        self.peek_n(cost, now)
    }

    fn allow(&self, _: u8, now: Timestamp) -> bool {
        self.allow(now)
    }

    fn check(&self, _: u8, now: Timestamp) -> Decision {
        self.check(now)
    }

    fn peek(&self, _: u8, now: Timestamp) -> Decision {
        self.peek(now)
    }

    fn at_most(&self, _: u8, cost: u64, now: Timestamp) -> Decision {
        self.at_most(cost, now)
    }

    fn charge(&self, _: u8, cost: u64, now: Timestamp) -> Decision {
        self.charge(cost, now)
    }

    fn refund(&self, _: u8, receipt: Receipt, now: Timestamp) -> u64 {
        self.refund(receipt, now)
    }

    fn reset(&self, _: u8) {
        self.reset();
    }

    fn check_each(
        &self,
        _: u8,
        cost: u64,
        now: Timestamp,
        report: &mut dyn FnMut(usize, Decision),
    ) -> Result<Decision, CostTooHigh> {
        self.check_each(cost, now, report)
    }

    fn set_limiter(&self, limiter: L, now: Timestamp) {
        self.set_limiter(limiter, now);
    }
}

impl<L, H> Store for Keyed<String, L, H>
where
    L: Subject<State: Send> + Send + Sync,
    H: HashKeys,
{
    type Limiter = L;
    const KEYS: u8 = KEYS;
    const KEYS_OF_ONE_TIME: u8 = H::KEYS_OF_ONE_TIME;

    fn new(limiter: L) -> Self {
        Keyed::with_hasher(limiter, H::default())
    }

    fn check_n(&self, key: u8, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh> {
        self.check_n(name(key), cost, now)
    }

    fn peek_n(&self, key: u8, cost: u64, now: Timestamp) -> Result<Decision, CostTooHigh> {
        self.peek_n(name(key), cost, now)
    }

    fn allow(&self, key: u8, now: Timestamp) -> bool {
        self.allow(name(key), now)
    }

    fn check(&self, key: u8, now: Timestamp) -> Decision {
        self.check(name(key), now)
    }

    fn peek(&self, key: u8, now: Timestamp) -> Decision {
        self.peek(name(key), now)
    }

    fn at_most(&self, key: u8, cost: u64, now: Timestamp) -> Decision {
        self.at_most(name(key), cost, now)
    }

    fn charge(&self, key: u8, cost: u64, now: Timestamp) -> Decision {
        self.charge(name(key), cost, now)
    }

    fn refund(&self, key: u8, receipt: Receipt, now: Timestamp) -> u64 {
        self.refund(name(key), receipt, now)
    }

    fn reset(&self, key: u8) {
        self.reset(name(key));
    }

    fn check_each(
        &self,
        key: u8,
        cost: u64,
        now: Timestamp,
        report: &mut dyn FnMut(usize, Decision),
    ) -> Result<Decision, CostTooHigh> {
        self.check_each(name(key), cost, now, report)
    }

    fn set_limiter(&self, limiter: L, now: Timestamp) {
        self.set_limiter(limiter, now);
    }
}

pub trait HashKeys: BuildHasher + Default + Sync {
    const KEYS_OF_ONE_TIME: u8;
}

impl HashKeys for RandomState {
    const KEYS_OF_ONE_TIME: u8 = 1;
}

impl HashKeys for Near {
    const KEYS_OF_ONE_TIME: u8 = KEYS;
}

/// A store whose shards are told apart by bits that its hashes do not differ in: its keys share one shard, and so its time.
pub type OneShard<L> = Keyed<String, L, Near>;

#[derive(Clone, Copy, Debug, Default)]
pub struct Near;

#[derive(Debug, Default)]
pub struct NearHasher(DefaultHasher);

impl BuildHasher for Near {
    type Hasher = NearHasher;

    fn build_hasher(&self) -> NearHasher {
        NearHasher::default()
    }
}

impl Hasher for NearHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn finish(&self) -> u64 {
        self.0.finish() & u64::from(u32::MAX)
    }
}

pub const KEYS: u8 = 9;

pub fn name(key: u8) -> &'static str {
    [
        "ada", "grace", "edsger", "barbara", "tony", "leslie", "frances", "niklaus", "radia",
    ][usize::from(key)]
}
