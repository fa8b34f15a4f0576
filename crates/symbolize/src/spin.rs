//! Instructions that wait: those of loops that end only when somebody else writes to memory.
//!
//! A thread that waits for a flag reads it millions of times, from its own cache; a profile of accesses is then mostly
//! of waiting. What the source calls it (a barrier, a lock, a queue) does not matter, for the loop itself shows it:
//!
//! ```text
//!   again:  pause                       nothing in it makes progress: what is computed depends on constants, on what
//!           mov   eax, [rdi+0x60]       was there before the loop, and on memory whose address stays the same;
//!           test  eax, eax              an exit depends on such memory;
//!           jne   done                  nothing is written but the thread's own stack, as for a count of the turns,
//!           jmp   again                 or, by a test-and-set, the same value each time
//! ```
//! Values are of three kinds, and a result is of the last kind that it depends on: *same* in each turn; *outside*, read
//! from such memory; *moving*, as a counter is. An address that moves, a call, a store elsewhere: the loop works.

mod ahead;

use crate::elf::{self, Bytes};
use ahead::{Ahead, Code};
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, MemorySize, Mnemonic, OpAccess, OpKind, Register};
use object::{Architecture, Object, ObjectSection};
use rustc_hash::FxHashMap;

/// The most bytes and instructions of a loop that is looked at: what waits does little else.
const MOST_BYTES: u64 = 192;
const MOST_INSTRUCTIONS: usize = 40;

/// Their numbers are below this.
const REGISTERS: usize = 256;

/// What a value depends on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Value {
    Same,
    Outside,
    Moving,
}

/// Which of `addresses` (in the module's own numbering, mostly in order) are instructions of loops that wait.
pub(crate) fn waits(image: &Bytes, addresses: &[u64]) -> Vec<bool> {
    let none = || vec![false; addresses.len()];
    let Ok(file) = image.parse() else { return none() };
    if file.architecture() != Architecture::X86_64 {
        return none();
    }
    let sections: Vec<Code<'_>> = file
        .sections()
        .filter(elf::is_code)
        .filter_map(|section| Some(Code { start: section.address(), bytes: section.data().ok()? }))
        .collect();
    let mut known = FxHashMap::default();
    let mut factory = InstructionInfoFactory::new();
    let mut ahead: Option<Ahead<'_>> = None;
    let mut is_of_one = |address: u64| {
        if ahead.as_ref().is_none_or(|ahead| !ahead.code.holds(address)) {
            ahead = Some(Ahead::new(sections.iter().find(|code| code.holds(address))?));
        }
        let ahead = ahead.as_mut()?;
        let found = ahead.loop_around(address)?;
        Some(*known.entry(found).or_insert_with(|| {
            let body = ahead.code.instructions(found.0).take_while(|one| one.ip() <= found.1);
            only_waits(&body.collect::<Vec<_>>(), &mut factory)
        }))
    };
    addresses.iter().map(|address| is_of_one(*address).unwrap_or(false)).collect()
}

/// What is known at a place of a loop.
struct Turn {
    /// By full register.
    registers: [Value; REGISTERS],
    flags: Value,
    /// The places on the stack that the loop writes to: base and displacement.
    written: Vec<(Register, u64)>,
}

impl Turn {
    fn register(&self, register: Register) -> Value {
        self.registers.get(register.full_register() as usize).copied().unwrap_or(Value::Same)
    }

    fn set(&mut self, register: Register, value: Value) {
        if let Some(known) = self.registers.get_mut(register.full_register() as usize) {
            *known = value;
        }
    }

    /// The kind of the address of an instruction's memory operand.
    fn address(&self, one: &Instruction) -> Value {
        let index = match one.memory_index() {
            Register::None => Value::Same,
            index => self.register(index),
        };
        match one.memory_base() {
            Register::None | Register::RIP | Register::EIP => index,
            base => self.register(base).max(index),
        }
    }

    /// The kind of what lies there; none: the place itself moves.
    fn memory(&self, one: &Instruction) -> Option<Value> {
        match on_stack(one) {
            Some(place) if self.written.contains(&place) => Some(Value::Moving),
            // `rbp` may be any pointer.
            _ => (self.address(one) < Value::Moving).then_some(Value::Outside),
        }
    }
}

/// The place on the stack that an instruction's memory operand is.
fn on_stack(one: &Instruction) -> Option<(Register, u64)> {
    let base = one.memory_base();
    let is_stack = matches!(base, Register::RSP | Register::RBP) && one.memory_index() == Register::None;
    is_stack.then(|| (base, one.memory_displacement64()))
}

/// Whether the instruction does nothing but order others, or wait.
fn is_idle(one: &Instruction) -> bool {
    matches!(one.mnemonic(), Mnemonic::Pause | Mnemonic::Nop | Mnemonic::Mfence | Mnemonic::Lfence | Mnemonic::Endbr64)
        // A fence of compilers: `lock or [rsp], 0`.
        || one.has_lock_prefix() && one.memory_base() == Register::RSP && one.op1_kind() != OpKind::Register
}

/// Whether a loop of these instructions ends only by what others write.
fn only_waits(body: &[Instruction], factory: &mut InstructionInfoFactory) -> bool {
    let Some(last) = body.last() else { return false };
    let inside = body[0].ip()..=last.ip();
    let mut turn = Turn { registers: [Value::Same; REGISTERS], flags: Value::Moving, written: Vec::new() };
    for one in body.iter().filter(|one| !is_idle(one)) {
        let info = factory.info(one);
        for used in info.used_registers().iter().filter(|used| writes(used.access())) {
            turn.set(used.register(), Value::Moving);
        }
        let stores = info.used_memory().iter().any(|used| writes(used.access()));
        turn.written.extend(on_stack(one).filter(|_| stores));
    }
    let mut ends = false;
    for one in body.iter().filter(|one| !is_idle(one)) {
        match one.flow_control() {
            FlowControl::ConditionalBranch => {
                let leaves = one.ip() == last.ip() || !inside.contains(&one.near_branch_target());
                ends |= leaves && turn.flags == Value::Outside;
            }
            FlowControl::UnconditionalBranch => {}
            FlowControl::Next => {
                let Some(value) = turn.value(one, factory) else { return false };
                turn.take(one, value, factory);
            }
            _ => return false,
        }
    }
    ends
}

fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn reads(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

impl Turn {
    /// The kind of what an instruction computes; none: it works.
    fn value(&self, one: &Instruction, factory: &mut InstructionInfoFactory) -> Option<Value> {
        let info = factory.info(one);
        let has_memory =
            (0..one.op_count()).any(|op| one.op_kind(op) == OpKind::Memory) && one.mnemonic() != Mnemonic::Lea;
        if info.used_memory().len() > usize::from(has_memory) || one.memory_size() == MemorySize::Unknown && has_memory
        {
            // Of instructions on strings, of pushes and pops.
            return None;
        }
        let cleared = one.mnemonic() == Mnemonic::Xor
            && one.op0_kind() == OpKind::Register
            && one.op1_kind() == OpKind::Register
            && one.op0_register() == one.op1_register();
        if cleared {
            return Some(Value::Same);
        }
        let of_address = |register: Register| {
            has_memory
                && [one.memory_base(), one.memory_index()]
                    .iter()
                    .any(|part| part.full_register() == register.full_register())
        };
        let registers =
            info.used_registers().iter().filter(|used| reads(used.access()) && !of_address(used.register()));
        let mut value = registers.map(|used| self.register(used.register())).max().unwrap_or(Value::Same);
        if depends_on_flags(one) {
            value = value.max(self.flags);
        }
        if !has_memory {
            return Some(value);
        }
        let stores = info.used_memory().iter().any(|used| writes(used.access()));
        match on_stack(one) {
            Some(_) => {}
            None if !stores => {}
            // A test-and-set tries with the same value in each turn, at the same place.
            None if self.is_test_and_set(one) && value < Value::Moving && self.address(one) < Value::Moving => {
                return Some(Value::Outside);
            }
            None => return None,
        }
        let loads = info.used_memory().iter().any(|used| reads(used.access()));
        Some(if loads { value.max(self.memory(one)?) } else { value })
    }

    /// Whether it tries to write what it has tried to write before.
    fn is_test_and_set(&self, one: &Instruction) -> bool {
        let is_one = match one.mnemonic() {
            Mnemonic::Xchg => true,
            Mnemonic::Cmpxchg | Mnemonic::Bts | Mnemonic::Btr => one.has_lock_prefix(),
            _ => false,
        };
        let source = one.op1_kind() == OpKind::Register;
        is_one && (!source || self.register(one.op1_register()) == Value::Same)
    }

    /// Gives what it writes that kind.
    fn take(&mut self, one: &Instruction, value: Value, factory: &mut InstructionInfoFactory) {
        let written: Vec<Register> = {
            let used = factory.info(one).used_registers().iter();
            used.filter(|used| writes(used.access())).map(|used| used.register()).collect()
        };
        written.into_iter().for_each(|register| self.set(register, value));
        if one.rflags_modified() != 0 {
            self.flags = value;
        }
    }
}

fn depends_on_flags(one: &Instruction) -> bool {
    one.rflags_read() != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the instruction at `address` of this code, which begins at 0x1000, waits.
    fn is_waiting(hex: &str, address: u64) -> bool {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        let code: Vec<u8> = digits.chunks(2).map(byte).collect();
        let code = Code { start: 0x1000, bytes: &code };
        let Some((first, last)) = Ahead::new(&code).loop_around(address) else { return false };
        let body: Vec<_> = code.instructions(first).take_while(|one| one.ip() <= last).collect();
        only_waits(&body, &mut InstructionInfoFactory::new())
    }

    #[test]
    fn loops_that_end_by_what_others_write_wait() {
        // mov edx,[rip+0x2f92]; cmp edx,edi; jle
        assert!(is_waiting("8b15922f0000 39fa 7ef6", 0x1000), "a flag that is a global");
        // mov rax,[rsp]; add rax,1; mov [rsp],rax; mov eax,[rbp+0x60]; test eax,eax; jne out; mov rax,[rsp];
        // cmp rax,0x88b7; jbe
        let counted = "488b0424 4883c001 48890424 8b4560 85c0 7515 488b0424 483db7880000 76e1";
        assert!(
            is_waiting(counted, 0x100c) && is_waiting(counted, 0x1000),
            "so many turns at most, counted on the stack"
        );
        // lock or qword [rsp],0; mov edx,[rbx+rax*4]; test edx,edx; je
        assert!(is_waiting("f048830c2400 8b1483 85d2 74f3", 0x1006), "with a fence");
        // pause; mov rax,[rbp-8]; mov eax,[rax]; test eax,eax; je
        assert!(is_waiting("f390 488b45f8 8b00 85c0 74f4", 0x1006), "by a pointer on the stack, not optimised");
        // mov eax,1; xchg [rdi],eax; test eax,eax; jne
        assert!(is_waiting("b801000000 8707 85c0 75f5", 0x1005), "a test-and-set");
    }

    #[test]
    fn loops_that_work_do_not() {
        // add rax,[rdi]; add rdi,8; cmp rdi,rsi; jne
        assert!(!is_waiting("480307 4883c708 4839f7 75f4", 0x1000), "a sum");
        // mov rdi,[rdi]; test rdi,rdi; jne
        assert!(!is_waiting("488b3f 4885ff 75f8", 0x1000), "a list");
        // mov eax,[rip+x]; add [rip+y],eax; test eax,eax; jne
        assert!(!is_waiting("8b0500010000 010500020000 85c0 75f0", 0x1000), "it stores");
        // mov eax,[rbp-4]; add eax,[rip+x]; mov [rbp-8],eax; add dword [rbp-4],1; cmp dword [rbp-4],99; jle
        let sum = "8b45fc 030500010000 8945f8 8345fc01 837dfc63 7ead";
        assert!(!is_waiting(sum, 0x1003), "a count of turns ends it");
        // mov eax,[rdi]; lea edx,[rax+1]; lock cmpxchg [rdi],edx; jne
        assert!(!is_waiting("8b07 8d5001 f00fb117 75f5", 0x1000), "an atomic sum tries again, with another value");
        // call; test [rdi],1; je
        assert!(!is_waiting("e800000000 f60701 74f6", 0x1005), "who knows what is called");
        assert!(!is_waiting("8b07 c3", 0x1000) && !is_waiting("", 0x1000), "no loop");
    }
}
