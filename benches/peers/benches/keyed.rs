//! A store of clients, under each workload, for everyone on the roster.
//!
//! `cargo bench --features all-peers --bench keyed -- [FILTER]`, then `cargo run --release --bin table`.

mod support;

use tollgate_peers::load::Workload;
use tollgate_peers::roster;

fn main() {
    let mut criterion = support::criterion();
    let mut numbers = roster::keyed::<u64>();
    numbers.extend(roster::any_key());
    let mut texts = roster::keyed::<String>();
    texts.extend(roster::any_key());
    texts.extend(roster::text());
    for workload in Workload::ALL {
        support::under(&mut criterion, workload, &numbers);
        support::under(&mut criterion, workload, &texts);
    }
    criterion.final_summary();
}
