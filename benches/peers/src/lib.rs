//! What the benches of this package share: the workloads, the peers, and the runner that times one on the other.
//!
//! `README.md` beside this package says how to run them, what is fair about them and what was left out.

pub mod args;
pub mod contest;
pub mod keys;
pub mod load;
pub mod peer;
pub mod peers;
pub mod roster;
pub mod watch;
