//! [`UntilAllowed`]: the wait of one request.

use core::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::sleep::{Blocks, Sleep, Timers};
use super::threads::block_on;
use super::ticket::Ticket;
use super::{WaitError, Waiting};
use crate::clock::Clock;
use crate::decision::{Receipt, Spent};
use crate::queue::Waits;
use crate::time::{Timestamp, saturating_nanos};

/// The turn of a request that has waited: it may go, and what it costs is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn(Spent);

impl Turn {
    #[inline]
    pub(super) const fn new(spent: Spent) -> Self {
        Self(spent)
    }

    /// What gives the units back, should the request fail; `None` if it cost nothing.
    ///
    /// It names the instant of the turn, which may be a little before the task was woken.
    #[must_use]
    pub const fn receipt(&self) -> Option<Receipt> {
        self.0.receipt()
    }

    pub(super) const fn spent(&self) -> Spent {
        self.0
    }
}

/// A request that waits for its turn. It takes its place when it is first polled, and gives it up when it is dropped.
///
/// Dropped before it has said that the request may go, it has spent nothing.
#[must_use = "it takes its place in the queue when it is polled"]
pub struct UntilAllowed<'a, S: Waits<Q>, C: Clock, T: Timers, Q: ?Sized> {
    waiting: &'a Waiting<S, C, T>,
    key: &'a Q,
    ticket: Ticket<T::Future>,
}

impl<'a, S: Waits<Q>, C: Clock, T: Timers, Q: ?Sized> UntilAllowed<'a, S, C, T, Q> {
    #[inline]
    pub(super) const fn new(waiting: &'a Waiting<S, C, T>, key: &'a Q, cost: u64) -> Self {
        Self {
            waiting,
            key,
            ticket: Ticket::new(cost),
        }
    }

    /// Let in at once, with all who wait, or not at all.
    pub(super) fn within_burst(mut self) -> Self {
        self.ticket.terms_mut().within_burst = true;
        self
    }

    /// Refused at once if it would have to wait longer. Of several such bounds the narrowest counts.
    pub fn within(mut self, max_wait: Duration) -> Self {
        let terms = self.ticket.terms_mut();
        terms.max_wait_ns = terms.max_wait_ns.min(saturating_nanos(max_wait));
        self
    }

    /// Refused at once if its turn would come after `deadline`. One that need not wait goes, be the deadline over.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::wait::{WaitError, Waiting};
    /// use tollgate::{Clock, Direct, Quota, TokenBucket};
    ///
    /// let limiter = Direct::new(TokenBucket::new(Quota::per_hour(1)));
    /// let waiting = Waiting::on_threads(&limiter);
    /// let deadline = waiting.clock().now() + Duration::from_secs(5);
    /// waiting.until_allowed(&()).by(deadline).block()?;
    /// let refused = waiting.until_allowed(&()).by(deadline).block();
    /// assert!(matches!(refused, Err(WaitError::TooLong(_))));
    /// # Ok::<(), WaitError>(())
    /// ```
    pub fn by(mut self, deadline: Timestamp) -> Self {
        let terms = self.ticket.terms_mut();
        terms.deadline = terms.deadline.min(deadline);
        self
    }

    /// Blocks this thread until its turn.
    ///
    /// # Errors
    ///
    /// [`WaitError`] if it does not wait, or not to the end.
    pub fn block(self) -> Result<Turn, WaitError>
    where
        T: Blocks,
    {
        let mut this = self;
        block_on(std::future::poll_fn(|context| this.poll_once(context)))
    }

    #[inline]
    fn poll_once(&mut self, context: &mut Context<'_>) -> Poll<Result<Turn, WaitError>> {
        self.ticket.poll(self.waiting, self.key, context)
    }
}

impl<S: Waits<Q>, C: Clock, T: Sleep, Q: ?Sized> Future for UntilAllowed<'_, S, C, T, Q> {
    type Output = Result<Turn, WaitError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_once(context)
    }
}

impl<S: Waits<Q>, C: Clock, T: Timers, Q: ?Sized> Drop for UntilAllowed<'_, S, C, T, Q> {
    #[inline]
    fn drop(&mut self) {
        self.ticket.give_back(self.waiting, self.key);
    }
}

impl<S: Waits<Q>, C: Clock, T: Timers, Q: ?Sized> fmt::Debug for UntilAllowed<'_, S, C, T, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UntilAllowed").finish_non_exhaustive()
    }
}
