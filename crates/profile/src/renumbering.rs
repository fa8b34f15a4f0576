//! New ids for the rows of a profile that becomes a part of another one.

use crate::error::Error;
use crate::ids::*;
use crate::read::Profile;
use crate::tables::{Object, Process, Stack, Thread};
use rustc_hash::FxHashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Of a row whose columns were all decoded; the bit of a column is its place.
#[doc(hidden)]
pub const ALL_COLUMNS: u64 = u64::MAX;

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
    dangling: AtomicBool,
}

impl Renumbering {
    /// # Errors
    /// A row of the profile at `path` had an id that it has no row for.
    pub(crate) fn check(&self, path: &Path) -> Result<(), Error> {
        if self.dangling.load(Ordering::Relaxed) {
            let damage = "it refers to a row that it does not have (`numalens check` says more)".to_owned();
            return Err(Error::Damaged { path: path.to_owned(), damage });
        }
        Ok(())
    }

    /// That of the next profile, whose ids come behind those of this one.
    ///
    /// # Errors
    /// The profile cannot be read.
    pub(crate) fn behind(&self, profile: &Profile) -> Result<Renumbering, Error> {
        Ok(Renumbering {
            processes: self.processes.saturating_add(profile.count::<Process>()? as u32),
            threads: self.threads.saturating_add(profile.count::<Thread>()? as u32),
            stacks: self.stacks.saturating_add(profile.count::<Stack>()? as u32),
            objects: self.objects.saturating_add(profile.count::<Object>()? as u32),
            ..Renumbering::default()
        })
    }

    /// What a number in a column becomes, where greater ones become greater ones; none: it is not known beforehand.
    pub(crate) fn number(&self, column: &str, number: u64) -> Option<u64> {
        let small = u32::try_from(number).ok();
        match column {
            "process" => Some(self.process(ProcessId(small?)).0.into()),
            "thread" => Some(self.thread(ThreadId(small?)).0.into()),
            "bin" => Some(self.bin(Bin(small?)).0.into()),
            "page" => Some(number),
            _ => None,
        }
    }

    fn moved(&self, id: u32, by: u32) -> u32 {
        id.checked_add(by).unwrap_or_else(|| {
            self.dangling.store(true, Ordering::Relaxed);
            id
        })
    }

    fn known<I: Copy + Eq + std::hash::Hash>(&self, ids: &FxHashMap<I, I>, id: I) -> I {
        ids.get(&id).copied().unwrap_or_else(|| {
            self.dangling.store(true, Ordering::Relaxed);
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
        if from == to {
            return bin;
        }
        Bin(u64::from(bin.0).saturating_mul(from).checked_div(to).map_or(bin.0, |bin| bin.min(u32::MAX.into()) as u32))
    }
}
