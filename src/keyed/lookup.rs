//! [`Lookup`]: what a key may be looked up by.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};

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

/// A look-up by two parts, for keys that are pairs: a route and a client.
///
/// It finds an `(A, B)` by whatever finds an `A` and a `B`, without making one; it hashes as the tuple does.
///
/// ```
/// use tollgate::{Keyed, Quota, Timestamp, TokenBucket, keyed::Pair};
///
/// let limiter: Keyed<(u16, String), _> = Keyed::new(TokenBucket::new(Quota::per_second(1)));
/// let now = Timestamp::from_secs(1_000);
/// let (search, login) = (1, 2);
/// assert!(limiter.allow(&Pair(&search, "ada"), now));
/// assert!(!limiter.allow(&Pair(&search, "ada"), now));
/// assert!(limiter.allow(&Pair(&login, "ada"), now));
/// ```
#[derive(Debug)]
pub struct Pair<'a, A: ?Sized, B: ?Sized>(pub &'a A, pub &'a B);

impl<A: Hash + ?Sized, B: Hash + ?Sized> Hash for Pair<'_, A, B> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
        self.1.hash(state);
    }
}

impl<A, B, K, J> Lookup<(K, J)> for Pair<'_, A, B>
where
    A: Lookup<K> + ?Sized,
    B: Lookup<J> + ?Sized,
{
    #[inline]
    fn is(&self, (first, second): &(K, J)) -> bool {
        self.0.is(first) && self.1.is(second)
    }

    #[inline]
    fn to_key(&self) -> (K, J) {
        (self.0.to_key(), self.1.to_key())
    }
}
