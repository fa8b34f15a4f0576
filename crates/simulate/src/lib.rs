//! What if: the same accesses with pages and threads elsewhere, and what that would cost. Pure: numbers in, numbers
//! out.
//!
//! [`replay`] turns a [`Recording`] into the [`Traffic`] of another machine, thread placement and [`Policy`];
//! [`CostModel`] prices traffic; [`figures`] are its metrics.

mod cluster;
mod cost;
mod homes;
mod migration;
mod moments;
mod policy;
mod recording;
mod replay;
mod traffic;
mod users;

pub use cost::{Cost, CostModel, QUEUE};
pub use migration::Migration;
pub use moments::{Moment, Moments};
pub use policy::Policy;
pub use recording::{PageUse, Recording, User};
pub use replay::{Figures, Outcome, Threads, figures, replay};
pub use traffic::Traffic;
pub use users::Users;
