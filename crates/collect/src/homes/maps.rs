//! /proc/PID/maps.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// What a mapping allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Permissions {
    /// Readable.
    pub read: bool,
    /// Writable.
    pub write: bool,
    /// Executable.
    pub execute: bool,
    /// MAP_SHARED.
    pub shared: bool,
}

/// One line of /proc/PID/maps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// What it allows.
    pub permissions: Permissions,
    /// Offset in the file.
    pub offset: u64,
    /// Device of the file: major and minor number.
    pub device: (u32, u32),
    /// The file's inode; 0 for memory without a file.
    pub inode: u64,
    /// The file, with ` (deleted)` when it is; or `[heap]`, `[stack]`, `[vdso]`, `[anon:NAME]`; empty for plain memory.
    pub path: PathBuf,
}

/// The memory of process `pid`, by address.
///
/// # Errors
/// NotFound: the process is gone. PermissionDenied: it may not be traced by this user. InvalidData: a line that
/// no known kernel writes.
pub fn read_maps(pid: i32) -> io::Result<Vec<Mapping>> {
    let text = std::fs::read(format!("/proc/{pid}/maps"))?;
    text.split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            parse(line).ok_or_else(|| {
                let shown = String::from_utf8_lossy(line);
                io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/maps: cannot read line `{shown}`"))
            })
        })
        .collect()
}

fn parse(line: &[u8]) -> Option<Mapping> {
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let mut field = || std::str::from_utf8(fields.next()?).ok();
    let (start, end) = field()?.split_once('-')?;
    let &[read, write, execute, shared] = field()?.as_bytes() else {
        return None;
    };
    let offset = field()?;
    let (major, minor) = field()?.split_once(':')?;
    let inode = field()?;
    let path = fields.next().unwrap_or_default();
    let padding = path.iter().take_while(|&&byte| byte == b' ').count();
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        permissions: Permissions {
            read: read == b'r',
            write: write == b'w',
            execute: execute == b'x',
            shared: shared == b's',
        },
        offset: u64::from_str_radix(offset, 16).ok()?,
        device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
        inode: inode.parse().ok()?,
        path: PathBuf::from(OsString::from_vec(unescape(&path[padding..]))),
    })
}

/// Undoes the kernel's octal escapes (`\012`, `\040`, `\134`).
pub(super) fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let octal = text.get(at + 1..at + 4).filter(|digits| digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        match octal {
            Some(digits) if text[at] == b'\\' => {
                let value = digits.iter().fold(0u32, |value, digit| value * 8 + u32::from(digit - b'0'));
                plain.push(value as u8);
                at += 4;
            }
            _ => {
                plain.push(text[at]);
                at += 1;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_a_strange_name() {
        let line = b"7f00-8f00 r-xp 00001000 fd:1a 42                         /tmp/a b\\012c (deleted)";
        let mapping = parse(line).unwrap();
        assert_eq!((mapping.start, mapping.end, mapping.offset, mapping.inode), (0x7f00, 0x8f00, 0x1000, 42));
        assert_eq!(mapping.device, (0xfd, 0x1a));
        assert!(mapping.permissions.execute && !mapping.permissions.write && !mapping.permissions.shared);
        assert_eq!(mapping.path.to_str(), Some("/tmp/a b\nc (deleted)"));
        assert_eq!(parse(b"1000-2000 rw-s 00000000 00:00 0 ").unwrap().path.to_str(), Some(""));
        assert!(parse(b"nonsense").is_none());
    }

    #[test]
    fn own_memory() {
        let marker = 0u8;
        let address = std::ptr::from_ref(&marker) as u64;
        let maps = read_maps(std::process::id() as i32).unwrap();
        assert!(maps.iter().any(|m| (m.start..m.end).contains(&address) && m.permissions.write));
        assert!(maps.iter().any(|m| m.permissions.execute && m.path == std::env::current_exe().unwrap()));
        assert!(maps.is_sorted_by_key(|m| m.start));
    }
}
