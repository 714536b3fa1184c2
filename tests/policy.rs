//! `Policy` and `Quota` as a configuration file writes them: what is read, what is written, and what a mistake is told.
#![cfg(feature = "serde")]

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    Algorithm, FixedWindow, LeakyBucket, Policy, Quota, SlidingLog, SlidingWindowCounter,
    TokenBucket,
};

#[test]
fn a_configuration_file_names_policies() {
    let file = r#"
        [search]
        algorithm = "token-bucket"
        quota = "100/min"
        burst = 20

        [upload]
        algorithm = "leaky-bucket"
        quota = "1/30s"

        [daily]
        algorithm = "fixed-window"
        quota = "5000 per day"
        offset = "5h"

        [login]
        algorithm = "fixed-window"
        quota = "5/min"
        anchored_at_first_request = true

        [export]
        algorithm = "sliding-log"
        quota = "10/h"
        resolution = "1s"

        [page]
        algorithm = "sliding-window-counter"
        quota = "600/10min"
        offset = "30 s"
    "#;
    let policies: BTreeMap<String, Policy> = toml::from_str(file).unwrap();
    let per_ten_minutes = Quota::new(600, Duration::from_secs(600)).unwrap();
    let expected: [(&str, Policy); 6] = [
        (
            "search",
            TokenBucket::new(Quota::per_minute(100))
                .with_burst(20)
                .into(),
        ),
        (
            "upload",
            LeakyBucket::new(Quota::new(1, Duration::from_secs(30)).unwrap()).into(),
        ),
        (
            "daily",
            FixedWindow::new(Quota::per_day(5000))
                .with_offset(Duration::from_secs(5 * 3600))
                .into(),
        ),
        (
            "login",
            FixedWindow::new(Quota::per_minute(5))
                .anchored_at_first_request()
                .into(),
        ),
        (
            "export",
            SlidingLog::new(Quota::per_hour(10))
                .with_resolution(Duration::from_secs(1))
                .into(),
        ),
        (
            "page",
            SlidingWindowCounter::new(per_ten_minutes)
                .with_offset(Duration::from_secs(30))
                .into(),
        ),
    ];
    for (name, policy) in expected {
        assert_eq!(policies[name], policy, "{name}");
    }
    assert_eq!(policies.len(), 6);
}

#[test]
fn a_mistake_is_told_with_what_would_be_right() {
    let mistakes = [
        (
            r#"{"algorithm": "token-bucket", "quota": "100/min", "brust": 20}"#,
            "brust",
        ),
        (
            r#"{"algorithm": "token-buckets", "quota": "100/min"}"#,
            "sliding-window-counter",
        ),
        (
            r#"{"algorithm": "token-bucket", "quota": "100/fortnight"}"#,
            "5000 per hour",
        ),
        (
            r#"{"algorithm": "token-bucket", "quota": "0/min"}"#,
            "a limit of 1 or more",
        ),
        (r#"{"algorithm": "token-bucket", "quota": 100}"#, "string"),
        (r#"{"algorithm": "token-bucket"}"#, "quota"),
        (r#"{"quota": "100/min"}"#, "algorithm"),
        (
            r#"{"algorithm": "token-bucket", "quota": "100/min", "burst": 0}"#,
            "a burst from 1",
        ),
        (
            r#"{"algorithm": "leaky-bucket", "quota": "100/min", "burst": 9223372036854775808}"#,
            "2^63 - 1",
        ),
        (
            r#"{"algorithm": "fixed-window", "quota": "100/min", "burst": 3}"#,
            "fixed-window takes no `burst`",
        ),
        (
            r#"{"algorithm": "token-bucket", "quota": "100/min", "offset": "3s"}"#,
            "takes no `offset`",
        ),
        (
            r#"{"algorithm": "token-bucket", "quota": "1/s", "resolution": "3ms"}"#,
            "takes no `resolution`",
        ),
        (
            r#"{"algorithm": "sliding-log", "quota": "1/s", "anchored_at_first_request": true}"#,
            "takes no `anchored",
        ),
        (
            r#"{"algorithm": "fixed-window", "quota": "1/s", "anchored_at_first_request": true, "offset": "1ms"}"#,
            "leave out `offset`",
        ),
        (
            r#"{"algorithm": "fixed-window", "quota": "1/s", "offset": "3"}"#,
            "unit of time",
        ),
        (
            r#"{"algorithm": "fixed-window", "quota": "1/s", "offset": "soon"}"#,
            "such as \"30s\"",
        ),
        (
            r#"{"algorithm": "sliding-log", "quota": "1/s", "resolution": "2s"}"#,
            "coarser than the whole period",
        ),
    ];
    for (text, told) in mistakes {
        let error = serde_json::from_str::<Policy>(text)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(told),
            "{text}\n  is told {error:?}\n  without {told:?}"
        );
    }
}

#[test]
fn a_quota_is_text() {
    assert_eq!(
        serde_json::to_string(&Quota::per_minute(100)).unwrap(),
        r#""100/min""#
    );
    assert_eq!(
        serde_json::from_str::<Quota>(r#""100 per min\u0075te""#).unwrap(),
        Quota::per_minute(100)
    );
}

proptest! {
    /// What is written is read back as it was, whatever the policy.
    #[test]
    fn what_is_written_is_read_back(
        algorithm in 0..5usize,
        limit in prop_oneof![1..1000u64, 1..=Quota::MAX_LIMIT],
        period_ns in prop_oneof![1..10_000u64, 1..=u64::MAX, Just(60_000_000_000)],
        burst in prop_oneof![1..1000u64, 1..=Quota::MAX_LIMIT],
        offset_ns in prop_oneof![Just(0), any::<u64>()],
        anchored in any::<bool>(),
    ) {
        let quota = Quota::new(limit, Duration::from_nanos(period_ns)).unwrap();
        let offset = Duration::from_nanos(offset_ns);
        let policy: Policy = match Algorithm::ALL[algorithm] {
            Algorithm::TokenBucket => TokenBucket::new(quota).with_burst(burst).into(),
            Algorithm::LeakyBucket => LeakyBucket::new(quota).with_burst(burst).into(),
            Algorithm::FixedWindow if anchored => FixedWindow::new(quota)
                .with_offset(offset)
                .anchored_at_first_request()
                .into(),
            Algorithm::FixedWindow => FixedWindow::new(quota).with_offset(offset).into(),
            Algorithm::SlidingLog => SlidingLog::new(quota)
                .with_resolution(Duration::from_nanos(offset_ns % period_ns))
                .into(),
            _ => SlidingWindowCounter::new(quota).with_offset(offset).into(),
        };
        let json = serde_json::to_string(&policy).unwrap();
        prop_assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy);
        // TOML's whole numbers end where ours do.
        let toml = toml::to_string(&policy).unwrap();
        prop_assert_eq!(toml::from_str::<Policy>(&toml).unwrap(), policy);
    }
}
