//! Why somebody does not wait.

use thiserror::Error;

use super::Turn;
use crate::decision::Decision;
use crate::error::CostTooHigh;
use crate::queue::{Outcome, Refusal};

/// Why a wait has ended without leave to go, or was not begun. Nothing was spent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WaitError {
    /// No wait would be long enough: the cost is above what the limit can grant at once.
    #[error(transparent)]
    CostTooHigh(#[from] CostTooHigh),
    /// Behind those who wait already it would be longer than was allowed for. The decision says how long.
    #[error("the wait of {:?} would be longer than allowed: wait longer, or come back then", .0.retry_after())]
    TooLong(Box<Decision>),
    /// As many wait already as may. The decision says when one that does not wait would be let pass, if nobody else came.
    #[error("too many wait already: come back after {:?}", .0.retry_after())]
    QueueFull(Box<Decision>),
    /// Somebody who came later took the place: [`WhenQueueFull::EvictOldest`](super::WhenQueueFull::EvictOldest).
    #[error("gave way to a request that came later: there was room for only so many")]
    Evicted,
    /// The store has no room for another client, and none that waiting for this client's limit would make.
    #[error("the store is full: come back after {:?}", .0.retry_after())]
    StoreFull(Box<Decision>),
}

impl From<Refusal> for WaitError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::TooLong(decision) => Self::TooLong(decision),
            Refusal::Full(decision) => Self::QueueFull(decision),
            Refusal::Never(never) => Self::CostTooHigh(never),
        }
    }
}

impl From<Outcome> for Result<Turn, WaitError> {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Go(spent) => Ok(Turn::new(spent)),
            Outcome::Never(never) => Err(WaitError::CostTooHigh(never)),
            Outcome::TooLate(decision) => Err(WaitError::TooLong(decision)),
            Outcome::Evicted => Err(WaitError::Evicted),
        }
    }
}
