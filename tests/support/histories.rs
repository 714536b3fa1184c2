//! Histories: calls to one limiter, drawn so that they meet the edges, and what the oracle says to each.
//!
//! A drawn step says where to go in the limiter's own terms ("the end of the wait just told, less one nanosecond"), so that
//! a step means the same while a history shrinks. [`History::script`] turns steps into plain calls.

use std::fmt;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::{Algorithm, Limiter, Timestamp};

use super::oracle::{Answer, Holder, HolderTime, LAST_STAMP};
use super::specs::{SECOND, Spec, share, specs};

const TEN_SECONDS: u64 = 10 * SECOND;

/// A limiter and what is asked of it. Its `Debug` text holds the calls as [`History::told`] takes them.
#[derive(Clone)]
pub struct History {
    pub spec: Spec,
    start: u64,
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Check { key: u8, at: u64, cost: u64 },
    Peek { key: u8, at: u64, cost: u64 },
}

/// A call, and what the oracle answers to it when a holder is asked.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub call: Call,
    pub answer: Answer,
    /// The instant from which on the key's state is idle: whether it is now, and as a stamp if one can name it.
    pub idle: bool,
    pub idle_at: Option<Timestamp>,
    /// The call's stamp as its holder counts it: later, once the clock was set back.
    pub counted: Timestamp,
}

impl Call {
    pub fn key(self) -> u8 {
        let (Call::Check { key, .. } | Call::Peek { key, .. }) = self;
        key
    }

    pub fn now(self) -> Timestamp {
        let (Call::Check { at, .. } | Call::Peek { at, .. }) = self;
        Timestamp::from_nanos(at)
    }

    pub fn cost(self) -> u64 {
        let (Call::Check { cost, .. } | Call::Peek { cost, .. }) = self;
        cost
    }

    pub fn ask<L: Limiter>(self, limiter: &L, state: &mut L::State) -> Answer {
        match self {
            Call::Check { .. } => limiter.check(state, self.now(), self.cost()).into(),
            Call::Peek { .. } => limiter.peek(state, self.now(), self.cost()).into(),
        }
    }

    /// A failure that names this call; the history it is from is printed after it.
    pub fn blame(self, failure: TestCaseError) -> TestCaseError {
        TestCaseError::fail(format!("Call::{self:?}: {failure}"))
    }
}

impl Line {
    pub fn charges(&self) -> bool {
        matches!(self.call, Call::Check { .. }) && self.answer.allowed() && self.call.cost() > 0
    }
}

impl History {
    /// A history as a failure printed it, to be pasted into a test.
    pub fn told(spec: Spec, calls: &[Call]) -> History {
        let steps = calls.iter().map(|call| Step {
            key: call.key(),
            to: Move::To(call.now().as_nanos()),
            cost: Cost::Units(call.cost()),
            peek: matches!(call, Call::Peek { .. }),
        });
        History {
            spec,
            start: 0,
            steps: steps.collect(),
        }
    }

    pub fn script(&self) -> Vec<Line> {
        let mut holder = Holder::new(&self.spec);
        let mut scene = Scene::new(&self.spec, self.start);
        let mut lines = Vec::with_capacity(self.steps.len());
        for &Step {
            key,
            to,
            cost,
            peek,
        } in &self.steps
        {
            let at = to.from(&scene, &holder.time);
            let cost = cost.units(&scene);
            let call = if peek {
                Call::Peek { key, at, cost }
            } else {
                Call::Check { key, at, cost }
            };
            let answer = holder.ask(call);
            scene.after(call, &answer);
            let (counted, decided) = holder.time.clone().read(at.into());
            let wait = holder.state(key).wait_until_idle(decided);
            let idle_at = u64::try_from(&wait + decided)
                .ok()
                .filter(|at| i128::from(*at) < LAST_STAMP);
            lines.push(Line {
                call,
                answer,
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
struct Scene<'a> {
    spec: &'a Spec,
    at: i128,
    cost: u64,
    left: u64,
    retry_at: i128,
    reset_at: i128,
}

impl<'a> Scene<'a> {
    fn new(spec: &'a Spec, start: u64) -> Scene<'a> {
        Scene {
            spec,
            at: start.into(),
            cost: 1,
            left: spec.most(),
            retry_at: 0,
            reset_at: 0,
        }
    }

    fn after(&mut self, call: Call, answer: &Answer) {
        self.at = call.now().as_nanos().into();
        self.cost = call.cost();
        if let Answer::Decided(verdict) = answer {
            self.left = verdict.remaining;
            self.reset_at = self.at + i128::from(verdict.reset_after);
            if !verdict.allowed {
                self.retry_at = self.at + i128::from(verdict.retry_after);
            }
        }
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "History::told({:?}, &[", self.spec)?;
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

/// Histories of one key.
pub fn histories(algorithms: &'static [Algorithm], clock: Clock) -> impl Strategy<Value = History> {
    histories_of_keys(algorithms, clock, 1)
}

pub fn histories_of_keys(
    algorithms: &'static [Algorithm],
    clock: Clock,
    keys: u8,
) -> impl Strategy<Value = History> {
    let moves: u8 = match clock {
        Clock::Forward => 36,
        Clock::Late => 44,
        Clock::SetBack => 52,
    };
    // Plain numbers, told apart below: `prop_oneof!` in every step takes longer than all the rest.
    let step = (0..keys, 0..moves, any::<u64>(), 0..24_u8, any::<u64>()).prop_map(
        |(key, move_kind, move_by, cost_kind, cost_by)| Step {
            key,
            to: Move::drawn(move_kind, move_by),
            cost: Cost::drawn(cost_kind, cost_by),
            peek: cost_by % 10 == 9,
        },
    );
    (specs(algorithms), starts(), vec(step, 1..60)).prop_map(|(spec, start, steps)| History {
        spec,
        start,
        steps,
    })
}

#[derive(Clone, Copy, Debug)]
struct Step {
    key: u8,
    to: Move,
    cost: Cost,
    peek: bool,
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

    fn from(self, scene: &Scene<'_>, time: &HolderTime) -> u64 {
        let Scene { spec, at, .. } = *scene;
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
            Move::Retry(miss) => near(scene.retry_at, miss),
            Move::Reset(miss) => near(scene.reset_at, miss),
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

    fn units(self, scene: &Scene<'_>) -> u64 {
        match self {
            Cost::Units(units) => units,
            Cost::Again => scene.cost,
            Cost::Left(more) => scene.left.saturating_add_signed(more.into()),
            Cost::Share(parts) => share(scene.spec.most(), parts),
            Cost::Most(more) => scene.spec.most().saturating_add_signed(more.into()),
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
