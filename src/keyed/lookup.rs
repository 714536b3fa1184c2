//! [`Lookup`]: what a key may be looked up by.

use std::borrow::Borrow;
use std::hash::Hash;

/// What a client's key of type `K` can be looked up by without making one: `str` for a `String`, `[u8]` for a
/// `Vec<u8>`, and every type that is `Clone` for itself.
///
/// It is implemented for whatever [`ToOwned`] makes a `K` of. A type that implements it by itself must hash as the key
/// does.
///
/// ```
/// use tollgate::{Keyed, Quota, Timestamp, TokenBucket};
///
/// let by_name: Keyed<String, _> = Keyed::new(TokenBucket::new(Quota::per_second(1)));
/// assert!(by_name.allow("ada", Timestamp::EPOCH));
/// let by_number: Keyed<u64, _> = Keyed::new(TokenBucket::new(Quota::per_second(1)));
/// assert!(by_number.allow(&42, Timestamp::EPOCH));
/// ```
pub trait Lookup<K>: Hash {
    /// Whether this looks up `key`.
    fn is(&self, key: &K) -> bool;

    /// The key, made when a client is first seen.
    fn to_key(&self) -> K;
}

impl<Q> Lookup<Q::Owned> for Q
where
    Q: ToOwned + Hash + Eq + ?Sized,
{
    #[inline]
    fn is(&self, key: &Q::Owned) -> bool {
        key.borrow() == self
    }

    #[inline]
    fn to_key(&self) -> Q::Owned {
        self.to_owned()
    }
}
