//! The program's memory map as far as the agent must know it: what is executable, writable, shared.
//!
//! Read once at the start and followed from then on through the program's own system calls, because asking the kernel
//! anew costs a millisecond in a large program.

use crate::call;
use crate::machine::policy::Policy;
use crate::state::session_file::ProcessMemory;
use crate::sys::{self, PAGE, raw};
use alloc::vec::Vec;
use core::ffi::CStr;
use core::fmt::Write;
use core::hash::{BuildHasher, Hash};
use core::ops::Range;
use numalens_event::exact::log as records;
use rustc_hash::FxBuildHasher;

/// A range of addresses mapped alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// `PROT_*`.
    pub protection: u32,
    /// Whether others may write to it too, behind the back of translations: a shared file.
    pub shared: bool,
    /// What its pages are made of.
    pub backing: Backing,
    /// Shared memory: which.
    pub file: File,
    /// Of code that is as its file has it: which file ([`persist::file_key`]).
    pub code: File,
    /// A memory policy of its own binds its pages to one node.
    pub bound: bool,
    /// On a virtual machine: the policy of its own.
    pub policy: Policy,
    /// What the program advised about huge pages.
    pub huge: Huge,
}

/// What a mapping shows, where other processes may show the same: which file, or shared memory, and which part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct File {
    /// Tells it from others in a recording; 0: nothing that others have.
    pub key: u64,
    /// What is to be subtracted from the number of a page's address, modulo 2^64, for its place in the file.
    shift: u64,
    /// It is memory and nothing else (System V and POSIX segments, `memfd`, what forks share), which has memory
    /// policies of its own; a stored file has none.
    pub is_memory: bool,
}

impl File {
    /// Private memory, or a file of which only private copies are written.
    pub const NONE: File = File { key: 0, shift: 0, is_memory: false };

    /// Whether it is shared memory or a file whose first page is at the page `at` of the address space.
    pub fn begins_at(&self, at: u64) -> bool {
        self.key != 0 && self.shift == at
    }

    /// The page `first` of the file that `key` stands for is at the page `at` of the address space.
    pub fn new(key: u64, at: u64, first: u64) -> Self {
        File { key, shift: at.wrapping_sub(first), is_memory: false }
    }

    /// The same of memory and nothing else, or not.
    pub fn memory(self, is_memory: bool) -> Self {
        File { is_memory, ..self }
    }

    /// Where in the file the page at an address (by its number) is.
    pub fn page(&self, at: u64) -> u64 {
        at.wrapping_sub(self.shift)
    }

    /// The same at other addresses, so many pages higher (modulo 2^64).
    pub fn moved(&self, by: u64) -> Self {
        File { shift: self.shift.wrapping_add(by), ..*self }
    }
}

/// What pages of a mapping are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backing {
    /// Private memory: zeros until it is written.
    #[default]
    Anonymous,
    /// A file's pages, private copies once they are written.
    PrivateFile,
    /// A file's pages, or memory shared with other processes.
    Shared,
}

/// What the program advised about huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Huge {
    /// Nothing.
    #[default]
    Default,
    /// To use them.
    Wanted,
    /// Not to.
    Unwanted,
}

impl Mapping {
    /// Private anonymous memory.
    pub fn anonymous(start: u64, end: u64, protection: u32) -> Self {
        Mapping {
            start,
            end,
            protection,
            shared: false,
            backing: Backing::Anonymous,
            file: File::NONE,
            code: File::NONE,
            bound: false,
            policy: Policy::NONE,
            huge: Huge::Default,
        }
    }

    /// Whether code may be fetched from it.
    pub fn executable(&self) -> bool {
        self.protection & raw::PROT_EXEC != 0
    }

    /// Of code that is as its file has it: the file's key, and where in it an address is.
    pub fn code_at(&self, address: u64) -> Option<(u64, u64)> {
        let File { key, .. } = self.code;
        (key != 0).then(|| (key, self.code.page(address / PAGE).wrapping_mul(PAGE) + address % PAGE))
    }

    /// Whether its bytes can change without a system call of this process.
    pub fn may_change(&self) -> bool {
        self.shared || self.protection & raw::PROT_WRITE != 0
    }
}

/// Disjoint mappings by address.
#[derive(Clone, Debug, Default)]
pub struct Maps {
    list: Vec<Mapping>,
    code_changes: u64,
}

impl Maps {
    /// The mapping that holds `address`.
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        let after = self.list.partition_point(|mapping| mapping.start <= address);
        self.list[..after].last().filter(|mapping| address < mapping.end)
    }

    /// All mappings.
    pub fn iter(&self) -> impl Iterator<Item = &Mapping> {
        self.list.iter()
    }

    /// How often executable memory has come or gone: as long as that is the same, an address leads into the same code.
    pub fn code_changes(&self) -> u64 {
        self.code_changes
    }

    /// Bytes of all mappings.
    pub fn bytes(&self) -> u64 {
        self.list.iter().map(|mapping| mapping.end - mapping.start).sum()
    }

    /// The mappings that overlap a range.
    pub fn overlapping(&self, range: Range<u64>) -> &[Mapping] {
        let from = self.list.partition_point(|mapping| mapping.end <= range.start);
        let to = self.list.partition_point(|mapping| mapping.start < range.end).max(from);
        &self.list[from..to]
    }

    /// Whether any of a range is executable.
    pub fn any_executable(&self, range: Range<u64>) -> bool {
        self.overlapping(range).iter().any(Mapping::executable)
    }

    /// Something is mapped in place of whatever was there.
    pub fn insert(&mut self, mapping: Mapping) {
        if mapping.start >= mapping.end {
            return;
        }
        self.remove(mapping.start..mapping.end);
        self.code_changes += u64::from(mapping.executable());
        let at = self.list.partition_point(|other| other.start < mapping.start);
        let like = |other: &Mapping| Mapping { start: mapping.start, end: mapping.end, ..*other } == mapping;
        let joins_next = self.list.get(at).is_some_and(|next| next.start == mapping.end && like(next));
        let joins_last = at > 0 && self.list[at - 1].end == mapping.start && like(&self.list[at - 1]);
        let end = if joins_next { self.list[at].end } else { mapping.end };
        match (joins_last, joins_next) {
            (true, false) => self.list[at - 1].end = end,
            (true, true) => {
                self.list[at - 1].end = end;
                self.list.remove(at);
            }
            (false, true) => self.list[at].start = mapping.start,
            (false, false) => self.list.insert(at, mapping),
        }
    }

    /// A range is unmapped.
    pub fn remove(&mut self, range: Range<u64>) {
        let from = self.list.partition_point(|mapping| mapping.end <= range.start);
        let to = self.list.partition_point(|mapping| mapping.start < range.end).max(from);
        self.code_changes += u64::from(self.list[from..to].iter().any(Mapping::executable));
        let mut kept: [Option<Mapping>; 2] = [None, None];
        if let (Some(first), Some(last)) = (self.list[from..to].first(), self.list[from..to].last()) {
            if first.start < range.start {
                kept[0] = Some(Mapping { end: range.start, ..*first });
            }
            if last.end > range.end {
                kept[1] = Some(Mapping { start: range.end, ..*last });
            }
        }
        self.list.splice(from..to, kept.into_iter().flatten());
    }

    /// A range gets another protection.
    pub fn protect(&mut self, range: Range<u64>, protection: u32) {
        self.change(range, |mapping| {
            mapping.protection = protection;
            if protection & raw::PROT_WRITE != 0 {
                mapping.code = File::NONE;
            }
        });
    }

    /// Changes the mappings of a range, as far as they are in it.
    pub fn change(&mut self, range: Range<u64>, how: impl Fn(&mut Mapping)) {
        let part = |mapping: &Mapping| {
            let (start, end) = (mapping.start.max(range.start), mapping.end.min(range.end));
            let mut part = Mapping { start, end, ..*mapping };
            how(&mut part);
            part
        };
        let changed: Vec<Mapping> = self.overlapping(range.clone()).iter().map(part).collect();
        changed.into_iter().for_each(|mapping| self.insert(mapping));
    }
}

/// A line of /proc/self/maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line<'a> {
    /// What is mapped there.
    pub mapping: Mapping,
    /// Offset in the file.
    pub offset: u64,
    /// Its inode; 0: none.
    pub inode: u64,
    /// The file, or the kernel's name for it.
    pub name: &'a [u8],
}

/// What the kernel calls shared memory that is no stored file.
const MEMORY: [&[u8]; 4] = [b"/SYSV", b"/memfd:", b"/dev/zero", b"/dev/shm/"];

/// The lines of /proc/self/maps.
pub fn parse(text: &[u8]) -> impl Iterator<Item = Line<'_>> {
    text.split(|&byte| byte == b'\n').filter_map(|line| {
        let mut words = line.splitn(6, |&byte| byte == b' ');
        let mut range = words.next()?.split(|&byte| byte == b'-');
        let (start, end) = (hexadecimal(range.next()?)?, hexadecimal(range.next()?)?);
        let flags = words.next()?;
        let has = |at: usize, letter: u8, bit: u32| if flags.get(at) == Some(&letter) { bit } else { 0 };
        let protection = has(0, b'r', raw::PROT_READ) | has(1, b'w', raw::PROT_WRITE) | has(2, b'x', raw::PROT_EXEC);
        let offset = hexadecimal(words.next()?)?;
        let (device, inode) = (words.next()?, words.next()?);
        let name = words.next().unwrap_or(&[]).trim_ascii_start();
        let shared = flags.get(3) == Some(&b's');
        let file = match shared {
            true => {
                let is_memory = MEMORY.iter().any(|prefix| name.starts_with(prefix));
                File::new(file_key((device, inode)), start / PAGE, offset / PAGE).memory(is_memory)
            }
            false => File::NONE,
        };
        let backing = match name {
            _ if shared => Backing::Shared,
            [b'/', ..] => Backing::PrivateFile,
            _ => Backing::Anonymous,
        };
        let mapping = Mapping { shared, backing, file, ..Mapping::anonymous(start, end, protection) };
        Some(Line { mapping, offset, inode: inode.iter().fold(0, decimal), name })
    })
}

fn decimal(value: u64, byte: &u8) -> u64 {
    value.wrapping_mul(10).wrapping_add(u64::from(byte.wrapping_sub(b'0')))
}

/// The key of a file by what tells it from others.
pub fn file_key(what: impl Hash) -> u64 {
    FxBuildHasher.hash_one(what) | 1
}

fn hexadecimal(word: &[u8]) -> Option<u64> {
    let digit = |value: u64, byte: &u8| Some(value << 4 | u64::from((*byte as char).to_digit(16)?));
    word.iter().try_fold(0, digit)
}

/// What /proc/self/maps says now; nothing where there is no /proc.
pub fn read() -> Vec<u8> {
    read_at(c"/proc/self/maps")
}

/// The same of the process of a thread.
pub fn read_of(tid: u32) -> Vec<u8> {
    let mut path = sys::Line::new();
    let written = write!(path, "/proc/{tid}/maps\0");
    match CStr::from_bytes_until_nul(path.text()) {
        Ok(path) if written.is_ok() => read_at(path),
        _ => Vec::new(),
    }
}

fn read_at(path: &CStr) -> Vec<u8> {
    let mut text = Vec::new();
    // SAFETY: a NUL-terminated path; reads into memory of our own.
    unsafe {
        let path = path.as_ptr();
        let Ok(file) = call!(__NR_openat, raw::AT_FDCWD, path, raw::O_RDONLY | raw::O_CLOEXEC, 0) else { return text };
        loop {
            text.reserve(4 * PAGE as usize);
            let room = text.capacity() - text.len();
            match call!(__NR_read, file, text.as_mut_ptr().add(text.len()), room) {
                Ok(0) | Err(_) => break,
                Ok(bytes) => text.set_len(text.len() + bytes as usize),
            }
        }
        let _ = call!(__NR_close, file);
    }
    text
}

/// Logs a mapping for the collector.
pub fn log(memory: &ProcessMemory, mapping: &Mapping, offset: u64, name: &[u8]) {
    let shared = mapping.file.key & !1 | u64::from(mapping.shared);
    let words = [mapping.start, mapping.end, offset, u64::from(mapping.protection), shared, memory.next_site()];
    memory.log(records::MAPPED, &words, name);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, protection: u32) -> Mapping {
        Mapping::anonymous(start, end, protection)
    }

    #[test]
    fn mappings_replace_split_and_merge() {
        let mut maps = Maps::default();
        maps.insert(mapping(0x1000, 0x9000, 5));
        maps.insert(mapping(0x3000, 0x5000, 3));
        assert_eq!(maps.list, [mapping(0x1000, 0x3000, 5), mapping(0x3000, 0x5000, 3), mapping(0x5000, 0x9000, 5)]);
        maps.protect(0x4000..0x6000, 7);
        assert_eq!(maps.find(0x5fff).map(|found| found.protection), Some(7));
        assert_eq!(maps.find(0x6000).map(|found| found.protection), Some(5));
        maps.remove(0x2000..0x8000);
        assert_eq!(maps.list, [mapping(0x1000, 0x2000, 5), mapping(0x8000, 0x9000, 5)]);
        maps.insert(mapping(0x2000, 0x3000, 5));
        assert_eq!(maps.list.len(), 2);
        // The kernel gives addresses from above.
        maps.insert(mapping(0x6000, 0x8000, 5));
        assert_eq!(maps.list, [mapping(0x1000, 0x3000, 5), mapping(0x6000, 0x9000, 5)]);
        maps.protect(0x7000..0x8000, 1);
        maps.protect(0x7000..0x8000, 5);
        assert_eq!(maps.list.len(), 2);
        maps.insert(mapping(0x3000, 0x6000, 5));
        assert_eq!(maps.list, [mapping(0x1000, 0x9000, 5)]);
        maps.remove(0x3000..0x8000);
        assert!(maps.any_executable(0..0x1001) && !maps.any_executable(0x3000..0x8000));
        maps.remove(0..u64::MAX);
        assert!(maps.list.is_empty());
    }

    #[test]
    fn the_kernels_lines_are_understood() {
        let text = b"55d0c0000000-55d0c0001000 r-xp 00002000 08:01 1234                       /usr/bin/a b\n\
            7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n\
            7f0000000000-7f0000001000 rw-s 00000000 00:01 5 \n";
        let lines: Vec<_> = parse(text).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!((lines[0].mapping.protection, lines[0].offset, lines[0].name), (5, 0x2000, &b"/usr/bin/a b"[..]));
        assert_eq!(lines[1].name, b"[stack]");
        assert!(lines[2].mapping.shared && lines[2].name.is_empty());
        assert!(parse(&read()).count() > 5);
    }
}
