//! New ids for the rows of a profile that becomes a part of another one.

use crate::ids::*;
use rustc_hash::FxHashMap;
use std::cell::Cell;

/// What becomes of the ids of one profile in the merged one.
#[derive(Default)]
#[doc(hidden)]
pub struct Renumbering {
    /// How many rows of these the profiles before it have.
    pub(crate) processes: u32,
    pub(crate) threads: u32,
    pub(crate) stacks: u32,
    pub(crate) objects: u32,
    pub(crate) modules: FxHashMap<ModuleId, ModuleId>,
    pub(crate) sites: FxHashMap<SiteId, SiteId>,
    pub(crate) functions: FxHashMap<FunctionId, FunctionId>,
    /// Width of a time bin there and here.
    pub(crate) bin_ns: (u64, u64),
    /// An id was met that the profile has no row for, or that does not fit.
    pub(crate) dangling: Cell<bool>,
}

impl Renumbering {
    fn moved(&self, id: u32, by: u32) -> u32 {
        id.checked_add(by).unwrap_or_else(|| {
            self.dangling.set(true);
            id
        })
    }

    fn known<I: Copy + Eq + std::hash::Hash>(&self, ids: &FxHashMap<I, I>, id: I) -> I {
        ids.get(&id).copied().unwrap_or_else(|| {
            self.dangling.set(true);
            id
        })
    }

    pub(crate) fn process(&self, id: ProcessId) -> ProcessId {
        ProcessId(self.moved(id.0, self.processes))
    }

    pub(crate) fn thread(&self, id: ThreadId) -> ThreadId {
        ThreadId(self.moved(id.0, self.threads))
    }

    pub(crate) fn stack(&self, id: StackId) -> StackId {
        StackId(self.moved(id.0, self.stacks))
    }

    pub(crate) fn object(&self, id: ObjectId) -> ObjectId {
        ObjectId(self.moved(id.0, self.objects))
    }

    pub(crate) fn module(&self, id: ModuleId) -> ModuleId {
        self.known(&self.modules, id)
    }

    pub(crate) fn site(&self, id: SiteId) -> SiteId {
        self.known(&self.sites, id)
    }

    pub(crate) fn function(&self, id: FunctionId) -> FunctionId {
        self.known(&self.functions, id)
    }

    pub(crate) fn bin(&self, bin: Bin) -> Bin {
        let (from, to) = self.bin_ns;
        Bin(u64::from(bin.0).saturating_mul(from).checked_div(to).map_or(bin.0, |bin| bin.min(u32::MAX.into()) as u32))
    }
}
