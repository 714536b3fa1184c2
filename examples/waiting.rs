//! Waiting on real time, under tokio and on threads: `cargo run --example waiting --features tokio`.
//!
//! It also is the one check of waiting that real clocks and timers take part in; it ends with an error if anybody was let go too
//! early, out of turn, or much too late.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tollgate::wait::{WaitError, Waiting};
use tollgate::{Direct, Keyed, LeakyBucket, Quota, SlidingLog, TokenBucket};

fn main() -> Result<(), Box<dyn Error>> {
    under_tokio()?;
    shaped_threads()?;
    threads_of_all_costs()?;
    Ok(())
}

/// Six tasks share somebody else's API, one of which wants five units at once.
fn under_tokio() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?;
    runtime.block_on(async {
        let limiter: Keyed<String, _> =
            Keyed::new(TokenBucket::new(Quota::per_second(50)).with_burst(5));
        let upstream = Arc::new(Waiting::on_tokio(limiter).with_max_wait(Duration::from_secs(5)));
        let started = Instant::now();
        let gone = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for cost in [5, 1, 5, 1, 1, 1] {
            let (upstream, gone) = (Arc::clone(&upstream), Arc::clone(&gone));
            tasks.push(tokio::spawn(async move {
                upstream.until_allowed_n("api.example.com", cost).await?;
                let at = started.elapsed();
                println!(
                    "tokio: {cost} units after {:>5.1} ms",
                    at.as_secs_f64() * 1e3
                );
                gone.lock().expect("nobody panics with it").push((cost, at));
                Ok::<(), WaitError>(())
            }));
            tokio::time::sleep(Duration::from_millis(1)).await; // so that they come in this order
        }
        for task in tasks {
            task.await??;
        }
        let gone = gone.lock().expect("nobody panics with it");
        let costs: Vec<u64> = gone.iter().map(|&(cost, _)| cost).collect();
        if costs != [5, 1, 5, 1, 1, 1] {
            return Err(format!("out of turn: {costs:?}").into());
        }
        // Five at once, and nine more at 50 per second.
        let (_, last) = gone[gone.len() - 1];
        on_time("tokio", last, Duration::from_millis(180))
    })
}

/// Threads that a leaky bucket lets through one after the other.
fn shaped_threads() -> Result<(), Box<dyn Error>> {
    let shaper = Waiting::on_threads(Direct::new(LeakyBucket::new(Quota::per_second(100))));
    let started = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..10)
            .map(|_| scope.spawn(|| shaper.shape(&()).block()))
            .collect();
        for thread in threads {
            thread.join().expect("it does not panic")?;
        }
        Ok::<(), WaitError>(())
    })?;
    println!(
        "threads: ten in {:.1} ms",
        started.elapsed().as_secs_f64() * 1e3
    );
    on_time("threads", started.elapsed(), Duration::from_millis(90))
}

/// Threads that ask for one unit again and again, and one that asks for ten.
fn threads_of_all_costs() -> Result<(), Box<dyn Error>> {
    let limiter = Direct::new(SlidingLog::new(Quota::new(10, Duration::from_millis(20))?));
    let waiting = Waiting::on_threads(&limiter);
    let started = Instant::now();
    let granted = std::thread::scope(|scope| {
        let threads: Vec<_> = [1, 1, 1, 10]
            .map(|cost| {
                let waiting = &waiting;
                scope.spawn(move || {
                    for _ in 0..5 {
                        waiting.until_allowed_n(&(), cost).block()?;
                    }
                    Ok::<u64, WaitError>(5 * cost)
                })
            })
            .into();
        let mut granted = 0;
        for thread in threads {
            granted += thread.join().expect("it does not panic")?;
        }
        Ok::<u64, WaitError>(granted)
    })?;
    println!(
        "threads: {granted} units in {:.1} ms",
        started.elapsed().as_secs_f64() * 1e3
    );
    // 65 units, ten in any 20 ms.
    on_time("threads", started.elapsed(), Duration::from_millis(120))
}

/// Never earlier; how much later is up to the machine, and a second is a fault.
fn on_time(who: &str, at: Duration, due: Duration) -> Result<(), Box<dyn Error>> {
    if at < due || at > due + Duration::from_secs(1) {
        return Err(format!("{who}: {at:?}, and due after {due:?}").into());
    }
    Ok(())
}
