//! Every order of the atomics in `src/keyed/denials.rs`, tried by loom: `.ci/loom` runs it.
#![cfg(all(loom, test))]

/// As in the crate, a folder of its own: `denials` takes its atomics from `super::sync`.
#[path = "../../../src/keyed"]
mod keyed {
    #[path = "denials.rs"]
    #[expect(dead_code, reason = "the store tells it of charges")]
    mod denials;
    #[path = "sync.rs"]
    mod sync;

    mod tests {
        use std::sync::Arc;
        use std::sync::atomic::Ordering;

        use loom::sync::Mutex;
        use loom::sync::atomic::AtomicBool;
        use loom::thread;

        use super::denials::{Denial, Denials, LinesOfShard, Tagged};

        /// Two keys of one line.
        const KEYS: [Tagged; 2] = [Tagged { hash: 0, tag: 1 }, Tagged { hash: 0, tag: 2 }];

        const ALL_LINES: LinesOfShard = LinesOfShard {
            first: 0,
            shards: 1,
        };

        /// Every order with at most two switches away from a thread that could go on: a torn read needs no more.
        fn try_every_order(run: impl Fn() + Sync + Send + 'static) {
            let mut model = loom::model::Builder::new();
            model.preemption_bound = Some(2);
            model.check(run);
        }

        fn denial(of: Tagged, until_ns: u64) -> Denial {
            Denial {
                since_ns: 1,
                until_ns,
                reset_at_ns: until_ns * 10 + of.tag,
                limit: of.tag,
                member: of.tag,
            }
        }

        fn is_whole(key: Tagged, found: Option<Denial>, ends: &[u64]) -> bool {
            found.is_none_or(|found| ends.iter().any(|&end| found == denial(key, end)))
        }

        #[test]
        fn a_reader_sees_a_whole_note_of_its_key_or_none() {
            try_every_order(|| {
                let denials = Arc::new(Denials::new());
                // The first note makes the table, by a lock of the standard library that loom does not see into.
                denials.note(KEYS[0], denial(KEYS[0], 10));
                let reader = {
                    let denials = Arc::clone(&denials);
                    thread::spawn(move || {
                        assert!(is_whole(KEYS[0], denials.find(KEYS[0], 5), &[10, 20]));
                    })
                };
                denials.note(KEYS[1], denial(KEYS[1], 10));
                denials.note(KEYS[0], denial(KEYS[0], 20));
                reader.join().unwrap();
            });
        }

        /// Runs a change of what is noted of the first key beside a reader of it, who may have been told that it is done:
        /// `holds` says whether what the reader found may be found, told or not.
        fn beside_a_reader(
            denials: &Arc<Denials>,
            holds: fn(bool, Option<Denial>) -> bool,
            change: impl FnOnce(&Denials),
        ) {
            let told = Arc::new(AtomicBool::new(false));
            let reader = {
                let (denials, told) = (Arc::clone(denials), Arc::clone(&told));
                thread::spawn(move || {
                    let was_told = told.load(Ordering::Acquire);
                    assert!(holds(was_told, denials.find(KEYS[0], 5)));
                })
            };
            change(denials);
            told.store(true, Ordering::Release);
            reader.join().unwrap();
        }

        #[test]
        fn what_was_made_void_is_not_found_by_whoever_comes_after() {
            try_every_order(|| {
                let denials = Arc::new(Denials::new());
                denials.note(KEYS[0], denial(KEYS[0], 10));
                let holds = |was_told: bool, found: Option<Denial>| {
                    is_whole(KEYS[0], found, &[10]) && (!was_told || found.is_none())
                };
                beside_a_reader(&denials, holds, |denials| {
                    assert_eq!(denials.expire(ALL_LINES, 10), u64::MAX);
                });
            });
        }

        #[test]
        fn what_a_refund_has_made_void_is_not_found_by_whoever_comes_after() {
            try_every_order(|| {
                let denials = Arc::new(Denials::new());
                denials.note(KEYS[0], denial(KEYS[0], 10));
                let holds = |was_told: bool, found: Option<Denial>| {
                    is_whole(KEYS[0], found, &[10]) && (!was_told || found.is_none())
                };
                beside_a_reader(&denials, holds, |denials| denials.clear(KEYS[0].hash));
            });
        }

        /// The line may hold another's note, which the same refund makes void, and is written again.
        #[test]
        fn a_refund_to_a_client_without_a_note_leaves_no_mixture() {
            try_every_order(|| {
                let denials = Arc::new(Denials::new());
                denials.note(KEYS[1], denial(KEYS[1], 10));
                let holds = |was_told: bool, found: Option<Denial>| {
                    is_whole(KEYS[0], found, &[20]) && (!was_told || found.is_some())
                };
                beside_a_reader(&denials, holds, |denials| {
                    denials.clear(KEYS[0].hash);
                    assert_eq!(denials.find(KEYS[1], 5), None);
                    denials.note(KEYS[0], denial(KEYS[0], 20));
                });
            });
        }

        /// As the store does it: a client that has spent all asks, while another thread gives a unit back. Whoever was told
        /// that it is done is not refused by a note of before, nor by one that was written meanwhile.
        #[test]
        fn after_a_refund_its_unit_is_granted_by_the_very_next_call() {
            try_every_order(|| {
                let shard = Arc::new(Shard {
                    left: Mutex::new(0),
                    denials: Denials::new(),
                });
                // Another's refusal, so that the table is made and this client's first call comes to the shard.
                shard.denials.note(KEYS[1], denial(KEYS[1], 10));
                let told = Arc::new(AtomicBool::new(false));
                let refunder = {
                    let (shard, told) = (Arc::clone(&shard), Arc::clone(&told));
                    thread::spawn(move || {
                        shard.refund();
                        told.store(true, Ordering::Release);
                    })
                };
                let found = shard.ask();
                let was_told = told.load(Ordering::Acquire);
                let granted = u64::from(found) + u64::from(shard.ask());
                assert!(granted == 1 || !was_told);
                refunder.join().unwrap();
                assert_eq!(granted + u64::from(shard.ask()), 1);
            });
        }

        /// One shard with one client: what is left of its units.
        struct Shard {
            left: Mutex<u64>,
            denials: Denials,
        }

        impl Shard {
            fn ask(&self) -> bool {
                if self.denials.find(KEYS[0], 5).is_some() {
                    return false;
                }
                let mut left = self.left.lock().unwrap();
                if *left > 0 {
                    *left -= 1;
                    return true;
                }
                self.denials.note(KEYS[0], denial(KEYS[0], 10));
                false
            }

            fn refund(&self) {
                let mut left = self.left.lock().unwrap();
                *left += 1;
                self.denials.clear(KEYS[0].hash);
            }
        }

        #[test]
        fn after_a_clock_was_set_back_no_old_note_is_found() {
            try_every_order(|| {
                let denials = Arc::new(Denials::new());
                denials.note(KEYS[0], denial(KEYS[0], 10));
                let holds = |was_told: bool, found: Option<Denial>| {
                    is_whole(KEYS[0], found, &[10]) && (!was_told || found.is_none())
                };
                beside_a_reader(&denials, holds, |denials| denials.restart(2));
                denials.note(KEYS[0], denial(KEYS[0], 20));
                assert_eq!(denials.find(KEYS[0], 5), Some(denial(KEYS[0], 20)));
            });
        }
    }
}
