//! What a file would be when executed, found out before it is.
//!
//! Follows scripts to their interpreters as the kernel does, and says why a program cannot be observed: it is none of
//! ours to trace (setuid, setgid, capabilities), or the engine does not translate it (32-bit, another processor).

use crate::call;
use crate::sys::user;
use crate::sys::{Errno, raw};

/// What keeps a program from being observed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// Neither 64-bit x86 nor a script: 32-bit, or for another processor.
    Foreign,
    /// It runs with another user's or group's rights, which a traced program would not get.
    Privileged,
    /// It may be executed but not read.
    Unreadable,
}

impl core::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Obstacle::Foreign => "it is not a 64-bit x86 program",
            Obstacle::Privileged => "it runs with the rights of another user or group (setuid, setgid or capabilities), which the kernel takes from programs that are watched",
            Obstacle::Unreadable => "it may be executed but not read",
        })
    }
}

/// Scripts that name scripts as interpreters: as deep as the kernel goes.
const DEEPEST: usize = 5;
/// Bytes at the start of a file that the kernel looks at.
const HEAD: usize = 256;
const AT_FDCWD: i32 = raw::AT_FDCWD;
const S_ISUID: u32 = 0o4000;
const S_ISGID: u32 = 0o2000;
const S_IXGRP: u32 = 0o010;

/// What a file would be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prospect {
    /// A program that can be observed, as far as one can tell.
    Observable,
    /// One that cannot.
    Unobservable(Obstacle),
    /// Nothing that can be executed: the exec will say what is wrong.
    NoProgram,
}

/// What the file at `path` (NUL-terminated, relative to the directory `folder`) would be.
///
/// # Safety
/// `path` is NUL-terminated.
pub unsafe fn prospect(folder: i32, path: *const u8, flags: u32) -> Prospect {
    // SAFETY: the caller's promise.
    match unsafe { follow(folder, path, flags) } {
        Ok(()) => Prospect::Observable,
        Err(Some(obstacle)) => Prospect::Unobservable(obstacle),
        Err(None) => Prospect::NoProgram,
    }
}

unsafe fn follow(folder: i32, path: *const u8, flags: u32) -> Result<(), Option<Obstacle>> {
    let mut head = [0u8; HEAD];
    // SAFETY: the caller's promise.
    let mut length = unsafe { look(folder, path, flags, &mut head) }?;
    for _ in 0..=DEEPEST {
        let mut name = [0u8; HEAD];
        if !interpreter(&head[..length], &mut name) {
            return if runs_here(&head[..length]) { Ok(()) } else { Err(Some(Obstacle::Foreign)) };
        }
        // SAFETY: `interpreter` leaves the last byte 0.
        length = unsafe { look(AT_FDCWD, name.as_ptr(), 0, &mut head) }?;
    }
    Err(None)
}

/// Reads the start of a file. `Err(None)`: it cannot be executed, or is nothing to look at.
///
/// # Safety
/// `path` is NUL-terminated.
unsafe fn look(folder: i32, path: *const u8, flags: u32, head: &mut [u8; HEAD]) -> Result<usize, Option<Obstacle>> {
    let open = raw::O_RDONLY
        | raw::O_CLOEXEC
        | raw::O_NONBLOCK
        | if flags & raw::AT_SYMLINK_NOFOLLOW != 0 { raw::O_NOFOLLOW } else { 0 };
    // SAFETY: the caller's promise; a descriptor of our own, closed below. An empty path stands for `folder` itself.
    unsafe {
        let itself = flags & raw::AT_EMPTY_PATH != 0 && {
            let mut first = [0u8];
            user::read_bytes(path as u64, &mut first).is_ok() && first == [0]
        };
        let file = match itself {
            true => {
                let path = alloc::format!("/proc/thread-self/fd/{folder}\0");
                call!(__NR_openat, AT_FDCWD, path.as_ptr(), raw::O_RDONLY | raw::O_CLOEXEC | raw::O_NONBLOCK, 0)
            }
            false => call!(__NR_openat, folder, path, open, 0),
        };
        let file = match file {
            Ok(file) => file,
            Err(Errno(error)) if error == linux_raw_sys::errno::EACCES as i32 => {
                let may_run = itself || call!(__NR_faccessat, folder, path, raw::X_OK, 0).is_ok();
                return Err(may_run.then_some(Obstacle::Unreadable));
            }
            // Without /proc. One that is open for its path alone cannot be read then.
            Err(_) if itself => folder as u64,
            Err(_) => return Err(None),
        };
        let mut stat: raw::stat = core::mem::zeroed();
        let known = call!(__NR_fstat, file, &raw mut stat).is_ok();
        let capable = call!(__NR_fgetxattr, file, c"security.capability".as_ptr(), 0, 0).is_ok_and(|bytes| bytes > 0);
        let read = call!(__NR_pread64, file, head.as_mut_ptr(), HEAD, 0);
        if file != folder as u64 {
            let _ = call!(__NR_close, file);
        }
        let (user, group) = (call!(__NR_geteuid).unwrap_or(0), call!(__NR_getegid).unwrap_or(0));
        let raised = stat.st_mode & S_ISUID != 0 && u64::from(stat.st_uid) != user
            || stat.st_mode & (S_ISGID | S_IXGRP) == S_ISGID | S_IXGRP && u64::from(stat.st_gid) != group
            || capable;
        // Root watches whom it likes: its programs keep their rights under ptrace.
        if known && raised && user != 0 {
            return Err(Some(Obstacle::Privileged));
        }
        read.map(|length| length as usize).map_err(|_| None)
    }
}

/// The interpreter that a script names, NUL-terminated in `name`.
fn interpreter(head: &[u8], name: &mut [u8; HEAD]) -> bool {
    let Some(line) = head.strip_prefix(b"#!") else { return false };
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or(line);
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = line.iter().position(|byte| !blank(byte)).unwrap_or(line.len());
    let word = line[start..].split(|byte| blank(byte) || *byte == 0).next().unwrap_or(&[]);
    name[..word.len()].copy_from_slice(word);
    !word.is_empty()
}

/// Whether the head is that of a 64-bit x86 ELF file, or of something that is no ELF file at all (the exec will fail,
/// or a registered interpreter takes it).
fn runs_here(head: &[u8]) -> bool {
    const CLASS_64: u8 = 2;
    const X86_64: [u8; 2] = [62, 0];
    !head.starts_with(b"\x7fELF") || head.len() >= 20 && head[4] == CLASS_64 && head[18..20] == X86_64
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;

    #[test]
    fn scripts_name_their_interpreter() {
        let of = |text: &[u8]| {
            let mut name = [0u8; HEAD];
            interpreter(text, &mut name).then(|| core::ffi::CStr::from_bytes_until_nul(&name).unwrap().to_owned())
        };
        assert_eq!(of(b"#!/bin/sh\necho").as_deref(), Some(c"/bin/sh"));
        assert_eq!(of(b"#! \t/usr/bin/env python3\n").as_deref(), Some(c"/usr/bin/env"));
        assert_eq!(of(b"#!\n"), None);
        assert_eq!(of(b"\x7fELF"), None);
    }

    #[test]
    fn only_64_bit_x86_runs_here() {
        let mut head = [0u8; 64];
        head[..5].copy_from_slice(b"\x7fELF\x02");
        head[18] = 62;
        assert!(runs_here(&head));
        head[4] = 1;
        assert!(!runs_here(&head));
        head[4] = 2;
        head[18] = 183;
        assert!(!runs_here(&head));
        assert!(runs_here(b"echo hello"));
    }

    #[test]
    fn programs_of_this_host_can_be_observed() {
        // SAFETY: NUL-terminated.
        let found = |path: &core::ffi::CStr| unsafe { prospect(AT_FDCWD, path.as_ptr().cast(), 0) };
        assert_eq!(found(c"/bin/sh"), Prospect::Observable);
        assert_eq!(found(c"/nonexistent"), Prospect::NoProgram);
        assert_eq!(found(c"/usr/bin/ldd"), Prospect::Observable);
    }
}
