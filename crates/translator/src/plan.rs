//! Which accesses of a block are counted together, and where they are checked.
//!
//! A *stretch* is the instructions of a block between two conditional jumps: it is run to its end or not begun, but for faults and
//! signals. Within one, accesses off the same base and index registers, as long as these keep their values, form a *group*: as
//! a rule they hit one page, the one that they hit the last time. [`crate::stay`] says how groups are counted.
//!
//! A group is checked once, before its first access. The check changes the flags. Where they are needed there, it moves up to an
//! instruction of the stretch before which they are not, if the group's registers have their values by then:
//!
//! ```text
//!   <- here          check of [rdi + 8]
//!   cmp  rsi, rcx
//!   mov  rax, [rdi + 8]
//!   jae  out
//! ```
//! Accesses for which there is no such place, and whatever is not a plain operand, are counted one by one.
//!
//! Groups that are counted *at once* ([`crate::at_once`]) stay where their first access is: their check reads the table of pages,
//! which may fault if the access does, and must do so in its place.

use crate::decode::Decoded;
use crate::lap::{Advance, Lead};
use alloc::vec::Vec;
use hashbrown::HashSet;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};
use numalens_isa::{Access, Address, Kind, Shape};

/// Bytes between the first and the last operand of a group at most: pages end less often within it.
const SPAN: i64 = 128;
/// Accesses of a group at most.
const MEMBERS: u8 = 60;
const PAGE: i64 = 4096;

/// Accesses that are checked together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// The lowest operand; of constant ones the page.
    pub address: Address,
    /// From the lowest operand to the highest.
    pub span: i64,
    /// The instruction before which it is checked.
    pub at: usize,
    /// The instruction of its first access.
    pub first: usize,
    /// It is known to change its page too often: see [`crate::hot`].
    pub hot: bool,
    /// It is hot, and has no stay: the class of its pages changes too often as well, or it has a tally.
    pub no_stay: bool,
    /// It is hot, and is counted by this tally: see [`crate::tally`].
    pub tally: Option<u32>,
    /// It advances by the same in each pass of a loop, and is checked together with others.
    pub advance: Option<Advance>,
    /// What its address grows by from the check to its first access.
    pub shift: i64,
    pub stretch: u16,
    pub reads: u8,
    pub writes: u8,
    pub members: u8,
    /// Its registers still have the values that they had at the check.
    open: bool,
}

impl Group {
    /// The same page in every pass.
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
}

/// The groups of a block. Kept from block to block for its memory.
#[derive(Default)]
pub(crate) struct Plan {
    /// By the place of the check.
    pub groups: Vec<Group>,
    /// By group, and within one in the order of the program.
    pub members: Vec<Member>,
    /// They are looked up and counted at once; else by stays.
    pub at_once: bool,
    /// Of each instruction: a bit for each of its accesses that is in a group.
    pub grouped: Vec<u8>,
    order: Vec<u16>,
    /// What the groups that advance have in common.
    pub lead: Option<Lead>,
}

impl Plan {
    /// No groups.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.members.clear();
        self.grouped.clear();
        self.lead = None;
    }

    /// Whether the groups of a stretch have no stays.
    pub fn counts_at_once(&self, stretch: u16) -> bool {
        let mut all = self.groups.iter().filter(|group| group.stretch == stretch);
        self.at_once || all.all(|group| group.no_stay)
    }

    /// Finds the groups of a block. `hot`: instructions whose groups change their pages too often; `any_class`: and the classes of these.
    pub fn make(&mut self, list: &[Decoded], accesses: &[Access], at_once: bool, [hot, any_class]: [&HashSet<u64>; 2]) {
        self.clear();
        self.at_once = at_once;
        let mut stretch = (0u16, 0usize);
        let keeps_fs = || !list.iter().any(|one| sets_fs_base(&one.instruction));
        // For each register, the first instruction that finds its present value.
        let mut since = [0usize; 16];
        for (number, one) in list.iter().enumerate() {
            let mut grouped = 0;
            for (index, access) in one.accesses_in(accesses).iter().enumerate().take(8) {
                if can_be_grouped(access, &keeps_fs) && self.add(list, number, access, stretch, &since) {
                    grouped |= 1 << index;
                }
            }
            self.grouped.push(grouped);
            self.close(one.usage.writes);
            (0..16).filter(|register| one.usage.writes >> register & 1 != 0).for_each(|at| since[at] = number + 1);
            if one.instruction.flow_control() == FlowControl::ConditionalBranch {
                self.close(u16::MAX);
                self.groups.iter_mut().for_each(|group| group.open = false);
                stretch = (stretch.0 + 1, number + 1);
            }
        }
        if !hot.is_empty() {
            for member in self.members.iter().filter(|member| hot.contains(&member.ip)) {
                let group = &mut self.groups[usize::from(member.group)];
                group.hot = !group.is_constant();
                group.no_stay = group.hot && any_class.contains(&member.ip);
                // Its check reads the table of pages.
                if list[group.first].before.flags == 0 {
                    group.at = group.first;
                }
            }
        }
    }

    fn close(&mut self, written: u16) {
        if written != 0 {
            for group in self.groups.iter_mut().filter(|group| group.open) {
                group.open = group.address.registers(Shape::Plain) & written == 0;
            }
        }
    }

    /// Puts an access into a group. `false`: there is none for it.
    fn add(
        &mut self,
        list: &[Decoded],
        number: usize,
        access: &Access,
        (stretch, begin): (u16, usize),
        since: &[usize; 16],
    ) -> bool {
        let found = self.groups.iter_mut().rposition(|group| group.open && group.take(access));
        let group = match found {
            Some(group) => group,
            None => {
                let registers = [access.address.base, access.address.index];
                let earliest = registers.into_iter().flatten().map(|register| since[usize::from(register & 15)]);
                let earliest = earliest.fold(begin, usize::max);
                let earliest = if self.at_once { number } else { earliest };
                let Some(at) = (earliest..=number).rev().find(|&at| list[at].before.flags == 0) else { return false };
                self.groups.push(Group::new(access, at, number, stretch));
                self.groups.len() - 1
            }
        };
        self.members.push(Member { group: group as u16, ip: list[number].instruction.ip(), access: *access });
        true
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
    fn new(access: &Access, at: usize, first: usize, stretch: u16) -> Self {
        let mut address = access.address;
        if address.is_constant() {
            address.displacement &= !(PAGE - 1);
        }
        let mut group = Group {
            address,
            span: 0,
            at,
            first,
            hot: false,
            no_stay: false,
            tally: None,
            advance: None,
            shift: 0,
            stretch,
            reads: 0,
            writes: 0,
            members: 0,
            open: true,
        };
        group.count(access.kind);
        group
    }

    fn count(&mut self, kind: Kind) {
        self.reads += u8::from(kind != Kind::Write);
        self.writes += u8::from(kind != Kind::Read);
        self.members += 1;
    }

    /// Takes an access in, if it belongs.
    fn take(&mut self, access: &Access) -> bool {
        let (mine, other) = (&self.address, &access.address);
        let registers = |address: &Address| (address.base, address.index, address.scale, address.fs);
        if self.members >= MEMBERS || registers(mine) != registers(other) {
            return false;
        }
        if mine.is_constant() {
            if other.displacement & !(PAGE - 1) != mine.displacement {
                return false;
            }
        } else {
            let low = mine.displacement.min(other.displacement);
            let high = (mine.displacement + self.span).max(other.displacement);
            if high - low > SPAN {
                return false;
            }
            (self.address.displacement, self.span) = (low, high - low);
        }
        self.count(access.kind);
        true
    }
}

/// `keeps_fs`: the base of FS stays what it is. Few blocks ask.
fn can_be_grouped(access: &Access, keeps_fs: &impl Fn() -> bool) -> bool {
    let Address { base, fs, gs, narrow, byte_index, .. } = access.address;
    let plain = access.shape == Shape::Plain && !access.implied && !access.stack;
    plain && base != Some(crate::emit::RSP) && !(gs || narrow || byte_index) && (!fs || keeps_fs())
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
