//! The rows as a table for people or as JSON.

use std::fmt::Write as _;

use tollgate::{Algorithm, Quota};

use crate::{log::Log, measure::Row, when};

/// What was replayed: three lines.
pub(crate) fn heading(name: &str, log: &Log, quota: Quota, burst: Option<u64>) -> String {
    let mut heading = format!("{name}\n");
    heading += &counted(log.requests.len() as u64, "request");
    let _ = write!(
        heading,
        " of {}",
        counted(log.clients.len() as u64, "client")
    );
    if let (Some(first), Some(last)) = (log.requests.first(), log.requests.last()) {
        let [first, last] = [first, last].map(|request| when::date_and_time(request.at));
        let _ = write!(heading, ", {first} to {last} UTC");
    }
    let _ = writeln!(heading, "; {} did not parse", counted(log.unparsed, "line"));
    let _ = write!(heading, "each client's quota: {quota}");
    if let Some(burst) = burst {
        let _ = write!(heading, "; a bucket holds {burst}");
    }
    heading + "\n\n"
}

pub(crate) fn table(rows: &[Row]) -> String {
    const TITLES: [&str; 7] = [
        "algorithm",
        "allowed",
        "denied",
        "clients limited",
        "most in a period",
        "bytes/client",
        "ns/decision",
    ];
    let cells = rows.iter().map(|row| {
        [
            row.algorithm.to_string(),
            row.allowed.to_string(),
            row.denied.to_string(),
            row.limited_clients.to_string(),
            row.most_in_a_period.to_string(),
            format!("{:.1}", row.bytes_per_client),
            format!("{:.1}", row.ns_per_decision),
        ]
    });
    let lines: Vec<[String; 7]> = std::iter::once(TITLES.map(String::from))
        .chain(cells)
        .collect();
    let width = |column: usize| {
        lines
            .iter()
            .map(|line| line[column].len())
            .max()
            .unwrap_or(0)
    };
    let widths: [usize; 7] = std::array::from_fn(width);

    let mut table = String::new();
    for line in &lines {
        let _ = write!(table, "{:<1$}", line[0], widths[0]);
        for (cell, width) in line.iter().zip(widths).skip(1) {
            let _ = write!(table, "  {cell:>width$}");
        }
        table.push('\n');
    }
    table
}

/// What the columns mean, and where the fixed window's trap shows.
pub(crate) fn notes(rows: &[Row], log: &Log, quota: Quota) -> String {
    let period = when::length(quota.period_ns());
    let limit = quota.limit();
    let mut notes = format!(
        "\nmost in a period: the most any one client was allowed within one {period}, wherever it begins; the limit is {limit}.\n"
    );
    let trapped = |row: &&Row| {
        row.algorithm == Algorithm::FixedWindow && row.most_in_a_period > quota.limit()
    };
    if let Some(row) = rows.iter().find(trapped) {
        let client = row
            .most_client
            .map_or("", |client| &log.clients[client as usize]);
        let most = row.most_in_a_period;
        let _ = writeln!(
            notes,
            "  The fixed window let {client} through {most} times in one: its windows count apart, so up to twice the limit passes around their edge."
        );
    }
    let bursting = |row: &Row| {
        matches!(
            row.algorithm,
            Algorithm::TokenBucket | Algorithm::LeakyBucket
        ) && row.most_in_a_period > quota.limit()
    };
    if rows.iter().any(bursting) {
        notes += "  A bucket gives what it holds, and what comes back meanwhile: its burst and the limit together at most.\n";
    }
    notes
        + "bytes/client: of state after the client's last request, without key and table; ns/decision: through the keyed store, one thread.\n"
}

pub(crate) fn json(rows: &[Row]) -> String {
    let objects = rows.iter().map(|row| {
        format!(
            "  {{\"algorithm\": \"{}\", \"allowed\": {}, \"denied\": {}, \"limited_clients\": {}, \
             \"most_in_a_period\": {}, \"bytes_per_client\": {}, \"ns_per_decision\": {}}}",
            row.algorithm,
            row.allowed,
            row.denied,
            row.limited_clients,
            row.most_in_a_period,
            tenths(row.bytes_per_client),
            tenths(row.ns_per_decision),
        )
    });
    format!("[\n{}\n]\n", objects.collect::<Vec<_>>().join(",\n"))
}

/// `1 line`, `2 lines`
pub(crate) fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
