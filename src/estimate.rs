//! [`Estimate`]: a cost that is known only afterwards.

use alloc::boxed::Box;
use core::fmt;

use thiserror::Error;

use crate::decision::{Decision, Receipt};
use crate::error::CostTooHigh;
use crate::time::Timestamp;

/// What a request is thought to cost, spent until it is known.
///
/// [`settle`](Self::settle) charges or gives back the difference to what it has cost in the end. Dropped unsettled, because
/// the request failed or its task was cancelled, the estimate is given back whole; [`keep`](Self::keep) lets it stand.
///
/// ```
/// use tollgate::{Direct, Quota, Timestamp, TokenBucket};
///
/// let tokens = Direct::new(TokenBucket::new(Quota::per_minute(10_000)));
/// let now = Timestamp::from_secs(1_000);
/// let estimate = tokens.estimate(2_000, now)?;
/// // … the model has answered, with less than was thought:
/// assert_eq!(estimate.settle(1_200, now).remaining(), 8_800);
///
/// let failed = tokens.estimate(5_000, now)?;
/// drop(failed);
/// assert_eq!(tokens.peek(now).remaining(), 8_800);
/// # Ok::<(), tollgate::EstimateError>(())
/// ```
#[must_use = "an estimate that is dropped is given back"]
pub struct Estimate<S: Settle> {
    client: S,
    decision: Decision,
    /// `None` once nothing is to be given back.
    unsettled: Option<Receipt>,
}

/// Why an estimate was not spent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EstimateError {
    /// Not now: the decision says when.
    #[error("refused: retry after {:?}", .0.retry_after())]
    Refused(Box<Decision>),
    /// Never.
    #[error(transparent)]
    CostTooHigh(#[from] CostTooHigh),
}

impl<S: Settle> Estimate<S> {
    pub(crate) fn new(
        client: S,
        decision: Result<Decision, CostTooHigh>,
    ) -> Result<Self, EstimateError> {
        let decision = decision?;
        if !decision.is_allowed() {
            return Err(EstimateError::Refused(Box::new(decision)));
        }
        Ok(Self {
            client,
            decision,
            unsettled: decision.receipt(),
        })
    }

    /// The decision on the estimate.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Settles for what the request has really cost, at `now`: what is more than the estimate is charged (see `charge`: the
    /// client may come to owe), what is less is given back. Says how the client stands then.
    pub fn settle(mut self, cost: u64, now: Timestamp) -> Decision {
        let estimate = self.unsettled.take();
        let estimated = estimate.map_or(0, |receipt| receipt.cost());
        if cost > estimated {
            return self.client.charge(cost - estimated, now);
        }
        if let Some(receipt) = estimate {
            self.client
                .refund(receipt.part(estimated - cost), Some(now));
        }
        self.client.peek(now)
    }

    /// Lets the estimate stand as what the request has cost.
    pub fn keep(mut self) {
        self.unsettled = None;
    }
}

impl<S: Settle> Drop for Estimate<S> {
    fn drop(&mut self) {
        if let Some(receipt) = self.unsettled.take() {
            self.client.refund(receipt, None);
        }
    }
}

impl<S: Settle> fmt::Debug for Estimate<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Estimate")
            .field("decision", &self.decision)
            .field("unsettled", &self.unsettled)
            .finish_non_exhaustive()
    }
}

/// Whom an [`Estimate`] was charged to: a `Direct`, or a client of a `Keyed`.
pub trait Settle {
    #[doc(hidden)]
    fn charge(&self, cost: u64, now: Timestamp) -> Decision;

    /// Gives back; without a stamp, at the instant that the holder's time has come to: a guard that is dropped has no clock,
    /// and an old stamp would look like one that was set back.
    #[doc(hidden)]
    fn refund(&self, receipt: Receipt, now: Option<Timestamp>);

    #[doc(hidden)]
    fn peek(&self, now: Timestamp) -> Decision;
}
