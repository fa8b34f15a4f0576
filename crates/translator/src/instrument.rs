//! The counting code before (or, for repeated string instructions, around) an instruction.
//!
//! Inline, where flags are dead:
//!
//! ```text
//!   lea   r1, [address]
//!   shr   r1, 12                        page number
//!   mov   r1, [shadow + r1*8]           its word: the column of the class below, the page's counters above
//!   test  r1d, r1d                      } where it writes: cmp r1d, column of
//!   jz    cold                          } `PageEntry::READ_ONLY`; jbe
//!   inc   qword gs:[r1d + row]          the site's
//!   shr   r1, 32
//!   inc   qword gs:[r1]                 reads, or writes 8 bytes further, or, for both at once, half as far among the updates
//! ```
//! One register, and offsets as they are: in large programs each of these lines is there a hundred thousand times, and
//! the caches hold little of their code. (Another register for the column, and tables that are indexed, take gcc a
//! sixth more code and 3 to 5 % more time.)
//!
//! Where flags are live, the same with instructions that leave them alone: `shrx` and `rorx` shift, `lea` adds, `jrcxz`
//! tests; that needs rcx and two more registers.

use crate::count::{Operation, What};
use crate::emit::{Code, Field, Memory, RAX, RCX, RDX};
use crate::fragment::State;
use crate::liveness::Live;
use crate::translate::Builder;
use crate::{Config, Env, Error, Shadow, Shape, Site, SiteId, context};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use numalens_isa::{Access, Address, ImageForm, Kind};

/// How many of each an access is.
fn reads_and_writes(kind: Kind) -> (u8, u8) {
    (u8::from(kind != Kind::Write), u8::from(kind != Kind::Read))
}

impl<E: Env> Builder<'_, E> {
    /// Counts one access of the current instruction, before it.
    pub(crate) fn count_access(&mut self, instruction: &Instruction, access: &Access, live: Live) -> Result<(), Error> {
        let site = self.new_site(&Site::new(instruction.ip(), access))?;
        if crate::fetch::happens_once(access) {
            self.once.push((self.current, site));
        }
        match access.shape {
            Shape::Plain if self.config.each => self.count_apart(access, site, live),
            Shape::Plain if live.flags == 0 => self.count_with_flags(access, site, live),
            Shape::Plain => self.count_without_flags(access, site, live),
            Shape::Masked => self.count_masked(instruction, access, site, live),
            Shape::Elements => self.count_elements(instruction, access, site, live),
            Shape::Bits => self.count_bits(instruction, access, site, live),
            Shape::Tile => self.count_tile(instruction, access, site, live),
            Shape::Image(form) => self.count_image(form, access, site, live),
            // Counted afterwards.
            Shape::String => Ok(()),
        }
    }

    fn count_with_flags(&mut self, access: &Access, site: SiteId, live: Live) -> Result<(), Error> {
        let avoid = access.address.registers(access.shape);
        let r1 = self.scratch.pick(&mut self.hot, live.registers, avoid);
        let r2 = match access.address.fs {
            true => self.scratch.pick(&mut self.hot, live.registers, avoid | 1 << r1),
            false => r1,
        };
        self.map_spilled();
        if access.address.is_constant() {
            self.load_entry_of(r1, access.address.displacement as u64 >> 12);
        } else {
            address(&mut self.hot, r1, r2, &access.address, access.shape);
            self.hot.shift_right(r1, 12);
            load_entry(&mut self.hot, self.config.shadow, r1);
        }
        let cold = self.count_entry(r1, reads_and_writes(access.kind), self.site_offset(site)?);
        let back = self.hot.here();
        self.resolve_hot(cold, self.cold.here())?;
        self.map_cold(State::Counting);
        address(&mut self.cold, r1, r2, &access.address, access.shape);
        call_out(&mut self.cold, &What::one(access.kind), &[site], &[(0, r1)], r1);
        self.return_to(r1, back)
    }

    /// Counts so many reads and writes of the page whose word is in `r1`, and one in a row of site counters, where
    /// flags are dead. Goes to what is returned if the page is not known.
    pub(crate) fn count_entry(&mut self, r1: u8, (reads, writes): (u8, u8), row: u32) -> Field {
        let unknown = match writes {
            0 => {
                self.hot.registers(false, &[0x85], r1, r1); // test
                self.hot.relative(&[0x0f, 0x84]) // jz
            }
            _ => {
                self.hot.compare_half(r1, self.config.read_only());
                self.hot.relative(&[0x0f, 0x86]) // jbe
            }
        };
        self.map_hot(State::Counting);
        self.hot.increment(in_row(r1, row));
        count_in_page(&mut self.hot, self.config, r1, (reads, writes));
        unknown
    }

    fn count_without_flags(&mut self, access: &Access, site: SiteId, live: Live) -> Result<(), Error> {
        let avoid = access.address.registers(access.shape) | 1 << RCX;
        let r1 = self.scratch.pick(&mut self.hot, live.registers, avoid);
        let r2 = self.scratch.pick(&mut self.hot, live.registers, avoid | 1 << r1);
        self.map_spilled();
        address(&mut self.hot, r1, r2, &access.address, access.shape);
        self.scratch.take(&mut self.hot, RCX, live.registers);
        self.map_spilled();
        self.hot.constant(r2, 12);
        self.hot.shift_right_by(r2, r1, r2);
        if self.config.shadow == Shadow::FromContext {
            self.hot.load(RCX, Memory::context(context::SHADOW_BASE));
            self.hot.lea(r2, Memory::Flat { base: Some(r2), index: Some(RCX), scale: 1, displacement: 0 });
        }
        load_from_table(&mut self.hot, self.config.shadow, r2);
        self.hot.move32(RCX, r2);
        self.hot.raw(&[0xe3, 0]); // jrcxz unknown
        let mut unknown = [Some(self.hot.bytes.len()), None];
        if access.kind != Kind::Read {
            let column = self.config.read_only() as i32;
            let from = |displacement| Memory::base(RCX, displacement);
            self.hot.memory(false, &[0x8d], RCX, from(-column)); // lea ecx, ..
            self.hot.raw(&[0xe3, 0]); // jrcxz unknown
            unknown[1] = Some(self.hot.bytes.len());
            self.hot.memory(false, &[0x8d], RCX, from(column));
        }
        let (shift, counters) = page_counters(self.config, r2, reads_and_writes(access.kind));
        self.hot.rotate_right(r2, r2, shift);
        self.hot.move32(r2, r2);
        self.map_hot(State::Counting);
        let add = |code: &mut Code, memory: Memory, temporary: u8| {
            code.load(temporary, memory);
            code.lea(temporary, Memory::base(temporary, 1));
            code.store(temporary, memory);
        };
        for (_, counter) in counters {
            add(&mut self.hot, counter, r1);
        }
        let offset = self.site_offset(site)?;
        add(&mut self.hot, in_row(RCX, offset), r1);
        self.hot.raw(&[0xeb, 5]); // jmp past the next
        for unknown in unknown.into_iter().flatten() {
            let distance = self.hot.bytes.len() - unknown;
            debug_assert!(distance < 128, "a short jump");
            self.hot.bytes[unknown - 1] = distance as u8;
        }
        let cold = self.hot.relative(&[0xe9]);

        let back = self.hot.here();
        self.resolve_hot(cold, self.cold.here())?;
        self.map_cold(State::Counting);
        call_out(&mut self.cold, &What::one(access.kind), &[site], &[(0, r1)], r1);
        self.return_to(r1, back)
    }

    /// Leaves for each access, which alters no flags.
    fn count_apart(&mut self, access: &Access, site: SiteId, live: Live) -> Result<(), Error> {
        let avoid = access.address.registers(access.shape);
        let r1 = self.scratch.pick(&mut self.hot, live.registers, avoid);
        let r2 = match access.address.fs {
            true => self.scratch.pick(&mut self.hot, live.registers, avoid | 1 << r1),
            false => r1,
        };
        self.map_spilled();
        address(&mut self.hot, r1, r2, &access.address, access.shape);
        self.call_out_inline(&What::sized(access.kind, access.size), site, &[r1], r1)
    }

    /// Loads the entry of a page that is always the same, where flags are dead.
    pub(crate) fn load_entry_of(&mut self, register: u8, page: u64) {
        if let Shadow::At(address) = self.config.shadow
            && let Ok(address) = u32::try_from(u64::from(address) + page * 8)
        {
            return self.hot.load(register, Memory::Absolute { address });
        }
        self.hot.constant(register, page);
        load_entry(&mut self.hot, self.config.shadow, register);
    }

    fn site_offset(&self, site: SiteId) -> Result<u32, Error> {
        self.config.site_counter(site, 0).ok_or(Error::TooMany)
    }

    fn count_masked(
        &mut self,
        instruction: &Instruction,
        access: &Access,
        site: SiteId,
        live: Live,
    ) -> Result<(), Error> {
        let registers = self.address_and_mask(instruction, access, live);
        let lanes = lanes(instruction);
        let memory = instruction.memory_size();
        let operation = if one_place(instruction) { Operation::AnyActive } else { Operation::FirstActive };
        let size = if is_byte_mask(instruction) { 1 } else { memory.element_size().clamp(1, 64) as u8 };
        let what = What { operation, size: size.next_power_of_two(), lanes, ..What::one(access.kind) };
        let simple = operation == Operation::FirstActive && what.size <= 8 && !access.address.narrow;
        if simple && live.flags == 0 && !self.config.each {
            return self.count_first_active(instruction, access, &what, site, registers);
        }
        self.call_out_inline(&what, site, &registers, registers[0])
    }

    /// Counts an access at its first active element in place: C libraries copy few bytes so. Flags are dead; the
    /// registers hold address and mask.
    fn count_first_active(
        &mut self,
        instruction: &Instruction,
        access: &Access,
        what: &What,
        site: SiteId,
        [r1, r2]: [u8; 2],
    ) -> Result<(), Error> {
        // tzcnt r2, r2: 64 if there is none.
        self.hot.raw(&[0xf3]);
        self.hot.registers(true, &[0x0f, 0xbc], r2, r2);
        self.hot.compare(r2, i32::from(what.lanes));
        let none = self.hot.relative(&[0x0f, 0x83]);
        self.hot.lea(r1, Memory::Flat { base: Some(r1), index: Some(r2), scale: what.size, displacement: 0 });
        self.hot.shift_right(r1, 12);
        load_entry(&mut self.hot, self.config.shadow, r1);
        let cold = self.count_entry(r1, reads_and_writes(access.kind), self.site_offset(site)?);
        let back = self.hot.here();
        self.resolve_hot(none, back)?;
        self.resolve_hot(cold, self.cold.here())?;
        self.map_cold(State::Counting);
        put_address_and_mask(&mut self.cold, instruction, access, [r1, r2]);
        call_out(&mut self.cold, what, &[site], &[(0, r1), (1, r2)], r1);
        self.return_to(r1, back)
    }

    fn count_elements(
        &mut self,
        instruction: &Instruction,
        access: &Access,
        site: SiteId,
        live: Live,
    ) -> Result<(), Error> {
        let registers = self.address_and_mask(instruction, access, live);
        let lanes = lanes(instruction);
        let vector = instruction.memory_index();
        store_vector(&mut self.hot, vector, instruction.has_op_mask());
        let index_size = if instruction.is_vsib64() { 8 } else { 4 };
        // Pages do not ask for it.
        let size = if self.config.each { instruction.memory_size().element_size().clamp(1, 64) as u8 } else { 1 };
        let what = What {
            operation: Operation::Elements,
            size: size.next_power_of_two(),
            lanes,
            index_size,
            scale: access.address.scale,
            narrow: access.address.narrow,
            ..What::one(access.kind)
        };
        let simple = what.lanes <= 16 && !what.narrow && access.kind != Kind::ReadWrite;
        if simple && live.flags == 0 && !self.config.each {
            return self.count_elements_immediately(&what, site, registers);
        }
        self.call_out_inline(&what, site, &registers, registers[0])
    }

    fn count_bits(
        &mut self,
        instruction: &Instruction,
        access: &Access,
        site: SiteId,
        live: Live,
    ) -> Result<(), Error> {
        let avoid = access.address.registers(access.shape) | 1 << instruction.op1_register().full_register().number();
        let r1 = self.scratch.pick(&mut self.hot, live.registers, avoid);
        let r2 = self.scratch.pick(&mut self.hot, live.registers, avoid | 1 << r1);
        self.map_spilled();
        address(&mut self.hot, r1, r2, &access.address, access.shape);
        self.hot.move64(r2, instruction.op1_register().full_register().number() as u8);
        let index_size = instruction.op1_register().size() as u8;
        let what =
            What { operation: Operation::Bits, index_size, narrow: access.address.narrow, ..What::one(access.kind) };
        self.call_out_inline(&what, site, &[r1, r2], r1)
    }

    /// Leaves with the address of a tile's first row, the distance between rows, and the thread's configuration of
    /// tiles.
    fn count_tile(
        &mut self,
        instruction: &Instruction,
        access: &Access,
        site: SiteId,
        live: Live,
    ) -> Result<(), Error> {
        let avoid = access.address.registers(access.shape);
        let r1 = self.scratch.pick(&mut self.hot, live.registers, avoid);
        let r2 = self.scratch.pick(&mut self.hot, live.registers, avoid | 1 << r1);
        self.map_spilled();
        self.hot.raw(&[0x65, 0xc4, 0xe2, 0x79, 0x49, 0x04, 0x25]); // sttilecfg gs:[..]
        self.hot.imm32(context::COUNT_VECTOR);
        let Address { index, scale, narrow, .. } = access.address;
        address(&mut self.hot, r1, r2, &access.address, access.shape);
        match index {
            Some(_) => {
                let stride = Memory::Flat { base: None, index, scale: scale.max(1), displacement: 0 };
                self.hot.memory(!narrow, &[0x8d], r2, stride);
            }
            None => self.hot.constant(r2, 0),
        }
        let is_tile = |register: &Register| register.is_tmm();
        let tile = [instruction.op0_register(), instruction.op1_register()].into_iter().find(is_tile);
        let lanes = tile.map_or(0, |tile| tile.number() as u8);
        let what = What { operation: Operation::Tile, lanes, narrow, ..What::one(access.kind) };
        self.call_out_inline(&what, site, &[r1, r2], r1)
    }

    /// Leaves with the address of an image of the processor's state and what of it is asked for.
    fn count_image(&mut self, form: ImageForm, access: &Access, site: SiteId, live: Live) -> Result<(), Error> {
        let avoid = access.address.registers(access.shape) | 1 << RAX | 1 << RDX;
        let r1 = self.scratch.pick(&mut self.hot, live.registers, avoid);
        let r2 = self.scratch.pick(&mut self.hot, live.registers, avoid | 1 << r1);
        self.map_spilled();
        address(&mut self.hot, r1, r2, &access.address, access.shape);
        for (half, register) in [(0, RAX), (4, RDX)] {
            // mov gs:[..], register
            self.hot.memory(false, &[0x89], register, Memory::context(context::COUNT_ARGUMENTS + 8 + half));
        }
        let narrow = access.address.narrow;
        let what = What { operation: Operation::Image, lanes: form as u8, narrow, ..What::one(access.kind) };
        self.call_out_inline(&what, site, &[r1], r1)
    }

    /// Loads the address of the operand and its mask into two registers.
    fn address_and_mask(&mut self, instruction: &Instruction, access: &Access, live: Live) -> [u8; 2] {
        let avoid = access.address.registers(access.shape);
        let r1 = self.scratch.pick(&mut self.hot, live.registers, avoid);
        let r2 = self.scratch.pick(&mut self.hot, live.registers, avoid | 1 << r1);
        self.map_spilled();
        put_address_and_mask(&mut self.hot, instruction, access, [r1, r2]);
        [r1, r2]
    }

    /// `registers` hold the first arguments; `last` is lost.
    pub(crate) fn call_out_inline(
        &mut self,
        what: &What,
        site: SiteId,
        registers: &[u8],
        last: u8,
    ) -> Result<(), Error> {
        for (number, &register) in (0..).zip(registers) {
            self.hot.store(register, Memory::context(context::COUNT_ARGUMENTS + 8 * number));
        }
        describe(&mut self.hot, what, &[site]);
        self.leave_to_count(last)
    }

    /// Leaves through COUNT and goes on behind; the register is lost.
    pub(crate) fn leave_to_count(&mut self, register: u8) -> Result<(), Error> {
        // lea register, [rip + ...]: what follows the jump
        let field = self.hot.load_address(register);
        self.hot.store(register, Memory::context(context::COUNT_RETURN));
        self.hot.jump_context(None, context::COUNT);
        let here = self.hot.here();
        self.resolve_hot(field, here)
    }

    /// Ends a cold path.
    pub(crate) fn return_to(&mut self, register: u8, back: u64) -> Result<(), Error> {
        let field = crate::emit::Field(self.cold.bytes.len() - 4);
        self.resolve_cold(field, back)?;
        self.cold.store(register, Memory::context(context::COUNT_RETURN));
        self.cold.jump_context(None, context::COUNT);
        Ok(())
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
fn load_from_table(code: &mut Code, shadow: Shadow, register: u8) {
    let displacement = match shadow {
        Shadow::At(address) => address as i32,
        Shadow::FromContext => 0,
    };
    code.load(register, Memory::Flat { base: None, index: Some(register), scale: 8, displacement });
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
fn page_counters(config: &Config, word: u8, (reads, writes): (u8, u8)) -> (u8, impl Iterator<Item = (u8, Memory)>) {
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

pub(crate) fn describe(code: &mut Code, what: &What, sites: &[SiteId]) {
    code.store_constant(context::COUNT_WHAT, what.pack());
    for (number, site) in sites.iter().enumerate() {
        code.memory(false, &[0xc7], 0, Memory::context(context::COUNT_SITES + 4 * number as u32));
        code.imm32(site.0);
    }
}

/// Stores the description and arguments and begins `lea last, [rip + ..]`, whose displacement is left to be filled.
pub(crate) fn call_out(code: &mut Code, what: &What, sites: &[SiteId], arguments: &[(u32, u8)], last: u8) {
    for &(number, register) in arguments {
        code.store(register, Memory::context(context::COUNT_ARGUMENTS + 8 * number));
    }
    describe(code, what, sites);
    code.load_address(last);
}

/// `r1` becomes the address; `r2` is another scratch register. The flags are left alone.
fn address(code: &mut Code, r1: u8, r2: u8, address: &Address, shape: Shape) {
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

/// The address of an operand into `r1`, its mask into `r2`.
fn put_address_and_mask(code: &mut Code, instruction: &Instruction, access: &Access, [r1, r2]: [u8; 2]) {
    address(code, r1, r2, &access.address, access.shape);
    if instruction.has_op_mask() {
        let k = instruction.op_mask().number() as u8;
        // kmovq r2, k
        code.raw(&[0xc4, u8::from(r2 < 8) << 7 | 0x61, 0xfb, 0x93, 0xc0 | (r2 & 7) << 3 | k]);
    } else {
        let mask = mask_register(instruction);
        vector_mask(code, r2, mask, instruction);
    }
}

fn is_byte_mask(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Maskmovq | Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu)
}

/// The vector register whose elements' sign bits are the mask of an instruction without an opmask.
fn mask_register(instruction: &Instruction) -> Register {
    if is_byte_mask(instruction) {
        // The first operand is the memory at rdi.
        return instruction.op2_register();
    }
    if instruction.is_vsib() { instruction.op2_register() } else { instruction.op1_register() }
}

/// Sign bits of the elements of a vector register into a general register.
fn vector_mask(code: &mut Code, to: u8, mask: Register, instruction: &Instruction) {
    let number = mask.number() as u8;
    let wide = mask.is_ymm();
    let legacy = matches!(instruction.mnemonic(), Mnemonic::Maskmovq | Mnemonic::Maskmovdqu);
    if legacy {
        // pmovmskb r32, xmm or mm
        if mask.is_xmm() {
            code.raw(&[0x66]);
        }
        code.registers(false, &[0x0f, 0xd7], to, number);
        return;
    }
    let (opcode, prefix) = if is_byte_mask(instruction) {
        (0xd7, 1)
    } else if instruction.memory_size().element_size() == 8 {
        (0x50, 1)
    } else {
        (0x50, 0)
    };
    // vpmovmskb, vmovmskpd, vmovmskps r32, ymm
    let second = u8::from(to < 8) << 7 | 0x40 | u8::from(number < 8) << 5 | 1;
    code.raw(&[0xc4, second, 0x78 | u8::from(wide) << 2 | prefix, opcode, 0xc0 | (to & 7) << 3 | number & 7]);
}

/// Stores a vector register at `context::COUNT_VECTOR`.
fn store_vector(code: &mut Code, vector: Register, evex: bool) {
    let number = vector.number() as u8;
    let modrm = [(number & 7) << 3 | 4, 0x25];
    code.raw(&[0x65]);
    if evex {
        // vmovdqu64 gs:[..], vector
        let length = if vector.is_zmm() { 2 } else { u8::from(vector.is_ymm()) };
        let second = u8::from(number & 8 == 0) << 7 | 0x60 | u8::from(number & 16 == 0) << 4 | 1;
        code.raw(&[0x62, second, 0xfe, length << 5 | 8, 0x7f]);
    } else {
        // vmovdqu gs:[..], vector
        code.raw(&[0xc4, u8::from(number < 8) << 7 | 0x61, 0x7a | u8::from(vector.is_ymm()) << 2, 0x7f]);
    }
    code.raw(&modrm);
    code.imm32(context::COUNT_VECTOR);
}

/// Elements that the mask of an instruction has a bit for.
fn lanes(instruction: &Instruction) -> u8 {
    let memory = instruction.memory_size();
    let element = memory.element_size().max(1);
    let vector = |operand: u32| {
        (instruction.op_kind(operand) == OpKind::Register && instruction.op_register(operand).is_vector_register())
            .then(|| instruction.op_register(operand).size())
    };
    let lanes = if is_byte_mask(instruction) {
        instruction.op1_register().size()
    } else if instruction.is_vsib() {
        let data = vector(0).or_else(|| vector(1)).unwrap_or(64);
        let index_size = if instruction.is_vsib64() { 8 } else { 4 };
        (data / element).min(instruction.memory_index().size() / index_size)
    } else if one_place(instruction) {
        vector(0).or_else(|| vector(1)).unwrap_or(64) / element
    } else {
        memory.size() / element
    };
    lanes.clamp(1, 64) as u8
}

/// Where any lane being active means one access at the address: a broadcast reads its one element for every lane, and
/// compressed elements lie together.
fn one_place(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    instruction.is_broadcast()
        || matches!(
            instruction.mnemonic(),
            M::Vcompresspd
                | M::Vcompressps
                | M::Vpcompressb
                | M::Vpcompressw
                | M::Vpcompressd
                | M::Vpcompressq
                | M::Vexpandpd
                | M::Vexpandps
                | M::Vpexpandb
                | M::Vpexpandw
                | M::Vpexpandd
                | M::Vpexpandq
                | M::Vbroadcastss
                | M::Vbroadcastsd
                | M::Vbroadcastf32x2
                | M::Vbroadcastf32x4
                | M::Vbroadcastf32x8
                | M::Vbroadcastf64x2
                | M::Vbroadcastf64x4
                | M::Vbroadcasti32x2
                | M::Vbroadcasti32x4
                | M::Vbroadcasti32x8
                | M::Vbroadcasti64x2
                | M::Vbroadcasti64x4
                | M::Vpbroadcastb
                | M::Vpbroadcastw
                | M::Vpbroadcastd
                | M::Vpbroadcastq
        )
}
