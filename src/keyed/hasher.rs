//! [`RandomState`]: the hasher that a store uses unless told otherwise.

use std::hash::BuildHasher;

/// A fast hasher, seeded at random for each store.
///
/// It is [foldhash](https://docs.rs/foldhash): the order of a store differs from one process to the next, so nobody can
/// prepare keys that collide. It is not cryptographic: somebody who can measure the times of very many calls might
/// learn enough to choose such keys. Where keys come from adversaries with that patience, give
/// [`Keyed::with_hasher`](super::Keyed::with_hasher) the standard library's `RandomState` (SipHash-1-3).
#[derive(Clone, Debug, Default)]
pub struct RandomState(foldhash::fast::RandomState);

impl BuildHasher for RandomState {
    type Hasher = foldhash::fast::FoldHasher<'static>;

    #[inline]
    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }
}
