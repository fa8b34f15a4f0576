//! Where pages live, asked of the kernel from outside the target.
//!
//! Nothing here touches a page: `move_pages` without target nodes only looks up page tables, and the files of
//! /proc/PID describe them. A page that is not there stays not there.

mod affinity;
mod maps;
mod numa_maps;
mod page_map;
mod query;
mod reconcile;

pub use affinity::thread_affinity;
pub use maps::{Mapping, Permissions, read_maps};
pub use numa_maps::{NumaMapsRow, kernel_balances, read_numa_maps, thread_policy};
pub use page_map::{PageRun, page_map};
pub use query::{PageHome, query_homes};
pub use reconcile::{UnseenRun, unseen_pages};

#[cfg(test)]
mod tests;
