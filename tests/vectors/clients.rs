//! A client of each rule, seen through `Direct`, `Keyed`, and as one of several limits.

use std::time::Duration;

use tollgate::{
    Algorithm, All, CostTooHigh, Decision, Direct, FixedWindow, Keyed, LeakyBucket, Limiter,
    Policy, Quota, Receipt, SlidingLog, SlidingWindowCounter, Timestamp, TokenBucket,
};

use crate::rows::Row;

/// A client of each rule that the row is about, through every face, with what it has spent when it starts.
pub(crate) fn clients(row: &Row, created: u64) -> Vec<Box<dyn Client>> {
    let made = policies(row, created).into_iter().flat_map(faces);
    spent(row, created, made.collect())
}

/// The rules that the row is about.
pub(crate) fn policies(row: &Row, created: u64) -> Vec<Policy> {
    let quota = row.quota(row.number("limit"));
    let burst = row.number_or("burst", quota.limit());
    // The grid starts when the limiter is made.
    let offset = Duration::from_nanos(created % quota.period_ns());
    let window = FixedWindow::new(quota).with_offset(offset);
    let by_interval = row.get("refill").is_some_and(|refill| refill == "interval");
    let algorithm = if by_interval {
        "interval_bucket"
    } else {
        row.get("algorithm")
            .map_or("token_bucket", |_| row.text("algorithm"))
    };
    let rules: Vec<Policy> = match algorithm {
        // A leaky bucket admits exactly what a token bucket does, and so do the others' names for them.
        "token_bucket" | "gcra" | "leaky_bucket_meter" => vec![
            TokenBucket::new(quota).with_burst(burst).into(),
            LeakyBucket::new(quota).with_burst(burst).into(),
        ],
        "fixed_window" => vec![window.into(), window.anchored_at_first_request().into()],
        "interval_bucket" => vec![window.into()],
        "sliding_log" => vec![SlidingLog::new(quota).into()],
        "sliding_window_counter" => {
            vec![SlidingWindowCounter::new(quota).with_offset(offset).into()]
        }
        new => panic!("{}: {new} is a new algorithm", row.id),
    };
    // Others know no cap on debt.
    let steps = row.get("steps").map_or(Vec::new(), |_| row.list("steps"));
    if steps.iter().any(|step| step.op() == "force") {
        let cap = Quota::MAX_LIMIT - burst;
        return rules
            .into_iter()
            .map(|rule| with_max_debt(rule, cap))
            .collect();
    }
    rules
}

/// The clients, when they have spent what the row says they start without.
pub(crate) fn spent(
    row: &Row,
    created: u64,
    mut clients: Vec<Box<dyn Client>>,
) -> Vec<Box<dyn Client>> {
    let burst = row.number_or("burst", row.number("limit"));
    let cost = burst - row.number_or("initial", burst);
    for client in &mut clients {
        assert_eq!(client.most(), burst, "{}: {}", row.id, client.name());
        let answer = client.ask(cost, at(created)).expect("it fits");
        assert!(answer.is_allowed(), "{}: spent at the start", row.id);
    }
    clients
}

/// Clients of several limits as one, of every mixture of both buckets, each with what it has spent when it starts.
pub(crate) fn clients_of_several(limits: &[Row]) -> Vec<Box<dyn Client>> {
    let mut mixtures = vec![Vec::new()];
    for limit in limits {
        let [token, leaky] = policies(limit, 0)[..] else {
            panic!("{}: a limit that is no bucket", limit.id);
        };
        let with = |policy: Policy| move |rest: &Vec<Policy>| [&rest[..], &[policy]].concat();
        mixtures = [
            mixtures.iter().map(with(token)).collect::<Vec<_>>(),
            mixtures.iter().map(with(leaky)).collect::<Vec<_>>(),
        ]
        .concat();
    }
    let mut missing: Vec<(usize, u64)> = limits
        .iter()
        .map(|limit| limit.number("burst") - limit.number_or("initial", limit.number("burst")))
        .enumerate()
        .collect();
    missing.sort_by_key(|&(_, missing)| std::cmp::Reverse(missing));
    let mut clients = Vec::new();
    for mixture in mixtures {
        // Several limits are charged together. So that one lacks more than another, those that lack less come later: in
        // their places stand limits of another kind, of which nothing is carried.
        let stand_in = || Policy::from(SlidingLog::new(Quota::per_second(1_000_000)));
        let mut config = vec![stand_in(); limits.len()];
        for mut client in faces_of_several(&config) {
            for (i, &(member, lacks)) in missing.iter().enumerate() {
                config[member] = mixture[member];
                client.change_all(&config, at(0));
                let next = missing.get(i + 1).map_or(0, |&(_, lacks)| lacks);
                let spent = client.ask(lacks - next, at(0)).expect("it fits");
                assert!(spent.is_allowed(), "spent at the start: {spent:?}");
            }
            clients.push(client);
            config.fill(stand_in());
        }
    }
    clients
}

/// All five algorithms (the fixed window in both its forms), with this limit per the row's period.
pub(crate) fn every_kind(row: &Row, limit: u64) -> Vec<Policy> {
    let quota = row.quota(limit);
    let kinds = Algorithm::ALL.map(|algorithm| algorithm.policy(quota));
    let anchored = FixedWindow::new(quota).anchored_at_first_request();
    kinds.into_iter().chain([anchored.into()]).collect()
}

pub(crate) fn with_max_debt(policy: Policy, units: u64) -> Policy {
    match policy {
        Policy::TokenBucket(rule) => rule.with_max_debt(units).into(),
        Policy::LeakyBucket(rule) => rule.with_max_debt(units).into(),
        Policy::FixedWindow(rule) => rule.with_max_debt(units).into(),
        Policy::SlidingLog(rule) => rule.with_max_debt(units).into(),
        Policy::SlidingWindowCounter(rule) => rule.with_max_debt(units).into(),
        new => panic!("{new:?} is a new algorithm"),
    }
}

/// Both buckets, with the slack of a pacer.
pub(crate) fn pacers(row: &Row) -> Vec<Box<dyn Client>> {
    let quota = row.quota(row.number("limit"));
    let burst = row.number("slack") + 1;
    let mut pacers = faces(TokenBucket::new(quota).with_burst(burst));
    pacers.extend(faces(LeakyBucket::new(quota).with_burst(burst)));
    pacers
}

/// A client of the rule through each holder, and of the rule as the only one of several.
pub(crate) fn faces(rule: impl Into<Policy>) -> Vec<Box<dyn Client>> {
    fn both<L: Of + 'static>(policy: Policy) -> Vec<Box<dyn Client>> {
        let what = format!("{policy:?}");
        vec![
            Box::new(Face::new(
                Direct::new(L::of(&[policy])),
                format!("{what} through Direct"),
            )),
            Box::new(Face::new(
                Keyed::new(L::of(&[policy])),
                format!("{what} through Keyed"),
            )),
        ]
    }
    let policy = rule.into();
    let mut faces = match policy.algorithm() {
        Algorithm::TokenBucket => both::<TokenBucket>(policy),
        Algorithm::LeakyBucket => both::<LeakyBucket>(policy),
        Algorithm::FixedWindow => both::<FixedWindow>(policy),
        Algorithm::SlidingLog => both::<SlidingLog>(policy),
        Algorithm::SlidingWindowCounter => both::<SlidingWindowCounter>(policy),
        new => panic!("{new:?} is a new algorithm"),
    };
    let what = |kind: &str| format!("{policy:?} as {kind}");
    faces.push(Box::new(Face::new(
        Direct::new((policy,)),
        what("a tuple of one"),
    )));
    faces.push(Box::new(Face::new(
        Keyed::new(All::from(policy)),
        what("a list of one"),
    )));
    faces
}

fn faces_of_several(policies: &[Policy]) -> Vec<Box<dyn Client>> {
    fn both<L: Of + 'static>(kind: &str, policies: &[Policy]) -> Vec<Box<dyn Client>> {
        let what = |holder: &str| format!("{kind} of {policies:?} through {holder}");
        vec![
            Box::new(Face::new(Direct::new(L::of(policies)), what("Direct"))),
            Box::new(Face::new(Keyed::new(L::of(policies)), what("Keyed"))),
        ]
    }
    let mut faces = match policies.len() {
        2 => both::<(Policy, Policy)>("a tuple", policies),
        3 => both::<(Policy, Policy, Policy)>("a tuple", policies),
        new => panic!("{new} limits as one are new"),
    };
    faces.extend(both::<All>("a list", policies));
    faces
}

type Answer = Result<Decision, CostTooHigh>;

pub(crate) trait Client {
    fn name(&self) -> String;
    fn ask(&mut self, cost: u64, now: Timestamp) -> Answer;
    fn look(&self, cost: u64, now: Timestamp) -> Answer;
    fn at_most(&mut self, cost: u64, now: Timestamp) -> Decision;
    fn charge(&mut self, cost: u64, now: Timestamp) -> Decision;
    /// Gives back `units`, of the latest charges first, and says how many it got.
    fn give_back(&mut self, units: u64, now: Timestamp) -> u64;
    fn reset(&mut self);
    fn change_all(&mut self, to: &[Policy], now: Timestamp);

    fn change(&mut self, to: Policy, now: Timestamp) {
        self.change_all(&[to], now);
    }
    fn room(&self, now: Timestamp) -> u64 {
        self.look(0, now)
            .expect("a cost of zero always fits")
            .remaining()
    }
    fn debt(&self, now: Timestamp) -> u64 {
        self.look(0, now)
            .expect("a cost of zero always fits")
            .debt()
    }
    /// The most that can be granted at once.
    fn most(&self) -> u64 {
        self.look(u64::MAX, at(0))
            .expect_err("nobody grants this")
            .most()
    }
}

/// A client of a holder, with what it has been charged.
struct Face<H> {
    holder: H,
    name: String,
    receipts: Vec<Receipt>,
}

impl<H> Face<H> {
    fn new(holder: H, name: String) -> Self {
        Face {
            holder,
            name,
            receipts: Vec::new(),
        }
    }
}

impl<H: Holder> Client for Face<H> {
    fn name(&self) -> String {
        self.name.clone()
    }
    fn ask(&mut self, cost: u64, now: Timestamp) -> Answer {
        let answer = self.holder.check_n(cost, now);
        self.receipts
            .extend(answer.iter().filter_map(Decision::receipt));
        answer
    }
    fn look(&self, cost: u64, now: Timestamp) -> Answer {
        self.holder.peek_n(cost, now)
    }
    fn at_most(&mut self, cost: u64, now: Timestamp) -> Decision {
        let decision = self.holder.at_most(cost, now);
        self.receipts.extend(decision.receipt());
        decision
    }
    fn charge(&mut self, cost: u64, now: Timestamp) -> Decision {
        let decision = self.holder.charge(cost, now);
        self.receipts.extend(decision.receipt());
        decision
    }
    fn give_back(&mut self, units: u64, now: Timestamp) -> u64 {
        let (mut left, mut given) = (units, 0);
        while left > 0 {
            let Some(receipt) = self.receipts.pop() else {
                break;
            };
            let part = receipt.part(left);
            left -= part.cost();
            given += self.holder.refund(part, now);
            let rest = receipt.cost() - part.cost();
            self.receipts
                .extend((rest > 0).then_some(receipt.part(rest)));
        }
        given
    }
    fn reset(&mut self) {
        self.receipts.clear();
        self.holder.reset();
    }
    fn change_all(&mut self, to: &[Policy], now: Timestamp) {
        self.holder.set_limiter(to, now);
    }
}

/// What holds one client.
trait Holder {
    fn check_n(&self, cost: u64, now: Timestamp) -> Answer;
    fn peek_n(&self, cost: u64, now: Timestamp) -> Answer;
    fn at_most(&self, cost: u64, now: Timestamp) -> Decision;
    fn charge(&self, cost: u64, now: Timestamp) -> Decision;
    fn refund(&self, receipt: Receipt, now: Timestamp) -> u64;
    fn reset(&self);
    fn set_limiter(&self, to: &[Policy], now: Timestamp);
}

impl<L: Of> Holder for Direct<L> {
    fn check_n(&self, cost: u64, now: Timestamp) -> Answer {
        self.check_n(cost, now)
    }
    fn peek_n(&self, cost: u64, now: Timestamp) -> Answer {
        self.peek_n(cost, now)
    }
    fn at_most(&self, cost: u64, now: Timestamp) -> Decision {
        self.at_most(cost, now)
    }
    fn charge(&self, cost: u64, now: Timestamp) -> Decision {
        self.charge(cost, now)
    }
    fn refund(&self, receipt: Receipt, now: Timestamp) -> u64 {
        self.refund(receipt, now)
    }
    fn reset(&self) {
        self.reset();
    }
    fn set_limiter(&self, to: &[Policy], now: Timestamp) {
        self.set_limiter(L::of(to), now);
    }
}

/// The name of the one client.
const ADA: &str = "ada";

impl<L: Of> Holder for Keyed<String, L> {
    fn check_n(&self, cost: u64, now: Timestamp) -> Answer {
        self.check_n(ADA, cost, now)
    }
    fn peek_n(&self, cost: u64, now: Timestamp) -> Answer {
        self.peek_n(ADA, cost, now)
    }
    fn at_most(&self, cost: u64, now: Timestamp) -> Decision {
        self.at_most(ADA, cost, now)
    }
    fn charge(&self, cost: u64, now: Timestamp) -> Decision {
        self.charge(ADA, cost, now)
    }
    fn refund(&self, receipt: Receipt, now: Timestamp) -> u64 {
        self.refund(ADA, receipt, now)
    }
    fn reset(&self) {
        self.reset(ADA);
    }
    fn set_limiter(&self, to: &[Policy], now: Timestamp) {
        self.set_limiter(L::of(to), now);
    }
}

/// A limiter that can be made of as many policies as it has members.
trait Of: Limiter {
    fn of(policies: &[Policy]) -> Self;
}

impl Of for All {
    fn of(policies: &[Policy]) -> All {
        All::new(policies.to_vec()).expect("a limit or more")
    }
}

macro_rules! tuple {
    ($($policy:ident: $limiter:ty),*) => {
        impl Of for ($($limiter,)*) {
            fn of(policies: &[Policy]) -> Self {
                let [$($policy),*] = *policies else {
                    panic!("a member for each of {policies:?}");
                };
                ($($policy,)*)
            }
        }
    };
}
tuple! { a: Policy }
tuple! { a: Policy, b: Policy }
tuple! { a: Policy, b: Policy, c: Policy }

macro_rules! one_of_five {
    ($($rule:ident)*) => { $(
        impl Of for $rule {
            fn of(policies: &[Policy]) -> $rule {
                match *policies {
                    [Policy::$rule(rule)] => rule,
                    _ => panic!("{policies:?} are another limiter"),
                }
            }
        }
    )* };
}
one_of_five! { TokenBucket LeakyBucket FixedWindow SlidingLog SlidingWindowCounter }

pub(crate) fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

pub(crate) fn nanos(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos()).expect("waits saturate at u64::MAX ns")
}

pub(crate) fn assert_near(ours: Duration, expected: u64, tolerance: u64, what: &str) {
    assert!(
        nanos(ours).abs_diff(expected) <= tolerance,
        "{what}: {expected} ns expected, {} ns",
        nanos(ours)
    );
}
