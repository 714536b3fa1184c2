//! The example `replay`, run as a process on real and odd input, and its parser.
#![cfg(feature = "std")]

use std::{
    fmt::Debug,
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
    thread,
    time::SystemTime,
};

use proptest::prelude::*;
use serde_json::Value;
use tollgate::Timestamp;

#[allow(dead_code)]
#[path = "../examples/replay/log.rs"]
mod log;
#[allow(dead_code)]
#[path = "../examples/make_sample_log.rs"]
mod make_sample_log;
#[allow(dead_code)]
#[path = "../examples/replay/measure.rs"]
mod measure;
#[allow(dead_code)]
#[path = "../examples/replay/when.rs"]
mod when;

use log::{Log, Why};
use when::BadStamp;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const ALGORITHMS: [&str; 5] = [
    "token-bucket",
    "leaky-bucket",
    "fixed-window",
    "sliding-log",
    "sliding-window-counter",
];
const KEYS: [&str; 7] = [
    "algorithm",
    "allowed",
    "denied",
    "limited_clients",
    "most_in_a_period",
    "bytes_per_client",
    "ns_per_decision",
];

// ---- the process ----

/// A built example of this package, beside the test that is running.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("target/<profile>/deps/<test>");
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let built = profile.join("examples").join(file);
    // `cargo test` builds the examples first; `cargo test --test replay` does not.
    if !built.exists() || is_older_than_its_source(&built) {
        let profile = profile.file_name().and_then(|name| name.to_str());
        let profile = profile.filter(|&name| name != "debug").unwrap_or("dev");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "--profile", profile]);
        cargo.args(["--example", name]).current_dir(ROOT);
        let status = cargo.status().expect("cargo runs");
        assert!(status.success(), "cargo could not build the example {name}");
    }
    assert!(
        built.exists(),
        "{} is missing: run `cargo build --example {name}`, then this test again",
        built.display()
    );
    built
}

fn is_older_than_its_source(built: &Path) -> bool {
    let built = built.metadata().and_then(|about| about.modified());
    let source = last_change(&Path::new(ROOT).join("examples"));
    matches!((built, source), (Ok(built), Ok(source)) if built < source)
}

fn last_change(folder: &Path) -> io::Result<SystemTime> {
    let mut last = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        let change = if about.is_dir() {
            last_change(&entry.path())?
        } else {
            about.modified()?
        };
        last = last.max(change);
    }
    Ok(last)
}

fn replay() -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let mut command = Command::new(BUILT.get_or_init(|| example("replay")));
    command.stdin(Stdio::null());
    command
}

/// Runs it on `input` at standard input.
fn replay_on(input: &[u8], arguments: &[&str]) -> Output {
    let mut command = replay();
    command.args(arguments).arg("-");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("replay starts");
    let mut pipe = child.stdin.take().expect("its standard input");
    thread::scope(|scope| {
        scope.spawn(move || pipe.write_all(input));
        child.wait_with_output().expect("replay ends")
    })
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn json(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    rows.as_array().expect("an array").clone()
}

/// allowed, denied, limited clients, most in a period: of each algorithm in turn.
fn counts(output: &Output) -> Vec<[u64; 4]> {
    let number = |row: &Value, key: &str| row[key].as_u64().expect("a whole number");
    let keys = ["allowed", "denied", "limited_clients", "most_in_a_period"];
    json(output)
        .iter()
        .map(|row| keys.map(|key| number(row, key)))
        .collect()
}

/// A folder of its own for a test's files, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("tollgate-replay-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a temporary folder");
        Self(folder)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

// ---- the main job ----

#[test]
fn the_sample_is_what_its_maker_makes() {
    let kept = fs::read(Path::new(ROOT).join("examples/data/sample-access.log"));
    assert!(
        kept.expect("the sample") == make_sample_log::sample().into_bytes(),
        "examples/data/sample-access.log differs from what examples/make_sample_log.rs makes"
    );
}

#[test]
fn the_sample_shows_how_the_algorithms_differ() {
    let output = replay().arg("--json").output().expect("replay runs");
    let counts = counts(&output);
    assert_eq!(
        counts,
        [
            [2687, 465, 3, 198],
            [2687, 465, 3, 198],
            [2755, 397, 3, 190],
            [2387, 765, 4, 100],
            [2455, 697, 4, 149],
        ]
    );
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn json_has_a_row_for_each_algorithm_with_exactly_the_keys_promised() {
    let output = replay().arg("--json").output().expect("replay runs");
    let rows = json(&output);
    for (row, name) in rows.iter().zip(ALGORITHMS) {
        let row = row.as_object().expect("an object");
        let mut keys: Vec<_> = row.keys().map(String::as_str).collect();
        let mut expected = KEYS;
        keys.sort_unstable();
        expected.sort_unstable();
        assert_eq!(keys, expected);
        assert_eq!(row["algorithm"], name);
        assert!(KEYS[1..].iter().all(|&key| row[key].is_number()));
        assert!(row["ns_per_decision"].as_f64().is_some_and(|ns| ns > 0.0));
    }
    assert_eq!(rows.len(), 5);
    assert_eq!(rows[0]["bytes_per_client"], 16);
    assert_eq!(rows[1]["bytes_per_client"], 16);
}

#[test]
fn a_real_log_gives_the_known_counts() {
    let real = Path::new(ROOT).join("../shared/data/access-10k.log");
    if !real.exists() {
        eprintln!("skipped: {} is absent", real.display());
        return;
    }
    let known = [
        (
            "10/min",
            [
                [8987, 1013, 54],
                [8987, 1013, 54],
                [8271, 1729, 79],
                [8271, 1729, 79],
                [8271, 1729, 79],
            ],
        ),
        (
            "100/h",
            [
                [9993, 7, 1],
                [9993, 7, 1],
                [9992, 8, 1],
                [9990, 10, 1],
                [9888, 112, 2],
            ],
        ),
    ];
    for (quota, expected) in known {
        let mut command = replay();
        command.args(["--json", "--quota", quota]).arg(&real);
        let counts = counts(&command.output().expect("replay runs"));
        let counts: Vec<_> = counts.iter().map(|&[a, d, l, _]| [a, d, l]).collect();
        assert_eq!(counts, expected, "{quota}");
    }
}

#[test]
fn at_a_minutes_edge_only_the_fixed_window_allows_both_bursts() {
    let output = replay().args(["--scenario", "edge", "--json"]).output();
    assert_eq!(
        counts(&output.expect("replay runs")),
        [
            [100, 100, 1, 100],
            [100, 100, 1, 100],
            [200, 0, 0, 200],
            [100, 100, 1, 100],
            [100, 100, 1, 100],
        ]
    );
    let told = replay()
        .args(["--scenario=edge", "--quota=100/min"])
        .output();
    let told = told.expect("replay runs");
    let told = text(&told.stdout);
    for sentence in [
        "fixed-window           200 = 100 + 100",
        "sliding-log            100 = 100 +   0",
        "the last of it 59.4 s",
        "100 × 59.9/60 = 99.8",
    ] {
        assert!(told.contains(sentence), "{sentence:?} in:\n{told}");
    }
    // Sixty more than the first burst needs: as many of the second pass.
    let output = replay()
        .args(["--scenario", "edge", "--json", "--burst", "160"])
        .output();
    assert_eq!(counts(&output.expect("replay runs"))[0][0], 160);
}

#[test]
fn the_table_names_the_log_and_where_the_trap_shows() {
    let output = replay().output().expect("replay runs");
    let said = text(&output.stdout);
    for part in [
        "examples/data/sample-access.log",
        "3152 requests of 45 clients",
        "0 lines did not parse",
        "100/min",
        "sliding-window-counter",
        "2001:db8:bad:cafe::99 through 190 times",
    ] {
        assert!(said.contains(part), "{part:?} in:\n{said}");
    }
}

#[test]
fn algorithms_come_as_asked_and_once_and_burst_is_the_buckets_alone() {
    let mut command = replay();
    command.args([
        "--algorithm=sliding-log",
        "--burst",
        "5",
        "--algorithm",
        "leaky-bucket",
    ]);
    command.args(["--algorithm", "sliding-log", "--json"]);
    let output = command.output().expect("replay runs");
    let rows = json(&output);
    let names: Vec<_> = rows.iter().map(|row| &row["algorithm"]).collect();
    assert_eq!(names, ["sliding-log", "leaky-bucket"]);
    assert_eq!(rows[0]["allowed"], 2387);
    assert!(rows[1]["most_in_a_period"].as_u64().expect("a number") <= 105);
}

#[test]
fn what_is_wrong_gets_one_line_and_exit_code_2() {
    let folder = Folder::new("wrong");
    let log = folder.join("log");
    fs::write(&log, "").expect("written");
    let (log, folder) = (
        log.to_str().expect("UTF-8"),
        folder.0.to_str().expect("UTF-8"),
    );
    let wrong: [(&[&str], &str); 22] = [
        (&["--fast"], "unknown option \"--fast\""),
        (&["-x"], "unknown option \"-x\""),
        (
            &["--algorithm", "gcra"],
            "unknown algorithm \"gcra\": use token-bucket, ",
        ),
        (&["--algorithm"], "--algorithm needs a value"),
        (&["--quota", "0/min"], "0/min"),
        (&["--quota", "fast"], "100/min"),
        (&["--quota=10/fortnight"], "fortnight"),
        (&["--quota"], "--quota needs a value"),
        (&["--quota", "--json"], "--quota needs a value"),
        (
            &["--burst", "0"],
            "bad burst \"0\": a whole number from 1 to ",
        ),
        (&["--burst", "-3"], "bad burst \"-3\""),
        (&["--burst", "9223372036854775808"], "bad burst"),
        (&["--burst="], "--burst needs a value"),
        (&["--json=yes"], "--json takes no value"),
        (&["--scenario", "flood"], "edge is the one there is"),
        (&["--scenario", "edge", "access.log"], "leave out the LOG"),
        (&["--scenario", "edge", "--quota", "10/min"], "100/min"),
        (&["one.log", "two.log"], "one at a time"),
        (&["no/such.log"], "cannot read \"no/such.log\""),
        (&[folder], "it is a directory"),
        (
            &["--svg", "no/such/folder.svg"],
            "cannot write \"no/such/folder.svg\"",
        ),
        (&["--svg", log, log], "--svg would overwrite the LOG"),
    ];
    for (arguments, says) in wrong {
        let output = replay().args(arguments).output().expect("replay runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
}

#[test]
fn help_names_every_option() {
    let output = replay().args(["--quota", "5/s", "--help"]).output();
    let output = output.expect("replay runs");
    assert!(output.status.success());
    let options = [
        "--quota",
        "--burst",
        "--algorithm",
        "--json",
        "--svg",
        "--scenario edge",
        "LOG",
    ];
    for option in options.iter().chain(&KEYS[3..]) {
        assert!(text(&output.stdout).contains(option), "{option}");
    }
}

#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_is_no_fault() {
    for argument in ["--json", "--help", "--quota=100/min"] {
        let mut command = replay();
        command
            .arg(argument)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("replay starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("replay ends");
        assert!(output.status.success(), "{argument}");
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    }
}

#[test]
fn quickstart_runs() {
    let output = Command::new(example("quickstart"))
        .output()
        .expect("it runs");
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("20 served, 5 refused"));
}

// ---- odd files ----

const LINE: &str = r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5"#;

#[test]
fn odd_files_are_read_for_what_they_hold() {
    let bad_utf8 = [LINE.as_bytes(), b" \"\xff\xfe\" \"\xc3(\"\n"].concat();
    let long = format!("{LINE} \"{}\"\n{LINE}\n", "x".repeat(1_000_000));
    let cases: [(&str, Vec<u8>, u64, u64); 17] = [
        ("empty", b"".into(), 0, 0),
        ("one line", format!("{LINE}\n").into(), 1, 0),
        ("no end of line", LINE.into(), 1, 0),
        ("CRLF", format!("{LINE}\r\n{LINE}\r\n").into(), 2, 0),
        ("blank lines", format!("\n{LINE}\n \r\n\n").into(), 1, 0),
        (
            "cut after its time",
            format!("{LINE}\n{}", &LINE[..50]).into(),
            2,
            0,
        ),
        (
            "cut within its time",
            format!("{LINE}\n{}", &LINE[..30]).into(),
            1,
            1,
        ),
        (
            "no timestamp",
            b"192.0.2.1 - - \"GET /\" 200 5\n".into(),
            0,
            1,
        ),
        (
            "a time in the request",
            b"h - - [x] \"GET /[17/May/2015:10:05:03 +0000]\" 2 5\n".into(),
            0,
            1,
        ),
        ("IPv6", format!("2001:db8::1{}\n", &LINE[9..]).into(), 1, 0),
        (
            "a host name",
            format!("host.example{}\n", &LINE[9..]).into(),
            1,
            0,
        ),
        (
            "a user with spaces",
            b"h - a [b] \\\" c [17/May/2015:10:05:03 +0000] \"GET /\"\n".into(),
            1,
            0,
        ),
        (
            "escaped quotes",
            b"h - - [17/May/2015:10:05:03 +0000] \"GET /\\\"x\" 200 -\n".into(),
            1,
            0,
        ),
        ("not UTF-8", bad_utf8, 1, 0),
        (
            "a byte order mark",
            format!("\u{feff}{LINE}\n").into(),
            1,
            0,
        ),
        ("a very long line", long.into(), 2, 0),
        ("zeros", vec![0; 300_000], 0, 1),
    ];
    for (name, bytes, requests, unparsed) in cases {
        let output = replay_on(&bytes, &["--json", "--algorithm", "token-bucket"]);
        let [allowed, denied, ..] = counts(&output)[0];
        assert_eq!(allowed + denied, requests, "{name}");
        let said = text(&output.stderr);
        let says = format!("replay: {unparsed} of {}", requests + unparsed);
        assert_eq!(said.starts_with(&says), unparsed > 0, "{name}: {said}");
        assert_eq!(said.is_empty(), unparsed == 0, "{name}: {said}");
    }
}

#[test]
fn an_empty_log_counts_nothing() {
    let rows = json(&replay_on(b"", &["--json"]));
    assert_eq!(rows.len(), 5);
    for row in rows {
        assert!(KEYS[1..].iter().all(|&key| row[key] == 0), "{row}");
    }
}

#[test]
fn lines_that_do_not_parse_are_counted_and_the_first_named() {
    let mut log = format!("{LINE}\n\x1b[31mred \u{202e}\n");
    for day in 32..52 {
        log += &format!("h - - [{day}/Jan/2015:10:05:03 +0000] \"GET /\"\n");
    }
    let output = replay_on(log.as_bytes(), &[]);
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("21 lines did not parse"));
    let said = text(&output.stderr);
    assert!(
        said.starts_with("replay: 21 of 22 lines did not parse"),
        "{said}"
    );
    assert!(said.contains("line 2: no timestamp"), "{said}");
    assert!(
        said.contains("line 3: its timestamp's month has no such day"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1 + log::NAMED);
    let printable = |c: char| c == '\n' || !c.is_control() && c != '\u{202e}';
    assert!(said.chars().all(printable), "{said:?}");
}

#[test]
fn requests_are_replayed_in_the_order_of_their_time_whatever_the_logs() {
    let line = |client: &str, second: u32| {
        let (minute, second) = (second / 60, second % 60);
        format!("{client} - - [17/May/2015:10:{minute:02}:{second:02} +0000] \"GET /\"\n")
    };
    let sorted: Vec<String> = (0..600)
        .map(|index| line(["a", "b", "c"][index % 3], index as u32))
        .collect();
    let mut mixed = sorted.clone();
    mixed.sort_by_key(|line| {
        line.bytes()
            .map(u64::from)
            .fold(7, |sum, byte| sum * 31 % 1_009 + byte)
    });
    assert_ne!(sorted, mixed);
    let arguments = ["--json", "--quota", "3/20s", "--burst", "2"];
    let [sorted, mixed] = [sorted, mixed].map(|lines| lines.concat());
    let sorted = counts(&replay_on(sorted.as_bytes(), &arguments));
    assert_eq!(sorted, counts(&replay_on(mixed.as_bytes(), &arguments)));
    assert!(sorted.iter().all(|row| row[1] > 0));
}

#[test]
fn one_address_in_many_spellings_is_one_client() {
    let rest = &LINE[9..];
    let log = [
        "2001:db8::1",
        "2001:DB8:0::1",
        "192.0.2.1",
        "::ffff:192.0.2.1",
        "::ffff:c000:201",
    ]
    .map(|client| format!("{client}{rest}\n"))
    .concat();
    let said = replay_on(log.as_bytes(), &[]);
    assert!(text(&said.stdout).contains("5 requests of 2 clients"));
}

#[test]
fn quotas_and_times_at_the_ends_of_their_ranges_are_replayed_and_drawn() {
    let folder = Folder::new("ends");
    let picture = folder.join("picture.svg");
    let stamps = [
        "01/Jan/1970:00:00:00 +0000",
        "01/Jan/1970:00:00:01 +0000",
        "17/May/2015:10:05:03 -2359",
        "11/Apr/2262:23:47:16 +0000",
        "11/Apr/2262:23:47:16 +0000",
    ];
    let log = stamps
        .map(|stamp| format!("h - - [{stamp}] \"GET /\"\n"))
        .concat();
    let quotas = [
        "1/ns",
        "1/1ns",
        "1 per 18446744073709551615ns",
        "9223372036854775807/s",
        "9223372036854775807 per 18446744073709551615ns",
        "7 per 13ms",
        "1/day",
    ];
    let mut tried = 0;
    for quota in quotas {
        for log in [
            log.as_bytes(),
            &log.as_bytes()[..2 * log.len() / 5],
            &log.as_bytes()[log.len() / 5 * 3..],
        ] {
            let picture = picture.to_str().expect("UTF-8");
            let output = replay_on(log, &["--json", "--quota", quota, "--svg", picture]);
            if output.status.success() {
                assert_well_formed(&fs::read_to_string(picture).expect("the picture"));
                tried += 1;
            } else {
                // Not every spelling of a quota need be one.
                assert_eq!(
                    output.status.code(),
                    Some(2),
                    "{quota}: {}",
                    text(&output.stderr)
                );
            }
        }
    }
    assert!(tried >= 12, "{tried}");
}

/// Whatever the size of the input, only requests are kept.
#[cfg(target_os = "linux")]
#[test]
fn garbage_is_read_in_bounded_memory() {
    let noise = |seed: u64| {
        let mut state = seed;
        move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        }
    };
    let random: Vec<u8> = std::iter::repeat_with(noise(1)).take(1 << 20).collect();
    let no_newline: Vec<u8> = random.iter().map(|&byte| byte.max(b' ')).collect();
    let short = b"a\n".repeat(1 << 19);
    for (name, megabyte, megabytes) in [
        ("random", random, 64),
        ("one line", no_newline, 48),
        ("short lines", short, 48),
    ] {
        let mut command = replay();
        command.args(["--json", "-"]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("replay starts");
        let mut pipe = child.stdin.take().expect("its standard input");
        for _ in 0..megabytes {
            pipe.write_all(&megabyte).expect("replay reads on");
        }
        // It still waits for the end, so its peak can be asked for.
        let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.expect("the process is there");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse().ok());
        let peak: u64 = peak.expect("VmHWM in kB");
        drop(pipe);
        let output = child.wait_with_output().expect("replay ends");
        assert!(counts(&output).iter().all(|row| *row == [0; 4]), "{name}");
        assert!(peak < 32 * 1_024, "{name}: {peak} kB after {megabytes} MiB");
    }
}

// ---- the picture ----

#[test]
fn a_picture_is_written_for_every_kind_of_log() {
    let folder = Folder::new("pictures");
    let path = folder.join("picture.svg");
    let file = path.to_str().expect("UTF-8");
    fs::write(&path, "x".repeat(1_000_000)).expect("something to overwrite");

    let output = replay()
        .args(["--svg", file])
        .output()
        .expect("replay runs");
    assert!(output.status.success());
    let picture = fs::read_to_string(&path).expect("the picture");
    assert_well_formed(&picture);
    for part in [
        "203.0.113.66",
        "15:07",
        "limit 100",
        "Sliding window counter",
        "refused",
    ] {
        assert!(picture.contains(part), "{part}");
    }

    let edge = replay()
        .args(["--scenario", "edge", "--svg", file])
        .output();
    assert!(edge.expect("replay runs").status.success());
    let picture = fs::read_to_string(&path).expect("the picture");
    assert_well_formed(&picture);
    assert!(picture.contains("00:59.9") && picture.contains("01:00.1"));

    let one_second = format!("{LINE}\n").repeat(100_000);
    let awkward = format!("<a&b>\"'{}\n", &LINE[9..]);
    for (log, quota, part) in [
        (one_second.as_str(), "100/min", "99\u{a0}900 refused"),
        ("", "100/min", "no requests"),
        (awkward.as_str(), "100/min", "&lt;a&amp;b&gt;&quot;'"),
        (awkward.as_str(), "100/min", "never limited"),
        (one_second.as_str(), "1000000/min", "never limited"),
    ] {
        let output = replay_on(log.as_bytes(), &["--json", "--quota", quota, "--svg", file]);
        assert!(output.status.success());
        let picture = fs::read_to_string(&path).expect("the picture");
        assert_well_formed(&picture);
        assert!(picture.contains(part), "{part}");
    }
}

/// Tags are balanced, attributes quoted, text escaped, and no number is none.
fn assert_well_formed(svg: &str) {
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
    let svg = svg.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let mut rest = svg.expect("a declaration");
    let mut open = Vec::new();
    while let Some((text, after)) = rest.split_once('<') {
        assert!(!text.contains('>'), "{text}");
        for entity in text.split('&').skip(1) {
            let known = ["amp;", "lt;", "gt;", "quot;"];
            assert!(
                known.iter().any(|known| entity.starts_with(known)),
                "{text}"
            );
        }
        let (tag, after) = after.split_once('>').expect("a tag ends");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        assert!(!tag.contains('<'), "{tag}");
        let name = tag.trim_matches('/').split(' ').next().expect("a name");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        rest = after;
    }
    assert!(
        open.is_empty() && rest.trim().is_empty(),
        "{open:?}, {rest:?}"
    );
}

// ---- the parser ----

fn stamp(text: &str) -> Result<u64, BadStamp> {
    when::parse_stamp(text.as_bytes()).map(|at| at.as_nanos() / 1_000_000_000)
}

#[test]
fn timestamps_are_validated_and_their_zone_applied() {
    let good = [
        ("01/Jan/1970:00:00:00 +0000]", 0),
        ("31/Dec/1969:23:00:00 -0100]", 0),
        ("17/May/2015:10:05:03 +0000] \"GET", 1_431_857_103),
        ("17/May/2015:12:05:03 +0200]", 1_431_857_103),
        ("17/may/2015:04:35:03 -0530]", 1_431_857_103),
        ("29/Feb/2024:00:00:00 +0000]", 1_709_164_800),
        ("29/Feb/2000:23:59:59 +0000]", 951_868_799),
        // A leap second is the second after it, as on the Unix clock.
        ("30/Jun/2015:23:59:60 +0000]", 1_435_708_800),
        ("01/Jul/2015:01:59:60 +0200]", 1_435_708_800),
        ("11/Apr/2262:23:47:16 +0000]", 9_223_372_036),
    ];
    for (text, seconds) in good {
        assert_eq!(stamp(text), Ok(seconds), "{text}");
    }
    let bad = [
        ("", BadStamp::Missing),
        ("17/May/2015:10:05:03 +0000", BadStamp::Missing),
        ("17/May/2015:10:05:03]", BadStamp::Missing),
        ("17/05/2015:10:05:03 +0000]", BadStamp::Missing),
        ("1/May/2015:10:05:03 +0000]", BadStamp::Missing),
        ("17/May/2015 10:05:03 +0000]", BadStamp::Missing),
        ("17/May/2015:10:05:03 00000]", BadStamp::Missing),
        ("17/Mai/2015:10:05:03 +0000]", BadStamp::Month),
        ("00/May/2015:10:05:03 +0000]", BadStamp::Day),
        ("31/Apr/2015:10:05:03 +0000]", BadStamp::Day),
        ("29/Feb/2015:10:05:03 +0000]", BadStamp::Day),
        ("29/Feb/2100:10:05:03 +0000]", BadStamp::Day),
        ("17/May/2015:24:00:00 +0000]", BadStamp::Time),
        ("17/May/2015:10:60:00 +0000]", BadStamp::Time),
        ("17/May/2015:10:05:61 +0000]", BadStamp::Time),
        ("17/May/2015:10:05:60 +0000]", BadStamp::LeapSecond),
        ("29/Jun/2015:23:59:60 +0000]", BadStamp::LeapSecond),
        ("17/May/2015:10:05:03 +2400]", BadStamp::Offset),
        ("17/May/2015:10:05:03 -0060]", BadStamp::Offset),
        ("31/Dec/1969:23:59:59 +0000]", BadStamp::BeforeEpoch),
        ("01/Jan/1970:00:59:59 +0100]", BadStamp::BeforeEpoch),
        ("01/Jan/0000:00:00:00 +0000]", BadStamp::BeforeEpoch),
        ("11/Apr/2262:23:47:17 +0000]", BadStamp::AfterEnd),
        ("31/Dec/9999:23:59:59 -2359]", BadStamp::AfterEnd),
    ];
    for (text, why) in bad {
        assert_eq!(stamp(text), Err(why), "{text}");
    }
}

#[test]
fn a_lines_client_and_time_are_all_it_needs() {
    let at = Timestamp::from_secs(1_431_857_103);
    let time = "[17/May/2015:10:05:03 +0000]";
    let good = [
        (format!("h - - {time}"), "h"),
        (
            format!("2001:db8::1 - ada {time} \"GET / HTTP/1.1\" 200 - \"-\" \"x\""),
            "2001:db8::1",
        ),
        (
            format!("h - Ada [the first] Lovelace {time} \"GET /\""),
            "h",
        ),
        (
            format!("h - [01/Jan/2001:00:00:00 +0000] {time} \"GET /\""),
            "h",
        ),
        (format!("h\t-\t-\t{time}\t\"GET /\""), "h"),
        // Apache writes a user without a name so; whoever sends none was not counted.
        (format!("h - \"\" {time} \"GET /\" 401 2"), "h"),
        (format!("h - \"john doe\" {time} \"GET /\" 401 2"), "h"),
        (format!("h - joh\"n {time} \"GET /\" 401 2"), "h"),
        (
            format!("h - \\\"q\\\" {time} \"\\\"[01/Jan/2001:00:00:00 +0000]\\\"\""),
            "h",
        ),
    ];
    for (line, client) in good {
        assert_eq!(log::parse(line.as_bytes()), Ok((client, at)), "{line}");
    }
    let long = "h".repeat(log::LONGEST_CLIENT + 1);
    let bad = [
        (String::new(), Why::Stamp(BadStamp::Missing)),
        ("h".to_owned(), Why::Stamp(BadStamp::Missing)),
        (format!(" - - {time}"), Why::NoClient),
        (format!("[x - - {time}"), Why::NoClient),
        (format!("\u{1} - - {time}"), Why::NoClient),
        (format!("{long} - - {time}"), Why::LongClient),
        (format!("h - -{time}"), Why::Stamp(BadStamp::Missing)),
        (
            format!("h - - \"GET {time}\""),
            Why::Stamp(BadStamp::Missing),
        ),
    ];
    for (line, why) in bad {
        assert_eq!(log::parse(line.as_bytes()), Err(why), "{line}");
    }
}

/// Hands out its bytes in pieces of the given sizes, round and round.
struct Pieces<'a> {
    bytes: &'a [u8],
    sizes: std::iter::Cycle<std::slice::Iter<'a, usize>>,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes.next().copied().unwrap_or(1);
        let size = size.min(buffer.len()).min(self.bytes.len());
        let (piece, rest) = self.bytes.split_at(size);
        buffer[..size].copy_from_slice(piece);
        self.bytes = rest;
        Ok(size)
    }
}

/// A line of a log, or something like one.
fn a_line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80),
        "[a-c]( -| \\[| \"| \\\\\"){0,4} \\[[0-3][0-9]/(Jan|Feb|May|Mon)/(19|20)[0-9]{2}:[0-2][0-9]:[0-5][0-9]:[0-6][0-9] [+-][0-9]{4}\\]?.{0,20}"
            .prop_map(String::into_bytes),
        (0..LINE.len()).prop_map(|cut| LINE.as_bytes()[..cut].to_vec()),
        (any::<u8>(), 0..200_000_usize).prop_map(|(byte, length)| vec![byte; length]),
    ]
}

fn same<T: PartialEq + Debug>(left: T, right: T) -> Result<(), TestCaseError> {
    prop_assert_eq!(left, right);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_parser_never_panics(line in a_line()) {
        let _ = log::parse(&line);
        let _ = when::parse_stamp(&line);
    }

    #[test]
    fn a_log_is_read_alike_in_whatever_pieces_it_comes(
        lines in prop::collection::vec(a_line(), 0..12),
        sizes in prop::collection::vec(1..100_000_usize, 1..5),
    ) {
        let bytes = lines.join(&b'\n');
        let read = |sizes: &[usize]| {
            let pieces = Pieces { bytes: &bytes, sizes: sizes.iter().cycle() };
            Log::read(pieces, |_, _| {}).expect("it can be read")
        };
        let (one, other) = (read(&sizes), read(&[usize::MAX]));
        let list = |log: &Log| log.requests.iter().map(|one| (one.at, one.client)).collect::<Vec<_>>();
        same(list(&one), list(&other))?;
        same((one.lines, one.unparsed), (other.lines, other.unparsed))?;

        // And as it would be by splitting it whole.
        let mut expected = Vec::new();
        let mut seen = 0;
        for line in bytes.split(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let line = &line[..line.len().min(log::LONGEST_LINE)];
            if !line.trim_ascii().is_empty() {
                seen += 1;
                expected.extend(log::parse(line).map(|(_, at)| at));
            }
        }
        expected.sort();
        same(one.requests.iter().map(|one| one.at).collect::<Vec<_>>(), expected)?;
        same(one.lines, seen)?;
    }

    #[test]
    fn a_date_is_read_back_as_it_is_written(seconds in 0..9_223_372_036_u64, ahead in -1_439..=1_439_i64) {
        let at = Timestamp::from_secs(seconds);
        let local = seconds as i64 + ahead * 60;
        prop_assume!((0..9_223_372_036).contains(&local));
        let written = when::date_and_time(Timestamp::from_secs(local as u64));
        let (date, time) = written.rsplit_once(' ').expect("a date and a time");
        let date = format!("{date:0>11}").replace(' ', "/");
        let sign = if ahead < 0 { '-' } else { '+' };
        let (hours, minutes) = (ahead.abs() / 60, ahead.abs() % 60);
        let text = format!("{date}:{time} {sign}{hours:02}{minutes:02}]");
        same(when::parse_stamp(text.as_bytes()), Ok(at))?;
    }

    #[test]
    fn most_in_a_period_is_the_most_of_all_spans(
        mut stamps in prop::collection::vec(0..60_u64, 0..40),
        period in prop_oneof![1..80_u64, Just(u64::MAX)],
    ) {
        stamps.sort_unstable();
        let within = |from: u64| {
            let end = from.saturating_add(period);
            stamps.iter().filter(|&&at| at >= from && at < end).count() as u64
        };
        let most = (0..60).map(within).max().unwrap_or(0);
        let stamps: Vec<_> = stamps.iter().map(|&at| Timestamp::from_nanos(at)).collect();
        same(measure::most_in_a_period(&stamps, period), most)?;
    }
}
