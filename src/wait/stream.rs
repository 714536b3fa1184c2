//! [`Paced`]: a stream or a sink whose items go at the rate of a limit.

use core::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_sink::Sink;
use thiserror::Error;

use super::sleep::{Sleep, Timers};
use super::ticket::Ticket;
use super::{WaitError, Waiting};
use crate::clock::Clock;
use crate::queue::Waits;

/// A stream or a sink each of whose items waits for its turn.
///
/// A stream's item is taken first and waits then, so a stream that has nothing to say holds no place. A sink takes one item ahead
/// while the one before it waits. Dropped, both give back what they have not used.
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// use futures_util::{StreamExt, stream};
/// use tollgate::wait::Waiting;
/// use tollgate::{Direct, LeakyBucket, Quota};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let limiter = Direct::new(LeakyBucket::new(Quota::per_second(10)));
/// let rows = stream::iter(1..=3);
/// let started = tokio::time::Instant::now();
/// let sent: Vec<_> = Waiting::on_tokio(&limiter).pace((), rows).map(Result::unwrap).collect().await;
/// assert_eq!(sent, [1, 2, 3]);
/// assert_eq!(started.elapsed().as_millis(), 200);
/// # });
/// # }
/// ```
pub struct Paced<I, X, S: Waits<K>, C: Clock, T: Timers, K> {
    inner: Pin<Box<I>>,
    waiting: Waiting<S, C, T>,
    key: K,
    cost_of: fn(&X) -> u64,
    /// The item that waits, and how.
    item: Option<(X, Ticket<T::Future>)>,
}

/// An item that was not let pass.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("an item was not let pass: {error}")]
pub struct Unpaced<X> {
    /// The item.
    pub item: X,
    /// Why.
    pub error: WaitError,
}

/// Why a paced sink has not sent something.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PacedError<X, E> {
    /// An item was not let pass.
    #[error(transparent)]
    Unpaced(Unpaced<X>),
    /// The sink behind it has failed.
    #[error("the sink behind the limit has failed: {0}")]
    Sink(E),
}

impl<S, C: Clock, T: Timers> Waiting<S, C, T> {
    /// Paces the items of a stream, or into a sink: each is a request of `key` that costs 1, or what
    /// [`with_cost`](Paced::with_cost) says.
    ///
    /// Several may share a limit: of an `Arc` of it, or a reference to it, this can be [cloned](Clone).
    pub fn pace<I, X, K>(self, key: K, inner: I) -> Paced<I, X, S, C, T, K>
    where
        S: Waits<K>,
    {
        Paced {
            inner: Box::pin(inner),
            waiting: self,
            key,
            cost_of: |_| 1,
            item: None,
        }
    }
}

impl<I, X, S: Waits<K>, C: Clock, T: Timers, K> Paced<I, X, S, C, T, K> {
    /// The same, with items that cost what `cost_of` says.
    #[must_use]
    pub fn with_cost(mut self, cost_of: fn(&X) -> u64) -> Self {
        self.cost_of = cost_of;
        self
    }

    /// What is paced.
    #[must_use]
    pub fn inner(&self) -> Pin<&I> {
        self.inner.as_ref()
    }

    fn hold(&mut self, item: X) {
        let ticket = Ticket::new((self.cost_of)(&item));
        self.item = Some((item, ticket));
    }

    /// Gives the item out when it may go; `None` if there is none.
    fn poll_item(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<X, Unpaced<X>>>> {
        let Some((_, ticket)) = &mut self.item else {
            return Poll::Ready(None);
        };
        let outcome = ready!(ticket.poll(&self.waiting, &self.key, context));
        Poll::Ready(self.item.take().map(|(item, _)| match outcome {
            Ok(_) => Ok(item),
            Err(error) => Err(Unpaced { item, error }),
        }))
    }
}

impl<I, S, C, T, K> Stream for Paced<I, I::Item, S, C, T, K>
where
    I: Stream,
    S: Waits<K>,
    C: Clock,
    T: Sleep,
{
    type Item = Result<I::Item, Unpaced<I::Item>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.item.is_none() {
            let Some(item) = ready!(this.inner.as_mut().poll_next(context)) else {
                return Poll::Ready(None);
            };
            this.hold(item);
        }
        this.poll_item(context)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let held = usize::from(self.item.is_some());
        let (least, most) = self.inner.size_hint();
        let most = most.and_then(|most| most.checked_add(held));
        (least.saturating_add(held), most)
    }
}

impl<I, X, S, C, T, K> Sink<X> for Paced<I, X, S, C, T, K>
where
    I: Sink<X>,
    S: Waits<K>,
    C: Clock,
    T: Sleep,
{
    type Error = PacedError<X, I::Error>;

    /// Ready when the item before it has been sent on.
    fn poll_ready(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Self::Error>> {
        let this = &mut *self;
        if this.item.is_none() {
            return Poll::Ready(Ok(()));
        }
        // The sink first: what has been let pass is to be sent then and not later.
        ready!(this.inner.as_mut().poll_ready(context)).map_err(PacedError::Sink)?;
        if let Some(item) = ready!(this.poll_item(context)) {
            let item = item.map_err(PacedError::Unpaced)?;
            this.inner
                .as_mut()
                .start_send(item)
                .map_err(PacedError::Sink)?;
        }
        Poll::Ready(Ok(()))
    }

    fn start_send(mut self: Pin<&mut Self>, item: X) -> Result<(), Self::Error> {
        self.hold(item);
        Ok(())
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Self::Error>> {
        ready!(self.as_mut().poll_ready(context))?;
        let inner = self.inner.as_mut();
        inner.poll_flush(context).map_err(PacedError::Sink)
    }

    fn poll_close(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Self::Error>> {
        ready!(self.as_mut().poll_ready(context))?;
        let inner = self.inner.as_mut();
        inner.poll_close(context).map_err(PacedError::Sink)
    }
}

/// Nothing in it is pinned but what is boxed.
impl<I, X, S: Waits<K>, C: Clock, T: Timers, K> Unpin for Paced<I, X, S, C, T, K> {}

impl<I, X, S: Waits<K>, C: Clock, T: Timers, K> Drop for Paced<I, X, S, C, T, K> {
    fn drop(&mut self) {
        if let Some((_, ticket)) = &mut self.item {
            ticket.give_back(&self.waiting, &self.key);
        }
    }
}

impl<I, X, S: Waits<K>, C: Clock, T: Timers, K> fmt::Debug for Paced<I, X, S, C, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paced").finish_non_exhaustive()
    }
}
