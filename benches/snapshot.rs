//! How long a store of a million clients takes to be saved to bytes, and to be restored from them.
//!
//! ```sh
//! cargo bench --features serde --bench snapshot            # a million clients
//! cargo bench --features serde --bench snapshot -- 50000   # so many
//! ```

use std::env;
use std::time::Instant;

use tollgate::keyed::Saved;
use tollgate::{Keyed, Quota, Timestamp, TokenBucket};

type Store = Keyed<u64, TokenBucket>;

fn main() {
    let clients = env::args()
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(1_000_000);
    let store = filled(clients);
    println!("{clients} clients with u64 keys, token bucket, postcard; seconds:");
    let mut size = 0;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let saved = store.save(START);
        let bytes = postcard::to_allocvec(&saved).expect("a snapshot is plain numbers");
        let saving = started.elapsed();
        drop(saved);
        size = bytes.len();

        let started = Instant::now();
        let saved: Saved<u64, TokenBucket> =
            postcard::from_bytes(&bytes).expect("it was just written");
        let restored = Store::new(rule());
        let known = restored.restore(saved).expect("it is of the same rule");
        let restoring = started.elapsed();
        assert_eq!(known as u64, clients);

        println!(
            "save and serialize {:.3}, deserialize and restore {:.3}",
            saving.as_secs_f64(),
            restoring.as_secs_f64()
        );
    }
    println!("{:.1} bytes a client", size as f64 / clients as f64);
}

fn rule() -> TokenBucket {
    TokenBucket::new(Quota::per_hour(1_000))
}

/// A store none of whose clients is idle.
fn filled(clients: u64) -> Store {
    let store = Store::new(rule());
    for client in 0..clients {
        // Keys that look random, and are all different.
        let key = client.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let decision = store.check_n(&key, 1 + client % 900, START);
        assert!(decision.is_ok_and(|decision| decision.is_allowed()));
    }
    store
}

const START: Timestamp = Timestamp::from_secs(1_700_000_000);
const ROUNDS: usize = 5;
