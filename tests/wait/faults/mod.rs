//! Faults that waiting had, each as the test that showed it: a reviewer knew the promises, and broke them.

mod bookings;
mod changes;
mod forgetting;
mod stamps;
mod wakers;
