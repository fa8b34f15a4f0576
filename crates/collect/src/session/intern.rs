//! Interned dimensions: modules, sites, call stacks. Each gets a dense id at first sight.

use numalens_profile::ids::{ModuleId, SiteId, StackId};
use numalens_profile::tables;
use rustc_hash::FxHashMap;

/// Nodes that the stack tree may have. A program with more distinct call paths keeps the innermost frame of the rest.
const MOST_STACK_NODES: usize = 1 << 20;

/// The modules, sites and stacks met so far.
#[derive(Default)]
pub struct Code {
    modules: Vec<(String, String)>,
    module_ids: FxHashMap<(String, String, Option<u32>), ModuleId>,
    sites: Vec<Place>,
    site_ids: FxHashMap<Place, SiteId>,
    stacks: Vec<(Option<StackId>, SiteId)>,
    stack_ids: FxHashMap<(Option<StackId>, SiteId), StackId>,
    /// Stacks that were cut to one frame because the tree was full.
    pub cut_stacks: u64,
}

/// An instruction: module and stated address in it, or an absolute address outside any module.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    pub module: Option<ModuleId>,
    pub address: u64,
}

impl Code {
    /// The id of what has no file, by a path that stands for it.
    pub fn module(&mut self, path: &str) -> ModuleId {
        self.module_of(path, "", None)
    }

    /// The id of the file at `path` with `build_id` (hexadecimal, empty when it has none); `file` tells files apart
    /// where that does not.
    pub fn module_of(&mut self, path: &str, build_id: &str, file: Option<u32>) -> ModuleId {
        let key = (path.to_owned(), build_id.to_owned(), file);
        *self.module_ids.entry(key).or_insert_with_key(|(path, build_id, _)| {
            self.modules.push((path.clone(), build_id.clone()));
            ModuleId(self.modules.len() as u32 - 1)
        })
    }

    /// So many instructions are about to be asked for, most of which may be new.
    pub fn expect_sites(&mut self, count: usize) {
        self.site_ids.reserve(count);
    }

    /// The id of an instruction.
    pub fn site(&mut self, place: Place) -> SiteId {
        *self.site_ids.entry(place).or_insert_with(|| {
            self.sites.push(place);
            SiteId(self.sites.len() as u32 - 1)
        })
    }

    /// Where an instruction is.
    pub fn place(&self, site: SiteId) -> Place {
        self.sites.get(site.0 as usize).copied().unwrap_or(Place { module: None, address: 0 })
    }

    /// The path of a module.
    pub fn path(&self, module: ModuleId) -> &str {
        self.modules.get(module.0 as usize).map_or("", |(path, _)| path)
    }

    /// The id of a call stack given innermost first; `None` for an empty one.
    pub fn stack(&mut self, innermost_first: &[Place]) -> Option<StackId> {
        let mut parent = None;
        let full = self.stacks.len() >= MOST_STACK_NODES;
        let frames = if full { &innermost_first[..innermost_first.len().min(1)] } else { innermost_first };
        self.cut_stacks += u64::from(full);
        for &place in frames.iter().rev() {
            let node = (parent, self.site(place));
            parent = Some(*self.stack_ids.entry(node).or_insert_with(|| {
                self.stacks.push(node);
                StackId(self.stacks.len() as u32 - 1)
            }));
        }
        parent
    }

    /// The places of a stack, innermost first, up to the first in a module whose path is `last`.
    pub fn places_until(&self, stack: StackId, last: impl Fn(&str) -> bool) -> Vec<Place> {
        let node = |stack: StackId| self.stacks[stack.0 as usize];
        let chain = std::iter::successors(Some(node(stack)), |(parent, _)| parent.map(node));
        let places = chain.map(|(_, site)| self.sites[site.0 as usize]);
        let is_last = |place: &Place| place.module.is_some_and(|module| last(&self.modules[module.0 as usize].0));
        places.take_while(|place| !is_last(place)).collect()
    }

    /// How many places a stack has.
    pub fn depth(&self, stack: StackId) -> usize {
        let node = |stack: StackId| self.stacks[stack.0 as usize];
        std::iter::successors(Some(node(stack)), |(parent, _)| parent.map(node)).count()
    }

    pub fn module_rows(&self) -> impl Iterator<Item = tables::Module> + '_ {
        self.modules.iter().zip(0..).map(|((path, build_id), id)| tables::Module {
            module: ModuleId(id),
            path: path.clone(),
            build_id: build_id.clone(),
        })
    }

    pub fn site_rows(&self) -> impl Iterator<Item = tables::Site> + '_ {
        self.sites.iter().zip(0..).map(|(place, id)| tables::Site {
            site: SiteId(id),
            module: place.module,
            address: place.address,
        })
    }

    pub fn stack_rows(&self) -> impl Iterator<Item = tables::Stack> + '_ {
        self.stacks.iter().zip(0..).map(|(&(parent, site), id)| tables::Stack { stack: StackId(id), parent, site })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_share_their_callers() {
        let mut code = Code::default();
        let at = |address| Place { module: None, address };
        let one = code.stack(&[at(3), at(2), at(1)]);
        let two = code.stack(&[at(4), at(2), at(1)]);
        assert_ne!(one, two);
        assert_eq!(code.stack(&[at(3), at(2), at(1)]), one);
        assert_eq!(code.stack_rows().count(), 4);
        assert!(code.stack_rows().all(|row| row.parent < Some(row.stack)));
        assert_eq!(code.stack(&[]), None);
    }
}
