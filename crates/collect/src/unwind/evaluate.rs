//! Unwind steps that framehop does not take: rules given as DWARF expressions, and signal frames.
//!
//! framehop follows rules of the form "CFA = register + constant" and keeps them in its cache. Three kinds of code
//! need more:
//! - functions that realign the stack (GCC with AVX: `main`, OpenMP bodies) give the CFA as "the word at rbp - 8";
//! - PLT stubs compute it from rip; signal trampolines give every register as an expression over the saved context;
//! - trampolines without any unwind information (Go, musl) are known by their two instructions.
//!
//! They are evaluated here, with a bound on the number of operations: an expression may loop, and files are hostile
//! until shown otherwise. That is also why framehop never gets to evaluate an expression itself.

use gimli::{
    BaseAddresses, CfaRule, Encoding, Evaluation, EvaluationResult, Location, Register,
    RegisterRule, UnwindContext, UnwindContextStorage, UnwindExpression, UnwindSection, Value,
    X86_64,
};

use super::frames::{Bytes, EntryVisitor, Fde};

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
        let row = entry
            .unwind_info_for_address(section, bases, self.context, self.svma)
            .ok()?;
        let simple = |rule: Option<RegisterRule<usize>>| {
            matches!(
                rule,
                None | Some(
                    RegisterRule::Undefined | RegisterRule::SameValue | RegisterRule::Offset(_)
                )
            )
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

/// One step by the rules at `svma`: the caller's registers, and whether the frame is a signal trampoline, whose
/// caller was interrupted rather than called.
pub(crate) struct Step<'c, F> {
    pub svma: u64,
    pub registers: Registers,
    pub context: &'c mut Context,
    pub read: F,
}

impl<F: FnMut(u64) -> Result<u64, ()>> EntryVisitor for Step<'_, F> {
    type Output = (Registers, bool);
    fn visit<'a, S>(
        mut self,
        section: &S,
        bases: &BaseAddresses,
        entry: &Fde<'a>,
    ) -> Option<(Registers, bool)>
    where
        S: UnwindSection<Bytes<'a>>,
    {
        let encoding = entry.cie().encoding();
        let row = entry
            .unwind_info_for_address(section, bases, self.context, self.svma)
            .ok()?;
        let was = self.registers;
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                was.get(*register)?.checked_add_signed(*offset)?
            }
            CfaRule::Expression(expression) => {
                evaluate(section, expression, encoding, None, &was, &mut self.read)?
            }
        };
        let mut recover = |rule: Option<RegisterRule<usize>>, same: u64| match rule? {
            RegisterRule::Undefined => None,
            RegisterRule::SameValue => Some(same),
            RegisterRule::Offset(offset) => (self.read)(cfa.checked_add_signed(offset)?).ok(),
            RegisterRule::ValOffset(offset) => cfa.checked_add_signed(offset),
            RegisterRule::Register(register) => was.get(register),
            RegisterRule::Expression(expression) => {
                let address = evaluate(
                    section,
                    &expression,
                    encoding,
                    Some(cfa),
                    &was,
                    &mut self.read,
                )?;
                (self.read)(address).ok()
            }
            RegisterRule::ValExpression(expression) => evaluate(
                section,
                &expression,
                encoding,
                Some(cfa),
                &was,
                &mut self.read,
            ),
            _ => None,
        };
        let ip = recover(row.register(X86_64::RA), was.ip)?;
        let bp = recover(row.register(X86_64::RBP), was.bp).unwrap_or(was.bp);
        Some((Registers { ip, sp: cfa, bp }, entry.is_signal_trampoline()))
    }
}

impl Registers {
    fn get(&self, register: Register) -> Option<u64> {
        match register {
            X86_64::RA => Some(self.ip),
            X86_64::RSP => Some(self.sp),
            X86_64::RBP => Some(self.bp),
            _ => None,
        }
    }
}

fn evaluate<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    expression: &UnwindExpression<usize>,
    encoding: Encoding,
    initial: Option<u64>,
    registers: &Registers,
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
            EvaluationResult::RequiresRegister { register, .. } => evaluation
                .resume_with_register(Value::Generic(registers.get(register)?))
                .ok()?,
            EvaluationResult::RequiresMemory {
                address, size: 8, ..
            } => evaluation
                .resume_with_memory(Value::Generic(read(address).ok()?))
                .ok()?,
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

/// `mov $15, %rax` (or `%eax`), `syscall`: the trampoline to which a signal handler returns.
pub(crate) fn is_signal_return(code: &[u8]) -> bool {
    const LONG: &[u8] = &[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    const SHORT: &[u8] = &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05];
    code.starts_with(LONG) || code.starts_with(SHORT)
}

/// The interrupted registers from the signal frame at `sp`.
pub(crate) fn signal_context(
    sp: u64,
    mut read: impl FnMut(u64) -> Result<u64, ()>,
) -> Option<Registers> {
    let mut at = |offset: u64| read(sp.checked_add(offset)?).ok();
    Some(Registers {
        ip: at(CONTEXT_IP)?,
        sp: at(CONTEXT_SP)?,
        bp: at(CONTEXT_BP)?,
    })
}
