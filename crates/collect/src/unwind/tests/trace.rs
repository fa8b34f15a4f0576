//! A child under ptrace, and the true stack from the calls and returns seen.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

pub struct Traced {
    child: Child,
    pub pid: i32,
    signal: i32,
}

/// Where a frame resumes, by the stack slot that says so.
pub struct Truth {
    /// Outermost first: stack slot, lookup address.
    frames: Vec<(u64, u64)>,
}

impl Truth {
    /// From a stack known to be right (the caller has checked its end), innermost first.
    pub fn new(frames: &[u64]) -> Self {
        Self { frames: frames[1..].iter().rev().map(|&frame| (u64::MAX, frame)).collect() }
    }

    pub fn frames(&self, ip: u64) -> Vec<u64> {
        std::iter::once(ip).chain(self.frames.iter().rev().map(|&(_, frame)| frame)).collect()
    }
}

/// In the order of the instruction encoding.
pub fn general(r: &libc::user_regs_struct) -> [u64; 16] {
    [r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15]
}

impl Traced {
    pub fn start(program: &Path) -> Self {
        let mut command = Command::new(program);
        // SAFETY: ptrace is a plain system call, allowed between fork and exec.
        unsafe {
            command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let child = command.spawn().unwrap();
        let pid = child.id() as i32;
        let mut traced = Self { child, pid, signal: 0 };
        assert_eq!(traced.wait(), Some(libc::SIGTRAP), "stop at exec");
        traced
    }

    fn request(&self, request: libc::c_uint, data: usize) {
        // SAFETY: requests used here take no pointer, or one in `data` that the caller keeps alive.
        let result = unsafe { libc::ptrace(request, self.pid, 0usize, data) };
        assert_eq!(result, 0, "ptrace {request}: {}", std::io::Error::last_os_error());
    }

    /// The signal that stopped the child, or `None` when it ended.
    fn wait(&mut self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: `status` is writable; the child is ours.
        assert_eq!(unsafe { libc::waitpid(self.pid, &raw mut status, 0) }, self.pid);
        libc::WIFSTOPPED(status).then(|| libc::WSTOPSIG(status))
    }

    pub fn run_to_breakpoint(&mut self) {
        self.request(libc::PTRACE_CONT, 0);
        assert_eq!(self.wait(), Some(libc::SIGTRAP));
    }

    pub fn registers(&self) -> libc::user_regs_struct {
        // SAFETY: all-zero is a valid value of this structure of integers.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        self.request(libc::PTRACE_GETREGS, &raw mut registers as usize);
        registers
    }

    /// Up to `size` bytes from the stack pointer upwards.
    pub fn stack(&self, size: usize) -> Vec<u8> {
        let from = self.registers().rsp;
        (0..).map(|less| size >> less).take_while(|&size| size > 0).find_map(|size| self.read(from, size)).unwrap()
    }

    pub fn read(&self, from: u64, size: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0u8; size];
        let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: size };
        let remote = libc::iovec { iov_base: from as *mut libc::c_void, iov_len: size };
        // SAFETY: `local` describes `bytes`.
        let read = unsafe { libc::process_vm_readv(self.pid, &raw const local, 1, &raw const remote, 1, 0) };
        bytes.truncate(usize::try_from(read).ok()?);
        (!bytes.is_empty()).then_some(bytes)
    }

    fn word(&self, address: u64) -> u64 {
        u64::from_le_bytes(self.read(address, 8).unwrap().try_into().unwrap())
    }

    /// One instruction, or one delivery of a signal. False at the next breakpoint instruction.
    pub fn step(&mut self, truth: &mut Truth) -> bool {
        let before = self.registers();
        if self.read(before.rip, 1) == Some(vec![0xcc]) {
            return false;
        }
        let delivered = std::mem::take(&mut self.signal);
        self.request(libc::PTRACE_SINGLESTEP, delivered as usize);
        match self.wait().expect("the child runs on") {
            libc::SIGTRAP => {}
            // Delivered with the next step.
            signal => self.signal = signal,
        }
        let after = self.registers();
        truth.frames.retain(|&(slot, _)| slot >= after.rsp);
        if delivered != 0 {
            // The handler's first instruction: the interrupted frame, then the trampoline the handler returns to.
            truth.frames.push((before.rsp - 129, before.rip));
            truth.frames.push((after.rsp, self.word(after.rsp) - 1));
        } else if after.rsp == before.rsp - 8 {
            let word = self.word(after.rsp);
            let length = word.wrapping_sub(before.rip);
            let opcode = self.read(before.rip, 1);
            if (2..=7).contains(&length)
                && opcode.is_some_and(|code| matches!(code[0], 0xe8 | 0xff | 0x41 | 0x3e | 0xf2 | 0x67))
            {
                truth.frames.push((after.rsp, word - 1));
            }
        }
        true
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
