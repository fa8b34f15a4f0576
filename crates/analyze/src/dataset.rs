//! A profile as analyses read it: dimensions as rows, facts folded. Read once, shared by all sections of a report.

pub mod cache;
pub mod caveats;
pub mod cells;
pub mod clusters;
pub mod derived;
pub mod facts;
pub mod load;
pub mod memory;
pub mod options;
pub mod program;
pub mod source;
pub mod usages;

use crate::dataset::derived::Derived;
use crate::dataset::facts::Facts;
use crate::dataset::memory::Memory;
use crate::dataset::program::Program;
use crate::facts::code::{Code, OwnPlace};
use crate::facts::contended_lines::Lines;
use crate::facts::placed::FirstTouches;
use crate::facts::rollup::MemoryUse;
use crate::facts::totals::{Basis, Totals};
use crate::facts::wrappers::Wrappers;
use crate::model::about::About;
use crate::model::tally::Tally;
use numalens_profile::ids::{SiteId, StackId};
use numalens_profile::tables::Object;
use numalens_simulate::CostModel;
use numalens_topology::{Machine, NodeId};
use std::sync::Arc;

/// Everything that analyses read. What is shared does not depend on some filters, and is then that of the whole
/// recording.
pub struct Dataset {
    pub about: About,
    pub machine: Machine,
    pub program: Program,
    pub code: Arc<Code>,
    pub memory: Memory,
    pub facts: Facts,
    pub derived: Derived,
}

impl Dataset {
    /// The line that wanted what is allocated, or touched first, on a stack; none: the program's runtime did, which has
    /// a name for it.
    pub fn wanted_at(&self, stack: Option<StackId>, site: Option<SiteId>) -> Option<OwnPlace> {
        let wrappers = self.derived.wrappers.get_or_init(|| {
            let allocations = self.memory.objects.values().map(|object| (object.stack, object.site));
            let touches = self.memory.placed.iter().map(|pages| (pages.stack, pages.site));
            Wrappers::new(&self.code, allocations.chain(touches))
        });
        let place = wrappers.own_place(&self.code, stack, site)?;
        let is_runtimes = || stack.and_then(|stack| self.code.runtime_memory(stack)).is_some();
        (self.code.own_frame(place.site).is_some() || !is_runtimes()).then_some(place)
    }

    /// What its memory is used for, summed when it is first asked for.
    pub fn totals(&self, model: &CostModel<'_>) -> &Totals {
        let ends_before = |one, other| self.program.ends_before(one, other);
        let basis = Basis {
            about: &self.about,
            machine: &self.machine,
            objects: &self.memory.objects,
            code: &self.code,
            targets: &self.memory.targets,
            sites: &self.facts.sites,
            by_object: &self.facts.by_object,
            lines: &self.facts.lines.sampled,
            page_use: &self.facts.page_use,
            ends_before: &ends_before,
        };
        self.derived.totals.get_or_init(|| match &self.facts.summed.rollup {
            Some(rollup) => rollup.totals(&basis, model),
            None => Totals::new(&basis, model),
        })
    }

    /// What an object is called: by the program, or by its runtime; empty where nobody names it.
    pub fn name_of<'a>(&self, object: &'a Object) -> &'a str {
        match object.stack {
            Some(stack) if object.name.is_empty() => self.code.runtime_memory(stack).map_or("", |memory| memory.name),
            _ => &object.name,
        }
    }

    /// Who uses which memory: by page, or summed.
    pub fn memory_uses(&self) -> Box<dyn Iterator<Item = (MemoryUse, Tally)> + '_> {
        match &self.facts.summed.rollup {
            Some(rollup) => Box::new(rollup.uses(&self.memory.targets)),
            None => Box::new(self.facts.page_use.sums.iter().map(|(key, tally)| (MemoryUse::from(key), tally))),
        }
    }

    /// What is known of its cache lines.
    pub fn lines(&self) -> Lines<'_> {
        Lines {
            counted: &self.facts.lines.counted,
            sampled: &self.facts.lines.sampled,
            targets: &self.memory.targets,
            code: &self.code,
        }
    }

    /// Placed pages of everything.
    pub fn first_touches(&self) -> FirstTouches {
        let mut sum = FirstTouches::default();
        self.memory.placed.iter().for_each(|row| sum.add(row));
        if let Some(imported) = &self.facts.sites.imported {
            imported.threads.keys().for_each(|thread| sum += imported.touches(*thread));
        }
        sum
    }

    /// The nodes of matrices: the machine's, and whatever else the facts name (a profile of a machine that changed).
    pub fn nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.machine.nodes.iter().map(|node| node.id).collect();
        nodes.extend(self.facts.sites.by_nodes().flat_map(|((_, node, home), _)| [node, home]).flatten());
        nodes.extend(self.facts.fetches.instructions.keys().flat_map(|key| [key.node, key.home]).flatten());
        nodes.sort();
        nodes.dedup();
        nodes
    }

    /// What the sections of accesses have to say beforehand.
    pub fn access_doubts(&self) -> Vec<String> {
        if self.facts.sites.is_empty() { vec![self.about.none("accesses")] } else { Vec::new() }
    }
}
