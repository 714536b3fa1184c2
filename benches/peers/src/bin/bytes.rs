//! Bytes per key, as asked of the allocator, while a store grows to a million clients who are not idle.
//!
//! `cargo run --release --bin bytes -- [--keys N]`

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate_peers::args::option;
use tollgate_peers::keys::Key;
use tollgate_peers::load::FLOOD_NEVER_IDLE;
use tollgate_peers::peer::Peer;
use tollgate_peers::peers::tollgate::{Allow, token_bucket};
use tollgate_peers::peers::{dashmap, governor, tollgate as ours};

fn main() {
    let keys = option("keys").unwrap_or(1_000_000);
    println!(
        "bytes per key, at {keys} keys; on average from half as many on; and at the peak of growing\n"
    );
    report::<u64>(keys, 1.5);
    report::<String>(keys, 1.2);
}

fn report<K: Key>(keys: u64, target: f64) {
    let rule = FLOOD_NEVER_IDLE;
    let ours = grown::<K, _>(keys, || {
        ours::Simulated::<K, _, Allow>::new(token_bucket(rule))
    });
    let governor = grown::<K, _>(keys, || governor::Simulated::new(rule));
    let dashmap = grown::<K, _>(keys, || dashmap::Simulated::new(rule));
    for (name, bytes) in [
        ("tollgate token bucket", &ours),
        ("governor", &governor),
        ("DashMap + token bucket", &dashmap),
    ] {
        let Bytes { end, mean, peak } = bytes;
        println!(
            "  {:<7} {name:<24} {end:>7.1} {mean:>7.1} {peak:>7.1}",
            K::NAME
        );
    }
    let ratio = ours.end / governor.end;
    let verdict = if ratio <= target { "ok" } else { "MISSED" };
    println!(
        "  {:<7} tollgate / governor       {ratio:>6.2}x {:>6.2}x {:>6.2}x   at most {target:.2}x at the end: {verdict}\n",
        K::NAME,
        ours.mean / governor.mean,
        ours.peak / governor.peak,
    );
}

/// Per key.
struct Bytes {
    end: f64,
    /// Tables double: one moment of it is luck.
    mean: f64,
    peak: f64,
}

fn grown<K: Key, P: Peer<K>>(keys: u64, make: impl Fn() -> P) -> Bytes {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let peer = make();
    let live = || (LIVE.load(Ordering::Relaxed) - before) as f64;
    let (mut sum, mut seen) = (0.0, 0.0);
    for client in 0..keys {
        let now = peer.advance(FLOOD_STEP);
        assert!(
            peer.allow(&K::of(client), now),
            "a client's first call is allowed"
        );
        let clients = client + 1;
        if clients >= keys / 2 && clients % (keys / 64).max(1) == 0 {
            sum += live() / clients as f64;
            seen += 1.0;
        }
    }
    Bytes {
        end: live() / keys as f64,
        mean: sum / seen,
        peak: (PEAK.load(Ordering::Relaxed) - before) as f64 / keys as f64,
    }
}

/// Counts what is asked for; what the system's allocator adds to it is its own affair, and the same for all.
struct Counting;

// SAFETY: all is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are those that it asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn count(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

const FLOOD_STEP: std::time::Duration = std::time::Duration::from_micros(10);
