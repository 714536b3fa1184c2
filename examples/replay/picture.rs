//! A picture of one client over time: what it asked, and what each algorithm let through.
//!
//! Time runs to the right, in all panels alike. A panel has a curve and bars below it. The curve is what was let through
//! within the past period, at each moment: the quantity a limit is about, so where it rises above the dashed line the
//! limit was passed. A bar is a slice of time: what was asked in it, and of that what was let through and refused.
//!
//! A long history is shown twice: all of it as a strip, and enlarged the stretch in which most was refused.

mod chart;
mod page;

use std::ops::Range;

use tollgate::{Algorithm, Limiter, Policy, Timestamp};

use self::{
    chart::{Bars, Curve, Scale, View},
    page::{ALLOWED, ASKED, DENIED, FAINT, INK, Key, LIMIT, Page, Text},
};
use crate::{
    log::Log,
    measure::{self, Row},
    when,
};

/// How instants are written, and how finely the log tells them apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Times {
    /// As dates and times of day; whole seconds.
    Calendar,
    /// As minutes and seconds; nanoseconds.
    Stopwatch,
}

/// A stretch has at most so many periods, so that a period remains wide enough to be seen.
const PERIODS: u64 = 24;

const STRIP: f64 = 56.0;
const CURVE: f64 = 60.0;
const BARS: f64 = 27.0;
/// Between a panel's curve and its bars, and between two panels.
const WITHIN: f64 = 14.0;
const BETWEEN: f64 = 14.0;
/// Below the last panel.
const AXIS: f64 = 38.0;

pub(crate) fn draw(log: &Log, policies: &[Policy], rows: &[Row], times: Times) -> String {
    let limited = |client: u32| rows.iter().any(|row| row.limited[client as usize]);
    let (client, was_limited) = match (log.busiest(limited), log.busiest(|_| true)) {
        (Some(client), _) => (client, true),
        (None, Some(client)) => (client, false),
        (None, None) => return nothing(),
    };
    let of_client = log.of_client(client).iter();
    let stamps: Vec<u64> = of_client
        .map(|&index| log.requests[index as usize].at.as_nanos())
        .collect();
    let told: Vec<Told> = policies
        .iter()
        .map(|policy| Told::new(policy, &stamps))
        .collect();

    let period = policies[0].quota().period_ns();
    let stretch = busiest_stretch(&stamps, &told, period, times);
    let whole = stretch.len() == stamps.len();
    let view = View::around(&stamps[stretch], period, times);

    let mut page = Page::default();
    let name = &log.clients[client as usize];
    let alone = log.clients.len() == 1;
    title(&mut page, name, alone, was_limited, &policies[0], &view);
    if !whole {
        strip(&mut page, &stamps, &view, times);
    }
    panels(&mut page, &stamps, &told, policies, &view, whole, times);
    page.finish()
}

/// What an algorithm told this client.
struct Told {
    decisions: Vec<bool>,
    /// The instants of what was let through.
    granted: Vec<u64>,
}

impl Told {
    fn new(policy: &Policy, stamps: &[u64]) -> Self {
        let instants = stamps.iter().map(|&at| Timestamp::from_nanos(at));
        let (decisions, _) = measure::decide(policy, instants);
        let both = stamps.iter().zip(&decisions);
        let granted = both.filter(|&(_, &yes)| yes).map(|(&at, _)| at).collect();
        Self { decisions, granted }
    }
}

/// Which of the requests to enlarge: all, if they fit; otherwise those of the stretch in which most was refused.
fn busiest_stretch(stamps: &[u64], told: &[Told], period: u64, times: Times) -> Range<usize> {
    let length = period.saturating_mul(PERIODS);
    let length = length.max(times.resolution().saturating_mul(30));
    let refused = |index: usize| told.iter().filter(|told| !told.decisions[index]).count();
    let (mut first, mut inside) = (0, 0);
    let (mut best, mut found) = ((0, 0), 0..0);
    for last in 0..stamps.len() {
        inside += refused(last);
        while stamps[last] - stamps[first] > length {
            inside -= refused(first);
            first += 1;
        }
        if (inside, last + 1 - first) > best {
            best = (inside, last + 1 - first);
            found = first..last + 1;
        }
    }
    found
}

/// A picture all the same, that says why there is none.
fn nothing() -> String {
    let mut page = Page::default();
    page.down(40.0);
    page.text(
        page::LEFT,
        "The log has no requests: there is no client to draw.",
        Text::new(16),
    );
    page.down(20.0);
    page.finish()
}

fn title(
    page: &mut Page,
    client: &str,
    alone: bool,
    was_limited: bool,
    policy: &Policy,
    view: &View,
) {
    let period = when::length(policy.quota().period_ns());
    let limit = short(policy.quota().limit());
    let client = shortened(client, 40);
    let title = format!("What {client} asked, and what was let through");
    let size = if title.chars().count() > 64 { 16 } else { 20 };

    page.down(38.0);
    page.text(page::LEFT, &title, Text::new(size).bold());
    page.down(24.0);
    let who = match (alone, was_limited) {
        (true, true) => "The only client.",
        (true, false) => "The only client; it was never limited.",
        (false, true) => "Of all clients that were limited, the one with the most requests.",
        (false, false) => "No client was limited; this is the one with the most requests.",
    };
    let who = format!("{who} The limit is {limit} per {period}.");
    page.text(page::LEFT, &who, Text::new(13).colour(FAINT));

    page.down(28.0);
    page.legend(
        &format!("Curve: requests in the past {period}"),
        &[
            (Key::Line, "let through"),
            (Key::Dashed, "the limit"),
            (Key::Area(LIMIT, 0.35), "above the limit"),
        ],
    );
    page.down(21.0);
    page.legend(
        &format!("Bars: requests in each {}", when::length(view.slice)),
        &[
            (Key::Area(ASKED, 1.0), "asked"),
            (Key::Area(ALLOWED, 1.0), "let through"),
            (Key::Area(DENIED, 1.0), "refused"),
        ],
    );
    page.down(14.0);
}

/// The whole history, small, with the enlarged stretch framed in it.
fn strip(page: &mut Page, stamps: &[u64], enlarged: &View, times: Times) {
    let view = View::around(stamps, u64::MAX, times);
    let bars = view.bars(stamps);
    let scale = Scale::new(tallest(&bars), STRIP);
    let slice = when::counted_length(view.slice);
    let asked = format!("{} asked", grouped(stamps.len() as u64));
    let about = format!("a bar: {slice}; the frame is enlarged below");
    page.panel_title("The whole log", &about, &asked, INK);
    page.down(STRIP);
    page.grid(&view, &scale, times);
    for &(start, end, count) in &bars {
        page.bar(&view, &scale, (start, end), (0, count), ASKED);
    }
    page.base();
    page.frame(view.x(enlarged.from), view.x(enlarged.to), STRIP);
    page.ticks(&view, times);
    page.down(AXIS + 8.0);
}

fn panels(
    page: &mut Page,
    stamps: &[u64],
    told: &[Told],
    policies: &[Policy],
    view: &View,
    whole: bool,
    times: Times,
) {
    let quota = policies[0].quota();
    let (limit, period) = (quota.limit(), quota.period_ns());
    let length = when::length(period);
    let granted = || told.iter().map(|told| &told.granted);

    // A limit far above everything, or a demand far above the limit, must not press all else to the floor.
    let demand = view.curve(stamps, period);
    let curves: Vec<Curve> = granted().map(|stamps| view.curve(stamps, period)).collect();
    let demanded = highest(&demand);
    let shown_limit = (limit / 4 <= demanded).then_some(limit);
    let compared = curves.iter().map(highest).max().unwrap_or(0);
    let compared = compared.max(shown_limit.unwrap_or(0)).max(1);
    let top = demanded.min(compared.saturating_mul(2)).max(compared);
    let curve_scale = Scale::new(top, CURVE);

    let asked = view.bars(stamps);
    let bars: Vec<Bars> = granted().map(|stamps| view.bars(stamps)).collect();
    let compared = bars.iter().map(tallest).max().unwrap_or(0);
    let bar_scale = match compared.saturating_mul(3) {
        0 => Scale::new(tallest(&asked), BARS),
        compared => Scale::new(tallest(&asked).min(compared), BARS),
    };

    let began = page.y;
    let mut about = Vec::new();
    if shown_limit.is_none() {
        about.push(format!("the limit, {}, is far above", short(limit)));
    }
    if demanded > curve_scale.top {
        about.push(format!("the curve goes on to {}", short(demanded)));
    }
    if tallest(&asked) > bar_scale.top {
        about.push(format!("bars cut off, up to {}", short(tallest(&asked))));
    }
    let total: u64 = asked.iter().map(|bar| bar.2).sum();
    let here = if whole { "" } else { " here" };
    let peak = |curve: &Curve| format!("peak {} per {length}", grouped(highest(curve)));
    let summary = format!("{} asked{here} · {}", grouped(total), peak(&demand));
    page.panel_title("Asked", &about.join("; "), &summary, INK);
    page.down(CURVE);
    page.grid(view, &curve_scale, times);
    page.curve(&curve_scale, &demand, None, ASKED);
    page.limit(&curve_scale, shown_limit);
    page.base();
    page.down(WITHIN + BARS);
    page.grid(view, &bar_scale, times);
    for &(start, end, count) in &asked {
        page.bar(view, &bar_scale, (start, end), (0, count), ASKED);
    }
    page.base();

    for ((policy, curve), granted) in policies.iter().zip(&curves).zip(&bars) {
        let let_through: u64 = granted.iter().map(|bar| bar.2).sum();
        let summary = format!(
            "{} let through · {} refused · {}",
            grouped(let_through),
            grouped(total - let_through),
            peak(curve)
        );
        let (name, how) = described(policy);
        let colour = if highest(curve) > limit { LIMIT } else { INK };
        page.down(BETWEEN);
        page.panel_title(name, &how, &summary, colour);

        page.down(CURVE);
        page.grid(view, &curve_scale, times);
        if on_grid(policy.algorithm()) {
            windows(page, view, period);
        }
        page.curve(&curve_scale, curve, shown_limit, INK);
        page.limit(&curve_scale, shown_limit);
        page.base();

        page.down(WITHIN + BARS);
        page.grid(view, &bar_scale, times);
        let mut granted = granted.iter().peekable();
        for &(start, end, count) in &asked {
            let yes = granted.next_if(|bar| bar.0 == start).map_or(0, |bar| bar.2);
            page.bar(view, &bar_scale, (start, end), (0, yes), ALLOWED);
            page.bar(view, &bar_scale, (start, end), (yes, count), DENIED);
        }
        page.base();
    }
    page.upwards((began + page.y) / 2.0, "requests");
    page.ticks(view, times);
    let (axis, dates) = match times {
        Times::Calendar => ("time (UTC)", 14.0),
        Times::Stopwatch => ("time (minutes:seconds)", 0.0),
    };
    page.down(AXIS + dates);
    page.text(
        (page::LEFT + page::RIGHT) / 2.0,
        axis,
        Text::new(13).middle(),
    );
    page.down(16.0);
}

fn described(policy: &Policy) -> (&'static str, String) {
    let period = when::length(policy.quota().period_ns());
    match policy {
        Policy::TokenBucket(rule) => (
            "Token bucket",
            format!("holds {}, refilled steadily", short(rule.burst())),
        ),
        Policy::LeakyBucket(rule) => (
            "Leaky bucket",
            format!("queues {}, drained steadily", short(rule.burst())),
        ),
        Policy::FixedWindow(_) => (
            "Fixed window",
            format!("counts anew each {period} (dotted)"),
        ),
        Policy::SlidingLog(_) => ("Sliding log", format!("counts the past {period}")),
        Policy::SlidingWindowCounter(_) => (
            "Sliding window counter",
            format!("weighs the {period} before"),
        ),
        _ => ("Another algorithm", String::new()),
    }
}

fn on_grid(algorithm: Algorithm) -> bool {
    matches!(
        algorithm,
        Algorithm::FixedWindow | Algorithm::SlidingWindowCounter
    )
}

/// Where the calendar's windows begin.
fn windows(page: &mut Page, view: &View, period: u64) {
    if (view.to - view.from) / period > 2 * PERIODS {
        return;
    }
    let mut edge = view.from.div_ceil(period).checked_mul(period);
    while let Some(at) = edge.filter(|&at| at <= view.to) {
        page.dotted(view.x(at), CURVE);
        edge = at.checked_add(period);
    }
}

fn highest(curve: &Curve) -> u64 {
    curve.iter().map(|step| step.1).max().unwrap_or(0)
}

fn tallest(bars: &Bars) -> u64 {
    bars.iter().map(|bar| bar.2).max().unwrap_or(0)
}

/// `12 345`
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push('\u{a0}');
        }
        grouped.push(digit);
    }
    grouped
}

/// At most six characters: `9500`, `12.5k`, `3M`.
fn short(count: u64) -> String {
    const UNITS: [(u64, &str); 6] = [
        (1_000_000_000_000_000_000, "E"),
        (1_000_000_000_000_000, "P"),
        (1_000_000_000_000, "T"),
        (1_000_000_000, "G"),
        (1_000_000, "M"),
        (1_000, "k"),
    ];
    let unit = UNITS.iter().find(|(unit, _)| count >= *unit);
    match unit {
        Some((unit, name)) if count >= 10_000 => match count % unit / (unit / 10) {
            0 => format!("{}{name}", count / unit),
            tenth => format!("{}.{tenth}{name}", count / unit),
        },
        _ => count.to_string(),
    }
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
