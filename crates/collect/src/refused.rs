//! What a failed system call says: which call, why it may have failed, and the way out.

use std::io;

/// An error of `call` with what it mostly means and what to do; its kind stays.
pub fn refused(call: &str, error: &io::Error) -> io::Error {
    let advice = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {
            ". A system call filter or a security policy refuses it, as containers' may: allow it (docker run --security-opt \
             seccomp=FILE), or record from the host"
        }
        Some(libc::ENOMEM) => {
            ". Memory or address space is used up: raise `ulimit -v`, the container's limit of memory, or vm.max_map_count"
        }
        Some(libc::EAGAIN) => {
            ". This user may have no more processes: raise `ulimit -u`, or the container's limit of them"
        }
        Some(libc::EMFILE) => ". Too many files are open: raise `ulimit -n`",
        Some(libc::ENFILE) => ". The system has too many open files: sudo sysctl fs.file-max=1000000",
        Some(libc::EFBIG) => ". The size of files is limited: raise `ulimit -f`",
        Some(libc::ENOSPC | libc::EDQUOT) => ". There is no room: make some, or name another place",
        _ => "",
    };
    io::Error::new(error.kind(), format!("{call} failed: {error}{advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_call_the_cause_and_the_way_out() {
        let error = refused("memfd_create", &io::Error::from_raw_os_error(libc::EPERM));
        let text = error.to_string();
        for words in ["memfd_create failed", "Operation not permitted", "filter", "seccomp"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(refused("mmap", &io::Error::from_raw_os_error(libc::ENOMEM)).to_string().contains("ulimit -v"));
    }
}
