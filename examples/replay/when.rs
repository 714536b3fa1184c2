//! Dates: the timestamp of a log line read, and instants written as people read them. UTC throughout.

use std::fmt;

use tollgate::Timestamp;

const NANOS: u64 = 1_000_000_000;
const DAY: i64 = 86_400;
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Why a line's timestamp is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadStamp {
    /// There is nothing of the shape `[dd/Mon/yyyy:HH:MM:SS +zzzz]`.
    Missing,
    Month,
    Day,
    Time,
    LeapSecond,
    Offset,
    BeforeEpoch,
    AfterEnd,
}

impl fmt::Display for BadStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "no timestamp [dd/Mon/yyyy:HH:MM:SS +zzzz] before the request",
            Self::Month => "its timestamp's month is none of Jan to Dec",
            Self::Day => "its timestamp's month has no such day",
            Self::Time => "its timestamp's time of day is not in 00:00:00 to 23:59:59",
            Self::LeapSecond => "second 60 is not at the end of a month in UTC",
            Self::Offset => "its timestamp's offset is not in -2359 to +2359",
            Self::BeforeEpoch => "its timestamp is before 1970",
            Self::AfterEnd => "its timestamp is after 11 Apr 2262, the last day tollgate can hold",
        })
    }
}

/// Reads `dd/Mon/yyyy:HH:MM:SS +zzzz]`: what follows the opening bracket.
pub(crate) fn parse_stamp(text: &[u8]) -> Result<Timestamp, BadStamp> {
    const SHAPE: &[u8; 27] = b"00/aaa/0000:00:00:00 +0000]";
    let text = text.get(..SHAPE.len()).ok_or(BadStamp::Missing)?;
    let fits = text.iter().zip(SHAPE).all(|(&byte, &shape)| match shape {
        b'0' => byte.is_ascii_digit(),
        b'a' => byte.is_ascii_alphabetic(),
        b'+' => byte == b'+' || byte == b'-',
        _ => byte == shape,
    });
    if !fits {
        return Err(BadStamp::Missing);
    }
    let number = |from: usize, to: usize| {
        text[from..to]
            .iter()
            .fold(0_i64, |sum, &digit| sum * 10 + i64::from(digit - b'0'))
    };

    let month = MONTHS
        .iter()
        .position(|name| name.as_bytes().eq_ignore_ascii_case(&text[3..6]))
        .ok_or(BadStamp::Month)?;
    let (year, month, day) = (number(7, 11), month as i64 + 1, number(0, 2));
    if day < 1 || day > days_in(year, month) {
        return Err(BadStamp::Day);
    }
    let (hour, minute, second) = (number(12, 14), number(15, 17), number(18, 20));
    if hour > 23 || minute > 59 || second > 60 {
        return Err(BadStamp::Time);
    }
    let (ahead_hours, ahead_minutes) = (number(22, 24), number(24, 26));
    if ahead_hours > 23 || ahead_minutes > 59 {
        return Err(BadStamp::Offset);
    }

    let ahead = (ahead_hours * 60 + ahead_minutes) * 60;
    let ahead = if text[21] == b'-' { -ahead } else { ahead };
    // A leap second is counted as the second after it, as the Unix clock does.
    let seconds = days_before(year, month, day) * DAY + hour * 3_600 + minute * 60 + second - ahead;
    if second == 60 && (seconds % DAY != 0 || civil(seconds / DAY).2 != 1) {
        return Err(BadStamp::LeapSecond);
    }
    let seconds = u64::try_from(seconds).map_err(|_| BadStamp::BeforeEpoch)?;
    match seconds.checked_mul(NANOS) {
        Some(nanos) if nanos <= Timestamp::MAX.as_nanos() => Ok(Timestamp::from_nanos(nanos)),
        _ => Err(BadStamp::AfterEnd),
    }
}

/// `17 May 2015`
pub(crate) fn date(at: Timestamp) -> String {
    let (year, month, day) = parts(at).0;
    format!("{day} {} {year}", MONTHS[month as usize - 1])
}

/// `10:05:03`, with as many digits after the second as asked for.
pub(crate) fn time_of_day(at: Timestamp, digits: usize) -> String {
    let (hour, minute) = parts(at).1;
    format!("{hour:02}:{minute:02}:{}", seconds(at, digits))
}

/// `10:05`
pub(crate) fn hour_and_minute(at: Timestamp) -> String {
    let (hour, minute) = parts(at).1;
    format!("{hour:02}:{minute:02}")
}

/// `00:59.9`: minutes and seconds since the epoch's hour.
pub(crate) fn minute_and_second(at: Timestamp, digits: usize) -> String {
    let (_, minute) = parts(at).1;
    format!("{minute:02}:{}", seconds(at, digits))
}

/// `17 May 2015 10:05:03`
pub(crate) fn date_and_time(at: Timestamp) -> String {
    format!("{} {}", date(at), time_of_day(at, 0))
}

/// A length of time in the words of a sentence: `minute`, `30 seconds`.
pub(crate) fn length(nanos: u64) -> String {
    const UNITS: [(u64, &str); 7] = [
        (86_400 * NANOS, "day"),
        (3_600 * NANOS, "hour"),
        (60 * NANOS, "minute"),
        (NANOS, "second"),
        (1_000_000, "millisecond"),
        (1_000, "microsecond"),
        (1, "nanosecond"),
    ];
    let exact = UNITS
        .iter()
        .find(|(unit, _)| nanos % unit == 0 && nanos > 0);
    match exact {
        Some(&(unit, name)) if nanos == unit => name.to_owned(),
        Some(&(unit, name)) => format!("{} {name}s", nanos / unit),
        None => "0 seconds".to_owned(),
    }
}

/// The same with its number: `1 minute`, `30 seconds`.
pub(crate) fn counted_length(nanos: u64) -> String {
    let length = length(nanos);
    if length.starts_with(|first: char| first.is_ascii_digit()) {
        length
    } else {
        format!("1 {length}")
    }
}

fn seconds(at: Timestamp, digits: usize) -> String {
    let within = at.as_nanos() % (60 * NANOS);
    let (second, nanos) = (within / NANOS, within % NANOS);
    if digits == 0 {
        format!("{second:02}")
    } else {
        format!("{second:02}.{}", &format!("{nanos:09}")[..digits.min(9)])
    }
}

/// (year, month, day) and (hour, minute).
fn parts(at: Timestamp) -> ((i64, i64, i64), (u64, u64)) {
    let seconds = at.as_nanos() / NANOS;
    let of_day = seconds % DAY as u64;
    let days = (seconds / DAY as u64) as i64;
    (civil(days), (of_day / 3_600, of_day / 60 % 60))
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1 January 1970 to a date of the Gregorian calendar. Years are counted from March, so that the leap day is
/// a year's last, and in eras of 400 years, which are all of one length.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The inverse: (year, month, day) of a day since 1 January 1970.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = (shifted_month + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}
