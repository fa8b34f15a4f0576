//! The memory map of a process as the collector knows it: from perf's mmap records, from the interposer, and read anew
//! from /proc/PID/maps when an address is met that it does not explain.

use crate::homes::{Mapping, Permissions};
use crate::unwind::Module;
use numalens_profile::ids::{ModuleId, Page};
use rustc_hash::FxBuildHasher;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One mapping.
#[derive(Clone)]
pub struct Vma {
    pub start: u64,
    pub end: u64,
    pub permissions: Permissions,
    pub offset: u64,
    /// 0 for memory without a file.
    pub inode: u64,
    /// Which shared memory it shows, whoever else has it mapped; 0: memory of its own.
    pub segment: u64,
    /// As the kernel names it; empty for plain memory.
    pub path: PathBuf,
    /// The ELF file, with its bias, when it is one.
    pub image: Option<(ModuleId, Arc<Module>, u64)>,
    /// Code that a runtime made: the module that stands for what it says of it in /tmp/perf-PID.map.
    pub made: Option<ModuleId>,
}

impl Vma {
    /// A mapping as perf, the interposer or an agent reports it.
    pub fn reported(start: u64, end: u64, offset: u64, prot: u32, shared: bool, inode: u64, path: &Path) -> Vma {
        let has = |bit: i32| prot & bit as u32 != 0;
        Vma {
            start,
            end,
            permissions: Permissions {
                read: has(libc::PROT_READ),
                write: has(libc::PROT_WRITE),
                execute: has(libc::PROT_EXEC),
                shared,
            },
            offset,
            inode,
            segment: Vma::segment_of(shared, inode, path),
            path: if path.as_os_str() == "//anon" { PathBuf::new() } else { path.to_owned() },
            image: None,
            made: None,
        }
    }

    /// Whether it is of a real file (not `[heap]`, `//anon`, shared anonymous memory).
    pub fn is_file(&self) -> bool {
        self.inode != 0 && !is_anonymous_name(&self.path)
    }

    /// Whether it is memory of its own that has no name.
    pub fn is_plain(&self) -> bool {
        self.path.as_os_str().is_empty() && self.segment == 0 && !self.permissions.execute
    }

    /// What tells shared memory from other such: the kernel's number of it, and its name, which it may have lost since.
    pub fn segment_of(shared: bool, inode: u64, path: &Path) -> u64 {
        let name = path.as_os_str().as_encoded_bytes();
        let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
        // Never 0.
        if shared && inode != 0 { FxBuildHasher.hash_one((inode, name)) | 1 } else { 0 }
    }

    /// Which shared memory lies at an address, and which page of it.
    pub fn place_in_segment(&self, address: u64) -> Option<(u64, Page)> {
        let place = (address.checked_sub(self.start)?).checked_add(self.offset)?;
        (self.segment != 0).then(|| (self.segment, Page::of(place)))
    }

    /// Whether its pages are shared with other processes that map the same.
    pub fn is_shared(&self) -> bool {
        self.permissions.shared
    }
}

fn is_anonymous_name(path: &Path) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    name.is_empty()
        || name.starts_with(b"[")
        || name.starts_with(b"//")
        || name.starts_with(b"/dev/zero")
        || name.starts_with(b"/memfd:")
        || name.starts_with(b"/SYSV")
}

/// Whether a mapping with such flags is memory only as far as it is touched: the kernel sets nothing aside for the
/// rest.
pub fn sets_nothing_aside(flags: u32) -> bool {
    const RESERVED: u32 = (libc::MAP_NORESERVE | libc::MAP_PRIVATE) as u32;
    flags & RESERVED == RESERVED
}

/// Mappings by address, disjoint.
#[derive(Clone, Default)]
pub struct Vmas {
    by_start: BTreeMap<u64, Vma>,
}

impl Vmas {
    /// The mapping that holds `address`.
    pub fn find(&self, address: u64) -> Option<&Vma> {
        self.by_start.range(..=address).next_back().map(|(_, vma)| vma).filter(|vma| address < vma.end)
    }

    /// The first mapping that begins above `address`.
    pub fn above(&self, address: u64) -> Option<&Vma> {
        self.by_start.range(address..).next().map(|(_, vma)| vma)
    }

    /// Adds a mapping; what it overlaps gives way, as mmap does it.
    pub fn insert(&mut self, vma: Vma) {
        if vma.start >= vma.end {
            return;
        }
        self.remove(vma.start, vma.end);
        self.by_start.insert(vma.start, vma);
    }

    /// Removes what lies in `start..end`, cutting mappings that stick out.
    pub fn remove(&mut self, start: u64, end: u64) {
        let first = self.find(start).map_or(start, |vma| vma.start);
        let hit: Vec<u64> = self.by_start.range(first..end).map(|(&at, _)| at).collect();
        for at in hit {
            let Some(vma) = self.by_start.remove(&at) else { continue };
            if vma.end > end {
                let mut right = vma.clone();
                right.offset += end - right.start;
                right.start = end;
                self.by_start.insert(end, right);
            }
            if vma.start < start {
                let left = Vma { end: start, ..vma };
                self.by_start.insert(left.start, left);
            }
        }
    }

    /// All mappings by address.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &Vma> {
        self.by_start.values()
    }
}

impl From<&Mapping> for Vma {
    fn from(mapping: &Mapping) -> Self {
        Vma {
            start: mapping.start,
            end: mapping.end,
            permissions: mapping.permissions,
            offset: mapping.offset,
            inode: mapping.inode,
            segment: Vma::segment_of(mapping.permissions.shared, mapping.inode, &mapping.path),
            path: mapping.path.clone(),
            image: None,
            made: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vma(start: u64, end: u64) -> Vma {
        Vma {
            start,
            end,
            permissions: Permissions::default(),
            offset: 0,
            inode: 0,
            segment: 0,
            path: PathBuf::new(),
            image: None,
            made: None,
        }
    }

    #[test]
    fn a_mapping_on_top_of_others_cuts_them() {
        let mut vmas = Vmas::default();
        vmas.insert(vma(0x1000, 0x9000));
        vmas.insert(vma(0x3000, 0x5000));
        let ranges: Vec<_> = vmas.iter().map(|vma| (vma.start, vma.end, vma.offset)).collect();
        assert_eq!(ranges, [(0x1000, 0x3000, 0), (0x3000, 0x5000, 0), (0x5000, 0x9000, 0x4000)]);
        assert!(vmas.find(0x9000).is_none());
        vmas.remove(0x2000, 0x6000);
        assert_eq!(vmas.iter().count(), 2);
        assert!(vmas.find(0x4000).is_none());
    }
}
