//! Instruction boundaries *before* an address.
//!
//! x86 code cannot be decoded backwards: an instruction has 1 to 15 bytes and any byte may start one. Three ways around
//! it, in this order:
//!
//! - In a loop, the jump back: it is found by decoding from the sampled instruction on, and what it leads to is an
//!   instruction, the first of the block besides.
//! - From a known boundary (the function's symbol), decoding forwards passes through every instruction up to the
//!   sampled one, unless data lie among the code, as GHC's info tables do.
//! - Without any, or when it lies too far back, start at *every* byte of a window before the sampled address. Chains
//!   that start at a wrong byte fall into step with the true one after a few instructions and never leave it again, so
//!   nearly all chains that reach the sampled address agree on its last instructions:
//!
//!   ```text
//!   start 0   |----|--|------|---|     <- true
//!   start 1    |-|-------|---|---|     joins
//!   start 2     |--|--|------|---|     joins
//!   start 3      |-----------x         not an instruction: no vote
//!   ```
//!
//!   Walking back from the sampled address, the predecessor through which most starts came is taken. The first
//!   instructions of the window have few votes behind them, so the chain is cut where fewer than [`VOTES`] remain.
//!
//! The chain is then cut down to the basic block: it ends behind the last jump, return or call, and at a jump's target.

use crate::step::sets_frame_pointer;
use alloc::vec;
use alloc::vec::Vec;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction};

/// Decoding starts at the function's first byte only when it is at most this far back.
const NEAR: u64 = 2048;
/// Bytes before the sampled address at which the chains of the vote start.
const WINDOW: u64 = 128;
/// Starts that must agree on an instruction.
const VOTES: u32 = 4;
/// Bytes after the sampled address in which jumps back into its block are looked for.
const AHEAD: u64 = 512;

/// Code bytes at an address.
#[derive(Clone, Copy)]
pub(crate) struct Code64<'a> {
    bytes: &'a [u8],
    start: u64,
}

impl<'a> Code64<'a> {
    /// Clips the bytes where the address space ends.
    pub fn new(bytes: &'a [u8], start: u64) -> Self {
        let room = usize::try_from(u64::MAX - start).unwrap_or(usize::MAX);
        Code64 { bytes: &bytes[..bytes.len().min(room)], start }
    }

    /// Whether a byte of the code stands at `address`.
    pub fn contains(&self, address: u64) -> bool {
        address >= self.start && address - self.start < self.bytes.len() as u64
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// A decoder at `address`, which must be contained.
    pub fn decoder(&self, address: u64) -> Decoder<'a> {
        let offset = (address - self.start) as usize;
        Decoder::with_ip(64, &self.bytes[offset..], address, DecoderOptions::NONE)
    }

    /// The instruction at `address`, if a valid one stands there.
    pub fn instruction(&self, address: u64) -> Option<Instruction> {
        if !self.contains(address) {
            return None;
        }
        let instruction = self.decoder(address).decode();
        (!instruction.is_invalid()).then_some(instruction)
    }
}

/// The instructions of the sampled address's basic block that come before it, nearest first, at most `most`.
pub(crate) fn block_before(code: Code64, boundary: Option<u64>, ip: u64, most: usize) -> Vec<Instruction> {
    let near = boundary.filter(|&at| at <= ip && ip - at <= NEAR && code.contains(at));
    let mut chain = loop_head(code, ip)
        .and_then(|at| decode_from(code, at, ip))
        .or_else(|| near.and_then(|at| decode_from(code, at, ip)))
        .unwrap_or_else(|| decode_by_vote(code, boundary, ip));
    if code.contains(ip) {
        let end = code.end().min(ip.saturating_add(AHEAD));
        let mut decoder = code.decoder(ip);
        let mut instruction = Instruction::default();
        while decoder.ip() < end && decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            chain.targets.extend(jump_target(&instruction));
        }
    }

    let mut block = Vec::new();
    let mut successor = ip;
    for &at in chain.starts.iter().rev().take(most) {
        let instruction = code.instruction(at);
        let Some(instruction) = instruction.filter(|found| falls_through(found) && !chain.targets.contains(&successor))
        else {
            break;
        };
        successor = at;
        block.push(instruction);
    }
    block
}

/// The nearest address before `ip` to which a jump leads that is reached from `ip` without leaving straight code.
fn loop_head(code: Code64, ip: u64) -> Option<u64> {
    if !code.contains(ip) {
        return None;
    }
    let mut head = None;
    for instruction in code.decoder(ip).into_iter().take_while(|instruction| !instruction.is_invalid()) {
        if instruction.ip() - ip > AHEAD {
            break;
        }
        head = head.max(jump_target(&instruction).filter(|&to| to < ip && ip - to <= NEAR && code.contains(to)));
        if !falls_through(&instruction) && instruction.flow_control() != FlowControl::Call {
            break;
        }
    }
    head
}

/// Consecutive instructions up to the sampled one.
#[derive(Default)]
struct Chain {
    /// Where each starts, ascending.
    starts: Vec<u64>,
    /// Where their jumps, and those behind the sampled instruction, lead.
    targets: Vec<u64>,
}

/// Whether the function that starts at `boundary` makes rbp a frame pointer.
pub(crate) fn has_frame_pointer(code: Code64, boundary: Option<u64>) -> bool {
    let Some(boundary) = boundary.filter(|&at| code.contains(at)) else { return false };
    let mut pushed = false;
    for instruction in code.decoder(boundary).into_iter().take(8) {
        if instruction.code() == Code::Push_r64 && instruction.op0_register() == iced_x86::Register::RBP {
            pushed = true;
        } else if sets_frame_pointer(&instruction) {
            return pushed;
        }
    }
    false
}

/// Every instruction from `from` up to `ip`; `None` when decoding does not arrive at `ip`.
fn decode_from(code: Code64, from: u64, ip: u64) -> Option<Chain> {
    let mut chain = Chain::default();
    let mut decoder = code.decoder(from);
    let mut instruction = Instruction::default();
    while decoder.ip() < ip && decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return None;
        }
        chain.starts.push(instruction.ip());
        chain.targets.extend(jump_target(&instruction));
    }
    (decoder.ip() == ip).then_some(chain)
}

/// The chain to `ip` that most starts in the window lead through.
fn decode_by_vote(code: Code64, boundary: Option<u64>, ip: u64) -> Chain {
    let mut chain = Chain::default();
    let lowest = boundary.filter(|&at| at <= ip).unwrap_or(0).max(code.start).max(ip.saturating_sub(WINDOW));
    if lowest >= ip || ip > code.end() {
        return chain;
    }
    let length = (ip - lowest) as usize;
    // votes[i]: starts whose chain passes through byte i; next[i]: where the instruction at byte i ends, 0 when it is
    // none.
    let mut votes = vec![1u32; length];
    let mut next = vec![0usize; length];
    let mut decoder = code.decoder(lowest);
    let mut instruction = Instruction::default();
    for at in 0..length {
        // Cannot fail: the position lies within the bytes.
        if decoder.set_position(at).is_err() {
            break;
        }
        decoder.set_ip(lowest + at as u64);
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() || !is_plausible(&instruction) {
            continue;
        }
        let end = at + instruction.len();
        next[at] = end;
        if end < length {
            votes[end] += votes[at];
        }
    }
    let mut end = length;
    loop {
        let best = (end.saturating_sub(15)..end).filter(|&at| next[at] == end).max_by_key(|&at| votes[at]);
        let trusted = |at: &usize| votes[*at] >= VOTES || Some(lowest + *at as u64) == boundary;
        let Some(at) = best.filter(trusted) else { break };
        let start = lowest + at as u64;
        chain.starts.push(start);
        chain.targets.extend(code.instruction(start).as_ref().and_then(jump_target));
        end = at;
    }
    chain.starts.reverse();
    chain
}

/// Not an instruction that only the kernel may execute, which misread bytes often look like.
fn is_plausible(instruction: &Instruction) -> bool {
    !instruction.is_privileged()
}

fn jump_target(instruction: &Instruction) -> Option<u64> {
    let jumps = instruction.is_jcc_short_or_near()
        || instruction.is_jmp_short_or_near()
        || instruction.is_jcx_short()
        || instruction.is_loop()
        || instruction.is_loopcc();
    jumps.then(|| instruction.near_branch_target())
}

/// Whether the instruction that follows is executed next, with no foreign code in between.
fn falls_through(instruction: &Instruction) -> bool {
    use iced_x86::Mnemonic as M;
    matches!(instruction.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch)
        && !matches!(instruction.mnemonic(), M::Syscall | M::Sysenter)
}
