//! Hot denials: a small table in front of the store that answers those who are refused anyway.
//!
//! Under attack a service is called most for clients that are already refused, and most of those calls need no lock: a
//! client that was refused until T is refused again before T, whatever else happens, unless something is given back to
//! it. So each refusal is noted in a line of this table, and a call that finds its note costs a hash and one cache line,
//! read without a lock and without a write: threads do not slow each other.
//!
//! # Why it never changes a decision
//!
//! - *Torn reads.* A line is a seqlock: its version is odd while it is written, and a reader that sees two versions, or
//!   an odd one, falls through to the store. (A line that only XORs its words is unsound: two entries can agree.)
//! - *Two keys on one line.* The line holds a 64-bit tag of its key, the hash; another tag falls through. Two keys with
//!   one tag would share refusals: with n refused clients in the table and a hash seeded at random, the odds are
//!   n / 2⁶⁴ for each call, one in 10¹⁶ for a thousand of them. A hasher of the user's own may be worse than that, so
//!   its hashes are mixed with ours: then the odds are no worse than ours.
//! - *Early stamps.* A note says from which stamp on it was seen to hold; earlier ones fall through.
//! - *Late stamps.* The store decides at the latest charge of the shard if that is later than the stamp, and it may lie
//!   beyond T. So a charge at T or later, of whichever client of the shard, makes the note void before its lock is free.
//! - *Clocks that are set back.* A stamp far behind the newest charge falls through, so that the store notices; and when it
//!   has, the generation changes and every note is void.
//! - *What is given back* (a refund, a reset, another limit or plan) makes the note void under the shard's lock; so does a
//!   charge that asks nobody. Other charges to the client itself cannot come before T: they are refused.
//! - *Debts* shrink as time passes, and a note does not tell them: a client that owes is not noted.
//! - *Other costs.* Only a cost of 1 is noted and answered.
//!
//! # Who writes
//!
//! All keys of a line belong to one shard (the shard's number is the lowest bits of the line's), and a line is written
//! only under that shard's lock: one writer at a time.

use std::sync::OnceLock;

use super::sync::{AtomicU64, Ordering, fence};

/// A client's refusal, in the stamps of its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Denial {
    /// The stamp at which it was refused.
    pub(super) since_ns: u64,
    /// From this stamp on a cost of 1 passes.
    pub(super) until_ns: u64,
    /// From this stamp on the client is as good as new.
    pub(super) reset_at_ns: u64,
    /// The limit that the decision named.
    pub(super) limit: u64,
    /// Which of several limits refused.
    pub(super) member: u64,
}

pub(super) struct Denials {
    /// Made at the first refusal: a store that never refuses has no table, and asks none.
    lines: OnceLock<Box<[Line; LINES]>>,
    generation: AtomicU64,
    /// The stamp of the newest charge of any shard, at most [`MARK_EVERY_NS`] behind it.
    newest_charge_ns: AtomicU64,
}

/// A key as this table knows it.
#[derive(Clone, Copy)]
pub(super) struct Tagged {
    /// The hash that chose the shard, and chooses the line.
    pub(super) hash: u64,
    /// What tells the key from others on its line.
    pub(super) tag: u64,
}

/// Which lines belong to a shard: the one with its number, and every so many after it.
#[derive(Clone, Copy)]
pub(super) struct LinesOfShard {
    pub(super) first: usize,
    pub(super) shards: usize,
}

/// One note, alone on its cache line.
#[repr(align(64))]
struct Line {
    /// Odd while the line is written.
    version: AtomicU64,
    tag: AtomicU64,
    since_ns: AtomicU64,
    until_ns: AtomicU64,
    reset_at_ns: AtomicU64,
    limit: AtomicU64,
    member: AtomicU64,
    generation: AtomicU64,
}

impl Denials {
    pub(super) fn new() -> Self {
        Self {
            lines: OnceLock::new(),
            generation: AtomicU64::new(0),
            newest_charge_ns: AtomicU64::new(0),
        }
    }

    /// The refusal of the key, if one is noted that holds at `stamp_ns`.
    #[inline]
    pub(super) fn find(&self, key: Tagged, stamp_ns: u64) -> Option<Denial> {
        let line = line_of(self.lines.get()?, key.hash);
        // Acquire, with the release that ends a write: whoever sees a version sees the words of that version.
        let version = line.version.load(Ordering::Acquire);
        if line.tag.load(Ordering::Relaxed) != key.tag || version % 2 == 1 {
            return None;
        }
        let denial = Denial {
            since_ns: line.since_ns.load(Ordering::Relaxed),
            until_ns: line.until_ns.load(Ordering::Relaxed),
            reset_at_ns: line.reset_at_ns.load(Ordering::Relaxed),
            limit: line.limit.load(Ordering::Relaxed),
            member: line.member.load(Ordering::Relaxed),
        };
        let generation = line.generation.load(Ordering::Relaxed);
        // If a word came from a later write, this fence meets the one that began that write, and the version that
        // follows shows it.
        fence(Ordering::Acquire);
        if line.version.load(Ordering::Relaxed) != version {
            return None;
        }
        let holds = denial.since_ns <= stamp_ns
            && stamp_ns < denial.until_ns
            // Relaxed: whoever was told of a set-back, or comes after it, sees it; for others either order is one.
            && generation == self.generation.load(Ordering::Relaxed)
            && self.newest_charge_ns.load(Ordering::Relaxed) <= stamp_ns.saturating_add(MARK_EVERY_NS);
        holds.then_some(denial)
    }

    /// Whether a refusal of this key should be noted. Under the lock of the key's shard, of whose refusals this is the one
    /// with number `turn`.
    ///
    /// A line that holds another client's refusal is given up only now and then: those who ask most get their lines, and
    /// the crowd of those who ask seldom does not push them out.
    #[inline]
    pub(super) fn has_room(&self, key: Tagged, stamp_ns: u64, turn: u32) -> bool {
        let Some(lines) = self.lines.get() else {
            return true;
        };
        let line = line_of(lines, key.hash);
        turn % DISPLACED_EVERY == 0
            || line.tag.load(Ordering::Relaxed) == key.tag
            || line.until_ns.load(Ordering::Relaxed) <= stamp_ns
            || line.generation.load(Ordering::Relaxed) != self.generation.load(Ordering::Relaxed)
    }

    /// Notes a refusal. Under the lock of the key's shard.
    #[inline]
    pub(super) fn note(&self, key: Tagged, denial: Denial) {
        let line = line_of(self.lines.get_or_init(new_lines), key.hash);
        let generation = self.generation.load(Ordering::Relaxed);
        if line.holds_refusal(key.tag, generation, &denial) {
            // The oldest stamp at which it was seen to hold stays: else a lagging thread would take the lock each time.
            if line.since_ns.load(Ordering::Relaxed) <= denial.since_ns {
                return;
            }
        }
        line.write(key.tag, generation, denial);
    }

    /// Makes void what is noted on the line of this hash: something was given to its client, or taken. Under the lock of
    /// the hash's shard.
    ///
    /// Whosever note it is: to void another's costs that client's next call a lock, and a client may be noted by more
    /// than one tag.
    #[inline]
    pub(super) fn clear(&self, hash: u64) {
        if let Some(lines) = self.lines.get() {
            let line = line_of(lines, hash);
            if line.until_ns.load(Ordering::Relaxed) > 0 {
                line.write(0, 0, NOTHING);
            }
        }
    }

    /// Makes void, among the lines of one shard, the notes that end at `stamp_ns` or before: time has come so far. Says
    /// when the next one ends. Under that shard's lock.
    #[cold]
    pub(super) fn expire(&self, shard: LinesOfShard, stamp_ns: u64) -> u64 {
        let Some(lines) = self.lines.get() else {
            return u64::MAX;
        };
        let mut next_end_ns = u64::MAX;
        for line in lines.iter().skip(shard.first).step_by(shard.shards) {
            match line.until_ns.load(Ordering::Relaxed) {
                0 => {}
                until_ns if until_ns <= stamp_ns => line.write(0, 0, NOTHING),
                until_ns => next_end_ns = next_end_ns.min(until_ns),
            }
        }
        next_end_ns
    }

    /// How often a clock was found to have been set back.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Makes all notes void: a clock was found to have been set back, to `stamp_ns`. Under a shard's lock.
    #[cold]
    pub(super) fn restart(&self, stamp_ns: u64) {
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.newest_charge_ns.store(stamp_ns, Ordering::Relaxed);
    }

    /// Says that a charge was stamped so; to be called when a shard's time has moved on by [`MARK_EVERY_NS`], and at
    /// its first charge of a generation.
    #[cold]
    pub(super) fn mark_charge(&self, stamp_ns: u64) {
        self.newest_charge_ns.fetch_max(stamp_ns, Ordering::Relaxed);
    }

    /// A table that notes nothing, to compare with.
    #[cfg(all(test, not(loom)))]
    pub(super) fn off() -> Self {
        let denials = Self::new();
        // No stamp is as late as this charge, so that every call falls through.
        denials.newest_charge_ns.store(u64::MAX, Ordering::Relaxed);
        denials
    }
}

impl Line {
    fn new() -> Self {
        Self {
            version: AtomicU64::new(0),
            tag: AtomicU64::new(0),
            since_ns: AtomicU64::new(0),
            until_ns: AtomicU64::new(0),
            reset_at_ns: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            member: AtomicU64::new(0),
            generation: AtomicU64::new(0),
        }
    }

    /// Whether the line says the same already, but for the stamp it was first seen at. Under the shard's lock.
    fn holds_refusal(&self, tag: u64, generation: u64, denial: &Denial) -> bool {
        let words = [
            (&self.tag, tag),
            (&self.generation, generation),
            (&self.until_ns, denial.until_ns),
            (&self.reset_at_ns, denial.reset_at_ns),
            (&self.limit, denial.limit),
            (&self.member, denial.member),
        ];
        words
            .iter()
            .all(|(word, value)| word.load(Ordering::Relaxed) == *value)
    }

    fn write(&self, tag: u64, generation: u64, denial: Denial) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        // No word below may be seen by a reader that does not then see the odd version (or a later one).
        fence(Ordering::Release);
        self.tag.store(tag, Ordering::Relaxed);
        self.since_ns.store(denial.since_ns, Ordering::Relaxed);
        self.until_ns.store(denial.until_ns, Ordering::Relaxed);
        self.reset_at_ns
            .store(denial.reset_at_ns, Ordering::Relaxed);
        self.limit.store(denial.limit, Ordering::Relaxed);
        self.member.store(denial.member, Ordering::Relaxed);
        self.generation.store(generation, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
    }
}

/// The line of the key with this hash; the bits that choose it begin with those that choose the shard.
#[inline]
fn line_of(lines: &[Line; LINES], hash: u64) -> &Line {
    &lines[(hash >> 32) as usize % LINES]
}

#[cold]
fn new_lines() -> Box<[Line; LINES]> {
    let lines: Vec<Line> = (0..LINES).map(|_| Line::new()).collect();
    lines
        .try_into()
        .unwrap_or_else(|lines: Vec<Line>| unreachable!("{LINES} lines, not {}", lines.len()))
}

/// A note that holds at no stamp.
const NOTHING: Denial = Denial {
    since_ns: 0,
    until_ns: 0,
    reset_at_ns: 0,
    limit: 0,
    member: 0,
};

/// Of the refusals that find another client's note on their line, one in so many takes the line over.
const DISPLACED_EVERY: u32 = 8;

/// A multiple of the number of shards. Loom need not try more than one.
pub(super) const LINES: usize = if cfg!(loom) { 1 } else { 2048 };

/// How far the newest charge may have moved on before it is told here; and how late a stamp may be to be answered from
/// here. Together they are the ten seconds after which a stamp shows that the clock was set back.
pub(super) const MARK_EVERY_NS: u64 = 5_000_000_000;
