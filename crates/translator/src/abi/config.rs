//! What the translator is told: what to count, and where the tables of a thread lie.

use super::each::Each;
use super::page_entry::{PageEntry, Shadow};
use super::{return_table, routines};
use crate::{DirectTable, LastPageId, SiteId, context};
use core::sync::atomic::AtomicU64;

/// What `context::NEWS` points to where there never are any.
static NO_NEWS: AtomicU64 = AtomicU64::new(0);

/// Where accesses are counted by the last page of their group, and where each immediately in the flat tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// In the flat tables everywhere: slower, and what the others are compared with.
    Flat,
    /// By last pages in loops. Other code runs seldom or with another object each time: there, the first miss costs
    /// more than hits save, and each group is looked up once and counted immediately.
    Loops,
    /// By last pages in loops that have had many iterations, so that they pay (`counting/tier_up.rs`), and in what else
    /// the owner says has ([`crate::Cache::tier_up`]).
    LongLoops,
    /// By last pages wherever they can be.
    LastPage,
}

/// Where fragments end, if not at a jump or call.
#[derive(Clone, Copy, Debug)]
pub struct FragmentLimits {
    /// Most instructions.
    pub instructions: usize,
    /// Most of them without any conditional jump: long straight-line code has groups with many accesses.
    pub in_a_row: usize,
    /// Most conditional jumps that one falls through.
    pub side_exits: usize,
}

/// How to translate.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Count at all. Without it, fragments are translated as they are.
    pub count: bool,
    /// Count operands relative to rsp.
    pub stack_operands: bool,
    /// Count how often instructions are executed.
    pub code: bool,
    /// Count what `push`, `pop`, `call`, `ret`, `enter`, `leave` do on the stack.
    pub stack_operations: bool,
    /// Where the shadow table is.
    pub shadow: Shadow,
    /// Offset from GS of the indirect-branch lookup table: `1 << lookup_bits` code pointers, which must start as copies
    /// of `context::LOOKUP_MISS`.
    pub lookup: u32,
    /// 12 to 24; 18 is good.
    pub lookup_bits: u8,
    /// Offset from GS of the site counters: 64 bits at `sites + (class * most_sites + site) * 8`. In columns, since
    /// nearly all accesses of a program fall into few classes: sites whose code lies together share lines of the
    /// processor's caches.
    pub sites: u32,
    /// Offset from GS of the page counters: 64 bits at `pages + slot * 8`, reads, and writes after them. All of them
    /// within 4 GiB.
    pub pages: u32,
    /// Offset from GS of the counters of updates of pages: 64 bits at `updates + slot * 4`, for a read and a write
    /// each. Programs that update memory at random change one line of the processor's caches besides their own, and not
    /// two. Negative: all that lies above is taken.
    pub updates: i32,
    /// Where accesses are counted by last pages.
    pub scheme: Scheme,
    /// Count every access by itself, whatever `scheme` says: with what is kept of each, in place where that is all that
    /// there is to do, else out of line, where [`crate::count::Pages::counted`] hears of its address and size.
    pub each: Option<Each>,
    /// Most sites, those that stand for several included.
    pub most_sites: u32,
    /// Offset from GS of the last pages: a [`crate::LastPage`] each, [`Config::most_sites`] of them. A multiple of
    /// 4096.
    pub last_pages: u32,
    /// Offset from GS of the execution counters: 64 bits each, [`Config::most_sites`] of them.
    pub executions: u32,
    /// Offset from GS of a byte for every 4096 bytes of last pages: not 0 if the thread has ever filled one there.
    pub touched: u32,
    /// Offset from GS of the direct tables ([`crate::DirectTable`]): their headers, their counters, what these count
    /// for. Negative, as for `updates`.
    pub direct: i32,
    /// Pages that each has counters for; 0: there are none.
    pub direct_pages: u32,
    /// Where fragments end.
    pub fragments: FragmentLimits,
    /// Take flags to be dead at calls and returns, as the calling convention has it, until the program shows that it
    /// has another.
    pub flags_dead_at_calls: bool,
    /// The processor is not the host's: `rdpid` and `rdtscp` tell what stands at `context::PROCESSOR`, other
    /// instructions that tell CPUs apart leave through [`crate::Leave::CpuQuery`]. And behind each system call the
    /// thread leaves where there is news: `context::NEWS`.
    pub own_processor: bool,
}

impl Config {
    /// Offset from GS of the counter of a site and class; `None`: there is no such site.
    pub fn site_counter(&self, site: SiteId, class: u32) -> Option<u32> {
        let number = u64::from(class) * u64::from(self.most_sites) + u64::from(site.0);
        within(u64::from(self.sites) + number * 8).filter(|_| site.0 < self.most_sites)
    }

    /// A page as the shadow table has it, and [`crate::LastPage::ENTRY`]: in the lower half how far the column of its
    /// class begins behind that of class 0, in the upper one the offset from GS of its counters (32 bits without sign),
    /// or 0 for slot 0.
    pub fn word_of(&self, entry: PageEntry) -> u64 {
        let counters = if entry.slot == 0 { 0 } else { self.pages + entry.slot * 8 };
        u64::from(entry.class * self.most_sites * 8) | u64::from(counters) << 32
    }

    /// What the lower half of the words of pages is that only reads are counted in.
    pub fn read_only(&self) -> u32 {
        PageEntry::READ_ONLY * self.most_sites * 8
    }

    /// The page that a word stands for.
    pub fn page_of(&self, word: u64) -> PageEntry {
        let counters = (word >> 32) as u32;
        PageEntry { class: word as u32 / 8 / self.most_sites.max(1), slot: counters.saturating_sub(self.pages) / 8 }
    }

    /// Offset from GS of the record of a last page; `None`: there is no such record.
    pub fn last_page_record(&self, last_page: LastPageId) -> Option<u32> {
        let offset = u64::from(self.last_pages) + u64::from(last_page.0) * u64::from(crate::LastPage::BYTES);
        within(offset).filter(|_| last_page.0 < self.most_sites)
    }

    /// Offset from GS of an execution counter; `None`: there is no such counter.
    pub fn execution_counter(&self, number: u32) -> Option<u32> {
        within(u64::from(self.executions) + u64::from(number) * 8).filter(|_| number < self.most_sites)
    }

    /// Offset from GS of the header of a direct table.
    pub(crate) fn direct_header(&self, direct: u32) -> i32 {
        self.direct.wrapping_add_unsigned(direct * DirectTable::BYTES)
    }

    /// Offset from GS of the counters of a direct table.
    pub(crate) fn direct_counters(&self, direct: u32) -> i32 {
        self.direct.wrapping_add_unsigned(DirectTable::counters(direct, self.direct_pages) as u32)
    }

    /// Offset from GS of what the counters of a direct table count for.
    pub(crate) fn direct_words(&self, direct: u32) -> i64 {
        i64::from(self.direct) + DirectTable::words(direct, self.direct_pages) as i64
    }

    /// What generated code finds in the context of every thread besides the code pointers of its owner: offsets and
    /// values, for a shadow table at `shadow`.
    pub fn constants(&self, shadow: u64) -> [(u32, u64); 11] {
        [
            (context::RETURN, routines::take_return as *const () as u64),
            (context::SHADOW_BASE, shadow / 8),
            (context::SETTLE, routines::settle_last_page as *const () as u64),
            (context::COUNT_GROUP, routines::count_group as *const () as u64),
            (context::COUNT_ELEMENTS, routines::count_elements as *const () as u64),
            (context::COUNT_DIRECT, routines::count_direct as *const () as u64),
            (context::COUNT_STRING, routines::count_string as *const () as u64),
            (context::LAST_PAGES, u64::from(self.last_pages)),
            (context::TOUCHED, u64::from(self.touched)),
            (context::READ_ONLY, u64::from(self.read_only())),
            (context::NEWS, NO_NEWS.as_ptr() as u64),
        ]
    }

    /// Offset from GS of the entry of the table of return addresses for a return to `ip`.
    pub fn return_entry(&self, ip: u64) -> u64 {
        u64::from(context::RETURNS) + return_table::index_of(ip) * 8
    }

    /// For that entry, what tells `ip` from the other addresses that share it: the offset from GS where it stands, and
    /// what it must be.
    pub fn return_tag(&self, ip: u64) -> (u64, u32) {
        (u64::from(context::RETURN_TAGS) + return_table::index_of(ip) * 4, return_table::tag_of(ip).wrapping_neg())
    }

    /// Offset from GS of the entry of the lookup table for a target of indirect jumps.
    pub fn lookup_entry(&self, ip: u64) -> u64 {
        u64::from(self.lookup) + (ip & ((1 << self.lookup_bits) - 1)) * 8
    }
}

/// Offsets are displacements: 31 bits.
fn within(offset: u64) -> Option<u32> {
    u32::try_from(offset).ok().filter(|&offset| offset < 1 << 31)
}
