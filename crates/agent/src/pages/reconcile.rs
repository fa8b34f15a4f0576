//! Pages that the kernel placed and that nobody has accessed: they are looked for when a program ends.

use super::home::{class_of, expected, is_virtual};
use super::{CHUNK, Shadow, ask, new_record};
use crate::interposer;
use crate::maps::{Mapping, Maps};
use crate::shared::ProcessMemory;
use crate::sys;
use crate::thread::Thread;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release};
use numalens_event::exact::touch;
use numalens_translator::PageEntry;

impl Shadow {
    /// Notes the pages that are there though no access was seen: at the end of a program.
    pub fn reconcile(&self, memory: &ProcessMemory, thread: &Thread, mappings: &Maps) {
        let (mut pages, mut of) = (Vec::new(), Vec::new());
        self.decide(memory, 0..sys::USER_END);
        {
            let mut used = self.used.lock();
            let Some(scan) = ask::Scan::open() else { return };
            let theirs = |mapping: &Mapping| mapping.end <= sys::USER_END && !interposer::contains(mapping.start);
            for mapping in mappings.iter().filter(|mapping| theirs(mapping)) {
                let chunk_of = |page: u64| used.get(&(page / CHUNK)).map_or(0, |chunk| chunk.leader);
                scan.each(mapping.start..mapping.end, |page, huge| {
                    // Parts of huge pages that were seen at their first touch.
                    if self.load(page).slot == 0 && !(huge && chunk_of(page) != 0) {
                        pages.push(page);
                        of.push(mapping);
                    }
                });
            }
            for &page in &pages {
                used.entry(page / CHUNK).or_default().used += 1;
            }
        }
        let homes = ask::presences(&pages);
        let now = sys::now_ns();
        let _used = self.used.lock();
        for ((&page, mapping), home) in pages.iter().zip(of).zip(homes) {
            let pinned = thread.node >= 0 || mapping.bound;
            let Some(home) = home else { continue };
            let home = if is_virtual() { expected(page, thread, mapping) } else { home };
            let (Some(home), Some((number, record))) = (home, new_record(memory)) else { continue };
            let class = class_of(memory, Some(home), pinned);
            record.page.store(page, Relaxed);
            record.begin_ns.store(now, Relaxed);
            record.class.store(class, Relaxed);
            record.first_class.store(class, Relaxed);
            record.how.store(touch::UNSEEN, Release);
            self.store(page, PageEntry { class, slot: number * 2 });
        }
    }
}
