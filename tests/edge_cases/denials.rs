//! Row 57, in one process: whoever was refused a moment ago is known as such without a look at the store, until something
//! is given back.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hasher, RandomState};
use std::time::Duration;

use tollgate::{All, Decision, Direct, Keyed, Plans, Policy, Receipt, Timestamp};

use crate::faces::*;
use crate::policies::*;

/// A client of a store, and beside it the same client without one: each answer must be the same.
struct Beside<H> {
    keyed: Keyed<u64, Policy, H>,
    direct: Direct<Policy>,
    what: String,
}

/// Whom all this is about.
const HOT: u64 = 7;
const START: Timestamp = Timestamp::from_secs(1_700_000_040);

impl<H: BuildHasher> Beside<H> {
    fn new(keyed: Keyed<u64, Policy, H>, what: String) -> Self {
        let direct = Direct::new(keyed.limiter());
        Beside {
            keyed,
            direct,
            what,
        }
    }

    fn check(&self, now: Timestamp) -> Decision {
        let d = self.keyed.check(&HOT, now);
        assert_eq!(
            d,
            self.direct.check(now),
            "{}: checked at {now:?}",
            self.what
        );
        d
    }

    fn charge(&self, cost: u64, now: Timestamp) -> Decision {
        let d = self.keyed.charge(&HOT, cost, now);
        assert_eq!(d, self.direct.charge(cost, now), "{}: charged", self.what);
        d
    }

    fn refund(&self, receipt: Receipt, now: Timestamp) -> u64 {
        let given = self.keyed.refund(&HOT, receipt, now);
        assert_eq!(
            given,
            self.direct.refund(receipt, now),
            "{}: refunded",
            self.what
        );
        given
    }

    fn reset(&self) {
        assert!(self.keyed.reset(&HOT), "{}: it was known", self.what);
        self.direct.reset();
    }

    fn change(&self, to: Policy, now: Timestamp) {
        self.keyed.set_limiter(to, now);
        self.direct.set_limiter(to, now);
    }

    /// Spends all there is, unit by unit, and is refused so often that every table knows; says what names the last unit.
    fn refuse(&self, now: Timestamp) -> Receipt {
        let mut last = None;
        while let Some(receipt) = self.check(now).receipt() {
            last = Some(receipt);
        }
        for _ in 0..20 {
            assert!(!self.check(now).is_allowed(), "{}", self.what);
            assert!(!self.keyed.allow(&HOT, now), "{}", self.what);
        }
        last.expect("a unit or more was spent")
    }

    /// The client's very next call, by one of several ways to ask for one unit: whether it may go.
    fn asks(&self, way: usize, now: Timestamp) -> bool {
        let (ours, plain) = match way {
            0 => (self.keyed.allow(&HOT, now), self.direct.allow(now)),
            1 => return self.check(now).is_allowed(),
            2 => {
                let d = self.keyed.check_n(&HOT, 1, now);
                assert_eq!(d, self.direct.check_n(1, now), "{}", self.what);
                return d.is_ok_and(|d| d.is_allowed());
            }
            3 => {
                let d = self.keyed.at_most(&HOT, 1, now);
                assert_eq!(d, self.direct.at_most(1, now), "{}", self.what);
                (d.is_allowed(), d.granted() == 1)
            }
            4 => {
                let mut members = [None; 2];
                let d = self
                    .keyed
                    .check_each(&HOT, 1, now, |_, d| members[0] = Some(d));
                let plain = self.direct.check_each(1, now, |_, d| members[1] = Some(d));
                assert_eq!(d, plain, "{}", self.what);
                assert_eq!(members[0], members[1], "{}", self.what);
                return d.is_ok_and(|d| d.is_allowed());
            }
            _ => {
                let guard = self.keyed.estimate(&HOT, 1, now);
                let plain = self.direct.estimate(1, now);
                let answers = (guard.is_ok(), plain.is_ok());
                guard.into_iter().for_each(|guard| guard.keep());
                plain.into_iter().for_each(|guard| guard.keep());
                answers
            }
        };
        assert_eq!(ours, plain, "{}: asked in way {way}", self.what);
        ours
    }
}

const WAYS: usize = 6;

/// Runs `body` on a client of each policy in stores of several hashers, once for each way to ask.
fn each_way(policies: &[Policy], body: impl Fn(&dyn Client, usize, &str)) {
    for &policy in policies {
        for way in 0..WAYS {
            let what = |hasher| format!("{policy:?}, {hasher}, way {way}");
            let (ours, theirs) = (what("our hasher"), what("theirs"));
            let (near, alike) = (what("one shard"), what("all alike"));
            body(&Beside::new(Keyed::new(policy), ours.clone()), way, &ours);
            let store = Keyed::with_hasher(policy, RandomState::new());
            body(&Beside::new(store, theirs.clone()), way, &theirs);
            let store = Keyed::with_hasher(policy, Near::default());
            body(&Beside::new(store, near.clone()), way, &near);
            let store = Keyed::with_hasher(policy, Alike::default());
            body(&Beside::new(store, alike.clone()), way, &alike);
        }
    }
}

/// [`Beside`], whatever the hasher.
trait Client {
    fn check(&self, now: Timestamp) -> Decision;
    fn charge(&self, cost: u64, now: Timestamp) -> Decision;
    fn refund(&self, receipt: Receipt, now: Timestamp) -> u64;
    fn reset(&self);
    fn change(&self, to: Policy, now: Timestamp);
    fn refuse(&self, now: Timestamp) -> Receipt;
    fn asks(&self, way: usize, now: Timestamp) -> bool;
    /// Another client of the same store.
    fn other(&self, key: u64, now: Timestamp) -> Decision;
    fn refund_other(&self, key: u64, receipt: Receipt, now: Timestamp) -> u64;
}

impl<H: BuildHasher> Client for Beside<H> {
    fn check(&self, now: Timestamp) -> Decision {
        self.check(now)
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
    fn change(&self, to: Policy, now: Timestamp) {
        self.change(to, now);
    }
    fn refuse(&self, now: Timestamp) -> Receipt {
        self.refuse(now)
    }
    fn asks(&self, way: usize, now: Timestamp) -> bool {
        self.asks(way, now)
    }
    fn other(&self, key: u64, now: Timestamp) -> Decision {
        self.keyed.check(&key, now)
    }
    fn refund_other(&self, key: u64, receipt: Receipt, now: Timestamp) -> u64 {
        self.keyed.refund(&key, receipt, now)
    }
}

/// The cache of denied clients outlived what had made them so.
#[test]
fn row_57_a_client_that_was_given_back_is_allowed_by_its_very_next_call() {
    each_way(&every(3, MIN), |client, way, what| {
        let receipt = client.refuse(START);
        assert_eq!(client.refund(receipt, START), 1, "{what}");
        assert!(client.asks(way, START), "{what}: after a refund");
        assert!(!client.asks(way, START), "{what}: one unit was given back");
        // Once more, and the call comes from a thread whose stamp is late.
        let later = START + 600 * SECOND;
        let receipt = client.refuse(later);
        assert_eq!(client.refund(receipt, later), 1, "{what}");
        assert!(
            client.asks(way, later - SECOND),
            "{what}: late, after a refund"
        );
        assert!(!client.asks(way, later), "{what}: one unit was given back");
    });
}

#[test]
fn row_57_a_client_that_was_reset_is_allowed_by_its_very_next_call() {
    each_way(&every(3, MIN), |client, way, what| {
        client.refuse(START);
        client.reset();
        for left in (0..3).rev() {
            assert!(client.asks(way, START), "{what}: {left} are left after it");
        }
        assert!(!client.asks(way, START), "{what}: a limit has been spent");
        client.reset();
        assert!(client.asks(way, START + SECOND), "{what}: once more");
    });
}

#[test]
fn row_57_a_raised_limit_is_seen_by_the_very_next_call() {
    for policy in every(3, MIN) {
        each_way(&[policy], |client, way, what| {
            client.refuse(START);
            client.change(with_limit(policy, 5), START);
            assert!(client.asks(way, START), "{what}: the first of two more");
            assert!(client.asks(way, START), "{what}: the second of two more");
            assert!(!client.asks(way, START), "{what}: no third");
            client.refuse(START + 90 * SECOND);
            client.change(with_limit(policy, 6), START + 90 * SECOND);
            assert!(client.asks(way, START + 90 * SECOND), "{what}: one more");
        });
    }
}

/// What makes the wait longer is seen as well: nobody is told to come back for nothing.
#[test]
fn row_57_a_refused_client_that_is_charged_or_lowered_is_told_its_new_wait() {
    let stamps = [
        0,
        1,
        SEC,
        20 * SEC,
        40 * SEC,
        59 * SEC,
        MIN,
        100 * SEC,
        150 * SEC,
        400 * SEC,
    ];
    for policy in every(3, MIN) {
        each_way(&[policy], |client, way, _| {
            client.refuse(START);
            assert!(!client.charge(2, START).is_allowed());
            for ns in stamps {
                let _ = client.check(START + nanoseconds(ns));
                client.asks(way, START + nanoseconds(ns));
            }
        });
        each_way(&[policy], |client, way, _| {
            client.refuse(START);
            client.change(with_limit(policy, 1), START);
            for ns in stamps {
                let _ = client.check(START + nanoseconds(ns));
                client.asks(way, START + nanoseconds(ns));
            }
        });
    }
}

/// An estimate that comes back unused frees the client like any refund.
#[test]
fn row_57_an_estimate_that_is_given_back_is_seen_by_the_very_next_call() {
    fn given_back<H: BuildHasher>(store: &Keyed<u64, Policy, H>, policy: Policy) {
        let refused = || {
            for _ in 0..20 {
                assert!(!store.allow(&HOT, START), "{policy:?}");
            }
        };
        let guard = store.estimate(&HOT, 3, START).expect("it fits");
        refused();
        drop(guard);
        assert!(store.allow(&HOT, START), "{policy:?}: dropped");
        let guard = store.estimate(&HOT, 2, START).expect("it fits");
        refused();
        let _ = guard.settle(1, START);
        assert!(store.allow(&HOT, START), "{policy:?}: settled for less");
        refused();
        store.reset(&HOT);
        let guard = store.estimate(&HOT, 3, START).expect("it fits");
        refused();
        guard.keep();
        refused();
    }
    for policy in every(3, MIN) {
        given_back(&Keyed::new(policy), policy);
        given_back(&Keyed::with_hasher(policy, RandomState::new()), policy);
        given_back(&Keyed::with_hasher(policy, Near::default()), policy);
        given_back(&Keyed::with_hasher(policy, Alike::default()), policy);
    }
}

/// What frees one client frees none of those that share its line of the table, nor hides that they are refused.
#[test]
fn row_57_nobody_else_is_freed() {
    each_way(&every(3, HOUR), |client, way, what| {
        let others = 100..112;
        for key in others.clone() {
            while client.other(key, START).is_allowed() {}
        }
        let receipt = client.refuse(START);
        for key in others.clone() {
            assert!(!client.other(key, START).is_allowed(), "{what}: {key}");
        }
        client.refund(receipt, START);
        for key in others.clone() {
            assert!(!client.other(key, START).is_allowed(), "{what}: {key}");
            assert_eq!(
                client.refund_other(key + 1_000, receipt, START),
                0,
                "{what}"
            );
        }
        assert!(client.asks(way, START), "{what}: after them all");
        client.reset();
        for key in others {
            assert!(!client.other(key, START).is_allowed(), "{what}: {key}");
        }
        assert!(client.asks(way, START), "{what}: after them all");
    });
}

/// One call to raise a limit, and a crowd of refused clients in every part of the store.
#[test]
fn row_57_a_raised_limit_frees_every_client_at_once() {
    for policy in every(2, HOUR) {
        let store: Keyed<u64, Policy> = Keyed::new(policy);
        for key in 0..3_000 {
            while store.allow(&key, START) {}
            assert!(!store.allow(&key, START), "{policy:?}: {key}");
        }
        store.set_limiter(with_limit(policy, 3), START);
        for key in 0..3_000 {
            assert!(store.allow(&key, START), "{policy:?}: {key}");
            assert!(!store.allow(&key, START), "{policy:?}: {key}, once more");
        }
        // A limit that was lowered in between and raised again is the same limit.
        store.set_limiter(with_limit(policy, 1), START);
        store.set_limiter(with_limit(policy, 4), START);
        for key in 0..3_000 {
            assert!(store.allow(&key, START), "{policy:?}: {key}");
        }
    }
}

/// Of several limits it is remembered which one refused, and a refund frees the client of them all.
#[test]
fn row_57_a_client_of_several_limits_is_answered_alike_with_and_without_a_table() {
    for second in every(3, SEC) {
        for minute in every(5, MIN) {
            let limits = All::new([second, minute]).expect("two limits");
            let store: Keyed<u64, All> = Keyed::new(limits.clone());
            let plain = Direct::new(limits);
            let what = format!("{second:?} and {minute:?}");
            let ask = |ns| {
                let now = START + nanoseconds(ns);
                let d = store.check(&HOT, now);
                assert_eq!(d, plain.check(now), "{what}: at {ns} ns");
                d
            };
            let refused = |ns, by| {
                for later in [0, 0, 0, 1, 100 * MS] {
                    assert_eq!(ask(ns + later).refused_by(), Some(by), "{what}: at {ns} ns");
                }
            };
            let spent = [(); 3].map(|()| ask(0).receipt());
            assert!(spent.iter().all(Option::is_some), "{what}");
            refused(0, 0);
            // A second later, or two for the counter, the minute has two left.
            let receipts = [(); 2].map(|()| ask(2 * SEC).receipt());
            refused(2 * SEC, 1);
            let last = receipts[1].expect("the minute's last");
            let now = START + nanoseconds(2 * SEC);
            assert_eq!(
                store.refund(&HOT, last, now),
                plain.refund(last, now),
                "{what}"
            );
            assert!(ask(2 * SEC).is_allowed(), "{what}: after a refund");
            refused(2 * SEC, 1);
        }
    }
}

/// The refusal of one plan was answered to a client that had moved to another.
#[test]
fn row_57_a_plan_that_changes_is_seen_by_the_very_next_call() {
    fn moves<H: BuildHasher>(store: &Keyed<u64, Plans<Policy>, H>, policy: Policy) {
        let plain = Direct::new(policy);
        let refused = |plan: &'static str| {
            for _ in 0..20 {
                let d = store.check(&HOT, START);
                assert!(!d.is_allowed(), "{policy:?}: refused by its plan");
                assert_eq!(told(d), told(plain.check(START)), "{policy:?}");
                let d = store.check_as(plan, &HOT, START).expect("a plan");
                assert_eq!(told(d), told(plain.check(START)), "{policy:?}");
            }
        };
        while store.allow(&HOT, START) {
            assert!(plain.allow(START), "{policy:?}");
        }
        refused("free");
        // By the call that names the plan, and by those that then do not.
        assert!(
            store.allow_as("premium", &HOT, START).expect("a plan"),
            "{policy:?}"
        );
        assert!(
            store.allow(&HOT, START),
            "{policy:?}: premium is remembered"
        );
        plain.set_limiter(with_limit(policy, 5), START);
        assert!(plain.allow(START) && plain.allow(START), "{policy:?}");
        refused("premium");
        // Down, and up again by a call that is refused itself: more than is there.
        plain.set_limiter(policy, START);
        let d = store.check_as("free", &HOT, START).expect("a plan");
        assert_eq!(told(d), told(plain.check(START)), "{policy:?}");
        refused("free");
        store.set_limiter(plans(policy, 7), START);
        refused("free");
        let d = store.check_n_as("premium", &HOT, 6, START).expect("a plan");
        assert!(!d.is_allowed(), "{policy:?}: six of two");
        assert!(
            store.allow(&HOT, START),
            "{policy:?}: the first of two more"
        );
        assert!(
            store.allow(&HOT, START),
            "{policy:?}: the second of two more"
        );
        plain.set_limiter(with_limit(policy, 7), START);
        assert!(plain.allow(START) && plain.allow(START), "{policy:?}");
        refused("premium");
        // A plan that is raised frees those that are on it.
        store.set_limiter(plans(policy, 8), START);
        assert!(store.allow(&HOT, START), "{policy:?}: premium was raised");
        // A client that is reset is a newcomer, and on the first plan.
        assert!(store.reset(&HOT), "{policy:?}");
        for _ in 0..3 {
            assert!(store.allow(&HOT, START), "{policy:?}: after a reset");
        }
        assert!(!store.allow(&HOT, START), "{policy:?}: after a reset");
    }
    for policy in every(3, MIN) {
        let plans = plans(policy, 5);
        moves(&Keyed::new(plans.clone()), policy);
        moves(
            &Keyed::with_hasher(plans.clone(), RandomState::new()),
            policy,
        );
        moves(&Keyed::with_hasher(plans.clone(), Near::default()), policy);
        moves(&Keyed::with_hasher(plans, Alike::default()), policy);
    }
}

/// "free", with this policy, and "premium", with another limit.
fn plans(policy: Policy, premium: u64) -> Plans<Policy> {
    let named = [
        ("free", policy),
        ("premium", with_limit(policy, premium)),
        ("tiny", with_limit(policy, 1)),
    ];
    Plans::new(named).expect("plans with names of their own")
}

const SECOND: Duration = Duration::from_secs(1);

const fn nanoseconds(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

/// Keys whose hashes differ only in bits that choose neither a shard nor a line.
type Near = BuildHasherDefault<NearHasher>;

#[derive(Default)]
struct NearHasher(DefaultHasher);

impl Hasher for NearHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }
    fn finish(&self) -> u64 {
        self.0.finish() & u64::from(u32::MAX)
    }
}

/// Keys that all have one hash.
type Alike = BuildHasherDefault<AlikeHasher>;

#[derive(Default)]
struct AlikeHasher;

impl Hasher for AlikeHasher {
    fn write(&mut self, _: &[u8]) {}
    fn finish(&self) -> u64 {
        42
    }
}
