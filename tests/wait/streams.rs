//! Streams and sinks whose items go at the rate of a limit.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::{Sink, SinkExt, Stream, StreamExt, stream};
use tollgate::wait::{PacedError, WaitError};
use tollgate::{Clock, Direct, Keyed, LeakyBucket, Quota, TokenBucket};

use crate::sim::{START, Sim, clock, manual, ms};

#[test]
fn a_streams_items_are_paced() {
    let times = RefCell::new(Vec::new());
    let (limiter, clock) = (
        Direct::new(LeakyBucket::new(Quota::per_second(10))),
        clock(),
    );
    let mut sim = Sim::default();
    let paced = manual(&limiter, &clock).pace((), stream::iter(0..5));
    assert_eq!(paced.size_hint(), (5, Some(5)));
    let (clock_seen, seen) = (&clock, &times);
    sim.spawn(async move {
        let mut paced = paced;
        while let Some(item) = paced.next().await {
            let at = clock_seen.now().saturating_duration_since(START);
            seen.borrow_mut().push((item.unwrap(), at));
        }
    });
    sim.run_out(&clock);
    let due: Vec<_> = (0..5).map(|item| (item, ms(100) * item)).collect();
    assert_eq!(*times.borrow(), due);
}

/// Items by what they cost, several streams on one limit; one that is dropped gives its place back, and its item was not taken
/// beyond it.
#[test]
fn streams_share_a_limit_and_a_dropped_one_gives_its_place_back() {
    let limiter: Keyed<String, _> =
        Keyed::new(TokenBucket::new(Quota::per_second(10)).with_burst(10));
    let clock = clock();
    assert!(limiter.check_n("ada", 10, START).unwrap().is_allowed());
    let waiting = manual(&limiter, &clock);
    let heavy = waiting
        .clone()
        .pace("ada".to_owned(), stream::iter([8_u64]))
        .with_cost(|item| *item);
    let light = waiting
        .clone()
        .pace("ada".to_owned(), stream::iter([1_u64]));
    let mut sim = Sim::default();
    let (first, _) = sim.wait(&clock, async {
        let mut heavy = heavy;
        let _ = heavy.next().await;
        waiting.until_allowed_n("ada", 0).await
    });
    sim.run();
    let (_, told) = sim.wait(&clock, async {
        let mut light = light;
        light.next().await.unwrap().unwrap();
        waiting.until_allowed_n("ada", 0).await
    });
    sim.run();
    assert_eq!(waiting.waiters("ada"), 2);
    sim.drop_task(first);
    sim.run_out(&clock);
    assert_eq!(crate::sim::went_at(&told), Some(ms(100)));
}

#[test]
fn an_item_that_is_not_let_pass_is_handed_back() {
    let got = RefCell::new(Vec::new());
    let (limiter, clock) = (Direct::new(TokenBucket::new(Quota::per_hour(1))), clock());
    let waiting = manual(&limiter, &clock).with_max_wait(ms(10));
    let mut sim = Sim::default();
    let seen = &got;
    sim.spawn(async move {
        let paced = waiting.pace((), stream::iter(["first", "second", "third"]));
        seen.replace(paced.collect::<Vec<_>>().await);
    });
    sim.run_out(&clock);
    let got = got.borrow();
    assert_eq!(got[0], Ok("first"));
    for (index, item) in [(1, "second"), (2, "third")] {
        let unpaced = got[index].as_ref().unwrap_err();
        assert_eq!(unpaced.item, item);
        assert!(matches!(unpaced.error, WaitError::TooLong(_)));
    }
}

/// A sink that notes when it was given what.
struct Notes<'a> {
    clock: &'a tollgate::ManualClock,
    notes: &'a RefCell<Vec<(u64, std::time::Duration)>>,
    flushed: bool,
}

impl Sink<u64> for Notes<'_> {
    type Error = std::convert::Infallible;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }
    fn start_send(mut self: Pin<&mut Self>, item: u64) -> Result<(), Self::Error> {
        let at = self.clock.now().saturating_duration_since(START);
        self.notes.borrow_mut().push((item, at));
        self.flushed = false;
        Ok(())
    }
    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.flushed = true;
        Poll::Ready(Ok(()))
    }
    fn poll_close(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Self::Error>> {
        self.poll_flush(context)
    }
}

#[test]
fn a_sinks_items_are_paced() {
    let (limiter, clock) = (
        Direct::new(LeakyBucket::new(Quota::per_second(10))),
        clock(),
    );
    let notes = RefCell::default();
    let sink = Notes {
        clock: &clock,
        notes: &notes,
        flushed: false,
    };
    let waiting = manual(&limiter, &clock).with_max_wait(ms(1_000));
    let mut paced = waiting.pace((), sink).with_cost(|item: &u64| *item);
    let mut sim = Sim::default();
    sim.spawn(async move {
        paced.feed(3).await.unwrap();
        paced.send(1).await.unwrap();
        assert!(paced.inner().flushed);
        // Too much for ever: the item comes back, and the sink goes on.
        let never = paced.send(11).await.unwrap_err();
        let PacedError::Unpaced(unpaced) = never else {
            panic!("{never}");
        };
        assert_eq!(unpaced.item, 11);
        paced.send(2).await.unwrap();
        paced.close().await.unwrap();
    });
    sim.run_out(&clock);
    assert!(sim.is_done(0));
    assert_eq!(*notes.borrow(), [(3, ms(0)), (1, ms(300)), (2, ms(400))]);
}
