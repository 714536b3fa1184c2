//! Replays a web server's access log, client by client, through all five algorithms:
//! `cargo run --release --example replay -- --help`.

mod log;
mod measure;
mod options;
mod picture;
mod report;
mod scenario;
mod when;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, IsTerminal, Read, Write},
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use tollgate::Algorithm;

use log::Log;
use options::{Options, Source};

/// Made by `cargo run --example make_sample_log`.
const SAMPLE: &[u8] = include_bytes!("../data/sample-access.log");

fn main() -> ExitCode {
    let said = match options::parse(std::env::args_os().skip(1)) {
        Ok(Some(options)) => run(&options),
        Ok(None) => Ok(options::HELP.to_owned()),
        Err(wrong) => Err(wrong),
    };
    let written = said.and_then(|said| {
        let mut out = io::stdout().lock();
        match out.write_all(said.as_bytes()).and_then(|()| out.flush()) {
            // Whoever reads has had enough, as `head` does.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(|error| format!("cannot write to standard output: {error}")),
        }
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            tell(&format!("replay: {wrong}\n"));
            ExitCode::from(2)
        }
    }
}

/// Everything that is to be printed, or one line that says what is wrong.
fn run(options: &Options) -> Result<String, String> {
    let input = open(&options.source)?;
    let picture_file = match &options.svg {
        Some(path) => Some((path, open_picture(path, &options.source)?)),
        None => None,
    };
    let log = match input {
        Some(input) => read(input),
        None => scenario::log(),
    };
    let log = log.map_err(|error| format!("cannot read {}: {error}", name(&options.source)))?;
    tell_unparsed(&log);
    let buckets = [Algorithm::TokenBucket, Algorithm::LeakyBucket];
    if options.burst.is_some() && !buckets.iter().any(|one| options.algorithms.contains(one)) {
        tell("replay: --burst concerns the buckets, and neither is among the algorithms\n");
    }

    let policies = options
        .algorithms
        .iter()
        .map(|&algorithm| measure::policy(algorithm, options.quota, options.burst))
        .collect::<Vec<_>>();
    let mut progress = Progress::new(log.requests.len() > 1_000_000);
    let rows = policies.iter().map(|policy| {
        progress.show(|| format!("replaying: {}", policy.algorithm()));
        measure::row(policy, &log)
    });
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    drop(progress);

    if let Some((path, mut file)) = picture_file {
        let times = match options.source {
            Source::Edge => picture::Times::Stopwatch,
            _ => picture::Times::Calendar,
        };
        let drawn = picture::draw(&log, &policies, &rows, times);
        // Only a regular file has a length to set.
        let _ = file.set_len(0);
        file.write_all(drawn.as_bytes())
            .map_err(|error| format!("cannot write {path:?}: {error}"))?;
    }

    if options.json {
        return Ok(report::json(&rows));
    }
    let (heading, notes) = match &options.source {
        Source::Edge => (String::new(), scenario::told(&rows, options.burst)),
        source => (
            report::heading(&name(source), &log, options.quota, options.burst),
            report::notes(&rows, &log, options.quota),
        ),
    };
    Ok(heading + &report::table(&rows) + &notes)
}

struct Input {
    bytes: Box<dyn Read>,
    size: Option<u64>,
}

/// `None` for a scenario, which reads nothing.
fn open(source: &Source) -> Result<Option<Input>, String> {
    let (bytes, size): (Box<dyn Read>, _) = match source {
        Source::Edge => return Ok(None),
        Source::Sample => (Box::new(SAMPLE), None),
        Source::Standard => (Box::new(io::stdin().lock()), None),
        Source::File(path) => {
            let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
            let (about, file) = opened.map_err(|error| format!("cannot read {path:?}: {error}"))?;
            if about.is_dir() {
                return Err(format!(
                    "cannot read {path:?}: it is a directory, not a log"
                ));
            }
            (Box::new(file), about.is_file().then_some(about.len()))
        }
    };
    Ok(Some(Input { bytes, size }))
}

fn read(input: Input) -> io::Result<Log> {
    let mut progress = Progress::new(true);
    Log::read(input.bytes, |bytes, requests| {
        progress.show(|| {
            let size = input.size.map(|size| format!(" of {}", size / 1_000_000));
            let size = size.unwrap_or_default();
            format!(
                "reading: {}{size} MB, {requests} requests",
                bytes / 1_000_000
            )
        });
    })
}

fn name(source: &Source) -> String {
    match source {
        Source::Edge => "the scenario".to_owned(),
        Source::Sample => "the sample log, examples/data/sample-access.log".to_owned(),
        Source::Standard => "standard input".to_owned(),
        Source::File(path) => format!("{path:?}"),
    }
}

/// Opens the picture's file before the long work begins, leaving what is in it until there is something better.
fn open_picture(path: &Path, source: &Source) -> Result<File, String> {
    if let Source::File(log) = source {
        let same = fs::canonicalize(path).ok().zip(fs::canonicalize(log).ok());
        if same.is_some_and(|(picture, log)| picture == log) {
            return Err("--svg would overwrite the LOG: name another file".to_owned());
        }
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    let opened = options.open(path);
    opened.map_err(|error| format!("cannot write {path:?}: {error}"))
}

fn tell_unparsed(log: &Log) {
    if log.unparsed == 0 {
        return;
    }
    let (lines, unparsed) = (report::counted(log.lines, "line"), log.unparsed);
    let mut told = format!("replay: {unparsed} of {lines} did not parse");
    let first = log.named.len();
    told += if (first as u64) < unparsed {
        "; the first of them:\n"
    } else {
        ":\n"
    };
    for line in &log.named {
        told += &format!("  line {}: {}: {}\n", line.line, line.why, line.shown);
    }
    tell(&told);
}

/// To standard error. That it is closed is no reason to stop.
fn tell(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// One line on a terminal, overwritten as the work goes on and gone when it is done; otherwise nothing.
struct Progress {
    wanted: bool,
    next: Instant,
    shown: bool,
}

impl Progress {
    fn new(wanted: bool) -> Self {
        Self {
            wanted: wanted && io::stderr().is_terminal(),
            next: Instant::now() + Duration::from_secs(1),
            shown: false,
        }
    }

    fn show(&mut self, line: impl FnOnce() -> String) {
        if self.wanted && Instant::now() >= self.next {
            tell(&format!("\r\x1b[K{}", line()));
            self.next = Instant::now() + Duration::from_millis(200);
            self.shown = true;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            tell("\r\x1b[K");
        }
    }
}
