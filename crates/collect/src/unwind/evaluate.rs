//! Unwind steps that framehop does not take: rules given as DWARF expressions, and signal frames.
//!
//! framehop follows rules of the form "CFA = register + constant" and keeps them in its cache. Three kinds of code
//! need more:
//! - functions that realign the stack (GCC with AVX: `main`, OpenMP bodies) give the CFA as "the word at rbp - 8", and
//!   for a few instructions as r10, whose value is known in the innermost frame only;
//! - PLT stubs compute it from rip; signal trampolines give every register as an expression over the saved context;
//! - trampolines without any unwind information (Go, musl) are known by their two instructions.
//!
//! They are evaluated here, with a bound on the number of operations: an expression may loop, and files are hostile
//! until shown otherwise. That is also why framehop never gets to evaluate an expression itself.

use std::cell::Cell;

use gimli::{
    BaseAddresses, CfaRule, Encoding, Evaluation, EvaluationResult, Location, Register, RegisterRule, UnwindContext,
    UnwindContextStorage, UnwindExpression, UnwindSection, Value, X86_64,
};

use super::frames::{Bytes, EntryVisitor, Fde};
use numalens_isa::Register as GeneralRegister;
use numalens_isa::convention::function::PRESERVED;
use numalens_isa::convention::system_call;

/// More operations than any compiler's rule has.
const MOST_OPERATIONS: u32 = 256;

/// Storage of fixed size for one row and four remembered ones: a file cannot make the collector allocate.
pub(crate) struct Bounded;

impl<T: gimli::ReaderOffset> UnwindContextStorage<T> for Bounded {
    type Rules = [(Register, RegisterRule<T>); 192];
    type Stack = [gimli::UnwindTableRow<T, Self>; 4];
}

pub(crate) type Context = UnwindContext<usize, Bounded>;

/// The registers that unwinding follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    pub ip: u64,
    pub sp: u64,
    pub bp: u64,
}

/// How the frame at an address is to be unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// By framehop.
    Plain,
    /// By [`Step`]: the rule holds an expression.
    Expression,
    /// The kernel's signal frame, recognised by its instructions.
    SignalReturn,
    /// No unwind information covers the address.
    Uncovered,
}

/// Decides between [`Kind::Plain`] and [`Kind::Expression`].
pub(crate) struct Classify<'c> {
    pub svma: u64,
    pub context: &'c mut Context,
}

impl EntryVisitor for Classify<'_> {
    type Output = Kind;
    fn visit<'a, S>(self, section: &S, bases: &BaseAddresses, entry: &Fde<'a>) -> Option<Kind>
    where
        S: UnwindSection<Bytes<'a>>,
    {
        let row = entry.unwind_info_for_address(section, bases, self.context, self.svma).ok()?;
        let simple = |rule: Option<RegisterRule<usize>>| {
            matches!(rule, None | Some(RegisterRule::Undefined | RegisterRule::SameValue | RegisterRule::Offset(_)))
        };
        let simple_cfa = matches!(
            row.cfa(),
            CfaRule::RegisterAndOffset { register, .. } if matches!(*register, X86_64::RSP | X86_64::RBP)
        );
        let plain = simple_cfa
            && simple(row.register(X86_64::RBP))
            && simple(row.register(X86_64::RA))
            && !entry.is_signal_trampoline();
        Some(if plain { Kind::Plain } else { Kind::Expression })
    }
}

/// One step by the rules at `svma`.
pub(crate) struct Step<'c, F> {
    pub svma: u64,
    pub registers: Registers,
    /// All general registers as far as they are known, in the order of the instruction encoding.
    pub general: Option<[u64; 16]>,
    /// Set where one of these is asked for.
    pub asked: &'c Cell<bool>,
    pub context: &'c mut Context,
    pub read: F,
}

/// Where a step led.
pub(crate) struct Stepped {
    pub caller: Registers,
    /// The caller's general registers: those that calls preserve are right, others as they were.
    pub general: Option<[u64; 16]>,
    /// The frame is a signal trampoline, whose caller was interrupted rather than called.
    pub interrupted: bool,
    /// The rules say that there is no caller.
    pub root: bool,
}

impl<F: FnMut(u64) -> Result<u64, ()>> EntryVisitor for Step<'_, F> {
    type Output = Stepped;
    fn visit<'a, S>(mut self, section: &S, bases: &BaseAddresses, entry: &Fde<'a>) -> Option<Stepped>
    where
        S: UnwindSection<Bytes<'a>>,
    {
        let encoding = entry.cie().encoding();
        let row = entry.unwind_info_for_address(section, bases, self.context, self.svma).ok()?;
        let interrupted = entry.is_signal_trampoline();
        let same = self.registers;
        let was = Sight { registers: same, general: self.general, asked: self.asked };
        if matches!(row.register(X86_64::RA), None | Some(RegisterRule::Undefined)) {
            return Some(Stepped { caller: same, general: self.general, interrupted, root: true });
        }
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => was.get(*register)?.checked_add_signed(*offset)?,
            CfaRule::Expression(expression) => evaluate(section, expression, encoding, None, &was, &mut self.read)?,
        };
        let mut recover = |register: Register| match row.register(register)? {
            RegisterRule::SameValue => was.get(register),
            RegisterRule::Offset(offset) => (self.read)(cfa.checked_add_signed(offset)?).ok(),
            RegisterRule::ValOffset(offset) => cfa.checked_add_signed(offset),
            RegisterRule::Register(other) => was.get(other),
            RegisterRule::Expression(expression) => {
                let address = evaluate(section, &expression, encoding, Some(cfa), &was, &mut self.read)?;
                (self.read)(address).ok()
            }
            RegisterRule::ValExpression(expression) => {
                evaluate(section, &expression, encoding, Some(cfa), &was, &mut self.read)
            }
            _ => None,
        };
        let ip = recover(X86_64::RA)?;
        let bp = recover(X86_64::RBP).unwrap_or(same.bp);
        let general = self.general.map(|mut general| {
            for preserved in PRESERVED {
                let slot = usize::from(preserved.number());
                general[slot] = recover(Register(preserved.dwarf())).unwrap_or(general[slot]);
            }
            general
        });
        Some(Stepped { caller: Registers { ip, sp: cfa, bp }, general, interrupted, root: false })
    }
}

/// The registers that a rule may refer to.
struct Sight<'c> {
    registers: Registers,
    general: Option<[u64; 16]>,
    asked: &'c Cell<bool>,
}

impl Sight<'_> {
    fn get(&self, register: Register) -> Option<u64> {
        match register {
            X86_64::RA => Some(self.registers.ip),
            X86_64::RSP => Some(self.registers.sp),
            X86_64::RBP => Some(self.registers.bp),
            Register(number) => {
                self.asked.set(true);
                let register = GeneralRegister::of_dwarf(number)?;
                Some(self.general.as_ref()?[usize::from(register.number())])
            }
        }
    }
}

fn evaluate<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    expression: &UnwindExpression<usize>,
    encoding: Encoding,
    initial: Option<u64>,
    registers: &Sight<'_>,
    read: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Option<u64> {
    let expression = expression.get(section).ok()?;
    let mut evaluation = Evaluation::new(expression.0, encoding);
    evaluation.set_max_iterations(MOST_OPERATIONS);
    if let Some(initial) = initial {
        evaluation.set_initial_value(initial);
    }
    let mut state = evaluation.evaluate().ok()?;
    loop {
        state = match state {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                evaluation.resume_with_register(Value::Generic(registers.get(register)?)).ok()?
            }
            EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                evaluation.resume_with_memory(Value::Generic(read(address).ok()?)).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.as_result().last()?.location {
        Location::Address { address } => Some(address),
        _ => None,
    }
}

/// Offsets in the context that the kernel puts where the trampoline's stack pointer points
/// (`struct ucontext`, arch/x86/include/uapi/asm/sigcontext.h).
const CONTEXT_BP: u64 = 120;
const CONTEXT_SP: u64 = 160;
const CONTEXT_IP: u64 = 168;

/// `mov $__NR_rt_sigreturn, %rax` (or `%eax`), `syscall`: the trampoline to which a signal handler returns.
pub(crate) fn is_signal_return(code: &[u8]) -> bool {
    const NUMBER: [u8; 4] = (libc::SYS_rt_sigreturn as u32).to_le_bytes();
    let rest = code.strip_prefix(&[0x48, 0xc7, 0xc0]).or_else(|| code.strip_prefix(&[0xb8]));
    let rest = rest.and_then(|rest| rest.strip_prefix(&NUMBER));
    rest.is_some_and(|rest| rest.starts_with(&system_call::INSTRUCTION))
}

/// The interrupted registers from the signal frame at `sp`.
pub(crate) fn signal_context(sp: u64, mut read: impl FnMut(u64) -> Result<u64, ()>) -> Option<Registers> {
    let mut at = |offset: u64| read(sp.checked_add(offset)?).ok();
    Some(Registers { ip: at(CONTEXT_IP)?, sp: at(CONTEXT_SP)?, bp: at(CONTEXT_BP)? })
}
