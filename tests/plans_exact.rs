//! Plans, held against the oracle at the holder's time: clients who come with another plan now and then, spend, owe and are
//! given back, by clocks that run late and are set back.

mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use support::histories::{Call, Clock, History, Receipts, histories};
use support::hold;
use support::oracle::{Answer, HolderTime, Oracle, Taken, counted_from};
use support::specs::Subject;
use tollgate::keyed::PlanError;
use tollgate::{Decision, Keyed, PlanId, Plans, Policy};

const HISTORIES: u32 = 3_000;
const KEYS: u8 = 4;

/// Beside the limiters of a history, which are the plans here.
const NAMES: [&str; 3] = ["free", "premium", "tiny"];

type Store = Keyed<u8, Plans<Policy>>;

#[test]
fn exact_at_the_holders_time() {
    let drawn = histories(Policy::kind(), Clock::SetBack, KEYS);
    hold("plans, exact", HISTORIES, drawn, |history| {
        let (store, mut model) = (store(&history), Model::new(&history));
        let mut asking = Asking::default();
        for line in history.script() {
            let call = costly(line.call);
            if model.is_chance(call) {
                continue;
            }
            let (got, oracle) = (
                asking.ask(&store, line.number, call),
                model.ask(line.number, call),
            );
            prop_assert_eq!(got, oracle, "{:?}", call);
            let plan = store.plan_of(&call.key());
            if let Some((plan_of, _)) = model.keys.get(&call.key()) {
                // Who is idle on the first plan may be forgotten.
                let told = plan.unwrap_or(PlanId::new(NAMES[0]));
                prop_assert_eq!(told, PlanId::new(NAMES[*plan_of]), "{:?}", call);
            } else {
                prop_assert_eq!(plan, None, "{:?}", call);
            }
        }
        Ok(())
    });
}

#[test]
fn forgetting_is_invisible() {
    let drawn = histories(Policy::kind(), Clock::Forward, KEYS);
    hold("plans, forgetting", HISTORIES, drawn, |history| {
        let (store, mut model) = (store(&history), Model::new(&history));
        let mut asking = Asking::default();
        for line in history.script() {
            let call = costly(line.call);
            if model.is_chance(call) {
                continue;
            }
            let oracle = model.ask(line.number, call);
            prop_assert_eq!(asking.ask(&store, line.number, call), oracle, "{:?}", call);
            store.sweep(call.now());
        }
        Ok(())
    });
}

/// All of them share one shard, and so its time.
fn store(history: &History) -> Store {
    let plans = NAMES
        .into_iter()
        .zip(history.limits.iter().map(Policy::build));
    Keyed::new(Plans::new(plans).expect("a history has at least one limiter")).with_max_keys(100)
}

/// A cost of 0 keeps nothing of a client that is not known, not even its plan; whether it is known, the oracle, which
/// forgets nothing, cannot tell.
fn costly(call: Call) -> Call {
    match call {
        Call::Check { key, at, cost: 0 } => Call::Check { key, at, cost: 1 },
        call => call,
    }
}

/// What is asked of a store. A change in the history is one in what callers know: from then on they name this plan.
#[derive(Default)]
struct Asking {
    named: Option<usize>,
    receipts: Receipts,
}

impl Asking {
    fn ask(&mut self, store: &Store, number: usize, call: Call) -> Answer {
        let (key, cost, now) = (call.key(), call.cost(), call.now());
        let decision = match call {
            Call::Check { .. } => match self.named.map(|plan| NAMES[plan]) {
                Some(plan) => match store.check_n_as(plan, &key, cost, now) {
                    Ok(decision) => Ok(decision),
                    Err(PlanError::CostTooHigh(never)) => Err(never),
                    Err(other) => panic!("{other}"),
                },
                None => store.check_n(&key, cost, now),
            },
            Call::Peek { .. } => store.peek_n(&key, cost, now),
            Call::AtMost { .. } => Ok(store.at_most(&key, cost, now)),
            Call::Charge { .. } => Ok(store.charge(&key, cost, now)),
            Call::Refund { of, units, .. } => {
                return match self.receipts.part(of, units) {
                    Some(receipt) => Answer::GaveBack(store.refund(&key, receipt, now)),
                    None => Answer::Nothing,
                };
            }
            Call::Reset { .. } => {
                store.reset(&key);
                return Answer::Nothing;
            }
            Call::Change { to, .. } => {
                self.named = Some(to);
                return Answer::Nothing;
            }
        };
        let receipt = decision.as_ref().ok().and_then(Decision::receipt);
        self.receipts.keep(number, receipt);
        decision.into()
    }
}

/// A plan and a state per client, at one holder's time.
struct Model<'a> {
    history: &'a History,
    time: HolderTime,
    named: Option<usize>,
    keys: BTreeMap<u8, (usize, Oracle)>,
    /// What the calls have taken, and on which plan.
    taken: BTreeMap<usize, (usize, Taken)>,
}

impl<'a> Model<'a> {
    fn new(history: &'a History) -> Model<'a> {
        Model {
            history,
            time: HolderTime::default(),
            named: None,
            keys: BTreeMap::new(),
            taken: BTreeMap::new(),
        }
    }

    fn ask(&mut self, number: usize, call: Call) -> Answer {
        let key = call.key();
        match call {
            Call::Reset { .. } => {
                self.keys.remove(&key);
                return Answer::Nothing;
            }
            Call::Change { to, .. } => {
                self.named = Some(to);
                return Answer::Nothing;
            }
            Call::Refund { of, units, .. } => return self.refund(call, of, units),
            _ => {}
        }
        let limits = &self.history.limits;
        let known = self.keys.get(&key);
        let had = known.map_or(0, |(plan, _)| *plan);
        let plan = match (call, self.named) {
            (Call::Check { .. }, Some(named)) => named,
            _ => had,
        };
        let mut state = match known {
            Some((_, state)) => state.clone(),
            None => Oracle::new(&limits[plan]),
        };
        if let Call::Check { cost, .. } | Call::Peek { cost, .. } = call {
            if let Some(never) = Oracle::new(&limits[plan]).never(cost) {
                return never;
            }
        }
        let (counted, decided) = self.time.read(call.now().as_nanos().into());
        let changes = known.is_some() && plan != had;
        if changes {
            state = state.carried(&limits[plan], decided);
        }
        let (told, taken) = state.ask(call, decided);
        if let Some(taken) = taken {
            self.taken.insert(number, (plan, taken));
        }
        if told.charged || changes {
            self.keys.insert(key, (plan, state));
            self.time.latest_charge = decided;
        }
        counted_from(told.answer, decided - counted)
    }

    /// Whether it names a place in the queue of another plan: what is there is chance.
    fn is_chance(&self, call: Call) -> bool {
        let Call::Refund { key, of, .. } = call else {
            return false;
        };
        let Some((was, _)) = self.taken.get(&of) else {
            return false;
        };
        let is = self.keys.get(&key).map_or(0, |(plan, _)| *plan);
        let rules = [*was, is].map(|plan| self.history.limits[plan].rule());
        was != &is && rules.iter().any(|rule| rule.is_queue())
    }

    fn refund(&mut self, call: Call, of: usize, units: u64) -> Answer {
        let Some((_, taken)) = self.taken.get(&of) else {
            return Answer::Nothing;
        };
        let (_, decided) = self.time.read(call.now().as_nanos().into());
        let known = self.keys.get_mut(&call.key());
        let given = known.map_or(0, |(_, state)| state.refund(decided, &taken.part(units)));
        Answer::GaveBack(given)
    }
}
