//! Rows 44 and 45: what a store of clients may forget, now that they owe and are given back.

use tollgate::keyed::WhenFull;
use tollgate::{Keyed, Limiter, Policy, Timestamp};

use crate::faces::*;
use crate::policies::*;

/// A table that was full forgot a client that had spent all, and met it again as a stranger with a new budget.
#[test]
fn row_44_a_flood_forgets_nobody_who_is_refused() {
    let now = at(1_700_000_000 * SEC);
    for policy in every(4, HOUR) {
        let store: Keyed<u64, Policy> = Keyed::new(policy);
        let refused = refused_clients(&store, now);
        // Each of the crowd comes once, and half of them are given back what they spent.
        for key in 1_000..41_000 {
            let receipt = store
                .check(&key, now)
                .receipt()
                .expect("a newcomer is served");
            if key % 2 == 0 {
                assert_eq!(store.refund(&key, receipt, now), 1, "{policy:?}");
            }
        }
        for key in &refused {
            assert!(
                !store.peek(key, now).is_allowed(),
                "{policy:?}: {key} is new"
            );
            assert!(!store.allow(key, now), "{policy:?}: {key} is new");
            assert_eq!(store.at_most(key, 4, now).granted(), 0, "{policy:?}: {key}");
        }
        // Whoever is owed nothing and owes nothing is forgotten as the crowd passes, or when the store is swept.
        assert!(store.len() <= 30_000, "{policy:?}: {} clients", store.len());
        store.sweep(now);
        assert_eq!(store.len(), refused.len() + 20_000, "{policy:?}");
    }
}

/// A crowd whose requests are all given back is nobody.
#[test]
fn row_44_a_flood_that_is_given_back_takes_no_memory() {
    let now = at(1_700_000_000 * SEC);
    for policy in every(4, HOUR) {
        let store: Keyed<u64, Policy> = Keyed::new(policy);
        let mut most = 0;
        for key in 0..50_000 {
            let guard = store.estimate(&key, 2, now).expect("a newcomer is served");
            drop(guard);
            most = most.max(store.len());
        }
        assert!(
            most <= 3_000,
            "{policy:?}: {most} clients of whom none is left"
        );
        store.sweep(now);
        assert!(store.is_empty(), "{policy:?}: {} clients", store.len());
    }
}

/// With a cap, those who owe are the last to be forgotten.
#[test]
fn row_44_for_want_of_room_nobody_who_owes_is_forgotten() {
    let now = at(1_700_000_000 * SEC);
    for policy in every(4, HOUR) {
        let store: Keyed<u64, Policy> = Keyed::new(policy)
            .with_max_keys(40)
            .when_full(WhenFull::ForgetNearestToIdle);
        let refused = refused_clients(&store, now);
        for key in 1_000..6_000 {
            let charged = store.charge(&key, 1 + key % 3, now);
            assert!(charged.is_allowed(), "{policy:?}: {key} finds a place");
            assert!(store.len() <= 40, "{policy:?}: {} clients", store.len());
        }
        for key in &refused {
            assert!(!store.allow(key, now), "{policy:?}: {key} is new");
        }
        // Given back what it spent, one of the refused makes room like anybody else.
        assert!(store.reset(&refused[0]), "{policy:?}");
        assert!(!store.contains(&refused[0]), "{policy:?}");
        assert!(store.len() < 40, "{policy:?}: {} clients", store.len());
        assert!(store.allow(&6_001, now), "{policy:?}: a place is free");
        assert_eq!(store.len(), 40, "{policy:?}");
    }
}

/// Twelve clients of a limit of four who came to be refused in different ways.
fn refused_clients(store: &Keyed<u64, Policy>, now: Timestamp) -> Vec<u64> {
    let keys: Vec<u64> = (0..12).collect();
    for key in &keys {
        match key % 4 {
            0 => assert_eq!(store.at_most(key, u64::MAX, now).granted(), 4),
            1 => assert_eq!(store.charge(key, 7, now).debt(), 3),
            2 => {
                // Given back a part, and spent again.
                let all = store.check_n(key, 4, now).expect("it fits").receipt();
                assert_eq!(store.refund(key, all.expect("spent").part(2), now), 2);
                assert_eq!(store.at_most(key, 9, now).granted(), 2);
            }
            _ => store.estimate(key, 4, now).expect("it fits").keep(),
        }
        assert!(!store.allow(key, now), "client {key}");
    }
    keys
}

/// A debtor was swept at the moment at which a client that had spent all would be idle.
#[test]
fn row_45_a_client_that_owes_is_kept_until_it_owes_nothing() {
    for (limit, period) in [(4, MIN), (3, 10), (10, 7)] {
        for policy in every(limit, period) {
            for units in [1, limit, limit + 1, 2 * limit] {
                let spent = 1_700_000_000 * SEC / period * period + period / 3;
                let mut rule = Rule::new(policy, 0);
                assert_eq!(rule.charge(spent, units).granted(), units, "{policy:?}");
                let idle_at = policy.idle_at(&rule.state);

                let store: Keyed<u64, Policy> = Keyed::new(policy);
                assert_eq!(store.charge(&1, units, at(spent)).granted(), units);
                let before = at(idle_at.as_nanos() - 1);
                assert_eq!(store.sweep(before), 0, "{policy:?}: {units} units");
                let d = store.peek_n(&1, 0, before).expect("a cost of zero");
                assert_eq!(nanos(d.reset_after()), 1, "{policy:?}: {units} units");
                assert_eq!(store.sweep(idle_at), 1, "{policy:?}: {units} units");
                assert_eq!(store.peek(&1, idle_at).remaining(), limit, "{policy:?}");
            }
        }
    }
}

/// Whoever has all of it back is as good as new, and is not kept.
#[test]
fn row_45_what_is_given_back_is_not_kept() {
    let now = at(1_700_000_000 * SEC + 7);
    for policy in every(4, MIN) {
        let store: Keyed<u64, Policy> = Keyed::new(policy);
        let receipt = store.check_n(&1, 4, now).expect("it fits").receipt();
        let receipt = receipt.expect("something was spent");
        assert_eq!(store.refund(&1, receipt.part(3), now), 3, "{policy:?}");
        assert_eq!(store.sweep(now), 0, "{policy:?}: a unit is spent still");
        let debtor = store.charge(&2, 6, now).receipt().expect("recorded");
        assert_eq!(store.refund(&2, debtor, now), 6, "{policy:?}");
        assert_eq!(store.sweep(now), 1, "{policy:?}: it owes nothing");
        assert!(!store.contains(&2) && store.contains(&1), "{policy:?}");
    }
}

/// Swept after each call or never: whatever is spent, owed, given back, reset and changed, nothing tells them apart.
#[test]
fn row_45_sweeping_is_invisible_to_those_who_owe() {
    for (limit, period) in [(4, MIN), (3, 10), (5, 1_000)] {
        for policy in every(limit, period) {
            let (swept, kept) = (
                Keyed::<u64, Policy>::new(policy),
                Keyed::<u64, Policy>::new(policy),
            );
            let mut receipts = Vec::new();
            let (mut t, mut forgotten) = (1_700_000_000 * SEC, 0);
            for (turn, random) in irregular().take(1_500).enumerate() {
                t += random % (period / 2) * (random >> 20 & 1);
                let (now, key, cost) = (at(t), random >> 24 & 3, 1 + random / 7 % limit);
                let what = format!("{policy:?}: call {turn} by {key}, {cost} units at {t} ns");
                match random >> 32 & 15 {
                    0..=5 => {
                        let (a, b) = (
                            swept.check_n(&key, cost, now),
                            kept.check_n(&key, cost, now),
                        );
                        assert_eq!(a, b, "{what}");
                        receipts.extend(a.expect("it fits").receipt());
                    }
                    6..=7 => {
                        let (a, b) = (swept.charge(&key, cost, now), kept.charge(&key, cost, now));
                        assert_eq!(a, b, "{what}");
                        receipts.extend(a.receipt());
                    }
                    8..=9 => {
                        let d = swept.at_most(&key, cost, now);
                        assert_eq!(d, kept.at_most(&key, cost, now), "{what}");
                        receipts.extend(d.receipt());
                    }
                    10..=13 => {
                        let from = receipts.len().saturating_sub(4);
                        let Some(&receipt) = receipts[from..].first() else {
                            continue;
                        };
                        let a = swept.refund(&key, receipt, now);
                        assert_eq!(a, kept.refund(&key, receipt, now), "{what}");
                    }
                    14 => {
                        swept.reset(&key);
                        kept.reset(&key);
                    }
                    _ => {
                        let to = with_limit(policy, 1 + random / 3 % (2 * limit));
                        for store in [&swept, &kept] {
                            store.set_limiter(to, now);
                            store.set_limiter(policy, now);
                        }
                    }
                }
                forgotten += swept.sweep(now);
                for key in 0..4 {
                    let (a, b) = (swept.peek(&key, now), kept.peek(&key, now));
                    assert_eq!(a, b, "{what}: {key} looks at it");
                }
            }
            assert!(forgotten > 5, "{policy:?}: only {forgotten} were forgotten");
        }
    }
}
