//! What a terminal shows while a program is recorded, and that it is gone afterwards.

use super::*;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

/// A terminal: our side, and the program's.
fn terminal() -> (File, File) {
    let (mut ours, mut theirs) = (-1, -1);
    let (name, modes, size) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: both places are valid for a write; the rest may be null.
    assert_eq!(unsafe { libc::openpty(&mut ours, &mut theirs, name, modes, size) }, 0);
    // SAFETY: these are open, and nobody else's.
    unsafe { (File::from_raw_fd(ours), File::from_raw_fd(theirs)) }
}

/// Guards that accesses and their price are shown while the program runs, and taken back before the last words. The
/// program waits until the line has been seen.
#[test]
fn a_terminal_sees_how_far_it_is() {
    need_recording!();
    let directory = tempfile::tempdir().unwrap();
    let (mut ours, theirs) = terminal();
    let fd = theirs.as_raw_fd();
    let mut command = numalens(&["record", "--engine", "exact", "--machine", "4x2", "-o"]);
    command.arg(directory.path().join("p.numalens")).args(["--", "sh", "-c", "read line"]).env("TERM", "xterm");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(theirs.try_clone().unwrap());
    // SAFETY: these calls may be made between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::setsid();
            match libc::ioctl(fd, libc::TIOCSCTTY, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let mut child = command.spawn().unwrap();
    drop((command, theirs));
    let mut input = child.stdin.take();
    let (mut shown, mut buffer) = (Vec::new(), [0; 4096]);
    // Where all who have it have ended, Linux says EIO.
    while let Ok(bytes @ 1..) = ours.read(&mut buffer) {
        shown.extend_from_slice(&buffer[..bytes]);
        let text = String::from_utf8_lossy(&shown);
        if text.contains("times slower\r")
            && let Some(mut input) = input.take()
        {
            input.write_all(b"go on\n").unwrap();
        }
    }
    assert!(child.wait().unwrap().success());
    let text = String::from_utf8_lossy(&shown);
    let (before, line) = text.split_once("\r\u{1b}[Knumalens: recording for ").unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains(" accesses so far, usually several times slower\r"), "{line}");
    assert!(!line.starts_with("0 s") && !before.contains("recording for"), "{text}");
    let (_, after) = text.rsplit_once("times slower\r").unwrap();
    assert!(after.starts_with("\r\u{1b}[K"), "the line stays: {after}");
}
