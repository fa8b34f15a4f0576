//! A system call that the program is about to make, and what becomes of it.

use super::old_numbers::MMAP2;
use crate::state::thread::Thread;
use crate::sys::{self, PAGE};
use numalens_isa::convention::system_call;

/// What becomes of a system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Execute it in the cache.
    Execute,
    /// It is done: the kernel's word for the result.
    Done(u64),
    /// Go on at this address of the program's, with its registers as they are.
    Resume(u64),
    /// Return from a signal's handler, to this address of the program's.
    ReturnFromSignal(u64),
}

/// By which instruction the program makes a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gate {
    /// `syscall`.
    Syscall,
    /// `int 0x80`, with this number there.
    Old(u32),
}

impl Gate {
    /// Arguments of a call by `syscall` as they are told here.
    fn as_here(self, mut arguments: [u64; 6]) -> [u64; 6] {
        if self == Gate::Old(MMAP2) {
            arguments[5] /= PAGE;
        }
        arguments
    }
}

/// A call that the program is about to make; number and arguments are those of `syscall`.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The address of the instruction.
    pub ip: u64,
    /// The address after it.
    pub next: u64,
    /// `__NR_*`.
    pub number: u32,
    /// As the number has them.
    pub arguments: [u64; 6],
    /// The instruction.
    pub gate: Gate,
}

impl Call {
    /// Makes it by `syscall`, in the program's name.
    ///
    /// # Safety
    /// As the call itself.
    pub unsafe fn make(&self) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { sys::for_program(self.number, self.arguments) }
    }

    /// Makes it by the program's own instruction, in the program's name.
    ///
    /// # Safety
    /// As the call itself.
    pub unsafe fn make_by_its_gate(&self) -> u64 {
        match self.gate {
            // SAFETY: the caller's promise.
            Gate::Syscall => unsafe { self.make() },
            // SAFETY: the caller's promise.
            Gate::Old(number) => unsafe { sys::for_program_by_old_rules(number, self.gate.as_here(self.arguments)) },
        }
    }
}

/// The arguments of a system call, from the saved registers.
pub fn arguments(thread: &Thread) -> [u64; 6] {
    system_call::ARGUMENTS.map(|register| thread.context.register(register))
}

/// Offsets in files are below this, addresses of mappings above.
pub const LEAST_CODE: u64 = 1 << 44;

/// The kernel's word for an error.
pub const fn errno(number: u32) -> u64 {
    (number as i64).wrapping_neg() as u64
}

/// Refused: there is no such call.
pub const ENOSYS: u64 = errno(linux_raw_sys::errno::ENOSYS);
/// Refused: an argument makes no sense.
pub const EINVAL: u64 = errno(linux_raw_sys::errno::EINVAL);
/// Refused: an address is no memory.
pub const EFAULT: u64 = errno(linux_raw_sys::errno::EFAULT);
/// Refused: no memory, or memory that nobody may have.
pub const ENOMEM: u64 = errno(linux_raw_sys::errno::ENOMEM);

#[cfg(test)]
mod tests {
    use super::super::old_numbers::IPC;
    use super::*;

    #[test]
    fn offsets_of_old_mappings_are_pages() {
        let arguments = [0, 0, 0, 0, 0, 3 * PAGE];
        assert_eq!(Gate::Old(MMAP2).as_here(arguments), [0, 0, 0, 0, 0, 3]);
        assert_eq!(Gate::Old(IPC).as_here(arguments), arguments);
    }
}
