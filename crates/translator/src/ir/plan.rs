//! Which accesses of a fragment are counted together, and where they are checked.
//!
//! A *segment* is the instructions of a fragment between two conditional jumps: it is run to its end or not begun, but
//! for faults and signals. Within one, accesses at known distances from each other ([`super::values`]), as those off
//! the same registers, form a *group*: as a rule they hit one page, the one that they hit the last time.
//! `counting/last_page.rs` says how groups are counted.
//!
//! A group is checked once, before its first access. The check changes the flags. Where they are needed there, it moves
//! up to an instruction of the segment before which they are not, if the registers of the group's first access have
//! their values by then:
//!
//! ```text
//!   <- here          check of [rdi + 8]
//!   cmp  rsi, rcx
//!   mov  rax, [rdi + 8]
//!   jae  out
//! ```
//! Accesses for which there is no such place, and whatever is not a plain operand, are counted one by one.
//!
//! Groups that are counted *immediately* (`counting/immediate.rs`) stay where their first access is: their check reads
//! the table of pages, which may fault if the access does, and must do so in its place.

use super::decode::Decoded;
use super::loops::{Advance, Induction};
use super::numbers::Numbers;
use super::values::{Names, Step, Values};
use crate::abi::registers::RSP;
use crate::{Config, DirectTable};
use alloc::vec::Vec;
use hashbrown::HashSet;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};
use numalens_isa::{Access, Address, Kind, PAGE, Shape};

/// Bytes between the first and the last operand of a group at most: pages end less often within it.
const SPAN: i64 = 128;
/// Accesses of a group at most.
const MEMBERS: u8 = 60;

/// Accesses that are checked together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// The lowest operand, by the registers as the first access finds them; of constant ones the page.
    pub address: Address,
    /// From the lowest operand to the highest.
    pub span: i64,
    /// The instruction before which it is checked.
    pub at: usize,
    /// The instruction of its first access.
    pub first: usize,
    /// It is known to change its page too often: see `counting/megamorphic.rs`.
    pub megamorphic: bool,
    /// It is megamorphic, and has no last page: the class of its pages changes too often as well, or it has a direct
    /// table.
    pub no_last_page: bool,
    /// It is megamorphic, and is counted by this direct table: see `counting/direct.rs`.
    pub direct: Option<u32>,
    /// It advances by the same in each iteration of a loop, and is checked together with others.
    pub advance: Option<Advance>,
    /// What its address grows by from the check to its first access.
    pub shift: i64,
    pub segment: u16,
    pub reads: u8,
    pub writes: u8,
    pub members: u8,
    /// What its registers stand for at the first access, and what is added to that.
    names: Names,
    plus: i64,
}

impl Group {
    /// The same page in every iteration.
    pub fn is_constant(&self) -> bool {
        self.address.is_constant()
    }
}

/// An access of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub group: u16,
    /// The address of its instruction.
    pub ip: u64,
    pub access: Access,
    /// As that of the group's address.
    pub displacement: i64,
}

/// The groups of a fragment. Kept from fragment to fragment for its memory.
#[derive(Default)]
pub(crate) struct Plan {
    /// By the place of the check.
    pub groups: Vec<Group>,
    /// By group, and within one in the order of the program.
    pub members: Vec<Member>,
    /// They are looked up and counted immediately; else by their last pages.
    pub immediate: bool,
    /// Of each instruction: a bit for each of its accesses that is in a group.
    pub grouped: Vec<u8>,
    order: Vec<u16>,
    /// What becomes of registers on the way.
    pub steps: Vec<Step>,
    /// Whoever is stopped on the way to an access that is counted already needs them.
    pub needs_steps: bool,
    /// What the groups that advance have in common.
    pub induction: Option<Induction>,
}

impl Plan {
    /// No groups.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.members.clear();
        self.grouped.clear();
        self.steps.clear();
        self.needs_steps = false;
        self.induction = None;
    }

    /// Whether the groups of a segment have no last pages.
    pub fn is_immediate(&self, segment: u16) -> bool {
        let mut all = self.groups.iter().filter(|group| group.segment == segment);
        self.immediate || all.all(|group| group.no_last_page)
    }

    /// Finds the groups of a fragment. `megamorphic`: instructions whose groups change their pages too often;
    /// `any_class`: and the classes of these.
    pub fn make(
        &mut self,
        list: &[Decoded],
        accesses: &[Access],
        immediate: bool,
        [megamorphic, any_class]: [&HashSet<u64>; 2],
    ) {
        self.clear();
        self.immediate = immediate;
        let mut segment = (0u16, 0usize);
        let keeps_fs = || !list.iter().any(|one| sets_fs_base(&one.instruction));
        // For each register, the first instruction that finds its present value.
        let mut since = [0usize; 16];
        let mut values = Values::new();
        let start = list.first().map_or(0, |one| one.instruction.ip());
        for (number, one) in list.iter().enumerate() {
            let mut grouped = 0;
            for (index, access) in one.accesses_in(accesses).iter().enumerate().take(8) {
                if can_be_grouped(access, &keeps_fs) && self.add(list, number, access, segment, (&since, &values)) {
                    grouped |= 1 << index;
                }
            }
            self.grouped.push(grouped);
            self.steps.extend(values.step_over(one, (one.instruction.ip() - start) as u32));
            (0..16).filter(|register| one.usage.writes >> register & 1 != 0).for_each(|at| since[at] = number + 1);
            if one.instruction.flow_control() == FlowControl::ConditionalBranch {
                segment = (segment.0 + 1, number + 1);
            }
        }
        if !megamorphic.is_empty() {
            for member in self.members.iter().filter(|member| megamorphic.contains(&member.ip)) {
                let group = &mut self.groups[usize::from(member.group)];
                group.megamorphic = !group.is_constant();
                group.no_last_page = group.megamorphic && any_class.contains(&member.ip);
                // Its check reads the table of pages.
                if list[group.first].before.flags == 0 {
                    group.at = group.first;
                }
            }
        }
    }

    /// Puts an access into a group. `false`: there is none for it.
    fn add(
        &mut self,
        list: &[Decoded],
        number: usize,
        access: &Access,
        (segment, begin): (u16, usize),
        (since, values): (&[usize; 16], &Values),
    ) -> bool {
        let value = values.of(&access.address);
        let registers = [access.address.base, access.address.index].into_iter().flatten();
        let present = registers.map(|register| since[usize::from(register & 15)]).fold(0, usize::max);
        let mut all = self.groups.iter_mut().enumerate().rev().take_while(|(_, group)| group.segment == segment);
        let found = all.find_map(|(index, group)| Some((index, group.take(access, value)?)));
        let (group, displacement) = match found {
            Some((index, displacement)) => {
                self.needs_steps |= present > self.groups[index].at;
                (index, displacement)
            }
            None => {
                let earliest = present.max(begin);
                let earliest = if self.immediate { number } else { earliest };
                let Some(at) = (earliest..=number).rev().find(|&at| list[at].before.flags == 0) else { return false };
                self.groups.push(Group::new(access, value, at, number, segment));
                (self.groups.len() - 1, access.address.displacement)
            }
        };
        let ip = list[number].instruction.ip();
        self.members.push(Member { group: group as u16, ip, access: *access, displacement });
        true
    }

    /// Gives direct tables to groups of a loop that are megamorphic, but for those at instructions that are `left_out`.
    pub fn direct(&mut self, config: &Config, numbers: &mut Numbers, left_out: &HashSet<u64>) {
        if self.immediate || config.direct_pages == 0 {
            return;
        }
        for (number, group) in self.groups.iter_mut().enumerate().filter(|(_, group)| group.megamorphic) {
            let first = self.members.iter().find(|member| usize::from(member.group) == number);
            let Some(first) = first else { continue };
            // Never one that was another translation's: what it has counted is of other sites.
            if numbers.direct < DirectTable::MOST && !left_out.contains(&first.ip) {
                (group.direct, group.no_last_page) = (Some(numbers.direct), true);
                numbers.direct += 1;
            }
        }
    }

    /// Brings groups into the order of their checks and members into that of their groups.
    pub fn sort(&mut self) {
        let Plan { groups, members, order, .. } = self;
        // Those that advance stand together.
        let key = |group: &Group| (group.at, group.advance.is_none());
        if !groups.is_sorted_by_key(key) {
            order.clear();
            order.extend(0..groups.len() as u16);
            order.sort_by_key(|&number| key(&groups[usize::from(number)]));
            for member in members.iter_mut() {
                let place = order.iter().position(|&number| number == member.group);
                member.group = place.unwrap_or_default() as u16;
            }
            groups.sort_by_key(key);
        }
        members.sort_by_key(|member| member.group);
    }
}

impl Group {
    fn new(access: &Access, (names, plus): (Names, i64), at: usize, first: usize, segment: u16) -> Self {
        let mut address = access.address;
        if address.is_constant() {
            address.displacement &= !(PAGE as i64 - 1);
        }
        let mut group = Group {
            address,
            span: 0,
            at,
            first,
            megamorphic: false,
            no_last_page: false,
            direct: None,
            advance: None,
            shift: 0,
            segment,
            reads: 0,
            writes: 0,
            members: 0,
            names,
            plus,
        };
        group.count(access.kind);
        group
    }

    fn count(&mut self, kind: Kind) {
        self.reads += u8::from(kind != Kind::Write);
        self.writes += u8::from(kind != Kind::Read);
        self.members += 1;
    }

    /// Takes an access in, if it belongs: its displacement as the group's address has them.
    fn take(&mut self, access: &Access, (names, plus): (Names, i64)) -> Option<i64> {
        let (mine, other) = (&self.address, &access.address);
        if self.members >= MEMBERS || names != self.names || (mine.scale, mine.fs) != (other.scale, other.fs) {
            return None;
        }
        let displacement = other.displacement.wrapping_add(plus.wrapping_sub(self.plus));
        if mine.is_constant() {
            if other.displacement & !(PAGE as i64 - 1) != mine.displacement {
                return None;
            }
        } else {
            let low = mine.displacement.min(displacement);
            let high = (mine.displacement + self.span).max(displacement);
            // An operand is made of the lowest.
            if high.checked_sub(low).is_none_or(|span| span > SPAN) || i32::try_from(low).is_err() {
                return None;
            }
            (self.address.displacement, self.span) = (low, high - low);
        }
        self.count(access.kind);
        Some(displacement)
    }
}

/// `keeps_fs`: the base of FS stays what it is. Few fragments ask.
fn can_be_grouped(access: &Access, keeps_fs: &impl Fn() -> bool) -> bool {
    let Address { base, fs, gs, narrow, byte_index, .. } = access.address;
    let plain = access.shape == Shape::Plain && !access.implied && !access.stack;
    plain && base != Some(RSP) && !(gs || narrow || byte_index) && (!fs || keeps_fs())
}

/// Whether an instruction changes the base of FS.
pub(crate) fn sets_fs_base(instruction: &Instruction) -> bool {
    let loads = || instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Register;
    match instruction.mnemonic() {
        Mnemonic::Wrfsbase | Mnemonic::Lfs => true,
        Mnemonic::Mov | Mnemonic::Pop => loads() && instruction.op0_register() == Register::FS,
        _ => false,
    }
}
