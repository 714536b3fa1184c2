//! tower-resilience-ratelimiter: a call through its layer to a service that does nothing, with a timeout of zero, so that
//! it refuses at once. The service is cloned for each call, as a router does. On its own clock (tokio's).

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tower::{Layer, Service};
use tower_resilience_ratelimiter::{RateLimiter, RateLimiterLayer};

use crate::peer::{Peer, Rule};

pub struct Real(RateLimiter<Nothing>);

impl Real {
    #[must_use]
    pub fn new(rule: Rule) -> Self {
        let layer = RateLimiterLayer::builder()
            .limit_for_period(rule.limit as usize)
            .refresh_period(rule.window)
            .timeout_duration(Duration::ZERO)
            .build();
        Self(
            layer
                .expect("a rule has a limit and a window")
                .layer(Nothing),
        )
    }
}

impl Peer<()> for Real {
    type Now = ();

    fn advance(&self, _by: Duration) {}

    #[inline]
    fn allow(&self, (): &(), (): ()) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let mut service = self.0.clone();
        assert!(service.poll_ready(&mut context).is_ready());
        match service.call(()).as_mut().poll(&mut context) {
            Poll::Ready(answer) => answer.is_ok(),
            Poll::Pending => unreachable!("with no timeout nothing waits"),
        }
    }
}

#[derive(Clone)]
struct Nothing;

impl Service<()> for Nothing {
    type Response = ();
    type Error = Infallible;
    type Future = Ready<Result<(), Infallible>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        ready(Ok(()))
    }
}
