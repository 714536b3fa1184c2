//! Decisions as header fields, as independent parsers and other people's clients read them: rows 48 and 49 of `EDGE_CASES.md`.

#![cfg(feature = "http")]

use std::time::Duration;

use http::HeaderMap;
use sfv::{BareItem, ListEntry, Parser};
use tollgate::http::{FieldError, QuotaFields, QuotaStyle, XReset, is_grpc};
use tollgate::{
    Algorithm, Decision, Direct, FixedWindow, Keyed, Limiter, Quota, Timestamp, TokenBucket,
};

const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

const ALL_STYLES: [&[QuotaStyle]; 6] = [
    &[QuotaStyle::Draft11],
    &[QuotaStyle::Draft07],
    &[QuotaStyle::Draft06],
    &[QuotaStyle::XRateLimit(XReset::Epoch)],
    &[QuotaStyle::XRateLimit(XReset::Delta), QuotaStyle::Draft11],
    &[],
];

fn written(fields: &QuotaFields, decision: &Decision, members: &[Decision]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    fields.write_each(decision, members, NOW, &mut headers);
    headers
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers
        .get(name)
        .map_or("", |value| value.to_str().unwrap())
}

/// What a structured-field parser makes of a list: names with their parameters.
fn parsed(headers: &HeaderMap, name: &str) -> Vec<(String, Vec<(String, i64)>)> {
    let lines: Vec<_> = headers.get_all(name).iter().collect();
    let line = lines
        .iter()
        .map(|line| line.to_str().unwrap())
        .collect::<Vec<_>>()
        .join(", ");
    let list: sfv::List = Parser::new(&line)
        .parse()
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    list.iter()
        .map(|entry| {
            let ListEntry::Item(item) = entry else {
                panic!("{line}: a list within it");
            };
            let BareItem::String(name) = &item.bare_item else {
                panic!("{line}: no string");
            };
            let params = item.params.iter().map(|(key, value)| {
                let BareItem::Integer(number) = value else {
                    panic!("{line}: no number");
                };
                (key.to_string(), i64::from(*number))
            });
            (name.to_string(), params.collect())
        })
        .collect()
}

fn item(name: &str, params: &[(&str, i64)]) -> (String, Vec<(String, i64)>) {
    let params = params.iter().map(|&(key, value)| (key.to_owned(), value));
    (name.to_owned(), params.collect())
}

#[test]
fn several_limits_are_several_items_of_a_list() {
    let quotas = [Quota::per_minute(100), Quota::per_day(1_000)];
    let fields = QuotaFields::new("burst", quotas[0])
        .unwrap()
        .and("daily", quotas[1])
        .unwrap();
    let limits = (TokenBucket::new(quotas[0]), FixedWindow::new(quotas[1]));
    let limiter: Keyed<String, _> = Keyed::new(limits);
    let mut members = Vec::new();
    let decision = limiter
        .check_each("ada", 100, NOW, |_, member| members.push(member))
        .unwrap();
    let headers = written(&fields, &decision, &members);
    assert_eq!(
        text(&headers, "ratelimit-policy"),
        "\"burst\";q=100;w=60, \"daily\";q=1000;w=86400"
    );
    let policies = [
        item("burst", &[("q", 100), ("w", 60)]),
        item("daily", &[("q", 1_000), ("w", 86_400)]),
    ];
    assert_eq!(parsed(&headers, "ratelimit-policy"), policies);
    // Of the day 900 are left, to be used in no less than nine tenths of it.
    let left = [
        item("burst", &[("r", 0), ("t", 1)]),
        item("daily", &[("r", 900), ("t", 77_760)]),
    ];
    assert_eq!(parsed(&headers, "ratelimit"), left);
    assert_eq!(text(&headers, "retry-after"), "", "it was allowed");

    members.clear();
    let refused = limiter
        .check_each("ada", 2, NOW, |_, member| members.push(member))
        .unwrap();
    let headers = written(&fields, &refused, &members);
    let left = [
        item("burst", &[("r", 0), ("t", 2)]),
        item("daily", &[("r", 900), ("t", 77_760)]),
    ];
    assert_eq!(parsed(&headers, "ratelimit"), left);
    assert_eq!(text(&headers, "retry-after"), "2");
    // Without what each says, the one that has refused is told.
    let headers = written(&fields, &refused, &[]);
    assert_eq!(
        parsed(&headers, "ratelimit"),
        [item("burst", &[("r", 0), ("t", 2)])]
    );
}

/// Row 48. `tower_governor` says `Retry-After: 0` for every wait below a second.
#[test]
fn a_wait_is_told_in_whole_seconds_rounded_up_and_never_zero() {
    for (wait_ms, told) in [
        (1, "1"),
        (200, "1"),
        (1_000, "1"),
        (2_000, "2"),
        (2_500, "3"),
    ] {
        let quota = Quota::new(1, Duration::from_millis(wait_ms)).unwrap();
        let limiter = Direct::new(TokenBucket::new(quota));
        assert!(limiter.allow(NOW));
        for styles in ALL_STYLES {
            let fields = QuotaFields::new("q", quota)
                .unwrap()
                .with_styles(styles.iter().copied())
                .unwrap();
            let headers = written(&fields, &limiter.check(NOW), &[]);
            assert_eq!(
                text(&headers, "retry-after"),
                told,
                "{wait_ms} ms, {styles:?}"
            );
        }
        let back = NOW + Duration::from_secs(told.parse().unwrap());
        assert!(
            limiter.peek(back).is_allowed(),
            "at the second that it was told"
        );
    }
}

/// Whatever the rule and however much is used: nobody is told to come back too early, and what is left at the rate that the field
/// suggests is never more than the quota.
#[test]
fn no_field_promises_too_much() {
    for algorithm in Algorithm::ALL {
        for (limit, period_ms) in [
            (1, 100),
            (3, 1_000),
            (10, 7_300),
            (100, 60_000),
            (5, 86_400_000),
        ] {
            let quota = Quota::new(limit, Duration::from_millis(period_ms)).unwrap();
            let limiter = Direct::new(algorithm.policy(quota));
            for step in 0..200_u64 {
                let now = NOW + Duration::from_millis(step * period_ms / 37);
                let decision = limiter.check(now);
                for styles in ALL_STYLES {
                    let fields = QuotaFields::new("q", quota).unwrap();
                    let fields = fields.with_styles(styles.iter().copied()).unwrap();
                    let mut headers = HeaderMap::new();
                    fields.write(&decision, now, &mut headers);
                    hold_to_it(&headers, styles, &limiter, &decision, quota, now);
                }
            }
        }
    }
}

fn hold_to_it<L: Limiter>(
    headers: &HeaderMap,
    styles: &[QuotaStyle],
    limiter: &Direct<L>,
    decision: &Decision,
    quota: Quota,
    now: Timestamp,
) {
    let what = format!("{styles:?} {decision:?} {quota} {headers:?}");
    let mut pairs = Vec::new();
    let number = |name: &str| text(headers, name).parse::<u64>().ok();
    if styles.contains(&QuotaStyle::Draft11) {
        let list = parsed(headers, "ratelimit");
        let params = &list[0].1;
        assert_eq!((&*params[0].0, &*params[1].0), ("r", "t"), "{what}");
        pairs.push((params[0].1 as u64, params[1].1 as u64));
    }
    if let (Some(left), Some(reset)) = (number("ratelimit-remaining"), number("ratelimit-reset")) {
        pairs.push((left, reset));
    }
    if let (Some(left), Some(reset)) =
        (number("x-ratelimit-remaining"), number("x-ratelimit-reset"))
    {
        let delta = if styles.contains(&QuotaStyle::XRateLimit(XReset::Delta)) {
            reset
        } else {
            (Timestamp::from_secs(reset).saturating_duration_since(now))
                .as_secs_f64()
                .ceil() as u64
        };
        pairs.push((left, delta.max(1)));
    }
    for (left, seconds) in pairs {
        assert_eq!(
            left,
            if decision.is_allowed() {
                decision.remaining()
            } else {
                0
            },
            "{what}"
        );
        assert!(seconds >= 1, "{what}");
        // left / seconds <= limit / period
        let suggested = u128::from(left) * u128::from(quota.period().as_nanos() as u64);
        let allowed = u128::from(seconds) * 1_000_000_000 * u128::from(quota.limit());
        assert!(suggested <= allowed, "{what}");
        if !decision.is_allowed() {
            assert!(
                limiter
                    .peek(now + Duration::from_secs(seconds))
                    .is_allowed(),
                "{what}"
            );
        }
    }
    match number("retry-after") {
        Some(seconds) => {
            assert!(!decision.is_allowed() && seconds >= 1, "{what}");
            assert!(
                limiter
                    .peek(now + Duration::from_secs(seconds))
                    .is_allowed(),
                "{what}"
            );
        }
        None => assert!(decision.is_allowed(), "{what}"),
    }
}

/// Exact bytes, as the drafts have them.
#[test]
fn each_style_has_its_syntax() {
    let quota = Quota::per_minute(100);
    let limiter = Direct::new(FixedWindow::new(quota));
    // 20 s into its window.
    let decision = limiter.check_n(50, NOW).unwrap();
    let styled = |style| {
        let fields = QuotaFields::new("default", quota)
            .unwrap()
            .with_styles([style])
            .unwrap();
        written(&fields, &decision, &[])
    };
    let headers = styled(QuotaStyle::Draft11);
    assert_eq!(text(&headers, "ratelimit-policy"), "\"default\";q=100;w=60");
    assert_eq!(text(&headers, "ratelimit"), "\"default\";r=50;t=40");
    let headers = styled(QuotaStyle::Draft07);
    assert_eq!(text(&headers, "ratelimit-policy"), "100;w=60");
    assert_eq!(
        text(&headers, "ratelimit"),
        "limit=100, remaining=50, reset=40"
    );
    let headers = styled(QuotaStyle::Draft06);
    let names = [
        "ratelimit-limit",
        "ratelimit-remaining",
        "ratelimit-reset",
        "ratelimit-policy",
    ];
    assert_eq!(
        names.map(|name| text(&headers, name)),
        ["100", "50", "40", "100;w=60"]
    );
    let headers = styled(QuotaStyle::XRateLimit(XReset::Epoch));
    let names = [
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
    ];
    assert_eq!(
        names.map(|name| text(&headers, name)),
        ["100", "50", "1700000040"]
    );
    let headers = styled(QuotaStyle::XRateLimit(XReset::Delta));
    assert_eq!(names.map(|name| text(&headers, name)), ["100", "50", "40"]);
}

/// Row 49.
#[test]
fn what_a_field_cannot_carry_is_clamped_or_refused() {
    let quota = Quota::new(
        Quota::MAX_LIMIT,
        Duration::from_secs(u64::MAX / 1_000_000_000),
    )
    .unwrap();
    let limiter = Direct::new(TokenBucket::new(quota));
    for styles in ALL_STYLES {
        let fields = QuotaFields::new("vast", quota)
            .unwrap()
            .with_styles(styles.iter().copied())
            .unwrap();
        let headers = written(&fields, &limiter.check(NOW), &[]);
        for (_, value) in &headers {
            let digits = value.to_str().unwrap().split(|c: char| !c.is_ascii_digit());
            assert!(
                digits.map(str::len).all(|digits| digits <= 15),
                "{headers:?}"
            );
        }
        if styles.contains(&QuotaStyle::Draft11) {
            assert_eq!(
                parsed(&headers, "ratelimit-policy")[0].1[0],
                ("q".to_owned(), 999_999_999_999_999)
            );
        }
    }
    let quota = Quota::per_second(1);
    for name in ["", "t\u{e9}st", "a\nb", "a\tb", "\u{7f}"] {
        assert!(
            matches!(QuotaFields::new(name, quota), Err(FieldError::Name(_))),
            "{name:?}"
        );
    }
    let named = QuotaFields::new("a \"b\" \\c", quota).unwrap();
    assert!(matches!(
        named.clone().and("a \"b\" \\c", quota),
        Err(FieldError::Twice(_))
    ));
    let headers = written(
        &named,
        &Direct::new(TokenBucket::new(quota)).check(NOW),
        &[],
    );
    assert_eq!(parsed(&headers, "ratelimit")[0].0, "a \"b\" \\c");
    // A period that is no whole number of seconds has no `w`.
    let odd =
        QuotaFields::new("odd", Quota::new(3, Duration::from_millis(1_500)).unwrap()).unwrap();
    let headers = written(&odd, &Direct::new(TokenBucket::new(quota)).check(NOW), &[]);
    assert_eq!(text(&headers, "ratelimit-policy"), "\"odd\";q=3");
    for [one, other] in [
        [QuotaStyle::Draft11, QuotaStyle::Draft07],
        [QuotaStyle::Draft07, QuotaStyle::Draft06],
        [QuotaStyle::Draft06, QuotaStyle::Draft11],
        [
            QuotaStyle::XRateLimit(XReset::Epoch),
            QuotaStyle::XRateLimit(XReset::Delta),
        ],
    ] {
        let clash = odd.clone().with_styles([one, other]);
        assert_eq!(clash, Err(FieldError::Clash(one, other)));
    }
}

/// One limit behind another: all of them are told where a field is a list, and otherwise what leaves less.
#[test]
fn limits_one_behind_the_other_do_not_hide_each_other() {
    let (tight, wide) = (Quota::per_minute(1), Quota::per_minute(100));
    let (inner, outer) = (
        Direct::new(TokenBucket::new(tight)),
        Direct::new(TokenBucket::new(wide)),
    );
    assert!(inner.allow(NOW));
    for styles in ALL_STYLES {
        let fields = |name, quota| {
            QuotaFields::new(name, quota)
                .unwrap()
                .with_styles(styles.iter().copied())
                .unwrap()
        };
        let mut headers = HeaderMap::new();
        fields("tight", tight).write(&inner.check(NOW), NOW, &mut headers);
        let refused = headers.clone();
        fields("wide", wide).write(&outer.check(NOW), NOW, &mut headers);
        for name in [
            "retry-after",
            "x-ratelimit-remaining",
            "x-ratelimit-limit",
            "ratelimit-remaining",
        ] {
            assert_eq!(text(&headers, name), text(&refused, name), "{styles:?}");
        }
        if styles.contains(&QuotaStyle::Draft11) {
            let names: Vec<_> = parsed(&headers, "ratelimit")
                .into_iter()
                .map(|item| item.0)
                .collect();
            assert_eq!(names, ["tight", "wide"]);
        }
        if styles.contains(&QuotaStyle::Draft07) {
            assert_eq!(text(&headers, "ratelimit"), text(&refused, "ratelimit"));
        }
    }
}

#[test]
fn a_refusal_is_a_problem_that_names_the_limit() {
    let quotas = [Quota::per_minute(60), Quota::per_day(60)];
    let limiter = Direct::new((
        TokenBucket::new(quotas[0]).with_burst(60),
        FixedWindow::new(quotas[1]),
    ));
    let fields = QuotaFields::new("min\"ute", quotas[0])
        .unwrap()
        .and("day", quotas[1])
        .unwrap();
    assert!(limiter.check_n(60, NOW).unwrap().is_allowed());
    let mut members = Vec::new();
    let refused = limiter
        .check_each(1, NOW, |_, member| members.push(member))
        .unwrap();
    let response = fields.refusal(&refused, &members, NOW);
    assert_eq!(response.status(), 429);
    assert_eq!(
        response.headers()["content-type"],
        "application/problem+json"
    );
    assert_eq!(response.headers()["cache-control"], "no-store");
    let problem: serde_json::Value = serde_json::from_str(response.body()).unwrap();
    assert_eq!(
        problem["type"],
        "https://iana.org/assignments/http-problem-types#quota-exceeded"
    );
    assert_eq!(problem["status"], 429);
    assert_eq!(
        problem["violated-policies"],
        serde_json::json!(["min\"ute", "day"])
    );
    // Not before the day is over, whatever the minute would allow.
    let seconds: u64 = text(response.headers(), "retry-after").parse().unwrap();
    assert!(
        limiter
            .peek(NOW + Duration::from_secs(seconds))
            .is_allowed()
    );
    assert!(
        !limiter
            .peek(NOW + Duration::from_secs(seconds - 1))
            .is_allowed()
    );
}

/// The bytes that tonic's own types encode for 1.25 s.
#[test]
fn a_grpc_refusal_is_what_a_grpc_client_reads() {
    let quota = Quota::new(1, Duration::from_millis(1_250)).unwrap();
    let limiter = Direct::new(TokenBucket::new(quota));
    let fields = QuotaFields::new("default", quota).unwrap();
    assert!(limiter.allow(NOW));
    let response = fields.grpc_refusal(&limiter.check(NOW), &[], NOW);
    assert_eq!(response.status(), 200);
    let headers = response.headers();
    assert_eq!(headers["content-type"], "application/grpc");
    assert_eq!(headers["grpc-status"], "8");
    assert_eq!(headers["grpc-message"], "rate%20limit%20exceeded");
    assert_eq!(headers["grpc-retry-pushback-ms"], "1250");
    assert_eq!(
        headers["grpc-status-details-bin"],
        "CAgSE3JhdGUgbGltaXQgZXhjZWVkZWQaNQoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIJCgcIARCA5Zp3"
    );
    // A wait that 32 bits cannot hold must not read as "never again".
    let long = Direct::new(TokenBucket::new(
        Quota::new(1, Duration::from_secs(1 << 33)).unwrap(),
    ));
    assert!(long.allow(NOW));
    let response = fields.grpc_refusal(&long.check(NOW), &[], NOW);
    assert_eq!(
        response.headers()["grpc-retry-pushback-ms"],
        i32::MAX.to_string().as_str()
    );

    let content_type = |value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", value.parse().unwrap());
        is_grpc(&headers)
    };
    for grpc in [
        "application/grpc",
        "Application/gRPC+proto",
        "application/grpc;charset=utf-8",
        "application/grpc-web",
    ] {
        assert!(content_type(grpc), "{grpc}");
    }
    for other in [
        "application/json",
        "application/grpcx",
        "application",
        "text/html",
    ] {
        assert!(!content_type(other), "{other}");
    }
    assert!(!is_grpc(&HeaderMap::new()));
}

/// What other people's clients make of it, by their own parsing rules.
#[test]
fn common_clients_read_what_is_meant() {
    let quota = Quota::per_minute(1);
    let limiter = Direct::new(FixedWindow::new(quota));
    assert!(limiter.allow(NOW));
    let refused = limiter.check(NOW);
    let fields = QuotaFields::new("default", quota)
        .unwrap()
        .with_styles([QuotaStyle::XRateLimit(XReset::Epoch), QuotaStyle::Draft11])
        .unwrap();
    let headers = written(&fields, &refused, &[]);
    let wait = refused.retry_after().as_secs_f64();
    let retry_after = text(&headers, "retry-after");
    // Octokit: `Number(header)`, and `~~reset * 1000` beside `remaining === "0"`.
    assert!(
        retry_after
            .parse::<f64>()
            .is_ok_and(|seconds| seconds >= wait)
    );
    assert_eq!(text(&headers, "x-ratelimit-remaining"), "0");
    let reset: f64 = text(&headers, "x-ratelimit-reset").parse().unwrap();
    assert!(reset - NOW.as_nanos() as f64 / 1e9 >= wait);
    // urllib3: `^\s*[0-9]+\s*$`, and 0 is ignored.
    assert!(retry_after.bytes().all(|byte| byte.is_ascii_digit()) && retry_after != "0");
    // openai-python: a float of seconds above zero.
    assert!(retry_after.parse::<f64>().unwrap() > 0.0);
}
