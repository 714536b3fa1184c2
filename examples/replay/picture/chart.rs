//! What is drawn, as numbers: the part of time in view, its slices, the curve of the past period, round ticks.

use tollgate::Timestamp;

use super::{
    Times,
    page::{LEFT, RIGHT},
};
use crate::when;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// How many requests each slice of time holds, of those that hold any: its start, its end, how many.
pub(super) type Bars = Vec<(u64, u64, u64)>;

/// How many requests the past period holds, from an x on until the next.
pub(super) type Curve = Vec<(f64, u64)>;

impl Times {
    /// The shortest time between two instants that differ.
    pub(super) fn resolution(self) -> u64 {
        match self {
            Self::Calendar => SECOND,
            Self::Stopwatch => 1,
        }
    }
}

/// A part of time, the slices it is cut into, and where it is on the page.
pub(super) struct View {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) slice: u64,
}

impl View {
    /// A view of these instants, sorted and at least one.
    pub(super) fn around(stamps: &[u64], period: u64, times: Times) -> Self {
        let (first, last) = (stamps[0], stamps[stamps.len() - 1]);
        let span = last - first;
        let instants = 1 + stamps.windows(2).filter(|pair| pair[0] != pair[1]).count();
        // Few instants stand in the middle of some room; many fill the width.
        let (margin, slices) = match instants {
            1 => (5 * times.resolution().max(period / 1_000), 40),
            2..=4 => (span / 2, 40),
            5..=60 => (span / 20, 90),
            _ => (span / 40, 180),
        };
        let wide = span.saturating_add(margin).saturating_add(margin);
        let slice = nice_step(|step| step >= times.resolution() && step >= wide / slices);
        // One longer than a period would hold more than the limit is for.
        let slice = slice.min(period.max(times.resolution()));
        let end = last.saturating_add(margin).saturating_add(slice);
        Self {
            from: first.saturating_sub(margin),
            to: end.min(Timestamp::MAX.as_nanos()),
            slice,
        }
    }

    pub(super) fn x(&self, at: u64) -> f64 {
        let part = (at as f64 - self.from as f64) / (self.to - self.from) as f64;
        LEFT + part.clamp(0.0, 1.0) * (RIGHT - LEFT)
    }

    pub(super) fn bars(&self, stamps: &[u64]) -> Bars {
        let mut bars = Bars::new();
        for &at in stamps
            .iter()
            .filter(|&&at| at >= self.from && at <= self.to)
        {
            let start = at / self.slice * self.slice;
            match bars.last_mut() {
                Some((last, _, count)) if *last == start => *count += 1,
                _ => bars.push((start, start.saturating_add(self.slice), 1)),
            }
        }
        bars
    }

    /// Within half a pixel, the most.
    pub(super) fn curve(&self, stamps: &[u64], period: u64) -> Curve {
        let (mut entered, mut left) = (0, 0);
        // Lets in and out what is due before an instant; the highest and the last level met.
        let mut go_to = |until: u64| {
            let mut highest = 0;
            loop {
                let enters = stamps.get(entered).filter(|&&at| at < until);
                let leaves = stamps[left..entered].first();
                let leaves = leaves.map(|at| at.saturating_add(period));
                match (enters, leaves.filter(|&at| at < until)) {
                    (None, None) => return (highest, (entered - left) as u64),
                    (Some(&enter), leave) if leave.is_none_or(|leave| enter < leave) => {
                        entered += 1;
                        highest = highest.max((entered - left) as u64);
                    }
                    _ => left += 1,
                }
            }
        };

        let pixels = (RIGHT - LEFT) as u64 * 2;
        let (_, mut level) = go_to(self.from);
        let mut curve = Curve::new();
        for pixel in 0..pixels {
            let passed = u128::from(self.to - self.from) * u128::from(pixel + 1);
            let end = self.from + (passed / u128::from(pixels)) as u64;
            let (highest, last) = go_to(end);
            let most = highest.max(level);
            level = last;
            if curve.last().is_none_or(|&(_, height)| height != most) {
                curve.push((LEFT + pixel as f64 / 2.0, most));
            }
        }
        curve
    }

    /// Round instants with their labels, few enough to stand side by side.
    pub(super) fn ticks(&self, times: Times) -> Vec<(u64, String)> {
        let most = match times {
            Times::Calendar => 8,
            Times::Stopwatch => 5,
        };
        let step = nice_step(|step| (self.to - self.from) / step <= most);
        let digits = match step {
            SECOND.. => 0,
            100_000_000.. => 1,
            10_000_000.. => 2,
            1_000_000.. => 3,
            1_000.. => 6,
            _ => 9,
        };
        let label = |nanos: u64| {
            let at = Timestamp::from_nanos(nanos);
            match (times, step) {
                (Times::Stopwatch, _) => when::minute_and_second(at, digits),
                (_, DAY..) => when::date(at),
                (_, MINUTE..) => when::hour_and_minute(at),
                _ => when::time_of_day(at, digits),
            }
        };
        let mut ticks = Vec::new();
        let mut next = self.from.div_ceil(step).checked_mul(step);
        while let Some(at) = next.filter(|&at| at <= self.to) {
            ticks.push((at, label(at)));
            next = at.checked_add(step);
        }
        ticks
    }
}

/// A vertical scale: from 0 to a little above the largest value.
pub(super) struct Scale {
    pub(super) top: u64,
    pub(super) step: u64,
    pub(super) height: f64,
}

impl Scale {
    pub(super) fn new(largest: u64, height: f64) -> Self {
        let lines = (height / 13.0) as u64;
        let powers = (0..19).map(|power| 10_u64.pow(power));
        let step = powers
            .flat_map(|power| [1, 2, 5].map(|digit| digit * power))
            .find(|step| largest / step <= lines)
            .unwrap_or(u64::MAX / 4);
        let top = largest.saturating_add(largest / 12).max(1);
        Self { top, step, height }
    }

    /// How far above the base.
    pub(super) fn y(&self, count: u64) -> f64 {
        count.min(self.top) as f64 / self.top as f64 * self.height
    }
}

/// The shortest that fits of the lengths of time that people count in, from a nanosecond to centuries.
fn nice_step(fits: impl Fn(u64) -> bool) -> u64 {
    let powers = |most| (0..most).map(|power| 10_u64.pow(power));
    let times = |digits: [u64; 3], unit: u64| digits.map(|digit| digit * unit);
    let decimal = powers(9).flat_map(|power| times([1, 2, 5], power));
    let seconds = [1, 2, 5, 10, 15, 30].map(|count| count * SECOND);
    let minutes = [1, 2, 5, 10, 15, 30].map(|count| count * MINUTE);
    let hours = [1, 2, 3, 6, 12].map(|count| count * HOUR);
    let days = powers(5).flat_map(|power| times([1, 2, 5], power * DAY));
    decimal
        .chain(seconds)
        .chain(minutes)
        .chain(hours)
        .chain(days)
        .find(|&step| fits(step))
        .unwrap_or(100_000 * DAY)
}
