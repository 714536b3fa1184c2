#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

pub mod algorithm;
mod clock;
mod decision;
mod error;
mod limiter;
mod policy;
mod quota;
mod time;

#[cfg(feature = "std")]
mod direct;
#[cfg(feature = "std")]
mod holder;
#[cfg(feature = "std")]
pub mod keyed;

pub use algorithm::{FixedWindow, LeakyBucket, SlidingLog, SlidingWindowCounter, TokenBucket};
pub use clock::Clock;
#[cfg(target_has_atomic = "64")]
pub use clock::ManualClock;
#[cfg(feature = "std")]
pub use clock::{SystemClock, TickingClock};
pub use decision::Decision;
#[cfg(feature = "std")]
pub use direct::Direct;
pub use error::{
    BurstError, CostTooHigh, ParseQuotaError, QuotaError, ResolutionError, UnknownAlgorithm,
};
#[cfg(feature = "std")]
pub use keyed::Keyed;
pub use limiter::Limiter;
pub use policy::{Algorithm, Policy, PolicyState};
pub use quota::Quota;
pub use time::Timestamp;
