//! The atomics of this folder: the standard library's, or loom's under `--cfg loom`, which tries their every order.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
