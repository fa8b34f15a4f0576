//! Files that are mapped into programs, and what is known of their code, for all processes.

use super::code_bytes::CodeBytes;
use super::intern::{Code, Place};
use crate::runtimes::frame_address;
use crate::unwind::{Module, ModuleCache};
use numalens_event::record::FRAME_BYTES;
use numalens_profile::ids::{ModuleId, SiteId, StackId};
use numalens_profile::python;
use numalens_profile::tables::{self, PERF_MAP};
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is shared by all processes when code is looked at.
#[derive(Default)]
pub struct Images {
    pub modules: ModuleCache,
    pub bytes: CodeBytes,
    pub code: Code,
    /// The file of each module that has one, as it was mapped first.
    files: FxHashMap<ModuleId, (PathBuf, Arc<Module>)>,
    /// How far the recording has come.
    pub now_ns: u64,
    /// Rows that the profile does not have yet.
    pub new_mappings: Vec<tables::Mapping>,
}

impl Images {
    /// Modules whose path leads to another file than the one that was executed, or to none: it was unlinked or
    /// replaced, never had a name, or had it in another mount namespace.
    pub fn out_of_reach(&self) -> impl Iterator<Item = (ModuleId, Arc<Module>)> {
        let gone = self.files.iter().filter(|(_, (path, image))| !image.is_at(path));
        gone.map(|(module, (_, image))| (*module, image.clone()))
    }

    /// The code that a process makes at run time.
    pub fn made_code(&mut self, pid: i32) -> ModuleId {
        self.code.module(&format!("{PERF_MAP}{pid}"))
    }

    /// The stack and innermost site of frames that a runtime of a process has told. `native`: what was called from the
    /// innermost, and the interpreter itself, which the frames stand for.
    pub fn told_stack(
        &mut self,
        pid: i32,
        native: Option<StackId>,
        frames: &[u8],
    ) -> (Option<StackId>, Option<SiteId>) {
        let module = Some(self.made_code(pid));
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let place = |frame: &[u8]| Place { module, address: frame_address(word(&frame[..8]), word(&frame[8..])) };
        let told = frames.chunks_exact(FRAME_BYTES).map(place);
        let called = native.map(|stack| self.code.places_until(stack, python::is_interpreter)).unwrap_or_default();
        let places: Vec<Place> = called.into_iter().chain(told).collect();
        (self.code.stack(&places), places.first().map(|&place| self.code.site(place)))
    }

    /// A module was mapped from a file.
    pub fn mapped(&mut self, module: ModuleId, path: &Path, image: &Arc<Module>) {
        self.files.entry(module).or_insert_with(|| (path.to_owned(), image.clone()));
    }
}
