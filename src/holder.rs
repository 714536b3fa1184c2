//! [`HolderTime`]: the time that whoever holds states decides at.
//!
//! A rule relies on time that does not run back, and real stamps do: threads read the clock, are put to sleep, and call
//! in another order; and clocks are set back. The simplest idea is to keep an instant in each client's state and to take
//! the later of the two, and it is what others do. It breaks on the most ordinary day: a bucket with a burst of two, two
//! threads that ask at the same moment, stamps a microsecond apart. If the later stamp wins the race to the lock, the
//! earlier one finds a bucket that lacks one unit *as of the future*, and both of a burst of two are not
//! allowed whole. A burst of B sent at once by B threads must be, in every order.
//!
//! So time belongs to the holder and not to the state. A call is decided at the later of its stamp and the latest
//! *charge* that the holder has seen: for a late stamp time stands still, and nothing is given twice. Only charges
//! move it: a refused call, or a peek, must leave nothing behind, whatever stamp it came with.
//!
//! Standing still is right for microseconds; after the clock was set back by an hour it would shut everyone out
//! for an hour. So a stamp that is more than [ten seconds](SET_BACK_NS) late means that the clock was set back: the
//! difference is recorded and added to every stamp that follows. Time goes on from where it was, at the price that a
//! window's grid leaves the calendar by as much. Each step of the clock gives a client one burst at most (when it jumps
//! ahead, which cannot be told from time that has passed).

#[cfg(feature = "serde")]
use core::time::Duration;

use crate::decision::Decision;
use crate::time::Timestamp;
#[cfg(feature = "serde")]
use crate::time::saturating_nanos;

/// The time of one holder of states; every call takes its instant from here.
#[derive(Clone, Copy, Debug, Default, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct HolderTime {
    latest_charge: Timestamp,
    /// What is added to each stamp: how far the clock has been set back, all in all.
    shift_ns: u64,
}

/// When a call is decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instant {
    /// What the rule is asked.
    pub(crate) now: Timestamp,
    /// How much later that is than the caller's stamp (as the holder dates it).
    lateness_ns: u64,
    /// How far the clock was found to have been set back.
    set_back_ns: u64,
}

impl Instant {
    /// Whether this call has found that the clock was set back.
    #[inline]
    pub(crate) const fn clock_was_set_back(&self) -> bool {
        self.set_back_ns > 0
    }

    /// The same, or a later one.
    #[cfg(feature = "wait")]
    pub(crate) fn not_before(self, now: Timestamp) -> Self {
        Self {
            now: self.now.max(now),
            ..self
        }
    }

    /// How much later it is than the caller's stamp.
    #[inline]
    pub(crate) const fn lateness_ns(&self) -> u64 {
        self.lateness_ns
    }

    /// How long it is from the instant decided at until `at`.
    pub(crate) const fn wait_until(&self, at: Timestamp) -> u64 {
        at.nanos_since(self.now)
    }
}

impl HolderTime {
    /// Dates a call that was stamped `stamp`.
    #[inline]
    pub(crate) fn date(&self, stamp: Timestamp) -> Instant {
        let stamp = Timestamp::from_nanos(stamp.as_nanos().saturating_add(self.shift_ns));
        let late_ns = self.latest_charge.nanos_since(stamp);
        let was_set_back = late_ns > SET_BACK_NS;
        Instant {
            now: stamp.max(self.latest_charge),
            lateness_ns: if was_set_back { 0 } else { late_ns },
            set_back_ns: if was_set_back { late_ns } else { 0 },
        }
    }

    /// Keeps what the call at `instant` has shown: that the clock was set back, and, if it charged, that time has come so
    /// far. Makes the decision what its caller must read.
    #[inline]
    pub(crate) fn settle(&mut self, instant: Instant, decision: &mut Decision) {
        if instant.clock_was_set_back() {
            self.note_set_back(instant);
        }
        if decision.moves_time() {
            self.pass(instant);
        }
        decision.count_from(instant.lateness_ns);
    }

    /// The instant of what happens without a caller's stamp: as late as time has come.
    pub(crate) const fn latest(&self) -> Instant {
        Instant {
            now: self.latest_charge,
            lateness_ns: 0,
            set_back_ns: 0,
        }
    }

    /// The later of two times that go on as one, as those of a store's shards do when it is saved.
    #[cfg(feature = "serde")]
    pub(crate) fn join(&mut self, other: &Self) {
        self.latest_charge = self.latest_charge.max(other.latest_charge);
        self.shift_ns = self.shift_ns.max(other.shift_ns);
    }

    /// How much more the other time adds to stamps: by so much this one must be moved on to tell the same.
    #[cfg(feature = "serde")]
    pub(crate) fn behind(&self, other: &Self) -> Duration {
        Duration::from_nanos(other.shift_ns.saturating_sub(self.shift_ns))
    }

    /// The same time, moved on: it tells of a stamp what it told before, with so much added to it.
    #[cfg(feature = "serde")]
    pub(crate) fn moved_on(&self, by: Duration) -> Self {
        Self {
            latest_charge: self.latest_charge + by,
            shift_ns: self.shift_ns.saturating_add(saturating_nanos(by)),
        }
    }

    /// Adds to all stamps that follow what the clock was found to have been set back by.
    #[cold]
    pub(crate) fn note_set_back(&mut self, instant: Instant) {
        self.shift_ns = self.shift_ns.saturating_add(instant.set_back_ns);
    }

    /// The same, to an instant that may lie before the latest charge.
    #[cfg(feature = "wait")]
    pub(crate) fn pass_to(&mut self, charged_at: Timestamp) {
        self.latest_charge = self.latest_charge.max(charged_at);
    }

    /// Time has come to `instant`: no call is decided before it any more.
    #[inline]
    pub(crate) fn pass(&mut self, instant: Instant) {
        self.latest_charge = instant.now;
    }
}

/// A stamp this late is not a thread that was slow: the clock was set back.
pub(crate) const SET_BACK_NS: u64 = 10_000_000_000;
