//! The table of pages of a machine in tests.

use super::{TestEnv, class_of};
use numalens_isa::Kind;
use numalens_translator::count::{LINE, Pages, Run};
use numalens_translator::{PageEntry, Shape};

impl Pages for TestEnv {
    fn entry(&mut self, run: &Run) -> Option<PageEntry> {
        self.cold_runs += 1;
        let page = run.address >> 12;
        let known = self.shadow.get(page as usize * 8);
        let (known, reads) = (self.config.page_of(known), run.kind == Kind::Read);
        if known.class != 0 && (reads || known.class != PageEntry::READ_ONLY) {
            return Some(known);
        }
        // Every second page is another one when it is written.
        let class = if reads && page % 2 == 1 { PageEntry::READ_ONLY } else { class_of(page) };
        let entry = PageEntry { class, slot: 2 * self.slots.len() as u32 };
        self.slots.push(page);
        self.shadow.set(page as usize * 8, self.config.word_of(entry));
        Some(entry)
    }

    fn peek(&mut self, address: u64) -> Option<u64> {
        // SAFETY: the program is about to read there itself.
        Some(unsafe { (address as *const u64).read_unaligned() })
    }

    fn probed(&mut self, word: u64) {
        self.words.push(word);
    }

    fn counted(&mut self, run: &Run, _: PageEntry) {
        let last = run.address + (run.count - 1) * u64::from(run.size);
        assert_eq!(run.address / LINE, last / LINE, "{run:x?}");
        let site = &self.sites[run.site.0 as usize];
        let has_way = site.shape == Shape::Plain && site.size.is_power_of_two();
        self.kept.iter_mut().for_each(|kept| kept.counted(run, has_way));
        // Others have as many bytes as lanes are active.
        if matches!(site.shape, Shape::Plain | Shape::String) {
            assert_eq!(run.size, site.size, "{site:x?}");
        }
    }
}
