//! Variables of the modules of a process: where their data lies, and each thread's copy of some.

use crate::globals::{DataRange, data_ranges};
use crate::session::thread_locals::ThreadLocals;
use crate::unwind::Module;
use numalens_profile::ids::ModuleId;
use std::ops::Range;
use std::sync::Arc;

/// The variables of a process.
#[derive(Clone, Default)]
pub struct Variables {
    /// Data of its modules, .bss included, by address.
    data: Vec<(DataRange, ModuleId, Arc<Module>, u64)>,
    /// Those of its modules of which each thread has a copy.
    pub thread_locals: ThreadLocals,
    /// Go's runtime is in it.
    pub is_go: bool,
}

impl Variables {
    /// A module was loaded: its code was mapped with this bias.
    pub fn loaded(&mut self, module: ModuleId, image: &Arc<Module>, bias: u64) {
        self.thread_locals.loaded(Some(module), image);
        self.is_go |= image.sections().iter().any(|section| section.name == ".gopclntab");
        for range in data_ranges(image, bias) {
            if !self.data.iter().any(|(known, ..)| known.addresses == range.addresses) {
                self.data.push((range, module, image.clone(), bias));
            }
        }
    }

    /// Whether an address is where Go's runtime asks for memory for its heap: anywhere below 64 TiB (at 0xc0_0000_0000,
    /// at random from 1.26 on). What the kernel chooses lies above, and programs that are not relocated at the bottom.
    pub fn is_in_gos_heap(&self, address: u64) -> bool {
        self.is_go && (1 << 32..1 << 46).contains(&address)
    }

    /// Memory was unmapped.
    pub fn unmap(&mut self, range: Range<u64>) {
        self.data.retain(|(data, ..)| data.addresses.end <= range.start || data.addresses.start >= range.end);
        self.thread_locals.unmap(range);
    }

    /// The module whose data (variables, constants) `address` belongs to.
    pub fn data_of(&self, address: u64) -> Option<(ModuleId, &Module, u64)> {
        self.data
            .iter()
            .find(|(range, ..)| range.addresses.contains(&address))
            .map(|(_, module, image, bias)| (*module, &**image, *bias))
    }

    /// Whether any of a range belongs to the data of a module, or to thread-local variables of the executable.
    /// (Every program has a few of the C library, on the same pages as stacks.)
    pub fn has_data_in(&self, addresses: Range<u64>) -> bool {
        self.data
            .iter()
            .any(|(range, ..)| range.addresses.start < addresses.end && addresses.start < range.addresses.end)
            || self.thread_locals.has_own_in(&addresses)
    }
}
