#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

pub mod algorithm;
mod arithmetic;
mod clock;
mod compose;
mod decision;
mod error;
mod limiter;
mod policy;
mod quota;
mod time;

#[cfg(feature = "std")]
mod direct;
#[cfg(feature = "std")]
mod estimate;
#[cfg(feature = "std")]
mod holder;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "std")]
pub mod keyed;
#[cfg(feature = "wait")]
mod queue;
#[cfg(feature = "wait")]
pub mod wait;

pub use algorithm::{FixedWindow, LeakyBucket, SlidingLog, SlidingWindowCounter, TokenBucket};
pub use clock::Clock;
#[cfg(target_has_atomic = "64")]
pub use clock::ManualClock;
#[cfg(feature = "quanta")]
pub use clock::QuantaClock;
#[cfg(feature = "std")]
pub use clock::{SystemClock, TickingClock};
#[cfg(feature = "serde")]
pub use compose::PolicySet;
pub use compose::{
    All, AllState, EmptyAll, PlanId, PlanState, Plans, PlansError, Shadow, UnknownPlan,
};
pub use decision::{Decision, Receipt};
#[cfg(feature = "std")]
pub use direct::Direct;
pub use error::{
    BurstError, CostTooHigh, DebtError, ParseQuotaError, QuotaError, ResolutionError,
    UnknownAlgorithm,
};
#[cfg(feature = "std")]
pub use estimate::{Estimate, EstimateError, Settle};
#[cfg(feature = "std")]
pub use keyed::Keyed;
pub use limiter::Limiter;
pub use policy::{Algorithm, Policy, PolicyState};
pub use quota::Quota;
pub use time::Timestamp;
