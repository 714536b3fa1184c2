//! What the tests share: the oracle, limiters to draw, histories to walk, and the runner that draws them.

// Each test file is a crate of its own and uses a part of this.
#![allow(dead_code, unreachable_pub, unused_imports, unused_macros)]

pub mod histories;
pub mod oracle;
pub mod specs;
pub mod stores;

use std::any::type_name;
use std::env;
use std::fmt::Debug;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner};

/// Holds `promise` against `cases` values drawn from `drawn`, and shrinks the first that breaks it.
///
/// The same values are drawn in every run, so a failure is there again after the fix was tried.
/// `TOLLGATE_SEED=n` draws others, `TOLLGATE_HISTORIES=k` draws k times as many.
pub fn hold<S>(promise: &str, cases: u32, drawn: S, test: impl Fn(S::Value) -> TestCaseResult)
where
    S: Strategy,
    S::Value: Debug,
{
    let seed: u64 = variable("TOLLGATE_SEED").unwrap_or(20_260_101);
    let scale: u32 = variable("TOLLGATE_HISTORIES").unwrap_or(1);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: cases.saturating_mul(scale),
        // A seed says it all; a file beside the test would be one more thing to keep.
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    println!(
        "{promise}: {} histories, TOLLGATE_SEED={seed}",
        config.cases
    );
    if let Err(failure) = TestRunner::new_with_rng(config, rng).run(&drawn, test) {
        panic!("{promise}, TOLLGATE_SEED={seed}\n{failure}");
    }
}

/// A promise of one subject.
pub fn title<S>(promise: &str) -> String {
    format!("{promise} ({})", type_name::<S>())
}

/// As many histories, or fewer of a limiter that is composed: they take longer, and go through the same rules.
pub fn cases<S: specs::Subject>(histories: u32) -> u32 {
    match S::kind() {
        specs::Kind::Alone(_) => histories,
        composed => histories / (2 * composed.rules() as u32),
    }
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = env::var(name).ok()?;
    match text.parse() {
        Ok(value) => Some(value),
        Err(_) => panic!("{name} wants a whole number, not {text:?}"),
    }
}

/// One test per promise, named after it, in a module per subject: `promises! { subject: Type, ...; promise promise }`
/// makes `subject::promise` of the generic function `promise::<Type>`.
macro_rules! promises {
    ($($module:ident: $subject:ty),* $(,)?; $($promise:ident)*) => {
        promises! { @each [$($promise)*] $($module: $subject,)* }
    };
    (@each $promises:tt $($module:ident: $subject:ty,)*) => { $(
        promises! { @one $promises $module: $subject }
    )* };
    (@one [$($promise:ident)*] $module:ident: $subject:ty) => {
        mod $module {
            $(
                #[test]
                fn $promise() {
                    super::$promise::<$subject>();
                }
            )*
        }
    };
}
pub(crate) use promises;
