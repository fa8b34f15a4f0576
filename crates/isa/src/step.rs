//! What one instruction does to the general registers, forwards and backwards.
//!
//! Compilers move pointers and indexes with a handful of instructions: those are modelled exactly. Of all others only
//! the registers they write are known, which makes these registers *unknown* afterwards (forwards) or before
//! (backwards). A value that comes out of here is therefore right or absent, with one assumption, made backwards only:
//! a 32-bit addition or subtraction found a register whose upper half was zero, as it leaves it. A program for which
//! that is false destroyed the upper half of an index, which compilers do only when they know it to be zero.

use crate::Registers;
use crate::operand::number;
use crate::register::{RBP, RCX, RDI, RSI, RSP};
use iced_x86::{Code, ConditionCode, Instruction, InstructionInfo, Mnemonic, OpAccess, OpKind, Register};

/// Register values of which some may be unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    values: [u64; 16],
    known: u16,
    flags: Option<Flags>,
}

/// The flags that conditions read. `None`: not modelled.
#[derive(Clone, Copy, Debug)]
struct Flags {
    zero: bool,
    sign: bool,
    carry: Option<bool>,
    overflow: Option<bool>,
}

impl State {
    /// Every register known, the flags not.
    pub fn of(registers: &Registers) -> Self {
        State { values: registers.gpr, known: u16::MAX, flags: None }
    }

    /// The same with some registers forgotten.
    pub fn with_known(mut self, known: u16) -> Self {
        self.known = known;
        self
    }

    /// The set of known registers, one bit each.
    pub fn known(&self) -> u16 {
        self.known
    }

    /// The value of a register, if known.
    pub fn get(&self, register: u8) -> Option<u64> {
        (self.known >> register & 1 == 1).then(|| self.values[usize::from(register)])
    }

    fn set(&mut self, register: u8, value: Option<u64>) {
        match value {
            Some(value) => {
                self.values[usize::from(register)] = value;
                self.known |= 1 << register;
            }
            None => self.known &= !(1 << register),
        }
    }

    /// Writes a part of a register: 32 bits clear the upper half, fewer keep the rest.
    fn set_part(&mut self, part: Part, value: Option<u64>) {
        let mask = part.mask();
        let value = match part.width {
            1 | 2 => match (value, self.get(part.register)) {
                (Some(value), Some(rest)) => Some(rest & !mask | value & mask),
                _ => None,
            },
            _ => value.map(|value| value & mask),
        };
        self.set(part.register, value);
    }

    fn read(&self, source: Source) -> Option<u64> {
        match source {
            Source::Immediate(value) => Some(value),
            Source::Part(part) => Some(self.get(part.register)? & part.mask()),
        }
    }

    /// Whether a condition holds; `None` when its flags are unknown.
    pub fn holds(&self, condition: ConditionCode) -> Option<bool> {
        use ConditionCode as C;
        let flags = self.flags?;
        let less = || Some(flags.sign != flags.overflow?);
        Some(match condition {
            C::o => flags.overflow?,
            C::no => !flags.overflow?,
            C::b => flags.carry?,
            C::ae => !flags.carry?,
            C::e => flags.zero,
            C::ne => !flags.zero,
            C::be => flags.carry? || flags.zero,
            C::a => !(flags.carry? || flags.zero),
            C::s => flags.sign,
            C::ns => !flags.sign,
            C::l => less()?,
            C::ge => !less()?,
            C::le => flags.zero || less()?,
            C::g => !(flags.zero || less()?),
            C::None | C::p | C::np => return None,
        })
    }
}

/// The low bytes of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    register: u8,
    /// 1, 2, 4 or 8 bytes.
    width: u8,
}

impl Part {
    fn of(register: Register) -> Option<Self> {
        if matches!(register, Register::AH | Register::BH | Register::CH | Register::DH) {
            return None;
        }
        Some(Part { register: number(register)?, width: register.size() as u8 })
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - 8 * u32::from(self.width))
    }
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Part(Part),
    Immediate(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    ShiftRightSigned,
    Multiply,
}

#[derive(Clone, Copy, Debug)]
enum Effect {
    /// Nothing beyond the registers listed as written.
    Other,
    /// `to = left operator right`; `to` is absent for `cmp` and `test`. `keep_carry` for `inc` and `dec`.
    Compute {
        operator: Operator,
        to: Option<Part>,
        left: Source,
        right: Source,
        keep_carry: bool,
    },
    Copy {
        to: Part,
        from: Source,
        signed: bool,
    },
    /// `lea`
    Address {
        to: Part,
        base: Option<u8>,
        index: Option<u8>,
        scale: u8,
        displacement: u64,
        narrow: bool,
    },
    Exchange {
        a: u8,
        b: u8,
    },
    Select {
        condition: ConditionCode,
        to: Part,
        from: Part,
    },
    /// `push`, `pop`, `call`, `ret`: rsp moves.
    Stack {
        by: i32,
    },
    /// A string instruction: the pointers of `registers` move by `by`, once or, when `repeated`, rcx times.
    Pointers {
        registers: u16,
        by: u8,
        repeated: bool,
    },
}

/// What one instruction does to the general registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    effect: Effect,
    /// Registers written, one bit each.
    writes: u16,
    changes_flags: bool,
}

impl Step {
    /// Models `instruction`.
    pub fn of(instruction: &Instruction, info: &InstructionInfo) -> Self {
        let mut writes = 0;
        for used in info.used_registers() {
            let written = matches!(
                used.access(),
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            if let (true, Some(register)) = (written, number(used.register())) {
                writes |= 1 << register;
            }
        }
        if matches!(instruction.mnemonic(), Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Int) {
            writes = u16::MAX;
        }
        let effect = effect_of(instruction).unwrap_or(Effect::Other);
        Step { effect, writes, changes_flags: instruction.rflags_modified() != 0 }
    }

    /// A repeated string instruction, which may be interrupted half-way.
    pub fn is_repeated(&self) -> bool {
        matches!(self.effect, Effect::Pointers { repeated: true, .. })
    }

    /// The state after the instruction from the state before it.
    pub fn advance(&self, state: &mut State) {
        let before = *state;
        state.known &= !self.writes;
        if self.changes_flags {
            state.flags = None;
        }
        match self.effect {
            Effect::Other => {}
            Effect::Compute { operator, to, left, right, keep_carry } => {
                let (value, flags) = evaluate(&before, operator, to, [left, right]);
                if let Some(to) = to {
                    // set_part reads the rest of the register, which `writes` has just forgotten.
                    state.set(to.register, before.get(to.register));
                    state.set_part(to, value);
                }
                if self.changes_flags {
                    state.flags = flags;
                    if let (true, Some(flags)) = (keep_carry, &mut state.flags) {
                        flags.carry = before.flags.and_then(|flags| flags.carry);
                    }
                }
            }
            Effect::Copy { to, from, signed } => {
                let value = before.read(from).map(|value| match from {
                    Source::Part(part) if signed => sign_extend(value, part.width),
                    _ => value,
                });
                state.set(to.register, before.get(to.register));
                state.set_part(to, value);
            }
            Effect::Address { to, .. } => {
                let value = self.lea(&before);
                state.set(to.register, before.get(to.register));
                state.set_part(to, value);
            }
            Effect::Exchange { a, b } => {
                state.set(a, before.get(b));
                state.set(b, before.get(a));
            }
            Effect::Select { condition, to, from } => {
                let value = match before.holds(condition) {
                    Some(true) => before.read(Source::Part(from)),
                    Some(false) => before.read(Source::Part(to)),
                    None => None,
                };
                state.set_part(to, value);
            }
            Effect::Stack { by } => {
                state.set(RSP, before.get(RSP).map(|rsp| rsp.wrapping_add_signed(i64::from(by))));
            }
            Effect::Pointers { registers, by, repeated } => {
                let count = if repeated { before.get(RCX) } else { Some(1) };
                for register in [RSI, RDI] {
                    if registers >> register & 1 == 1 {
                        let value = before.get(register).zip(count);
                        state.set(
                            register,
                            value.map(|(value, count)| value.wrapping_add(count.wrapping_mul(u64::from(by)))),
                        );
                    }
                }
                if repeated {
                    state.set(RCX, Some(0));
                }
            }
        }
    }

    /// The state before the instruction from the state after it, as far as it can be had.
    pub fn undo(&self, state: &mut State) {
        let after = *state;
        state.known &= !self.writes;
        state.flags = None;
        match self.effect {
            Effect::Compute { operator, to: Some(to), left: Source::Part(left), right, .. }
                if left == to && to.width >= 4 =>
            {
                // `right` is unchanged by the instruction unless it is `to`, whose old value is what we look for.
                let right = match right {
                    Source::Part(part) if part.register == to.register => None,
                    _ => after.read(right),
                };
                let value = after.get(to.register).zip(right).and_then(|(result, right)| {
                    Some(match operator {
                        Operator::Add => result.wrapping_sub(right),
                        Operator::Subtract => result.wrapping_add(right),
                        Operator::Xor => result ^ right,
                        _ => return None,
                    })
                });
                state.set(to.register, value.map(|value| value & to.mask()));
            }
            Effect::Copy { to, from: Source::Part(from), .. } if to.width == 8 && from.width == 8 => {
                if to.register != from.register {
                    let value = after.get(from.register).or(after.get(to.register));
                    state.set(from.register, value);
                } else {
                    state.set(from.register, after.get(from.register));
                }
            }
            Effect::Address { to, base: Some(base), index: None, displacement, narrow: false, .. } if to.width == 8 => {
                let value = after.get(to.register).map(|value| value.wrapping_sub(displacement));
                if base == to.register || after.get(base).is_none() {
                    state.set(base, value);
                }
            }
            Effect::Address { to, base: Some(base), index: Some(index), scale, displacement, narrow: false }
                if to.width == 8 && base == to.register && index != base =>
            {
                let value = after.get(base).zip(after.get(index)).map(|(value, index)| {
                    value.wrapping_sub(displacement).wrapping_sub(index.wrapping_mul(u64::from(scale)))
                });
                state.set(base, value);
            }
            Effect::Exchange { a, b } => {
                state.set(a, after.get(b));
                state.set(b, after.get(a));
            }
            Effect::Stack { by } => {
                state.set(RSP, after.get(RSP).map(|rsp| rsp.wrapping_add_signed(-i64::from(by))));
            }
            Effect::Pointers { registers, by, repeated: false } => {
                for register in [RSI, RDI] {
                    if registers >> register & 1 == 1 {
                        state.set(register, after.get(register).map(|value| value.wrapping_sub(u64::from(by))));
                    }
                }
            }
            _ => {}
        }
    }

    fn lea(&self, state: &State) -> Option<u64> {
        let Effect::Address { base, index, scale, displacement, narrow, .. } = self.effect else { return None };
        let mut value = displacement;
        if let Some(base) = base {
            value = value.wrapping_add(state.get(base)?);
        }
        if let Some(index) = index {
            value = value.wrapping_add(state.get(index)?.wrapping_mul(u64::from(scale)));
        }
        Some(if narrow { value & 0xffff_ffff } else { value })
    }
}

/// What `left operator right` is, and its flags, as far as they are known.
fn evaluate(
    before: &State,
    operator: Operator,
    to: Option<Part>,
    [left, right]: [Source; 2],
) -> (Option<u64>, Option<Flags>) {
    let width = match (to, left) {
        (Some(part), _) | (None, Source::Part(part)) => part.width,
        (None, Source::Immediate(_)) => 8,
    };
    let values = match (before.read(left), before.read(right)) {
        (Some(left), Some(right)) => Some((left, right)),
        _ if operator_yields_zero(operator, left, right) => Some((0, 0)),
        _ => None,
    };
    match values {
        Some((left, right)) => {
            let (value, flags) = compute(operator, left, right, width);
            (Some(value), flags)
        }
        None => (None, None),
    }
}

/// `xor r, r` and `sub r, r` clear a register whatever it held.
fn operator_yields_zero(operator: Operator, left: Source, right: Source) -> bool {
    matches!(operator, Operator::Xor | Operator::Subtract)
        && matches!((left, right), (Source::Part(left), Source::Part(right)) if left == right)
}

fn sign_extend(value: u64, width: u8) -> u64 {
    let shift = 64 - 8 * u32::from(width);
    ((value << shift) as i64 >> shift) as u64
}

/// The result, masked to `width`, and the flags where they are modelled.
fn compute(operator: Operator, left: u64, right: u64, width: u8) -> (u64, Option<Flags>) {
    let mask = u64::MAX >> (64 - 8 * u32::from(width));
    let (left, right) = (left & mask, right & mask);
    let top = |value: u64| value >> (8 * u32::from(width) - 1) & 1 == 1;
    let count = (right & if width == 8 { 63 } else { 31 }) as u32;
    let result = mask
        & match operator {
            Operator::Add => left.wrapping_add(right),
            Operator::Subtract => left.wrapping_sub(right),
            Operator::And => left & right,
            Operator::Or => left | right,
            Operator::Xor => left ^ right,
            Operator::ShiftLeft => left.wrapping_shl(count),
            Operator::ShiftRight => left.wrapping_shr(count),
            Operator::ShiftRightSigned => ((sign_extend(left, width) as i64) >> count) as u64,
            Operator::Multiply => left.wrapping_mul(right),
        };
    let (carry, overflow) = match operator {
        Operator::Add => (Some(result < left), Some(top((left ^ result) & (right ^ result)))),
        Operator::Subtract => (Some(left < right), Some(top((left ^ right) & (left ^ result)))),
        Operator::And | Operator::Or | Operator::Xor => (Some(false), Some(false)),
        Operator::ShiftLeft | Operator::ShiftRight | Operator::ShiftRightSigned if count != 0 => (None, None),
        // A shift by 0 keeps the flags as they were; a multiplication leaves zero and sign undefined.
        _ => return (result, None),
    };
    (result, Some(Flags { zero: result == 0, sign: top(result), carry, overflow }))
}

/// Models the instructions that move pointers and indexes; `None` for all others.
fn effect_of(instruction: &Instruction) -> Option<Effect> {
    use Mnemonic as M;
    let operator = match instruction.mnemonic() {
        M::Add => Operator::Add,
        M::Sub | M::Cmp => Operator::Subtract,
        M::And | M::Test => Operator::And,
        M::Or => Operator::Or,
        M::Xor => Operator::Xor,
        M::Shl | M::Sal => Operator::ShiftLeft,
        M::Shr => Operator::ShiftRight,
        M::Sar => Operator::ShiftRightSigned,
        M::Inc | M::Dec => {
            let to = part(instruction, 0)?;
            let operator = if instruction.mnemonic() == M::Inc { Operator::Add } else { Operator::Subtract };
            let (left, right) = (Source::Part(to), Source::Immediate(1));
            return Some(Effect::Compute { operator, to: Some(to), left, right, keep_carry: true });
        }
        M::Imul => {
            let to = part(instruction, 0)?;
            let (left, right) = match instruction.op_count() {
                2 => (Source::Part(to), source(instruction, 1)?),
                3 => (source(instruction, 1)?, source(instruction, 2)?),
                _ => return None,
            };
            return Some(Effect::Compute {
                operator: Operator::Multiply,
                to: Some(to),
                left,
                right,
                keep_carry: false,
            });
        }
        M::Mov | M::Movzx | M::Movsx | M::Movsxd => {
            let signed = matches!(instruction.mnemonic(), M::Movsx | M::Movsxd);
            return Some(Effect::Copy { to: part(instruction, 0)?, from: source(instruction, 1)?, signed });
        }
        M::Cdqe => {
            let (to, from) = (Part { register: 0, width: 8 }, Part { register: 0, width: 4 });
            return Some(Effect::Copy { to, from: Source::Part(from), signed: true });
        }
        M::Lea => return address(instruction),
        M::Xchg => {
            let (a, b) = (part(instruction, 0)?, part(instruction, 1)?);
            return (a.width == 8 && b.width == 8).then_some(Effect::Exchange { a: a.register, b: b.register });
        }
        M::Push | M::Pop | M::Pushfq | M::Popfq | M::Call | M::Ret => {
            // `pop rsp` loads rsp.
            let loads_rsp = instruction.mnemonic() == M::Pop && part(instruction, 0).is_some_and(|p| p.register == RSP);
            return (!loads_rsp).then(|| Effect::Stack { by: instruction.stack_pointer_increment() });
        }
        _ if instruction.is_string_instruction() => return string(instruction),
        _ if instruction.condition_code() != ConditionCode::None && instruction.op_count() == 2 => {
            let (to, from) = (part(instruction, 0)?, part(instruction, 1)?);
            let condition = instruction.condition_code();
            return (to.width == from.width && to.width >= 4).then_some(Effect::Select { condition, to, from });
        }
        _ => return None,
    };
    let target = part(instruction, 0)?;
    let right = source(instruction, 1)?;
    let to = (!matches!(instruction.mnemonic(), M::Cmp | M::Test)).then_some(target);
    Some(Effect::Compute { operator, to, left: Source::Part(target), right, keep_carry: false })
}

fn part(instruction: &Instruction, operand: u32) -> Option<Part> {
    match instruction.op_kind(operand) {
        OpKind::Register => Part::of(instruction.op_register(operand)),
        _ => None,
    }
}

fn source(instruction: &Instruction, operand: u32) -> Option<Source> {
    if let Some(part) = part(instruction, operand) {
        return Some(Source::Part(part));
    }
    instruction.try_immediate(operand).ok().map(Source::Immediate)
}

fn address(instruction: &Instruction) -> Option<Effect> {
    let mut narrow = false;
    let mut component = |register: Register| match register {
        Register::None | Register::RIP => Some(None),
        _ if register.is_gpr64() => Some(number(register)),
        _ if register.is_gpr32() => {
            narrow = true;
            Some(number(register))
        }
        _ => None,
    };
    let base = component(instruction.memory_base())?;
    let index = component(instruction.memory_index())?;
    Some(Effect::Address {
        to: part(instruction, 0)?,
        base,
        index,
        scale: instruction.memory_index_scale() as u8,
        displacement: instruction.memory_displacement64(),
        narrow,
    })
}

/// String instructions with 64-bit pointers. The direction flag is taken to be clear, as the ABI demands at calls.
fn string(instruction: &Instruction) -> Option<Effect> {
    use Mnemonic as M;
    let registers = match instruction.mnemonic() {
        M::Movsb | M::Movsw | M::Movsd | M::Movsq => 1 << RSI | 1 << RDI,
        M::Stosb | M::Stosw | M::Stosd | M::Stosq => 1 << RDI,
        M::Lodsb | M::Lodsw | M::Lodsd | M::Lodsq => 1 << RSI,
        M::Cmpsb | M::Cmpsw | M::Cmpsd | M::Cmpsq => 1 << RSI | 1 << RDI,
        M::Scasb | M::Scasw | M::Scasd | M::Scasq => 1 << RDI,
        _ => return None,
    };
    let narrow = (0..instruction.op_count())
        .any(|number| matches!(instruction.op_kind(number), OpKind::MemorySegESI | OpKind::MemoryESEDI));
    let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    // A repeated comparison stops at the first hit: where, only memory knows.
    let compares = registers_compare(instruction.mnemonic());
    if narrow || (repeated && compares) {
        return None;
    }
    Some(Effect::Pointers { registers, by: instruction.memory_size().size() as u8, repeated })
}

fn registers_compare(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(mnemonic, M::Cmpsb | M::Cmpsw | M::Cmpsd | M::Cmpsq | M::Scasb | M::Scasw | M::Scasd | M::Scasq)
}

/// `push rbp; mov rbp, rsp`, after an optional `endbr64` and within the first instructions of a function.
pub(crate) fn sets_frame_pointer(instruction: &Instruction) -> bool {
    matches!(instruction.code(), Code::Mov_r64_rm64 | Code::Mov_rm64_r64)
        && part(instruction, 0).is_some_and(|to| to.register == RBP)
        && part(instruction, 1).is_some_and(|from| from.register == RSP)
}
