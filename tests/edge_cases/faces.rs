//! One client, seen through the bare rule, `Direct`, `Keyed`, and as the one member of several limits.

use std::time::Duration;

use tollgate::{
    Algorithm, All, CostTooHigh, Decision, Direct, FixedWindow, Keyed, LeakyBucket, Limiter,
    Policy, Receipt, SlidingLog, SlidingWindowCounter, Timestamp, TokenBucket,
};

use crate::policies::{DAY, MIN, Of, SEC};

pub(crate) type Answer = Result<Decision, CostTooHigh>;

/// One client of a limiter that is made of a `C`. Stamps are nanoseconds since the face's origin.
pub(crate) trait Face<C = Policy> {
    fn ask(&mut self, ns: u64, cost: u64) -> Answer;
    fn ask_each(&mut self, ns: u64, cost: u64) -> Result<(Decision, Vec<Decision>), CostTooHigh>;
    fn look(&self, ns: u64, cost: u64) -> Answer;
    fn at_most(&mut self, ns: u64, cost: u64) -> Decision;
    fn charge(&mut self, ns: u64, cost: u64) -> Decision;
    fn refund(&mut self, ns: u64, receipt: Receipt) -> u64;
    fn reset(&mut self);
    fn change(&mut self, ns: u64, to: C);

    /// What is left, by a look that costs nothing.
    fn room(&self, ns: u64) -> u64 {
        self.look(ns, 0)
            .expect("a cost of zero always fits")
            .remaining()
    }
    /// Takes all there is and says how much it was.
    fn drain(&mut self, ns: u64) -> u64 {
        let room = self.room(ns);
        assert!(
            self.ask(ns, room).expect("what remains fits").is_allowed(),
            "{room} remain and are refused"
        );
        assert_eq!(self.room(ns), 0, "something remains after all was taken");
        room
    }
    fn must_allow(&mut self, ns: u64, cost: u64, what: &str) {
        let _ = self.grant(ns, cost, what);
    }
    fn must_deny(&mut self, ns: u64, cost: u64, what: &str) {
        let _ = self.refusal(ns, cost, what);
    }
    /// Must be allowed; the decision.
    fn grant(&mut self, ns: u64, cost: u64, what: &str) -> Decision {
        let d = self
            .ask(ns, cost)
            .unwrap_or_else(|e| panic!("{what}: cost {cost} at {ns} ns: {e}"));
        assert!(
            d.is_allowed(),
            "{what}: cost {cost} at {ns} ns must be allowed: {d:?}"
        );
        assert_eq!(
            d.retry_after(),
            Duration::ZERO,
            "{what}: allowed, and told to wait"
        );
        d
    }
    /// Must be refused; the decision.
    fn refusal(&mut self, ns: u64, cost: u64, what: &str) -> Decision {
        let d = self
            .ask(ns, cost)
            .unwrap_or_else(|e| panic!("{what}: cost {cost} at {ns} ns: {e}"));
        assert!(
            !d.is_allowed(),
            "{what}: cost {cost} at {ns} ns must be refused: {d:?}"
        );
        assert!(
            d.retry_after() > Duration::ZERO,
            "{what}: refused without a wait"
        );
        assert_eq!(d.delay(), Duration::ZERO, "{what}: refused, and delayed");
        d
    }
    /// Refused until exactly the moment named; says the wait.
    fn must_be_honest(&self, ns: u64, cost: u64, what: &str) -> u64 {
        let waited = wait(self.look(ns, cost).expect(what));
        if waited > 0 {
            let early = self.look(ns + waited - 1, cost).expect(what);
            assert!(
                !early.is_allowed(),
                "{what}: cost {cost} at {ns} ns: allowed before its wait of {waited} ns"
            );
            let due = self.look(ns + waited, cost).expect(what);
            assert!(
                due.is_allowed(),
                "{what}: cost {cost} at {ns} ns: refused after its wait of {waited} ns"
            );
        }
        waited
    }
    /// Must be allowed; what names the charge.
    fn receipt(&mut self, ns: u64, cost: u64, what: &str) -> Receipt {
        let granted = self.grant(ns, cost, what);
        assert_eq!(granted.granted(), cost, "{what}: all of it was granted");
        granted.receipt().expect("something was spent")
    }
    fn debt(&self, ns: u64) -> u64 {
        self.look(ns, 0).expect("a cost of zero always fits").debt()
    }
}

pub(crate) struct Rule<L: Limiter> {
    pub(crate) limiter: L,
    pub(crate) state: L::State,
    origin: u64,
}

impl<L: Limiter> Rule<L> {
    pub(crate) fn new(limiter: L, origin: u64) -> Self {
        let state = limiter.fresh(at(origin));
        Rule {
            limiter,
            state,
            origin,
        }
    }

    fn at(&self, ns: u64) -> Timestamp {
        at(self.origin.saturating_add(ns))
    }
}

impl<C, L: Of<C>> Face<C> for Rule<L> {
    fn ask(&mut self, ns: u64, cost: u64) -> Answer {
        let now = self.at(ns);
        self.limiter.check(&mut self.state, now, cost)
    }
    fn ask_each(&mut self, ns: u64, cost: u64) -> Result<(Decision, Vec<Decision>), CostTooHigh> {
        let (now, mut members) = (self.at(ns), Vec::new());
        let decision = self
            .limiter
            .check_each(&mut self.state, now, cost, &mut |member, d| {
                assert_eq!(member, members.len(), "members are told in order");
                members.push(d);
            })?;
        Ok((decision, members))
    }
    fn look(&self, ns: u64, cost: u64) -> Answer {
        self.limiter.peek(&self.state, self.at(ns), cost)
    }
    fn at_most(&mut self, ns: u64, cost: u64) -> Decision {
        let now = self.at(ns);
        self.limiter.at_most(&mut self.state, now, cost)
    }
    fn charge(&mut self, ns: u64, cost: u64) -> Decision {
        let now = self.at(ns);
        self.limiter.charge(&mut self.state, now, cost)
    }
    fn refund(&mut self, ns: u64, receipt: Receipt) -> u64 {
        let now = self.at(ns);
        self.limiter.refund(&mut self.state, now, receipt)
    }
    fn reset(&mut self) {
        self.state = self.limiter.fresh(at(self.origin));
    }
    fn change(&mut self, ns: u64, to: C) {
        let (now, to) = (self.at(ns), L::of(to));
        let fresh = to.fresh(now);
        let state = std::mem::replace(&mut self.state, fresh);
        self.state = to.carry(&self.limiter, state, now);
        self.limiter = to;
    }
}

pub(crate) struct Held<L: Limiter> {
    pub(crate) direct: Direct<L>,
    pub(crate) origin: u64,
}

impl<L: Limiter> Held<L> {
    pub(crate) fn new(limiter: L, origin: u64) -> Self {
        let direct = Direct::new(limiter);
        Held { direct, origin }
    }

    fn at(&self, ns: u64) -> Timestamp {
        at(self.origin.saturating_add(ns))
    }
}

impl<C, L: Of<C>> Face<C> for Held<L> {
    fn ask(&mut self, ns: u64, cost: u64) -> Answer {
        self.direct.check_n(cost, self.at(ns))
    }
    fn ask_each(&mut self, ns: u64, cost: u64) -> Result<(Decision, Vec<Decision>), CostTooHigh> {
        let mut members = Vec::new();
        let decision = self
            .direct
            .check_each(cost, self.at(ns), |_, d| members.push(d))?;
        Ok((decision, members))
    }
    fn look(&self, ns: u64, cost: u64) -> Answer {
        self.direct.peek_n(cost, self.at(ns))
    }
    fn at_most(&mut self, ns: u64, cost: u64) -> Decision {
        self.direct.at_most(cost, self.at(ns))
    }
    fn charge(&mut self, ns: u64, cost: u64) -> Decision {
        self.direct.charge(cost, self.at(ns))
    }
    fn refund(&mut self, ns: u64, receipt: Receipt) -> u64 {
        self.direct.refund(receipt, self.at(ns))
    }
    fn reset(&mut self) {
        self.direct.reset();
    }
    fn change(&mut self, ns: u64, to: C) {
        self.direct.set_limiter(L::of(to), self.at(ns));
    }
}

pub(crate) struct Stored<L: Limiter> {
    keyed: Keyed<String, L>,
    origin: u64,
}

impl<L: Limiter> Stored<L> {
    fn new(limiter: L, origin: u64) -> Self {
        let keyed = Keyed::new(limiter);
        Stored { keyed, origin }
    }

    fn at(&self, ns: u64) -> Timestamp {
        at(self.origin.saturating_add(ns))
    }
}

impl<C, L: Of<C>> Face<C> for Stored<L> {
    fn ask(&mut self, ns: u64, cost: u64) -> Answer {
        self.keyed.check_n("client", cost, self.at(ns))
    }
    fn ask_each(&mut self, ns: u64, cost: u64) -> Result<(Decision, Vec<Decision>), CostTooHigh> {
        let mut members = Vec::new();
        let decision = self
            .keyed
            .check_each("client", cost, self.at(ns), |_, d| members.push(d))?;
        Ok((decision, members))
    }
    fn look(&self, ns: u64, cost: u64) -> Answer {
        self.keyed.peek_n("client", cost, self.at(ns))
    }
    fn at_most(&mut self, ns: u64, cost: u64) -> Decision {
        self.keyed.at_most("client", cost, self.at(ns))
    }
    fn charge(&mut self, ns: u64, cost: u64) -> Decision {
        self.keyed.charge("client", cost, self.at(ns))
    }
    fn refund(&mut self, ns: u64, receipt: Receipt) -> u64 {
        self.keyed.refund("client", receipt, self.at(ns))
    }
    fn reset(&mut self) {
        self.keyed.reset("client");
    }
    fn change(&mut self, ns: u64, to: C) {
        self.keyed.set_limiter(L::of(to), self.at(ns));
    }
}

/// Runs `body` on a fresh client of each policy, through each face, at the epoch and in our days.
pub(crate) fn each(policies: &[Policy], mut body: impl FnMut(&mut dyn Face, &str)) {
    for &policy in policies {
        each_at(&[policy], &origins(&[policy]), &mut body);
    }
}

/// As `each`, with the origins given.
pub(crate) fn each_at(
    policies: &[Policy],
    origins: &[u64],
    mut body: impl FnMut(&mut dyn Face, &str),
) {
    run(policies, origins, true, &mut body);
}

/// As `each`, through holders only: a bare rule may rely on time that does not run back.
pub(crate) fn each_held(policies: &[Policy], mut body: impl FnMut(&mut dyn Face, &str)) {
    for &policy in policies {
        run(&[policy], &origins(&[policy]), false, &mut body);
    }
}

/// A client of several limits.
pub(crate) type OfSeveral = dyn Face<Vec<Policy>>;

/// Runs `body` on a fresh client of all these policies as one limit, as a tuple and as a list, through each face.
pub(crate) fn each_of_several(policies: &[Policy], mut body: impl FnMut(&mut OfSeveral, &str)) {
    fn through<L: Of<Vec<Policy>>>(
        kind: &str,
        policies: &[Policy],
        origin: u64,
        body: &mut dyn FnMut(&mut OfSeveral, &str),
    ) {
        let limiter = || L::of(policies.to_vec());
        let what = |face: &str| format!("{kind} of {policies:?} {face}, origin {origin}");
        body(&mut Rule::new(limiter(), origin), &what("by the rule"));
        body(&mut Held::new(limiter(), origin), &what("through Direct"));
        body(&mut Stored::new(limiter(), origin), &what("through Keyed"));
    }
    for origin in origins(policies) {
        match policies.len() {
            2 => through::<(Policy, Policy)>("a tuple", policies, origin, &mut body),
            3 => through::<(Policy, Policy, Policy)>("a tuple", policies, origin, &mut body),
            other => panic!("{other} limits as one"),
        }
        through::<All>("a list", policies, origin, &mut body);
    }
}

/// The epoch, and the last instant before November 2023 at which all grids lie as at the epoch.
fn origins(policies: &[Policy]) -> Vec<u64> {
    let periods = policies.iter().map(|policy| policy.quota().period_ns());
    let common = periods.fold(1u64, |a, b| (a / gcd(a, b)).saturating_mul(b));
    let ours = 1_700_000_000 * SEC / common * common;
    if ours == 0 { vec![0] } else { vec![0, ours] }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn run(
    policies: &[Policy],
    origins: &[u64],
    rule: bool,
    body: &mut dyn FnMut(&mut dyn Face, &str),
) {
    fn through<L: Of<Policy>>(
        policy: Policy,
        origin: u64,
        rule: bool,
        body: &mut dyn FnMut(&mut dyn Face, &str),
    ) {
        let what = |face: &str| format!("{policy:?} {face}, origin {origin}");
        if rule {
            body(&mut Rule::new(L::of(policy), origin), &what("by the rule"));
        }
        body(
            &mut Held::new(L::of(policy), origin),
            &what("through Direct"),
        );
        body(
            &mut Stored::new(L::of(policy), origin),
            &what("through Keyed"),
        );
    }
    for &policy in policies {
        for &origin in origins {
            match policy.algorithm() {
                Algorithm::TokenBucket => through::<TokenBucket>(policy, origin, rule, body),
                Algorithm::LeakyBucket => through::<LeakyBucket>(policy, origin, rule, body),
                Algorithm::FixedWindow => through::<FixedWindow>(policy, origin, rule, body),
                Algorithm::SlidingLog => through::<SlidingLog>(policy, origin, rule, body),
                Algorithm::SlidingWindowCounter => {
                    through::<SlidingWindowCounter>(policy, origin, rule, body);
                }
                other => panic!("{other:?}: an algorithm that these rows do not know"),
            }
            // Chosen at run time, or the only one of several, it is the same rule.
            let what = |face: &str| format!("{policy:?} {face}, origin {origin}");
            body(&mut Held::new(policy, origin), &what("chosen at run time"));
            body(
                &mut Held::new((policy,), origin),
                &what("as a tuple of one"),
            );
            body(
                &mut Stored::new(All::from(policy), origin),
                &what("as a list of one"),
            );
        }
    }
}

/// What a decision tells, but for when it was taken: to compare clients whose clocks differ.
pub(crate) fn told(d: Decision) -> impl PartialEq + std::fmt::Debug {
    let numbers = [
        d.limit(),
        d.remaining(),
        d.granted(),
        d.debt(),
        d.unrecorded(),
    ];
    let waits = [d.retry_after(), d.reset_after(), d.delay()];
    (d.is_allowed(), d.refused_by(), numbers, waits)
}

pub(crate) fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}
pub(crate) fn nanos(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos()).expect("waits saturate at u64::MAX ns")
}
pub(crate) fn wait(d: Decision) -> u64 {
    nanos(d.retry_after())
}

/// Asks without pause for one unit until `end` (which is not asked any more), skipping what is refused anyway.
pub(crate) fn greed(face: &mut (impl Face + ?Sized), end: u64) -> u64 {
    let (mut t, mut allowed) = (0, 0);
    while t < end {
        let d = face.ask(t, 1).expect("a cost of one always fits");
        if d.is_allowed() {
            allowed += 1;
        } else {
            assert!(wait(d) > 0, "refused at {t} ns without a wait");
            t += wait(d);
        }
    }
    allowed
}

/// Polls at every multiple of `every` within a minute of a midnight, at every `sparse`th of them elsewhere.
pub(crate) fn poll_for_thirty_days(
    face: &mut (impl Face + ?Sized),
    every: u64,
    sparse: u64,
) -> u64 {
    let (mut poll, mut allowed) = (0u64, 0);
    while poll * every < 30 * DAY {
        let t = poll * every;
        allowed += u64::from(
            face.ask(t, 1)
                .expect("a cost of one always fits")
                .is_allowed(),
        );
        let of_day = t % DAY;
        let busy = of_day < MIN || of_day > DAY - MIN - sparse * every;
        poll += if busy { 1 } else { sparse };
    }
    allowed
}

pub(crate) fn count_allowed(face: &mut (impl Face + ?Sized), stamps: &[u64]) -> u64 {
    stamps
        .iter()
        .map(|&t| {
            u64::from(
                face.ask(t, 1)
                    .expect("a cost of one always fits")
                    .is_allowed(),
            )
        })
        .sum()
}

/// Numbers without a pattern, the same in every run.
pub(crate) fn irregular() -> impl Iterator<Item = u64> {
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    std::iter::repeat_with(move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x >> 8
    })
}

/// Instants that move on by less than `most` at a time.
pub(crate) fn strides(count: usize, most: u64) -> impl Iterator<Item = u64> {
    irregular().take(count).scan(0, move |sum, x| {
        *sum += x % most;
        Some(*sum)
    })
}

pub(crate) fn shuffle(of: &[u64], seed: usize) -> Vec<u64> {
    let mut all = of.to_vec();
    for (i, x) in (1..all.len()).rev().zip(irregular().skip(seed * 1_000)) {
        all.swap(i, x as usize % (i + 1));
    }
    all
}

pub(crate) fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(n - 1);
    let put = |order: &Vec<usize>, at| [&order[..at], &[n - 1], &order[at..]].concat();
    shorter
        .iter()
        .flat_map(|order| (0..n).map(move |at| put(order, at)))
        .collect()
}
