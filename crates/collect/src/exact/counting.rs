//! Counters of a thread: what they have grown by since the poll before goes to the profile.
//!
//! ```text
//!   sites    -> reported, or left out of a paused recording      site_counts
//!   misses   -> the same, of those that missed a private cache   misses
//!   pages    -> reported as far as sites were                    page_counts
//!            -> attributed to objects once it is known whose pages they were   object_counts
//! ```

mod code_counts;
mod known;
mod misses;
mod object_counts;
mod page_counts;
mod poll_thread;
mod site_counts;

use super::poll::Poll;
pub use code_counts::report_code;
use known::Known;
use numalens_event::exact::{Extent, ProcessHeader};
use numalens_profile::ids::ThreadId;
pub use poll_thread::{Polling, poll_thread};

/// A poll of a thread: what is compared, and how.
struct Counting<'a> {
    header: &'a ProcessHeader,
    lookup: &'a Known<'a>,
    classes_log2: u32,
    extent: Extent,
    thread: ThreadId,
    node: Option<u16>,
    time_ns: u64,
    poll: Poll,
    /// Executions that a running thread may take back.
    in_flight: u64,
    /// Pages are reported no more than sites are: parts are left out, or the thread counts no more.
    strict: bool,
}
