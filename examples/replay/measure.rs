//! One algorithm's row: a log replayed through the crate's keyed store, as a user would, and counted.

use std::time::{Duration, Instant};

use tollgate::{Algorithm, Keyed, LeakyBucket, Limiter, Policy, Quota, Timestamp, TokenBucket};

use crate::log::Log;

/// A replay is repeated until its decisions have taken this long together.
const ENOUGH: Duration = Duration::from_millis(60);
/// So many decisions lie between two looks at the clock, or its own cost would show.
const BETWEEN_LOOKS: usize = 1_000;

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) algorithm: Algorithm,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// By client: was it denied anything?
    pub(crate) limited: Vec<bool>,
    pub(crate) limited_clients: u64,
    /// The most any one client was allowed within any span of one period, and who that was.
    pub(crate) most_in_a_period: u64,
    pub(crate) most_client: Option<u32>,
    pub(crate) bytes_per_client: f64,
    pub(crate) ns_per_decision: f64,
}

/// The algorithm as the options describe it: a burst is the buckets' alone.
pub(crate) fn policy(algorithm: Algorithm, quota: Quota, burst: Option<u64>) -> Policy {
    match (algorithm, burst) {
        (Algorithm::TokenBucket, Some(burst)) => TokenBucket::new(quota).with_burst(burst).into(),
        (Algorithm::LeakyBucket, Some(burst)) => LeakyBucket::new(quota).with_burst(burst).into(),
        _ => algorithm.policy(quota),
    }
}

/// Replays a log. The error, should it ever occur, is a fault of the crate.
pub(crate) fn row(policy: &Policy, log: &Log) -> Result<Row, String> {
    // The rule itself, not the enum around it: its state is what a client costs whoever has chosen.
    match *policy {
        Policy::TokenBucket(rule) => replay(policy, rule, log),
        Policy::LeakyBucket(rule) => replay(policy, rule, log),
        Policy::FixedWindow(rule) => replay(policy, rule, log),
        Policy::SlidingLog(rule) => replay(policy, rule, log),
        Policy::SlidingWindowCounter(rule) => replay(policy, rule, log),
        _ => replay(policy, *policy, log),
    }
}

fn replay<L: Limiter + Copy>(policy: &Policy, rule: L, log: &Log) -> Result<Row, String> {
    let (allowed, ns_per_decision) = through_store(policy, rule, log)?;

    let mut row = Row {
        algorithm: policy.algorithm(),
        allowed: 0,
        denied: 0,
        limited: vec![false; log.clients.len()],
        limited_clients: 0,
        most_in_a_period: 0,
        most_client: None,
        bytes_per_client: 0.0,
        ns_per_decision,
    };
    let mut bytes = 0;
    let mut granted = Vec::new();
    for client in 0..log.clients.len() as u32 {
        let mine = log.of_client(client);
        let stamps = || mine.iter().map(|&index| log.requests[index as usize].at);
        let by_store = || mine.iter().map(|&index| allowed[index as usize]);

        // The same requests by the rule alone: what its state has grown to, and whether the store agrees.
        let (by_rule, state_bytes) = decide(&rule, stamps());
        if !by_store().eq(by_rule) {
            let (name, client) = (row.algorithm, &log.clients[client as usize]);
            return Err(format!(
                "{name}: store and rule disagree about {client:?}, a fault of tollgate"
            ));
        }
        bytes += state_bytes as u64;

        granted.clear();
        granted.extend(
            stamps()
                .zip(by_store())
                .filter(|&(_, yes)| yes)
                .map(|(at, _)| at),
        );
        let denied = mine.len() - granted.len();
        row.allowed += granted.len() as u64;
        row.denied += denied as u64;
        row.limited[client as usize] = denied > 0;
        row.limited_clients += u64::from(denied > 0);
        let most = most_in_a_period(&granted, rule.quota().period_ns());
        if most > row.most_in_a_period {
            row.most_in_a_period = most;
            row.most_client = Some(client);
        }
    }
    if !log.clients.is_empty() {
        row.bytes_per_client = bytes as f64 / log.clients.len() as f64;
    }
    Ok(row)
}

/// Every request, in the order of time, through the keyed store; and the nanoseconds a decision took.
///
/// A short log is repeated for the clock's sake, on the same store and so much later that all clients are as good as
/// new and the windows begin where they did: what is measured is a store at work, and its decisions are the same again.
/// The median is taken, which does not mind that other processes interrupt.
fn through_store<L: Limiter + Copy>(
    policy: &Policy,
    rule: L,
    log: &Log,
) -> Result<(Vec<bool>, f64), String> {
    let (Some(first), Some(last)) = (log.requests.first(), log.requests.last()) else {
        return Ok((Vec::new(), 0.0));
    };
    let store: Keyed<String, L> = Keyed::new(rule);
    let replay = |later: u64, allowed: &mut [bool]| {
        let later = Duration::from_nanos(later);
        for (request, allowed) in log.requests.iter().zip(allowed) {
            let client = &*log.clients[request.client as usize];
            *allowed = store.allow(client, request.at + later);
        }
    };

    let mut allowed = vec![false; log.requests.len()];
    let began = Instant::now();
    replay(0, &mut allowed);
    let mut passes = vec![began.elapsed()];

    let apart = as_good_as_new(policy, last.at.saturating_duration_since(first.at));
    let most = u128::from(Timestamp::MAX.as_nanos() - last.at.as_nanos()) / apart;
    let together = (BETWEEN_LOOKS.div_ceil(allowed.len()) as u128).min(most);
    let mut again = vec![false; allowed.len()];
    let (mut spent, mut count) = (passes[0], 0);
    while spent < ENOUGH && together > 0 && count + together <= most {
        let began = Instant::now();
        for _ in 0..together {
            count += 1;
            replay((apart * count) as u64, &mut again);
        }
        let took = began.elapsed();
        if again != allowed {
            let name = policy.algorithm();
            return Err(format!(
                "{name}: decisions differ at another time, a fault of tollgate"
            ));
        }
        spent += took;
        passes.push(took / together as u32);
    }
    // The first pass met an empty store.
    let warm = if passes.len() > 1 {
        &mut passes[1..]
    } else {
        &mut passes
    };
    warm.sort_unstable();
    let median = warm[warm.len() / 2];
    Ok((
        allowed,
        median.as_nanos() as f64 / log.requests.len() as f64,
    ))
}

/// The nanoseconds, a multiple of the period, after which a replay of this length finds every client as good as new.
fn as_good_as_new(policy: &Policy, length: Duration) -> u128 {
    let quota = policy.quota();
    let periods_to_fill = match policy {
        Policy::TokenBucket(rule) => rule.burst().div_ceil(quota.limit()),
        Policy::LeakyBucket(rule) => rule.burst().div_ceil(quota.limit()),
        _ => 2,
    };
    let period = u128::from(quota.period_ns());
    (length.as_nanos().div_ceil(period) + u128::from(periods_to_fill) + 1) * period
}

/// One client's requests by a rule alone: the decisions, and the bytes of the state they leave.
pub(crate) fn decide<L: Limiter>(
    rule: &L,
    stamps: impl IntoIterator<Item = Timestamp>,
) -> (Vec<bool>, usize) {
    let mut stamps = stamps.into_iter().peekable();
    let Some(&first) = stamps.peek() else {
        return (Vec::new(), 0);
    };
    let mut state = rule.fresh(first);
    let decisions = stamps
        .map(|now| {
            rule.check(&mut state, now, 1)
                .is_ok_and(|decision| decision.is_allowed())
        })
        .collect();
    (decisions, rule.state_bytes(&state))
}

/// The most of these sorted instants that lie within any half-open span `[t, t + period)`.
pub(crate) fn most_in_a_period(stamps: &[Timestamp], period_ns: u64) -> u64 {
    let mut first = 0;
    let mut most = 0;
    for (last, at) in stamps.iter().enumerate() {
        while at.as_nanos() - stamps[first].as_nanos() >= period_ns {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    most as u64
}
