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

/// What every rule says of its cap, in the words of what it grants at once; it is asked for by `grants`, `cap` and `with_cap`.
macro_rules! max_debt_builders {
    ($grants:literal) => {
        #[doc = concat!(
            "The same, owed at most `units` by what [`charge`](Limiter::charge) records beyond the limit: the ",
            $grants,
            " unless said otherwise. It bounds how long a single charge can shut a client out."
        )]
        ///
        /// # Panics
        ///
        #[doc = concat!("If `units` and the ", $grants, " are more than 2⁶³ − 1 together. For a number that is not in the")]
        /// code, use [`try_with_max_debt`](Self::try_with_max_debt).
        #[must_use]
        pub const fn with_max_debt(self, units: u64) -> Self {
            match self.try_with_max_debt(units) {
                Ok(rule) => rule,
                Err(_) => panic!(concat!("the ", $grants, " and the debt must be at most 2^63 - 1 units together")),
            }
        }

        /// As [`with_max_debt`](Self::with_max_debt).
        ///
        /// # Errors
        ///
        #[doc = concat!("[`DebtError`] if `units` and the ", $grants, " are more than 2⁶³ − 1 together.")]
        pub const fn try_with_max_debt(self, units: u64) -> Result<Self, DebtError> {
            match DebtCap::new(units, self.grants()) {
                Ok(cap) => Ok(self.with_cap(cap)),
                Err(error) => Err(error),
            }
        }

        /// How many units a client may owe.
        #[must_use]
        pub const fn max_debt(&self) -> u64 {
            self.cap().beside(self.grants())
        }

        /// How many units a client may owe, where that was said.
        #[cfg(feature = "serde")]
        pub(crate) const fn set_max_debt(&self) -> Option<u64> {
            self.cap().units()
        }
    };
}
pub(super) use max_debt_builders;
