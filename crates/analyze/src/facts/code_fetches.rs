//! Executed instructions by module and by page of code: `code_fetches`, folded.

use crate::facts::fold::{Context, Fold, FoldOf, Need};
use crate::facts::sorted::Times;
use crate::model::tally;
use numalens_profile::ids::{ModuleId, Page};
use numalens_profile::tables::CodeFetch;
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;

/// Which instructions are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CodeKey {
    pub module: Option<ModuleId>,
    pub node: Option<NodeId>,
    pub home: Option<NodeId>,
}

/// `code_fetches` by module and nodes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CodeFacts {
    pub instructions: FxHashMap<CodeKey, u64>,
    /// By page and its home.
    pub pages: FxHashMap<(Option<ModuleId>, Page, Option<NodeId>), u64>,
}

impl CodeFacts {
    /// The fewest pages of a module that hold nine tenths of its fetches.
    pub fn hot_pages(&self, module: Option<ModuleId>) -> usize {
        let mut by_page: FxHashMap<Page, u64> = FxHashMap::default();
        for ((_, page, _), n) in self.pages.iter().filter(|((of, ..), _)| *of == module) {
            *by_page.entry(*page).or_default() += n;
        }
        let mut pages: Vec<u64> = by_page.into_values().collect();
        pages.sort_unstable_by(|a, b| b.cmp(a));
        let wanted = pages.iter().sum::<u64>() / 10 * 9;
        let sums = pages.iter().scan(0, |sum, n| {
            let before = *sum;
            *sum += n;
            Some(before)
        });
        sums.take_while(|before| *before < wanted).count()
    }
}

impl Fold for CodeFacts {
    type Facts = Self;
    const NEED: Need = Need::Fetches;

    fn merge(mut self, other: Self) -> Self {
        for (key, n) in other.instructions {
            tally::add(self.instructions.entry(key).or_default(), n);
        }
        for (key, n) in other.pages {
            tally::add(self.pages.entry(key).or_default(), n);
        }
        self
    }

    fn finish(self) -> Self {
        self
    }
}

impl FoldOf<CodeFetch> for CodeFacts {
    const COLUMNS: &'static [&'static str] = &["process", "node", "page", "module", "home", "instructions", "period"];

    fn add(&mut self, row: &CodeFetch, _: Times<'_>, of: &Context<'_>) {
        let instructions = of.weight.tally(row.instructions, 0, 0, row.period).reads;
        let key = CodeKey { module: row.module, node: row.node, home: row.home };
        tally::add(self.instructions.entry(key).or_default(), instructions);
        tally::add(self.pages.entry((row.module, row.page, row.home)).or_default(), instructions);
    }
}
