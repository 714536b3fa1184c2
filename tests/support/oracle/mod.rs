//! The oracle: DESIGN.md's five definitions and its holder's time, evaluated exactly, slow and obvious.
//!
//! Nothing here is shared with the crate: stamps are `i128` nanoseconds (a window may begin before the epoch), quantities
//! are rationals. A rational of this file has the period as its denominator and is never reduced: that is
//! fifty times faster, and a hundred thousand histories must take seconds. [`parts`] is the numerator of whole units.

use std::collections::BTreeMap;
use std::time::Duration;

use num_bigint::BigInt;
use num_rational::BigRational;
use tollgate::{CostTooHigh, Decision, Timestamp};

use super::histories::Call;
use super::specs::{Rule, Spec};

/// The last instant that a stamp can name.
pub const LAST_STAMP: i128 = (1 << 63) - 1;

/// What a limiter says to one call, waits in whole nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    Never { cost: u64, most: u64 },
    Decided(Verdict),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Verdict {
    pub allowed: bool,
    pub limit: u64,
    pub remaining: u64,
    pub retry_after: u64,
    pub reset_after: u64,
    pub delay: u64,
}

impl Answer {
    pub fn verdict(&self) -> Option<&Verdict> {
        match self {
            Answer::Never { .. } => None,
            Answer::Decided(verdict) => Some(verdict),
        }
    }

    pub fn allowed(&self) -> bool {
        self.verdict().is_some_and(|verdict| verdict.allowed)
    }
}

impl From<Result<Decision, CostTooHigh>> for Answer {
    fn from(answer: Result<Decision, CostTooHigh>) -> Answer {
        match answer {
            Ok(decision) => decision.into(),
            Err(never) => Answer::Never {
                cost: never.cost(),
                most: never.most(),
            },
        }
    }
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Answer {
        let nanos = |wait: Duration| {
            u64::try_from(wait.as_nanos()).expect("a wait saturates at u64 nanoseconds")
        };
        Answer::Decided(Verdict {
            allowed: decision.is_allowed(),
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after: nanos(decision.retry_after()),
            reset_after: nanos(decision.reset_after()),
            delay: nanos(decision.delay()),
        })
    }
}

/// A rule and one state of it, asked at instants that do not run back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Oracle {
    limit: u64,
    memory: Memory,
}

impl Oracle {
    pub fn new(spec: &Spec) -> Oracle {
        let Spec {
            limit,
            period,
            rule,
        } = *spec;
        let memory = match rule {
            Rule::TokenBucket { burst } => Memory::Bucket(Bucket {
                limit,
                period,
                burst,
                level: parts(burst, period),
                since: 0,
            }),
            Rule::LeakyBucket { burst } => Memory::Queue(Queue {
                limit,
                period,
                burst,
                backlog: BigInt::ZERO,
                since: 0,
            }),
            Rule::FixedWindow { offset } => Memory::Window(Window {
                limit,
                grid: Grid::new(period, offset),
                charges: Vec::new(),
            }),
            Rule::AnchoredWindow => Memory::Anchored(Anchored {
                limit,
                period,
                start: None,
                count: 0,
            }),
            Rule::SlidingLog { resolution } => Memory::Log(Log {
                limit,
                period,
                resolution,
                runs: Vec::new(),
            }),
            Rule::SlidingWindowCounter { offset } => Memory::Counter(Counter {
                limit,
                grid: Grid::new(period, offset),
                charges: Vec::new(),
            }),
        };
        Oracle { limit, memory }
    }

    pub fn check(&mut self, now: i128, cost: u64) -> Answer {
        match self.peek(now, cost) {
            Answer::Decided(foretold) if foretold.allowed && cost > 0 => {
                self.charge(now, cost, foretold)
            }
            uncharged => uncharged,
        }
    }

    /// What a check would say, but for what it leaves: a peek charges nothing.
    pub fn peek(&self, now: i128, cost: u64) -> Answer {
        if let Some(never) = self.never(cost) {
            never
        } else if cost == 0 {
            self.decided(now, true, BigInt::ZERO, 0)
        } else if self.fits(now, cost) {
            self.decided(now, true, BigInt::ZERO, whole(self.definition().delay(now)))
        } else {
            self.decided(now, false, self.wait_for(now, cost), 0)
        }
    }

    fn never(&self, cost: u64) -> Option<Answer> {
        let most = self.definition().most();
        (cost > most).then_some(Answer::Never { cost, most })
    }

    fn charge(&mut self, now: i128, cost: u64, foretold: Verdict) -> Answer {
        self.memory.definition_mut().charge(now, cost);
        self.decided(now, true, BigInt::ZERO, foretold.delay)
    }

    pub fn fits(&self, now: i128, cost: u64) -> bool {
        self.definition().left(now) >= BigRational::from_integer(cost.into())
    }

    /// The smallest whole wait after which `cost` fits, in closed form.
    pub fn wait_for(&self, now: i128, cost: u64) -> BigInt {
        self.definition().wait_for(now, cost)
    }

    /// The smallest whole wait after which nothing is left of any charge, in closed form.
    pub fn wait_until_idle(&self, now: i128) -> BigInt {
        self.definition().wait_until_idle(now)
    }

    fn decided(&self, now: i128, allowed: bool, wait: BigInt, delay: u64) -> Answer {
        Answer::Decided(Verdict {
            allowed,
            limit: self.limit,
            remaining: whole(self.definition().left(now).floor().to_integer()),
            retry_after: whole(wait),
            reset_after: whole(self.wait_until_idle(now)),
            delay,
        })
    }

    fn definition(&self) -> &dyn Definition {
        match &self.memory {
            Memory::Bucket(it) => it,
            Memory::Queue(it) => it,
            Memory::Window(it) => it,
            Memory::Anchored(it) => it,
            Memory::Log(it) => it,
            Memory::Counter(it) => it,
        }
    }
}

/// The latest charge a holder has seen, and by how much it corrects a clock that was set back (promise 4).
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
    fresh: Oracle,
    keys: BTreeMap<u8, Oracle>,
}

impl Holder {
    pub fn new(spec: &Spec) -> Holder {
        Holder {
            time: HolderTime::default(),
            fresh: Oracle::new(spec),
            keys: BTreeMap::new(),
        }
    }

    pub fn ask(&mut self, call: Call) -> Answer {
        let cost = call.cost();
        if let Some(never) = self.fresh.never(cost) {
            return never;
        }
        let (counted, decided) = self.time.read(call.now().as_nanos().into());
        let mut answer = self.state(call.key()).peek(decided, cost);
        if let (Call::Check { key, .. }, Answer::Decided(foretold)) = (call, answer) {
            if foretold.allowed && cost > 0 {
                let state = self.keys.entry(key).or_insert_with(|| self.fresh.clone());
                answer = state.charge(decided, cost, foretold);
                self.time.latest_charge = decided;
            }
        }
        if let Answer::Decided(verdict) = &mut answer {
            // Time stands still for a late stamp until its own clock has come up to here.
            for wait in [
                &mut verdict.retry_after,
                &mut verdict.reset_after,
                &mut verdict.delay,
            ] {
                if *wait > 0 {
                    *wait = whole(BigInt::from(*wait) + (decided - counted));
                }
            }
        }
        answer
    }

    pub fn state(&self, key: u8) -> &Oracle {
        self.keys.get(&key).unwrap_or(&self.fresh)
    }

    /// How many keys a sweep at this stamp must leave: those that are not idle at the instant it stands for. At the last
    /// stamp, where time stands still, none is idle that was not idle before.
    pub fn busy_at(&self, stamp: Timestamp) -> usize {
        let (_, decided) = self.time.clone().read(stamp.as_nanos().into());
        let busy = |state: &Oracle, at| state.wait_until_idle(at) > BigInt::ZERO;
        let is_kept =
            |state: &&Oracle| busy(state, decided) || busy(state, decided.min(LAST_STAMP - 1));
        self.keys.values().filter(is_kept).count()
    }

    /// A sweep that forgot something is as final as a charge: nothing is decided before it any more.
    pub fn swept(&mut self, stamp: Timestamp) {
        (_, self.time.latest_charge) = self.time.read(stamp.as_nanos().into());
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Memory {
    Bucket(Bucket),
    Queue(Queue),
    Window(Window),
    Anchored(Anchored),
    Log(Log),
    Counter(Counter),
}

impl Memory {
    fn definition_mut(&mut self) -> &mut dyn Definition {
        match self {
            Memory::Bucket(it) => it,
            Memory::Queue(it) => it,
            Memory::Window(it) => it,
            Memory::Anchored(it) => it,
            Memory::Log(it) => it,
            Memory::Counter(it) => it,
        }
    }
}

trait Definition {
    /// What could ever be granted at once.
    fn most(&self) -> u64;
    /// How many units could be spent at `now`.
    fn left(&self, now: i128) -> BigRational;
    fn wait_for(&self, now: i128, cost: u64) -> BigInt;
    fn wait_until_idle(&self, now: i128) -> BigInt;
    fn charge(&mut self, now: i128, cost: u64);
    fn delay(&self, _now: i128) -> BigInt {
        BigInt::ZERO
    }
}

/// "A level in [0, B], B at first, rises L/P per nanosecond. Allowed iff level ≥ c; then level −= c."
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Bucket {
    limit: u64,
    period: u64,
    burst: u64,
    level: BigInt,
    since: i128,
}

impl Bucket {
    fn level(&self, now: i128) -> BigInt {
        let risen = BigInt::from(self.limit) * (now - self.since);
        (&self.level + risen).min(parts(self.burst, self.period))
    }

    /// How long the level takes to rise to `level`.
    fn rise(&self, now: i128, level: u64) -> BigInt {
        ceil(parts(level, self.period) - self.level(now), self.limit).max(BigInt::ZERO)
    }
}

impl Definition for Bucket {
    fn most(&self) -> u64 {
        self.burst
    }

    fn left(&self, now: i128) -> BigRational {
        ratio(self.level(now), self.period)
    }

    fn wait_for(&self, now: i128, cost: u64) -> BigInt {
        self.rise(now, cost)
    }

    fn wait_until_idle(&self, now: i128) -> BigInt {
        self.rise(now, self.burst)
    }

    fn charge(&mut self, now: i128, cost: u64) {
        self.level = self.level(now) - parts(cost, self.period);
        self.since = now;
    }
}

/// "A backlog w, 0 at first, falls L/P per nanosecond. Admitted iff w + c ≤ B; delay is the time the backlog found needs to drain."
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Queue {
    limit: u64,
    period: u64,
    burst: u64,
    backlog: BigInt,
    since: i128,
}

impl Queue {
    fn backlog(&self, now: i128) -> BigInt {
        let drained = BigInt::from(self.limit) * (now - self.since);
        (&self.backlog - drained).max(BigInt::ZERO)
    }

    /// How long the backlog takes to fall to `backlog`.
    fn fall(&self, now: i128, backlog: u64) -> BigInt {
        ceil(self.backlog(now) - parts(backlog, self.period), self.limit).max(BigInt::ZERO)
    }
}

impl Definition for Queue {
    fn most(&self) -> u64 {
        self.burst
    }

    fn left(&self, now: i128) -> BigRational {
        ratio(
            parts(self.burst, self.period) - self.backlog(now),
            self.period,
        )
    }

    fn wait_for(&self, now: i128, cost: u64) -> BigInt {
        self.fall(now, self.burst - cost)
    }

    fn wait_until_idle(&self, now: i128) -> BigInt {
        self.fall(now, 0)
    }

    fn charge(&mut self, now: i128, cost: u64) {
        self.backlog = self.backlog(now) + parts(cost, self.period);
        self.since = now;
    }

    fn delay(&self, now: i128) -> BigInt {
        self.fall(now, 0)
    }
}

/// "Windows start at k·P + offset since the Unix epoch." Allowed iff count + c ≤ L.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Window {
    limit: u64,
    grid: Grid,
    charges: Vec<(i128, u64)>,
}

impl Definition for Window {
    fn most(&self) -> u64 {
        self.limit
    }

    fn left(&self, now: i128) -> BigRational {
        let count = charged_within(&self.charges, self.grid.start(now), self.grid.end(now));
        BigRational::from_integer(BigInt::from(self.limit) - count)
    }

    fn wait_for(&self, now: i128, cost: u64) -> BigInt {
        let fits = self.left(now) >= BigRational::from_integer(cost.into());
        if fits {
            BigInt::ZERO
        } else {
            (self.grid.end(now) - now).into()
        }
    }

    fn wait_until_idle(&self, now: i128) -> BigInt {
        self.wait_for(now, self.limit)
    }

    fn charge(&mut self, now: i128, cost: u64) {
        self.charges.push((now, cost));
    }
}

/// "A window starts at a client's first charge, and again at the first charge after it has ended."
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Anchored {
    limit: u64,
    period: u64,
    start: Option<i128>,
    count: u64,
}

impl Anchored {
    /// The end of the window that `now` is in, if it is in one.
    fn end(&self, now: i128) -> Option<i128> {
        let end = self.start? + i128::from(self.period);
        (now < end).then_some(end)
    }

    fn count(&self, now: i128) -> u64 {
        if self.end(now).is_some() {
            self.count
        } else {
            0
        }
    }
}

impl Definition for Anchored {
    fn most(&self) -> u64 {
        self.limit
    }

    fn left(&self, now: i128) -> BigRational {
        BigRational::from_integer((self.limit - self.count(now)).into())
    }

    fn wait_for(&self, now: i128, cost: u64) -> BigInt {
        let over = u128::from(self.count(now)) + u128::from(cost) > u128::from(self.limit);
        self.end(now)
            .filter(|_| over)
            .map_or(BigInt::ZERO, |end| (end - now).into())
    }

    fn wait_until_idle(&self, now: i128) -> BigInt {
        self.wait_for(now, self.limit)
    }

    fn charge(&mut self, now: i128, cost: u64) {
        self.count = self.count(now) + cost;
        if self.end(now).is_none() {
            self.start = Some(now);
        }
    }
}

/// "A unit admitted at s counts while now < s + P. Allowed iff counted + c ≤ L."
///
/// A charge within the resolution of the first instant of the last run joins that run, and the run is dated anew.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Log {
    limit: u64,
    period: u64,
    resolution: u64,
    runs: Vec<Run>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Run {
    first: i128,
    dated: i128,
    units: u64,
}

impl Definition for Log {
    fn most(&self) -> u64 {
        self.limit
    }

    fn left(&self, now: i128) -> BigRational {
        let counted: BigInt = self
            .runs
            .iter()
            .filter(|run| now < run.dated + i128::from(self.period))
            .map(|run| run.units)
            .sum();
        BigRational::from_integer(BigInt::from(self.limit) - counted)
    }

    fn wait_for(&self, now: i128, cost: u64) -> BigInt {
        let cost = BigRational::from_integer(cost.into());
        let ends = self
            .runs
            .iter()
            .map(|run| run.dated + i128::from(self.period))
            .filter(|end| *end > now);
        std::iter::once(now)
            .chain(ends)
            .find(|instant| self.left(*instant) >= cost)
            .map(|instant| (instant - now).into())
            .expect("once all runs have ended, all that a limit grants is there")
    }

    fn wait_until_idle(&self, now: i128) -> BigInt {
        self.wait_for(now, self.limit)
    }

    fn charge(&mut self, now: i128, cost: u64) {
        match self.runs.last_mut() {
            Some(run) if now - run.first < i128::from(self.resolution) => {
                run.dated = now;
                run.units += cost;
            }
            _ => self.runs.push(Run {
                first: now,
                dated: now,
                units: cost,
            }),
        }
    }
}

/// "With e the time since the window's start: used = previous·(P − e)/P + current. Allowed iff used + c ≤ L."
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Counter {
    limit: u64,
    grid: Grid,
    charges: Vec<(i128, u64)>,
}

impl Counter {
    /// What was charged in the window before `now`'s, and in `now`'s.
    fn counts(&self, now: i128) -> (BigInt, BigInt) {
        let Grid { period, .. } = self.grid;
        let (start, end) = (self.grid.start(now), self.grid.end(now));
        (
            charged_within(&self.charges, start - period, start),
            charged_within(&self.charges, start, end),
        )
    }

    /// The least time into a window at which `previous` units of the window before it weigh no more than `room`.
    fn faded(&self, previous: &BigInt, room: BigInt) -> BigInt {
        let period = BigInt::from(self.grid.period);
        if *previous <= room {
            return BigInt::ZERO;
        }
        // previous·(P − e)/P ≤ room, solved for e.
        &period
            - BigRational::new_raw(room * &period, previous.clone())
                .floor()
                .to_integer()
    }
}

impl Definition for Counter {
    fn most(&self) -> u64 {
        self.limit
    }

    fn left(&self, now: i128) -> BigRational {
        let (previous, current) = self.counts(now);
        let period = BigInt::from(self.grid.period);
        let used = previous * (self.grid.end(now) - now) + current * &period;
        BigRational::new_raw(&period * self.limit - used, period)
    }

    fn wait_for(&self, now: i128, cost: u64) -> BigInt {
        let (previous, current) = self.counts(now);
        let room = BigInt::from(self.limit) - cost;
        let into_window = BigInt::from(now - self.grid.start(now));
        let instant = if current <= room {
            self.faded(&previous, room - current)
        } else {
            // Not in this window; in the next one `current` is what fades.
            self.faded(&current, room) + self.grid.period
        };
        (instant - into_window).max(BigInt::ZERO)
    }

    fn wait_until_idle(&self, now: i128) -> BigInt {
        self.wait_for(now, self.limit)
    }

    fn charge(&mut self, now: i128, cost: u64) {
        self.charges.push((now, cost));
    }
}

/// Windows of one period from `offset` on, both ways.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Grid {
    period: i128,
    offset: i128,
}

impl Grid {
    fn new(period: u64, offset: u128) -> Grid {
        Grid {
            period: period.into(),
            offset: offset
                .try_into()
                .expect("a duration's nanoseconds fit in 95 bits"),
        }
    }

    fn start(&self, now: i128) -> i128 {
        (now - self.offset).div_euclid(self.period) * self.period + self.offset
    }

    fn end(&self, now: i128) -> i128 {
        self.start(now) + self.period
    }
}

fn charged_within(charges: &[(i128, u64)], start: i128, end: i128) -> BigInt {
    charges
        .iter()
        .filter(|(at, _)| start <= *at && *at < end)
        .map(|(_, units)| *units)
        .sum()
}

/// Whole units as a numerator over the period.
fn parts(units: u64, period: u64) -> BigInt {
    BigInt::from(units) * period
}

fn ratio(numerator: BigInt, denominator: u64) -> BigRational {
    BigRational::new_raw(numerator, denominator.into())
}

fn ceil(numerator: BigInt, denominator: u64) -> BigInt {
    ratio(numerator, denominator).ceil().to_integer()
}

/// A quantity as the crate hands it out: it is never negative, and saturates.
fn whole(quantity: BigInt) -> u64 {
    assert!(quantity >= BigInt::ZERO, "a negative {quantity}");
    u64::try_from(quantity).unwrap_or(u64::MAX)
}
