//! Names for the code of a recording, found while its profile is being written and the binaries are still the ones that
//! ran.

use numalens_collect::session::SeenCode;
use numalens_collect::unwind::Module;
use numalens_profile::ids::ModuleId;
use numalens_profile::{Error, Profile};
use numalens_symbolize::{Early, Options, Outcome, name_early, symbolize_with, write_names};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// A module with a smaller share of the recording gets its lines when somebody reads the profile, as do those with
/// separate debug files: the C library's debug information alone takes longer to read than all else.
const MINOR: f64 = 0.01;

/// The search for names that any recording of this code has, under way.
pub struct EarlyNaming {
    thread: Option<JoinHandle<Early>>,
}

/// The search for names, under way.
pub struct Naming {
    thread: Option<JoinHandle<Named>>,
}

struct Named {
    code: SeenCode,
    outcome: Outcome,
}

impl EarlyNaming {
    /// Begins to look for the names of `code`, in a thread of its own.
    pub fn begin(code: SeenCode) -> Self {
        let name = move || name_early(&code.sites, &code.modules, &options(&code));
        EarlyNaming { thread: Builder::new().name("naming".to_owned()).spawn(name).ok() }
    }

    fn join(self) -> Early {
        self.thread.map(JoinHandle::join).and_then(Result::ok).unwrap_or_default()
    }
}

impl Naming {
    /// Begins to look for the names of `code`, in a thread of its own. Those that were looked for `early` are in it.
    pub fn begin(code: SeenCode, early: Option<EarlyNaming>) -> Self {
        let name = move || {
            let early = early.map(EarlyNaming::join).unwrap_or_default();
            let outcome = symbolize_with(
                early,
                &code.sites,
                &code.modules,
                &options(&code),
                (&code.told.functions, &code.told.frames),
            );
            Named { code, outcome }
        };
        Naming { thread: Builder::new().name("naming".to_owned()).spawn(name).ok() }
    }

    /// Waits for the names and adds them to the profile, which is good without them.
    pub fn write(self, profile: &Profile) -> Result<(), Error> {
        match self.thread.map(JoinHandle::join) {
            Some(Ok(Named { code, outcome })) => write_names(profile, &code.sites, &code.modules, &outcome),
            _ => Ok(()),
        }
    }
}

fn options(code: &SeenCode) -> Options {
    // Files that nobody will find again are read now.
    let is_minor = |module: &ModuleId, share: f64| share <= MINOR && !code.kept.contains_key(module);
    let without_lines =
        code.shares.iter().filter(|(module, share)| is_minor(module, **share)).map(|(module, _)| *module).collect();
    let open = |(module, image): (&ModuleId, &Arc<Module>)| {
        (*module, PathBuf::from(format!("/proc/self/fd/{}", image.file().as_raw_fd())))
    };
    let kept = code.kept.iter().map(open).collect();
    Options { without_lines, separate_lines: false, kept, ..Default::default() }
}
