//! Just enough of a command line: `--name value`.

use std::env;
use std::fmt::Debug;
use std::str::FromStr;

/// The value given for `--name`, if any.
///
/// # Panics
///
/// If it cannot be read.
#[must_use]
pub fn option<T>(name: &str) -> Option<T>
where
    T: FromStr,
    T::Err: Debug,
{
    let flag = format!("--{name}");
    let mut args = env::args().skip_while(|arg| *arg != flag);
    args.next()?;
    let value = args
        .next()
        .unwrap_or_else(|| panic!("{flag} wants a value"));
    // `10_000_000` is a number too.
    let parsed = value.parse().or_else(|_| value.replace('_', "").parse());
    Some(parsed.unwrap_or_else(|error| panic!("{flag} {value}: {error:?}")))
}

/// Whether `--name` was given.
#[must_use]
pub fn flag(name: &str) -> bool {
    let flag = format!("--{name}");
    env::args().any(|arg| arg == flag)
}
