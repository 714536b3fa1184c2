//! At the edge of a service that speaks HTTP: whom a request comes from.

mod address;

pub use self::address::{AddressHeader, AddressKey, ClientAddress, PrefixError};
