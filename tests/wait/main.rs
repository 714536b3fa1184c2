//! Waiting, on simulated time: whoever waits goes in the order of arrival, at exactly the rate, and nobody overtakes.

#![cfg(feature = "wait")]

mod crowds;
mod faces;
mod faults;
mod model;
mod promises;
mod reservations;
mod runtimes;
mod shaking;
mod shaping;
mod sim;
mod stores;
#[cfg(feature = "stream")]
mod streams;
