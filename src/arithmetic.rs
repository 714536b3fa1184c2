//! Whole numbers wider than a word: nothing here rounds unless its name says so.

/// A u128 as two halves: 16 bytes of alignment 8, where a `u128` would ask for 16.
#[inline]
pub(crate) const fn split(value: u128) -> [u64; 2] {
    [value as u64, (value >> 64) as u64]
}

#[inline]
pub(crate) const fn join([low, high]: [u64; 2]) -> u128 {
    (high as u128) << 64 | low as u128
}

/// `dividend / divisor`, by the processor's own division where both fit a word.
///
/// By zero it is zero. No limit and no period is; but a division that could panic is one that the compiler must keep, even
/// where nobody reads what comes of it.
#[inline]
pub(crate) const fn divide(dividend: u128, divisor: u64) -> u128 {
    if divisor == 0 {
        0
    } else if dividend <= u64::MAX as u128 {
        (dividend as u64 / divisor) as u128
    } else {
        dividend / divisor as u128
    }
}

#[inline]
pub(crate) const fn divide_up(dividend: u128, divisor: u64) -> u128 {
    let quotient = divide(dividend, divisor);
    if quotient * (divisor as u128) < dividend {
        quotient + 1
    } else {
        quotient
    }
}

#[inline]
pub(crate) const fn saturate(value: u128) -> u64 {
    if value > u64::MAX as u128 {
        u64::MAX
    } else {
        value as u64
    }
}
