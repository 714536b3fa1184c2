//! What a decision was taken from: the raw numbers of each rule, and what is worked out of them when asked.

use core::cmp::Ordering;

use super::receipt::Tail;
use crate::arithmetic::{divide, divide_up, join, saturate, split};
use crate::time::Timestamp;

/// What a decision was taken from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Basis {
    Rule(RuleBasis),
    /// Of two limits that are one: worked out when asked, as a rule's is.
    Pair(PairBasis),
    Summary(SummaryBasis),
}

impl Basis {
    #[inline]
    pub(super) const fn without_tail(self) -> Self {
        match self {
            Self::Rule(rule) => Self::Rule(rule.without_tail()),
            Self::Pair(pair) => Self::Pair(PairBasis {
                rules: [pair.rules[0].without_tail(), pair.rules[1].without_tail()],
                ..pair
            }),
            Self::Summary(_) => self,
        }
    }
}

/// The numbers that a rule found, before the charge.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RuleBasis {
    Bucket(BucketBasis),
    Window(WindowBasis),
    Log(LogBasis),
    Counter(CounterBasis),
}

/// What two rules found that are charged together or not at all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairBasis {
    pub(super) rules: [RuleBasis; 2],
    pub(super) admits: [bool; 2],
}

impl PairBasis {
    /// The limit with the least left. Of two that have as little, the one that keeps the client waiting is named.
    #[inline]
    pub(super) fn limit(&self, charged: bool) -> u64 {
        let [first, second] = &self.rules;
        let named = match first.remaining(charged).cmp(&second.remaining(charged)) {
            Ordering::Less => first,
            Ordering::Greater => second,
            Ordering::Equal => &self.rules[self.refused_by()],
        };
        named.limit()
    }

    #[inline]
    pub(super) fn remaining(&self, charged: bool) -> u64 {
        let [first, second] = &self.rules;
        first.remaining(charged).min(second.remaining(charged))
    }

    #[inline]
    pub(super) fn retry_ns(&self) -> u64 {
        self.rules[self.refused_by()].retry_ns()
    }

    /// Which of them refused, the first if both wait as long or none did.
    #[inline]
    pub(super) fn refused_by(&self) -> usize {
        let [first, second] = &self.rules;
        match self.admits {
            [_, true] => 0,
            [true, false] => 1,
            [false, false] => usize::from(second.retry_ns() > first.retry_ns()),
        }
    }

    #[inline]
    pub(super) fn reset_ns(&self, charged: bool) -> u64 {
        let [first, second] = &self.rules;
        first.reset_ns(charged).max(second.reset_ns(charged))
    }

    #[inline]
    pub(super) fn delay_ns(&self) -> u64 {
        let [first, second] = &self.rules;
        first.delay_ns().max(second.delay_ns())
    }

    #[inline]
    pub(super) fn debt(&self, charged: bool) -> u64 {
        let [first, second] = &self.rules;
        first.debt(charged).max(second.debt(charged))
    }

    #[inline]
    pub(super) const fn tail(&self, now: Timestamp, charged: bool) -> Tail {
        let [first, second] = &self.rules;
        first.tail(now, charged).and(second.tail(now, charged))
    }
}

impl RuleBasis {
    #[inline]
    pub(super) const fn limit(&self) -> u64 {
        match self {
            Self::Bucket(bucket) => bucket.limit,
            Self::Window(window) => window.limit,
            Self::Log(log) => log.limit,
            Self::Counter(counter) => counter.limit,
        }
    }

    #[inline]
    pub(super) fn remaining(&self, charged: bool) -> u64 {
        match self {
            Self::Bucket(bucket) => bucket.remaining(charged),
            Self::Window(window) => window.limit.saturating_sub(window.counted(charged)),
            Self::Log(log) => log.limit.saturating_sub(log.counted(charged)),
            Self::Counter(counter) => counter.remaining(charged),
        }
    }

    /// How long the request must wait that was not admitted.
    #[inline]
    pub(super) fn retry_ns(&self) -> u64 {
        match self {
            Self::Bucket(bucket) => bucket.retry_ns(),
            Self::Window(window) => window.left_ns,
            Self::Log(log) => log.retry_ns,
            Self::Counter(counter) => counter.retry_ns(),
        }
    }

    #[inline]
    pub(super) fn reset_ns(&self, charged: bool) -> u64 {
        match self {
            Self::Bucket(bucket) => bucket.reset_ns(charged),
            Self::Window(window) => window.reset_ns(charged),
            Self::Log(log) => log.reset_ns(charged),
            Self::Counter(counter) => counter.reset_ns(charged),
        }
    }

    /// How long a request that was admitted stands in the queue.
    #[inline]
    pub(super) fn delay_ns(&self) -> u64 {
        match self {
            Self::Bucket(bucket) if bucket.shapes && bucket.cost > 0 => bucket.drain_ns(),
            _ => 0,
        }
    }

    #[inline]
    pub(super) fn debt(&self, charged: bool) -> u64 {
        match self {
            Self::Bucket(bucket) => bucket.debt(charged),
            Self::Window(window) => window.counted(charged).saturating_sub(window.limit),
            Self::Log(log) => log.counted(charged).saturating_sub(log.limit),
            Self::Counter(counter) => counter.debt(charged),
        }
    }

    #[inline]
    pub(super) const fn tail(&self, now: Timestamp, charged: bool) -> Tail {
        match self {
            Self::Bucket(bucket) => bucket.tail(now, charged),
            _ => Tail::NONE,
        }
    }

    #[inline]
    const fn without_tail(self) -> Self {
        match self {
            Self::Bucket(bucket) => Self::Bucket(BucketBasis {
                shapes: false,
                ..bucket
            }),
            other => other,
        }
    }
}

/// A bucket, token or leaky, measured by what it lacks.
///
/// What is missing is counted in units × the period's nanoseconds, so that it shrinks by the limit, a whole number,
/// in each nanosecond.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketBasis {
    pub(crate) limit: u64,
    pub(crate) period_ns: u64,
    pub(crate) burst: u64,
    pub(crate) cost: u64,
    missing: [u64; 2],
    pub(crate) shapes: bool,
}

impl BucketBasis {
    #[inline]
    pub(crate) const fn new(
        (limit, period_ns): (u64, u64),
        burst: u64,
        cost: u64,
        missing: u128,
        shapes: bool,
    ) -> Self {
        Self {
            limit,
            period_ns,
            burst,
            cost,
            missing: split(missing),
            shapes,
        }
    }

    #[inline]
    const fn in_periods(&self, units: u64) -> u128 {
        units as u128 * self.period_ns as u128
    }

    #[inline]
    const fn missing_after(&self, charged: bool) -> u128 {
        let found = join(self.missing);
        if charged {
            found.saturating_add(self.in_periods(self.cost))
        } else {
            found
        }
    }

    #[inline]
    pub(super) fn remaining(&self, charged: bool) -> u64 {
        let level = self
            .in_periods(self.burst)
            .saturating_sub(self.missing_after(charged));
        // At most the burst.
        saturate(divide(level, self.period_ns))
    }

    #[inline]
    pub(super) fn retry_ns(&self) -> u64 {
        // The most that may be missing for the request to pass.
        let passes_at = self.in_periods(self.burst.saturating_sub(self.cost));
        let excess = join(self.missing).saturating_sub(passes_at);
        saturate(divide_up(excess, self.limit))
    }

    #[inline]
    pub(super) fn reset_ns(&self, charged: bool) -> u64 {
        saturate(divide_up(self.missing_after(charged), self.limit))
    }

    #[inline]
    pub(super) fn debt(&self, charged: bool) -> u64 {
        let owed = self
            .missing_after(charged)
            .saturating_sub(self.in_periods(self.burst));
        saturate(divide_up(owed, self.period_ns))
    }

    /// Where a queue, if it is one, ends that was asked at `now`.
    #[inline]
    pub(super) const fn tail(&self, now: Timestamp, charged: bool) -> Tail {
        if self.shapes {
            let now_limit = now.as_nanos() as u128 * self.limit as u128;
            Tail::at(now_limit.saturating_add(self.missing_after(charged)))
        } else {
            Tail::NONE
        }
    }

    #[inline]
    pub(super) fn drain_ns(&self) -> u64 {
        saturate(divide_up(join(self.missing), self.limit))
    }
}

/// A window that is open until `left_ns` from now, or one that a charge now would open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowBasis {
    pub(crate) limit: u64,
    pub(crate) cost: u64,
    pub(crate) count: u64,
    pub(crate) left_ns: u64,
    /// Whether the window ends at `left_ns` even if nothing is counted in it.
    pub(crate) is_open: bool,
}

impl WindowBasis {
    #[inline]
    pub(super) const fn counted(&self, charged: bool) -> u64 {
        after(self.count, self.cost, charged)
    }

    #[inline]
    pub(super) const fn reset_ns(&self, charged: bool) -> u64 {
        if self.is_open || self.counted(charged) > 0 {
            self.left_ns
        } else {
            0
        }
    }
}

/// A log, with the waits that its runs gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogBasis {
    pub(crate) limit: u64,
    pub(crate) period_ns: u64,
    pub(crate) cost: u64,
    pub(crate) counted: u64,
    /// Until enough runs have left for the request to pass.
    pub(crate) retry_ns: u64,
    /// Until the newest run that is stored has left.
    pub(crate) newest_leaves_ns: u64,
}

impl LogBasis {
    #[inline]
    pub(super) const fn counted(&self, charged: bool) -> u64 {
        after(self.counted, self.cost, charged)
    }

    #[inline]
    pub(super) const fn reset_ns(&self, charged: bool) -> u64 {
        // What is charged now leaves a period from now.
        if charged {
            self.period_ns
        } else {
            self.newest_leaves_ns
        }
    }
}

/// A sliding window counter, `elapsed_ns` into its current window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterBasis {
    pub(crate) limit: u64,
    pub(crate) period_ns: u64,
    pub(crate) cost: u64,
    pub(crate) previous: u64,
    pub(crate) current: u64,
    pub(crate) elapsed_ns: u64,
}

impl CounterBasis {
    /// Whether `previous·(P − e)/P + current + cost ≤ L`, multiplied by P so that it is whole.
    #[inline]
    pub(crate) const fn admits(&self) -> bool {
        match self.room() {
            Some(room) => self.weight() <= room as u128 * self.period_ns as u128,
            None => false,
        }
    }

    /// What is left of the limit for the previous window's share, or `None` if the current one leaves nothing.
    #[inline]
    const fn room(&self) -> Option<u64> {
        match self.limit.checked_sub(self.current) {
            Some(free) => free.checked_sub(self.cost),
            None => None,
        }
    }

    /// The previous window's share, times the period.
    #[inline]
    const fn weight(&self) -> u128 {
        self.previous as u128 * self.left_ns() as u128
    }

    #[inline]
    const fn left_ns(&self) -> u64 {
        self.period_ns.saturating_sub(self.elapsed_ns)
    }

    #[inline]
    pub(super) fn remaining(&self, charged: bool) -> u64 {
        // The floor of L − current − share is L − current − the ceiling of the share.
        self.limit.saturating_sub(self.used(charged))
    }

    #[inline]
    pub(super) fn debt(&self, charged: bool) -> u64 {
        self.used(charged).saturating_sub(self.limit)
    }

    /// What is used, rounded up to whole units.
    #[inline]
    pub(crate) fn used(&self, charged: bool) -> u64 {
        let share = saturate(divide_up(self.weight(), self.period_ns));
        after(self.current, self.cost, charged).saturating_add(share)
    }

    #[inline]
    pub(super) fn retry_ns(&self) -> u64 {
        let this_window = self.left_ns() as u128;
        let period = self.period_ns as u128;
        let wait = match self.room() {
            // In this window: when what is left of it weighs no more than the room. If that is only at its very end,
            // the next window has the room too, for there the current count is the previous one, at its full weight.
            Some(room) => {
                let may_be_left = room as u128 * period / (self.previous.max(1) as u128);
                this_window.saturating_sub(may_be_left)
            }
            // In the next window, where the current count is the previous one.
            None => {
                let room = self.limit.saturating_sub(self.cost) as u128;
                let may_be_left = room * period / (self.current.max(1) as u128);
                this_window + period.saturating_sub(may_be_left)
            }
        };
        saturate(wait)
    }

    #[inline]
    pub(super) const fn reset_ns(&self, charged: bool) -> u64 {
        if after(self.current, self.cost, charged) > 0 {
            self.left_ns().saturating_add(self.period_ns)
        } else if self.previous > 0 {
            self.left_ns()
        } else {
            0
        }
    }
}

/// What is known of a decision without the numbers that it was taken from: of several limits at once, or of one from
/// memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SummaryBasis {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) retry_ns: u64,
    pub(crate) reset_ns: u64,
    pub(crate) delay_ns: u64,
    pub(crate) debt: u64,
}

#[inline]
const fn after(count: u64, cost: u64, charged: bool) -> u64 {
    if charged {
        count.saturating_add(cost)
    } else {
        count
    }
}
