//! The command line.

use std::{ffi::OsString, path::PathBuf};

use tollgate::{Algorithm, Quota};

use crate::scenario;

pub(crate) const HELP: &str = "\
Replays a web server's access log through tollgate's five rate limiting algorithms.

Usage: cargo run --release --example replay -- [OPTIONS] [LOG]

LOG is a file in common or combined log format, or - for standard input; without it, a sample that comes with the
example. Requests are replayed in the order of their time, each client (the line's first field) with a limit of its own.

Options:
  --quota QUOTA        the limit: 100/min (the default), 10/s, 5000 per hour, 1/30s, ...
  --burst N            how many requests a bucket holds; the limit unless given. It concerns the two buckets alone.
  --algorithm NAME     token-bucket, leaky-bucket, fixed-window, sliding-log or sliding-window-counter;
                       may be repeated; all five unless given
  --json               print an array of objects, one per algorithm, instead of the table
  --svg FILE           draw the busiest limited client: what it asked and what each algorithm let through
  --scenario edge      instead of a log: 100 requests at 00:59.9 and 100 more at 01:00.1, with a limit of 100/min
  -h, --help           print this

Columns, and keys of --json:
  allowed, denied      requests
  limited_clients      clients that were denied at least once
  most_in_a_period     the most any one client was allowed within any one period [t, t + P), wherever it begins
  bytes_per_client     bytes of the algorithm's own state after a client's last request, with what it owns on the heap
                       (the sliding log does), without the store's key and table; the mean over all clients
  ns_per_decision      nanoseconds of one `Keyed<String, _>::allow`, address looked up and all, on one thread; a short log
                       is repeated, later in time and on the same store, and the median of the repetitions taken

Of a line only the client and the timestamp [dd/Mon/yyyy:HH:MM:SS +zzzz] are needed: it counts as a request if both are
good, even if the rest is cut off or nonsense. Blank lines are passed over. Any other line is counted as unparsed, and
the first five are named on standard error. What a line has beyond 64 KiB is skipped. All spellings of an IP address
are one client. Exit code 2, with one line on standard error, for a wrong option or a file that cannot be read or written.
";

#[derive(Debug, PartialEq)]
pub(crate) enum Source {
    Sample,
    Standard,
    File(PathBuf),
    Edge,
}

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) source: Source,
    pub(crate) quota: Quota,
    pub(crate) burst: Option<u64>,
    pub(crate) algorithms: Vec<Algorithm>,
    pub(crate) json: bool,
    pub(crate) svg: Option<PathBuf>,
}

/// `None` asks for help.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Option<Options>, String> {
    let mut arguments = arguments.into_iter();
    let (mut quota, mut burst, mut svg, mut log) = (None, None, None, None);
    let mut algorithms = Vec::new();
    let (mut json, mut edge, mut only_log) = (false, false, false);

    while let Some(argument) = arguments.next() {
        let text = argument.to_str().unwrap_or_default();
        if only_log || text == "-" || !argument.as_encoded_bytes().starts_with(b"-") {
            if log.replace(PathBuf::from(&argument)).is_some() {
                return Err(format!("a second LOG, {argument:?}: one at a time"));
            }
            continue;
        }
        let (name, mut given) = match text.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (text, None),
        };
        let mut value = |what: &str| -> Result<OsString, String> {
            let is_option = |next: &OsString| next.as_encoded_bytes().starts_with(b"--");
            let value = given
                .take()
                .or_else(|| arguments.next().filter(|next| !is_option(next)));
            value
                .filter(|value| !value.is_empty())
                .ok_or_else(|| format!("{name} needs a value: {what}"))
        };
        match name {
            "--help" | "-h" => return Ok(None),
            "--" => only_log = true,
            "--json" => json = true,
            "--quota" => quota = Some(parse_quota(&value("a quota such as 100/min")?)?),
            "--burst" => burst = Some(parse_burst(&value("a whole number of requests")?)?),
            "--algorithm" => {
                let algorithm = parse_algorithm(&value(&names())?)?;
                if !algorithms.contains(&algorithm) {
                    algorithms.push(algorithm);
                }
            }
            "--svg" => svg = Some(PathBuf::from(value("the file to draw into")?)),
            "--scenario" => {
                let name = value("edge is the one there is")?;
                if name != "edge" {
                    return Err(format!(
                        "unknown scenario {name:?}: edge is the one there is"
                    ));
                }
                edge = true;
            }
            _ => {
                return Err(format!(
                    "unknown option {argument:?}: --help names them all"
                ));
            }
        }
        if given.is_some() {
            return Err(format!("{name} takes no value: write {name} alone"));
        }
    }

    let source = match (edge, log) {
        (true, None) => Source::Edge,
        (true, Some(log)) => {
            return Err(format!(
                "--scenario makes its own requests: leave out the LOG {log:?}"
            ));
        }
        (false, None) => Source::Sample,
        (false, Some(log)) if log.as_os_str() == "-" && !only_log => Source::Standard,
        (false, Some(log)) => Source::File(log),
    };
    if edge && quota.is_some_and(|quota| quota != scenario::quota()) {
        return Err("--scenario edge has a quota of 100/min: leave out --quota".to_owned());
    }
    if algorithms.is_empty() {
        algorithms = Algorithm::ALL.to_vec();
    }
    Ok(Some(Options {
        source,
        quota: quota.unwrap_or(scenario::quota()),
        burst,
        algorithms,
        json,
        svg,
    }))
}

fn parse_quota(value: &OsString) -> Result<Quota, String> {
    let text = value
        .to_str()
        .ok_or_else(|| format!("bad quota {value:?}: write it as 100/min"))?;
    text.parse().map_err(|error| format!("--quota: {error}"))
}

fn parse_burst(value: &OsString) -> Result<u64, String> {
    let number = value.to_str().and_then(|text| text.parse().ok());
    number
        .filter(|burst| (1..=Quota::MAX_LIMIT).contains(burst))
        .ok_or_else(|| {
            format!(
                "bad burst {value:?}: a whole number from 1 to {}",
                Quota::MAX_LIMIT
            )
        })
}

fn parse_algorithm(value: &OsString) -> Result<Algorithm, String> {
    let known = value.to_str().and_then(|name| name.parse().ok());
    known.ok_or_else(|| format!("unknown algorithm {value:?}: use {}", names()))
}

fn names() -> String {
    let names = Algorithm::ALL.map(Algorithm::name);
    let (last, others) = names.split_last().expect("there are five");
    format!("{} or {last}", others.join(", "))
}
