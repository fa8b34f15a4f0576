//! Programs that hand flags over at returns.
//!
//! Nothing that a C compiler makes does, and it pays to know that: what is counted in the last instructions of a
//! function need not keep the flags. The same goes for jumps through a pointer in memory ([`Pointers`]): the stubs of
//! linkers, tail calls, and what interpreters and Haskell go from one piece to the next by. (Jumps to computed
//! addresses are another matter, and so is a table's entry as a jump's operand, which
//! compilers load first: GMP's assembly begins its unrolled
//! loops by them, with flags set before.) But functions of SBCL say by the carry flag whether they return one value or
//! several, and shared pieces of Erlang's compiled code are called for the zero flag. Both can be told when the code is
//! translated, before it is executed for the first time:
//!
//! ```text
//!   call  f              |   stc            set on purpose, and nothing before the return that
//!   jb    several        |   mov  rsp, rbp  would set it again
//!   a flag is looked at  |   pop  rbp
//!   that was set in f    |   ret
//! ```
//!
//! From then on flags are needed at all calls and returns of the program, and what was translated before is
//! invalidated. Where a compiler puts another branch's code behind a call that never returns, this may be taken for the
//! first: it costs a few percent, and nothing else.

use super::decode::Decoded;
use super::liveness::Liveness;
use crate::Env;
use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpKind, Register};
use numalens_isa::{STATUS_FLAGS, Usage, leaves_the_program};

/// Instructions that are looked at, on the straight way on from a fragment.
const BEYOND: usize = 8;

/// Which registers hold what was loaded from memory as a whole, on the straight way to an instruction.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pointers(u16);

impl Pointers {
    /// Behind this instruction.
    pub fn pass(&mut self, instruction: &Instruction, usage: &Usage) {
        self.0 &= !usage.writes;
        if instruction.code() == Code::Mov_r64_rm64 && instruction.op1_kind() == OpKind::Memory {
            self.0 |= 1 << instruction.op0_register().number();
        }
    }

    /// Whether an instruction jumps to the beginning of a function, or of an interpreter's next piece: through a
    /// pointer at a fixed place, at a fixed distance from a register, or loaded before.
    pub fn lead(self, instruction: &Instruction) -> bool {
        instruction.flow_control() == FlowControl::IndirectBranch
            && match instruction.op0_kind() {
                OpKind::Memory => instruction.memory_index() == Register::None,
                OpKind::Register => self.0 >> (instruction.op0_register().number() & 15) & 1 != 0,
                _ => false,
            }
    }

    /// Behind a fragment's instructions, but the last.
    pub fn in_fragment(fragment: &[Decoded]) -> Pointers {
        let mut pointers = Pointers::default();
        let before = fragment.split_last().map_or(&[][..], |(_, before)| before);
        before.iter().for_each(|one| pointers.pass(&one.instruction, &one.usage));
        pointers
    }
}

/// What a way on through the program does first.
#[derive(PartialEq, Eq)]
enum First {
    /// It looks at a flag that was set before.
    Looks,
    /// It returns.
    Returns,
    /// Something else, or it is not known.
    Other,
}

impl Liveness {
    /// Looks whether the fragment that was decoded shows that the ABI of flags does not hold, which was believed until
    /// now: then all other fragments are to be invalidated.
    pub fn learn(&mut self, env: &mut impl Env, fragment: &[Decoded]) -> bool {
        let Some(last) = fragment.last().filter(|_| self.flags_dead_at_calls) else { return false };
        let end = last.instruction.next_ip();
        let hands_over = match last.instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => self.first(env, end) == First::Looks,
            FlowControl::Return => sets_on_purpose(fragment),
            FlowControl::IndirectBranch => {
                Pointers::in_fragment(fragment).lead(&last.instruction) && sets_on_purpose(fragment)
            }
            FlowControl::Next | FlowControl::ConditionalBranch => {
                sets_on_purpose(fragment) && self.first(env, end) == First::Returns
            }
            FlowControl::UnconditionalBranch => {
                sets_on_purpose(fragment) && self.first(env, last.instruction.near_branch64()) == First::Returns
            }
            _ => false,
        };
        if hands_over {
            self.flags_dead_at_calls = false;
            self.forget();
        }
        hands_over
    }

    /// What comes first on the straight way from `ip` on, before all flags have been set.
    fn first(&mut self, env: &mut impl Env, mut ip: u64) -> First {
        let mut set = 0;
        for _ in 0..BEYOND {
            let Some((instruction, usage)) = self.instruction(env, ip) else { return First::Other };
            let flow = instruction.flow_control();
            // What stands behind a call that does not return, and where everybody looks at everything.
            if leaves_the_program(&instruction) {
                return First::Other;
            }
            if usage.flags_read & !set != 0 {
                return First::Looks;
            }
            set |= usage.flags_killed;
            ip = match flow {
                FlowControl::Return => return First::Returns,
                FlowControl::Next if set != STATUS_FLAGS => instruction.next_ip(),
                FlowControl::UnconditionalBranch if set != STATUS_FLAGS => instruction.near_branch64(),
                _ => return First::Other,
            };
        }
        First::Other
    }
}

/// Whether the last instruction of a fragment that sets a flag does nothing else.
fn sets_on_purpose(fragment: &[Decoded]) -> bool {
    use Mnemonic as M;
    let setter = fragment.iter().rev().find(|one| one.usage.flags_killed != 0);
    setter.is_some_and(|one| {
        matches!(one.instruction.mnemonic(), M::Stc | M::Clc | M::Cmc | M::Sahf | M::Popf | M::Popfd | M::Popfq)
    })
}
