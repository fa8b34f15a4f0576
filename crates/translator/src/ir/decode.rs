//! The first passes over a fragment: its instructions up to its end, and what is live before each.

use super::cpu_query::CpuQuery;
use super::far::{Obstacle, is_old_call};
use super::flags_abi::Pointers;
use super::forms::{Encoded, Form, Forms};
use super::liveness::{Live, Liveness};
use crate::{Changes, Config, Env, Error, FragmentId};
use alloc::vec::Vec;
use core::ops::Range;
use hashbrown::HashMap;
use iced_x86::{Decoder, DecoderError, DecoderOptions, FlowControl, Instruction, Mnemonic};
use numalens_isa::{Access, PAGE, Usage, is_request, leaves_the_program};

/// Bytes of one instruction at most.
pub(crate) const LONGEST: usize = 15;

/// An instruction of the program.
pub(crate) struct Decoded {
    pub instruction: Instruction,
    pub usage: Usage,
    /// What is needed when the instruction begins.
    pub before: Live,
    /// Where in its bytes the displacement of an operand is that is relative to the instruction.
    pub displacement_offset: usize,
    /// What is to be counted: a piece of the list of those of the fragment.
    pub accesses: Range<u16>,
    pub length: usize,
    /// It cannot be translated.
    pub obstacle: Option<Obstacle>,
    /// See [`super::forms::Form::leaves`].
    pub leaves: bool,
}

impl Decoded {
    /// Its accesses in the list of those of the fragment.
    pub fn accesses_in<'a>(&self, all: &'a [Access]) -> &'a [Access] {
        all.get(usize::from(self.accesses.start)..usize::from(self.accesses.end)).unwrap_or(&[])
    }
}

/// What a fragment is made from. Kept from one to the next for its memory.
#[derive(Default)]
pub(crate) struct Source {
    pub list: Vec<Decoded>,
    /// Of the whole fragment.
    pub bytes: Vec<u8>,
    /// Of all instructions.
    pub accesses: Vec<Access>,
}

impl Source {
    fn clear(&mut self) {
        self.list.clear();
        self.bytes.clear();
        self.accesses.clear();
    }

    /// Adds an instruction, so many bytes long, which `code` begins with.
    fn add(
        &mut self,
        config: &Config,
        forms: &mut Forms,
        instruction: &Instruction,
        code: &[u8],
        length: usize,
        displacement_offset: usize,
    ) -> Form {
        let Source { list, bytes, accesses } = self;
        bytes.extend_from_slice(&code[..length]);
        let first = accesses.len() as u16;
        let form = forms.with_accesses(Encoded { instruction, bytes: code }, accesses);
        if !config.count {
            accesses.clear();
        }
        list.push(Decoded {
            instruction: *instruction,
            usage: form.usage,
            before: Live::ALL,
            accesses: first..accesses.len() as u16,
            displacement_offset,
            length,
            obstacle: form.obstacle,
            leaves: form.leaves,
        });
        form
    }
}

/// Fills in the instructions of the fragment at `ip`, their bytes and accesses. It ends where a `known` one begins, as
/// code that is there twice crowds the caches; loops are kept in one piece, as they are counted by iterations.
pub(crate) fn decode(
    config: &Config,
    env: &mut impl Env,
    known: &HashMap<u64, FragmentId>,
    ip: u64,
    Liveness { forms, window, .. }: &mut Liveness,
    source: &mut Source,
) -> Result<(), Error> {
    source.clear();
    // What it has may be of another time.
    window.forget();
    let mut side_exits = 0;
    let mut at = ip;
    let mut meets = None;
    'fragment: loop {
        let code = window.code(env, at);
        let mut decoder = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
        loop {
            let from = decoder.position();
            if from > 0 && code.len() - from < LONGEST {
                continue 'fragment;
            }
            if !source.list.is_empty() {
                let most = if side_exits == 0 { config.fragments.in_a_row } else { config.fragments.instructions };
                if source.list.len() >= most || env.watch(at).is_some() {
                    break 'fragment;
                }
                if meets.is_none() && known.contains_key(&at) {
                    meets = Some((source.list.len(), source.bytes.len()));
                }
            }
            let readable = decoder.can_decode();
            let instruction = if readable { decoder.decode() } else { Instruction::default() };
            if !readable || decoder.last_error() == DecoderError::NoMoreBytes && code.len() - from < LONGEST {
                if source.list.is_empty() {
                    return Err(Error::Unreadable { ip, at: at + (code.len() - from) as u64 });
                }
                break 'fragment;
            }
            let length = if instruction.is_invalid() { 1 } else { instruction.len() };
            let displacement_offset = match instruction.is_ip_rel_memory_operand() {
                true => decoder.get_constant_offsets(&instruction).displacement_offset(),
                false => 0,
            };
            let form = source.add(config, forms, &instruction, &code[from..], length, displacement_offset);
            at += length as u64;
            match instruction.flow_control() {
                _ if form.obstacle.is_some() || form.ends_fragment => break 'fragment,
                FlowControl::ConditionalBranch => {
                    side_exits += 1;
                    if side_exits > config.fragments.side_exits {
                        break 'fragment;
                    }
                }
                _ => {}
            }
        }
    }
    if let Some((instructions, length)) = meets.filter(|_| !is_loop(ip, &source.list)) {
        source.list.truncate(instructions);
        source.bytes.truncate(length);
    }
    Ok(())
}

/// Whether the fragment is, or ends, the body of a small loop.
pub(crate) fn is_loop(start: u64, list: &[Decoded]) -> bool {
    list.iter().any(|one| {
        let instruction = &one.instruction;
        matches!(instruction.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch)
            && (start.saturating_sub(SMALL_LOOP)..=instruction.ip()).contains(&instruction.near_branch64())
    })
}

pub(crate) fn ends_fragment(config: &Config, instruction: &Instruction) -> bool {
    let goes_on = matches!(
        instruction.flow_control(),
        FlowControl::Next | FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend
    );
    !goes_on
        || instruction.is_invalid()
        || matches!(instruction.mnemonic(), Mnemonic::Syscall | Mnemonic::Xbegin)
        || is_old_call(instruction)
        || is_request(instruction)
        || CpuQuery::of(config, instruction).is_some()
}

/// Farthest before a fragment that a jump back makes it part of a loop that is worth a longer look: larger ones mostly
/// have few iterations, and compilers, full of those, take an eighth more time with last pages in them.
const SMALL_LOOP: u64 = 64;

/// Fills in what is live before each instruction. `end` follows the fragment, `changes` says how it may change,
/// `in_loop` that it pays to look far.
pub(crate) fn find_live(
    list: &mut [Decoded],
    liveness: &mut Liveness,
    env: &mut impl Env,
    end: u64,
    changes: Changes,
    in_loop: bool,
) {
    let ends = list.first().map(|one| one.instruction.ip()).zip(list.last());
    let Some((first, (last, last_is_unsupported))) =
        ends.map(|(ip, last)| (ip, (last.instruction, last.obstacle.is_some())))
    else {
        return;
    };
    // Code that may change is not believed beyond the fragment, or its pages. Its registers are kept exact: what
    // compiles at run time may look at any register when an instruction faults.
    let may_change = changes != Changes::Never;
    let own = pages(first..end);
    let mut at = |liveness: &mut Liveness, ip: u64| match changes {
        Changes::Never => liveness.at(env, ip, in_loop),
        Changes::Notified if own.contains(&(ip / PAGE)) => liveness.within_page(env, ip, in_loop),
        Changes::Notified | Changes::Silently => Live::ALL,
    };
    let mut live = match last.flow_control() {
        _ if last_is_unsupported || leaves_the_program(&last) => Live::ALL,
        FlowControl::UnconditionalBranch | FlowControl::Call => at(liveness, last.near_branch64()),
        FlowControl::Return | FlowControl::IndirectCall => liveness.at_call(),
        FlowControl::IndirectBranch if Pointers::in_fragment(list).lead(&last) => liveness.at_call(),
        FlowControl::Next | FlowControl::ConditionalBranch if last.mnemonic() != Mnemonic::Syscall => at(liveness, end),
        _ => Live::ALL,
    };
    for one in list.iter_mut().rev() {
        if one.instruction.flow_control() == FlowControl::ConditionalBranch {
            live = live.or(at(liveness, one.instruction.near_branch64()));
        }
        live = live.before(&one.usage);
        if may_change {
            live.registers = u16::MAX;
        }
        one.before = live;
    }
}

/// The pages of a fragment's code; of one without instructions none.
pub(crate) fn pages(code: Range<u64>) -> Range<u64> {
    code.start / PAGE..code.end.div_ceil(PAGE).max(code.start / PAGE)
}
