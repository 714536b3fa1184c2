//! Faults that waiting had, each as the test that showed it: a reviewer knew the promises, and broke them.

mod booked;
mod last;
mod more;
mod waits;
