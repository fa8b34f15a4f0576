//! First touches: giving pages their numbers and classes, and taking them back when pages go.
//!
//! The shadow table has an entry for each page of the address space. An entry without a class makes every access to its
//! page come here, *before* it is executed, so the kernel can still be asked what is there:
//!
//! ```text
//!   nothing is there   a write, or shared memory    this access places the page: its first touch
//!                      a read of private memory     the shared zero page: no home until somebody writes
//!   a page is there    in a huge page of ours       part of that one
//!                      else                         the kernel placed it, unseen
//! ```
//! On a virtual machine the policy says where a new page goes, and its class is settled. On a real one that can only be
//! asked afterwards: the first access is counted as *pending*, the entry stays *open*, and the next access asks. See
//! `resolve.rs`.
//!
//! Pages that a write would replace by a copy (the zero page, a file's pages mapped privately, a parent's after a fork)
//! stay open too, so that the write is seen. Reads of them come here every time, and patience has an end: see
//! `touch.rs`, and for the zero page `zeros.rs`.

mod access_handler;
mod before_string_write;
mod common;
mod fetched;
mod first_touch;
mod generation;
mod gone;
mod home;
mod huge_pages;
pub mod in_call;
mod inherit;
mod migrate;
mod query;
mod reconcile;
mod record;
mod regions;
mod resolve;
pub mod stack;
pub mod table;
mod touch;
mod walk;
mod zeros;

pub use access_handler::AccessHandler;
pub use fetched::fetched;
pub use generation::{begin_generation, may_begin_generation};
pub use gone::{clear, doubt, moved};
pub use home::{class_in, expected};
pub use inherit::{Inherited, inherit, shared_by_fork};
pub use migrate::{catch_up, each_home, each_there, home_of, migrate};
pub use query::Exclusive;
pub use reconcile::{reconcile, reconcile_all};
pub use resolve::find_homes;
pub use zeros::written_by_kernel;
