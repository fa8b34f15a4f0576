//! What is remembered of a translated fragment: its ways out, and what program state stands behind each address in the
//! cache.
//!
//! There are tens of thousands of fragments in a large program, so what few of them have is apart ([`Rare`]), and what
//! is looked at seldom is packed ([`crate::metadata`]).

use crate::derived::DerivedCount;
use crate::far::{FarReturn, Obstacle};
use crate::fetch::Piece;
use crate::links::Chain;
use crate::metadata::{FragmentMetadata, Members};
use crate::translation_map::MapEntry;
use crate::{CpuQuery, ExitId, LastPageId, LastPageSlot, SiteId};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::{NonZeroU32, NonZeroU64};

/// How the state of the program can be had at an address in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The instruction at `ip` has not begun and nothing of it is counted: with the spilled registers put back, the
    /// thread stands at `ip`. A fault here is the program's own, at `ip`.
    Before,
    /// Some of the accesses of the instruction at `ip` are being counted: go on to the next [`State::Before`] (single
    /// steps). A fault here is due to an address that no program can map; put back registers, take back
    /// [`Position::counted`] and deliver it at `ip`.
    Counting,
    /// The instruction at `ip` is counted as far as it is counted before it is executed, and is about to be executed or
    /// has been: go on as for [`State::Counting`]. A fault is the program's own: put back registers, take back
    /// [`Position::counted`] and deliver it at `ip`.
    Counted,
    /// The system call has returned, `ip` is the instruction after it; the program's rcx must be set to `ip`.
    AfterSyscall,
    /// A repeated string instruction is about to begin or under way: with what it has done counted by
    /// [`crate::count::finish_string`] and the registers put back, the thread stands at `ip` (again, with fewer
    /// elements to do).
    String,
    /// On the way to `ip` through the dispatcher, or through a lookup to an `ip` that is not known here (0): go on.
    Leaving,
}

/// The state of the program behind an address in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position<'a> {
    /// The instruction of the program.
    pub ip: u64,
    /// What to do.
    pub state: State,
    /// Registers (a bit each) whose value stands in `context::SPILL`.
    pub spilled: u16,
    /// Registers (a bit each) whose value stands in `context::REGISTERS`.
    pub saved: u16,
    /// The sites of the instruction that have been counted, in the order of counting.
    pub counted: &'a [SiteId],
    /// All sites of the instruction that are counted one by one.
    pub sites: &'a [SiteId],
    /// Accesses of groups, at this instruction and after it, that the executions have counted already: see
    /// [`Position::unmade`].
    pub(crate) ahead: Members<'a>,
    /// Groups below this number have been checked.
    pub(crate) checked: u16,
    /// What becomes of registers of accesses on the way to them.
    pub(crate) steps: &'a [Step],
    /// The instruction, from the start of the fragment.
    pub(crate) instruction: u32,
    /// What the execution counter must get before anything is taken back.
    pub derived: Option<DerivedCount>,
    /// Instructions that are counted as executed and are not, or the other way round, if the thread does not go on in
    /// the cache: by page.
    pub unexecuted: [Unexecuted; 2],
}

/// What is wrong in the count of executed instructions of a page, where a run of code breaks off: to be added to
/// [`crate::Cache::correction`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unexecuted {
    /// The page's address.
    pub page: u64,
    /// What is to be added; 0: all is right.
    pub instructions: i64,
}

/// Accesses that executions have counted and that will not be made: a [`Position`]'s, to be kept.
#[derive(Clone, Debug, Default)]
pub struct Unmade {
    pub(crate) ahead: Vec<Ahead>,
    pub(crate) checked: u16,
    steps: Vec<Step>,
    instruction: u32,
}

impl Position<'_> {
    /// On the way out of a fragment.
    pub(crate) fn leaving(ip: u64, spilled: u16, saved: u16) -> Self {
        let (state, counted, sites, ahead) = (State::Leaving, &[][..], &[][..], Members::default());
        let unexecuted = Default::default();
        Position {
            ip,
            state,
            spilled,
            saved,
            counted,
            sites,
            ahead,
            checked: 0,
            steps: &[],
            instruction: 0,
            derived: None,
            unexecuted,
        }
    }

    /// What has to be taken back if the thread does not go on in the cache, by [`crate::count::abandon`].
    pub fn unmade(&self) -> Unmade {
        let Position { ahead, checked, steps, instruction, .. } = *self;
        Unmade { ahead: ahead.iter().collect(), checked, steps: steps.to_vec(), instruction }
    }
}

impl Unmade {
    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.ahead.is_empty()
    }

    /// The registers that an access would have found, from those of the thread that was stopped before it.
    pub(crate) fn registers_at(&self, one: &Ahead, stopped: &[u64; 16]) -> [u64; 16] {
        let mut registers = *stopped;
        for step in self.steps.iter().filter(|step| (self.instruction..one.instruction).contains(&step.instruction)) {
            let from = registers[usize::from(step.from & 15)];
            registers[usize::from(step.register & 15)] = from.wrapping_add_signed(step.by);
        }
        registers
    }
}

/// A register becomes what another one is, or the same, and a constant more: see [`crate::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The offset of the instruction that does it in the fragment.
    pub instruction: u32,
    pub register: u8,
    pub from: u8,
    pub by: i64,
}

/// An access that is counted as a member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// Its site.
    pub site: SiteId,
    /// What its group is counted by.
    pub last_page: Option<LastPageSlot>,
    /// The group's number in the fragment.
    pub(crate) group: u16,
    /// The segment's number in the fragment.
    pub(crate) segment: u16,
    /// Its group is looked up in place already, or need not be.
    pub(crate) megamorphic: bool,
    /// The offset of its instruction in the fragment.
    pub(crate) instruction: u32,
}

/// What an exit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitKind {
    /// To `target`; the displacement at `branch` can be made to go there directly.
    Direct { branch: u64 },
    /// Before a system call; `execute` is the address of one in the cache.
    Syscall { execute: u64 },
    /// The program asks its observer for something.
    Request,
    /// The program asks which CPU it is on.
    CpuQuery(CpuQuery),
    /// The program comes to a watched address; `execute` is what comes next in the cache.
    Reached { execute: u64 },
    /// Behind a system call, to `target`: the owner of the cache wants to hear of it.
    News,
    /// Before a system call by 32-bit rules, as [`ExitKind::Syscall`].
    OldSyscall { execute: u64 },
    /// A return that takes more than rip off the stack.
    Returns(FarReturn),
    /// The program's code is no longer what was translated.
    Stale,
    /// An instruction that cannot be translated.
    Unsupported(Obstacle),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub kind: ExitKind,
    /// Where the program goes on.
    pub target: u64,
    /// The code that calls the dispatcher.
    pub stub: u64,
}

/// What fragments are made in. Kept from one to the next for its memory; a fragment has copies of their exact lengths,
/// as there are many.
#[derive(Default)]
pub(crate) struct Drafts {
    pub hot: Vec<u8>,
    pub cold: Vec<u8>,
    pub hot_map: Vec<MapEntry>,
    pub cold_map: Vec<MapEntry>,
    /// Room to pack both in.
    pub packed: Vec<u8>,
    pub exits: Vec<Exit>,
    /// The exit that goes back to the start.
    pub goes_back: Option<ExitId>,
    pub sites: Vec<SiteId>,
    pub site_instructions: Vec<u32>,
    pub ahead: Vec<Ahead>,
    pub pieces: Vec<Piece>,
    /// For what these are, see [`crate::scratch::Scratch`] and [`crate::translate::Builder`].
    pub uses: Vec<u16>,
    pub once: Vec<(u32, SiteId)>,
    pub counted_segments: Vec<(u16, u32)>,
    pub page_limits: Vec<(u16, LastPageId)>,
}

impl Drafts {
    /// Takes all of it, emptied.
    pub fn take(&mut self) -> Drafts {
        let mut drafts = core::mem::take(self);
        drafts.hot.clear();
        drafts.cold.clear();
        drafts.hot_map.clear();
        drafts.cold_map.clear();
        drafts.exits.clear();
        drafts.goes_back = None;
        drafts.sites.clear();
        drafts.site_instructions.clear();
        drafts.ahead.clear();
        drafts.pieces.clear();
        drafts.uses.clear();
        drafts.once.clear();
        drafts.counted_segments.clear();
        drafts.page_limits.clear();
        drafts
    }
}

/// A translated fragment.
#[derive(Debug)]
pub(crate) struct Fragment {
    pub ip: u64,
    /// Where its hot half lies, and is entered.
    pub hot: u64,
    /// Its exits, translation map and members of groups.
    pub metadata: FragmentMetadata,
    /// What it has of what few have.
    pub rare: Option<Box<Rare>>,
    /// The code that a lookup enters, once there is one.
    pub landing: Option<NonZeroU64>,
    /// Where a return to the end comes, after a call: from the start of the hot half, plus 1.
    pub returns_at: Option<NonZeroU32>,
    /// The first of the exits that jump here: see [`crate::links`].
    pub incoming: Chain,
    /// Bytes of the program's code that was translated.
    pub length: u32,
    /// Bytes of the hot half.
    pub hot_length: u32,
    /// Where the cold half lies, from the hot one.
    pub cold: i32,
    pub cold_length: u32,
    pub first_exit: ExitId,
    /// It begins by comparing the program's code, as that [`crate::Changes::Silently`].
    pub compares: bool,
    pub dead: bool,
}

/// What few fragments have.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    /// Sites that are counted one by one, in the order of instructions.
    pub sites: Box<[SiteId]>,
    /// The offset of the instruction of each.
    pub site_instructions: Box<[u32]>,
    /// What becomes of registers on the way through the fragment; empty if no groups rely on it.
    pub steps: Box<[Step]>,
    /// Where its own jump back to its start goes, once it is linked; none: to the entry like all others.
    pub loop_start: Option<u64>,
    /// How its iterations follow from the induction variable while a thread is in it, and where in the hot half that
    /// ends.
    pub derived: Option<(DerivedCount, u32)>,
}

impl Fragment {
    /// The end of the program's code that was translated.
    pub fn end(&self) -> u64 {
        self.ip + u64::from(self.length)
    }

    /// Where the cold half lies.
    pub fn cold(&self) -> u64 {
        self.hot.wrapping_add_signed(self.cold.into())
    }

    /// Sites that are counted one by one.
    pub fn sites(&self) -> &[SiteId] {
        self.rare.as_ref().map_or(&[], |rare| &rare.sites)
    }

    /// Its ways out.
    pub fn exits(&self) -> impl Iterator<Item = Exit> {
        self.metadata.exits(self.ip, self.hot, self.cold())
    }

    /// The address in the cache of the code that returns to its end come to.
    pub fn returning(&self) -> Option<u64> {
        Some(self.hot + u64::from(self.returns_at?.get() - 1))
    }

    /// Its executions are counted when it is left.
    pub fn counts_at_its_end(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.derived.is_some())
    }

    /// The iterations that are not counted yet for a thread that is stopped in the hot half, so far from its start,
    /// before the instruction at `instruction`.
    fn derived(&self, offset: u64, instruction: u32) -> Option<DerivedCount> {
        let rare = self.rare.as_ref()?;
        let (derived, end) = rare.derived?;
        let made = rare.steps.iter().filter(|step| step.register == derived.register && step.instruction < instruction);
        let grown = made.map(|step| step.by).sum();
        (rare.loop_start? - self.hot..end.into()).contains(&offset).then_some(DerivedCount { grown, ..derived })
    }

    /// See [`Rare::loop_start`].
    pub fn loop_start(&self) -> Option<u64> {
        self.rare.as_ref()?.loop_start
    }

    /// How far an address is in the hot half, and in the cold half.
    fn offsets(&self, address: u64) -> (Option<u64>, Option<u64>) {
        let within = |start: u64, length: u32| address.checked_sub(start).filter(|&offset| offset < u64::from(length));
        (within(self.hot, self.hot_length), within(self.cold(), self.cold_length))
    }

    /// Its code is at this address.
    pub fn holds(&self, address: u64) -> bool {
        self.offsets(address) != (None, None)
    }

    pub fn locate(&self, address: u64) -> Option<Position<'_>> {
        let last = |entries: &mut dyn Iterator<Item = MapEntry>, offset: u64| {
            entries.take_while(|entry| u64::from(entry.offset) <= offset).last()
        };
        let (in_hot, in_cold) = self.offsets(address);
        let entry = match (in_hot, in_cold) {
            (Some(offset), _) => last(&mut self.metadata.hot_map(), offset),
            (None, Some(offset)) => last(&mut self.metadata.cold_map(), offset),
            (None, None) => None,
        }?;
        let MapEntry { state, spilled, saved, checked, instruction, .. } = entry;
        if state == State::Leaving {
            let exit = self.exits().nth(instruction as usize);
            let ip = exit.map_or(0, |exit| exit.target);
            // The first instruction of a stub saves rax.
            let saved = if exit.is_some_and(|exit| exit.stub == address) { 0 } else { saved };
            return Some(Position::leaving(ip, spilled, saved));
        }
        let (sites, steps) = self.rare.as_deref().map_or((&[][..], &[][..]), |rare| {
            let from = rare.site_instructions.partition_point(|&of| of < instruction);
            let to = rare.site_instructions.partition_point(|&of| of <= instruction);
            (&rare.sites[from..to], &rare.steps[..])
        });
        let counted = &sites[..usize::from(entry.counted).min(sites.len())];
        let ahead = self.metadata.members().of_segment(entry.begun.checked_sub(1), instruction);
        let ip = self.ip + u64::from(instruction);
        let unexecuted = self.unexecuted(&entry);
        let derived = in_hot.and_then(|offset| self.derived(offset, instruction));
        Some(Position {
            ip,
            state,
            spilled,
            saved,
            counted,
            sites,
            ahead,
            checked,
            steps,
            instruction,
            derived,
            unexecuted,
        })
    }

    /// What a thread that leaves for good at `entry` has counted of its segment and not executed, or the other way
    /// round.
    fn unexecuted(&self, entry: &MapEntry) -> [Unexecuted; 2] {
        let mut unexecuted = [Unexecuted::default(); 2];
        let at = entry.instruction;
        let holds = |piece: &Piece| (u32::from(piece.from)..u32::from(piece.to)).contains(&at);
        let Some(piece) = self.metadata.pieces().find(holds) else { return unexecuted };
        let (range, too_many) = piece.unmade(at, entry.begun != 0);
        // Every instruction has entries, in order; those after a call begin with what follows it.
        let mut next = range.start;
        for entry in self.metadata.hot_map().filter(|entry| range.contains(&entry.instruction)) {
            if entry.instruction >= next {
                next = entry.instruction + 1;
                let page = (self.ip + u64::from(entry.instruction)) & !0xfff;
                // A segment is shorter than a page.
                let of = usize::from(unexecuted[0].instructions != 0 && unexecuted[0].page != page);
                unexecuted[of].page = page;
                unexecuted[of].instructions += if too_many { -1 } else { 1 };
            }
        }
        unexecuted
    }
}

/// There are many: they fill the heap's blocks of this size.
const _: () = assert!(size_of::<Fragment>() <= 80);
