//! Pages that come into being: where they are, and who has placed them.

use super::Reader;
use super::owners::begins;
use crate::exact::known_pages::KnownPage;
use crate::exact::page_class::{class_in, meaning};
use crate::exact::process::StackPlace;
use crate::session::{Owner, PageClass, PlacedBy, PlacedPage, TouchId};
use numalens_event::exact::{Extent, PageRecord, by, fault, touch};
use numalens_profile::ids::{Page, StackId, ThreadId};
use numalens_profile::words::{Fault, SystemCall};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Where a page was placed.
struct Home {
    placed: PageClass,
    /// Nobody has said so.
    inferred: bool,
    /// In which class it is counted.
    class: PageClass,
}

/// The page that another one comes from.
#[derive(Default)]
struct Origin {
    touch: Option<TouchId>,
    huge: bool,
    /// What was moved may have been split by that.
    in_pieces: bool,
}

impl Reader<'_> {
    /// Takes in a page of the process's own that has come into being.
    pub(super) fn page_placed(&mut self, own: u32, record: &PageRecord, homes: &FxHashMap<Page, u16>) {
        let (page, how) = (Page(record.page.load(Relaxed)), record.how.load(Relaxed));
        let Home { placed: (home, pinned), inferred, class } = self.home_of(page, record, homes);
        let has_ended = record.end_ns.load(Relaxed) != 0;
        let origin = self.origin_of(record, how);
        let by = self.placed_by(record, how, has_ended, &origin);
        let time_ns = self.session.advance(record.begin_ns.load(Relaxed));
        let address = page.address() + u64::from(record.fault.load(Relaxed) >> fault::OFFSET_SHIFT);
        let pid = self.process.identity.pid;
        let object = self.session.object_placed(pid, address, time_ns);
        let placed = match how {
            // The parent's page, with the parent's touch.
            touch::INHERITED => origin.touch.map(|touch| (touch, false)),
            // It came with a huge page, which is in the profile.
            touch::HUGE if has_ended && origin.huge => origin.touch.map(|touch| (touch, false)),
            _ => self.session.page_placed(pid, &PlacedPage { page, time_ns, by, home, inferred, pinned, object }),
        };
        let (touch, huge) = placed.map_or((None, false), |(touch, huge)| (Some(touch), huge));
        if huge && how == touch::HUGE {
            self.leader_is_huge(record.origin.load(Relaxed));
        }
        let (moved, filled, owner) = (how == touch::MOVED, Cell::default(), Owner::Nobody);
        self.process.pages.known[own] =
            KnownPage { page, ended: false, touch, owner, class, begin_ns: time_ns, huge, moved, filled, around: None };
        self.process.pages.lives(page, own);
        begins(self.session, self.process, own, time_ns);
    }

    /// The page with which others came, by its number, is a huge one.
    fn leader_is_huge(&mut self, leader: u32) {
        let pages = &mut self.process.pages;
        if let Some(leader) = pages.own(leader).and_then(|own| pages.known.get_mut(own)) {
            leader.huge = true;
        }
    }

    fn home_of(&self, page: Page, record: &PageRecord, homes: &FxHashMap<Page, u16>) -> Home {
        let header = self.process.header();
        let now = class_in(header, &record.class);
        // Where it is pending: as the kernel says, or as the policy has it.
        let Some(placed) = meaning(header, record.first_class.load(Acquire)) else {
            let asked = homes.get(&page).copied();
            let placed = (asked.or(now.0), now.1);
            return Home { placed, inferred: asked.is_none(), class: placed };
        };
        Home { placed, inferred: false, class: now }
    }

    fn origin_of(&self, record: &PageRecord, how: u32) -> Origin {
        match self.directory.known_page(self.process, record.origin.load(Relaxed)) {
            Some(&KnownPage { touch, huge, moved, .. }) if how != touch::FIRST => {
                Origin { touch, huge, in_pieces: moved && !huge }
            }
            _ => Origin::default(),
        }
    }

    fn placed_by(&mut self, record: &PageRecord, how: u32, has_ended: bool, origin: &Origin) -> PlacedBy {
        let is_anothers = record.fault.load(Relaxed) & fault::ANOTHERS != 0;
        match how {
            // Where that is reported, it was placed elsewhere, and is one page all the same.
            touch::FIRST | touch::CALL | touch::UNSEEN if is_anothers => PlacedBy::Another,
            touch::FIRST | touch::ZERO => self.by_access(record, how, has_ended).unwrap_or(PlacedBy::Unseen),
            touch::CALL => self.in_call(record, has_ended).unwrap_or(PlacedBy::Unseen),
            touch::MOVED => PlacedBy::Moved(origin.touch),
            touch::HUGE if !has_ended && !origin.in_pieces => origin.touch.map_or(PlacedBy::Unseen, PlacedBy::Part),
            touch::HUGE => origin.touch.map_or(PlacedBy::Unseen, PlacedBy::Piece),
            _ => PlacedBy::Unseen,
        }
    }

    fn by_access(&mut self, record: &PageRecord, how: u32, has_ended: bool) -> Option<PlacedBy> {
        let bits = record.fault.load(Relaxed);
        let fault = if how == touch::ZERO { Fault::ZeroPage } else { fault_of(bits) };
        let (thread, node) = self.toucher(record)?;
        let (site, _) = self.directory.site(self.process, record.site.load(Relaxed))?;
        let stack = self.stack_of(record);
        let stack = self.working_for(record, stack);
        let may_be_huge = bits & fault::MAY_BE_HUGE != 0 && how == touch::FIRST && !has_ended;
        Some(PlacedBy::Access { thread, node, site, stack, fault, may_be_huge, call: None })
    }

    /// Of a page that the kernel has placed in a call of a thread.
    fn in_call(&mut self, record: &PageRecord, has_ended: bool) -> Option<PlacedBy> {
        let (thread, node) = self.toucher(record)?;
        let place = self.stack_place(record);
        let site = self.process.stacks.call_site(self.session, place)?;
        let stack = self.stack_of(record);
        let stack = self.working_for(record, stack);
        let bits = record.fault.load(Relaxed);
        let may_be_huge = bits & fault::MAY_BE_HUGE != 0 && !has_ended;
        let call = Some(system_call(record.site.load(Relaxed)));
        Some(PlacedBy::Access { thread, node, site, stack, fault: fault_of(bits), may_be_huge, call })
    }

    /// The thread that has placed a page, and the index of the node that it was bound to.
    fn toucher(&self, record: &PageRecord) -> Option<(ThreadId, Option<u16>)> {
        self.directory.thread(Extent(record.thread.load(Relaxed))).map(|thread| (thread.id, thread.node))
    }

    /// The stack of who has placed a page, with the line of Python that it worked for then.
    fn working_for(&mut self, record: &PageRecord, stack: Option<StackId>) -> Option<StackId> {
        let thread = self.directory.thread(Extent(record.thread.load(Relaxed)))?;
        let time_ns = self.session.since_start(record.begin_ns.load(Relaxed));
        self.session.stack_near(thread.tid as u32, time_ns, stack)
    }

    fn stack_of(&mut self, record: &PageRecord) -> Option<StackId> {
        let place = self.stack_place(record);
        self.process.stacks.stack(self.session, place)
    }
}

impl<'a> Reader<'a> {
    fn stack_place(&self, record: &PageRecord) -> StackPlace<'a> {
        let (pid, reference) = (self.process.identity.pid, record.stack.load(Relaxed));
        StackPlace { file: self.file, extent: self.extent, pid, reference }
    }
}

fn fault_of(bits: u32) -> Fault {
    match bits & fault::KIND {
        fault::COPY_ON_WRITE => Fault::CopyOnWrite,
        fault::FILE => Fault::File,
        _ => Fault::Anonymous,
    }
}

/// What an agent calls by this number.
fn system_call(number: u32) -> SystemCall {
    match number {
        by::READ => SystemCall::Read,
        by::PREAD => SystemCall::Pread,
        by::READV => SystemCall::Readv,
        by::PREADV => SystemCall::Preadv,
        by::RECEIVE => SystemCall::Recv,
        by::MAP => SystemCall::Mmap,
        by::ADVICE => SystemCall::Madvise,
        by::LOCK => SystemCall::Mlock,
        by::RANDOM => SystemCall::Getrandom,
        by::DIRECTORY => SystemCall::Getdents,
        by::PROCESS_READ => SystemCall::ProcessVmReadv,
        by::PROCESS_WRITE => SystemCall::ProcessVmWritev,
        _ => SystemCall::Other,
    }
}
