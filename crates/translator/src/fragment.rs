//! What is remembered of a translated fragment: its ways out, and what program state stands behind each address in the
//! cache.
//!
//! There are tens of thousands of fragments in a large program, so what few of them have is apart ([`Rare`]), and what
//! is looked at seldom is packed ([`metadata`]).

pub(crate) mod drafts;
pub(crate) mod links;
pub(crate) mod metadata;
pub(crate) mod packed;
mod position;
mod translation_map;

pub use position::{Position, Unexecuted};

use crate::ir::exit::Exit;
use crate::ir::mark::{MapEntry, State};
use crate::ir::segments::Piece;
use crate::ir::values::Step;
use crate::{DerivedCount, ExitId, SiteId};
use alloc::boxed::Box;
use core::num::{NonZeroU32, NonZeroU64};
use links::Chain;
use metadata::FragmentMetadata;
use numalens_isa::PAGE;

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
    /// The first of the exits that jump here: see [`links`].
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
#[derive(Debug, Default, PartialEq, Eq)]
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
                let page = (self.ip + u64::from(entry.instruction)) & !(PAGE - 1);
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
