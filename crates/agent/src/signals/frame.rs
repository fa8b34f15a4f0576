//! What the kernel puts on a stack for a handler, and the program finds there: return address, ucontext, siginfo,
//! vector state.

use super::state::AlternateStack;
use numalens_isa::Register;

pub(super) const SIGINFO_WORDS: usize = 16;
/// The kernel's `siginfo`.
pub type SigInfo = [u64; SIGINFO_WORDS];

/// The kernel's `ucontext`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UserContext {
    pub(super) flags: u64,
    pub(super) link: u64,
    pub(super) stack: AlternateStack,
    pub(super) registers: [u64; 23],
    pub(super) vector_state: u64,
    pub(super) reserved: [u64; 8],
    pub(super) mask: u64,
}

pub(super) const R_RIP: usize = 16;
pub(super) const R_FLAGS: usize = 17;
pub(super) const CONTEXT_BYTES: u64 = size_of::<UserContext>() as u64;
pub(super) const INFO_BYTES: u64 = 8 * SIGINFO_WORDS as u64;
/// Return address, ucontext, siginfo.
pub(super) const FRAME_BYTES: u64 = 8 + CONTEXT_BYTES + INFO_BYTES;

/// Where in `UserContext::registers` a general register stands: its `REG_*` of the C library.
const fn place(register: Register) -> usize {
    match register {
        Register::R8 => 0,
        Register::R9 => 1,
        Register::R10 => 2,
        Register::R11 => 3,
        Register::R12 => 4,
        Register::R13 => 5,
        Register::R14 => 6,
        Register::R15 => 7,
        Register::Rdi => 8,
        Register::Rsi => 9,
        Register::Rbp => 10,
        Register::Rbx => 11,
        Register::Rdx => 12,
        Register::Rax => 13,
        Register::Rcx => 14,
        Register::Rsp => 15,
    }
}

impl UserContext {
    pub(super) fn register(&self, register: Register) -> u64 {
        self.registers[place(register)]
    }

    pub(super) fn set_register(&mut self, register: Register, value: u64) {
        self.registers[place(register)] = value;
    }

    /// The general registers, in the order of the encoding.
    pub(super) fn general(&self) -> [u64; 16] {
        Register::ALL.map(|register| self.register(register))
    }

    /// Has the thread go on at an address.
    pub fn set_ip(&mut self, address: u64) {
        self.registers[R_RIP] = address;
    }

    /// Bytes of the vector state that the kernel saved.
    ///
    /// # Safety
    /// `vector_state` is null or leads to it.
    pub(super) unsafe fn vector_bytes(&self) -> u64 {
        const MAGIC: u32 = 0x4650_5853;
        if self.vector_state == 0 {
            return 0;
        }
        // SAFETY: the software-reserved bytes of the FXSAVE area, which is 512 bytes long.
        let [magic, bytes] = unsafe { ((self.vector_state + 464) as *const [u32; 2]).read() };
        if magic == MAGIC { u64::from(bytes) } else { 512 }
    }
}
