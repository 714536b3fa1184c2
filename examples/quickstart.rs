//! A first use: `cargo run --example quickstart`.

use std::time::Duration;

use tollgate::{Clock, Keyed, ManualClock, Quota, SystemClock, TokenBucket};

fn main() {
    // 100 requests a minute for each client, of which 20 may come at once.
    let limiter: Keyed<String, _> =
        Keyed::new(TokenBucket::new(Quota::per_minute(100)).with_burst(20));

    // A service asks once per request.
    let clock = SystemClock::new();
    let served = (0..25)
        .filter(|_| limiter.allow("client-42", clock.now()))
        .count();
    println!(
        "25 requests at once: {served} served, {} refused with a 429",
        25 - served
    );

    // A decision tells more than yes or no.
    let decision = limiter.check("client-42", clock.now());
    println!(
        "one more: allowed {}, limit {}, remaining {}, retry after {:.1?}",
        decision.is_allowed(),
        decision.limit(),
        decision.remaining(),
        decision.retry_after(),
    );
    println!(
        "another client: allowed {}",
        limiter.allow("client-7", clock.now())
    );

    // More than one unit at a time; what can never fit is an error, not a wait.
    match limiter.check_n("client-7", 1_000, clock.now()) {
        Ok(decision) => println!("1000 units: allowed {}", decision.is_allowed()),
        Err(never) => println!("1000 units: {never}"),
    }

    // Time is an argument, so a test needs no sleep.
    let clock = ManualClock::new(clock.now() + Duration::from_secs(60));
    let client = "client-42";
    let allowed = (0..25)
        .filter(|_| limiter.allow(client, clock.now()))
        .count();
    let wait = limiter.peek(client, clock.now()).retry_after();
    clock.advance(wait);
    println!("a minute later: {allowed} of 25 again");
    println!(
        "and {wait:.1?} after those: allowed {}",
        limiter.allow(client, clock.now())
    );
}
