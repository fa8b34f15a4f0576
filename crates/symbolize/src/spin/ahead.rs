//! Which loops instructions are in, each instruction decoded once for all addresses that it stands behind.

use super::{MOST_BYTES, MOST_INSTRUCTIONS};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use std::collections::VecDeque;

/// A section of instructions.
pub(super) struct Code<'a> {
    /// The address of its first byte.
    pub(super) start: u64,
    pub(super) bytes: &'a [u8],
}

impl<'a> Code<'a> {
    pub(super) fn holds(&self, address: u64) -> bool {
        address.checked_sub(self.start).is_some_and(|offset| offset < self.bytes.len() as u64)
    }

    fn decoder(&self, from: u64) -> Decoder<'a> {
        let behind = self.bytes.get((from - self.start) as usize..).unwrap_or_default();
        Decoder::with_ip(64, behind, from, DecoderOptions::NONE)
    }

    /// The instructions from an address on.
    pub(super) fn instructions(&self, from: u64) -> impl Iterator<Item = Instruction> {
        let mut decoder = self.decoder(from);
        std::iter::from_fn(move || decoder.can_decode().then(|| decoder.decode())).take(MOST_INSTRUCTIONS)
    }
}

/// An instruction that does not just lead to the next one.
#[derive(Clone, Copy)]
struct Leaving {
    ip: u64,
    /// Among those decoded.
    number: usize,
    branch: Option<Branch>,
}

/// Where it leads, if it is no call, no return, and no instruction at all.
#[derive(Clone, Copy)]
struct Branch {
    to: u64,
    /// Or it leads to the next instruction.
    conditional: bool,
}

/// The instructions behind an address that was asked for. The next address is mostly among them.
pub(super) struct Ahead<'a> {
    pub(super) code: &'a Code<'a>,
    decoder: Decoder<'a>,
    instruction: Instruction,
    /// The addresses of those decoded, in order, and the number of the first.
    found: VecDeque<u64>,
    first: usize,
    /// Those among them that leave, in order.
    leaving: VecDeque<Leaving>,
}

impl<'a> Ahead<'a> {
    pub(super) fn new(code: &'a Code<'a>) -> Self {
        let (decoder, instruction) = (code.decoder(code.start), Instruction::default());
        Ahead { code, decoder, instruction, found: VecDeque::new(), first: 0, leaving: VecDeque::new() }
    }

    /// Has `found` begin with the instruction at an address.
    fn move_to(&mut self, address: u64) {
        while self.found.front().is_some_and(|ip| *ip < address) {
            self.found.pop_front();
            self.first += 1;
        }
        if self.found.front().unwrap_or(&self.decoder.ip()) != &address {
            self.found.clear();
            self.leaving.clear();
            self.decoder = self.code.decoder(address);
        }
        while self.leaving.front().is_some_and(|one| one.ip < address) {
            self.leaving.pop_front();
        }
    }

    /// Decodes one more. Nothing where the code ends.
    fn decode(&mut self) -> Option<u64> {
        if !self.decoder.can_decode() {
            return None;
        }
        self.decoder.decode_out(&mut self.instruction);
        let one = &self.instruction;
        let branch = |conditional| Some(Branch { to: one.near_branch_target(), conditional });
        let branch = match one.flow_control() {
            FlowControl::Next => None,
            FlowControl::ConditionalBranch => Some(branch(true)),
            FlowControl::UnconditionalBranch => Some(branch(false)),
            _ => Some(None),
        };
        if let Some(branch) = branch {
            self.leaving.push_back(Leaving { ip: one.ip(), number: self.first + self.found.len(), branch });
        }
        self.found.push_back(one.ip());
        Some(one.ip())
    }

    /// The instruction with this place among those that leave, if it is near enough to `address`.
    fn leaving(&mut self, place: usize, address: u64) -> Option<Leaving> {
        let near = |ip: u64| ip - address <= MOST_BYTES;
        while self.leaving.len() <= place {
            let is_enough = self.found.len() >= MOST_INSTRUCTIONS || self.found.back().is_some_and(|ip| !near(*ip));
            if is_enough || self.decode().is_none() {
                return None;
            }
        }
        let one = self.leaving[place];
        (near(one.ip) && one.number - self.first < MOST_INSTRUCTIONS).then_some(one)
    }

    /// The innermost loop around an instruction: where it begins, and the branch back to there. Nothing if it has
    /// calls, or is too long.
    pub(super) fn loop_around(&mut self, address: u64) -> Option<(u64, u64)> {
        self.move_to(address);
        for place in 0.. {
            let Leaving { ip, branch, .. } = self.leaving(place, address)?;
            let Branch { to, conditional } = branch?;
            if to <= address && to >= self.code.start && ip - to <= MOST_BYTES {
                return Some((to, ip));
            }
            if !conditional && !(address..=ip).contains(&to) {
                return None;
            }
        }
        None
    }
}
