//! One file per peer: how its own docs say it is used.

pub mod dashmap;
pub mod governor;
pub mod tollgate;

#[cfg(feature = "all-peers")]
pub mod gcra;
#[cfg(feature = "all-peers")]
pub mod leaky_bucket;
#[cfg(feature = "all-peers")]
pub mod limitador;
#[cfg(feature = "all-peers")]
pub mod pingora_limits;
#[cfg(feature = "all-peers")]
pub mod ratelimit;
#[cfg(feature = "all-peers")]
pub mod throttlecrab;
#[cfg(feature = "all-peers")]
pub mod tokio_rate_limit;
#[cfg(feature = "all-peers")]
pub mod tower_resilience;
#[cfg(feature = "all-peers")]
pub mod trypema;
