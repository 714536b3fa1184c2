//! The same queue under tokio, under threads, and under whatever a closure makes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::wait::Waiting;
use tollgate::{Clock, Direct, Keyed, LeakyBucket, Quota, SlidingLog, TokenBucket};

use crate::sim::{START, Sim, clock, manual, ms, went_at};

#[cfg(feature = "tokio")]
mod under_tokio {
    use tokio::time::{self, Instant};

    use super::*;

    /// Thousands of tasks, some of which give up, on paused time: those who stay go at exactly the rate, to the timers' millisecond.
    #[tokio::test(start_paused = true)]
    async fn thousands_of_tasks() {
        const KEYS: u64 = 10;
        const TASKS: u64 = 5_000;
        let store: Arc<Keyed<u64, _>> = Arc::new(Keyed::new(
            TokenBucket::new(Quota::per_second(100)).with_burst(1),
        ));
        let waiting = Arc::new(Waiting::on_tokio(store));
        let started = Instant::now();
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let waiting = Arc::clone(&waiting);
                tokio::spawn(async move {
                    let key = task % KEYS;
                    let turn = waiting.until_allowed(&key);
                    if task / KEYS % 2 == 0 {
                        turn.await.unwrap();
                        return Some(started.elapsed());
                    }
                    let patience = Duration::from_millis(1 + task % 5);
                    let given_up = time::timeout(patience, turn).await;
                    given_up.ok().map(|turn| {
                        turn.unwrap();
                        started.elapsed()
                    })
                })
            })
            .collect();
        let mut times = vec![Vec::new(); KEYS as usize];
        for (task, joined) in tasks.into_iter().enumerate() {
            if let Some(at) = joined.await.unwrap() {
                times[task % KEYS as usize].push(at);
            }
        }
        for times in times {
            // Half of them, and none of the others after it has given up.
            assert_eq!(times.len(), 250);
            for (index, at) in times.iter().enumerate() {
                let due = ms(10) * index as u32;
                assert!(
                    *at >= due && *at <= due + ms(2),
                    "{index}: {at:?} and not {due:?}"
                );
            }
        }
        for key in 0..KEYS {
            assert_eq!(waiting.waiters(&key), 0);
        }
    }

    /// One who waits for another limiter while it holds a place is no deadlock, and a task that is aborted gives its place up.
    #[tokio::test(start_paused = true)]
    async fn a_task_that_is_aborted_gives_its_place_up() {
        let limiter = Arc::new(Direct::new(SlidingLog::new(Quota::per_second(1))));
        let waiting = Arc::new(Waiting::on_tokio(limiter));
        waiting.until_allowed(&()).await.unwrap();
        let other = Arc::clone(&waiting);
        let task = tokio::spawn(async move { other.until_allowed(&()).await });
        time::sleep(ms(500)).await;
        assert_eq!(waiting.waiters(&()), 1);
        task.abort();
        assert!(task.await.is_err());
        assert_eq!(waiting.waiters(&()), 0);
        let started = Instant::now();
        waiting.until_allowed(&()).await.unwrap();
        assert_eq!(started.elapsed(), ms(500));
    }

    /// On worker threads, where anything may come in any order, some of which give up: everyone else is served, and nobody twice.
    /// (It is over within ten simulated seconds, as is the one below.)
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn on_many_threads_everyone_is_served() {
        let clock = clock();
        let store: Keyed<u64, _> =
            Keyed::new(TokenBucket::new(Quota::new(1_000, ms(500)).unwrap()));
        let waiting = Arc::new(manual(store, &clock));
        let tasks: Vec<_> = (0..2_000_u64)
            .map(|task| {
                let waiting = Arc::clone(&waiting);
                tokio::spawn(async move {
                    let (key, cost) = (task % 3, 1 + task % 7);
                    let turn = waiting.until_allowed_n(&key, cost).await.unwrap();
                    turn.receipt().map_or(0, |receipt| receipt.cost())
                })
            })
            .collect();
        for task in tasks.iter().step_by(5) {
            task.abort();
        }
        while tasks.iter().any(|task| !task.is_finished()) {
            if clock.advance_to_next_sleeper().is_none() {
                tokio::task::yield_now().await;
            }
        }
        let mut granted = 0;
        for (index, task) in tasks.into_iter().enumerate() {
            let stays = index % 5 > 0;
            match task.await {
                Ok(units) => granted += units,
                Err(aborted) => assert!(aborted.is_cancelled() && !stays, "{index}: {aborted}"),
            }
        }
        let asked = |of: fn(u64) -> bool| {
            (0..2_000)
                .filter(|task| of(*task))
                .map(|task| 1 + task % 7)
                .sum::<u64>()
        };
        assert!(
            granted >= asked(|task| task % 5 > 0) && granted <= asked(|_| true),
            "{granted}"
        );
        assert!((0..3).all(|key| waiting.waiters(&key) == 0));
        assert_eq!(clock.sleepers(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_closure_around_a_timer_is_enough() {
        let limiter = Direct::new(LeakyBucket::new(Quota::per_second(10)));
        let waiting = Waiting::new(
            &limiter,
            tollgate::wait::TokioClock::new(),
            |duration: Duration| async move { time::sleep(duration).await },
        );
        let started = Instant::now();
        for _ in 0..4 {
            waiting.until_allowed(&()).await.unwrap();
        }
        assert_eq!(started.elapsed(), ms(300));
    }

    /// A refused crowd comes back at its turns, and each a little later than that.
    #[tokio::test(start_paused = true)]
    async fn jitter_only_adds() {
        let limiter = Arc::new(Direct::new(
            TokenBucket::new(Quota::per_second(10)).with_burst(1),
        ));
        let waiting = Arc::new(Waiting::on_tokio(limiter).with_jitter_up_to(ms(50)));
        let started = Instant::now();
        waiting.until_allowed(&()).await.unwrap();
        assert_eq!(
            started.elapsed(),
            Duration::ZERO,
            "who need not wait is not delayed"
        );
        let tasks: Vec<_> = (1..=100)
            .map(|turn| {
                let waiting = Arc::clone(&waiting);
                tokio::spawn(async move {
                    waiting.until_allowed(&()).await.unwrap();
                    (turn, started.elapsed())
                })
            })
            .collect();
        let mut more = Vec::new();
        for task in tasks {
            let (turn, at) = task.await.unwrap();
            more.push(at.checked_sub(ms(100) * turn).expect("never earlier"));
        }
        assert!(more.iter().all(|more| *more <= ms(52)), "{more:?}");
        let late = more.iter().filter(|more| **more > ms(25)).count();
        assert!(
            (20..80).contains(&late),
            "{late} of 100 are later than the half"
        );
    }
}

/// A thread waits as a task does; what wakes it is the clock, or who leaves before it.
///
/// (It is over within ten simulated seconds: a thread that is held up for longer than that brings a stamp that means that the clock
/// was set back.)
#[test]
fn threads_wait_in_turn() {
    let limiter = Direct::new(TokenBucket::new(Quota::per_second(10)).with_burst(1));
    let clock = clock();
    let waiting = manual(&limiter, &clock);
    waiting.until_allowed(&()).block().unwrap();
    let gone = AtomicUsize::new(0);
    thread::scope(|scope| {
        for turn in 0..20 {
            let (waiting, clock, gone) = (&waiting, &clock, &gone);
            scope.spawn(move || {
                waiting.until_allowed(&()).block().unwrap();
                let at = clock.now().saturating_duration_since(START);
                let before = gone.fetch_add(1, Ordering::SeqCst);
                assert!(at >= ms(100) * (1 + before as u32), "{at:?}");
            });
            // In the order of arrival.
            while waiting.waiters(&()) <= turn {
                thread::yield_now();
            }
        }
        while gone.load(Ordering::SeqCst) < 20 {
            let served = gone.load(Ordering::SeqCst);
            if clock.advance_to_next_sleeper().is_none() {
                thread::yield_now();
                continue;
            }
            while gone.load(Ordering::SeqCst) == served {
                thread::yield_now();
            }
        }
    });
    assert!(clock.now() >= START + ms(2_000));
}

/// One that lingers by its jitter has gone, but for its task: dropped, it gives back what it has spent.
#[test]
fn one_that_lingers_may_give_up() {
    let limiter = Direct::new(TokenBucket::new(Quota::per_second(10)).with_burst(1));
    let clock = clock();
    let waiting = manual(&limiter, &clock).with_jitter(|| ms(1_000));
    assert!(limiter.allow(START));
    let mut sim = Sim::default();
    let (lingers, told) = sim.wait(&clock, waiting.until_allowed(&()));
    sim.run_until(&clock, START + ms(100));
    assert!(
        told.borrow().is_none() && clock.sleepers() == 1,
        "it lingers"
    );
    assert!(!limiter.allow(clock.now()), "its unit is spent");
    sim.drop_task(lingers);
    assert_eq!(clock.sleepers(), 0);
    assert!(limiter.allow(clock.now()), "it was given back");
}

/// Timers that end too early, as a broken runtime's would, cost polls and change nothing.
#[test]
fn timers_that_are_early_change_nothing() {
    let limiter = Direct::new(TokenBucket::new(Quota::per_second(1)).with_burst(1));
    let clock = clock();
    let waiting = Waiting::new(
        &limiter,
        clock.clone(),
        |_: Duration| std::future::ready(()),
    );
    assert!(limiter.allow(START));
    let mut sim = Sim::default();
    let (task, told) = sim.wait(&clock, waiting.until_allowed(&()));
    for _ in 0..10 {
        sim.poll(task);
    }
    assert!(told.borrow().is_none());
    clock.advance(Duration::from_secs(1));
    sim.run();
    assert_eq!(went_at(&told), Some(Duration::from_secs(1)));
}
