//! Several limits as one: tuples, [`All`], a limit on trial, a limit per plan.
//!
//! The simplest idea is to ask one limiter after the other, and it breaks at the first refusal: 10 per second and 1 000 per
//! day, the day is spent, and each refused call has cost the second a unit that nothing was had for. The other way round it
//! is the day that pays. So here every member is looked at before any is charged: they are charged together or not at all.
//!
//! The surprising consequence is that a client whose day is spent keeps its seconds untouched, and is told the day's wait.

mod all;
mod plans;
#[cfg(feature = "serde")]
mod set;
mod shadow;
mod tuple;

pub use self::all::{All, AllState, EmptyAll};
pub use self::plans::{PlanId, PlanState, Plans, PlansError, UnknownPlan};
#[cfg(feature = "serde")]
pub use self::set::PolicySet;
pub use self::shadow::Shadow;
