//! What instructions do, apart from where their operands lie: remembered by *form*.
//!
//! Problem: to find out which registers and flags an instruction reads and writes, and which accesses it makes, takes
//! longer than to decode it. Programs are made of few different ones, though: of the instructions in their order, nine
//! in ten differ from one that was lately met in the displacement of an operand or in the distance of a jump alone.
//!
//! Mechanism: the bytes of an instruction without these two are its form. A small table has what was found out of
//! forms, each at a place that follows from it, where the last one that came stays. The displacement of an access is
//! put in anew each time.
//!
//! Not remembered are forms of which that would not be all: with two accesses (`movsb`), or one that is not where the
//! operand says (`pop [rsp + 8]`). Not left out are bytes that may say more: what shifts shift by, the displacement of
//! a `nop`, which may be a request.

use super::cpu_query::CpuQuery;
use super::decode::{LONGEST, ends_fragment};
use super::far::Obstacle;
use super::liveness::place;
use crate::Config;
use alloc::boxed::Box;
use alloc::vec::Vec;
use iced_x86::{
    Code, EncodingKind, FlowControl, Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpKind,
    Register,
};
use numalens_isa::{Access, Address, Usage, accesses, is_request};

/// Places in the table: a power of two.
const PLACES: usize = 1 << 12;

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub usage: Usage,
    /// It cannot be translated.
    pub obstacle: Option<Obstacle>,
    /// A fragment ends with it.
    pub ends_fragment: bool,
    /// Control may go elsewhere than to the next instruction, or to the agent.
    pub leaves: bool,
}

/// An instruction that was decoded.
#[derive(Clone, Copy)]
pub(crate) struct Encoded<'a> {
    pub instruction: &'a Instruction,
    /// From its first byte on.
    pub bytes: &'a [u8],
}

#[derive(Clone, Copy)]
enum Accesses {
    None,
    /// Where its operand says.
    One(Access),
    /// What [`Forms::found`] has; not remembered.
    Found,
}

#[derive(Clone, Copy)]
struct Known {
    /// Its bytes without the displacement of an operand and the distance of a jump, and its length; 0: none.
    key: u128,
    form: Form,
    accesses: Accesses,
}

/// Forms that were met.
pub(crate) struct Forms {
    known: Box<[Known]>,
    factory: InstructionInfoFactory,
    /// The accesses of the instruction that was looked into last.
    found: Vec<Access>,
    config: Config,
}

impl Forms {
    pub fn new(config: &Config) -> Self {
        Forms { known: Box::default(), factory: InstructionInfoFactory::new(), found: Vec::new(), config: *config }
    }

    /// What an instruction does.
    pub fn of(&mut self, one: Encoded<'_>) -> Form {
        self.known[self.find(one)].form
    }

    /// The same; its accesses, as far as they are wanted, are added to `into`.
    pub fn with_accesses(&mut self, one: Encoded<'_>, into: &mut Vec<Access>) -> Form {
        let known = &self.known[self.find(one)];
        match known.accesses {
            Accesses::None => {}
            Accesses::One(access) => {
                let displacement = one.instruction.memory_displacement64() as i64;
                into.push(Access { address: Address { displacement, ..access.address }, ..access });
            }
            Accesses::Found => into.extend_from_slice(&self.found),
        }
        known.form
    }

    /// Where in the table its form is now.
    fn find(&mut self, one: Encoded<'_>) -> usize {
        let key = key(&one);
        let folded = key as u64 ^ ((key >> 64) as u64).rotate_left(29);
        // A process whose code is persisted never asks.
        if self.known.is_empty() {
            let form = Form { usage: Usage::ALL, obstacle: None, ends_fragment: false, leaves: false };
            self.known = alloc::vec![Known { key: 0, form, accesses: Accesses::None }; PLACES].into();
        }
        let place = place(folded, PLACES);
        if self.known[place].key != key {
            self.known[place] = self.look_into(one.instruction, key);
        }
        place
    }

    #[inline(never)]
    fn look_into(&mut self, instruction: &Instruction, key: u128) -> Known {
        let Forms { factory, found, config, .. } = self;
        found.clear();
        let obstacle = Obstacle::of(instruction);
        let mut usage = Usage::ALL;
        if obstacle.is_none() {
            let info = factory.info_options(instruction, InstructionInfoOptions::NO_MEMORY_USAGE);
            usage = Usage::of(instruction, info);
            if !instruction.is_invalid() {
                accesses(instruction, info, |access| {
                    let wanted = match (access.stack, access.implied) {
                        (_, true) => config.stack_operations,
                        (true, false) => config.stack_operands,
                        (false, false) => true,
                    };
                    if wanted {
                        found.push(access);
                    }
                });
            }
        }
        let ends_fragment = ends_fragment(config, instruction);
        let leaves = instruction.flow_control() != FlowControl::Next
            || instruction.mnemonic() == Mnemonic::Syscall
            || is_request(instruction)
            || CpuQuery::of(config, instruction).is_some();
        let form = Form { usage, obstacle, ends_fragment, leaves };
        let displacement = instruction.memory_displacement64() as i64;
        let accesses = match found[..] {
            [] => Accesses::None,
            [access] if !access.implied && access.address.displacement == displacement => Accesses::One(access),
            _ => Accesses::Found,
        };
        let is_all = !matches!(accesses, Accesses::Found) && !instruction.is_invalid();
        Known { key: if is_all { key } else { 0 }, form, accesses }
    }
}

/// So many of the lowest bytes.
const LOW: [u128; LONGEST + 1] = {
    let mut low = [0; LONGEST + 1];
    let mut bytes = 0;
    while bytes < low.len() {
        low[bytes] = (1 << (8 * bytes)) - 1;
        bytes += 1;
    }
    low
};

/// What tells forms apart: an instruction with the displacement of an operand in memory, long constants and the
/// distances of jumps left out.
fn key(one: &Encoded<'_>) -> u128 {
    let Encoded { instruction, bytes, .. } = one;
    let length = instruction.len().min(LONGEST);
    let mut whole = [0; 16];
    match bytes.first_chunk() {
        Some(all) => whole = *all,
        None => whole[..bytes.len()].copy_from_slice(bytes),
    }
    let whole = u128::from_le_bytes(whole);
    let (displacement, constant, keep) = tail(instruction, whole as u64);
    let before = length.saturating_sub(displacement + constant);
    let mut key = whole & LOW[before];
    if keep {
        key |= whole & LOW[length] & !LOW[before + displacement];
    }
    key | (length as u128) << 120
}

/// How many bytes of an instruction its displacement has, and what follows it; and whether that makes a difference.
fn tail(instruction: &Instruction, first: u64) -> (usize, usize, bool) {
    let last = instruction.op_count().wrapping_sub(1);
    let (constant, keep) = match instruction.try_op_kind(last).unwrap_or(OpKind::Register) {
        OpKind::Immediate8 | OpKind::Immediate8to16 | OpKind::Immediate8to32 | OpKind::Immediate8to64 => {
            (1, !is_arithmetic(instruction.mnemonic()))
        }
        OpKind::Immediate16 => (2, true),
        OpKind::Immediate32 | OpKind::Immediate32to64 => (4, false),
        OpKind::Immediate64 => (8, false),
        OpKind::NearBranch64 => match (first as u8, instruction.len()) {
            (0x70..=0x7f | 0xe0..=0xe3 | 0xeb, 2) => (1, false),
            (0xe8 | 0xe9, 5) | (0x0f, 6) => (4, false),
            _ => return (0, 0, false),
        },
        OpKind::Register | OpKind::Memory => (0, false),
        _ => return (0, 0, false),
    };
    let displacement = match instruction.memory_displ_size() {
        // Those of other encodings may end with a register; the displacement of such a `nop` may be a request.
        0 => 0,
        _ if instruction.code().encoding() != EncodingKind::Legacy || instruction.code() == Code::Nop_rm32 => {
            return (0, 0, false);
        }
        8 if instruction.memory_base() == Register::None => return (0, 0, false),
        8 => 4,
        size => size as usize,
    };
    (displacement, constant, keep)
}

/// To which a constant makes no difference. To shifts, among others, it does.
fn is_arithmetic(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(mnemonic, M::Add | M::Sub | M::And | M::Or | M::Xor | M::Cmp | M::Test | M::Mov | M::Imul)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scheme, Shadow};
    use iced_x86::{Decoder, DecoderOptions};
    use proptest::prelude::*;

    fn config([stack_operations, stack_operands, own_processor]: [bool; 3]) -> Config {
        Config {
            count: true,
            stack_operands,
            code: false,
            stack_operations,
            shadow: Shadow::FromContext,
            lookup: 0,
            lookup_bits: 12,
            sites: 0,
            pages: 0,
            updates: 0,
            scheme: Scheme::LongLoops,
            each: None,
            most_sites: 0,
            last_pages: 0,
            executions: 0,
            touched: 0,
            direct: 0,
            direct_pages: 0,
            fragments: crate::FragmentLimits { instructions: 48, in_a_row: 48, side_exits: 2 },
            flags_dead_at_calls: true,
            own_processor,
        }
    }

    const STARTS: &[&[u8]] = &[&[], &[0x48], &[0x66], &[0x0f], &[0x48, 0x0f], &[0xf3], &[0xc5], &[0xc4, 0xe2]];

    /// Bytes that are mostly instructions: with usual prefixes, opcodes of one and two bytes and VEX.
    fn bytes() -> impl Strategy<Value = [u8; 15]> {
        let start = prop::sample::select(STARTS);
        (start, any::<[u8; 15]>()).prop_map(|(start, mut bytes)| {
            bytes[..start.len()].copy_from_slice(start);
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Each instruction again with other displacements and constants, whatever was met before.
        #[test]
        fn what_is_remembered_is_what_is_found_out(options in any::<[bool; 3]>(), all in prop::collection::vec((bytes(), any::<[[u8; 8]; 3]>()), 1..20)) {
            let (mut forms, mut afresh) = (Forms::new(&config(options)), Forms::new(&config(options)));
            for (mut bytes, others) in all {
                for other in others {
                    let mut decoder = Decoder::with_ip(64, &bytes, 0x40_0000, DecoderOptions::NONE);
                    let instruction = decoder.decode();
                    let offsets = decoder.get_constant_offsets(&instruction);
                    let mut found = Vec::new();
                    let form = forms.with_accesses(Encoded { instruction: &instruction, bytes: &bytes }, &mut found);
                    prop_assert_eq!(form, afresh.look_into(&instruction, 0).form, "{:?}", instruction);
                    prop_assert_eq!(&found, &afresh.found, "{:?}", instruction);
                    let mut change = |from: usize, size: usize| bytes[from..from + size].copy_from_slice(&other[..size]);
                    if offsets.has_displacement() {
                        change(offsets.displacement_offset(), offsets.displacement_size());
                    }
                    if offsets.has_immediate() {
                        change(offsets.immediate_offset(), offsets.immediate_size());
                    }
                }
            }
        }
    }

    #[test]
    fn a_request_is_none_of_the_nops_that_look_like_it() {
        let mut forms = Forms::new(&config([false; 3]));
        let mut leaves = |bytes: &[u8]| {
            let instruction = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE).decode();
            forms.of(Encoded { instruction: &instruction, bytes }).leaves
        };
        for _ in 0..2 {
            assert!(!leaves(b"\x0f\x1f\x84\x00\0\0\0\0"));
            assert!(leaves(b"\x0f\x1f\x84\x00numa"));
        }
    }
}
