//! Sets of named policies as configuration files write them: what is read, what is written, and where a mistake is.
//!
//! What one policy's table may hold is in `policy.rs`.
#![cfg(feature = "serde")]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use support::hold;
use support::specs::specs;
use tollgate::{
    Algorithm, All, FixedWindow, Keyed, LeakyBucket, Limiter, Policy, PolicySet, Quota, SlidingLog,
    SlidingWindowCounter, Timestamp, TokenBucket,
};

const EXAMPLE: &str = include_str!("../examples/data/policies.toml");
const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

fn per_minute(limit: u64) -> TokenBucket {
    TokenBucket::new(Quota::per_minute(limit))
}

fn all<const N: usize>(policies: [Policy; N]) -> All {
    All::new(policies).unwrap()
}

fn quota(limit: u64, seconds: u64) -> Quota {
    Quota::new(limit, Duration::from_secs(seconds)).unwrap()
}

/// What the example file says.
fn example() -> Vec<(&'static str, All)> {
    vec![
        ("search", all([per_minute(100).into()])),
        (
            "login",
            all([
                TokenBucket::new(Quota::per_second(10)).into(),
                FixedWindow::new(Quota::per_day(1_000)).into(),
            ]),
        ),
        (
            "signup",
            all([
                TokenBucket::new(Quota::per_second(1)).into(),
                SlidingLog::new(Quota::per_minute(5)).into(),
                FixedWindow::new(Quota::per_day(20)).into(),
            ]),
        ),
        (
            "upload",
            all([TokenBucket::new(Quota::per_hour(600))
                .with_burst(50)
                .with_max_debt(200)
                .into()]),
        ),
        (
            "webhook",
            all([
                LeakyBucket::new(Quota::new(1, Duration::from_millis(100)).unwrap())
                    .with_burst(30)
                    .into(),
            ]),
        ),
        (
            "daily",
            all([FixedWindow::new(Quota::per_day(5_000))
                .with_offset(Duration::from_secs(5 * 3_600))
                .into()]),
        ),
        (
            "password-reset",
            all([FixedWindow::new(quota(3, 600))
                .anchored_at_first_request()
                .into()]),
        ),
        (
            "export",
            all([SlidingLog::new(Quota::per_hour(10))
                .with_resolution(Duration::from_secs(1))
                .into()]),
        ),
        (
            "page",
            all([
                SlidingWindowCounter::new(quota(600, 600))
                    .with_offset(Duration::from_secs(30))
                    .into(),
                TokenBucket::new(Quota::per_second(20))
                    .with_burst(40)
                    .with_max_debt(0)
                    .into(),
            ]),
        ),
    ]
}

#[test]
fn the_example_file_says_what_its_comments_say() {
    let policies: PolicySet = toml::from_str(EXAMPLE).unwrap();
    let expected = example();
    for (name, policy) in &expected {
        let read = policies.get(name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(read.members(), policy.members(), "{name}");
    }
    assert_eq!(policies.len(), expected.len());
    assert!(policies.get("nobody").is_none());
    let mut names: Vec<_> = policies.iter().map(|(name, _)| name.to_string()).collect();
    let mut expected: Vec<_> = expected.iter().map(|(name, _)| name.to_string()).collect();
    names.sort();
    expected.sort();
    assert_eq!(names, expected);
}

#[test]
fn a_policy_that_is_read_is_a_limiter() {
    let policies: PolicySet = toml::from_str(EXAMPLE).unwrap();
    let signup: Keyed<String, All> = Keyed::new(policies.get("signup").unwrap().clone());
    assert!(signup.allow("ada", NOW));
    let refused = signup.check("ada", NOW);
    assert_eq!(refused.refused_by(), Some(0));
    for second in 1..5 {
        assert!(signup.allow("ada", NOW + Duration::from_secs(second)));
    }
    let refused = signup.check("ada", NOW + Duration::from_secs(5));
    assert_eq!(refused.refused_by(), Some(1));
    let upload: Keyed<String, All> = Keyed::new(policies.get("upload").unwrap().clone());
    assert_eq!(upload.charge("ada", 1_000, NOW).unrecorded(), 750);
}

#[test]
fn a_set_says_the_same_in_every_format() {
    let toml: PolicySet = toml::from_str(
        r#"
        search = "100/min"
        login = ["1/s", { algorithm = "sliding-log", quota = "5/min", max_debt = 2 }]
        daily = { algorithm = "fixed-window", quota = "5000/d" }
        "#,
    )
    .unwrap();
    let json: PolicySet = serde_json::from_str(
        r#"{
            "search": "100/min",
            "login": ["1/s", {"algorithm": "sliding-log", "quota": "5/min", "max_debt": 2}],
            "daily": {"algorithm": "fixed-window", "quota": "5000/d"}
        }"#,
    )
    .unwrap();
    let yaml: PolicySet = yaml_serde::from_str(
        "
        search: 100/min
        login:
          - 1/s
          - { algorithm: sliding-log, quota: 5/min, max_debt: 2 }
        daily:
          algorithm: fixed-window
          quota: 5000/d
        ",
    )
    .unwrap();
    assert_eq!(toml, json);
    assert_eq!(toml, yaml);
    let login = toml.get("login").unwrap().members();
    let log = SlidingLog::new(Quota::per_minute(5)).with_max_debt(2);
    assert_eq!(login[1], log.into());
}

#[test]
fn an_application_keeps_its_set_among_other_settings() {
    #[derive(serde::Deserialize)]
    struct Settings {
        listen: String,
        limits: PolicySet,
        everyone: All,
        uploads: Policy,
    }
    let settings: Settings = toml::from_str(
        r#"
        listen = "[::1]:8080"
        everyone = ["1000/s", "10000/min"]
        uploads = "3/min"

        [limits]
        search = "100/min"
        "#,
    )
    .unwrap();
    assert_eq!(settings.listen, "[::1]:8080");
    assert_eq!(settings.limits.len(), 1);
    assert_eq!(settings.everyone.members().len(), 2);
    assert_eq!(settings.uploads, per_minute(3).into());
}

#[test]
fn a_text_is_a_token_bucket() {
    let policy: Policy = serde_json::from_str(r#""100 per minute""#).unwrap();
    assert_eq!(policy, per_minute(100).into());
    let all: All = serde_json::from_str(r#""100/min""#).unwrap();
    assert_eq!(all.members(), [per_minute(100).into()]);
}

#[test]
fn a_list_is_for_all_alone() {
    let list = r#"["100/min", {"algorithm": "token-bucket", "quota": "5/s"}]"#;
    let all: All = serde_json::from_str(list).unwrap();
    let per_second = TokenBucket::new(Quota::per_second(5));
    assert_eq!(all.members(), [per_minute(100).into(), per_second.into()]);
    assert!(serde_json::from_str::<Policy>(list).is_err());
}

#[test]
fn every_algorithm_takes_a_cap_on_debt() {
    for algorithm in Algorithm::ALL {
        let quota = Quota::per_minute(100);
        let table = format!(r#"{{"algorithm": "{algorithm}", "quota": "100/min", "max_debt": 7}}"#);
        let policy: Policy = serde_json::from_str(&table).unwrap();
        let expected: Policy = match algorithm {
            Algorithm::TokenBucket => TokenBucket::new(quota).with_max_debt(7).into(),
            Algorithm::LeakyBucket => LeakyBucket::new(quota).with_max_debt(7).into(),
            Algorithm::FixedWindow => FixedWindow::new(quota).with_max_debt(7).into(),
            Algorithm::SlidingLog => SlidingLog::new(quota).with_max_debt(7).into(),
            _ => SlidingWindowCounter::new(quota).with_max_debt(7).into(),
        };
        assert_eq!(policy, expected, "{algorithm}");
        let store = tollgate::Direct::new(policy);
        assert_eq!(store.charge(1_000, NOW).unrecorded(), 893, "{algorithm}");
        let without = table.replace(r#", "max_debt": 7"#, "");
        let policy: Policy = serde_json::from_str(&without).unwrap();
        assert_eq!(policy, algorithm.policy(quota));
    }
}

/// The message of a set that is not accepted, of all formats that can say it.
fn mistake(json: &str) -> String {
    let told = serde_json::from_str::<PolicySet>(json).unwrap_err();
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    let yaml = yaml_serde::to_string(&value).unwrap();
    let yaml = yaml_serde::from_str::<PolicySet>(&yaml).unwrap_err();
    let toml = toml::to_string(&value).unwrap();
    let toml = toml::from_str::<PolicySet>(&toml).unwrap_err();
    format!("{told}\n----\n{yaml}\n----\n{toml}")
}

#[test]
fn a_mistake_is_told_with_its_path_and_what_would_be_right() {
    let mistakes = [
        // The quota itself.
        (
            r#"{"login": ["1/s", {"algorithm": "token-bucket", "quota": "5/fortnight"}]}"#,
            "login[1].quota: ",
            "5000 per hour",
        ),
        (r#"{"login": ["1/s", "0/min"]}"#, "login[1]: ", "1 or more"),
        (r#"{"search": "100/fortnight"}"#, "search: ", "fortnight"),
        (
            r#"{"a": "1/s", "search": {"algorithm": "token-bucket", "quota": "soon"}}"#,
            "search.quota: ",
            "soon",
        ),
        (
            r#"{"search": {"algorithm": "token-bucket", "quota": 100}}"#,
            "search.quota: ",
            "100",
        ),
        // What belongs to the algorithm.
        (
            r#"{"search": {"algorithm": "token-buckets", "quota": "1/s"}}"#,
            "search.algorithm: ",
            "sliding-window-counter",
        ),
        (
            r#"{"search": {"algorithm": "token-bucket", "quota": "1/s", "burst": 0}}"#,
            "search",
            "a burst from 1",
        ),
        (
            r#"{"login": [{"algorithm": "fixed-window", "quota": "1/s", "burst": 3}]}"#,
            "login[0]",
            "fixed-window takes no `burst`",
        ),
        (
            r#"{"export": {"algorithm": "sliding-log", "quota": "1/s", "resolution": "2s"}}"#,
            "export",
            "coarser than the whole period",
        ),
        (
            r#"{"daily": {"algorithm": "fixed-window", "quota": "1/s", "offset": "soon"}}"#,
            "daily.offset: ",
            "such as \"30s\"",
        ),
        (
            r#"{"a": {"algorithm": "leaky-bucket", "quota": "1/s", "max_debt": 9223372036854775807}}"#,
            "a",
            "2^63 - 1",
        ),
        (
            r#"{"a": {"algorithm": "leaky-bucket", "quota": "1/s", "max_debt": -1}}"#,
            "a.max_debt: ",
            "-1",
        ),
        // The form.
        (
            r#"{"login": ["1/s", {"algorithm": "token-bucket", "quota": "1/s", "brust": 3}]}"#,
            "login[1]",
            "`brust`",
        ),
        (
            r#"{"search": {"algorithm": "token-bucket"}}"#,
            "search",
            "`quota`",
        ),
        (r#"{"search": {"quota": "1/s"}}"#, "search", "`algorithm`"),
        (r#"{"search": {}}"#, "search", "`algorithm`"),
        (r#"{"search": 100}"#, "search: ", "100"),
        (r#"{"search": true}"#, "search: ", "true"),
        (r#"{"login": ["1/s", ["1/min"]]}"#, "login[1]: ", "sequence"),
        (r#"{"search": []}"#, "search: ", "at least one"),
    ];
    for (text, path, told) in mistakes {
        let errors = mistake(text);
        for error in errors.split("----") {
            assert!(
                error.contains(path) && error.contains(told),
                "{text}\n  is told {error}\n  without {path:?} or {told:?}"
            );
        }
    }
}

#[test]
fn one_limit_by_itself_tells_what_is_wrong_with_it() {
    let told = |text| serde_json::from_str::<All>(text).unwrap_err().to_string();
    let error = told(r#"["1/s", {"algorithm": "token-bucket", "quota": "x"}]"#);
    assert!(error.contains("\"x\" is no quota"), "{error}");
    assert!(told("[]").contains("at least one"), "{}", told("[]"));
    assert!(told("3").contains("such as \"100/min\""), "{}", told("3"));
    let error = serde_json::from_str::<Policy>(r#""x/s""#).unwrap_err();
    assert!(error.to_string().contains("\"x/s\" is no quota"), "{error}");
}

#[test]
fn a_name_that_a_file_gives_twice_is_refused() {
    let twice = r#"{"search": "1/s", "login": "1/s", "search": "2/s"}"#;
    let error = serde_json::from_str::<PolicySet>(twice)
        .unwrap_err()
        .to_string();
    assert!(error.contains("search"), "{error}");
}

#[test]
fn an_empty_file_is_an_empty_set() {
    let none: PolicySet = toml::from_str("").unwrap();
    assert_eq!((none.len(), none.iter().count()), (0, 0));
    assert!(none.is_empty());
}

/// What is written is read back as it was, in every format.
fn round_trip<T>(value: &T)
where
    T: serde::Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let json = serde_json::to_string(value).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&json).unwrap(), value, "{json}");
    let yaml = yaml_serde::to_string(value).unwrap();
    assert_eq!(&yaml_serde::from_str::<T>(&yaml).unwrap(), value, "{yaml}");
    // A file of TOML is a table, and here one of the value and a neighbour.
    let file = BTreeMap::from([("one", value), ("two", value)]);
    let toml = toml::to_string(&file).unwrap();
    let read = toml::from_str::<BTreeMap<String, T>>(&toml).unwrap();
    assert_eq!(&read["one"], value, "{toml}");
    assert_eq!(&read["two"], value, "{toml}");
}

#[test]
fn the_example_file_is_written_as_it_was_read() {
    let policies: PolicySet = toml::from_str(EXAMPLE).unwrap();
    round_trip(&policies);
    let toml = toml::to_string(&policies).unwrap();
    assert_eq!(
        toml::from_str::<PolicySet>(&toml).unwrap(),
        policies,
        "{toml}"
    );
    for (_, all) in policies.iter() {
        round_trip(all);
        for policy in all.members() {
            round_trip(policy);
        }
    }
}

#[test]
fn what_is_written_of_any_set_is_read_back() {
    let policy = (
        specs(&Algorithm::ALL),
        prop_oneof![Just(None), any::<u64>().prop_map(Some)],
    );
    let names = prop_oneof![
        Just("login".to_string()),
        "[a-z]{1,6}",
        "[a-zA-Z0-9 ._\\[\\]\"-]{1,8}",
    ];
    let sets = btree_map(names, vec(policy, 1..4), 0..5);
    hold("what is written is read back", 500, sets, |set| {
        let set: BTreeMap<String, All> = set
            .into_iter()
            .map(|(name, members)| {
                let members = members
                    .into_iter()
                    .map(|(spec, debt)| with_max_debt(spec.policy(), debt));
                (name, All::new(members).unwrap())
            })
            .collect();
        let json = serde_json::to_string(&set).unwrap();
        let policies: PolicySet = serde_json::from_str(&json).unwrap();
        for (name, all) in &set {
            prop_assert_eq!(policies.get(name).unwrap().members(), all.members());
        }
        prop_assert_eq!(policies.len(), set.len());
        let again = serde_json::to_string(&policies).unwrap();
        prop_assert_eq!(
            &serde_json::from_str::<PolicySet>(&again).unwrap(),
            &policies
        );
        let toml = toml::to_string(&policies).unwrap();
        prop_assert_eq!(&toml::from_str::<PolicySet>(&toml).unwrap(), &policies);
        let yaml = yaml_serde::to_string(&policies).unwrap();
        prop_assert_eq!(
            &yaml_serde::from_str::<PolicySet>(&yaml).unwrap(),
            &policies
        );
        Ok(())
    });
}

/// As much of it as lies in range.
fn with_max_debt(policy: Policy, debt: Option<u64>) -> Policy {
    let Some(debt) = debt else { return policy };
    let most = Quota::MAX_LIMIT
        - match policy {
            Policy::TokenBucket(rule) => rule.burst(),
            Policy::LeakyBucket(rule) => rule.burst(),
            _ => policy.quota().limit(),
        };
    let debt = debt.min(most);
    match policy {
        Policy::TokenBucket(rule) => rule.with_max_debt(debt).into(),
        Policy::LeakyBucket(rule) => rule.with_max_debt(debt).into(),
        Policy::FixedWindow(rule) => rule.with_max_debt(debt).into(),
        Policy::SlidingLog(rule) => rule.with_max_debt(debt).into(),
        Policy::SlidingWindowCounter(rule) => rule.with_max_debt(debt).into(),
        other => panic!("{other:?} is new here"),
    }
}
