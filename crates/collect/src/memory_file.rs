//! Files in memory, through which programs and the collector share what they tell each other.

use crate::refused::refused;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Write};

/// A file in memory that others may open by `/proc/PID/fd`, with a name and content.
///
/// # Errors
/// Those of `memfd_create` and of writing.
pub fn memory_file(name: &str, content: &[u8]) -> io::Result<File> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    // Kernels from 6.3 on may forbid code in memory files unless asked for; older ones do not know the question.
    let executable = MFdFlags::from_bits_retain(libc::MFD_EXEC);
    let fd = memfd_create(name, flags | executable).or_else(|_| memfd_create(name, flags));
    let fd = fd.map_err(|errno| refused("memfd_create", &errno.into()))?;
    let mut file = File::from(fd);
    file.write_all(content)?;
    Ok(file)
}
