//! Incarnations of pages by their numbers, in the order of these: of those that have long gone nothing is kept.

use super::release_memory::GROUP;
use crate::session::{Owner, Session, TouchId};
use numalens_profile::ids::{ObjectId, Page};
use std::cell::Cell;
use std::ops::{Index, IndexMut, Range};

/// A page incarnation that has been read.
pub struct KnownPage {
    pub page: Page,
    /// Its end has been read too.
    pub ended: bool,
    pub touch: Option<TouchId>,
    /// Who has had it.
    pub owner: Owner,
    /// In which class it was counted when it was looked at last: its home, and whether it was placed by a pinned
    /// thread.
    pub class: (Option<u16>, bool),
    /// When it began, since the start of the recording.
    pub begin_ns: u64,
    /// All of a huge page was placed with it.
    pub huge: bool,
    /// It came from another address with what was in it.
    pub moved: bool,
    /// Which thread's allocator may have cleared it or copied something there, and how many reads and writes of those
    /// that it counted first may be that.
    pub filled: Cell<(u32, [u32; 2])>,
    /// What lay around its objects when it ended: its counts are attributed later, when something else may be mapped
    /// there.
    pub around: Option<Around>,
}

/// What has a page besides the objects that are known to lie on it.
#[derive(Clone, Copy)]
pub struct Around {
    /// What stands for the rest of its mapping.
    pub rest: Option<ObjectId>,
    /// Variables may lie on it.
    pub has_variables: bool,
}

impl Around {
    /// As it is now.
    pub fn now(session: &mut Session, pid: i32, page: Page, time_ns: u64) -> Self {
        let rest = session.object_of_mapping(pid, page.address(), time_ns);
        Around { rest, has_variables: session.has_variables(pid, page) }
    }
}

/// What an allocator makes of a page at most as it fills it: word by word.
pub const FILLED: u32 = (Page::BYTES / 8) as u32;

impl KnownPage {
    /// One of which nothing else is known yet.
    pub fn unfilled(page: Page) -> Self {
        KnownPage {
            page,
            ended: false,
            touch: None,
            owner: Owner::Nobody,
            class: (None, false),
            begin_ns: 0,
            huge: false,
            moved: false,
            filled: Cell::default(),
            around: None,
        }
    }

    /// A region with pages like this one, the first of which is `first`. What its allocator may have filled of all of
    /// them is `filled`.
    pub fn as_region(&self, first: Page, filled: [u32; 2]) -> Self {
        let &KnownPage { owner, class, begin_ns, .. } = self;
        let filled = Cell::new((self.filled.get().0, filled));
        KnownPage { owner, class, begin_ns, filled, ..KnownPage::unfilled(first) }
    }

    /// Of so many reads and writes of a thread, those that may be the allocator's.
    pub fn of_the_allocator(&self, tid: i32, counts: [u64; 2]) -> [u64; 2] {
        let (by, left) = self.filled.get();
        if i64::from(by) != i64::from(tid) {
            return [0, 0];
        }
        let part = [0, 1].map(|kind| counts[kind].min(left[kind].into()));
        self.filled.set((by, [0, 1].map(|kind| left[kind] - part[kind] as u32)));
        part
    }
}

/// From the first of a process's own on.
pub struct KnownPages {
    /// So many numbers of the first group are not its own.
    others: u32,
    /// By group; those that have gone are empty.
    groups: Vec<Vec<KnownPage>>,
    end: u32,
}

impl KnownPages {
    /// Of a process whose first own page has the number `first`.
    pub fn from_number(first: u32) -> Self {
        KnownPages { others: first % GROUP, groups: Vec::new(), end: 0 }
    }

    /// Indices are below.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// The next one of its group, all before which are there.
    pub fn enter(&mut self, index: u32, page: KnownPage) {
        let (group, within) = self.place(index);
        if self.groups.len() == group {
            self.groups.push(Vec::new());
        }
        debug_assert_eq!(self.groups[group].len(), within);
        self.groups[group].push(page);
        self.end = self.end.max(index + 1);
    }

    /// The one of an index, if it is kept.
    pub fn get(&self, index: u32) -> Option<&KnownPage> {
        let (group, within) = self.place(index);
        self.groups.get(group)?.get(within)
    }

    /// The same.
    pub fn get_mut(&mut self, index: u32) -> Option<&mut KnownPage> {
        let (group, within) = self.place(index);
        self.groups.get_mut(group)?.get_mut(within)
    }

    /// Those that are kept, the latest first.
    pub fn latest(&self) -> impl Iterator<Item = &KnownPage> {
        self.groups.iter().rev().flat_map(|group| group.iter().rev())
    }

    /// Keeps nothing more of these, a whole group of which all have gone, by their indices.
    pub fn forget(&mut self, pages: &Range<u32>) {
        let (group, within) = self.place(pages.start);
        debug_assert!(within == 0 && pages.len() == GROUP as usize);
        if let Some(group) = self.groups.get_mut(group).filter(|group| group.len() == GROUP as usize) {
            *group = Vec::new();
        }
    }

    fn place(&self, index: u32) -> (usize, usize) {
        let at = index + self.others;
        let before = if at < GROUP { self.others } else { 0 };
        ((at / GROUP) as usize, (at % GROUP - before) as usize)
    }
}

impl Index<u32> for KnownPages {
    type Output = KnownPage;

    fn index(&self, index: u32) -> &KnownPage {
        self.get(index).expect("a page that is kept")
    }
}

impl IndexMut<u32> for KnownPages {
    fn index_mut(&mut self, index: u32) -> &mut KnownPage {
        self.get_mut(index).expect("a page that is kept")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numalens_profile::ids::Page;

    #[test]
    fn pages_are_found_by_their_numbers_until_their_group_has_gone() {
        for first in [1, 511, 512, 700] {
            let mut pages = KnownPages::from_number(first);
            (0..3000).for_each(|index| pages.enter(index, KnownPage::unfilled(Page(index.into()))));
            assert_eq!(pages.end(), 3000);
            let group = first.next_multiple_of(GROUP) - first + GROUP;
            pages.forget(&(group..group + GROUP));
            for index in 0..3001 {
                let is_kept = index < 3000 && !(group..group + GROUP).contains(&index);
                assert_eq!(pages.get(index).map(|known| known.page), is_kept.then_some(Page(index.into())), "{first}");
            }
            let latest: Vec<Page> = pages.latest().map(|known| known.page).collect();
            assert_eq!((latest.len(), latest[0]), (3000 - GROUP as usize, Page(2999)));
            assert!(latest.is_sorted_by(|later, earlier| later > earlier));
            (group..group + GROUP).for_each(|index| pages.enter(index, KnownPage::unfilled(Page(9))));
            assert_eq!((pages.end(), pages.get(group).map(|known| known.page)), (3000, Some(Page(9))));
        }
    }

    #[test]
    fn what_the_allocator_fills_is_of_the_thread_that_takes_the_block() {
        let page = KnownPage { filled: Cell::new((7, [0, FILLED])), ..KnownPage::unfilled(Page(1)) };
        assert_eq!(page.of_the_allocator(8, [100, 100]), [0, 0]);
        assert_eq!(page.of_the_allocator(7, [100, 100]), [0, 100]);
        assert_eq!(page.of_the_allocator(7, [100, 1000]), [0, 412]);
        assert_eq!(page.of_the_allocator(7, [100, 1000]), [0, 0]);
    }
}
