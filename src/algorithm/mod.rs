//! The five rules, one file each.
//!
//! | | allows within any period | state | weakness |
//! |---|---|---|---|
//! | [`TokenBucket`] | at most B + L | 16 bytes | a burst of B at once |
//! | [`LeakyBucket`] | at most B + L, released at L/P | 16 bytes | those who wait, wait up to B·P/L |
//! | [`FixedWindow`] | at most 2·L | 16 bytes | the double burst at a window's edge |
//! | [`SlidingLog`] | at most L | 48 bytes and 16 per run | memory |
//! | [`SlidingWindowCounter`] | less than 2·L | 24 bytes | an approximation, wrong in both directions |
//!
//! **How to choose.** Take the token bucket unless you know better: it is the fastest, it lets a client that was quiet
//! burst, and its worst case is a number you set. Take the leaky bucket where what lies behind must see an even flow.
//! Take the fixed window where the quota is a contract by the calendar. Take the sliding log where "never more than L in
//! any P" must be literally true and L is small, and the counter where it must nearly be and memory is short.
//!
//! What all five promise, and one check list tests: decisions are exact; a refusal's wait is exact to the nanosecond; a
//! refusal, a peek and a cost of 0 change nothing; a cost that could never pass is an error at once; an idle state may be
//! forgotten; and no state and no stamp makes one panic or wrap.

mod bucket;
mod debt;
mod fixed_window;
mod grid;
mod leaky_bucket;
mod sliding_log;
mod sliding_window_counter;
mod token_bucket;

#[cfg(feature = "wait")]
pub use bucket::Booking;
pub(crate) use bucket::BucketFound;
pub use bucket::BucketState;
pub(crate) use fixed_window::WindowFound;
pub use fixed_window::{FixedWindow, FixedWindowState};
pub use leaky_bucket::LeakyBucket;
pub(crate) use sliding_log::LogFound;
pub use sliding_log::{SlidingLog, SlidingLogState};
pub(crate) use sliding_window_counter::CounterFound;
pub use sliding_window_counter::{SlidingWindowCounter, SlidingWindowCounterState};
pub use token_bucket::TokenBucket;
