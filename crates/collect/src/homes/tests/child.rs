//! Child processes that hold memory of a known kind and then wait to be killed.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use numalens_profile::ids::Page;

/// A mapping made before the fork and filled by the child alone.
pub struct Memory {
    pub pid: i32,
    pub start: u64,
    pub bytes: u64,
}

impl Memory {
    /// Private anonymous memory, filled by `fill` in the child. `fill` must not allocate: it runs after a fork of a
    /// program with threads.
    pub fn new(bytes: u64, fill: impl FnOnce(&Memory)) -> Self {
        Self::map(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, fill).expect("mmap")
    }

    /// A file, shared.
    pub fn of_file(path: &Path, bytes: u64, fill: impl FnOnce(&Memory)) -> Self {
        let file = File::options().read(true).write(true).open(path).unwrap();
        Self::map(bytes, libc::MAP_SHARED, file.as_raw_fd(), fill).expect("mmap")
    }

    /// One huge page; `None` when the system has none to give.
    pub fn of_hugetlb(fill: impl FnOnce(&Memory)) -> Option<Self> {
        Self::map(2 << 20, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB, -1, fill)
    }

    fn map(bytes: u64, flags: i32, fd: i32, fill: impl FnOnce(&Memory)) -> Option<Self> {
        let (ready, done) = pipe();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping anywhere, used by address only.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes as usize, protection, flags, fd, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let mut memory = Memory { pid: 0, start: start as u64, bytes };
        // SAFETY: the child calls `fill` and system calls only, then waits for its end.
        memory.pid = unsafe { libc::fork() };
        assert!(memory.pid >= 0, "fork");
        if memory.pid == 0 {
            fill(&memory);
            let _ = File::from(done).write_all(b"!");
            loop {
                // SAFETY: pause has no preconditions.
                unsafe { libc::pause() };
            }
        }
        drop(done);
        // SAFETY: the mapping made above; the child keeps its copy.
        unsafe { libc::munmap(start, bytes as usize) };
        File::from(ready).read_exact(&mut [0]).expect("the child has filled its memory");
        Some(memory)
    }

    /// Kills the child and waits until it is a zombie.
    pub fn become_zombie(&self) {
        // SAFETY: our own child; WNOWAIT leaves it to be waited for again, and nothing is written.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            let flags = libc::WEXITED | libc::WNOWAIT;
            libc::waitid(libc::P_PID, self.pid as libc::id_t, std::ptr::null_mut(), flags);
        }
    }

    pub fn end(&self) -> u64 {
        self.start + self.bytes
    }

    pub fn holds(&self, page: Page) -> bool {
        (self.start..self.end()).contains(&page.address())
    }

    pub fn write(&self, offset: u64, bytes: u64) {
        for at in (offset..offset + bytes).step_by(Page::BYTES as usize) {
            // SAFETY: within the mapping, which is writable.
            unsafe { ((self.start + at) as *mut u8).write_volatile(1) };
        }
    }

    pub fn read(&self, offset: u64, bytes: u64) {
        for at in (offset..offset + bytes).step_by(Page::BYTES as usize) {
            // SAFETY: within the mapping, which is readable.
            unsafe { ((self.start + at) as *const u8).read_volatile() };
        }
    }

    pub fn unmap(&self, offset: u64, bytes: u64) {
        // SAFETY: a part of the mapping, not used afterwards.
        unsafe { libc::munmap((self.start + offset) as *mut _, bytes as usize) };
    }

    pub fn forbid(&self, offset: u64, bytes: u64) {
        // SAFETY: a part of the mapping, not used afterwards.
        unsafe { libc::mprotect((self.start + offset) as *mut _, bytes as usize, libc::PROT_NONE) };
    }

    pub fn want_huge(&self) {
        // SAFETY: advice about the whole mapping.
        unsafe { libc::madvise(self.start as *mut _, self.bytes as usize, libc::MADV_HUGEPAGE) };
    }

    pub fn no_huge(&self) {
        // SAFETY: advice about the whole mapping.
        unsafe { libc::madvise(self.start as *mut _, self.bytes as usize, libc::MADV_NOHUGEPAGE) };
    }

    /// Replaces a part by memory that the kernel fills at once.
    pub fn populate(&self, offset: u64, bytes: u64) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_POPULATE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: replaces a part of the mapping that nothing refers to.
        unsafe { libc::mmap((self.start + offset) as *mut _, bytes as usize, protection, flags, -1, 0) };
    }

    /// `read()` into memory never touched.
    pub fn read_file_into(&self, offset: u64, bytes: u64) {
        // SAFETY: the buffer is within the mapping; a constant path.
        unsafe {
            let fd = libc::open(c"/dev/urandom".as_ptr(), libc::O_RDONLY);
            libc::read(fd, (self.start + offset) as *mut _, bytes as usize);
            libc::close(fd);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: our own child, not yet waited for.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, which are owned by nobody else.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

/// PAGEMAP_SCAN exists: Linux 6.7 and later.
pub fn has_scan() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(7))
}

/// MADV_HUGEPAGE has an effect here.
pub fn huge_pages_on_request() -> bool {
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    enabled.contains("[madvise]") || enabled.contains("[always]")
}

/// Runs `ask` as user nobody in a child and brings back its numbers.
pub fn as_nobody<const N: usize>(ask: impl FnOnce() -> [Option<i32>; N]) -> [Option<i32>; N] {
    let (from, to) = pipe();
    // SAFETY: the child becomes another user, asks, writes and ends. It allocates after the fork; glibc keeps its
    // allocator usable there.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        // SAFETY: only this child's credentials change; `_exit` ends it.
        unsafe {
            libc::setgroups(0, std::ptr::null());
            libc::setresgid(65534, 65534, 65534);
            libc::setresuid(65534, 65534, 65534);
        }
        let numbers = ask().map(|number| number.unwrap_or(0));
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let _ = File::from(to).write_all(&bytes);
        // SAFETY: ends the child without running anybody's destructors.
        unsafe { libc::_exit(0) };
    }
    drop(to);
    let mut bytes = Vec::new();
    File::from(from).read_to_end(&mut bytes).unwrap();
    // SAFETY: our own child.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    assert_eq!(bytes.len(), 4 * N);
    std::array::from_fn(|at| {
        let number = i32::from_le_bytes(bytes[4 * at..4 * at + 4].try_into().unwrap());
        (number != 0).then_some(number)
    })
}

/// Calls `ask` with this process and a thread of it that has `policy` on node 0, while a mapping below all others has
/// the policy `mapping_policy`.
pub fn with_policy<T: Send>(policy: i32, mapping_policy: Option<i32>, ask: impl FnOnce(i32, i32) -> T + Send) -> T {
    let pid = std::process::id() as i32;
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let nodes = [u64::from(policy != libc::MPOL_DEFAULT)];
                // SAFETY: a mask of one word; the thread's own policy.
                let set = unsafe { libc::syscall(libc::SYS_set_mempolicy, policy, nodes.as_ptr(), 64) };
                assert_eq!(set, 0, "set_mempolicy: {}", std::io::Error::last_os_error());
                let low = mapping_policy.map(low_mapping);
                // SAFETY: no preconditions.
                let tid = unsafe { libc::gettid() };
                let answer = ask(pid, tid);
                if let Some(low) = low {
                    // SAFETY: the mapping made for this test.
                    unsafe { libc::munmap(low, 4096) };
                }
                answer
            })
            .join()
            .unwrap()
    })
}

fn low_mapping(policy: i32) -> *mut libc::c_void {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: nothing is mapped there, else the call fails.
    let low = unsafe { libc::mmap(0x10000 as *mut _, 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    assert_ne!(low, libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
    let nodes = [1u64];
    // SAFETY: a mask of one word, for the mapping just made.
    let bound = unsafe { libc::syscall(libc::SYS_mbind, low, 4096, policy, nodes.as_ptr(), 64, 0) };
    assert_eq!(bound, 0, "mbind: {}", std::io::Error::last_os_error());
    low
}

/// Calls `ask` with a thread that may run on `cpu` only.
pub fn bound_to<T: Send>(cpu: u32, ask: impl FnOnce(i32) -> T + Send) -> T {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let mut set = nix::sched::CpuSet::new();
                set.set(cpu as usize).unwrap();
                nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).unwrap();
                // SAFETY: no preconditions.
                ask(unsafe { libc::gettid() })
            })
            .join()
            .unwrap()
    })
}
