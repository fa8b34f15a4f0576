//! What the instructions of a process do to memory, as far as they were decoded.

use crate::session::code_bytes::{CodeBytes, CodeWindow};
use crate::unwind::AddressSpace;
use numalens_isa as isa;
use numalens_profile::words::SystemCall;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Remembered instructions and plans before they are forgotten.
const MOST_REMEMBERED: usize = 1 << 14;
/// Code around an instruction that is decoded.
const BEFORE: usize = 2048;
const AFTER: usize = 512;

/// Where the code of a process is read from.
pub struct CodeAt<'a> {
    pub bytes: &'a mut CodeBytes,
    pub pid: i32,
    pub space: &'a AddressSpace,
}

impl CodeAt<'_> {
    fn around(&mut self, ip: u64, before: usize, after: usize) -> Option<CodeWindow> {
        self.bytes.around(self.pid, self.space, ip, before, after)
    }
}

/// Instructions that were decoded, by their addresses.
#[derive(Default)]
pub struct Instructions {
    plans: FxHashMap<u64, Option<Arc<isa::Plan>>>,
    fault_kinds: FxHashMap<u64, Option<isa::Kind>>,
    system_calls: FxHashMap<u64, (SystemCall, bool)>,
}

impl Instructions {
    /// Code has come or gone.
    pub fn clear(&mut self) {
        self.plans.clear();
        self.fault_kinds.clear();
        self.system_calls.clear();
    }

    /// The access that a clock sample stands for.
    pub fn recover(&mut self, at: &mut CodeAt<'_>, registers: &isa::Registers) -> Option<isa::RecoveredAccess> {
        let ip = registers.ip;
        if self.plans.len() >= MOST_REMEMBERED {
            self.plans.clear();
        }
        let known = self.plans.get(&ip).cloned();
        let plan = known.unwrap_or_else(|| {
            let plan = at
                .around(ip, BEFORE, AFTER)
                .map(|window| Arc::new(isa::plan(&window.bytes, window.start, window.boundary, ip)));
            self.plans.insert(ip, plan.clone());
            plan
        });
        plan?.resolve(registers)
    }

    /// What the instruction at the registers' `ip` did at `address` when it faulted: read, write, both, or unknown.
    pub fn fault_kind(&mut self, at: &mut CodeAt<'_>, registers: &isa::Registers, address: u64) -> Option<isa::Kind> {
        if let Some(&known) = self.fault_kinds.get(&registers.ip) {
            return known;
        }
        let window = at.around(registers.ip, 0, 16)?;
        let access = isa::access_at(&window.bytes, window.start, registers, address);
        let kind = access.map(|access| access.kind);
        // An instruction with two memory operands can be one or the other each time.
        if access.is_none_or(|access| access.also.is_none()) {
            if self.fault_kinds.len() >= MOST_REMEMBERED {
                self.fault_kinds.clear();
            }
            self.fault_kinds.insert(registers.ip, kind);
        }
        kind
    }

    /// The system call made by the instruction at `ip`, and whether it writes the memory that it names: by the number
    /// that is loaded right before it.
    pub fn system_call(&mut self, at: &mut CodeAt<'_>, ip: u64) -> (SystemCall, bool) {
        if let Some(&known) = self.system_calls.get(&ip) {
            return known;
        }
        let window = at.around(ip, 8, 2);
        let before = window.and_then(|window| {
            let length = usize::try_from(ip - window.start).ok()?;
            Some(window.bytes.get(..length)?.to_vec())
        });
        let call = call_loaded(before.as_deref());
        if self.system_calls.len() >= MOST_REMEMBERED {
            self.system_calls.clear();
        }
        self.system_calls.insert(ip, call);
        call
    }
}

/// Which call code loads the number of that ends right before a system call, and whether it writes the memory that it
/// names.
fn call_loaded(code: Option<&[u8]>) -> (SystemCall, bool) {
    let number = match code {
        // mov eax, NUMBER
        Some([.., 0xb8, a, b, c, d]) => Some(i64::from(u32::from_le_bytes([*a, *b, *c, *d]))),
        // xor eax, eax
        Some([.., 0x31, 0xc0]) => Some(libc::SYS_read),
        _ => None,
    };
    match number {
        Some(libc::SYS_read) => (SystemCall::Read, true),
        Some(libc::SYS_pread64) => (SystemCall::Pread, true),
        Some(libc::SYS_readv) => (SystemCall::Readv, true),
        Some(libc::SYS_preadv | libc::SYS_preadv2) => (SystemCall::Preadv, true),
        // They read a little as well.
        Some(libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_recvmmsg) => (SystemCall::Recv, false),
        Some(libc::SYS_getrandom) => (SystemCall::Getrandom, true),
        Some(libc::SYS_getdents | libc::SYS_getdents64) => (SystemCall::Getdents, true),
        Some(libc::SYS_process_vm_readv) => (SystemCall::ProcessVmReadv, false),
        Some(libc::SYS_process_vm_writev) => (SystemCall::ProcessVmWritev, false),
        _ => (SystemCall::Other, false),
    }
}
