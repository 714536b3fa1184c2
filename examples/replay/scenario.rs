//! `--scenario edge`: two bursts, 0.2 seconds apart, on either side of a minute's edge.

use std::{fmt::Write as _, io, time::Duration};

use tollgate::{Algorithm, LeakyBucket, Limiter, Quota, Timestamp};

use crate::{
    log::Log,
    measure::{self, Row},
};

pub(crate) const LIMIT: u64 = 100;
const CLIENT: &str = "192.0.2.1";
/// 00:59.9 and 01:00.1
const BURSTS: [Timestamp; 2] = [
    Timestamp::from_millis(59_900),
    Timestamp::from_millis(60_100),
];

pub(crate) fn quota() -> Quota {
    Quota::per_minute(LIMIT)
}

pub(crate) fn log() -> io::Result<Log> {
    let burst = |at| std::iter::repeat_n((at, CLIENT), LIMIT as usize);
    Log::of(BURSTS.into_iter().flat_map(burst))
}

/// What each algorithm allows of the two bursts, and why.
pub(crate) fn told(rows: &[Row], burst: Option<u64>) -> String {
    let capacity = burst.unwrap_or(LIMIT);
    let mut told = String::from(
        "\nOne client sends 100 requests at 00:59.9 and 100 more at 01:00.1. The limit is 100 a minute.\n\n",
    );
    for row in rows {
        let policy = measure::policy(row.algorithm, quota(), burst);
        let stamps = BURSTS
            .into_iter()
            .flat_map(|at| std::iter::repeat_n(at, LIMIT as usize));
        let (decisions, _) = measure::decide(&policy, stamps);
        let [early, late] = [&decisions[..LIMIT as usize], &decisions[LIMIT as usize..]]
            .map(|half| half.iter().filter(|&&yes| yes).count());
        let why = match row.algorithm {
            Algorithm::TokenBucket => {
                format!("the bucket holds {capacity}, and 0.2 s give back a third of a request")
            }
            Algorithm::LeakyBucket => format!(
                "the queue holds {capacity}, and in 0.2 s a third of a request leaves it;\n\
                 what is let in waits its turn, the last of it {:.1} s",
                longest_delay(capacity).as_secs_f64()
            ),
            Algorithm::FixedWindow => {
                "each calendar minute has its own count, so both bursts fit:\n\
                 twice the limit within 0.2 s"
                    .to_owned()
            }
            Algorithm::SlidingLog => "the first 100 count until 01:59.9".to_owned(),
            _ => "at 01:00.1 the last minute's 100 still count for 100 × 59.9/60 = 99.8,\n\
                 and one more would exceed 100"
                .to_owned(),
        };
        let why = why.replace('\n', "\n                                            ");
        let name = row.algorithm.name();
        let _ = writeln!(
            told,
            "  {name:<22} {:>3} = {early:>3} + {late:>3}  {why}",
            row.allowed
        );
    }
    told
}

/// The longest that a request of these bursts waits in the leaky bucket.
fn longest_delay(capacity: u64) -> Duration {
    let rule = LeakyBucket::new(quota()).with_burst(capacity);
    let mut state = rule.fresh(BURSTS[0]);
    let bursts = BURSTS
        .into_iter()
        .flat_map(|at| std::iter::repeat_n(at, LIMIT as usize));
    bursts
        .filter_map(|at| rule.check(&mut state, at, 1).ok())
        .map(|decision| decision.delay())
        .max()
        .unwrap_or_default()
}
