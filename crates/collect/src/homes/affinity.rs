//! The CPUs a thread may run on.

use std::io;

use numalens_topology::CpuSet;

/// More CPUs than any kernel is built for, in bytes of mask.
const LARGEST_MASK: usize = 1 << 16;

/// The allowed CPUs of thread `tid` (0: the caller), of this or another process; machines of any size.
///
/// # Errors
/// ESRCH: no such thread.
pub fn thread_affinity(tid: i32) -> io::Result<CpuSet> {
    let mut mask = vec![0u64; 16];
    loop {
        let bytes = mask.len() * size_of::<u64>();
        // SAFETY: `mask` holds `bytes` writable bytes, and the kernel writes no more than that.
        let written = unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid, bytes, mask.as_mut_ptr()) };
        if let Ok(written) = usize::try_from(written) {
            let mut cpus = CpuSet::new();
            for (word, &bits) in (0u32..).zip(&mask[..written.min(bytes) / size_of::<u64>()]) {
                (0..64).filter(|bit| bits >> bit & 1 == 1).for_each(|bit| {
                    cpus.insert(word * 64 + bit);
                });
            }
            return Ok(cpus);
        }
        let error = io::Error::last_os_error();
        // EINVAL: the kernel's mask is longer than ours.
        if error.raw_os_error() != Some(libc::EINVAL) || bytes >= LARGEST_MASK {
            return Err(error);
        }
        mask.resize(mask.len() * 4, 0);
    }
}
