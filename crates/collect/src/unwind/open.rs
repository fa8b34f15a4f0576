//! Opening the file behind a mapping of another process.
//!
//! The path in a mapping is text that the target chose the meaning of: the file may be deleted, replaced, on
//! another mount namespace, a memfd, a FIFO or a device whose `open` has side effects. So every candidate is first
//! opened with `O_PATH`, which touches nothing, and reopened for reading only when it is a regular file.

use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Opens the file that `path` names in process `pid`, where it is mapped at `start..end`.
///
/// Tried in this order: the mapping itself (`/proc/PID/map_files`, exact even for deleted files and memfds, needs
/// `CAP_CHECKPOINT_RESTORE`), the path below the process's root, its executable when that is the file meant, its
/// open file descriptors for a memfd, and the path as it is, unless the process is alive in another mount namespace.
pub(crate) fn open_mapped(pid: Option<i32>, start: u64, end: u64, path: &Path) -> Option<File> {
    let text = path.as_os_str().as_bytes();
    if text == b"[vdso]" {
        return vdso_image();
    }
    if !text.starts_with(b"/") || text.starts_with(b"//") {
        return None;
    }
    let deleted = text.strip_suffix(b" (deleted)");
    let plain = Path::new(std::ffi::OsStr::from_bytes(deleted.unwrap_or(text)));
    if let Some(pid) = pid {
        let proc_dir = PathBuf::from(format!("/proc/{pid}"));
        let mapped = proc_dir.join(format!("map_files/{start:x}-{end:x}"));
        // Another file may lie there by now: what was opened is asked, as the next look may find yet another.
        if let Some(file) = open_regular(&mapped).filter(|file| is_named(file, plain)) {
            return Some(file);
        }
        let exe = proc_dir.join("exe");
        if std::fs::read_link(&exe).is_ok_and(|target| target == path)
            && let Some(file) = open_regular(&exe)
        {
            return Some(file);
        }
        if deleted.is_some() {
            // The name now belongs to nobody, or to another file. A memfd may still be open in the process.
            return open_descriptor_of(&proc_dir, path);
        }
        let inside = proc_dir.join("root").join(plain.strip_prefix("/").ok()?);
        if let Some(file) = open_regular(&inside) {
            return Some(file);
        }
        if in_other_mount_namespace(&proc_dir) {
            return None;
        }
    }
    if deleted.is_some() { None } else { open_regular(plain) }
}

/// Whether the kernel's name of a file is this one; it may have been deleted since.
fn is_named(file: &File, plain: &Path) -> bool {
    let Ok(target) = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())) else { return false };
    let target = target.as_os_str().as_bytes();
    target.strip_suffix(b" (deleted)").unwrap_or(target) == plain.as_os_str().as_bytes()
}

/// The process's own descriptor whose link says `path`.
fn open_descriptor_of(proc_dir: &Path, path: &Path) -> Option<File> {
    std::fs::read_dir(proc_dir.join("fd"))
        .ok()?
        .flatten()
        .take(4096)
        .find(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target == path))
        .and_then(|entry| open_regular(&entry.path()))
}

fn in_other_mount_namespace(proc_dir: &Path) -> bool {
    match (std::fs::read_link(proc_dir.join("ns/mnt")), std::fs::read_link("/proc/self/ns/mnt")) {
        (Ok(theirs), Ok(ours)) => theirs != ours,
        _ => false,
    }
}

/// Opens `path` for reading if, and only if, it is a regular file.
pub(crate) fn open_regular(path: &Path) -> Option<File> {
    let handle = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(path).ok()?;
    if !handle.metadata().ok()?.is_file() {
        return None;
    }
    let again = format!("/proc/self/fd/{}", handle.as_raw_fd());
    std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(again)
        .ok()
}

/// A memory file with the bytes of this process's vdso: every process of the machine maps the same image.
/// (A 32-bit target maps another one; it is not profiled.)
fn vdso_image() -> Option<File> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let len = usize::from_str_radix(end, 16).ok()?.checked_sub(start)?;
    // SAFETY: the kernel maps the vdso readable at this range for the life of the process, and nobody unmaps it here.
    let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, len) };
    let mut file = memory_file("vdso")?;
    file.write_all(bytes).ok()?;
    Some(file)
}

/// An empty anonymous file.
fn memory_file(name: &str) -> Option<File> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is a valid C string for the duration of the call; the result is a new descriptor or -1.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return None;
    }
    // SAFETY: `fd` is a descriptor just created and owned by nobody else.
    Some(unsafe { File::from_raw_fd(fd) })
}
