//! Tables as older versions wrote them, which lack columns that can be empty.

use crate::ids::*;
use crate::tables::PageAccess as Newer;

table! {
    /// Without the thread's node and the page's home.
    PageAccess = "page_accesses" {
        process: ProcessId,
        bin: Bin,
        thread: ThreadId,
        page: Page,
        reads: u64,
        writes: u64,
        samples: u32,
        period: u64,
    }
}

impl From<Newer> for PageAccess {
    fn from(row: Newer) -> PageAccess {
        let Newer { process, bin, thread, page, reads, writes, samples, period, .. } = row;
        PageAccess { process, bin, thread, page, reads, writes, samples, period }
    }
}
