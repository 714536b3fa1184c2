//! The five definitions, and what they make of a charge beyond the limit, of a refund and of a change.

use std::collections::BTreeMap;

use num_bigint::BigInt;
use num_rational::BigRational;

use super::{LAST_STAMP, ceil, parts, ratio, whole};
use crate::support::specs::{Rule, Spec};

/// What a refund is told of a charge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Charge {
    /// How many units are to be given back, of how many.
    pub units: u64,
    pub of: u64,
    pub at: i128,
    /// Where the queue ended when it had joined, if it joined one.
    pub end: Option<BigInt>,
}

/// A rule and one state of it, asked at instants that do not run back behind the latest charge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Memory {
    Bucket(Bucket),
    Queue(Queue),
    Window(Window),
    Anchored(Anchored),
    Log(Log),
    Counter(Counter),
}

impl Memory {
    pub fn fresh(spec: &Spec) -> Memory {
        let Spec {
            limit,
            period,
            rule,
            ..
        } = *spec;
        match rule {
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
                counts: BTreeMap::new(),
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
                newest_is_open: false,
            }),
            Rule::SlidingWindowCounter { offset } => Memory::Counter(Counter {
                limit,
                grid: Grid::new(period, offset),
                counts: BTreeMap::new(),
            }),
        }
    }

    /// "The limiter is another from now on": what was used is used under the new one. From one algorithm to another
    /// nothing is.
    pub fn carried(&self, to: &Spec, now: i128) -> Memory {
        let mut fresh = Memory::fresh(to);
        match (self, &mut fresh) {
            (Memory::Bucket(was), Memory::Bucket(is)) if was.rate() == is.rate() => {
                let missing = parts(was.burst, was.period) - &was.level;
                is.level = parts(is.burst, is.period) - missing;
                is.since = was.since;
            }
            (Memory::Bucket(was), Memory::Bucket(is)) => {
                let missing = parts(was.burst, was.period) - was.level(now);
                if missing > BigInt::ZERO {
                    let missing = converted(missing, was.period, is.period);
                    is.level = parts(is.burst, is.period) - missing;
                    is.since = now;
                }
            }
            (Memory::Queue(was), Memory::Queue(is)) if was.rate() == is.rate() => {
                (is.backlog, is.since) = (was.backlog.clone(), was.since);
            }
            (Memory::Queue(was), Memory::Queue(is)) => {
                let backlog = was.backlog(now);
                if backlog > BigInt::ZERO {
                    is.backlog = converted(backlog, was.period, is.period);
                    is.since = now;
                }
            }
            (Memory::Window(_) | Memory::Anchored(_), Memory::Window(is)) => {
                let (_, count) = self.window(now);
                is.counts.insert(is.grid.start(now), count);
            }
            (Memory::Window(_) | Memory::Anchored(_), Memory::Anchored(is)) => {
                let (start, count) = self.window(now);
                if count > 0 {
                    // A window that began before the epoch cannot be anchored there.
                    let stays = start >= 0 && now < start + i128::from(is.period);
                    is.start = Some(if stays { start } else { now });
                    is.count = count;
                }
            }
            (Memory::Log(was), Memory::Log(is)) => {
                let counts = was.runs.iter().filter(|run| was.counts(run, now));
                is.runs = counts.filter(|run| is.counts(run, now)).cloned().collect();
                is.newest_is_open = was.newest_is_open && !is.runs.is_empty();
            }
            (Memory::Counter(was), Memory::Counter(is)) => {
                let (previous, current) = (was.previous(now), was.current(now));
                if was.grid.is_same_as(&is.grid) {
                    is.counts = [
                        (is.grid.start(now) - is.grid.period, previous),
                        (is.grid.start(now), current),
                    ]
                    .into();
                } else {
                    let used = was.used(now).ceil().to_integer();
                    let used = u64::try_from(used).expect("as much as a client may owe");
                    is.counts.insert(is.grid.start(now), used);
                }
            }
            _ => {}
        }
        fresh
    }

    /// Where a window's count at `now` began, and the count.
    fn window(&self, now: i128) -> (i128, u64) {
        match self {
            Memory::Window(it) => (it.grid.start(now), it.count(now)),
            Memory::Anchored(it) => (it.start.unwrap_or(now), it.count(now)),
            _ => unreachable!("no fixed window"),
        }
    }

    pub fn definition(&self) -> &dyn Definition {
        match self {
            Memory::Bucket(it) => it,
            Memory::Queue(it) => it,
            Memory::Window(it) => it,
            Memory::Anchored(it) => it,
            Memory::Log(it) => it,
            Memory::Counter(it) => it,
        }
    }

    pub fn definition_mut(&mut self) -> &mut dyn Definition {
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

pub trait Definition {
    /// How many units could be spent at `now`; below zero in debt.
    fn left(&self, now: i128) -> BigRational;
    /// The smallest whole wait after which `cost` fits.
    fn wait_for(&self, now: i128, cost: u64) -> BigInt;
    /// The smallest whole wait after which nothing is left of any charge.
    fn wait_until_idle(&self, now: i128) -> BigInt;
    fn charge(&mut self, now: i128, cost: u64);
    /// Gives back what is left of a charge, and says how many whole units that were.
    fn refund(&mut self, now: i128, charge: &Charge) -> u64;
    fn delay(&self, _now: i128) -> BigInt {
        BigInt::ZERO
    }
    /// Where a queue ends: the instant times the limit.
    fn end(&self) -> Option<BigInt> {
        None
    }
}

/// "A level in [0, B], B at first, rises L/P per nanosecond. Allowed iff level ≥ c; then level −= c."
///
/// A charge may take it below zero. A refund: level = min(B, level + c).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    limit: u64,
    period: u64,
    burst: u64,
    level: BigInt,
    /// The latest charge, or change. A refund is none: whoever comes with a stamp between the two finds what a refund
    /// then would have left.
    since: i128,
}

impl Bucket {
    fn rate(&self) -> (u64, u64) {
        (self.limit, self.period)
    }

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

    fn refund(&mut self, now: i128, charge: &Charge) -> u64 {
        let missing = parts(self.burst, self.period) - self.level(now);
        let given = parts(charge.units, self.period);
        // As of `since`; what lies above B is cut off as of whenever it is asked for.
        self.level += &given;
        floor(given.min(missing), self.period)
    }
}

/// "A backlog w, 0 at first, falls L/P per nanosecond. Admitted iff w + c ≤ B; delay is the time the backlog found needs to drain."
///
/// A charge may take it above B. A refund: only of the last who joined, that is, as long as the queue ends in the place that
/// the charge took; where nothing is left of it, the one before is the last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    limit: u64,
    period: u64,
    burst: u64,
    backlog: BigInt,
    since: i128,
}

impl Queue {
    fn rate(&self) -> (u64, u64) {
        (self.limit, self.period)
    }

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

    fn refund(&mut self, now: i128, charge: &Charge) -> u64 {
        let (Some(ended), Some(ends)) = (&charge.end, self.end()) else {
            return 0;
        };
        let left = parts(charge.of, self.period) - (ended - &ends);
        if ends > *ended || left <= BigInt::ZERO {
            return 0;
        }
        let leaves = parts(charge.units, self.period).min(left);
        let given = self.backlog(now).min(leaves.clone());
        self.backlog -= leaves;
        floor(given, self.period)
    }

    fn delay(&self, now: i128) -> BigInt {
        self.fall(now, 0)
    }

    fn end(&self) -> Option<BigInt> {
        Some(BigInt::from(self.limit) * self.since + &self.backlog)
    }
}

/// "Windows start at k·P + offset since the Unix epoch." Allowed iff count + c ≤ L.
///
/// A refund: only of a charge in the window that is counted in, and only until it ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    limit: u64,
    grid: Grid,
    /// By the start of the window.
    counts: BTreeMap<i128, u64>,
}

impl Window {
    fn count(&self, now: i128) -> u64 {
        count_in(&self.counts, self.grid.start(now))
    }
}

impl Definition for Window {
    fn left(&self, now: i128) -> BigRational {
        units_left(self.limit, self.count(now).into())
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
        *self.counts.entry(self.grid.start(now)).or_default() += cost;
    }

    fn refund(&mut self, now: i128, charge: &Charge) -> u64 {
        if self.grid.start(charge.at) != self.grid.start(now) {
            return 0;
        }
        give_back(&mut self.counts, self.grid.start(now), charge.units)
    }
}

/// "A window starts at a client's first charge, and again at the first charge after it has ended."
///
/// When all of it was given back, nothing was charged: it closes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Anchored {
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
    fn left(&self, now: i128) -> BigRational {
        units_left(self.limit, self.count(now).into())
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

    fn refund(&mut self, now: i128, charge: &Charge) -> u64 {
        let Some(end) = self.end(now) else {
            return 0;
        };
        if !(end - i128::from(self.period)..end).contains(&charge.at) {
            return 0;
        }
        let given = charge.units.min(self.count);
        self.count -= given;
        if self.count == 0 {
            self.start = None;
        }
        given
    }
}

/// "A unit admitted at s counts while now < s + P. Allowed iff counted + c ≤ L."
///
/// A charge within the resolution of the first instant of the last run joins that run, and the run is dated anew. A refund:
/// from the first run that is not dated before the charge, if it is dated within the resolution of it, and as long as it
/// counts. A run of which nothing is left is gone, and nothing joins the one before it; one that no longer counts is gone
/// with the next charge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Log {
    limit: u64,
    period: u64,
    resolution: u64,
    runs: Vec<Run>,
    newest_is_open: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Run {
    first: i128,
    dated: i128,
    units: u64,
}

impl Log {
    fn counts(&self, run: &Run, now: i128) -> bool {
        now < run.dated + i128::from(self.period)
    }
}

impl Definition for Log {
    fn left(&self, now: i128) -> BigRational {
        let runs = self.runs.iter().filter(|run| self.counts(run, now));
        units_left(self.limit, runs.map(|run| run.units).sum())
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
        let period = i128::from(self.period);
        self.runs.retain(|run| now < run.dated + period);
        match self.runs.last_mut() {
            Some(run) if self.newest_is_open && now - run.first < i128::from(self.resolution) => {
                run.dated = now;
                run.units += cost;
            }
            _ => self.runs.push(Run {
                first: now,
                dated: now,
                units: cost,
            }),
        }
        self.newest_is_open = true;
    }

    fn refund(&mut self, now: i128, charge: &Charge) -> u64 {
        let Some(at) = self.runs.iter().position(|run| run.dated >= charge.at) else {
            return 0;
        };
        let holds_it = self.runs[at].dated - charge.at < i128::from(self.resolution);
        if !holds_it || !self.counts(&self.runs[at], now) {
            return 0;
        }
        let given = charge.units.min(self.runs[at].units);
        self.runs[at].units -= given;
        if self.runs[at].units == 0 {
            self.runs.remove(at);
            self.newest_is_open &= at < self.runs.len();
        }
        given
    }
}

/// "With e the time since the window's start: used = previous·(P − e)/P + current. Allowed iff used + c ≤ L."
///
/// A refund: of a charge in either window.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Counter {
    limit: u64,
    grid: Grid,
    /// By the start of the window.
    counts: BTreeMap<i128, u64>,
}

impl Counter {
    fn current(&self, now: i128) -> u64 {
        count_in(&self.counts, self.grid.start(now))
    }

    fn previous(&self, now: i128) -> u64 {
        count_in(&self.counts, self.grid.start(now) - self.grid.period)
    }

    fn used(&self, now: i128) -> BigRational {
        let period = BigInt::from(self.grid.period);
        let left_of_window = BigInt::from(self.grid.end(now) - now);
        let used = left_of_window * self.previous(now) + &period * self.current(now);
        BigRational::new_raw(used, period)
    }

    /// The least time into a window at which `previous` units of the window before it weigh no more than `room`.
    fn faded(&self, previous: u64, room: BigInt) -> BigInt {
        let period = BigInt::from(self.grid.period);
        let previous = BigInt::from(previous);
        if previous <= room {
            return BigInt::ZERO;
        }
        // previous·(P − e)/P ≤ room, solved for e.
        &period
            - BigRational::new_raw(room * &period, previous)
                .floor()
                .to_integer()
    }
}

impl Definition for Counter {
    fn left(&self, now: i128) -> BigRational {
        let used = self.used(now);
        BigRational::new_raw(
            used.denom() * self.limit - used.numer(),
            used.denom().clone(),
        )
    }

    fn wait_for(&self, now: i128, cost: u64) -> BigInt {
        let (previous, current) = (self.previous(now), self.current(now));
        let room = BigInt::from(self.limit) - cost;
        let into_window = BigInt::from(now - self.grid.start(now));
        let instant = if BigInt::from(current) <= room {
            self.faded(previous, room - current)
        } else {
            // Not in this window; in the next one `current` is what fades.
            self.faded(current, room) + self.grid.period
        };
        (instant - into_window).max(BigInt::ZERO)
    }

    fn wait_until_idle(&self, now: i128) -> BigInt {
        self.wait_for(now, self.limit)
    }

    fn charge(&mut self, now: i128, cost: u64) {
        *self.counts.entry(self.grid.start(now)).or_default() += cost;
    }

    fn refund(&mut self, now: i128, charge: &Charge) -> u64 {
        let charged = self.grid.start(charge.at);
        let current = self.grid.start(now);
        if charged != current && charged != current - self.grid.period {
            return 0;
        }
        give_back(&mut self.counts, charged, charge.units)
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

    fn is_same_as(&self, other: &Grid) -> bool {
        self.period == other.period && self.start(0) == other.start(0)
    }
}

fn count_in(counts: &BTreeMap<i128, u64>, window: i128) -> u64 {
    counts.get(&window).copied().unwrap_or(0)
}

fn give_back(counts: &mut BTreeMap<i128, u64>, window: i128, units: u64) -> u64 {
    let count = counts.entry(window).or_default();
    let given = units.min(*count);
    *count -= given;
    given
}

fn units_left(limit: u64, used: BigInt) -> BigRational {
    BigRational::from_integer(BigInt::from(limit) - used)
}

/// What is missing under one period, counted in parts of another; against the client by less than one of them.
fn converted(missing: BigInt, from: u64, to: u64) -> BigInt {
    let most_units = LAST_STAMP as u64;
    ceil(missing * to, from).min(parts(most_units, to))
}

fn floor(numerator: BigInt, denominator: u64) -> u64 {
    whole(ratio(numerator, denominator).floor().to_integer())
}
