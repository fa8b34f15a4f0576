//! How pages were placed: their first touches, each kept once.

use super::page_map::PageState;
use numalens_profile::ids::{Bin, ObjectId, Page, ProcessId, SiteId, StackId, ThreadId};
use numalens_profile::words::{Fault, Placed, SystemCall};
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;

/// How a page was placed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Touch {
    /// The process whose fault it was: a forked child's copy still names its parent.
    pub process: ProcessId,
    pub thread: Option<ThreadId>,
    /// That the thread was bound to.
    pub node: Option<NodeId>,
    pub site: Option<SiteId>,
    pub stack: Option<StackId>,
    pub object: Option<ObjectId>,
    pub bin: Bin,
    pub placed: Placed,
    pub fault: Fault,
    /// The kernel placed the page, in this call of the thread.
    pub call: Option<SystemCall>,
    /// The page counts as placed by a pinned thread.
    pub pinned: bool,
    /// The kernel has moved the page since, to another node or to another address, or it was mapped once more: it was
    /// placed before.
    pub moved: bool,
    /// It has come to another object by that.
    pub to_another: bool,
    /// By a read of anonymous memory, though there was a page when we asked: somebody placed it in between, and the
    /// record of that may still be on its way.
    pub by_read: bool,
}

/// Where in the program memory was wanted, in the words of a runtime that has touched it for the program.
#[derive(Clone, Copy, Debug)]
pub struct ToldPlace {
    pub site: Option<SiteId>,
    pub stack: Option<StackId>,
}

impl Touch {
    /// A first touch that was seen.
    #[expect(clippy::too_many_arguments, reason = "the columns of the table")]
    pub fn first(
        process: ProcessId,
        thread: ThreadId,
        node: Option<NodeId>,
        site: SiteId,
        stack: Option<StackId>,
        bin: Bin,
        pinned: bool,
        fault: Fault,
        object: Option<ObjectId>,
    ) -> Self {
        let placed = if pinned { Placed::Pinned } else { Placed::Unpinned };
        Touch {
            process,
            thread: Some(thread),
            node,
            site: Some(site),
            stack,
            object,
            bin,
            placed,
            fault,
            call: None,
            pinned,
            moved: false,
            to_another: false,
            by_read: false,
        }
    }

    /// The page lies where somebody wanted it, whoever touched it.
    pub fn by_pinned(&mut self) {
        self.pinned = true;
        if self.placed == Placed::Unpinned {
            self.placed = Placed::Pinned;
        }
    }

    /// A page of shared memory that was there before this process came to it: it is no placement.
    pub fn mapped_again(process: ProcessId, bin: Bin, pinned: bool) -> Self {
        let placed = if pinned { Placed::Pinned } else { Placed::Unpinned };
        Touch { placed, moved: true, ..Touch::unseen(process, bin, pinned) }
    }

    /// A page that the kernel placed without a fault of the program.
    pub fn unseen(process: ProcessId, bin: Bin, pinned: bool) -> Self {
        Touch {
            process,
            thread: None,
            node: None,
            site: None,
            stack: None,
            object: None,
            bin,
            placed: Placed::Unseen,
            fault: Fault::None,
            call: None,
            pinned,
            moved: false,
            to_another: false,
            by_read: false,
        }
    }
}

/// An interned [`Touch`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TouchId(u32);

impl TouchId {
    /// The one of a number.
    pub fn of(number: u32) -> Self {
        TouchId(number)
    }

    /// Its number: there are fewer than [`u32::MAX`].
    pub fn number(self) -> u32 {
        self.0
    }
}

/// All touches of a recording.
#[derive(Default)]
pub struct Touches {
    all: Vec<Touch>,
    ids: FxHashMap<Touch, TouchId>,
}

impl Touches {
    pub fn intern(&mut self, touch: Touch) -> TouchId {
        *self.ids.entry(touch).or_insert_with(|| {
            self.all.push(touch);
            TouchId(self.all.len() as u32 - 1)
        })
    }

    pub fn get(&self, id: TouchId) -> Touch {
        self.all[id.0 as usize]
    }

    /// The touch of a page that was there already, as `touch` found it: not a second placement.
    pub fn found_there(&self, touch: Touch, first: PageState) -> Touch {
        let by = self.get(first.touch);
        let (process, bin, object) = (touch.process, touch.bin, touch.object);
        match by.placed {
            Placed::Unseen => Touch { object, ..Touch::mapped_again(process, bin, by.pinned) },
            _ => Touch { process, bin, object, moved: true, to_another: false, ..by },
        }
    }

    /// Bins became wider by 2 to the power of `halvings`.
    pub fn coarsen(&mut self, halvings: u32) {
        for touch in &mut self.all {
            touch.bin.0 = touch.bin.0.checked_shr(halvings).unwrap_or(0);
        }
        self.ids = self.all.iter().zip(0..).map(|(&touch, id)| (touch, TouchId(id))).collect();
    }
}

/// A page that has come into being.
#[derive(Clone, Copy, Debug)]
pub struct PlacedPage {
    pub page: Page,
    pub time_ns: u64,
    /// How.
    pub by: PlacedBy,
    /// Index of its home.
    pub home: Option<u16>,
    /// The home is what the policy says: nobody could be asked any more.
    pub inferred: bool,
    /// It counts as placed by a pinned thread.
    pub pinned: bool,
    /// What was touched.
    pub object: Option<ObjectId>,
}

/// How a page came into being.
#[derive(Clone, Copy, Debug)]
pub enum PlacedBy {
    /// An access of a thread, bound to a node (index), from a call stack; it may have placed a whole huge page.
    Access {
        thread: ThreadId,
        node: Option<u16>,
        site: SiteId,
        stack: Option<StackId>,
        fault: Fault,
        may_be_huge: bool,
        /// It was the kernel's, in this call of the thread.
        call: Option<SystemCall>,
    },
    /// Nobody was seen to.
    Unseen,
    /// Another access had placed it, of this process or another one: it is shared memory.
    Another,
    /// It was moved here from another address.
    Moved(Option<TouchId>),
    /// It is part of the huge page that another access placed, as far as an agent can tell.
    Part(TouchId),
    /// It was such a part, of one that is gone.
    Piece(TouchId),
}
