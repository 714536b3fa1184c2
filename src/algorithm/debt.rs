//! How far a charge may put a client into debt.

use core::fmt;

use crate::error::DebtError;
use crate::quota::Quota;

/// The cap on a client's debt, beside what the limit itself grants; together they are at most 2⁶³ − 1 units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct DebtCap {
    /// A word and no `Option`, for every shard of a store keeps its limiter beside its lock. [`UNSET`]: as much as the limit
    /// itself grants.
    units_or_unset: u64,
}

impl DebtCap {
    pub(super) const DEFAULT: Self = Self {
        units_or_unset: UNSET,
    };

    /// A cap beside a limit that grants `grants` units.
    pub(super) const fn new(units: u64, grants: u64) -> Result<Self, DebtError> {
        let most = Quota::MAX_LIMIT - grants;
        if units > most {
            return Err(DebtError::new(units, most));
        }
        Ok(Self {
            units_or_unset: units,
        })
    }

    /// The cap, if one was set.
    pub(super) const fn units(self) -> Option<u64> {
        match self.units_or_unset {
            UNSET => None,
            units => Some(units),
        }
    }

    /// The cap, beside a limit that grants `grants` units.
    #[inline]
    pub(super) const fn beside(self, grants: u64) -> u64 {
        let most = Quota::MAX_LIMIT - grants;
        match self.units() {
            Some(units) => units,
            None if grants < most => grants,
            None => most,
        }
    }

    /// The most that a limit may grant beside this cap.
    pub(super) const fn room_beside(self) -> u64 {
        match self.units() {
            Some(units) => Quota::MAX_LIMIT - units,
            None => Quota::MAX_LIMIT,
        }
    }

    /// For a limiter's `Debug`: nothing where nothing was set.
    pub(super) fn describe(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.units() {
            Some(units) => write!(f, ", debt {units}"),
            None => Ok(()),
        }
    }

    /// How many of `units` may be recorded where `used` are in use, of a limit that grants `grants`.
    #[inline]
    pub(super) const fn most_of(self, units: u64, used: u64, grants: u64) -> u64 {
        let room = (grants + self.beside(grants)).saturating_sub(used);
        if units < room { units } else { room }
    }
}

/// No number of units that can be set.
const UNSET: u64 = u64::MAX;
