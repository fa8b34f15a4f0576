//! Numbers of system calls by `int 0x80`, of those that have something of their own there: another shape, another
//! meaning. The others stand in the rows of [`super::table`], beside the numbers of the same calls by `syscall`.

pub const EXECVE: u32 = 11;
pub const GETPID: u32 = 20;
pub const SIGNAL: u32 = 48;
pub const SIGACTION: u32 = 67;
pub const SGETMASK: u32 = 68;
pub const SSETMASK: u32 = 69;
pub const SIGPENDING: u32 = 73;
pub const SETRLIMIT: u32 = 75;
/// `getrlimit` as it was, with limits that are signed.
pub const OLD_GETRLIMIT: u32 = 76;
/// `mmap` with its arguments in memory.
pub const OLD_MMAP: u32 = 90;
pub const IPC: u32 = 117;
pub const SIGRETURN: u32 = 119;
pub const CLONE: u32 = 120;
pub const SIGPROCMASK: u32 = 126;
pub const READV: u32 = 145;
pub const PRCTL: u32 = 172;
pub const RT_SIGRETURN: u32 = 173;
pub const RT_SIGACTION: u32 = 174;
pub const PWRITE64: u32 = 181;
pub const SIGALTSTACK: u32 = 186;
pub const GETRLIMIT: u32 = 191;
/// `mmap` whose offset is in pages.
pub const MMAP2: u32 = 192;
pub const MOVE_PAGES: u32 = 317;
pub const PREADV: u32 = 333;
pub const SECCOMP: u32 = 354;
pub const EXECVEAT: u32 = 358;
pub const PREADV2: u32 = 378;
pub const ARCH_PRCTL: u32 = 384;
pub const SHMAT: u32 = 397;
pub const SHMDT: u32 = 398;
