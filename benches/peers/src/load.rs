//! [`Workload`]: the rows of the table. [`Load`]: one of them, laid out in memory.

use std::env;
use std::time::Duration;

use crate::keys::{self, Key};
use crate::peer::Rule;

/// Who calls, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// One client who is over its limit.
    OneRefused,
    /// One client who is not.
    OneAllowed,
    /// A thousand clients, all within their limits, in random order.
    ThousandAllowed,
    /// A million of them.
    MillionAllowed,
    /// A million clients, the k-th most frequent k times rarer than the first; nine calls in ten are refused.
    MillionZipf,
    /// Every call is a new client's: the store starts empty and grows to a million.
    Flood,
}

/// What a workload promises about its answers; checked after every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    AllAllowed,
    AllRefused,
    MostlyRefused,
}

impl Workload {
    pub const ALL: [Self; 6] = [
        Self::OneRefused,
        Self::OneAllowed,
        Self::ThousandAllowed,
        Self::MillionAllowed,
        Self::MillionZipf,
        Self::Flood,
    ];

    /// How it is called in the tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneRefused => "one key, refused",
            Self::OneAllowed => "one key, allowed",
            Self::ThousandAllowed => "1 000 keys, allowed",
            Self::MillionAllowed => "1 M keys, allowed",
            Self::MillionZipf => "1 M keys, Zipf, mostly refused",
            Self::Flood => "flood of new keys",
        }
    }

    #[must_use]
    pub const fn expected(self) -> Expected {
        match self {
            Self::OneRefused => Expected::AllRefused,
            Self::MillionZipf => Expected::MostlyRefused,
            _ => Expected::AllAllowed,
        }
    }

    /// The limit. No state of it is idle while it is measured, or it would be insertion that is measured.
    #[must_use]
    pub const fn rule(self) -> Rule {
        match self {
            Self::OneRefused => Rule {
                burst: 1,
                refill: DAY,
                limit: 1,
                window: DAY,
                log: DAY,
            },
            Self::OneAllowed | Self::ThousandAllowed => Rule {
                burst: u32::MAX,
                refill: SECOND,
                limit: u32::MAX,
                window: DAY,
                log: Duration::from_secs(10),
            },
            // Each client calls once a second of simulated time: one unit a second would leave half of them full.
            Self::MillionAllowed => Rule {
                burst: 1_000_000,
                refill: HOUR,
                limit: u32::MAX,
                window: DAY,
                log: Duration::from_secs(10),
            },
            Self::MillionZipf => Rule {
                burst: 1,
                refill: Duration::from_secs(10),
                limit: 1,
                window: Duration::from_secs(10),
                log: Duration::from_secs(10),
            },
            Self::Flood => FLOOD,
        }
    }

    /// How much simulated time a call takes.
    #[must_use]
    pub const fn step(self) -> Duration {
        match self {
            Self::Flood => Duration::from_micros(10),
            _ => Duration::from_micros(1),
        }
    }
}

/// 10 a second, as an API might allow a client.
pub const FLOOD: Rule = Rule {
    burst: 10,
    refill: Duration::from_millis(100),
    limit: 10,
    window: SECOND,
    log: SECOND,
};

/// Ten at once, and then one an hour: no client of a flood becomes idle while it lasts.
pub const FLOOD_NEVER_IDLE: Rule = Rule {
    burst: 10,
    refill: HOUR,
    limit: 10,
    window: DAY,
    log: DAY,
};

/// A workload with its keys.
#[derive(Debug)]
pub struct Load<K> {
    pub workload: Workload,
    /// How many clients the store knows before anything is timed.
    pub population: u64,
    /// Who calls, in this order, over and over. The keys lie in memory in this order too, as those of requests would be
    /// in the cache: what is timed is the limiter's memory, not the bench's.
    pub order: Vec<K>,
}

impl<K: Key> Load<K> {
    #[must_use]
    pub fn new(workload: Workload) -> Self {
        let million = million();
        let (population, order) = match workload {
            Workload::OneRefused | Workload::OneAllowed => (1, vec![0]),
            Workload::ThousandAllowed => (1_000, keys::shuffled(1_000)),
            Workload::MillionAllowed => (million, keys::shuffled(million)),
            Workload::MillionZipf => (million, keys::zipf(million, 4 * million as usize)),
            Workload::Flood => (0, keys::shuffled(million)),
        };
        Self {
            workload,
            population,
            order: order.into_iter().map(K::of).collect(),
        }
    }

    #[must_use]
    pub fn rule(&self) -> Rule {
        self.workload.rule()
    }

    /// How many clients there will be: some peers want to be told.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.order.len().max(self.population as usize)
    }
}

/// A million, or what `PEERS_MILLION` says it is: a trial run wants less.
#[must_use]
pub fn million() -> u64 {
    env::var("PEERS_MILLION").map_or(1_000_000, |value| {
        let million: u64 = value.parse().expect("PEERS_MILLION is a number");
        // The batches of two threads divide it.
        million.next_multiple_of(2_000)
    })
}

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
