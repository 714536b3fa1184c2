//! Rows 1-38, 44, 45 and 57 of `EDGE_CASES.md`: inputs on which real limiters failed. (Rows 39-43 are about waiting: `tests/wait`.)
//!
//! Each test opens with the story of the fault and then tries its *kind*: over every algorithm it can
//! happen to, through the bare rule, `Direct` and `Keyed`, alone and as one of several limits, at the Unix epoch and in
//! our own days. Of rows 16 and 57 the Redis halves wait for Redis.

#![cfg(feature = "std")]

mod faces;
mod policies;

mod arithmetic;
mod changes;
mod clock;
mod cost;
mod denials;
mod keys;
mod refunds;
mod several;
mod windows;
