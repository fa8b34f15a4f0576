//! A process: one program image, in parts that each know one thing of it.
//!
//! ```text
//!   life             how far it is known, and whether it is over
//!   site_table       its sites, and their last pages
//!   page_ledger      its pages by their numbers: which are there, which rest, which have gone
//!   regions          pages that are counted together
//!   shared_pages     pages of several objects: who has had them, and their counts until they are divided
//!   logged_events    what its log says, until it is taken in among all else that happened
//!   log_cursor       how far its log was read
//!   logged_stacks    call stacks in its log
//! ```

mod life;
mod log_cursor;
mod logged_events;
mod logged_stacks;
mod page_ledger;
mod regions;
mod shared_pages;
mod site_table;

use super::fetches::Fetches;
use super::file::Shared;
use super::namespaces::Identity;
use super::pending_homes::PendingHomes;
use super::release_memory::GROUP;
use super::word_counts::WordCounts;
pub use life::{Life, is_running};
pub use log_cursor::LogCursor;
pub use logged_events::{LoggedAccess, LoggedEvents};
pub use logged_stacks::{LoggedStacks, StackPlace};
use numalens_event::exact::{Extent, ProcessHeader};
use numalens_profile::ids::{Page, ProcessId};
pub use page_ledger::PageLedger;
pub use regions::{Regions, is_region};
pub use shared_pages::{ReleasedBlock, SharedPages};
pub use site_table::SiteTable;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// A process: one program image.
pub struct Process {
    pub id: ProcessId,
    pub identity: Identity,
    /// Whose pages and sites it has inherited.
    pub parent: Option<Extent>,
    pub header: Arc<Shared>,
    pub life: Life,
    pub sites: SiteTable,
    pub pages: PageLedger,
    pub regions: Regions,
    pub shared: SharedPages,
    /// What is known of accesses by word, where every access is attributed to its object.
    pub words: WordCounts,
    /// Code that it executes.
    pub fetches: Fetches,
    pub logged: LoggedEvents,
    pub log: LogCursor,
    pub stacks: LoggedStacks,
    /// Accesses that placed pages of a real machine.
    pub pending_homes: PendingHomes,
}

impl Process {
    /// One that begins; its header says what it has inherited.
    pub fn new(id: ProcessId, identity: Identity, parent: Option<Extent>, header: Arc<Shared>) -> Self {
        let words = header.process();
        let of = &words.inherited;
        let [sites, pages, segments, regions] =
            [&of.sites, &of.pages, &of.segments, &of.regions].map(|word| word.load(Relaxed));
        Process {
            id,
            identity,
            parent,
            header,
            life: Life::default(),
            sites: SiteTable::new(sites),
            pages: PageLedger::new(pages),
            regions: Regions::new(regions),
            shared: SharedPages::default(),
            words: WordCounts::default(),
            fetches: Fetches::new(segments),
            logged: LoggedEvents::default(),
            log: LogCursor::default(),
            stacks: LoggedStacks::default(),
            pending_homes: PendingHomes::default(),
        }
    }

    /// What its agent keeps at the beginning of its extent.
    pub fn header(&self) -> &ProcessHeader {
        self.header.process()
    }

    /// Under which number a page of its own is counted.
    pub fn counted_in(&self, number: u32) -> u32 {
        self.pages.own(number).and_then(|own| self.regions.of(own)).unwrap_or(number)
    }

    /// A page of a region, by its number, at random; none: it has no pages that are there.
    pub fn any_of_region(&self, region: u32, random: u64) -> Option<(u32, Page)> {
        let first = self.regions.get(region)?.page;
        let end = (first.0 + 1).next_multiple_of(u64::from(GROUP));
        let here = self.pages.live_in(first..Page(end));
        let pages: Vec<_> = here.into_iter().filter(|&(_, own)| self.regions.of(own) == Some(region)).collect();
        let (page, own) = *pages.get((random % pages.len().max(1) as u64) as usize)?;
        Some((self.pages.number(own), page))
    }

    /// Bytes that it has logged, or would have with more room.
    pub fn logged_bytes(&self) -> u64 {
        self.header().log_bytes.load(Acquire)
    }

    /// What its agent said when it gave up; empty: it has not.
    pub fn failure(&self) -> String {
        let bytes = self.header().failure.iter().map(|byte| byte.load(Relaxed)).take_while(|&byte| byte != 0);
        String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
    }

    /// Makes the agent ask for pages again before it counts their next accesses: takes their classes out of its table.
    /// Whatever the agent does at the same moment, an entry without a class is one that it looks at.
    pub fn doubt(&self, pages: &[Page]) {
        const CLASS: usize = 4;
        const AT_ONCE: usize = 1024;
        let nothing = [0u8; CLASS * AT_ONCE];
        for pages in pages.chunks(AT_ONCE) {
            self.header().with_shadow(|table| {
                let from = [std::io::IoSlice::new(&nothing[..CLASS * pages.len()])];
                let word = |page: &Page| nix::sys::uio::RemoteIoVec { base: (table + page.0 * 8) as usize, len: CLASS };
                let to: Vec<_> = pages.iter().map(word).collect();
                // A process that is gone has no table.
                let _ = nix::sys::uio::process_vm_writev(nix::unistd::Pid::from_raw(self.identity.pid), &from, &to);
            });
        }
    }
}
