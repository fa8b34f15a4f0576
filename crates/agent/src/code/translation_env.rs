//! What the translator knows of the program, and what it has written down.

use super::arenas::Arenas;
use super::operand::Operand;
use super::persisted::PersistedCode;
use super::protected::ProtectedPages;
use crate::state::maps::Maps;
use crate::state::session_file::ProcessMemory;
use crate::state::thread_context::Layout;
use crate::sys::{self, PAGE};
use alloc::vec::Vec;
use hashbrown::HashMap;
use numalens_translator::Watch;
use rustc_hash::FxBuildHasher;

/// Places for pages of code that are known: a system call for each fragment is saved.
const CODE_PAGES: usize = 256;
/// Stands in such a place for no page.
const NO_PAGE: u64 = 1;

/// How many numbers were given.
#[derive(Default)]
pub(super) struct Given {
    pub segments: u32,
    /// Execution counters.
    pub executions: u32,
}

/// What the translator asks about, and what it fills.
pub struct TranslationEnv {
    /// The program's mappings.
    pub maps: Maps,
    /// Where sites are registered.
    pub process: ProcessMemory,
    /// How many sites there can be.
    pub layout: Layout,
    /// Addresses of the program at which its allocator or its runtime is looked at.
    pub watched: HashMap<u64, Watch, FxBuildHasher>,
    /// The end of the heap that brk makes; 0 before it was asked for.
    pub heap_end: u64,
    /// New mappings are to be locked in memory.
    pub lock_new: bool,
    /// The kernel's code that programs call.
    pub vdso: Vdso,
    /// Where translations lie.
    pub arenas: Arenas,
    /// Translations that need not be made.
    pub persisted: PersistedCode,
    /// Pages of code that the program could write to.
    pub protected: ProtectedPages,
    /// The operands of all sites: a fault needs them.
    pub(super) sites: Vec<Operand>,
    /// What it has given numbers to.
    pub(super) given: Given,
    /// Pages of code that was translated lately: somebody is about to fetch from them.
    pub(super) fetched: Vec<u64>,
    /// The collector knows that there is no room for more.
    pub(super) logged_full: bool,
    /// Pages that were found to be code since mappings last changed, each at a place that follows from its number.
    code_pages: [u64; CODE_PAGES],
}

/// The kernel's code that programs call.
#[derive(Clone, Copy)]
pub struct Vdso {
    /// Where it is; 0: there is none.
    pub start: u64,
    /// On a virtual machine: its function that tells a thread its CPU, which is not translated.
    pub getcpu: Option<u64>,
}

impl TranslationEnv {
    /// An environment without code; `most_code`: bytes of translations that are kept.
    pub fn new(maps: Maps, vdso: Vdso, process: ProcessMemory, layout: Layout, most_code: u64) -> Self {
        TranslationEnv {
            maps,
            process,
            layout,
            watched: HashMap::default(),
            heap_end: 0,
            lock_new: false,
            vdso,
            arenas: Arenas::new(most_code),
            persisted: PersistedCode::default(),
            protected: ProtectedPages::default(),
            sites: Vec::new(),
            given: Given::default(),
            fetched: Vec::new(),
            logged_full: false,
            code_pages: [NO_PAGE; CODE_PAGES],
        }
    }

    /// How many sites there are.
    pub fn sites(&self) -> u32 {
        self.sites.len() as u32
    }

    /// How many segments there are.
    pub fn segments(&self) -> u32 {
        self.given.segments
    }

    /// The pages of the code that was translated since the last call.
    pub fn take_fetched(&mut self) -> Vec<u64> {
        core::mem::take(&mut self.fetched)
    }

    /// What is known of a site.
    pub fn site(&self, site: u32) -> Option<Operand> {
        self.sites.get(site as usize).copied()
    }

    /// Mappings have changed: nothing that was found out about pages holds any more.
    pub fn forget_pages(&mut self) {
        self.code_pages = [NO_PAGE; CODE_PAGES];
    }

    /// Whether a page can be executed and read.
    pub(super) fn is_code(&mut self, page: u64) -> bool {
        let place = (page / PAGE) as usize % CODE_PAGES;
        if self.code_pages[place] == page {
            return true;
        }
        let executable = self.maps.find(page).is_some_and(|mapping| mapping.executable());
        let is_code = executable && sys::is_readable(page);
        if is_code {
            self.code_pages[place] = page;
        }
        is_code
    }
}
