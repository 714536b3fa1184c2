//! The oracle: DESIGN.md's five definitions, what is composed of them, and the holder's time, evaluated exactly, slow and
//! obvious.
//!
//! Nothing here is shared with the crate: stamps are `i128` nanoseconds (a window may begin before the epoch), quantities
//! are rationals. A rational of this folder has the period as its denominator and is never reduced: that is
//! fifty times faster, and a hundred thousand histories must take seconds. [`parts`] is the numerator of whole units.

mod composed;
mod holder;
mod rules;

use std::time::Duration;

use num_bigint::BigInt;
use num_rational::BigRational;
use tollgate::{CostTooHigh, Decision};

pub use self::composed::{Oracle, Taken};
pub use self::holder::{Holder, HolderTime, counted_from};

/// The last instant that a stamp can name.
pub const LAST_STAMP: i128 = (1 << 63) - 1;

/// What a limiter says to one call, waits in whole nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    Never {
        cost: u64,
        most: u64,
        member: usize,
    },
    Decided(Verdict),
    /// So many units, whole ones.
    GaveBack(u64),
    /// A change or a reset; or a refund of what was never charged, which is not asked for.
    Nothing,
}

/// What a decision tells; instants and waits in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Verdict {
    pub allowed: bool,
    pub limit: u64,
    pub remaining: u64,
    pub retry_after: u64,
    pub reset_after: u64,
    pub delay: u64,
    pub granted: u64,
    pub debt: u64,
    pub unrecorded: u64,
    pub refused_by: Option<usize>,
    pub would_have_refused: bool,
    /// The units that it names, and the instant.
    pub receipt: Option<(u64, u64)>,
}

impl Answer {
    pub fn verdict(&self) -> Option<&Verdict> {
        match self {
            Answer::Decided(verdict) => Some(verdict),
            _ => None,
        }
    }

    pub fn allowed(&self) -> bool {
        self.verdict().is_some_and(|verdict| verdict.allowed)
    }

    /// The same of a peek: nothing was spent.
    pub fn ungranted(self) -> Answer {
        match self {
            Answer::Decided(verdict) => Answer::Decided(Verdict {
                granted: 0,
                receipt: None,
                ..verdict
            }),
            other => other,
        }
    }
}

impl From<Result<Decision, CostTooHigh>> for Answer {
    fn from(answer: Result<Decision, CostTooHigh>) -> Answer {
        match answer {
            Ok(decision) => decision.into(),
            Err(never) => Answer::Never {
                cost: never.cost(),
                most: never.most(),
                member: never.member(),
            },
        }
    }
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Answer {
        Answer::Decided(decision.into())
    }
}

impl From<Decision> for Verdict {
    fn from(decision: Decision) -> Verdict {
        let nanos = |wait: Duration| {
            u64::try_from(wait.as_nanos()).expect("a wait saturates at u64 nanoseconds")
        };
        Verdict {
            allowed: decision.is_allowed(),
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after: nanos(decision.retry_after()),
            reset_after: nanos(decision.reset_after()),
            delay: nanos(decision.delay()),
            granted: decision.granted(),
            debt: decision.debt(),
            unrecorded: decision.unrecorded(),
            refused_by: decision.refused_by(),
            would_have_refused: decision.would_have_refused(),
            receipt: decision
                .receipt()
                .map(|receipt| (receipt.cost(), receipt.charged_at().as_nanos())),
        }
    }
}

/// The rare things, only where there are any.
impl std::fmt::Debug for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct(if self.allowed { "Allowed" } else { "Refused" });
        shown
            .field("limit", &self.limit)
            .field("remaining", &self.remaining)
            .field("retry_after", &self.retry_after)
            .field("reset_after", &self.reset_after);
        let rare = [
            ("delay", self.delay),
            ("granted", self.granted),
            ("debt", self.debt),
            ("unrecorded", self.unrecorded),
        ];
        for (name, value) in rare {
            if value > 0 {
                shown.field(name, &value);
            }
        }
        if let Some(member) = self.refused_by {
            shown.field("refused_by", &member);
        }
        if self.would_have_refused {
            shown.field("would_have_refused", &true);
        }
        if let Some(receipt) = self.receipt {
            shown.field("receipt", &receipt);
        }
        shown.finish()
    }
}

/// Whole units as a numerator over the period.
fn parts(units: u64, period: u64) -> BigInt {
    BigInt::from(units) * period
}

fn ratio(numerator: BigInt, denominator: u64) -> BigRational {
    BigRational::new_raw(numerator, denominator.into())
}

fn ceil(numerator: BigInt, denominator: u64) -> BigInt {
    ratio(numerator, denominator).ceil().to_integer()
}

/// A quantity as the crate hands it out: it is never negative, and saturates.
fn whole(quantity: BigInt) -> u64 {
    assert!(quantity >= BigInt::ZERO, "a negative {quantity}");
    u64::try_from(quantity).unwrap_or(u64::MAX)
}
