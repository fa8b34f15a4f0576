//! System calls of the agent itself: raw, without errno, libc or vector registers.
//!
//! Everything that the agent asks of the kernel goes through this module. The program's own system calls do not: they
//! are executed in the code cache, after [`crate::syscalls`] has looked at them.

pub mod arch;
pub mod heap;
pub mod lock;
pub mod user;

use core::arch::{asm, global_asm};
use core::ops::Range;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
pub use linux_raw_sys::general as raw;
use numalens_event::exact::SessionHeader;
pub use numalens_isa::{PAGE, PAGE_BITS};

/// An error number of the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl core::fmt::Debug for Errno {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "error {}", self.0)
    }
}

/// Makes a system call and returns what the kernel left in rax.
///
/// # Safety
/// As the call itself: the arguments must be what the kernel will do no harm with.
#[inline(always)]
pub unsafe fn syscall(number: u32, arguments: [u64; 6]) -> u64 {
    let [a, b, c, d, e, f] = arguments;
    let result: u64;
    // SAFETY: the caller's promise; the kernel changes rax, rcx and r11 only.
    unsafe {
        asm!("syscall", inlateout("rax") u64::from(number) => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

unsafe extern "C" {
    fn program_syscall(number: u64, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> u64;
    /// Behind the `syscall` instruction that makes the program's calls.
    fn program_syscall_made();
}

// The arguments come as the C convention has them: the number first, the last on the stack.
global_asm!(
    ".globl program_syscall, program_syscall_made",
    "program_syscall:",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "mov r9, [rsp + 8]",
    "syscall",
    "program_syscall_made:",
    "ret",
);

/// Makes a system call of the program's in its name: from a place that its seccomp filters judge like the program's own
/// ([`crate::syscalls::seccomp`]).
///
/// # Safety
/// As the call itself.
pub unsafe fn for_program(number: u32, arguments: [u64; 6]) -> u64 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the caller's promise.
    unsafe { program_syscall(u64::from(number), a, b, c, d, e, f) }
}

unsafe extern "C" {
    fn program_old_syscall(number: u64, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> u64;
    /// Behind the `int 0x80` that makes the program's calls by 32-bit rules.
    fn program_old_syscall_made();
}

global_asm!(
    ".globl program_old_syscall, program_old_syscall_made",
    "program_old_syscall:",
    "push rbx",
    "push rbp",
    "mov eax, edi",
    "mov ebx, esi",
    "mov r10d, edx",
    "mov r11d, ecx",
    "mov esi, r8d",
    "mov edi, r9d",
    "mov ebp, [rsp + 24]",
    "mov ecx, r10d",
    "mov edx, r11d",
    "int 0x80",
    "program_old_syscall_made:",
    "pop rbp",
    "pop rbx",
    "ret",
);

/// The same by `int 0x80`: numbers, structures and where memory goes are those of 32-bit programs.
///
/// # Safety
/// As the call itself.
pub unsafe fn for_program_by_old_rules(number: u32, arguments: [u64; 6]) -> u64 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the caller's promise.
    unsafe { program_old_syscall(u64::from(number), a, b, c, d, e, f) }
}

/// The addresses that the kernel reports for calls of [`for_program`] and [`for_program_by_old_rules`].
pub fn program_call_addresses() -> [u64; 2] {
    [program_syscall_made as *const () as u64, program_old_syscall_made as *const () as u64]
}

/// Errors of the kernel's have numbers up to this one.
const MOST_ERROR: i64 = 4095;

/// What the kernel left in rax, as a result.
pub fn check(result: u64) -> Result<u64, Errno> {
    let signed = result as i64;
    if (-MOST_ERROR..0).contains(&signed) { Err(Errno(-signed as i32)) } else { Ok(result) }
}

/// A system call by name, with as many arguments as it has; gives a `Result<u64, Errno>`.
#[macro_export]
macro_rules! call {
    ($name:ident $(, $argument:expr)* $(,)?) => {{
        let given: &[u64] = &[$($argument as u64),*];
        let mut arguments = [0u64; 6];
        arguments[..given.len()].copy_from_slice(given);
        $crate::sys::check($crate::sys::syscall($crate::sys::raw::$name, arguments))
    }};
}

/// Operations of `futex`, on words that processes may share.
pub const FUTEX_WAIT: u32 = 0;
pub const FUTEX_WAKE: u32 = 1;
/// The end of a program's address space.
pub const USER_END: u64 = 1 << 47;

/// Where memory of the agent's goes, one piece behind the other and nothing twice. First comes a range that is below
/// where the kernel begins to put mappings, however it shuffles them, and above where programs that lay out memory
/// themselves (sanitizers, emulators) put theirs: who must expect what the kernel puts there expects anything there.
/// When that is full, a range follows that hardly any program uses.
const WINDOWS: [Range<u64>; 2] = [0x7e90_0000_0000..0x7ef0_0000_0000, 0x1100_0000_0000..0x5000_0000_0000];
/// Bytes between two pieces, at least: none is taken for a part of another one.
const APART: u64 = 2 << 20;
/// So many bytes of the first range, and then of the second one, over and over, are given.
static GIVEN: AtomicU64 = AtomicU64::new(0);

fn bytes_of(window: &Range<u64>) -> u64 {
    window.end - window.start
}

/// The ranges in which the agent's memory lies, as far as they were given: all of it but the image, code, and the table
/// of pages.
pub fn own_windows() -> [Range<u64>; 2] {
    let mut given = GIVEN.load(Ordering::Relaxed);
    WINDOWS.map(|window| {
        let of_this = given.min(bytes_of(&window));
        given -= of_this;
        window.start..window.start + of_this
    })
}

/// Whether memory at an address is the agent's, if it is not the program's.
pub fn is_own(address: u64) -> bool {
    own_windows().iter().any(|window| window.contains(&address))
}

/// Where in the ranges a piece of so many bytes goes at the earliest when so many are given, and how many are given
/// then.
fn place_of(given: u64, bytes: u64) -> (u64, u64) {
    let needed = bytes.next_multiple_of(APART) + APART;
    let (first, second) = (bytes_of(&WINDOWS[0]), bytes_of(&WINDOWS[1]));
    if given + needed <= first {
        return (WINDOWS[0].start + given, given + needed);
    }
    let mut behind = given.max(first) - first;
    if behind % second + needed > second {
        behind = behind.next_multiple_of(second);
    }
    (WINDOWS[1].start + behind % second, first + behind + needed)
}

/// Room for so many bytes.
fn next_place(bytes: u64) -> u64 {
    let mut at = 0;
    let take = |given| {
        let (place, then) = place_of(given, bytes);
        at = place;
        Some(then)
    };
    let _ = GIVEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
    at
}

/// Maps so many bytes where nothing is, with `flags` and a file as `mmap` has them.
fn map_apart(bytes: u64, protection: u32, flags: u32, descriptor: u64, offset: u64) -> Result<u64, Errno> {
    const PATIENCE: u32 = 64;
    let mut skipped = APART;
    let mut tried = 0;
    loop {
        match map_where_free(next_place(bytes), bytes, protection, flags, descriptor, offset) {
            // The program is there, with something that may be vast.
            Err(Errno(error)) if error == linux_raw_sys::errno::EEXIST as i32 && tried < PATIENCE => {
                tried += 1;
                skipped = (skipped * 2).min(1 << 40);
                next_place(skipped);
            }
            mapped => return mapped,
        }
    }
}

/// Maps at `address` and nowhere else; `EEXIST`: something is there.
fn map_where_free(
    address: u64,
    bytes: u64,
    protection: u32,
    flags: u32,
    descriptor: u64,
    offset: u64,
) -> Result<u64, Errno> {
    let flags = flags | raw::MAP_FIXED_NOREPLACE;
    // SAFETY: MAP_FIXED_NOREPLACE leaves what exists alone.
    let got = unsafe { call!(__NR_mmap, address, bytes, protection, flags, descriptor, offset) }?;
    if got == address {
        return Ok(got);
    }
    // A kernel older than 4.17 takes the address for a hint.
    unmap(got, bytes);
    Err(Errno(linux_raw_sys::errno::EEXIST as i32))
}

/// Reserves or allocates memory without a file, far away from the program's.
pub fn map_private(bytes: u64, protection: u32) -> Result<u64, Errno> {
    let flags = raw::MAP_PRIVATE | raw::MAP_ANONYMOUS | raw::MAP_NORESERVE;
    map_apart(bytes, protection, flags, u64::MAX, 0)
}

/// The same at `address` and nowhere else, if nothing is there yet.
pub fn map_private_at(address: u64, bytes: u64, protection: u32) -> Result<u64, Errno> {
    let flags = raw::MAP_PRIVATE | raw::MAP_ANONYMOUS | raw::MAP_NORESERVE;
    map_where_free(address, bytes, protection, flags, u64::MAX, 0)
}

/// Has the kernel provide the pages of memory of the agent's that is about to be filled, all at once: that takes a
/// fraction of the time that a fault for each takes. Where it is refused, they come one by one.
pub fn populate(at: u64, bytes: u64) {
    // SAFETY: what the memory holds stays as it is.
    let _ = unsafe { call!(__NR_madvise, at, bytes, raw::MADV_POPULATE_WRITE) };
}

/// The same for memory that fills up, so many bytes at a time. `ready` is where what is provided ends, `wanted` how far
/// it is to reach, `end` how far it can.
pub fn provide(ready: &mut u64, wanted: u64, end: u64, step: u64) {
    while *ready < wanted.min(end) {
        let bytes = step.min(end - *ready);
        populate(*ready, bytes);
        *ready += bytes;
    }
}

/// Opens a file.
pub fn open(path: &core::ffi::CStr, how: u32) -> Option<i32> {
    // SAFETY: NUL-terminated.
    let file = unsafe { call!(__NR_openat, raw::AT_FDCWD, path.as_ptr(), how | raw::O_CLOEXEC, 0) };
    file.ok().map(|file| file as i32)
}

/// Bytes of an open file.
pub fn length(file: i32) -> Option<u64> {
    const SEEK_END: u32 = 2;
    // SAFETY: no memory is passed.
    unsafe { call!(__NR_lseek, file, 0, SEEK_END) }.ok()
}

/// Closes one.
pub fn close(file: i32) {
    // SAFETY: a descriptor of our own.
    let _ = unsafe { call!(__NR_close, file) };
}

/// Maps a file, to be read, far away from the program's memory.
pub fn map_file(bytes: u64, descriptor: i32) -> Result<u64, Errno> {
    map_apart(bytes, raw::PROT_READ, raw::MAP_PRIVATE, descriptor as u64, 0)
}

/// Maps a piece of a file, shared, far away from the program's memory.
pub fn map_shared(bytes: u64, descriptor: i32, offset: u64) -> Result<u64, Errno> {
    let protection = raw::PROT_READ | raw::PROT_WRITE;
    map_apart(bytes, protection, raw::MAP_SHARED | raw::MAP_NORESERVE, descriptor as u64, offset)
}

/// The same, to be read.
pub fn map_shared_readable(bytes: u64, descriptor: i32, offset: u64) -> Result<u64, Errno> {
    map_apart(bytes, raw::PROT_READ, raw::MAP_SHARED | raw::MAP_NORESERVE, descriptor as u64, offset)
}

/// The same at `address`, in place of whatever is there.
///
/// # Safety
/// What it replaces must be the agent's own.
pub unsafe fn map_shared_over(address: u64, bytes: u64, descriptor: i32, offset: u64) -> Result<u64, Errno> {
    let flags = raw::MAP_SHARED | raw::MAP_NORESERVE | raw::MAP_FIXED;
    let protection = raw::PROT_READ | raw::PROT_WRITE;
    // SAFETY: the caller's promise.
    unsafe { call!(__NR_mmap, address, bytes, protection, flags, descriptor, offset) }
}

/// Gives memory of the agent back, all of a piece.
pub fn unmap(address: u64, bytes: u64) {
    let given = GIVEN.load(Ordering::Relaxed);
    let needed = bytes.next_multiple_of(APART) + APART;
    // What is given back at once, as most is that is mapped to write something down, takes no room.
    if let Some(before) = given.checked_sub(needed).filter(|&before| place_of(before, bytes) == (address, given)) {
        // SAFETY: as below.
        let gone = unsafe { call!(__NR_munmap, address, bytes) };
        if gone.is_ok() {
            let _ = GIVEN.compare_exchange(given, before, Ordering::Relaxed, Ordering::Relaxed);
        }
        return;
    }
    // SAFETY: only ever called with mappings that the agent made and no longer uses.
    let _ = unsafe { call!(__NR_munmap, address, bytes) };
}

/// Ends the process.
pub fn exit_group(status: i32) -> ! {
    loop {
        // SAFETY: does not return.
        let _ = unsafe { call!(__NR_exit_group, status) };
    }
}

/// Ends this thread or helper process alone.
pub fn exit(status: i32) -> ! {
    loop {
        // SAFETY: does not return.
        let _ = unsafe { call!(__NR_exit, status) };
    }
}

/// This thread's id.
pub fn thread_id() -> u32 {
    // SAFETY: no arguments.
    unsafe { call!(__NR_gettid) }.unwrap_or(0) as u32
}

/// This process's id.
pub fn process_id() -> u32 {
    // SAFETY: no arguments.
    unsafe { call!(__NR_getpid) }.unwrap_or(0) as u32
}

/// The session's header, for its clock; 0 before it is mapped, and where the program forbids to read the counter.
static CLOCK: AtomicU64 = AtomicU64::new(0);

/// Lets [`now_ns`] use the session's clock, unless the program has inherited that it must not read the counter.
pub fn use_clock(header: &'static SessionHeader) {
    use linux_raw_sys::prctl::{PR_GET_TSC, PR_TSC_SIGSEGV};
    let mut mode = 0u32;
    // SAFETY: a word of our own for the answer.
    let asked = unsafe { call!(__NR_prctl, PR_GET_TSC, &raw mut mode) };
    if asked.is_err() || mode != PR_TSC_SIGSEGV {
        CLOCK.store(&raw const *header as u64, Ordering::Relaxed);
    }
}

/// The time stamp counter must not be read any more: the program has forbidden it to itself.
pub fn forget_clock() {
    CLOCK.store(0, Ordering::Relaxed);
}

/// Whether there is such a process, as far as can be seen from here.
pub fn exists(pid: u32) -> bool {
    // SAFETY: no signal is sent.
    let found = unsafe { call!(__NR_kill, pid, 0) };
    found != Err(Errno(linux_raw_sys::errno::ESRCH as i32))
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub fn now_ns() -> u64 {
    let header = CLOCK.load(Ordering::Relaxed) as *const SessionHeader;
    // SAFETY: null or the session's header, which stays mapped.
    if let Some(header) = unsafe { header.as_ref() } {
        let anchor = header.clock_in_force.load(Ordering::Acquire) as usize & 1;
        // SAFETY: every x86-64 has the counter, and the program may read it.
        let ticks = unsafe { core::arch::x86_64::_rdtsc() };
        if let Some(now) = header.clock[anchor].at(ticks) {
            return now;
        }
    }
    let mut time = [0u64; 2];
    // SAFETY: two words for the answer.
    let _ = unsafe { call!(__NR_clock_gettime, raw::CLOCK_MONOTONIC, &raw mut time) };
    time[0] * 1_000_000_000 + time[1]
}

/// The CPU that this thread is on.
pub fn cpu() -> u32 {
    let mut cpu = 0u32;
    // SAFETY: a word for the answer.
    let _ = unsafe { call!(__NR_getcpu, &raw mut cpu, 0, 0) };
    cpu
}

/// Has the kernel write the calling thread's name.
pub fn thread_name(name: &[AtomicU8; 16]) {
    // SAFETY: the kernel writes 16 bytes, which others may read meanwhile.
    let _ = unsafe { call!(__NR_prctl, linux_raw_sys::prctl::PR_GET_NAME, name.as_ptr()) };
}

/// The seccomp mode of the calling thread.
pub fn seccomp_mode() -> u64 {
    // SAFETY: a question without memory.
    unsafe { call!(__NR_prctl, linux_raw_sys::prctl::PR_GET_SECCOMP) }.unwrap_or(0)
}

/// Whether the process may do what only root may.
pub fn is_root() -> bool {
    // SAFETY: no arguments.
    let user = unsafe { call!(__NR_geteuid) };
    user == Ok(0)
}

/// Sleeps for some ten microseconds.
pub fn nap() {
    let time = [0u64, 10_000];
    // SAFETY: a time of our own to read.
    let _ = unsafe { call!(__NR_nanosleep, &raw const time, 0) };
}

/// Whether a thread of a process can still run: it is there, and has not ended.
pub fn is_alive(process: u32, tid: i32) -> bool {
    let path = alloc::format!("/proc/{process}/task/{tid}/stat\0");
    let Some(file) =
        core::ffi::CStr::from_bytes_with_nul(path.as_bytes()).ok().and_then(|path| open(path, raw::O_RDONLY))
    else {
        // Without /proc: whether it is there.
        // SAFETY: signal 0 is none.
        return unsafe { call!(__NR_tgkill, process, tid, 0) }.is_ok();
    };
    let mut text = [0u8; 128];
    // SAFETY: so many bytes of our own.
    let read = unsafe { call!(__NR_read, file, text.as_mut_ptr(), text.len()) };
    close(file);
    let text = &text[..read.unwrap_or(0) as usize];
    // Behind the name, which may have any letters.
    let state = text.iter().rposition(|&byte| byte == b')').and_then(|at| text.get(at + 2));
    !matches!(state, None | Some(b'Z' | b'X'))
}

/// Whether the 8 bytes at `address` can be read, found out without touching them: rt_sigprocmask copies the mask in
/// before it refuses the unknown `how`.
pub fn is_readable(address: u64) -> bool {
    if !(PAGE..USER_END).contains(&address) {
        return false;
    }
    // SAFETY: changes nothing: `how` is invalid.
    let answer = unsafe { call!(__NR_rt_sigprocmask, 77, address, 0, 8) };
    answer == Err(Errno(linux_raw_sys::errno::EINVAL as i32))
}

/// Writes to standard error, for the last words of a program that cannot go on and for debugging.
pub struct Stderr;

impl core::fmt::Write for Stderr {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        // SAFETY: the bytes are readable for their length.
        let _ = unsafe { call!(__NR_write, 2, text.as_ptr(), text.len()) };
        Ok(())
    }
}

/// A line on standard error in one write, as long as it fits.
#[macro_export]
macro_rules! say {
    ($($argument:tt)*) => {{
        let mut line = $crate::sys::Line::new();
        let _ = core::fmt::Write::write_fmt(&mut line, format_args!($($argument)*));
        line.flush();
    }};
}

/// A line under construction.
pub struct Line {
    bytes: [u8; 400],
    used: usize,
}

impl Line {
    /// An empty one.
    #[expect(clippy::new_without_default, reason = "only the macro makes them")]
    pub fn new() -> Self {
        Line { bytes: [0; 400], used: 0 }
    }

    /// What fitted.
    pub fn text(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Writes it out.
    pub fn flush(mut self) {
        let end = self.used.min(self.bytes.len() - 1);
        self.bytes[end] = b'\n';
        // SAFETY: `end + 1` bytes of our own.
        let _ = unsafe { call!(__NR_write, 2, self.bytes.as_ptr(), end + 1) };
    }
}

impl core::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.bytes.len() - self.used;
        let take = text.len().min(room);
        self.bytes[self.used..self.used + take].copy_from_slice(&text.as_bytes()[..take]);
        self.used += take;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_memory_is_told_from_the_programs() {
        let ours = map_private(PAGE, raw::PROT_READ).unwrap();
        assert!(is_own(ours) && !is_own(&raw const ours as u64) && !is_own(WINDOWS[0].start - 1));
        unmap(ours, PAGE);
    }

    #[test]
    fn what_the_program_has_in_the_way_is_stepped_over() {
        let first = map_private(PAGE, raw::PROT_READ).unwrap();
        let (theirs, piece) = (first + (1 << 30), 64 << 20);
        map_private_at(theirs, piece, raw::PROT_READ).unwrap();
        for _ in 0..40 {
            let ours = map_private(piece, raw::PROT_READ).unwrap();
            assert!(is_own(ours) && (ours + piece <= theirs || theirs + piece <= ours), "{ours:#x}");
        }
    }
}
