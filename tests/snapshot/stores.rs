//! Stores of every kind of limiter, and the formats in which they are written.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tollgate::keyed::{PlanError, Saved};
use tollgate::{
    Algorithm, All, CostTooHigh, Decision, FixedWindow, Keyed, LeakyBucket, Limiter, Plans, Policy,
    Shadow, SlidingLog, SlidingWindowCounter, Timestamp, TokenBucket,
};

use crate::support::specs::Spec;

/// A minute's start.
pub const NOW: Timestamp = Timestamp::from_secs(1_700_000_040);
pub const NANO: Duration = Duration::from_nanos(1);
pub const SECOND: Duration = Duration::from_secs(1);

/// A text format and a compact one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Postcard,
}

pub const FORMATS: [Format; 2] = [Format::Json, Format::Postcard];

impl Format {
    pub fn write<T: Serialize>(self, value: &T) -> Vec<u8> {
        match self {
            Format::Json => serde_json::to_vec(value).unwrap(),
            Format::Postcard => postcard::to_allocvec(value).unwrap(),
        }
    }

    pub fn read<T: DeserializeOwned>(self, bytes: &[u8]) -> Result<T, String> {
        match self {
            Format::Json => serde_json::from_slice(bytes).map_err(|error| error.to_string()),
            Format::Postcard => postcard::from_bytes(bytes).map_err(|error| error.to_string()),
        }
    }
}

/// A kind of limiter that stores are saved of.
pub trait Kind: Limiter {
    const ALGORITHMS: &'static [Algorithm] = &Algorithm::ALL;

    /// Made of three rules, or of the first of them.
    fn build(specs: &[Spec; 3]) -> Self;

    fn save(store: &Keyed<String, Self>, format: Format, now: Timestamp) -> Vec<u8>;

    /// How many clients were restored.
    fn restore(store: &Keyed<String, Self>, format: Format, bytes: &[u8]) -> Result<usize, String>;

    /// Names a plan if there are plans.
    fn ask(
        store: &Keyed<String, Self>,
        _plan: usize,
        key: &str,
        cost: u64,
        now: Timestamp,
    ) -> Result<Decision, CostTooHigh> {
        store.check_n(key, cost, now)
    }
}

macro_rules! kind {
    ($limiter:ty, $specs:ident => $build:expr $(, $item:item)?) => {
        impl Kind for $limiter {
            $($item)?

            fn build($specs: &[Spec; 3]) -> Self {
                $build
            }

            fn save(store: &Keyed<String, Self>, format: Format, now: Timestamp) -> Vec<u8> {
                format.write(&store.save(now))
            }

            fn restore(
                store: &Keyed<String, Self>,
                format: Format,
                bytes: &[u8],
            ) -> Result<usize, String> {
                let saved: Saved<String, Self> = format.read(bytes)?;
                store.restore(saved).map_err(|error| error.to_string())
            }
        }
    };
}

macro_rules! rule {
    ($($name:ident)*) => { $(
        kind!($name, specs => match specs[0].policy() {
            Policy::$name(rule) => rule,
            other => panic!("{other:?} is of another algorithm"),
        }, const ALGORITHMS: &'static [Algorithm] = &[Algorithm::$name];);
    )* };
}

rule! { TokenBucket LeakyBucket FixedWindow SlidingLog SlidingWindowCounter }
kind!(Policy, specs => specs[0].policy());
kind!((Policy, Policy), specs => (specs[0].policy(), specs[1].policy()));
kind!(All, specs => All::new(specs.iter().map(Spec::policy)).unwrap());
kind!(Shadow<Policy>, specs => Shadow::new(specs[0].policy()));
kind!(
    Plans<Policy>,
    specs => Plans::new(PLANS.into_iter().zip(specs.iter().map(Spec::policy))).unwrap(),
    fn ask(
        store: &Keyed<String, Self>,
        plan: usize,
        key: &str,
        cost: u64,
        now: Timestamp,
    ) -> Result<Decision, CostTooHigh> {
        match store.check_n_as(PLANS[plan], key, cost, now) {
            Ok(decision) => Ok(decision),
            Err(PlanError::CostTooHigh(never)) => Err(never),
            Err(other) => panic!("{other}"),
        }
    }
);

pub const PLANS: [&str; 3] = ["free", "premium", "tiny"];
