//! The drawing itself: SVG, from the top downward.

use std::fmt::Write as _;

use super::{
    Times,
    chart::{Curve, Scale, View},
};
use crate::when;
use tollgate::Timestamp;

const WIDTH: f64 = 1_000.0;
/// Where time begins and ends.
pub(super) const LEFT: f64 = 72.0;
pub(super) const RIGHT: f64 = 906.0;

/// Blue and orange after Okabe and Ito, which colour-blind people can tell apart; all differ in lightness too.
pub(super) const ALLOWED: &str = "#0072B2";
pub(super) const DENIED: &str = "#F0A830";
pub(super) const ASKED: &str = "#8C8C8C";
pub(super) const LIMIT: &str = "#A3195B";
pub(super) const INK: &str = "#1A1A1A";
pub(super) const FAINT: &str = "#5A5A5A";
const GRID: &str = "#E3E3E3";

/// How a text looks.
#[derive(Clone, Copy)]
pub(super) struct Text {
    size: u32,
    colour: &'static str,
    anchor: &'static str,
    weight: &'static str,
}

impl Text {
    pub(super) fn new(size: u32) -> Self {
        Self {
            size,
            colour: INK,
            anchor: "start",
            weight: "normal",
        }
    }

    pub(super) fn colour(self, colour: &'static str) -> Self {
        Self { colour, ..self }
    }

    pub(super) fn bold(self) -> Self {
        Self {
            weight: "bold",
            ..self
        }
    }

    pub(super) fn middle(self) -> Self {
        Self {
            anchor: "middle",
            ..self
        }
    }

    pub(super) fn end(self) -> Self {
        Self {
            anchor: "end",
            ..self
        }
    }
}

/// What stands before a word of the legend.
#[derive(Clone, Copy)]
pub(super) enum Key {
    /// A colour and its opacity.
    Area(&'static str, f64),
    Line,
    Dashed,
}

/// The drawing so far. `y` is where the next thing goes: a text's baseline, a panel's base.
#[derive(Default)]
pub(super) struct Page {
    body: String,
    pub(super) y: f64,
}

impl Page {
    pub(super) fn down(&mut self, by: f64) {
        self.y += by;
    }

    pub(super) fn text(&mut self, x: f64, text: &str, looks: Text) {
        self.text_at((x, 0.0), text, looks);
    }

    /// Text turned to read upwards, in the left margin.
    pub(super) fn upwards(&mut self, middle: f64, text: &str) {
        let _ = writeln!(
            self.body,
            "<text transform=\"translate(20 {middle:.1}) rotate(-90)\" font-size=\"13\" text-anchor=\"middle\" \
             fill=\"{INK}\">{}</text>",
            escaped(text)
        );
    }

    pub(super) fn legend(&mut self, what: &str, entries: &[(Key, &str)]) {
        self.text(LEFT, what, Text::new(13));
        let mut x = LEFT + 390.0;
        for &(key, label) in entries {
            match key {
                Key::Area(colour, opacity) => {
                    let paint = format!("fill=\"{colour}\" fill-opacity=\"{opacity}\"");
                    self.rect((x, 10.5), (14.0, 12.0), &paint);
                }
                Key::Line => self.line((x - 2.0, 4.5), (x + 16.0, 4.5), &stroke(INK)),
                Key::Dashed => self.line((x - 2.0, 4.5), (x + 16.0, 4.5), &dashed()),
            }
            self.text(x + 22.0, label, Text::new(13));
            x += 150.0;
        }
    }

    /// A name, what there is to say about it if there is room, and what came out.
    pub(super) fn panel_title(
        &mut self,
        name: &str,
        about: &str,
        summary: &str,
        colour: &'static str,
    ) {
        let width = |text: &str, each: f64| text.chars().count() as f64 * each;
        self.down(18.0);
        self.text(LEFT, name, Text::new(14).bold());
        let after = LEFT + width(name, 9.2) + 14.0;
        if after + width(about, 6.6) + width(summary, 7.4) < RIGHT {
            self.text(after, about, Text::new(12).colour(FAINT));
        }
        self.text(RIGHT, summary, Text::new(13).colour(colour).end());
        self.down(8.0);
    }

    /// Horizontal lines with their numbers, vertical lines at the axis's ticks.
    pub(super) fn grid(&mut self, view: &View, scale: &Scale, times: Times) {
        let paint = format!("stroke=\"{GRID}\"");
        for (at, _) in view.ticks(times) {
            let x = view.x(at);
            self.line((x, 0.0), (x, scale.height), &paint);
        }
        let mut count = 0;
        while count <= scale.top {
            let y = scale.y(count);
            self.line((LEFT, y), (RIGHT, y), &paint);
            let looks = Text::new(11).colour(FAINT).end();
            self.text_at((LEFT - 7.0, y - 4.0), &super::short(count), looks);
            match count.checked_add(scale.step) {
                Some(next) => count = next,
                None => break,
            }
        }
    }

    /// The part of a slice's bar that lies between two counts.
    pub(super) fn bar(
        &mut self,
        view: &View,
        scale: &Scale,
        (start, end): (u64, u64),
        (below, above): (u64, u64),
        colour: &str,
    ) {
        if below >= above.min(scale.top) {
            return;
        }
        let (left, right) = (view.x(start), view.x(end));
        let gap = if right - left > 3.0 { 0.6 } else { 0.0 };
        let width = (right - left - gap).max(0.8);
        let (low, high) = (scale.y(below), scale.y(above));
        let paint = format!("fill=\"{colour}\"");
        self.rect((left, high), (width, high - low), &paint);
        if above > scale.top {
            // Torn off.
            let tear = (left - 1.0, high - 4.0);
            self.rect(tear, (width + 2.0, 2.0), "fill=\"white\"");
        }
    }

    /// The curve; between it and a limit that it is above, an area.
    pub(super) fn curve(&mut self, scale: &Scale, curve: &Curve, limit: Option<u64>, colour: &str) {
        let ends = curve.iter().skip(1).map(|step| step.0).chain([RIGHT]);
        let (mut path, mut over) = (String::new(), String::new());
        for (&(x, count), end) in curve.iter().zip(ends) {
            let y = self.y - scale.y(count);
            let verb = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{verb}{x:.1} {y:.1}H{end:.1}");
            if let Some(limit) = limit.filter(|&limit| count > limit) {
                let low = self.y - scale.y(limit);
                let _ = write!(over, "M{x:.1} {low:.1}V{y:.1}H{end:.1}V{low:.1}Z");
            }
        }
        let paint = format!("fill=\"{LIMIT}\" fill-opacity=\"0.35\"");
        let _ = writeln!(
            self.body,
            "<path d=\"{over}\" {paint} shape-rendering=\"crispEdges\"/>"
        );
        let paint = format!("fill=\"none\" {}", stroke(colour));
        let _ = writeln!(self.body, "<path d=\"{path}\" {paint}/>");
    }

    pub(super) fn limit(&mut self, scale: &Scale, limit: Option<u64>) {
        if let Some(limit) = limit {
            let y = scale.y(limit);
            self.line((LEFT, y), (RIGHT, y), &dashed());
            let label = format!("limit {}", super::short(limit));
            let looks = Text::new(12).colour(LIMIT);
            self.text_at((RIGHT + 6.0, y - 4.0), &label, looks);
        }
    }

    pub(super) fn base(&mut self) {
        let paint = format!("stroke=\"{INK}\"");
        self.line((LEFT, 0.0), (RIGHT, 0.0), &paint);
    }

    /// A dotted line upwards.
    pub(super) fn dotted(&mut self, x: f64, height: f64) {
        let paint = "stroke=\"#707070\" stroke-dasharray=\"1.5 2.5\"";
        self.line((x, 0.0), (x, height), paint);
    }

    /// A frame around a part of a panel, however small.
    pub(super) fn frame(&mut self, from: f64, to: f64, height: f64) {
        let from = from.min(to - 5.0);
        let paint = format!("fill=\"none\" {}", stroke(INK));
        self.rect((from, height + 2.0), (to - from, height + 4.0), &paint);
    }

    pub(super) fn ticks(&mut self, view: &View, times: Times) {
        let mut shown = String::new();
        for (at, label) in view.ticks(times) {
            let x = view.x(at);
            self.line((x, 0.0), (x, -5.0), &format!("stroke=\"{INK}\""));
            self.text_at((x, -18.0), &label, Text::new(12).middle());
            let date = when::date(Timestamp::from_nanos(at));
            if times == Times::Calendar && date != shown && date != label {
                let looks = Text::new(12).colour(FAINT).middle();
                self.text_at((x, -32.0), &date, looks);
                shown = date;
            }
        }
    }

    pub(super) fn finish(self) -> String {
        let (height, body) = (self.y.ceil(), self.body);
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
        )
    }

    // Below, heights count upwards from the base.

    fn text_at(&mut self, (x, up): (f64, f64), text: &str, looks: Text) {
        let (y, text) = (self.y - up, escaped(text));
        let Text {
            size,
            colour,
            anchor,
            weight,
        } = looks;
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" font-weight=\"{weight}\" \
             text-anchor=\"{anchor}\" fill=\"{colour}\">{text}</text>"
        );
    }

    fn rect(&mut self, (x, top): (f64, f64), (width, height): (f64, f64), paint: &str) {
        let y = self.y - top;
        let _ = writeln!(
            self.body,
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" {paint}/>"
        );
    }

    fn line(&mut self, (x1, up1): (f64, f64), (x2, up2): (f64, f64), paint: &str) {
        let (y1, y2) = (self.y - up1, self.y - up2);
        let _ = writeln!(
            self.body,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {paint}/>"
        );
    }
}

fn stroke(colour: &str) -> String {
    format!("stroke=\"{colour}\" stroke-width=\"1.5\"")
}

fn dashed() -> String {
    stroke(LIMIT) + " stroke-dasharray=\"5 3\""
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
