//! At the edge of a service that speaks HTTP: whom a request comes from, and a decision as header fields.

mod address;
mod fields;
mod refusal;

pub use self::address::{AddressHeader, AddressKey, ClientAddress, PrefixError};
pub use self::fields::{FieldError, QuotaFields, QuotaStyle, XReset};
pub use self::refusal::is_grpc;
