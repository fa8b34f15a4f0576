//! What the exact engine's agent counts, in memory that outlives the program: one sparse memory file for a whole
//! recording.
//!
//! The counters themselves are shared, not messages about them. A program that is killed at any instruction leaves
//! exactly what it had counted, and the collector may look at any time without asking. (Iterations of some loops are
//! counted later, 4096 at most, all that they count together: whoever is killed there leaves what it had counted a
//! moment before.)
//!
//! ```text
//!  0        header: what the collector wants, how many extents are in use
//!  1 MiB    the agent's image: mapped privately into each program at its exec
//!  1 GiB    directory: one entry for each extent
//!  4 GiB    what processes have in common: where pages are, policies of memory
//!  64 GiB   persisted code
//!  1 TiB    extent 0: a process       header | log | sites | segments | pages | lines
//!  2 TiB    extent 1: a thread        header | site counters | page counters | last pages | lines
//!  3 TiB    ...
//! ```
//! Offsets are vast and almost all of the file is a hole: memory is used by what was written, and the reader finds that
//! with `SEEK_DATA`. An extent belongs to one process or thread for ever; numbers are given by
//! [`SessionHeader::extents`].
//!
//! **Pages** have dense numbers, given by the agent at first touch: number `p` is the `p`-th page incarnation of its
//! process (a page that is unmapped and touched again gets a new number), until those run out ([`PageNumbers`]).
//! [`PageRecord`] `p` says which page it was and
//! in which class it is counted, and each thread counts reads and writes in its [`PageCounts`] `p`; those that come in
//! pairs, one of each, it may count in one word, at [`thread::UPDATES`].
//!
//! **Sites** are operands of instructions, dense as well: [`SiteRecord`] `s`, and in each thread one row of counters,
//! one counter for each class. A class is a home and whether the page was placed by a pinned thread
//! ([`ProcessHeader::classes`]).
//!
//! **Last pages** are what the counters lack: a group of sites is counted by the executions of its segment as long as
//! it keeps to one page. Pending for [`LastPageRecord::entry`] are `executions - since` accesses of each of its sites.
//! A group of several has a row of its own, whose counters stand for one access of each ([`SiteRecord::members`]).
//!
//! **Direct page counters** count a group page by page: [`DirectHeader`] says for which pages there are counters now,
//! and beside each counter stands, like [`LastPageRecord::entry`], what it counts for. What a counter has is pending as
//! the executions of a last page are.
//!
//! **Segments** say how often code is executed: instructions that are executed together, and which of the counters
//! above tells how often ([`SegmentRecord`]).
//!
//! **Seats** are counters that a thread has for other nodes than the one it began on: in its own extent it has
//! counted what it did on that one, in a seat's extent what
//! it did on the seat's. It goes to and fro between them, and the log has each change of where it may run
//! ([`log::PLACED`]).
//!
//! **Cache lines** are counted where [`SessionHeader::lines`] asks for it: of each page in use, whatever its number, 64
//! records lie side by side. The process's [`LastAccess`] says who accessed a line last; each thread counts its own
//! accesses, and those that found another thread to be the last one, in its [`LineCounts`], and the latter also by who
//! that was ([`thread::COMMUNICATION`]).
//!
//! A thread changes a last page in this order: `entry` = 0, `since`, the flat tables, `since`, `entry`. Whoever reads
//! while it runs reads the flat tables first, then `entry`, `since`, the executions, `since` and `entry` again, and
//! leaves out a record that changed.

mod code;
mod commons;
pub mod direct;
mod directory;
mod file;
mod last_page;
mod line;
pub mod log;
mod page;
mod page_numbers;
mod persisted;
mod placement;
pub mod process;
mod session;
mod slots;
pub mod thread;

pub use code::*;
pub use commons::{Commons, POLICY_WORDS, PolicyWords};
pub use direct::{DIRECT_PAGES, DirectHeader, MOST_DIRECT};
pub use directory::{DirectoryEntry, Extent, GONE_ON, end, kind};
pub use file::*;
pub use last_page::{IS_PAGE_LIMIT, LastPageRecord, column_and_page};
pub use line::*;
pub use log::{LogHeader, MOST_MARKS};
pub use page::*;
pub use page_numbers::{GROUP, PageNumbers};
pub use persisted::*;
pub use placement::*;
pub use process::{ADDRESS_SPACE_NEEDED, ProcessHeader, TIER_UPS};
pub use session::*;
pub use slots::{MOST_SLOTS, Slots};
pub use thread::ThreadPlace;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap() {
        assert!(size_of::<SessionHeader>() as u64 <= PLACEMENT_OFFSET);
        // A moved page's class stands in 16 bits of its record.
        const { assert!(MOST_CLASSES < 1 << 16) };
        assert!(PLACEMENT_OFFSET + size_of::<Placement>() as u64 <= IMAGE_OFFSET);
        const { assert!(IMAGE_OFFSET + MOST_IMAGE_BYTES <= PATTERN_OFFSET) };
        const { assert!(PATTERN_OFFSET < DIRECTORY_OFFSET) };
        assert!(Extent(MOST_EXTENTS).directory_offset() <= COMMON_OFFSET);
        const { assert!(COMMON_OFFSET + COMMON_BYTES <= CODE_OFFSET) };
        assert!(size_of::<CodeDirectory>() as u64 <= CODE_BYTES && CODE_OFFSET + CODE_BYTES <= Extent(0).offset());
        assert!(Extent(MOST_EXTENTS).offset() <= FILE_BYTES);
        assert!(size_of::<ProcessHeader>() as u64 <= process::LOG);
        const { assert!(process::LOG + process::LOG_BYTES <= process::LOOKUP) };
        let policies = process::MOST_PUBLISHED_POLICIES * (POLICY_WORDS + 4) * 8 + 24;
        assert!(process::POLICIES + policies as u64 <= process::SITES);
        assert!(process::SITES + u64::from(MOST_SITES) * size_of::<SiteRecord>() as u64 <= process::SEGMENTS);
        assert!(process::SEGMENTS + u64::from(MOST_SEGMENTS) * size_of::<SegmentRecord>() as u64 <= process::PAGES);
        assert!(process::PAGES + u64::from(MOST_PAGES) * size_of::<PageRecord>() as u64 <= process::LINES);
        const { assert!(process::LINES + process::LINES_BYTES <= EXTENT_BYTES) };
        // Words of pages have 32 bits for that.
        const { assert!(thread::PAGES_FROM_GS + thread::PAGES_BYTES <= 1 << 32) };
        const { assert!(thread::DIRECT_COUNTERS.is_multiple_of(crate::page::PAGE)) };
        const { assert!(thread::PAGES + thread::PAGES_BYTES <= thread::PLACE) };
        assert!(thread::now(1) + size_of::<ThreadPlace>() as u64 <= thread::LINES);
        const { assert!(thread::COMMUNICATION + thread::COMMUNICATION_BYTES <= thread::WORDS) };
        const { assert!(thread::WORDS + thread::WORDS_BYTES <= thread::MISSES) };
        const { assert!(thread::MISSES + thread::MISSES_BYTES <= EXTENT_BYTES) };
    }
}
