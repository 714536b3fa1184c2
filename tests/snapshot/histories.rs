//! A store that was restored decides as the one that went on.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseResult;
use tollgate::{Algorithm, Keyed, Receipt, Timestamp};

use crate::stores::{FORMATS, Format, Kind, NOW};
use crate::support::specs::{Rule, SECOND, Spec, share, specs};
use crate::support::{hold, promises};

const CASES: u32 = 400;
const KEYS: [&str; 6] = ["ada", "grace", "edsger", "barbara", "tony", "leslie"];
const TEN_SECONDS: u64 = 10 * SECOND;

promises! {
    token_bucket: tollgate::TokenBucket,
    leaky_bucket: tollgate::LeakyBucket,
    fixed_window: tollgate::FixedWindow,
    sliding_log: tollgate::SlidingLog,
    sliding_window_counter: tollgate::SlidingWindowCounter,
    policy: tollgate::Policy,
    pair: (tollgate::Policy, tollgate::Policy),
    all: tollgate::All,
    shadow: tollgate::Shadow<tollgate::Policy>,
    plans: tollgate::Plans<tollgate::Policy>;

    what_is_restored_decides_as_what_went_on
    what_is_restored_decides_as_what_went_on_after_its_clock_was_set_back
    nobody_loses_by_a_restoration_after_clocks_were_set_back
}

#[derive(Clone, Copy, Debug)]
struct Step {
    key: usize,
    to: Move,
    verb: Verb,
    plan: usize,
    cost: Cost,
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Check,
    Charge,
    AtMost,
    /// Of what this key was last charged.
    Refund,
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Stay,
    Nanos(u64),
    /// 256ths of a period.
    Part(u16),
    /// So long before the newest stamp.
    Late(u64),
    /// By so much more than ten seconds before the newest stamp.
    SetBack(u64),
}

#[derive(Clone, Copy, Debug)]
enum Cost {
    Units(u64),
    Left,
    Any(u64),
}

fn steps(moves: BoxedStrategy<Move>, most: usize) -> BoxedStrategy<Vec<Step>> {
    let verb = prop_oneof![
        7 => Just(Verb::Check),
        1 => Just(Verb::Charge),
        1 => Just(Verb::AtMost),
        1 => Just(Verb::Refund),
    ];
    let cost = prop_oneof![
        8 => (0..9_u64).prop_map(Cost::Units),
        2 => Just(Cost::Left),
        1 => any::<u64>().prop_map(Cost::Any),
    ];
    let step =
        (0..KEYS.len(), moves, verb, 0..3_usize, cost).prop_map(|(key, to, verb, plan, cost)| {
            Step {
                key,
                to,
                verb,
                plan,
                cost,
            }
        });
    vec(step, 1..most).boxed()
}

fn forward() -> BoxedStrategy<Move> {
    prop_oneof![
        6 => Just(Move::Stay),
        3 => (1..20_u64).prop_map(Move::Nanos),
        3 => (0..=300_u16).prop_map(Move::Part),
    ]
    .boxed()
}

fn late() -> BoxedStrategy<Move> {
    prop_oneof![
        12 => forward(),
        3 => (0..=TEN_SECONDS).prop_map(Move::Late),
        1 => (0..20_u64).prop_map(Move::Late),
    ]
    .boxed()
}

fn set_back() -> BoxedStrategy<Move> {
    prop_oneof![
        16 => late(),
        1 => (1..100_000 * SECOND).prop_map(Move::SetBack),
        1 => (1..20_u64).prop_map(Move::SetBack),
    ]
    .boxed()
}

/// A clock, as stamps are taken from it.
struct Stamps {
    now: Timestamp,
    newest: Timestamp,
    period: u64,
}

impl Stamps {
    fn new(specs: &[Spec; 3]) -> Stamps {
        Stamps {
            now: NOW,
            newest: NOW,
            period: specs[0].period,
        }
    }

    fn after(&mut self, to: Move) -> Timestamp {
        self.now = match to {
            Move::Stay => self.now,
            Move::Nanos(nanos) => self.now + Duration::from_nanos(nanos),
            Move::Part(part) => self.now + Duration::from_nanos(share(self.period, part)),
            Move::Late(nanos) => self.newest - Duration::from_nanos(nanos),
            Move::SetBack(nanos) => self.newest - Duration::from_nanos(TEN_SECONDS + nanos),
        };
        self.newest = match to {
            Move::SetBack(_) => self.now,
            _ => self.newest.max(self.now),
        };
        self.now
    }
}

/// What holds a store and remembers what it was last told.
struct Caller<L: Kind> {
    store: Keyed<String, L>,
    receipts: [Option<Receipt>; KEYS.len()],
}

impl<L: Kind> Caller<L> {
    fn ask(&mut self, step: Step, now: Timestamp) -> String {
        let (store, key) = (&self.store, KEYS[step.key]);
        let cost = match step.cost {
            Cost::Units(units) => units,
            Cost::Left => store.peek(key, now).remaining(),
            Cost::Any(units) => units,
        };
        let decision = match step.verb {
            Verb::Check => L::ask(store, step.plan, key, cost, now),
            Verb::Charge => Ok(store.charge(key, cost, now)),
            Verb::AtMost => Ok(store.at_most(key, cost, now)),
            Verb::Refund => {
                let receipt = self.receipts[step.key].take();
                let credited = receipt.map(|receipt| store.refund(key, receipt, now));
                return format!("{step:?} at {now:?}: {credited:?}");
            }
        };
        if let Ok(decision) = &decision {
            self.receipts[step.key] = decision.receipt();
        }
        format!("{step:?} at {now:?}: {decision:?}")
    }
}

/// A history, what comes after it was saved and restored, and how.
type Drawn = ([Spec; 3], Vec<Step>, Vec<Step>, Format, usize);

// Boxed, as tests are too: what draws and shrinks is the same for all kinds, and need not be compiled for each.
fn drawn(algorithms: &'static [Algorithm], before: BoxedStrategy<Move>) -> BoxedStrategy<Drawn> {
    (
        [specs(algorithms), specs(algorithms), specs(algorithms)],
        steps(before, 50),
        steps(forward(), 30),
        select(&FORMATS[..]),
        // Of as many shards as there are, or a few, or one.
        select(&[usize::MAX, 1_200, 40][..]),
    )
        .boxed()
}

impl<L: Kind> Caller<L> {
    fn new(rule: L, max_keys: usize) -> Caller<L> {
        let store = Keyed::new(rule);
        Caller {
            store: match max_keys {
                usize::MAX => store,
                max_keys => store.with_max_keys(max_keys),
            },
            receipts: [None; KEYS.len()],
        }
    }

    /// What is restored of it, by another store of the same limiter.
    fn restored(&mut self, format: Format, max_keys: usize, now: Timestamp) -> Caller<L> {
        let bytes = L::save(&self.store, format, now);
        let restored = Caller::new(self.store.limiter(), max_keys);
        if let Err(error) = L::restore(&restored.store, format, &bytes) {
            panic!("{error}");
        }
        // A receipt is of the store that gave it.
        self.receipts = [None; KEYS.len()];
        restored
    }
}

fn held(promise: &str, drawn: BoxedStrategy<Drawn>, test: &dyn Fn(Drawn) -> TestCaseResult) {
    hold(promise, CASES, drawn, test);
}

/// Shards that know of different charges: who comes after the newest of them is late for none.
fn what_is_restored_decides_as_what_went_on<L: Kind>() {
    held(
        "restored as it went on",
        drawn(L::ALGORITHMS, late()),
        &|(specs, before, after, format, max_keys)| {
            let mut live = Caller::new(L::build(&specs), usize::MAX);
            let mut stamps = Stamps::new(&specs);
            for step in before {
                live.ask(step, stamps.after(step.to));
            }
            let now = stamps.after(Move::Late(0));
            let restored = live.restored(format, max_keys, now);
            go_on_alike(live, restored, after, stamps)
        },
    );
}

/// All clients share one time, and it has come through anything.
fn what_is_restored_decides_as_what_went_on_after_its_clock_was_set_back<L: Kind>() {
    const ONE_SHARD: usize = 100;
    held(
        "restored as it went on, of one time",
        drawn(L::ALGORITHMS, set_back()),
        &|(specs, before, after, format, max_keys)| {
            let mut live = Caller::new(L::build(&specs), ONE_SHARD);
            let mut stamps = Stamps::new(&specs);
            for step in before {
                live.ask(step, stamps.after(step.to));
            }
            let restored = live.restored(format, ONE_SHARD.min(max_keys), stamps.now);
            go_on_alike(live, restored, after, stamps)
        },
    );
}

fn go_on_alike<L: Kind>(
    mut live: Caller<L>,
    mut restored: Caller<L>,
    after: Vec<Step>,
    mut stamps: Stamps,
) -> TestCaseResult {
    agree(&live, &restored, stamps.now)?;
    for step in after {
        let now = stamps.after(step.to);
        prop_assert_eq!(restored.ask(step, now), live.ask(step, now));
        agree(&live, &restored, now)?;
    }
    Ok(())
}

/// Some shards may have noticed, and others not yet; what is restored has one time for all. Nobody has less than before, nor
/// waits longer, but by the ten seconds that anyone may wait for a clock. (A grid cannot be moved by what a clock was set
/// back: there a count goes into the window that holds the one time, and may stay for another part of a period.)
fn nobody_loses_by_a_restoration_after_clocks_were_set_back<L: Kind>() {
    held(
        "restored after clocks were set back",
        drawn(L::ALGORITHMS, set_back()),
        &|(specs, before, _, format, max_keys)| {
            if specs.iter().any(has_grid) {
                return Ok(());
            }
            let mut live = Caller::new(L::build(&specs), usize::MAX);
            let mut stamps = Stamps::new(&specs);
            for step in before {
                live.ask(step, stamps.after(step.to));
            }
            let restored = live.restored(format, max_keys, stamps.now);
            for key in KEYS {
                let got = restored.store.peek(key, stamps.now);
                let was = live.store.peek(key, stamps.now);
                let longest = was.retry_after() + Duration::from_nanos(TEN_SECONDS);
                prop_assert!(
                    got.remaining() >= was.remaining() && got.retry_after() <= longest,
                    "{}: {:?} instead of {:?}",
                    key,
                    got,
                    was
                );
            }
            Ok(())
        },
    );
}

fn has_grid(spec: &Spec) -> bool {
    matches!(
        spec.rule,
        Rule::FixedWindow { .. } | Rule::SlidingWindowCounter { .. }
    )
}

fn agree<L: Kind>(live: &Caller<L>, restored: &Caller<L>, now: Timestamp) -> TestCaseResult {
    for key in KEYS {
        let (got, expected) = (restored.store.peek(key, now), live.store.peek(key, now));
        prop_assert_eq!(got, expected, "{} at {:?}", key, now);
    }
    Ok(())
}
