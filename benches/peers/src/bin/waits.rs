//! Waiting, beside those who wait: one who need not, and a crowd on one limiter.
//!
//! ```sh
//! cargo run --release --features waits --bin waits            # [--rounds 15] [--waiters 1000]
//! ```
//!
//! On tokio's current-thread runtime and real time. *Uncontended* is an acquire that need not wait, each on the clock that the
//! peer's own docs use; ours reads each of its three. *A crowd* is so many tasks on one limiter of
//! 100 000 per second, a hundred at a time: how long it takes until all have gone (the limit itself takes 9 ms for a thousand),
//! and what that costs of the processors.

use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_timer::Delay;
use governor::{DefaultDirectRateLimiter, Quota as GovernorQuota};
use leaky_bucket::RateLimiter as LeakyBucket;
use tokio::runtime::{Builder, Runtime};
use tollgate::wait::{TokioSleep, Waiting};
use tollgate::{Clock, Direct, QuantaClock, Quota, SystemClock, TickingClock, TokenBucket};
use tollgate_peers::args;

fn main() {
    let rounds = args::option("rounds").unwrap_or(15);
    let waiters = args::option("waiters").unwrap_or(1_000);
    let runtime = Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    uncontended(&runtime, rounds);
    crowd(&runtime, rounds, waiters);
}

/// An acquire that need not wait, in nanoseconds.
fn uncontended(runtime: &Runtime, rounds: usize) {
    let ours = Direct::new(TokenBucket::new(Quota::per_second(1)).with_burst(1 << 62));
    let on_system_clock = Waiting::new(&ours, SystemClock::new(), TokioSleep::new());
    let ticking = TickingClock::new();
    let ticker = ticking.clone();
    std::thread::spawn(move || ticker.tick_every(Duration::from_millis(1)));
    let on_ticks = Waiting::new(&ours, ticking, TokioSleep::new());
    let on_counter = Waiting::new(&ours, QuantaClock::new(), TokioSleep::new());
    let burst = NonZeroU32::MAX;
    let governor = DefaultDirectRateLimiter::direct(
        GovernorQuota::per_second(NonZeroU32::MIN).allow_burst(burst),
    );
    let leaky = LeakyBucket::builder()
        .max(usize::MAX >> 1)
        .initial(usize::MAX >> 1)
        .fair(true)
        .build();
    let mut figures: [Vec<f64>; 5] = Default::default();
    for _ in 0..rounds {
        runtime.block_on(async {
            macro_rules! time {
                ($acquire:expr) => {{
                    let started = Instant::now();
                    for _ in 0..ACQUIRES {
                        $acquire
                    }
                    started.elapsed().as_nanos() as f64 / ACQUIRES as f64
                }};
            }
            figures[0].push(time!(
                on_system_clock
                    .until_allowed(&())
                    .await
                    .map(drop)
                    .expect("ours")
            ));
            figures[1].push(time!(
                on_ticks.until_allowed(&()).await.map(drop).expect("ours")
            ));
            figures[4].push(time!(
                on_counter.until_allowed(&()).await.map(drop).expect("ours")
            ));
            figures[2].push(time!(governor.until_ready().await));
            figures[3].push(time!(pin!(leaky.acquire_one()).await));
        });
    }
    let [system, ticks, governor, leaky, counter] = figures.map(median);
    println!("uncontended, ns per acquire (median of {rounds} rounds)");
    println!("  tollgate, SystemClock    {system:7.1}");
    println!("  tollgate, QuantaClock    {counter:7.1}");
    println!("  tollgate, TickingClock   {ticks:7.1}");
    for (name, peer) in [
        ("governor until_ready", governor),
        ("leaky-bucket (fair)", leaky),
    ] {
        let times = [system, counter, ticks].map(|ours| peer / ours);
        println!("  {name:24} {peer:7.1}   ours {times:.2?} times as fast");
    }
}

/// A crowd: the wall's milliseconds and the processors', until all have gone.
fn crowd(runtime: &Runtime, rounds: usize, waiters: usize) {
    let mut figures: [(Vec<f64>, Vec<f64>); 4] = Default::default();
    for _ in 0..rounds {
        macro_rules! ours {
            ($index:literal, $timers:expr) => {
                let ours =
                    Direct::new(TokenBucket::new(Quota::per_second(100_000)).with_burst(100));
                let ours = Arc::new(Waiting::new(ours, SystemClock::new(), $timers));
                let _spent = ours.store().check_n(100, ours.clock().now());
                let took = gone(runtime, waiters, || {
                    let ours = Arc::clone(&ours);
                    async move { ours.until_allowed(&()).await.map(drop).expect("ours") }
                });
                add(&mut figures[$index], took);
            };
        }
        ours!(0, TokioSleep::new());
        ours!(1, Delay::new);

        let (rate, burst) = (
            100_000.try_into().expect("a rate"),
            100.try_into().expect("a burst"),
        );
        let governor = Arc::new(DefaultDirectRateLimiter::direct(
            GovernorQuota::per_second(rate).allow_burst(burst),
        ));
        governor
            .check_n(burst)
            .expect("it fits")
            .expect("it is full");
        let took = gone(runtime, waiters, || {
            let governor = Arc::clone(&governor);
            async move { governor.until_ready().await }
        });
        add(&mut figures[2], took);

        let leaky = Arc::new(
            LeakyBucket::builder()
                .max(100)
                .initial(0)
                .refill(100)
                .interval(Duration::from_millis(1))
                .fair(true)
                .build(),
        );
        let took = gone(runtime, waiters, || {
            let leaky = Arc::clone(&leaky);
            async move { leaky.acquire_one().await }
        });
        add(&mut figures[3], took);
    }
    println!("{waiters} waiters, ms until all have gone, and ms of the processors (medians)");
    let figures = figures.map(|(wall, cpu)| (median(wall), median(cpu)));
    let names = [
        "tollgate, tokio's timers",
        "tollgate, governor's",
        "governor until_ready",
        "leaky-bucket (fair)",
    ];
    for (name, (wall, cpu)) in names.into_iter().zip(figures) {
        println!(
            "  {name:24} {wall:7.2} {cpu:7.2}   ours {:.2}x, {:.2}x",
            wall / figures[0].0,
            cpu / figures[0].1
        );
    }
}

/// How long it takes until so many tasks have gone, by the wall and by the processors.
fn gone<F>(runtime: &Runtime, waiters: usize, task: impl Fn() -> F) -> (f64, f64)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (cpu, started) = (processors(), Instant::now());
    runtime.block_on(async {
        let tasks: Vec<_> = (0..waiters).map(|_| tokio::spawn(task())).collect();
        for task in tasks {
            task.await.expect("it has gone");
        }
    });
    let wall = started.elapsed();
    (
        (wall.as_secs_f64()) * 1e3,
        (processors() - cpu).as_secs_f64() * 1e3,
    )
}

fn add(figures: &mut (Vec<f64>, Vec<f64>), (wall, cpu): (f64, f64)) {
    figures.0.push(wall);
    figures.1.push(cpu);
}

/// The time that this process has had of the processors, timer threads included.
fn processors() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: it writes to `time`, which lives.
    let outcome = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(outcome, 0, "every Linux has this clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

const ACQUIRES: u32 = 200_000;
