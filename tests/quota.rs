//! `Quota`: what can be built, what people write, and what they are told when it is wrong.

use std::error::Error;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{ParseQuotaError, Quota, QuotaError};

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

// ---------------------------------------------------------------------------------------------------
// In code
// ---------------------------------------------------------------------------------------------------

#[test]
fn a_quota_is_a_limit_and_a_period() {
    const CONSTANT: Quota = Quota::per_minute(100);
    for (quota, limit, period) in [
        (Quota::per_second(10), 10, SECOND),
        (CONSTANT, 100, MINUTE),
        (Quota::per_hour(5_000), 5_000, HOUR),
        (Quota::per_day(1), 1, DAY),
        (Quota::per_day(Quota::MAX_LIMIT), Quota::MAX_LIMIT, DAY),
    ] {
        assert_eq!(
            (quota.limit(), quota.period_ns()),
            (limit, period),
            "{quota}"
        );
        assert_eq!(quota.period(), Duration::from_nanos(period), "{quota}");
        assert_eq!(
            Quota::new(limit, Duration::from_nanos(period)),
            Ok(quota),
            "{quota}"
        );
    }
    assert_eq!(Quota::MAX_LIMIT, (1 << 63) - 1, "the largest limit");
    assert_ne!(
        Quota::per_second(1),
        Quota::per_minute(60),
        "the same rate, but not the same quota"
    );
}

#[test]
fn the_ends_of_the_range_are_in_it() {
    for limit in [1, 2, Quota::MAX_LIMIT - 1, Quota::MAX_LIMIT] {
        for period in [1, 2, SECOND, u64::MAX - 1, u64::MAX] {
            let quota = Quota::new(limit, Duration::from_nanos(period)).expect("in the range");
            assert_eq!((quota.limit(), quota.period_ns()), (limit, period));
        }
    }
}

#[test]
fn each_way_out_of_the_range_has_its_own_error() {
    let beyond = Duration::from_nanos(u64::MAX) + Duration::from_nanos(1);
    for (limit, period, expected) in [
        (0, Duration::from_secs(1), QuotaError::ZeroLimit),
        (1, Duration::ZERO, QuotaError::ZeroPeriod),
        (1 << 63, Duration::from_secs(1), QuotaError::LimitTooLarge),
        (u64::MAX, Duration::from_secs(1), QuotaError::LimitTooLarge),
        (1, beyond, QuotaError::PeriodTooLong),
        (1, Duration::MAX, QuotaError::PeriodTooLong),
    ] {
        let error = Quota::new(limit, period).expect_err("out of the range");
        assert_eq!(error, expected, "limit {limit}, period {period:?}");
        assert_is_an_error_of_one_line(&error);
    }
    // Zero is never "unlimited", and both at once is an error like each alone.
    assert!(matches!(
        Quota::new(0, Duration::ZERO),
        Err(QuotaError::ZeroLimit | QuotaError::ZeroPeriod)
    ));
    let said = |limit, period| {
        Quota::new(limit, period)
            .expect_err("out of the range")
            .to_string()
    };
    assert!(
        said(0, Duration::from_secs(1)).contains("limit of 0"),
        "{}",
        said(0, Duration::from_secs(1))
    );
    assert!(
        said(1, Duration::ZERO).contains("period of 0"),
        "{}",
        said(1, Duration::ZERO)
    );
    assert!(
        said(1 << 63, Duration::from_secs(1)).contains(&Quota::MAX_LIMIT.to_string()),
        "names the largest limit"
    );
    assert!(
        said(1, Duration::MAX).contains(&u64::MAX.to_string()),
        "names the longest period"
    );
}

#[test]
fn a_bad_number_in_code_panics() {
    type Maker = fn(u64) -> Quota;
    let makers: [(&str, Maker); 4] = [
        ("per_second", Quota::per_second),
        ("per_minute", Quota::per_minute),
        ("per_hour", Quota::per_hour),
        ("per_day", Quota::per_day),
    ];
    for (name, make) in makers {
        for (limit, says) in [
            (0, "at least 1"),
            (1 << 63, "at most 2^63 - 1"),
            (u64::MAX, "at most 2^63 - 1"),
        ] {
            let panic = std::panic::catch_unwind(|| make(limit)).expect_err(name);
            let message = panic
                .downcast_ref::<&str>()
                .copied()
                .unwrap_or("a panic without a text");
            assert!(message.contains(says), "{name}({limit}) says {message:?}");
        }
    }
}

// ---------------------------------------------------------------------------------------------------
// As text
// ---------------------------------------------------------------------------------------------------

#[test]
fn what_people_write_is_read() {
    for (text, limit, period) in [
        ("100/min", 100, MINUTE),
        ("10/s", 10, SECOND),
        ("5000 per hour", 5_000, HOUR),
        ("1/30s", 1, 30 * SECOND),
        ("3 per 10ms", 3, 10_000_000),
        // Spacing.
        ("100 / min", 100, MINUTE),
        ("100/ min", 100, MINUTE),
        ("100 /min", 100, MINUTE),
        ("  100/min\t\n", 100, MINUTE),
        ("100  per   min", 100, MINUTE),
        ("100\tper\tmin", 100, MINUTE),
        ("2 / 30 s", 2, 30 * SECOND),
        ("2 per 10 ms", 2, 10_000_000),
        ("1/1h", 1, HOUR),
        ("1 / 1h", 1, HOUR),
        // Case.
        ("100/MIN", 100, MINUTE),
        ("100 Per Minute", 100, MINUTE),
        ("100 PER 2 HOURS", 100, 2 * HOUR),
        // Numbers.
        ("007/s", 7, SECOND),
        ("1_000_000/s", 1_000_000, SECOND),
        ("1/1_500us", 1, 1_500_000),
        ("9223372036854775807/s", Quota::MAX_LIMIT, SECOND),
        (
            "9_223_372_036_854_775_807 per second",
            Quota::MAX_LIMIT,
            SECOND,
        ),
        ("1/18446744073709551615ns", 1, u64::MAX),
        ("1/213503d", 1, 213_503 * DAY),
        ("1/90min", 1, 90 * MINUTE),
        ("1/36h", 1, 36 * HOUR),
    ] {
        let read: Quota = text
            .parse()
            .unwrap_or_else(|error| panic!("{text:?} was refused: {error}"));
        assert_eq!(
            (read.limit(), read.period_ns()),
            (limit, period),
            "{text:?}"
        );
    }
}

#[test]
fn every_unit_has_its_names() {
    for (nanos, names) in [
        (1, &["ns", "nanosecond", "nanoseconds"] as &[&str]),
        // The micro sign and the Greek letter look the same.
        (
            1_000,
            &["us", "\u{b5}s", "\u{3bc}s", "microsecond", "microseconds"],
        ),
        (1_000_000, &["ms", "millisecond", "milliseconds"]),
        (SECOND, &["s", "sec", "second", "seconds"]),
        (MINUTE, &["m", "min", "minute", "minutes"]),
        (HOUR, &["h", "hr", "hour", "hours"]),
        (DAY, &["d", "day", "days"]),
    ] {
        for name in names {
            for (text, count) in [
                (format!("7/{name}"), 1),
                (format!("7 per {name}"), 1),
                (format!("7/1{name}"), 1),
                (format!("7/12{name}"), 12),
                (format!("7 / 12 {name}"), 12),
                (format!("7 per 12 {name}"), 12),
                (format!("7 per 12{}", name.to_uppercase()), 12),
            ] {
                let read: Quota = text
                    .parse()
                    .unwrap_or_else(|error| panic!("{text:?} was refused: {error}"));
                assert_eq!(
                    (read.limit(), read.period_ns()),
                    (7, count * nanos),
                    "{text:?}"
                );
            }
        }
    }
}

#[test]
fn zero_and_too_much_keep_their_own_errors() {
    for (text, expected) in [
        ("0/s", QuotaError::ZeroLimit),
        ("0 per minute", QuotaError::ZeroLimit),
        ("000/min", QuotaError::ZeroLimit),
        ("1/0s", QuotaError::ZeroPeriod),
        ("1 per 0 hours", QuotaError::ZeroPeriod),
        ("9223372036854775808/s", QuotaError::LimitTooLarge),
        ("18446744073709551615/s", QuotaError::LimitTooLarge),
        ("18446744073709551616/s", QuotaError::LimitTooLarge),
        (
            "340282366920938463463374607431768211456/s",
            QuotaError::LimitTooLarge,
        ),
        ("1/18446744073709551616ns", QuotaError::PeriodTooLong),
        ("1/18446744073709551615s", QuotaError::PeriodTooLong),
        ("1/99999999999999999999999s", QuotaError::PeriodTooLong),
        ("1/213504d", QuotaError::PeriodTooLong),
        ("1/18446744073710ms", QuotaError::PeriodTooLong),
    ] {
        let error = refused(text);
        assert_eq!(error.quota_error(), Some(expected), "{text:?}: {error}");
        assert!(
            error.to_string().contains(&expected.to_string()),
            "{text:?}: {error}"
        );
    }
    // Wrong in both: either is right.
    assert!(refused("0/0s").quota_error().is_some());
}

#[test]
fn what_is_no_quota_is_refused_with_what_is_wrong() {
    // The text, and what the message must show as the trouble.
    let mut unclear = Vec::new();
    for (text, shows) in [
        // Nothing, or not enough.
        ("", "empty"),
        ("   ", "empty"),
        ("100", "period is missing"),
        ("100/", "period is missing"),
        ("100 / ", "period is missing"),
        ("100 per", "per"),
        ("100/30", "30"),
        ("100 per 30", "30"),
        // No number, or not a whole one.
        ("/min", "/min"),
        ("min", "min"),
        ("per minute", "per"),
        ("a hundred/min", "a"),
        ("x/s", "x"),
        ("-1/s", "-1"),
        ("+1/s", "+1"),
        ("1.5/s", "1.5"),
        ("1,000/s", "1,000"),
        (".5/s", ".5"),
        ("1e3/s", "1e3"),
        ("0x10/s", "0x10"),
        ("1k/s", "1k"),
        ("∞/s", "∞"),
        ("٣/s", "٣"),
        ("_1/s", "_1"),
        ("1_/s", "1_"),
        ("_/s", "_"),
        ("1 000/s", "000/s"),
        ("- 1/s", "-"),
        // No whole count of units.
        ("1/1.5s", "1.5"),
        ("1/-1s", "-1s"),
        ("1/+1s", "+1s"),
        ("1/1_s", "1_"),
        ("1/_1s", "_1"),
        ("1/1e3s", "e3s"),
        // No unit.
        ("100/fortnight", "fortnight"),
        ("100/week", "week"),
        ("100/month", "month"),
        ("100/mi", "mi"),
        ("100/ps", "ps"),
        ("1 per 30 parsecs", "parsecs"),
        ("1/s30", "s30"),
        // Text that follows.
        ("100/min please", "please"),
        ("100/min/h", "min/h"),
        ("100/min,", "min,"),
        ("100/min;10/s", "min;10/s"),
        ("100/min 10/s", "min 10/s"),
        ("1/30s5", "s5"),
        ("1/1h30m", "h30m"),
        ("100/minminutes", "minminutes"),
        // Other separators.
        ("100:min", "100:min"),
        ("100-min", "100-min"),
        ("100min", "100min"),
        ("100 min", "min"),
        ("100 a minute", "a minute"),
        ("100 in 1 minute", "in 1 minute"),
        ("100@min", "100@min"),
        ("100\\min", "100"),
        ("100//min", "/min"),
        ("100 per per min", "per min"),
        ("100 / per min", "per min"),
        ("100 per / min", "/ min"),
        ("100 requests per minute", "requests per minute"),
        ("100 permin", "permin"),
        ("100per minute", "100per"),
        ("unlimited", "unlimited"),
        ("\"100/min\"", "100"),
    ] {
        let error = refused(text);
        let problem = problem(&error);
        if !problem.contains(shows) {
            unclear.push(format!("{text:?} must show {shows:?}: {problem}"));
        }
        assert_eq!(error.quota_error(), None, "{text:?}: {error}");
    }
    assert!(
        unclear.is_empty(),
        "messages that do not show the trouble:\n{}",
        unclear.join("\n")
    );
}

#[test]
fn an_error_is_short_and_harmless_whatever_the_text() {
    // Control characters are spelled out: no new line, no bell, no escape sequence for a terminal to obey.
    for (text, spelled) in [
        ("100\n/fort\nnight", r"fort\nnight"),
        ("100/\u{7}s", r"\u{7}s"),
        ("100/\u{1b}[31ms", r"\u{1b}[31ms"),
        ("100/s\0", r"s\0"),
        ("\u{9b}1/s", r"\u{9b}1"),
        ("1\u{7f}/s", r"1\u{7f}"),
        ("100/a\tb", r"a\tb"),
        ("100/a\rb", r"a\rb"),
    ] {
        let error = refused(text);
        assert!(problem(&error).contains(spelled), "{text:?}: {error}");
    }
    // A file read into the wrong variable does not fill the log.
    for long in [
        "x".repeat(100_000),
        format!("100/{}", "y".repeat(100_000)),
        "9".repeat(100_000),
        "µ".repeat(100_000),
    ] {
        let length = refused(&long).to_string().chars().count();
        assert!(length < 600, "a message of {length} characters");
    }
    // Where it was shortened it says so; what fits is shown whole.
    assert!(refused(&"x".repeat(100_000)).to_string().contains('…'));
    assert!(!refused("100/fortnight").to_string().contains('…'));
    assert!(
        refused("100/fortnight")
            .to_string()
            .contains("\"100/fortnight\"")
    );
}

#[test]
fn a_quota_is_written_as_people_write_it() {
    for (quota, text) in [
        (Quota::per_second(10), "10/s"),
        (Quota::per_minute(100), "100/min"),
        (Quota::per_hour(5_000), "5000/h"),
        (Quota::per_day(1), "1/d"),
        (of(1, 30 * SECOND), "1/30s"),
        (of(3, 10_000_000), "3/10ms"),
        (of(2, 90 * SECOND), "2/90s"),
        (of(2, 36 * HOUR), "2/36h"),
        (of(1, 1_500_000), "1/1500us"),
        (of(1, 1), "1/ns"),
        (
            of(Quota::MAX_LIMIT, u64::MAX),
            "9223372036854775807/18446744073709551615ns",
        ),
    ] {
        assert_eq!(quota.to_string(), text);
        assert_eq!(text.parse(), Ok(quota), "{text}");
        assert!(format!("{quota:?}").contains(text), "{quota:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_096, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever quota is written is read back as itself.
    #[test]
    fn display_round_trips((limit, period) in (limits(), periods())) {
        let quota = of(limit, period);
        let text = quota.to_string();
        prop_assert_eq!(text.parse(), Ok(quota), "{}", text);
        prop_assert_eq!(text.trim(), &text, "no spaces around it");
        prop_assert!(text.is_ascii(), "{}", text);
    }

    /// However a quota within the range is spelled, it is read as what it says, and one beyond it keeps its own error.
    #[test]
    fn what_is_spelled_right_is_read(
        limit in prop_oneof![any::<u64>(), limits(), Just(0)],
        count in prop_oneof![0..=5u64, any::<u64>()],
        (name, nanos) in prop::sample::select(vec![
            ("ns", 1), ("us", 1_000), ("µs", 1_000), ("ms", 1_000_000), ("s", SECOND), ("sec", SECOND), ("Seconds", SECOND),
            ("m", MINUTE), ("min", MINUTE), ("MINUTES", MINUTE), ("h", HOUR), ("hr", HOUR), ("hour", HOUR), ("d", DAY), ("days", DAY),
        ]),
        by in prop::sample::select(vec!["/", " / ", " /", "/ ", " per ", "  PER\t"]),
        gap in prop::sample::select(vec!["", " ", "  "]),
    ) {
        let text = format!("{limit}{by}{count}{gap}{name}");
        let period = u128::from(count) * u128::from(nanos);
        let read = text.parse::<Quota>();
        match (u64::try_from(period), &read) {
            (Ok(period), Ok(quota)) => {
                prop_assert_eq!((quota.limit(), quota.period_ns()), (limit, period), "{}", text);
                prop_assert!((1..=Quota::MAX_LIMIT).contains(&limit) && period > 0, "{} was read", text);
            }
            (period, Err(error)) => {
                let expected = match (limit, period) {
                    (0, _) => QuotaError::ZeroLimit,
                    (_, Err(_)) => QuotaError::PeriodTooLong,
                    (_, Ok(0)) => QuotaError::ZeroPeriod,
                    _ => QuotaError::LimitTooLarge,
                };
                // Two faults: either may be named.
                let faults = [limit == 0, limit > Quota::MAX_LIMIT, period == Ok(0), period.is_err()];
                let only = faults.iter().filter(|&&fault| fault).count() == 1;
                prop_assert!(faults.contains(&true), "{} was refused: {}", text, error);
                let named = error.quota_error();
                prop_assert!(named.is_some() && (!only || named == Some(expected)), "{}: {}", text, error);
            }
            (Err(_), Ok(_)) => prop_assert!(false, "{} was read: {:?}", text, read),
        }
    }

    /// No text makes the parser panic, and every error is one short harmless line that shows a right example.
    #[test]
    fn no_text_panics(text in any_text()) {
        match text.parse::<Quota>() {
            Ok(quota) => prop_assert_eq!(quota.to_string().parse(), Ok(quota)),
            Err(error) => assert_is_a_helpful_error(&error),
        }
    }
}

/// Anything, and what is nearly a quota.
fn any_text() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "0",
        "1",
        "9",
        "100",
        "1_0",
        "_",
        "-",
        "+",
        ".",
        ",",
        "/",
        "per",
        "Per",
        "p",
        "pe",
        " ",
        "\t",
        "\n",
        "s",
        "ms",
        "min",
        "µs",
        "d",
        "days",
        "é",
        "İ",
        "ſ",
        "K",
        "ß",
        "\u{0}",
        "\u{1b}[",
        "\u{202e}",
        "\u{301}",
        "𝟙",
        "9223372036854775807",
        "18446744073709551616",
        "\"",
        "\\",
        "'",
    ]);
    prop_oneof![
        any::<String>(),
        ".{0,200}",
        "[0-9_]{0,25} ?(/|per|PER)? ?[0-9_]{0,25} ?[a-zµ]{0,12}",
        prop::collection::vec(pieces, 0..12).prop_map(|pieces| pieces.concat()),
    ]
}

fn limits() -> impl Strategy<Value = u64> {
    prop_oneof![
        1..=1_000u64,
        1..=Quota::MAX_LIMIT,
        Just(1),
        Just(Quota::MAX_LIMIT),
        (0..63u32).prop_map(|bit| 1 << bit)
    ]
}

fn periods() -> impl Strategy<Value = u64> {
    let unit = prop::sample::select(vec![1, 1_000, 1_000_000, SECOND, MINUTE, HOUR, DAY]);
    prop_oneof![
        1..=u64::MAX,
        1..=10_000u64,
        Just(u64::MAX),
        (unit, 1..=200_000u64).prop_map(|(unit, count)| unit * count),
    ]
}

// ---------------------------------------------------------------------------------------------------
// What is asked of an error
// ---------------------------------------------------------------------------------------------------

fn of(limit: u64, period: u64) -> Quota {
    Quota::new(limit, Duration::from_nanos(period)).expect("a quota within the range")
}

fn refused(text: &str) -> ParseQuotaError {
    match text.parse::<Quota>() {
        Ok(quota) => panic!("{text:?} was read as {quota}"),
        Err(error) => {
            assert_is_a_helpful_error(&error);
            error
        }
    }
}

/// The part of the message between the text and the right examples.
fn problem(error: &ParseQuotaError) -> String {
    let said = error.to_string();
    let (_, problem) = said
        .split_once(" is no quota: ")
        .unwrap_or_else(|| panic!("{said}"));
    let (problem, _) = problem
        .rsplit_once("; ")
        .unwrap_or_else(|| panic!("{said}"));
    problem.to_string()
}

fn assert_is_a_helpful_error(error: &ParseQuotaError) {
    assert_is_an_error_of_one_line(error);
    let said = error.to_string();
    // However much of the text has to be spelled out.
    assert!(said.chars().count() < 2_000, "{said}");
    // It ends with examples, and they are right.
    let (_, advice) = said
        .rsplit_once("; ")
        .unwrap_or_else(|| panic!("no advice: {said}"));
    let examples: Vec<&str> = advice.split('"').skip(1).step_by(2).collect();
    assert!(!examples.is_empty(), "no right example: {said}");
    for example in examples {
        assert!(
            example.parse::<Quota>().is_ok(),
            "its example {example:?} is wrong: {said}"
        );
    }
}

fn assert_is_an_error_of_one_line<E: Error + Send + Sync + 'static>(error: &E) {
    let said = error.to_string();
    assert!(
        !said.is_empty() && !said.chars().any(char::is_control),
        "not one harmless line: {said:?}"
    );
}
