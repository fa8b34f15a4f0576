//! Writes machine code: the few instructions that counting and leaving are made of.
//!
//! Registers are numbered as they are encoded (rax rcx rdx rbx rsp rbp rsi rdi r8..r15).

use alloc::vec::Vec;

/// An operand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Relative to GS: `index * scale + offset` in the context of the thread, or below it.
    Context { index: Option<u8>, scale: u8, offset: i32 },
    /// Relative to GS: at the offset that a register, or only its lower half, holds, and so much further.
    AtOffset { register: u8, half: bool, displacement: i32 },
    /// At an address below 4 GiB.
    Absolute { address: u32 },
    /// `base + index * scale + displacement`.
    Flat { base: Option<u8>, index: Option<u8>, scale: u8, displacement: i32 },
}

impl Memory {
    pub fn context(offset: u32) -> Self {
        Memory::Context { index: None, scale: 1, offset: offset as i32 }
    }

    pub fn base(register: u8, displacement: i32) -> Self {
        Memory::Flat { base: Some(register), index: None, scale: 1, displacement }
    }
}

/// The beginning of an instruction, up to its displacement: at most eight bytes.
#[derive(Default)]
struct Head {
    bytes: u64,
    count: usize,
}

impl Head {
    fn add(&mut self, byte: u8) {
        self.bytes |= u64::from(byte) << (8 * self.count as u32 % u64::BITS);
        self.count += 1;
    }

    fn rex(&mut self, w: bool, r: bool, x: bool, b: bool) {
        let rex = 0x40 | u8::from(w) << 3 | u8::from(r) << 2 | u8::from(x) << 1 | u8::from(b);
        if rex != 0x40 {
            self.add(rex);
        }
    }
}

/// Code under construction that will lie at `base`.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub base: u64,
    pub bytes: Vec<u8>,
}

/// The place of a 32-bit displacement, as an offset into [`Code::bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field(pub usize);

impl Code {
    pub fn new(base: u64) -> Self {
        // Enough for most fragments.
        Code { base, bytes: Vec::with_capacity(1024) }
    }

    /// The address of what comes next.
    pub fn here(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    pub fn offset(&self) -> u32 {
        self.bytes.len() as u32
    }

    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The instruction at the beginning of `bytes`, so many of them long.
    pub fn copy(&mut self, bytes: &[u8], count: usize) {
        match bytes.first_chunk::<16>() {
            Some(chunk) if count <= chunk.len() => self.append(chunk, count),
            _ => self.raw(&bytes[..count]),
        }
    }

    pub fn imm32(&mut self, value: u32) {
        self.raw(&value.to_le_bytes());
    }

    pub fn imm64(&mut self, value: u64) {
        self.raw(&value.to_le_bytes());
    }

    /// Appends the first `count` bytes of `bytes`: shorter than to append them one by one, or to copy as many as are
    /// known only then.
    fn append<const N: usize>(&mut self, bytes: &[u8; N], count: usize) {
        let length = self.bytes.len() + count;
        self.bytes.extend_from_slice(bytes);
        self.bytes.truncate(length);
    }

    /// A head, and the first `size` bytes of a displacement.
    fn instruction(&mut self, head: &Head, displacement: i32, size: usize) {
        let at = self.bytes.len();
        let all = u128::from(head.bytes) | u128::from(displacement as u32) << (8 * head.count as u32 % u128::BITS);
        self.bytes.extend_from_slice(&all.to_le_bytes());
        self.bytes.truncate(at + head.count + size);
    }

    /// `opcode` with a register (or opcode extension) and an operand in memory; `wide` sets REX.W.
    pub fn memory(&mut self, wide: bool, opcode: &[u8], register: u8, memory: Memory) {
        let (base, index, scale, displacement) = match memory {
            Memory::Context { index, scale, offset } => (None, index, scale, offset),
            Memory::AtOffset { register, displacement, .. } => (Some(register), None, 1, displacement),
            Memory::Absolute { address } => (None, None, 1, address as i32),
            Memory::Flat { base, index, scale, displacement } => (base, index, scale, displacement),
        };
        let mut head = Head::default();
        if let Memory::AtOffset { half: true, .. } | Memory::Absolute { .. } = memory {
            // Addresses have 32 bits.
            head.add(0x67);
        }
        if let Memory::Context { .. } | Memory::AtOffset { .. } = memory {
            head.add(0x65);
        }
        let high = |register: Option<u8>| register.is_some_and(|register| register >= 8);
        head.rex(wide, register >= 8, high(index), high(base));
        opcode.iter().for_each(|&byte| head.add(byte));
        let reg = (register & 7) << 3;
        let scale = (scale.trailing_zeros() as u8) << 6;
        let sib_index = index.map_or(4, |index| index & 7) << 3;
        let Some(base) = base else {
            head.add(reg | 4);
            head.add(scale | sib_index | 5);
            return self.instruction(&head, displacement, 4);
        };
        let low = base & 7;
        let (mode, size) = match i8::try_from(displacement) {
            Ok(0) if low != 5 => (0x00, 0),
            Ok(_) => (0x40, 1),
            Err(_) => (0x80, 4),
        };
        if index.is_some() || low == 4 {
            head.add(mode | reg | 4);
            head.add(scale | sib_index | low);
        } else {
            head.add(mode | reg | low);
        }
        self.instruction(&head, displacement, size);
    }

    /// `opcode` with two registers.
    pub fn registers(&mut self, wide: bool, opcode: &[u8], reg: u8, rm: u8) {
        let mut head = Head::default();
        head.rex(wide, reg >= 8, false, rm >= 8);
        opcode.iter().for_each(|&byte| head.add(byte));
        head.add(0xc0 | (reg & 7) << 3 | rm & 7);
        self.append(&head.bytes.to_le_bytes(), head.count);
    }

    pub fn load(&mut self, register: u8, memory: Memory) {
        self.memory(true, &[0x8b], register, memory);
    }

    pub fn store(&mut self, register: u8, memory: Memory) {
        self.memory(true, &[0x89], register, memory);
    }

    pub fn lea(&mut self, register: u8, memory: Memory) {
        match memory {
            // Processors need not execute it.
            Memory::Flat { base: Some(base), index: None, displacement: 0, .. } if base == register => {}
            Memory::Flat { base: Some(base), index: None, displacement: 0, .. } => self.move64(register, base),
            _ => self.memory(true, &[0x8d], register, memory),
        }
    }

    /// Stores a sign-extended constant in the context.
    pub fn store_constant(&mut self, offset: u32, value: i32) {
        self.memory(true, &[0xc7], 0, Memory::context(offset));
        self.imm32(value as u32);
    }

    /// `from`, rotated right by so many bits: `rorx`, which leaves the flags alone.
    pub fn rotate_right(&mut self, to: u8, from: u8, bits: u8) {
        let extended = u8::from(to < 8) << 7 | 1 << 6 | u8::from(from < 8) << 5;
        self.raw(&[0xc4, extended | 3, 0xfb, 0xf0, 0xc0 | (to & 7) << 3 | from & 7, bits]);
    }

    pub fn increment(&mut self, memory: Memory) {
        self.memory(true, &[0xff], 0, memory);
    }

    pub fn increment_register(&mut self, register: u8) {
        self.registers(true, &[0xff], 0, register);
    }

    /// `add qword [memory], value`; nothing for 0.
    pub fn add_small(&mut self, memory: Memory, value: u8) {
        match value {
            0 => {}
            1 => self.increment(memory),
            _ => {
                self.memory(true, &[0x83], 0, memory);
                self.raw(&[value]);
            }
        }
    }

    /// `cmp gs:[offset], value`, of 64 or 32 bits.
    pub fn compare_context(&mut self, wide: bool, offset: u32, value: u8) {
        self.memory(wide, &[0x83], 7, Memory::context(offset));
        self.raw(&[value]);
    }

    /// `cmp register, value`.
    pub fn compare(&mut self, register: u8, value: i32) {
        self.registers(true, &[0x81], 7, register);
        self.imm32(value as u32);
    }

    /// `cmp register, value` of 32 bits.
    pub fn compare_half(&mut self, register: u8, value: u32) {
        self.registers(false, &[0x81], 7, register);
        self.imm32(value);
    }

    /// `test register, value` of 32 bits.
    pub fn test(&mut self, register: u8, value: u32) {
        self.registers(false, &[0xf7], 0, register);
        self.imm32(value);
    }

    /// `lea register, [rip + ..]`, to be filled in.
    pub fn load_address(&mut self, register: u8) -> Field {
        self.relative(&[0x48 | u8::from(register >= 8) << 2, 0x8d, (register & 7) << 3 | 5])
    }

    pub fn constant(&mut self, register: u8, value: u64) {
        let small = u32::try_from(value);
        let mut head = Head::default();
        head.rex(small.is_err(), false, false, register >= 8);
        head.add(0xb8 | register & 7);
        self.append(&head.bytes.to_le_bytes(), head.count);
        self.append(&value.to_le_bytes(), if small.is_ok() { 4 } else { 8 });
    }

    /// `mov to32, from32`, which clears the upper half.
    pub fn move32(&mut self, to: u8, from: u8) {
        self.registers(false, &[0x8b], to, from);
    }

    pub fn move64(&mut self, to: u8, from: u8) {
        self.registers(true, &[0x8b], to, from);
    }

    pub fn shift_right(&mut self, register: u8, by: u8) {
        self.registers(true, &[0xc1], 5, register);
        self.raw(&[by]);
    }

    pub fn shift_left(&mut self, register: u8, by: u8) {
        self.registers(true, &[0xc1], 4, register);
        self.raw(&[by]);
    }

    /// `and register, value` of 32 bits.
    pub fn and_half(&mut self, register: u8, value: u32) {
        self.registers(false, &[0x81], 4, register);
        self.imm32(value);
    }

    /// `add register, gs:[offset]`.
    pub fn add_context(&mut self, register: u8, offset: u32) {
        self.memory(true, &[0x03], register, Memory::context(offset));
    }

    /// `mov dword gs:[offset], value`.
    pub fn store_half(&mut self, offset: u32, value: u32) {
        self.memory(false, &[0xc7], 0, Memory::context(offset));
        self.imm32(value);
    }

    /// Status flags to rax: ah, and the overflow flag in al.
    pub fn flags_to_rax(&mut self) {
        self.raw(&[0x9f, 0x0f, 0x90, 0xc0]); // lahf; seto al
    }

    /// And back.
    pub fn flags_from_rax(&mut self) {
        self.raw(&[0x04, 0x7f, 0x9e]); // add al, 127: overflows from 1 on; sahf
    }

    /// `shrx to, from, by`: leaves the flags alone.
    pub fn shift_right_by(&mut self, to: u8, from: u8, by: u8) {
        self.shift_by(0x83, to, from, by);
    }

    /// `shlx to, from, by` of 32 bits: leaves the flags alone.
    pub fn shift_left_half_by(&mut self, to: u8, from: u8, by: u8) {
        self.shift_by(1, to, from, by);
    }

    fn shift_by(&mut self, how: u8, to: u8, from: u8, by: u8) {
        let extended = u8::from(to < 8) << 7 | 1 << 6 | u8::from(from < 8) << 5;
        self.raw(&[0xc4, extended | 2, how | (!by & 15) << 3, 0xf7, 0xc0 | (to & 7) << 3 | from & 7]);
    }

    /// `rdfsbase register`.
    pub fn read_fs(&mut self, register: u8) {
        self.raw(&[0xf3, 0x48 | u8::from(register >= 8), 0x0f, 0xae, 0xc0 | register & 7]);
    }

    pub fn jump_context(&mut self, index: Option<u8>, offset: u32) {
        self.memory(false, &[0xff], 4, Memory::Context { index, scale: 8, offset: offset as i32 });
    }

    /// `opcode` and a displacement to be filled in.
    pub fn relative(&mut self, opcode: &[u8]) -> Field {
        self.raw(opcode);
        self.imm32(0);
        Field(self.bytes.len() - 4)
    }

    /// As [`Code::relative`], with the displacement within eight aligned bytes, so that it can be replaced while it is
    /// executed. It gets there behind prefixes that jumps do not heed (processors of 2000 took them for a hint): an
    /// instruction that does nothing is executed like any other.
    pub fn patchable(&mut self, opcode: &[u8]) -> Field {
        let within = (self.here() as usize + opcode.len()) & 7;
        if within > 4 {
            self.raw(&[0x2e; 8][within..]);
        }
        self.relative(opcode)
    }

    /// Fills a displacement. `false`: out of reach.
    #[must_use]
    pub fn resolve(&mut self, field: Field, target: u64) -> bool {
        let next = self.base + field.0 as u64 + 4;
        let distance = target.wrapping_sub(next) as i64;
        let Ok(short) = i32::try_from(distance) else { return false };
        self.bytes[field.0..field.0 + 4].copy_from_slice(&short.to_le_bytes());
        true
    }

    pub fn address_of(&self, field: Field) -> u64 {
        self.base + field.0 as u64
    }

    pub fn align(&mut self, to: usize, filler: u8) {
        while !self.here().is_multiple_of(to as u64) {
            self.raw(&[filler]);
        }
    }
}
