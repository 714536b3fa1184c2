//! Snapshots: a store is saved, written, read and restored, and nobody can tell but by what was down meanwhile.
#![cfg(feature = "serde")]
// Of a test, nothing is reachable.
#![allow(unreachable_pub)]

#[path = "../support/mod.rs"]
mod support;

mod damage;
mod histories;
mod restore;
mod stores;
