//! A web server's access log, in common or combined format, as requests in the order of their time.
//!
//! The input may be anything, of any size: it is read in fixed chunks, an overlong line is cut, and only what a
//! request needs is kept of a line, sixteen bytes: when, and whose.

use std::{
    collections::HashMap,
    fmt,
    io::{self, Read},
    net::IpAddr,
    ops::Range,
    rc::Rc,
};

use tollgate::Timestamp;

use crate::when::{self, BadStamp};

/// What a longer line has beyond this is skipped. (Servers refuse requests far shorter.)
pub(crate) const LONGEST_LINE: usize = 64 * 1024;
/// A host name has at most 253 bytes, an address fewer.
pub(crate) const LONGEST_CLIENT: usize = 255;
/// So many lines that do not parse are named.
pub(crate) const NAMED: usize = 5;
const CHUNK: usize = 256 * 1024;
const SHOWN: usize = 60;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) at: Timestamp,
    /// An index into [`Log::clients`].
    pub(crate) client: u32,
}

/// The requests of a log, sorted by time; those of one instant in the log's own order.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) requests: Vec<Request>,
    pub(crate) clients: Vec<Rc<str>>,
    /// Lines that are not blank.
    pub(crate) lines: u64,
    pub(crate) unparsed: u64,
    /// The first few of the unparsed.
    pub(crate) named: Vec<Unparsed>,
    /// Each client's requests, as indices into `requests`, one client after the other.
    by_client: Vec<u32>,
    /// Where in `by_client` each client's begin; one more for the end.
    begins: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct Unparsed {
    pub(crate) line: u64,
    pub(crate) why: Why,
    /// Its beginning, fit for a terminal.
    pub(crate) shown: String,
}

/// Why a line is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    NoClient,
    LongClient,
    Stamp(BadStamp),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClient => f.write_str("it does not begin with a client's address"),
            Self::LongClient => write!(f, "its client's address has over {LONGEST_CLIENT} bytes"),
            Self::Stamp(why) => why.fmt(f),
        }
    }
}

impl Log {
    /// Reads a log to its end. `progress` hears of the bytes and requests so far, once a chunk.
    pub(crate) fn read(input: impl Read, mut progress: impl FnMut(u64, usize)) -> io::Result<Self> {
        let mut lines = Lines::new(input);
        let mut builder = Builder::default();
        let mut number = 0;
        let mut heard = 0;
        while let Some(line) = lines.next()? {
            number += 1;
            builder.line(number, line)?;
            if lines.read != heard {
                heard = lines.read;
                progress(heard, builder.log.requests.len());
            }
        }
        Ok(builder.finish())
    }

    /// A log from requests at hand.
    pub(crate) fn of<'a>(
        requests: impl IntoIterator<Item = (Timestamp, &'a str)>,
    ) -> io::Result<Self> {
        let mut builder = Builder::default();
        for (at, client) in requests {
            builder.log.lines += 1;
            builder.request(at, client)?;
        }
        Ok(builder.finish())
    }

    /// One client's requests, as indices into `requests`, in the order of time.
    pub(crate) fn of_client(&self, client: u32) -> &[u32] {
        let client = client as usize;
        &self.by_client[self.begins[client] as usize..self.begins[client + 1] as usize]
    }

    /// The client with the most requests of those that `admit` admits; of equals, the one seen first.
    pub(crate) fn busiest(&self, admit: impl Fn(u32) -> bool) -> Option<u32> {
        let clients = 0..self.clients.len() as u32;
        clients
            .filter(|&client| admit(client))
            .rev()
            .max_by_key(|&client| self.of_client(client).len())
    }
}

/// A line's client, as the log spells it, and its time. Nothing else of the line is asked for.
///
/// `host ident user [dd/Mon/yyyy:HH:MM:SS +zzzz] "request" …`: the user may hold spaces and brackets, so the timestamp
/// is the last one before the request's quotation mark. A timestamp inside the request is not the line's.
pub(crate) fn parse(line: &[u8]) -> Result<(&str, Timestamp), Why> {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let ends = line.iter().position(blank).unwrap_or(line.len());
    let (client, rest) = line.split_at(ends);
    let at = stamp(rest).map_err(Why::Stamp)?;

    if client.len() > LONGEST_CLIENT {
        return Err(Why::LongClient);
    }
    let client = std::str::from_utf8(client).map_err(|_| Why::NoClient)?;
    let odd = |c: char| c.is_control() || c.is_whitespace();
    if client.is_empty() || client.starts_with(['[', '"']) || client.contains(odd) {
        return Err(Why::NoClient);
    }
    Ok((client, at))
}

/// The last timestamp before the request's quotation mark, which is the first after a timestamp. (Inside a field, servers
/// escape it.)
///
/// A quotation mark that no timestamp precedes may be the user's: Apache writes an empty one as `""`. After it, only what
/// stands where a timestamp does, right before a quotation mark, is one.
fn stamp(text: &[u8]) -> Result<Timestamp, BadStamp> {
    let mut found = Err(BadStamp::Missing);
    let mut before = b' ';
    let mut quoted = false;
    for (index, &byte) in text.iter().enumerate() {
        match byte {
            b'"' if before != b'\\' => {
                if found.is_ok() {
                    break;
                }
                quoted = true;
            }
            b'[' if matches!(before, b' ' | b'\t') => {
                let rest = &text[index + 1..];
                let stamp = when::parse_stamp(rest);
                if (stamp.is_ok() || found == Err(BadStamp::Missing))
                    && (!quoted || ends_before_request(rest))
                {
                    found = stamp;
                }
            }
            _ => {}
        }
        before = byte;
    }
    found
}

/// Whether what the next bracket closes is followed by white space and a quotation mark.
fn ends_before_request(text: &[u8]) -> bool {
    let closed = text.iter().position(|&byte| byte == b']');
    closed.is_some_and(|end| {
        let rest = &text[end + 1..];
        let request = rest.trim_ascii_start();
        request.len() < rest.len() && request.starts_with(b"\"")
    })
}

/// Splits an input into lines without holding more than a chunk of it.
struct Lines<R> {
    input: R,
    chunk: Vec<u8>,
    /// The part of `chunk` that is read and not yet handed out.
    rest: Range<usize>,
    /// The line handed out last was cut: what is left of it is still to come.
    cut: bool,
    /// Bytes read so far.
    read: u64,
    ended: bool,
}

impl<R: Read> Lines<R> {
    fn new(input: R) -> Self {
        Self {
            input,
            chunk: vec![0; CHUNK],
            rest: 0..0,
            cut: false,
            read: 0,
            ended: false,
        }
    }

    /// The next line without its end, `\n` or `\r\n`, and at most `LONGEST_LINE` of it.
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let Some(line) = self.find()? else {
            return Ok(None);
        };
        let line = &self.chunk[line];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Ok(Some(&line[..line.len().min(LONGEST_LINE)]))
    }

    fn find(&mut self) -> io::Result<Option<Range<usize>>> {
        let mut searched = 0;
        loop {
            let unsearched = &self.chunk[self.rest.start + searched..self.rest.end];
            if let Some(length) = unsearched.iter().position(|&byte| byte == b'\n') {
                let line = self.rest.start..self.rest.start + searched + length;
                self.rest.start = line.end + 1;
                searched = 0;
                if std::mem::take(&mut self.cut) {
                    continue;
                }
                return Ok(Some(line));
            }
            if self.cut {
                self.rest.start = self.rest.end;
            }
            searched = self.rest.len();
            if self.ended || searched > LONGEST_LINE {
                if self.rest.is_empty() {
                    return Ok(None);
                }
                self.cut = !self.ended;
                let line = self.rest.clone();
                self.rest.start = self.rest.end;
                return Ok(Some(line));
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        self.chunk.copy_within(self.rest.clone(), 0);
        self.rest = 0..self.rest.len();
        let got = loop {
            match self.input.read(&mut self.chunk[self.rest.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.rest.end += got;
        self.read += got as u64;
        self.ended = got == 0;
        Ok(())
    }
}

#[derive(Default)]
struct Builder {
    log: Log,
    ids: HashMap<Rc<str>, u32>,
}

impl Builder {
    fn line(&mut self, number: u64, line: &[u8]) -> io::Result<()> {
        let line = match line.strip_prefix("\u{feff}".as_bytes()) {
            Some(rest) if number == 1 => rest,
            _ => line,
        };
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        self.log.lines += 1;
        match parse(line) {
            Ok((client, at)) => self.request(at, client)?,
            Err(why) => {
                self.log.unparsed += 1;
                if self.log.named.len() < NAMED {
                    let shown = shown(line);
                    let line = number;
                    self.log.named.push(Unparsed { line, why, shown });
                }
            }
        }
        Ok(())
    }

    fn request(&mut self, at: Timestamp, client: &str) -> io::Result<()> {
        if self.log.requests.len() == u32::MAX as usize {
            return Err(io::Error::other("more than 4294967295 requests"));
        }
        let client = match self.ids.get(client) {
            Some(&id) => id,
            None => self.learn(client),
        };
        self.log.requests.push(Request { at, client });
        Ok(())
    }

    /// An address has many spellings (`2001:DB8::1`, `::ffff:192.0.2.1`) and is one client.
    fn learn(&mut self, spelling: &str) -> u32 {
        let address = spelling.parse::<IpAddr>();
        let name = address.map_or_else(|_| spelling.into(), |ip| ip.to_canonical().to_string());
        let known = self.ids.get(name.as_str()).copied();
        let id = known.unwrap_or_else(|| {
            let id = self.log.clients.len() as u32;
            let name: Rc<str> = name.as_str().into();
            self.log.clients.push(Rc::clone(&name));
            self.ids.insert(name, id);
            id
        });
        if spelling != name {
            self.ids.insert(spelling.into(), id);
        }
        id
    }

    fn finish(self) -> Log {
        let Self { mut log, ids } = self;
        drop(ids);
        log.requests.sort_by_key(|request| request.at);

        let mut begins = vec![0; log.clients.len() + 1];
        for request in &log.requests {
            begins[request.client as usize + 1] += 1;
        }
        for client in 1..begins.len() {
            begins[client] += begins[client - 1];
        }
        let mut next = begins.clone();
        log.by_client = vec![0; log.requests.len()];
        for (index, request) in log.requests.iter().enumerate() {
            let slot = &mut next[request.client as usize];
            log.by_client[*slot as usize] = index as u32;
            *slot += 1;
        }
        log.begins = begins;
        log
    }
}

/// The beginning of a line with nothing in it that a terminal would obey.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN)]);
    let mut shown = String::new();
    for c in text.chars().take(SHOWN) {
        match c {
            '"' | '\'' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    if line.len() > 4 * SHOWN || text.chars().count() > SHOWN {
        shown.push('…');
    }
    shown
}
