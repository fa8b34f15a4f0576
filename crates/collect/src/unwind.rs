//! Call stacks from user registers and a copied piece of stack.
//!
//! ```text
//! perf sample: ip, sp, bp, bytes from sp upwards          kernel's frame-pointer chain
//!        |                                                        |
//!        v                                                        v
//!   AddressSpace (which file is mapped where)  -> Stack ----> combine -> frames for the profile
//!        |
//!   ModuleCache (each ELF file once, for all processes)
//! ```
//!
//! Addresses in a [`Stack`] are *lookup addresses*: the sampled instruction pointer as it is, and for a caller its
//! return address minus one, which lies inside the call instruction. A call that never returns may be the last
//! instruction of its function; the return address itself would then belong to the next function and line. A frame
//! that a signal interrupted was not calling, so its address is exact. To get the return address back, add one to
//! every frame but the first; what symbolizes must not subtract again.

mod call;
mod evaluate;
mod frames;
mod module;
mod open;
mod space;

use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use module::FileKey;
pub use module::{Module, Section, Segment, ThreadLocals};
pub(crate) use open::open_regular;
pub use space::{AddressSpace, Basis, CodeMapping, frame_pointer};

/// Every ELF file of a recording, opened once. Files are told apart by device, inode, size and time of change, so a
/// library that is mapped under several names is read once, and one that was rebuilt is read again.
#[derive(Default)]
pub struct ModuleCache {
    by_file: FxHashMap<FileKey, Option<Arc<Module>>>,
    vdso: Option<Arc<Module>>,
    modules: Vec<Arc<Module>>,
}

impl ModuleCache {
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// The module behind the mapping `start..end` of `path` in process `pid` (`None`: of this mount namespace).
    /// `None` when no ELF file is found there: memory without a file, a file that is gone or may not be read.
    pub fn open(&mut self, pid: Option<i32>, start: u64, end: u64, path: &Path) -> Option<Arc<Module>> {
        let is_vdso = path.as_os_str() == "[vdso]";
        if is_vdso && let Some(module) = &self.vdso {
            return Some(module.clone());
        }
        let file = open::open_mapped(pid, start, end, path)?;
        let key = FileKey::of(&file)?;
        if let Some(known) = self.by_file.get(&key) {
            return known.clone();
        }
        let serial = u32::try_from(self.modules.len()).ok()?;
        let module = Module::new(path, file, serial).map(Arc::new);
        self.modules.extend(module.clone());
        if is_vdso {
            self.vdso.clone_from(&module);
        }
        self.by_file.insert(key, module.clone());
        module
    }

    /// All modules seen so far; [`Module::serial`] is the index.
    pub fn modules(&self) -> &[Arc<Module>] {
        &self.modules
    }
}

/// Why a stack has no more frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StackEnd {
    /// The root function was reached.
    Root,
    /// The next frame lies beyond the copied bytes.
    CopyEnded,
    /// As many frames as asked for.
    Limit,
    /// Nothing credible follows: code without unwind information (GHC's), a stack being switched, damage.
    Lost,
}

/// Frames, innermost first, as lookup addresses (see the module's documentation).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stack {
    /// At least the sampled instruction pointer.
    pub frames: Vec<u64>,
    /// Why there are no more.
    pub end: StackEnd,
}

impl Stack {
    /// True when a longer copy of the stack would have shown more frames.
    pub fn truncated(&self) -> bool {
        self.end == StackEnd::CopyEnded
    }
}

/// Completes a truncated stack with the kernel's frame-pointer chain.
///
/// `kernel_chain` holds user addresses as perf delivers them: the instruction pointer, then return addresses; context
/// markers (`PERF_CONTEXT_*`) are skipped. The rule: the outermost frame of `dwarf` that also stands in the chain joins
/// them; what the chain has beyond it is appended. When they share only the innermost frame, the chain is used only if
/// `dwarf` has nothing else, for then it is the better of the two: code without frame pointers makes the kernel's chain
/// skip frames and wander, and a join further out proves that it has found its way back. A stack that is complete, or
/// that ended for another reason than a short copy, is returned as it is.
pub fn combine(dwarf: Stack, kernel_chain: &[u64]) -> Vec<u64> {
    let Stack { mut frames, end } = dwarf;
    if end != StackEnd::CopyEnded {
        return frames;
    }
    let is_marker = |address: u64| address >= u64::MAX - 4095;
    let chain: Vec<u64> = kernel_chain
        .iter()
        .filter(|&&address| !is_marker(address))
        .enumerate()
        .map(|(depth, &address)| if depth == 0 { address } else { address.wrapping_sub(1) })
        .collect();
    let joint = frames.iter().enumerate().rev().find_map(|(at, frame)| {
        let in_chain = chain.iter().rposition(|address| address == frame)?;
        (at > 0 || frames.len() == 1).then_some((at, in_chain))
    });
    if let Some((at, in_chain)) = joint {
        frames.truncate(at + 1);
        frames.extend_from_slice(&chain[in_chain + 1..]);
    }
    frames
}

#[cfg(test)]
mod tests;
