//! One state that all share: `Direct`, and the peers that have such a thing.
//!
//! `cargo bench --features all-peers --bench direct`

mod support;

use tollgate_peers::load::Workload;
use tollgate_peers::roster;

fn main() {
    let mut criterion = support::criterion();
    let entries = roster::direct();
    for workload in [Workload::OneRefused, Workload::OneAllowed] {
        support::under(&mut criterion, workload, &entries);
    }
    criterion.final_summary();
}
