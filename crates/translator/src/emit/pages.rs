//! Addresses of operands, the entries of their pages, and the counters that those name.

use super::code::{Code, Field, Memory};
use super::emitter::Emitter;
use crate::abi::registers::RAX;
use crate::ir::mark::State;
use crate::ir::plan::Group;
use crate::{Config, Error, Shadow, Shape, SiteId, context};
use numalens_isa::{Address, Kind, PAGE, PAGE_BITS};

/// How many of each an access is.
pub(crate) fn reads_and_writes(kind: Kind) -> (u8, u8) {
    (u8::from(kind != Kind::Write), u8::from(kind != Kind::Read))
}

impl Emitter<'_> {
    /// Counts so many reads and writes of the page whose word is in `r1`, and one in a row of site counters, where
    /// flags are dead. Goes to what is returned if the page is not known.
    pub fn count_entry(&mut self, r1: u8, (reads, writes): (u8, u8), row: u32) -> Field {
        let unknown = leave_unknown(&mut self.hot, self.config, r1, writes != 0);
        self.map_hot(State::Counting);
        self.hot.increment(in_row(r1, row));
        count_in_page(&mut self.hot, self.config, r1, (reads, writes));
        unknown
    }

    /// The entry of the page of the address in `register`, and then the flags, which are live, in rax, which has to be
    /// another one. Nothing that faults comes behind them.
    pub fn entry_before_flags(&mut self, register: u8, live: u16) {
        self.scratch.take(&mut self.hot, RAX, live);
        self.map_spilled();
        self.hot.constant(RAX, PAGE_BITS.into());
        self.hot.shift_right_by(register, register, RAX);
        if self.config.shadow == Shadow::FromContext {
            self.hot.load(RAX, Memory::context(context::SHADOW_BASE));
            let sum = Memory::Flat { base: Some(register), index: Some(RAX), scale: 1, displacement: 0 };
            self.hot.lea(register, sum);
        }
        load_from_table(&mut self.hot, self.config.shadow, register);
        self.map_hot(State::Counting);
        self.hot.flags_to_rax();
    }

    /// Loads the entry of a page that is always the same, where flags are dead.
    pub fn load_entry_of(&mut self, register: u8, page: u64) {
        if let Shadow::At(address) = self.config.shadow
            && let Ok(address) = u32::try_from(u64::from(address) + page * 8)
        {
            return self.hot.load(register, Memory::Absolute { address });
        }
        self.hot.constant(register, page);
        load_entry(&mut self.hot, self.config.shadow, register);
    }

    /// Offset from GS of the row of counters of a site.
    pub fn site_offset(&self, site: SiteId) -> Result<u32, Error> {
        self.config.site_counter(site, 0).ok_or(Error::TooMany)
    }

    /// Puts an address in the page of a group's operands into `r1`. Goes to what is returned if they may lie across the
    /// end of one, and never if they do not.
    pub fn operand_in_one_page(&mut self, r1: u8, group: &Group) -> Option<Field> {
        if group.span == 0 {
            operand(&mut self.hot, r1, group);
            return None;
        }
        let room = (group.span as u32).next_power_of_two();
        let shift = group.shift + i64::from(room);
        if i32::try_from(group.address.displacement + shift).is_ok() {
            let mut further = *group;
            further.shift = shift;
            operand(&mut self.hot, r1, &further);
        } else {
            operand(&mut self.hot, r1, group);
            self.hot.lea(r1, Memory::base(r1, room as i32));
        }
        self.hot.test(r1, PAGE as u32 - room);
        Some(self.hot.relative(&[0x0f, 0x84]))
    }
}

/// `register`: page number in, entry of the page out, where flags are dead.
pub(crate) fn load_entry(code: &mut Code, shadow: Shadow, register: u8) {
    if shadow == Shadow::FromContext {
        code.memory(true, &[0x03], register, Memory::context(context::SHADOW_BASE));
    }
    load_from_table(code, shadow, register);
}

/// The same, with what stands at `context::SHADOW_BASE` added already if the table may be anywhere.
pub(crate) fn load_from_table(code: &mut Code, shadow: Shadow, register: u8) {
    let displacement = match shadow {
        Shadow::At(address) => address as i32,
        Shadow::FromContext => 0,
    };
    code.load(register, Memory::Flat { base: None, index: Some(register), scale: 8, displacement });
}

/// Goes to what is returned if the page whose word is in a register is not known, or, for one that writes, only as one
/// that is read. The flags are lost.
pub(crate) fn leave_unknown(code: &mut Code, config: &Config, word: u8, writes: bool) -> Field {
    if writes {
        code.compare_half(word, config.read_only());
        return code.relative(&[0x0f, 0x86]); // jbe
    }
    code.registers(false, &[0x85], word, word); // test
    code.relative(&[0x0f, 0x84]) // jz
}

/// Adds to the counters of the page whose word is in a register, where flags are dead; the register is lost.
pub(crate) fn count_in_page(code: &mut Code, config: &Config, word: u8, counts: (u8, u8)) {
    let (shift, counters) = page_counters(config, word, counts);
    code.shift_right(word, shift);
    for (count, counter) in counters {
        code.add_small(counter, count);
    }
}

/// What is to be added to which counters of the page whose word is in a register, once it is shifted right by so many
/// bits.
pub(crate) fn page_counters(
    config: &Config,
    word: u8,
    (reads, writes): (u8, u8),
) -> (u8, impl Iterator<Item = (u8, Memory)>) {
    let at = |displacement| Memory::AtOffset { register: word, half: false, displacement };
    let (shift, counters) = match reads == writes {
        // The counter of updates has half the size.
        true => (33, [(reads, at(config.updates - (config.pages / 2) as i32)), (0, at(0))]),
        false => (32, [(reads, at(0)), (writes, at(8))]),
    };
    (shift, counters.into_iter().filter(|(count, _)| *count != 0))
}

/// The counter in a row of site counters for the class of the page whose word is in a register.
pub(crate) fn in_row(word: u8, row: u32) -> Memory {
    Memory::AtOffset { register: word, half: true, displacement: row as i32 }
}

/// `r1` becomes the address; `r2` is another scratch register. The flags are left alone.
pub(crate) fn address(code: &mut Code, r1: u8, r2: u8, address: &Address, shape: Shape) {
    let displacement = address.displacement;
    let index = if matches!(shape, Shape::Elements | Shape::Tile) { None } else { address.index };
    if address.base.is_none() && index.is_none() {
        let masked = if address.narrow { displacement as u64 & 0xffff_ffff } else { displacement as u64 };
        code.constant(r1, masked);
    } else {
        let index = if address.byte_index {
            code.registers(false, &[0x0f, 0xb6], r1, RAX); // movzx r1d, al
            Some(r1)
        } else {
            index
        };
        let wide = !address.narrow;
        let memory =
            Memory::Flat { base: address.base, index, scale: address.scale.max(1), displacement: displacement as i32 };
        code.memory(wide, &[0x8d], r1, memory);
    }
    if address.fs {
        code.load(r2, Memory::context(context::FS_BASE));
        code.lea(r1, Memory::Flat { base: Some(r1), index: Some(r2), scale: 1, displacement: 0 });
    }
}

/// The lowest operand of a group, where flags are dead.
pub(crate) fn operand(code: &mut Code, to: u8, group: &Group) {
    let address = &group.address;
    let displacement = (address.displacement + group.shift) as i32;
    if address.fs && address.base.is_none() && address.index.is_none() {
        code.load(to, Memory::context(context::FS_BASE));
        return code.lea(to, Memory::base(to, displacement));
    }
    let memory = Memory::Flat { base: address.base, index: address.index, scale: address.scale.max(1), displacement };
    code.lea(to, memory);
    if address.fs {
        code.memory(true, &[0x03], to, Memory::context(context::FS_BASE)); // add
    }
}
