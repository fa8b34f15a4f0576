//! Names that can be found before it is known which modules matter: in files without debug information of their own.

use crate::Options;
use crate::doubt::Cause;
use crate::ghc::Origin;
use crate::module::{name, name_without_dwarf};
use crate::rows::{Named, Task, by_module, each};
use numalens_profile::ids::ModuleId;
use numalens_profile::tables::{Module, Site};
use rustc_hash::FxHashMap;

/// What was found so far.
#[derive(Default)]
pub struct Early(FxHashMap<ModuleId, Found>);

/// Of a module, for these addresses.
pub(crate) struct Found {
    addresses: Vec<u64>,
    named: Named,
}

/// Names the sites of modules without debug information of their own, for [`symbolize_with`](crate::symbolize_with).
/// Lines are wanted of all modules.
pub fn name_early(sites: &[Site], modules: &[Module], options: &Options) -> Early {
    let options = Options { without_lines: Default::default(), ..options.clone() };
    let tasks = by_module(sites.iter(), modules, Early::default());
    let found = each(&tasks, options.jobs, |task| name_without_dwarf(task.module?, &task.addresses, &options));
    let of =
        |(task, named): (Task<'_>, Option<Named>)| Some((task.id?, Found { addresses: task.addresses, named: named? }));
    Early(tasks.into_iter().zip(found).filter_map(of).collect())
}

impl Early {
    /// What was found of a module.
    pub(crate) fn take(&mut self, module: Option<ModuleId>) -> Option<Found> {
        self.0.remove(&module?)
    }
}

impl Found {
    /// The same for all of `addresses`, as `options` are: more have come since.
    pub(crate) fn with(self, module: &Module, addresses: &[u64], options: &Options) -> Named {
        let Found { addresses: known, mut named } = self;
        if options.without_lines.contains(&module.module) {
            named.causes.retain(|(cause, _)| !matches!(cause, Cause::NoLines(_)));
        }
        if known == addresses {
            return named;
        }
        let is_new = |address: &&u64| known.binary_search(address).is_err();
        let rest: Vec<u64> = addresses.iter().filter(is_new).copied().collect();
        if known.len() + rest.len() != addresses.len() {
            return name(module, addresses, options);
        }
        let Named { frames, waits, causes, origin } = name(module, &rest, options);
        let mut rest = rest.into_iter().zip(frames.into_iter().zip(waits)).peekable();
        let mut known = named.frames.into_iter().zip(named.waits);
        let all = addresses.iter().filter_map(|address| match rest.next_if(|(new, _)| new == address) {
            Some((_, found)) => Some(found),
            None => known.next(),
        });
        (named.frames, named.waits) = all.unzip();
        for (cause, count) in causes {
            match named.causes.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, all)) => *all += count,
                None => named.causes.push((cause, count)),
            }
        }
        if named.origin == Origin::Unknown {
            named.origin = origin;
        }
        named
    }
}
