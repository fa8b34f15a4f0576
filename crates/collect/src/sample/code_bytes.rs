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

const PAGE: u64 = 4096;
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
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

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
            return Some(CodeWindow {
                start: low,
                bytes,
                boundary: None,
            });
        };
        let in_file = |address: u64| (address - mapping.start).wrapping_add(mapping.file_offset);
        let bytes = self.from_file(module, in_file(low)..in_file(high));
        if bytes.len() as u64 <= ip - low {
            return None;
        }
        let function = self.function(module, mapping.svma(ip));
        let boundary = function
            .map(|function| function.start.wrapping_add(mapping.bias))
            .filter(|&at| at >= low);
        Some(CodeWindow {
            start: low,
            bytes,
            boundary,
        })
    }

    /// The function that encloses `ip`, in addresses of the process.
    pub fn enclosing_function(&mut self, space: &AddressSpace, ip: u64) -> Option<Range<u64>> {
        let mapping = space.find(ip)?;
        let bias = mapping.bias;
        let range = self.function(mapping.module.as_deref()?, ip.wrapping_sub(bias))?;
        Some(range.start.wrapping_add(bias)..range.end.wrapping_add(bias))
    }

    fn function(&mut self, module: &Module, svma: u64) -> Option<Range<u64>> {
        if self.functions.len() > 16 * MOST_PAGES {
            self.functions.clear();
        }
        self.functions
            .entry((module.serial(), svma))
            .or_insert_with(|| module.function_range(svma))
            .clone()
    }

    /// The bytes at `offsets` of the module's file, less where the file ends.
    fn from_file(&mut self, module: &Module, offsets: Range<u64>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((offsets.end - offsets.start) as usize);
        let mut at = offsets.start;
        while at < offsets.end {
            let page = at & !(PAGE - 1);
            let content = self.page(module, page);
            let wanted = (at - page) as usize..(offsets.end - page).min(PAGE) as usize;
            bytes.extend_from_slice(
                content
                    .get(wanted.start..wanted.end.min(content.len()))
                    .unwrap_or_default(),
            );
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
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let remote = libc::iovec {
        iov_base: range.start as *mut libc::c_void,
        iov_len: bytes.len(),
    };
    // SAFETY: `local` describes the vector's own bytes, which outlive the call; `remote` is a number to the kernel.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    (usize::try_from(read) == Ok(bytes.len())).then_some(bytes)
}
