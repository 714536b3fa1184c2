//! What is damaged on its way is never restored, and does no damage.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::{Algorithm, Keyed};

use crate::stores::{FORMATS, Format, Kind, NOW, SECOND};
use crate::support::specs::{Rule, Spec};
use crate::support::{hold, promises};

promises! {
    token_bucket: tollgate::TokenBucket,
    leaky_bucket: tollgate::LeakyBucket,
    fixed_window: tollgate::FixedWindow,
    sliding_log: tollgate::SlidingLog,
    sliding_window_counter: tollgate::SlidingWindowCounter,
    policy: tollgate::Policy,
    pair: (tollgate::Policy, tollgate::Policy),
    all: tollgate::All,
    shadow: tollgate::Shadow<tollgate::Policy>,
    plans: tollgate::Plans<tollgate::Policy>;

    a_snapshot_that_breaks_off_is_refused
    a_snapshot_with_a_bit_turned_is_refused
    bytes_that_are_no_snapshot_are_refused
}

/// A store with one client of its own, to which something damaged is to be restored.
struct Victim<L: Kind> {
    store: Keyed<String, L>,
    format: Format,
    before: String,
}

impl<L: Kind> Victim<L> {
    fn new(format: Format) -> Victim<L> {
        let mut victim = Victim {
            store: Keyed::new(L::build(&rules::<L>())),
            format,
            before: String::new(),
        };
        let allowed = L::ask(&victim.store, 0, "ada", 2, NOW).unwrap();
        assert!(allowed.is_allowed());
        victim.before = victim.seen();
        victim
    }

    fn seen(&self) -> String {
        let at = |seconds| {
            let now = NOW + seconds * SECOND;
            ["ada", "grace", "edsger"].map(|client| self.store.peek(client, now))
        };
        format!("{:?} {:?} {}", at(0), at(30), self.store.len())
    }

    fn refuses(&self, bytes: &[u8]) -> Result<(), String> {
        match L::restore(&self.store, self.format, bytes) {
            Ok(restored) => Err(format!("{restored} clients were restored")),
            Err(_) if self.seen() != self.before => Err("the store was changed".to_string()),
            Err(_) => Ok(()),
        }
    }
}

/// Two clients, one of whom was charged twice.
fn snapshot<L: Kind>(format: Format) -> Vec<u8> {
    let store: Keyed<String, L> = Keyed::new(L::build(&rules::<L>()));
    for (plan, client, cost, seconds) in [(0, "ada", 1, 0), (1, "grace", 3, 1), (0, "ada", 2, 2)] {
        let decision = L::ask(&store, plan, client, cost, NOW + seconds * SECOND).unwrap();
        assert!(decision.is_allowed());
    }
    let bytes = L::save(&store, format, NOW + 3 * SECOND);
    let undamaged: Keyed<String, L> = Keyed::new(L::build(&rules::<L>()));
    assert_eq!(L::restore(&undamaged, format, &bytes), Ok(2));
    bytes
}

fn rules<L: Kind>() -> [Spec; 3] {
    let rule = |algorithm| match algorithm {
        Algorithm::TokenBucket => Rule::TokenBucket { burst: 10 },
        Algorithm::LeakyBucket => Rule::LeakyBucket { burst: 10 },
        Algorithm::FixedWindow => Rule::FixedWindow { offset: 0 },
        Algorithm::SlidingLog => Rule::SlidingLog { resolution: 1 },
        Algorithm::SlidingWindowCounter => Rule::SlidingWindowCounter { offset: 0 },
        other => panic!("{other:?} is new here"),
    };
    let algorithms = match *L::ALGORITHMS {
        [only] => [only; 3],
        _ => [
            Algorithm::TokenBucket,
            Algorithm::SlidingLog,
            Algorithm::SlidingWindowCounter,
        ],
    };
    algorithms.map(|algorithm| Spec {
        limit: 10,
        period: 60_000_000_000,
        rule: rule(algorithm),
        max_debt: None,
    })
}

fn a_snapshot_that_breaks_off_is_refused<L: Kind>() {
    for format in FORMATS {
        let (victim, bytes) = (Victim::<L>::new(format), snapshot::<L>(format));
        for end in 0..bytes.len() {
            if let Err(told) = victim.refuses(&bytes[..end]) {
                panic!(
                    "{format:?}, the first {end} of {} bytes: {told}",
                    bytes.len()
                );
            }
        }
    }
}

fn a_snapshot_with_a_bit_turned_is_refused<L: Kind>() {
    for format in FORMATS {
        let (victim, mut bytes) = (Victim::<L>::new(format), snapshot::<L>(format));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                if let Err(told) = victim.refuses(&bytes) {
                    let shown = String::from_utf8_lossy(&bytes);
                    panic!("{format:?}, bit {bit} of byte {at}: {told}\n{shown}");
                }
                bytes[at] ^= 1 << bit;
            }
        }
    }
}

fn bytes_that_are_no_snapshot_are_refused<L: Kind>() {
    for format in FORMATS {
        let (victim, bytes) = (Victim::<L>::new(format), snapshot::<L>(format));
        held(&format!("damaged {format:?}"), bytes.len(), &|(
            noise,
            (at, part),
            inserted,
        )| {
            let refuses = |bytes: &[u8]| victim.refuses(bytes).map_err(TestCaseError::fail);
            refuses(&noise)?;
            let mut damaged = bytes.clone();
            let end = if inserted {
                at
            } else {
                (at + part.len()).min(bytes.len())
            };
            damaged.splice(at..end, part);
            if !is_same(&damaged, &bytes) {
                refuses(&damaged)?;
            }
            Ok(())
        });
    }
}

/// Noise, and a piece of it to be put in a place of so many bytes, between them or instead.
type Damage = (Vec<u8>, (usize, Vec<u8>), bool);

/// Compiled once for all kinds.
fn held(promise: &str, length: usize, test: &dyn Fn(Damage) -> TestCaseResult) {
    let noise = vec(any::<u8>(), 0..200);
    let piece = (0..length, vec(any::<u8>(), 1..12));
    hold(promise, 500, (noise, piece, any::<bool>()), test);
}

/// Whether they differ in nothing, or in the space between the words of a text.
fn is_same(damaged: &[u8], bytes: &[u8]) -> bool {
    let json = |bytes| serde_json::from_slice::<serde_json::Value>(bytes).ok();
    damaged == bytes || json(damaged).is_some_and(|value| Some(value) == json(bytes))
}
