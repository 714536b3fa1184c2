//! Makes the access log that `replay` uses when it is given none: always the same bytes.
//!
//! `cargo run --example make_sample_log > examples/data/sample-access.log`
//!
//! Half an hour of an invented site, in combined log format. Addresses are of the ranges reserved for documentation,
//! paths and agents are made up. Most clients are people; a few ask far more than 100 times a minute, and one of them
//! knows that minutes have edges.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
};

const AGENTS: [&str; 6] = [
    "Mozilla/5.0 (X11; Linux x86_64) Sailfin/12.1",
    "Mozilla/5.0 (Macintosh) Sailfin/12.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Lantern/88.4",
    "Mozilla/5.0 (iPhone) Sailfin/11.9 Mobile",
    "Mozilla/5.0 (Android 14; Mobile) Lantern/88.0",
    "Mozilla/5.0 (X11; FreeBSD amd64) \\\"Quill\\\"/3.2",
];
const PAGES: [&str; 8] = [
    "/",
    "/lamps",
    "/lamps/heron",
    "/lamps/tern?shade=linen",
    "/workshop",
    "/journal/2024/the-brass-winter",
    "/journal/2024/wick-and-wire",
    "/contact",
];
const ASSETS: [&str; 9] = [
    "/assets/site.css",
    "/assets/site.js",
    "/assets/serif.woff2",
    "/images/heron-small.webp",
    "/images/tern-small.webp",
    "/images/workshop.webp",
    "/images/logo.svg",
    "/favicon.ico",
    "/api/basket",
];
const SITE: &str = "https://lamps.example";
const MINUTE: u64 = 60_000;

fn main() -> io::Result<()> {
    io::stdout().lock().write_all(sample().as_bytes())
}

/// A request: when it came and when its answer had left, which is when the line was written. Milliseconds.
struct Hit {
    came: u64,
    left: u64,
    line: String,
}

pub(crate) fn sample() -> String {
    let mut site = Site {
        dice: Dice(0x0070_011a_7e00),
        hits: Vec::new(),
    };
    site.people();
    site.crawler();
    site.scraper();
    site.edge_rider();
    site.poller();
    site.guesser();

    site.hits.sort_by_key(|hit| hit.left);
    let mut text = String::new();
    for hit in &site.hits {
        // The log's time is the request's, in whole seconds: so the lines of slow requests come late.
        let second = hit.came / 1_000;
        let (minute, second) = (second / 60, second % 60);
        let stamp = format!("14/Mar/2024:16:{minute:02}:{second:02} +0100");
        let _ = writeln!(text, "{}", hit.line.replace("{}", &stamp));
    }
    text
}

struct Site {
    dice: Dice,
    hits: Vec<Hit>,
}

impl Site {
    fn hit(
        &mut self,
        came: u64,
        client: &str,
        request: &str,
        status: u16,
        from: &str,
        agent: &str,
    ) {
        let slow = if self.dice.below(25) == 0 { 4_000 } else { 120 };
        let left = came + 5 + self.dice.below(slow);
        let bytes = match status {
            304 => "-".to_owned(),
            200 => (400 + self.dice.below(60_000)).to_string(),
            _ => (150 + self.dice.below(300)).to_string(),
        };
        let line = format!(
            "{client} - - [{{}}] \"{request} HTTP/1.1\" {status} {bytes} \"{from}\" \"{agent}\""
        );
        self.hits.push(Hit { came, left, line });
    }

    /// Forty readers: a page, its pictures at once, a while to read.
    fn people(&mut self) {
        for person in 0..40 {
            let number = 1 + self.dice.below(250);
            let client = match person % 4 {
                0 => format!("192.0.2.{number}"),
                1 => format!("198.51.100.{number}"),
                2 => format!("203.0.113.{number}"),
                _ => format!("2001:db8:{:x}::{number:x}", 0x10 + person),
            };
            let agent = AGENTS[self.dice.below(6) as usize];
            let mut now = self.dice.below(22 * MINUTE);
            let mut from = "-".to_owned();
            for visit in 0..1 + self.dice.below(4) {
                let page = PAGES[self.dice.below(8) as usize];
                self.hit(now, &client, &format!("GET {page}"), 200, &from, agent);
                from = format!("{SITE}{page}");
                for asset in ASSETS {
                    if self.dice.below(3) > 0 {
                        let at = now + 80 + self.dice.below(1_500);
                        let status = if visit == 0 { 200 } else { 304 };
                        self.hit(at, &client, &format!("GET {asset}"), status, &from, agent);
                    }
                }
                now += 4_000 + self.dice.below(90_000);
            }
        }
    }

    /// A search engine's robot with manners: some fifteen a minute.
    fn crawler(&mut self) {
        let agent = "ExampleBot/2.1 (+https://bot.example/about)";
        let mut now = 2_000;
        while now < 29 * MINUTE {
            let request = format!("GET /lamps?page={}", now / 4_000);
            self.hit(now, "198.51.100.77", &request, 200, "-", agent);
            now += 3_500 + self.dice.below(1_000);
        }
    }

    /// The busiest: copies the shop at three to five requests a second, rests, and comes back.
    fn scraper(&mut self) {
        for (from, to) in [
            (6 * MINUTE + 38_000, 9 * MINUTE),
            (10 * MINUTE + 20_000, 11 * MINUTE + 25_000),
        ] {
            let mut now = from;
            while now < to {
                let request = format!("GET /lamps/item-{:04}", self.dice.below(10_000));
                self.hit(
                    now,
                    "203.0.113.66",
                    &request,
                    200,
                    "-",
                    "paperclip-fetch/0.9",
                );
                now += 200 + self.dice.below(133);
            }
        }
    }

    /// Fills one minute's quota in its last seconds and the next one's in its first, three times.
    fn edge_rider(&mut self) {
        for edge in [5, 13, 21].map(|minute| minute * MINUTE) {
            for index in 0..95 {
                let request = format!("GET /api/stock?item={index}");
                for at in [edge - 9_000 + index * 90, edge + 400 + index * 90] {
                    self.hit(
                        at,
                        "2001:db8:bad:cafe::99",
                        &request,
                        200,
                        "-",
                        "stockwatch/4.4",
                    );
                }
            }
        }
    }

    /// A little above the limit, for three minutes: two a second.
    fn poller(&mut self) {
        for index in 0..360 {
            let at = 15 * MINUTE + 10_000 + index * 500 + self.dice.below(60);
            self.hit(
                at,
                "2001:db8:85a3::8a2e:370:7334",
                "GET /api/orders",
                200,
                "-",
                "till-sync/1.0",
            );
        }
    }

    /// Tries passwords: 130 in five seconds, and again ten minutes later.
    fn guesser(&mut self) {
        for from in [12 * MINUTE + 31_000, 22 * MINUTE + 31_000] {
            for index in 0..130 {
                let at = from + index * 38;
                self.hit(
                    at,
                    "192.0.2.251",
                    "POST /account/login",
                    401,
                    "-",
                    "python-tries/2",
                );
            }
        }
    }
}

/// The generator `SplitMix64`.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
