//! What the kernel puts on a stack for a handler, and the program finds there: return address, ucontext, siginfo,
//! vector state.

use super::state::AlternateStack;

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

pub(super) const R_RSP: usize = 15;
pub(super) const R_RIP: usize = 16;
pub(super) const R_FLAGS: usize = 17;
pub(super) const CONTEXT_BYTES: u64 = size_of::<UserContext>() as u64;
pub(super) const INFO_BYTES: u64 = 8 * SIGINFO_WORDS as u64;
/// Return address, ucontext, siginfo.
pub(super) const FRAME_BYTES: u64 = 8 + CONTEXT_BYTES + INFO_BYTES;
/// Where in `UserContext::registers` the registers of the encoding stand.
pub(super) const PLACE: [usize; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];

impl UserContext {
    pub(super) fn register(&self, number: usize) -> u64 {
        self.registers[PLACE[number]]
    }

    pub(super) fn set_register(&mut self, number: usize, value: u64) {
        self.registers[PLACE[number]] = value;
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
