//! The holder's time (promise 4), and a state per key.

use std::collections::BTreeMap;
use std::sync::Arc;

use num_bigint::BigInt;
use tollgate::Timestamp;

use super::composed::{Oracle, Taken, Told};
use super::{Answer, LAST_STAMP, Verdict, whole};
use crate::support::histories::Call;
use crate::support::specs::{Composed, Spec};

/// The latest charge a holder has seen, and by how much it corrects a clock that was set back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HolderTime {
    pub latest_charge: i128,
    pub shift: i128,
}

impl HolderTime {
    /// The stamp as this holder counts it, and the instant at which it decides.
    pub fn read(&mut self, stamp: i128) -> (i128, i128) {
        let ten_seconds = 10_000_000_000;
        let mut counted = (stamp + self.shift).min(LAST_STAMP);
        if self.latest_charge - counted > ten_seconds {
            self.shift += self.latest_charge - counted;
            counted = self.latest_charge;
        }
        (counted, counted.max(self.latest_charge))
    }
}

/// One holder's time over a state per key; nothing is ever forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    pub time: HolderTime,
    /// The limiters that a change can name, and the one that counts now.
    limits: Arc<[Composed]>,
    now: usize,
    fresh: Oracle,
    keys: BTreeMap<u8, Oracle>,
    /// What the calls have taken, by their numbers.
    taken: BTreeMap<usize, Taken>,
    /// Since which call queues are as they are.
    queues_since: usize,
}

impl Holder {
    pub fn new(limits: &[Composed]) -> Holder {
        Holder {
            time: HolderTime::default(),
            limits: limits.into(),
            now: 0,
            fresh: Oracle::new(&limits[0]),
            keys: BTreeMap::new(),
            taken: BTreeMap::new(),
            queues_since: 0,
        }
    }

    /// Answers the call with this number; a refund gives back what an earlier number took.
    pub fn ask(&mut self, number: usize, call: Call) -> Told {
        let nothing = Told {
            answer: Answer::Nothing,
            charged: false,
        };
        match call {
            Call::Check { cost, .. } | Call::Peek { cost, .. } => {
                if let Some(answer) = self.fresh.never(cost) {
                    return Told { answer, ..nothing };
                }
            }
            Call::Refund { of, .. } if !self.taken.contains_key(&of) => return nothing,
            Call::Reset { key, .. } => {
                self.keys.remove(&key);
                return nothing;
            }
            _ => {}
        }
        let (counted, decided) = self.time.read(call.now().as_nanos().into());
        let mut told = match call {
            Call::Change { to, .. } => {
                self.change(number, to, decided);
                return nothing;
            }
            Call::Refund { key, of, units, .. } => {
                let part = self.taken[&of].part(units);
                let known = self.keys.get_mut(&key);
                let given = known.map_or(0, |state| state.refund(decided, &part));
                return Told {
                    answer: Answer::GaveBack(given),
                    ..nothing
                };
            }
            _ => self.decide(number, call, decided),
        };
        if told.charged {
            self.time.latest_charge = decided;
        }
        told.answer = counted_from(told.answer, decided - counted);
        told
    }

    fn decide(&mut self, number: usize, call: Call, decided: i128) -> Told {
        let mut newcomer = None;
        let state = match self.keys.get_mut(&call.key()) {
            Some(known) => known,
            None => newcomer.insert(self.fresh.clone()),
        };
        let (told, taken) = state.ask(call, decided);
        if let Some(taken) = taken {
            self.taken.insert(number, taken);
        }
        if let Some(newcomer) = newcomer.filter(|_| told.charged) {
            self.keys.insert(call.key(), newcomer);
        }
        told
    }

    /// What everybody has used until now is carried over, and nothing is decided before it any more.
    fn change(&mut self, number: usize, to: usize, decided: i128) {
        let (was, is) = (&self.limits[self.now], &self.limits[to]);
        if queues(was) != queues(is) {
            self.queues_since = number;
        }
        for state in self.keys.values_mut() {
            *state = state.carried(is, decided);
        }
        self.fresh = Oracle::new(is);
        self.now = to;
        self.time.latest_charge = decided;
    }

    pub fn state(&self, key: u8) -> &Oracle {
        self.keys.get(&key).unwrap_or(&self.fresh)
    }

    pub fn limits(&self) -> &Composed {
        &self.limits[self.now]
    }

    /// The calls whose charges can be named to a refund.
    ///
    /// Who joined a queue that ran at another rate has no place in this one, and what its receipt names there is chance.
    pub fn receipts(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> {
        let has_queue = !queues(self.limits()).is_empty();
        let since = if has_queue { self.queues_since } else { 0 };
        self.taken
            .range(since..)
            .map(|(number, taken)| (*number, taken.units))
    }

    /// How many keys a sweep at this stamp must leave: those that are not idle at the instant it stands for.
    pub fn busy_at(&self, stamp: Timestamp) -> usize {
        let (_, decided) = self.time.clone().read(stamp.as_nanos().into());
        let is_busy = |key: &&u8| self.is_busy(**key, decided);
        self.keys.keys().filter(is_busy).count()
    }

    /// Whether the key is not idle. At the last stamp, where time stands still, none is idle that was not idle before.
    pub fn is_busy(&self, key: u8, decided: i128) -> bool {
        let busy = |at| self.state(key).wait_until_idle(at) > BigInt::ZERO;
        busy(decided) || busy(decided.min(LAST_STAMP - 1))
    }

    /// A sweep that forgot something is as final as a charge: nothing is decided before it any more.
    pub fn swept(&mut self, stamp: Timestamp) {
        (_, self.time.latest_charge) = self.time.read(stamp.as_nanos().into());
    }
}

/// What a caller must read whose stamp, as the holder counts it, is so much earlier than the instant decided at: time
/// stands still for it until its own clock has come up to there.
pub fn counted_from(answer: Answer, lateness: i128) -> Answer {
    let later = |wait: u64| match wait {
        0 => 0,
        _ => whole(BigInt::from(wait) + lateness),
    };
    match answer {
        Answer::Decided(verdict) => Answer::Decided(Verdict {
            retry_after: later(verdict.retry_after),
            reset_after: later(verdict.reset_after),
            delay: later(verdict.delay),
            ..verdict
        }),
        other => other,
    }
}

/// The queues among the rules: which they are, and how fast they drain.
fn queues(limits: &Composed) -> Vec<(usize, u64, u64)> {
    let rules = limits.rules().into_iter().enumerate();
    rules
        .filter(|(_, rule)| rule.is_queue())
        .map(|(at, Spec { limit, period, .. })| (at, limit, period))
        .collect()
}
