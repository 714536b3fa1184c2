//! [`Jitter`]: going a little later than one may.

use core::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foldhash::fast::RandomState;

use crate::time::saturating_nanos;

/// By how much each who had to wait goes later.
#[derive(Clone)]
pub(super) struct Jitter(Option<Arc<dyn Fn() -> Duration + Send + Sync>>);

impl Jitter {
    pub(super) const NONE: Self = Self(None);

    pub(super) fn by(draw: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(draw)))
    }

    /// Evenly from nothing to `most`.
    pub(super) fn up_to(most: Duration) -> Self {
        let most_ns = saturating_nanos(most);
        // A keyed hash of a count is random enough to spread a crowd, and the store has one already.
        let (random, drawn) = (RandomState::default(), AtomicU64::new(0));
        Self::by(move || {
            let number = random.hash_one(drawn.fetch_add(1, Ordering::Relaxed));
            let part_ns = (u128::from(number) * (u128::from(most_ns) + 1)) >> u64::BITS;
            Duration::from_nanos(part_ns as u64)
        })
    }

    pub(super) fn draw(&self) -> Duration {
        self.0.as_ref().map_or(Duration::ZERO, |draw| draw())
    }
}

impl fmt::Debug for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Jitter" } else { "None" })
    }
}
