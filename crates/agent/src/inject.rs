//! Getting into a program at its exec, before its first instruction, and leaving it alone afterwards.
//!
//! Problem: a program must be observed from its first instruction without being changed, without a library in its
//! environment, and without a tracer behind it for the rest of its life.
//!
//! Mechanism: whoever injects seizes the process before it calls `execve`. At the exec event the new image is mapped
//! and nothing of it has run. One system call is made in its name, with registers alone:
//!
//! ```text
//!   exec event            registers still belong to execve: rax would be overwritten
//!     | run to the end of that system call
//!   stop                  now they stay as we set them:
//!     | rip = a `syscall` instruction of the vdso,   rax = mmap(any, bytes, rwx, private, session file, image)
//!   stop after one step   rax = where the agent is
//!     | rip = its entry, rdi = descriptor, rsi = the program's own first instruction, rdx = the extents of the parent and its thread
//!   detached
//! ```
//! No byte of the program is written: its pages are those that it would have had. The kernel's vdso is the same in
//! every process, so where its `syscall` stands is found out once. Where there is none, the instruction is written at
//! the program's entry and taken back, which costs that page a private copy.
//!
//! The code has two users: the collector for the command that it starts, and the agent itself (a helper process that
//! shares the memory of the one which is about to call execve) for the programs that follow.

use crate::call;
use crate::sys::{Errno, raw};
use linux_raw_sys::ptrace as pt;
use numalens_isa::convention::system_call;

/// What to inject.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The session file's descriptor in the program: open across its exec.
    pub descriptor: i32,
    /// Where in that file the image stands.
    pub image_offset: u64,
    /// Bytes of the image.
    pub image_bytes: u64,
    /// Its first instruction.
    pub image_entry: u64,
    /// Offset of a `syscall` instruction in the vdso, if there is one.
    pub vdso_syscall: Option<u64>,
    /// The number of the extent of the process that calls exec, or of none.
    pub parent: u32,
    /// The number of the extent of the thread that does.
    pub caller: u32,
    /// A program that cannot be entered is killed before its first instruction instead of running unobserved.
    pub or_kill: bool,
}

/// Why a program could not be entered. It is stopped no longer, and has not been changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InjectError {
    /// It ended before its exec; the status is wait's.
    Ended(i32),
    /// A 32-bit program.
    Foreign,
    /// It could not map the agent.
    Map(Errno),
    /// The kernel refused a step of ptrace.
    Refused(&'static str, Errno),
}

impl core::fmt::Display for InjectError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            InjectError::Ended(_) => f.write_str("it ended before it began"),
            InjectError::Foreign => f.write_str("it is a 32-bit program"),
            InjectError::Map(Errno(error)) => write!(f, "the agent cannot be mapped into it (error {error})"),
            InjectError::Refused(step, Errno(error)) => {
                write!(f, "the kernel does not let us trace it ({step}: error {error})")
            }
        }
    }
}

/// The registers as ptrace gives them.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Registers {
    r15: u64,
    r14: u64,
    r13: u64,
    r12: u64,
    rbp: u64,
    rbx: u64,
    r11: u64,
    r10: u64,
    r9: u64,
    r8: u64,
    rax: u64,
    rcx: u64,
    rdx: u64,
    rsi: u64,
    rdi: u64,
    orig_rax: u64,
    rip: u64,
    cs: u64,
    eflags: u64,
    rsp: u64,
    ss: u64,
    fs_base: u64,
    gs_base: u64,
    ds: u64,
    es: u64,
    fs: u64,
    gs: u64,
}

/// The selector of 64-bit user code.
const CODE_64: u64 = 0x33;
const SIGTRAP: i32 = raw::SIGTRAP as i32;
/// What wait reports for the end of a system call under `PTRACE_O_TRACESYSGOOD`.
const SYSCALL_STOP: i32 = SIGTRAP | 0x80;
const AT_SYSINFO_EHDR: u64 = 33;
/// Words of the new stack that are looked through for the auxiliary vector: arguments and variables come first.
const MOST_STACK_WORDS: u64 = 1 << 20;

/// Begins to watch the thread `tid`, which has not called execve yet.
///
/// # Errors
/// The kernel does not allow it (EPERM: Yama, another user, already traced).
pub fn seize(tid: i32) -> Result<(), Errno> {
    let options = pt::PTRACE_O_TRACEEXEC | pt::PTRACE_O_TRACESYSGOOD;
    // SAFETY: no memory is passed.
    unsafe { call!(__NR_ptrace, pt::PTRACE_SEIZE, tid, 0, options) }.map(drop)
}

/// Waits until the thread `pid`, seized before, has called execve, puts the agent into its process and lets it go. The
/// caller has no other children, unless the thread is the first of its process: of any other, the kernel gives it that
/// one's id in the exec.
///
/// # Errors
/// See [`InjectError`]. After all but `Ended` the program runs as if nothing had been tried, unless the plan says that
/// it is to be killed.
pub fn enter_at_exec(pid: i32, is_first: bool, plan: &Plan) -> Result<(), InjectError> {
    let mut tracee = Tracee { pid, awaited: if is_first { pid } else { ANY }, signal: 0 };
    loop {
        let status = tracee.wait()?;
        let event = status >> 16;
        let stop = (status >> 8) & 0xff;
        if event == pt::PTRACE_EVENT_EXEC as i32 {
            break;
        }
        let signal = if event == 0 && stop != SYSCALL_STOP { stop } else { 0 };
        let how =
            if event == pt::PTRACE_EVENT_STOP as i32 && stop != SIGTRAP { pt::PTRACE_LISTEN } else { pt::PTRACE_CONT };
        tracee.request("continue", how, signal as u64)?;
    }
    let done = tracee.enter(plan);
    let signal = if done.is_err() && plan.or_kill { raw::SIGKILL as i32 } else { tracee.signal };
    let let_go = tracee.request("detach", pt::PTRACE_DETACH, signal as u64);
    done.and(let_go)
}

/// Of `wait4`: any child, or whoever is traced.
const ANY: i32 = -1;

struct Tracee {
    pid: i32,
    /// Whom to wait for.
    awaited: i32,
    /// A signal that came meanwhile, to be delivered at the end.
    signal: i32,
}

impl Tracee {
    fn wait(&mut self) -> Result<i32, InjectError> {
        let mut status = 0i32;
        loop {
            // SAFETY: a word for the status.
            match unsafe { call!(__NR_wait4, self.awaited, &raw mut status, raw::__WALL, 0) } {
                Ok(pid) if status & 0xff == 0x7f => {
                    self.pid = pid as i32;
                    return Ok(status);
                }
                Ok(_) => return Err(InjectError::Ended(status)),
                Err(Errno(error)) if error == linux_raw_sys::errno::EINTR as i32 => {}
                Err(error) => return Err(InjectError::Refused("wait", error)),
            }
        }
    }

    fn request(&self, step: &'static str, request: u32, data: u64) -> Result<(), InjectError> {
        // SAFETY: requests of this kind take a number; those that take memory have functions of their own.
        unsafe { call!(__NR_ptrace, request, self.pid, 0, data) }
            .map(drop)
            .map_err(|error| InjectError::Refused(step, error))
    }

    fn registers(&self) -> Result<Registers, InjectError> {
        let mut registers = Registers::default();
        // SAFETY: the kernel's layout; 27 words.
        unsafe { call!(__NR_ptrace, pt::PTRACE_GETREGS, self.pid, 0, &raw mut registers) }
            .map_err(|error| InjectError::Refused("read registers", error))?;
        Ok(registers)
    }

    fn set_registers(&self, registers: &Registers) -> Result<(), InjectError> {
        // SAFETY: as above.
        unsafe { call!(__NR_ptrace, pt::PTRACE_SETREGS, self.pid, 0, &raw const *registers) }
            .map(drop)
            .map_err(|error| InjectError::Refused("set registers", error))
    }

    fn peek(&self, address: u64) -> Option<u64> {
        let mut word = 0u64;
        // SAFETY: the raw call stores the word where `data` points.
        unsafe { call!(__NR_ptrace, pt::PTRACE_PEEKDATA, self.pid, address, &raw mut word) }.ok().map(|_| word)
    }

    fn poke(&self, address: u64, word: u64) -> Result<(), InjectError> {
        // SAFETY: writes in the tracee, where the caller says.
        unsafe { call!(__NR_ptrace, pt::PTRACE_POKEDATA, self.pid, address, word) }
            .map(drop)
            .map_err(|error| InjectError::Refused("write code", error))
    }

    /// Goes on until the next stop that is ours; signals that come meanwhile are kept.
    fn go_on(&mut self, step: &'static str, how: u32, until: i32) -> Result<(), InjectError> {
        loop {
            self.request(step, how, 0)?;
            let status = self.wait()?;
            let stop = (status >> 8) & 0xff;
            if stop == until {
                return Ok(());
            }
            if status >> 16 == 0 {
                self.signal = stop;
            }
        }
    }

    fn enter(&mut self, plan: &Plan) -> Result<(), InjectError> {
        if self.registers()?.cs != CODE_64 {
            return Err(InjectError::Foreign);
        }
        self.go_on("finish exec", pt::PTRACE_SYSCALL, SYSCALL_STOP)?;
        let original = self.registers()?;
        let vdso = plan.vdso_syscall.and_then(|offset| Some(self.vdso(original.rsp)? + offset));
        let written = match vdso {
            Some(_) => None,
            None => Some(self.write_syscall(original.rip)?),
        };
        let mapped = self.map_image(plan, &original, vdso.unwrap_or(original.rip));
        if let Some(code) = written {
            self.poke(original.rip, code)?;
        }
        match mapped {
            Ok(base) => self.set_registers(&Registers {
                rip: base + plan.image_entry,
                rdi: plan.descriptor as u64,
                rsi: original.rip,
                rdx: u64::from(plan.parent) | u64::from(plan.caller) << 32,
                orig_rax: u64::MAX,
                ..original
            }),
            Err(error) => {
                self.set_registers(&Registers { orig_rax: u64::MAX, ..original })?;
                Err(error)
            }
        }
    }

    fn map_image(&mut self, plan: &Plan, original: &Registers, at: u64) -> Result<u64, InjectError> {
        let protection = raw::PROT_READ | raw::PROT_WRITE | raw::PROT_EXEC;
        self.set_registers(&Registers {
            rip: at,
            rax: u64::from(raw::__NR_mmap),
            rdi: IMAGE_HINT,
            rsi: plan.image_bytes,
            rdx: u64::from(protection),
            r10: u64::from(raw::MAP_PRIVATE),
            r8: plan.descriptor as u64,
            r9: plan.image_offset,
            orig_rax: u64::MAX,
            ..*original
        })?;
        self.go_on("step", pt::PTRACE_SINGLESTEP, SIGTRAP)?;
        crate::sys::check(self.registers()?.rax).map_err(InjectError::Map)
    }

    /// `syscall` at `address`; returns what was there.
    fn write_syscall(&self, address: u64) -> Result<u64, InjectError> {
        let refused = InjectError::Refused("read code", Errno(linux_raw_sys::errno::EIO as i32));
        let old = self.peek(address).ok_or(refused)?;
        self.poke(address, old & !0xffff | u64::from(u16::from_le_bytes(system_call::INSTRUCTION)))?;
        Ok(old)
    }

    /// Where the vdso is, from the auxiliary vector on the new stack: argc, arguments, 0, variables, 0, pairs.
    fn vdso(&self, stack: u64) -> Option<u64> {
        let mut at = stack + 8 * (self.peek(stack)?.min(MOST_STACK_WORDS) + 2);
        let end = at + 8 * MOST_STACK_WORDS;
        while at < end && self.peek(at)? != 0 {
            at += 8;
        }
        at += 8;
        while at < end {
            match (self.peek(at)?, self.peek(at + 8)?) {
                (0, _) => return None,
                (AT_SYSINFO_EHDR, address) => return Some(address),
                _ => at += 16,
            }
        }
        None
    }
}

/// Where the agent would like to be: below its other memory ([`crate::sys`]), and, to the predictor of jumps, away from
/// the translations ([`crate::code::arenas`]).
const IMAGE_HINT: u64 = 0x7e8f_00f0_0000;

/// The offset of a `syscall` instruction in the bytes of a vdso. Any two bytes like it do: they are executed as such.
pub fn find_syscall(vdso: &[u8]) -> Option<u64> {
    vdso.windows(2).position(|pair| pair == system_call::INSTRUCTION).map(|at| at as u64)
}
