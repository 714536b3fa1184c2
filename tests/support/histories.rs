//! Histories: calls to one limiter, drawn so that they meet the edges, and what the oracle says to each.
//!
//! A drawn step says where to go in the limiter's own terms ("the end of the wait just told, less one nanosecond"), so that
//! a step means the same while a history shrinks. [`History::script`] turns steps into plain calls.

use std::collections::BTreeMap;
use std::fmt;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::{Receipt, Timestamp};

use super::oracle::{Answer, Holder, HolderTime, LAST_STAMP};
use super::specs::{Composed, Kind, SECOND, Spec, Subject, limits_of, share};

const TEN_SECONDS: u64 = 10 * SECOND;

/// Limiters, of which the first counts at first, and what is asked of them. The `Debug` text is what [`History::told`]
/// takes.
#[derive(Clone)]
pub struct History {
    pub limits: Vec<Composed>,
    start: u64,
    steps: Steps,
}

#[derive(Clone)]
enum Steps {
    Drawn(Vec<Step>),
    Told(Vec<Call>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Check {
        key: u8,
        at: u64,
        cost: u64,
    },
    Peek {
        key: u8,
        at: u64,
        cost: u64,
    },
    AtMost {
        key: u8,
        at: u64,
        cost: u64,
    },
    Charge {
        key: u8,
        at: u64,
        cost: u64,
    },
    /// Of what an earlier call of the history took, counted from 0, at most so many units.
    Refund {
        key: u8,
        at: u64,
        of: usize,
        units: u64,
    },
    Reset {
        key: u8,
        at: u64,
    },
    /// The limiter with this number counts from now on.
    Change {
        at: u64,
        to: usize,
    },
}

/// A call, and what the oracle answers to it when a holder is asked.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub number: usize,
    pub call: Call,
    pub answer: Answer,
    /// Whether units were recorded.
    pub charged: bool,
    /// The instant from which on the key's state is idle: whether it is now, and as a stamp if one can name it.
    pub idle: bool,
    pub idle_at: Option<Timestamp>,
    /// The call's stamp as its holder counts it: later, once the clock was set back.
    pub counted: Timestamp,
}

impl Call {
    pub fn key(self) -> u8 {
        match self {
            Call::Check { key, .. }
            | Call::Peek { key, .. }
            | Call::AtMost { key, .. }
            | Call::Charge { key, .. }
            | Call::Refund { key, .. }
            | Call::Reset { key, .. } => key,
            Call::Change { .. } => 0,
        }
    }

    pub fn now(self) -> Timestamp {
        let (Call::Check { at, .. }
        | Call::Peek { at, .. }
        | Call::AtMost { at, .. }
        | Call::Charge { at, .. }
        | Call::Refund { at, .. }
        | Call::Reset { at, .. }
        | Call::Change { at, .. }) = self;
        Timestamp::from_nanos(at)
    }

    /// The units that are asked for, or to be given back.
    pub fn cost(self) -> u64 {
        match self {
            Call::Check { cost, .. }
            | Call::Peek { cost, .. }
            | Call::AtMost { cost, .. }
            | Call::Charge { cost, .. } => cost,
            Call::Refund { units, .. } => units,
            Call::Reset { .. } | Call::Change { .. } => 0,
        }
    }

    /// A failure that names this call; the history it is from is printed after it.
    pub fn blame(self, failure: TestCaseError) -> TestCaseError {
        TestCaseError::fail(format!("Call::{self:?}: {failure}"))
    }
}

/// The receipts that calls were given, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Receipts(BTreeMap<usize, Receipt>);

impl Receipts {
    pub fn keep(&mut self, number: usize, receipt: Option<Receipt>) {
        if let Some(receipt) = receipt {
            self.0.insert(number, receipt);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, Receipt)> {
        self.0.iter().map(|(number, receipt)| (*number, *receipt))
    }

    /// What is to be given back of a call, if it took something.
    pub fn part(&self, of: usize, units: u64) -> Option<Receipt> {
        Some(self.0.get(&of)?.part(units))
    }
}

/// A limiter and one state of it, on its way through a history.
#[derive(Clone)]
pub struct Walk<'a, S: Subject> {
    /// The limiters that a change can name, and what the limiter is now.
    pub all: &'a [Composed],
    pub limits: &'a Composed,
    pub limiter: S,
    pub state: S::State,
    pub receipts: Receipts,
}

impl<'a, S: Subject> Walk<'a, S> {
    pub fn begin(history: &'a History) -> Walk<'a, S> {
        let limiter = S::build(&history.limits[0]);
        let first = Timestamp::from_nanos(history.start);
        Walk {
            all: &history.limits,
            limits: &history.limits[0],
            state: limiter.fresh(first),
            limiter,
            receipts: Receipts::default(),
        }
    }

    pub fn ask(&mut self, number: usize, call: Call) -> Answer {
        let Walk { limiter, state, .. } = self;
        let (now, cost) = (call.now(), call.cost());
        let decision = match call {
            Call::Check { .. } => limiter.check(state, now, cost),
            Call::Peek { .. } => limiter.peek(state, now, cost),
            Call::AtMost { .. } => Ok(limiter.at_most(state, now, cost)),
            Call::Charge { .. } => Ok(limiter.charge(state, now, cost)),
            Call::Refund { of, units, .. } => {
                return match self.receipts.part(of, units) {
                    Some(receipt) => Answer::GaveBack(limiter.refund(state, now, receipt)),
                    None => Answer::Nothing,
                };
            }
            Call::Reset { .. } => {
                *state = limiter.fresh(now);
                return Answer::Nothing;
            }
            Call::Change { to, .. } => {
                self.change(&self.all[to], now);
                return Answer::Nothing;
            }
        };
        let receipt = decision
            .as_ref()
            .ok()
            .and_then(|decision| decision.receipt());
        self.receipts.keep(number, receipt);
        decision.into()
    }

    pub fn change(&mut self, to: &'a Composed, now: Timestamp) {
        let limiter = S::build(to);
        let state = std::mem::replace(&mut self.state, limiter.fresh(now));
        self.state = limiter.carry(&self.limiter, state, now);
        self.limiter = limiter;
        self.limits = to;
    }
}

impl History {
    /// A history as a failure printed it, to be pasted into a test.
    pub fn told(limits: &[Composed], calls: &[Call]) -> History {
        History {
            limits: limits.into(),
            start: calls.first().map_or(0, |call| call.now().as_nanos()),
            steps: Steps::Told(calls.into()),
        }
    }

    pub fn script(&self) -> Vec<Line> {
        let mut holder = Holder::new(&self.limits);
        let mut scene = Scene::new(&self.limits[0], self.start);
        let len = match &self.steps {
            Steps::Drawn(steps) => steps.len(),
            Steps::Told(calls) => calls.len(),
        };
        let mut lines: Vec<Line> = Vec::with_capacity(len);
        for number in 0..len {
            let call = match &self.steps {
                Steps::Drawn(steps) => steps[number].call(&scene, &holder, &lines, &self.limits),
                Steps::Told(calls) => calls[number],
            };
            let told = holder.ask(number, call);
            scene.after(call, &told.answer);
            if let Call::Change { to, .. } = call {
                scene.rules = self.limits[to].rules();
            }
            let (counted, decided) = holder.time.clone().read(call.now().as_nanos().into());
            let wait = holder.state(call.key()).wait_until_idle(decided);
            let idle_at = u64::try_from(&wait + decided)
                .ok()
                .filter(|at| i128::from(*at) < LAST_STAMP);
            lines.push(Line {
                number,
                call,
                answer: told.answer,
                charged: told.charged,
                idle: wait == 0.into(),
                idle_at: idle_at.map(Timestamp::from_nanos),
                counted: Timestamp::from_nanos(
                    counted.try_into().expect("within the range of stamps"),
                ),
            });
        }
        lines
    }
}

/// What the steps of a history refer to.
struct Scene {
    rules: Vec<Spec>,
    at: i128,
    cost: u64,
    left: u64,
    debt: u64,
    retry_at: i128,
    reset_at: i128,
    /// The call whose charge was given back last.
    refunded: Option<usize>,
}

impl Scene {
    fn new(limits: &Composed, start: u64) -> Scene {
        let rules = limits.rules();
        Scene {
            at: start.into(),
            cost: 1,
            left: rules.iter().map(Spec::most).min().unwrap_or(1),
            rules,
            debt: 0,
            retry_at: 0,
            reset_at: 0,
            refunded: None,
        }
    }

    fn after(&mut self, call: Call, answer: &Answer) {
        self.at = call.now().as_nanos().into();
        match call {
            Call::Refund { of, .. } => self.refunded = Some(of),
            Call::Reset { .. } | Call::Change { .. } => {}
            // These are told when a single unit passes.
            Call::AtMost { .. } | Call::Charge { .. } if !answer.allowed() => self.cost = 1,
            _ => self.cost = call.cost(),
        }
        if let Answer::Decided(verdict) = answer {
            self.left = verdict.remaining;
            self.debt = verdict.debt;
            self.reset_at = self.at + i128::from(verdict.reset_after);
            if !verdict.allowed {
                self.retry_at = self.at + i128::from(verdict.retry_after);
            }
        }
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "History::told(&[")?;
        for limits in &self.limits {
            writeln!(f, "    {limits:?},")?;
        }
        writeln!(f, "], &[")?;
        for Line { call, answer, .. } in self.script() {
            writeln!(f, "    Call::{call:?}, // {answer:?}")?;
        }
        write!(f, "])")
    }
}

/// How far the stamps of a history run back.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// Not at all: what a rule may rely on.
    Forward,
    /// As those of several threads do, by no more than ten seconds: the clock was not set back.
    Late,
    /// By anything.
    SetBack,
}

/// Histories of all operations.
pub fn histories(kind: Kind, clock: Clock, keys: u8) -> impl Strategy<Value = History> {
    drawn(kind, clock, keys, 64, 3)
}

/// Histories of checks and peeks alone.
pub fn checks(kind: Kind, clock: Clock, keys: u8) -> impl Strategy<Value = History> {
    drawn(kind, clock, keys, 39, 1)
}

fn drawn(
    kind: Kind,
    clock: Clock,
    keys: u8,
    operations: u8,
    limiters: usize,
) -> impl Strategy<Value = History> {
    let moves: u8 = match clock {
        Clock::Forward => 36,
        Clock::Late => 44,
        Clock::SetBack => 52,
    };
    // Plain numbers, told apart below: `prop_oneof!` in every step takes longer than all the rest.
    let kinds = (0..moves, 0..24_u8, 0..operations);
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>());
    let step = (0..keys, kinds, numbers).prop_map(|(key, kinds, numbers)| {
        let mut step = Step {
            key,
            to: Move::drawn(kinds.0, numbers.0),
            cost: Cost::drawn(kinds.1, numbers.1),
            operation: Operation::drawn(kinds.2, numbers.2),
            rule: (numbers.2 >> 32) as usize,
        };
        if let (Move::Retry(_), false) = (step.to, numbers.1 % 4 == 0) {
            // What was told is put to the test.
            (step.cost, step.operation) = (Cost::Again, Operation::Check);
        }
        step
    });
    (limits_of(kind, limiters), starts(), vec(step, 1..60)).prop_map(|(limits, start, steps)| {
        History {
            limits,
            start,
            steps: Steps::Drawn(steps),
        }
    })
}

#[derive(Clone, Copy, Debug)]
struct Step {
    key: u8,
    to: Move,
    cost: Cost,
    operation: Operation,
    /// By whose numbers it goes, of the rules that the limiter is made of.
    rule: usize,
}

impl Step {
    fn call(&self, scene: &Scene, holder: &Holder, before: &[Line], limits: &[Composed]) -> Call {
        let Step { key, .. } = *self;
        let spec = &scene.rules[self.rule % scene.rules.len()];
        let at = self.to.from(scene, spec, &holder.time);
        let cost = self.cost.units(scene, spec);
        match self.operation {
            Operation::Check => Call::Check { key, at, cost },
            Operation::Peek => Call::Peek { key, at, cost },
            Operation::AtMost => Call::AtMost { key, at, cost },
            Operation::Charge(None) => Call::Charge { key, at, cost },
            Operation::Charge(Some(more)) => {
                let room = (scene.left + spec.max_debt()).saturating_sub(scene.debt);
                let cost = room.saturating_add_signed(more.into());
                Call::Charge { key, at, cost }
            }
            Operation::Refund(which, part) => {
                let own = |(number, _): &(usize, u64)| before[*number].call.key() == key;
                let receipts: Vec<_> = holder.receipts().filter(own).collect();
                match which.of(scene, &receipts) {
                    Some((of, taken)) => Call::Refund {
                        key,
                        at,
                        of,
                        units: part.of(taken),
                    },
                    None => Call::Peek { key, at, cost },
                }
            }
            Operation::Reset => Call::Reset { key, at },
            Operation::Change(to) => Call::Change {
                at,
                to: to % limits.len(),
            },
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Check,
    Peek,
    AtMost,
    /// Of the step's cost, or as far as the cap on debt and so many units beyond.
    Charge(Option<i8>),
    Refund(Which, Part),
    Reset,
    Change(usize),
}

impl Operation {
    /// The first 39 kinds are checks and peeks.
    fn drawn(kind: u8, by: u64) -> Operation {
        let miss = [0, 1, -1][(by % 3) as usize];
        let by = by / 3;
        match kind {
            0..=33 => Operation::Check,
            34..=38 => Operation::Peek,
            39..=43 => Operation::AtMost,
            44..=48 => Operation::Charge((by % 3 == 0).then_some(miss)),
            49..=58 => Operation::Refund(Which::drawn(by % 64), Part::drawn(by / 64, miss)),
            59 => Operation::Reset,
            _ => Operation::Change(by as usize),
        }
    }
}

/// Whose charge is given back.
#[derive(Clone, Copy, Debug)]
enum Which {
    /// So many before the latest.
    Latest(usize),
    Oldest,
    /// The one that was given back last, once more.
    Again,
}

impl Which {
    fn drawn(by: u64) -> Which {
        match by {
            0..=31 => Which::Latest(0),
            32..=41 => Which::Latest(1),
            42..=49 => Which::Latest(2 + (by % 8) as usize),
            50..=55 => Which::Oldest,
            _ => Which::Again,
        }
    }

    fn of(self, scene: &Scene, receipts: &[(usize, u64)]) -> Option<(usize, u64)> {
        match self {
            Which::Latest(before) => receipts.iter().nth_back(before).or(receipts.first()),
            Which::Oldest => receipts.first(),
            Which::Again => receipts
                .iter()
                .find(|(number, _)| Some(*number) == scene.refunded)
                .or(receipts.last()),
        }
        .copied()
    }
}

/// How much of a charge is given back.
#[derive(Clone, Copy, Debug)]
enum Part {
    All,
    Units(u64),
    /// 256ths of it.
    Share(u16),
    /// All, and so many units more.
    Beyond(i8),
}

impl Part {
    fn drawn(by: u64, miss: i8) -> Part {
        match by % 16 {
            0..=8 => Part::All,
            9..=10 => Part::Units(1),
            11 => Part::Units(by / 16 % 4),
            12..=13 => Part::Share((by / 16 % 257) as u16),
            14 => Part::Beyond(miss),
            _ => Part::Units(u64::MAX),
        }
    }

    fn of(self, taken: u64) -> u64 {
        match self {
            Part::All => taken,
            Part::Units(units) => units,
            Part::Share(parts) => share(taken, parts),
            Part::Beyond(more) => taken.saturating_add_signed(more.into()),
        }
    }
}

/// From one stamp to the next. The `i8` of some is by how many nanoseconds to miss.
#[derive(Clone, Copy, Debug)]
enum Move {
    Stay,
    Nanos(u64),
    /// The time in which so many units accrue.
    Units(u64, i8),
    /// 256ths of a period.
    Part(u16),
    Periods(u64, i8),
    /// The end of the wait that was told last.
    Retry(i8),
    Reset(i8),
    /// The end of the grid's window.
    Edge(i8),
    Leap(u64),
    Back(u64),
    BackPart(u16),
    /// To so long before the latest charge.
    Late(u64),
    To(u64),
}

impl Move {
    /// The first 36 kinds go forward; the next eight are late, and those after them later still.
    fn drawn(kind: u8, by: u64) -> Move {
        let miss = [0, 1, -1][(by % 3) as usize];
        let by = by / 3;
        match kind {
            0..=11 => Move::Stay,
            12..=14 => Move::Nanos(1 + by % 20),
            15..=18 => Move::Units(1 + by % 8, miss),
            19..=20 => Move::Part((by % 257) as u16),
            21 => Move::Periods(1 + by % 3, miss),
            22..=29 => Move::Retry(miss),
            30..=31 => Move::Reset(miss),
            32..=34 => Move::Edge(miss),
            35 => Move::Leap(by >> (by % 64)),
            36..=39 => Move::Late(by % 20),
            40 => Move::Late(TEN_SECONDS),
            41..=43 => Move::Late(by % TEN_SECONDS),
            44..=45 => Move::Late(TEN_SECONDS.saturating_add_signed(miss.into())),
            46..=47 => Move::BackPart((by % 513) as u16),
            48..=49 => Move::Back(by % (2 * TEN_SECONDS)),
            50 => Move::Back(by),
            _ => Move::To(0),
        }
    }

    fn from(self, scene: &Scene, spec: &Spec, time: &HolderTime) -> u64 {
        let at = scene.at;
        let period = i128::from(spec.period);
        let onward = |nanos: i128| (at + nanos).max(at);
        let near = |instant: i128, miss: i8| (instant + i128::from(miss)).max(at);
        let to = match self {
            Move::Stay => at,
            Move::Nanos(nanos) | Move::Leap(nanos) => onward(nanos.into()),
            Move::Units(units, miss) => near(
                at + i128::from(units) * period / i128::from(spec.limit),
                miss,
            ),
            Move::Part(parts) => onward(share(spec.period, parts).into()),
            Move::Periods(periods, miss) => near(at + i128::from(periods) * period, miss),
            // Not beyond all stamps: time would stand still there.
            Move::Retry(miss) if scene.retry_at <= LAST_STAMP => near(scene.retry_at, miss),
            Move::Reset(miss) if scene.reset_at <= LAST_STAMP => near(scene.reset_at, miss),
            Move::Retry(_) | Move::Reset(_) => at,
            Move::Edge(miss) => near(at + period - (at - spec.offset()).rem_euclid(period), miss),
            Move::Back(nanos) => at - i128::from(nanos),
            Move::BackPart(parts) => at - i128::from(share(spec.period, parts)),
            Move::Late(nanos) => time.latest_charge - time.shift - i128::from(nanos),
            Move::To(at) => at.into(),
        };
        to.clamp(0, LAST_STAMP).try_into().expect("clamped")
    }
}

#[derive(Clone, Copy, Debug)]
enum Cost {
    Units(u64),
    /// The same as before.
    Again,
    /// What was left after the last decision, and so many more.
    Left(i8),
    /// 256ths of the most that fits.
    Share(u16),
    Most(i8),
}

impl Cost {
    fn drawn(kind: u8, by: u64) -> Cost {
        let miss = [0, 1, -1][(by % 3) as usize];
        match kind {
            0..=4 => Cost::Units(1),
            5..=11 => Cost::Again,
            12..=13 => Cost::Units(2 + by % 5),
            14..=16 => Cost::Left(miss),
            17..=19 => Cost::Share((by % 257) as u16),
            20 => Cost::Most(miss),
            21 => Cost::Units(0),
            22 => Cost::Units(by >> (by % 64)),
            _ => Cost::Units(u64::MAX),
        }
    }

    fn units(self, scene: &Scene, spec: &Spec) -> u64 {
        match self {
            Cost::Units(units) => units,
            Cost::Again => scene.cost,
            Cost::Left(more) => scene.left.saturating_add_signed(more.into()),
            Cost::Share(parts) => share(spec.most(), parts),
            Cost::Most(more) => spec.most().saturating_add_signed(more.into()),
        }
    }
}

fn starts() -> impl Strategy<Value = u64> {
    let last = Timestamp::MAX.as_nanos();
    prop_oneof![
        4 => 0..=40_u64,
        3 => 1_700_000_000 * SECOND..=1_700_000_100 * SECOND,
        1 => 0..=last,
        1 => last - 1_000..=last,
    ]
}
