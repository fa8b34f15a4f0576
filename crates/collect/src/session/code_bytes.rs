//! Code around a sampled instruction, for the instruction decoder.
//!
//! Bytes come from the module's file, in pages kept for all processes; where code has no file (compiled at run time,
//! changed all the time) they are copied from the target, never beyond the page of the instruction itself: that page is
//! present since it was just executed, its neighbours might be faulted in by the copy.
//!
//! x86 code cannot be decoded backwards. [`CodeBytes::around`] therefore names an address at which an instruction is
//! known to start: the function's, from the unwind tables or the symbols.

use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustc_hash::FxHashMap;

use crate::unwind::{AddressSpace, Module};
use numalens_event::page::PAGE;

/// Pages kept, 4 MiB. A program's hot code is smaller; when it is not, all go and the hot ones come back.
const MOST_PAGES: usize = 1024;
/// Code bytes and what is known about them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeWindow {
    /// The address of `bytes[0]`.
    pub start: u64,
    /// The bytes, without holes; the instruction's among them.
    pub bytes: Vec<u8>,
    /// An address within `bytes`, at or before the instruction, where an instruction is known to begin.
    pub boundary: Option<u64>,
}

/// Where the bytes of code come from.
#[derive(Default)]
pub struct CodeBytes {
    /// By module and page of its file; shorter than a page where the file ends.
    pages: FxHashMap<(u32, u64), Box<[u8]>>,
    /// Enclosing functions by module and stated address.
    functions: FxHashMap<(u32, u64), Option<Range<u64>>>,
}

impl CodeBytes {
    /// The code of process `pid` from `before` bytes before `ip` to `after` bytes behind it, less where the
    /// mapping ends. `None` when the bytes at `ip` cannot be had: no such mapping, the file or the process gone.
    pub fn around(
        &mut self,
        pid: i32,
        space: &AddressSpace,
        ip: u64,
        before: usize,
        after: usize,
    ) -> Option<CodeWindow> {
        let mapping = space.find(ip)?;
        let low = ip.saturating_sub(before as u64).max(mapping.start);
        let high = ip.saturating_add(after as u64).min(mapping.end).max(ip + 1);
        let Some(module) = &mapping.module else {
            let low = low.max(ip & !(PAGE - 1));
            let high = high.min((ip & !(PAGE - 1)) + PAGE);
            let bytes = copy_from(pid, low..high)?;
            return Some(CodeWindow { start: low, bytes, boundary: None });
        };
        let in_file = |address: u64| (address - mapping.start).wrapping_add(mapping.file_offset);
        let bytes = self.file_bytes(module, in_file(low)..in_file(high));
        if bytes.len() as u64 <= ip - low {
            return None;
        }
        let function = self.function(module, mapping.svma(ip));
        let boundary = function.map(|function| function.start.wrapping_add(mapping.bias)).filter(|&at| at >= low);
        Some(CodeWindow { start: low, bytes, boundary })
    }

    fn function(&mut self, module: &Module, svma: u64) -> Option<Range<u64>> {
        if self.functions.len() > 16 * MOST_PAGES {
            self.functions.clear();
        }
        self.functions.entry((module.serial(), svma)).or_insert_with(|| module.function_range(svma)).clone()
    }

    /// The bytes at `offsets` of the module's file, less where the file ends.
    fn file_bytes(&mut self, module: &Module, offsets: Range<u64>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((offsets.end - offsets.start) as usize);
        let mut at = offsets.start;
        while at < offsets.end {
            let page = at & !(PAGE - 1);
            let content = self.page(module, page);
            let wanted = (at - page) as usize..(offsets.end - page).min(PAGE) as usize;
            bytes.extend_from_slice(content.get(wanted.start..wanted.end.min(content.len())).unwrap_or_default());
            if content.len() < wanted.end {
                break;
            }
            at = page + PAGE;
        }
        bytes
    }

    fn page(&mut self, module: &Module, page: u64) -> &[u8] {
        let key = (module.serial(), page);
        if self.pages.len() >= MOST_PAGES && !self.pages.contains_key(&key) {
            self.pages.clear();
        }
        self.pages.entry(key).or_insert_with(|| {
            let mut bytes = vec![0; PAGE as usize];
            let read = module.file().read_at(&mut bytes, page).unwrap_or(0);
            bytes.truncate(read);
            bytes.into_boxed_slice()
        })
    }
}

/// Bytes of the target's memory; fewer never.
fn copy_from(pid: i32, range: Range<u64>) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(range.end.checked_sub(range.start)?).ok()?];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: range.start as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: `local` describes the vector's own bytes, which outlive the call; `remote` is a number to the kernel.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    (usize::try_from(read) == Ok(bytes.len())).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The function that encloses `ip`, in addresses of the process.
    fn enclosing_function(code: &mut CodeBytes, space: &AddressSpace, ip: u64) -> Option<Range<u64>> {
        let mapping = space.find(ip)?;
        let bias = mapping.bias;
        let range = code.function(mapping.module.as_deref()?, ip.wrapping_sub(bias))?;
        Some(range.start.wrapping_add(bias)..range.end.wrapping_add(bias))
    }
    use crate::homes::read_maps;
    use crate::unwind::ModuleCache;

    fn own_space() -> AddressSpace {
        let mut cache = ModuleCache::new();
        let mut space = AddressSpace::new();
        for mapping in read_maps(own_pid()).unwrap().iter().filter(|mapping| mapping.permissions.execute) {
            space.add_mapping(&mut cache, mapping.start, mapping.end, mapping.offset, &mapping.path);
        }
        space
    }

    fn own_pid() -> i32 {
        std::process::id() as i32
    }

    /// What this process really executes there.
    fn in_memory(window: &CodeWindow) -> &[u8] {
        // SAFETY: the window lies in a mapping of code of this process, which nobody unmaps during the test.
        unsafe { std::slice::from_raw_parts(window.start as *const u8, window.bytes.len()) }
    }

    #[test]
    fn bytes_of_files_are_those_in_memory() {
        let space = own_space();
        let mut code = CodeBytes::default();
        let functions =
            [own_pid as *const () as u64, libc::qsort as *const () as u64, libc::memcpy as *const () as u64];
        for ip in functions {
            for (before, after) in [(0, 1), (0, 64), (64, 64), (5000, 5000)] {
                let window = code.around(own_pid(), &space, ip, before, after).unwrap();
                assert!(window.start <= ip && ip + after as u64 <= window.start + window.bytes.len() as u64);
                assert_eq!(window.bytes, in_memory(&window), "{ip:x} {before} {after}");
            }
            // Inside of the function its start is the boundary.
            let function = enclosing_function(&mut code, &space, ip).unwrap();
            assert!(function.contains(&ip));
            let window = code.around(own_pid(), &space, function.start + 1, 16, 16).unwrap();
            assert_eq!(window.boundary, Some(function.start));
        }
    }

    #[test]
    fn a_window_ends_with_its_mapping() {
        let space = own_space();
        let mut code = CodeBytes::default();
        for mapping in space.mappings().iter().filter(|mapping| mapping.module.is_some()) {
            for ip in [mapping.start, mapping.end - 1] {
                let Some(window) = code.around(own_pid(), &space, ip, 100, 100) else { continue };
                assert!(window.start >= mapping.start && window.start + window.bytes.len() as u64 <= mapping.end);
                assert_eq!(window.bytes, in_memory(&window));
            }
        }
        assert_eq!(code.around(own_pid(), &space, 0x1000, 8, 8), None);
        assert_eq!(code.around(own_pid(), &space, u64::MAX, 8, 8), None);
    }

    #[test]
    fn code_without_a_file_is_copied_within_its_page() {
        let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping anywhere.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), 3 * PAGE as usize, protection, flags, -1, 0) } as u64;
        assert_ne!(start, u64::MAX);
        // SAFETY: the middle page of the mapping just made.
        unsafe { std::ptr::write_bytes((start + PAGE) as *mut u8, 0xc3, PAGE as usize) };
        let mut cache = ModuleCache::new();
        let mut space = AddressSpace::new();
        space.add_mapping(&mut cache, start, start + 3 * PAGE, 0, Path::new("//anon"));
        let mut code = CodeBytes::default();
        let window = code.around(own_pid(), &space, start + PAGE + 8, 64, 8000).unwrap();
        assert_eq!((window.start, window.bytes.len(), window.boundary), (start + PAGE, PAGE as usize, None));
        assert!(window.bytes.iter().all(|&byte| byte == 0xc3));
        let mut homes = Vec::new();
        let pages = [0, 1, 2].map(|at| numalens_profile::ids::Page::of(start + at * PAGE));
        crate::homes::query_homes(0, &pages, &mut homes).unwrap();
        assert!(homes[1].node().is_some());
        assert!(homes[0].node().is_none() && homes[2].node().is_none(), "neighbours were not touched: {homes:?}");
        // SAFETY: the mapping made above, used by nobody else.
        unsafe { libc::munmap(start as *mut _, 3 * PAGE as usize) };
    }

    #[test]
    fn a_process_that_is_gone_has_no_bytes() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let mut cache = ModuleCache::new();
        let mut space = AddressSpace::new();
        space.add_mapping(&mut cache, 0x10000, 0x20000, 0, Path::new(""));
        assert_eq!(CodeBytes::default().around(child.id() as i32, &space, 0x10010, 8, 8), None);
    }
}
