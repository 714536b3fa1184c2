//! What the two benches share: how criterion is set, and one group per workload, kind of key and number of threads.

use std::cell::LazyCell;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode};
use tollgate_peers::contest::{Contest, verify};
use tollgate_peers::keys::Key;
use tollgate_peers::load::{Load, Workload};
use tollgate_peers::roster::Entry;

pub fn criterion() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args()
}

/// Everyone under one workload.
pub fn under<K: Key>(criterion: &mut Criterion, workload: Workload, entries: &[Entry<K>]) {
    // Millions of keys are made only if somebody is timed on them: a filter may have asked for other rows.
    let load = LazyCell::new(|| Load::<K>::new(workload));
    for threads in [1, 2] {
        let name = format!("{}, {}, {threads} thr", workload.name(), K::NAME);
        let mut group = criterion.benchmark_group(name);
        group.sampling_mode(SamplingMode::Flat);
        for Entry { name, clock, make } in entries {
            // Criterion comes back for each sample: one contest serves them all, and is gone before the next peer's.
            let mut contest: Option<Box<dyn Contest + '_>> = None;
            group.bench_function(BenchmarkId::new(*name, clock.name()), |bencher| {
                let contest = contest.get_or_insert_with(|| make(&load, threads));
                bencher.iter_custom(|calls| contest.calls(calls));
            });
            if let Some(contest) = contest {
                verify(workload, contest.answers(), name);
            }
        }
        group.finish();
    }
}
