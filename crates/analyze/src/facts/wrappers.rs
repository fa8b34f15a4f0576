//! Functions that allocate, or touch memory first, on behalf of their callers: a matrix's constructor, `xmalloc`.
//!
//! Their line says nothing of who wants the memory. The line that does is the one on which call stacks part: functions
//! are passed over, from the innermost outwards, as long as many lines call them.
//!
//! ```text
//!   Matrix::allocate <- Matrix::Matrix <- Grid::Grid:12 <- main       `Matrix::allocate` has one caller, but is one;
//!                                      <- Grid::Grid:13 <- main       `Matrix::Matrix` has several: it is one too;
//!                                      <- Halo::Halo:40 <- main       `Grid::Grid` has one: the line is Grid::Grid:12
//! ```
//! That many lines call a function does not make it one: a solver that is called from two places has temporary arrays
//! of its own. What is called like an allocator, or constructs, needs fewer callers than others.

use crate::facts::code::{Code, OwnPlace};
use numalens_profile::ids::{SiteId, StackId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Lines that must call a function which is named like one, and any other.
const CALLERS: [usize; 2] = [2, 4];
/// Parts of names of functions that allocate.
const NAMES: [&str; 9] = ["alloc", "new", "create", "make", "construct", "resize", "reserve", "grow", "buffer"];

/// The functions, as [`stem`] and file.
#[derive(Default)]
pub struct Wrappers(FxHashSet<Function>);

type Function = (String, Option<String>);

impl Wrappers {
    /// Those on the stacks of allocations or first touches.
    pub fn new(code: &Code, stacks: impl Iterator<Item = (Option<StackId>, Option<SiteId>)>) -> Wrappers {
        let mut callers: FxHashMap<Function, FxHashSet<(Function, Option<u32>)>> = FxHashMap::default();
        let mut inner: FxHashMap<Function, FxHashSet<Function>> = FxHashMap::default();
        let known: FxHashSet<_> = stacks.collect();
        for (stack, site) in known {
            let path = code.own_path(stack, site);
            for pair in path.windows(2) {
                let [called, caller] = [function(&pair[0]), function(&pair[1])];
                if called != caller {
                    inner.entry(caller.clone()).or_default().insert(called.clone());
                    callers.entry(called).or_default().insert((caller, pair[1].location.line));
                }
            }
        }
        let mut found: FxHashSet<Function> = FxHashSet::default();
        for (function, lines) in &callers {
            if lines.len() >= CALLERS[usize::from(!is_named_like_one(&function.0))] {
                found.insert(function.clone());
            }
        }
        // What only they call works for the same callers.
        let mut left: Vec<Function> = found.iter().cloned().collect();
        while let Some(outer) = left.pop() {
            for function in inner.get(&outer).into_iter().flatten() {
                let only = callers.get(function).is_some_and(|lines| lines.iter().all(|(of, _)| found.contains(of)));
                if only && found.insert(function.clone()) {
                    left.push(function.clone());
                }
            }
        }
        Wrappers(found)
    }

    /// The line that wanted what a stack's leaf allocates or touches.
    pub fn own_place(&self, code: &Code, stack: Option<StackId>, site: Option<SiteId>) -> Option<OwnPlace> {
        let innermost = code.own_on_stack(stack, site)?;
        let mut path = code.own_path(stack, site).into_iter();
        let passed = |place: &OwnPlace| self.0.contains(&function(place));
        match path.find(|place| !passed(place)) {
            Some(place) if passed(&innermost) => Some(OwnPlace { via: Some(innermost.location.function), ..place }),
            _ => Some(innermost),
        }
    }
}

fn function(place: &OwnPlace) -> Function {
    (stem(&place.location.function), place.location.file.clone())
}

/// A constructor, or a name that says so.
fn is_named_like_one(stem: &str) -> bool {
    let mut parts = stem.rsplit("::");
    let (name, class) = (parts.next().unwrap_or_default(), parts.next());
    let lower = name.to_ascii_lowercase();
    class == Some(name) || NAMES.iter().any(|part| lower.contains(part))
}

/// A function's name without parameters and arguments of templates: all of a template are one.
fn stem(name: &str) -> String {
    let mut stem = String::new();
    let mut depth = 0u32;
    for (at, letter) in name.char_indices() {
        match letter {
            '<' if at > 0 => depth += 1,
            '>' if depth > 0 => depth -= 1,
            '(' if depth == 0 && at > 0 => break,
            _ if depth == 0 => stem.push(letter),
            _ => {}
        }
    }
    stem.split(" [clone ").next().unwrap_or_default().trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_one_function() {
        for (name, wanted) in [
            ("pvector<EdgePair<int, int> >::pvector(unsigned long)", "pvector::pvector"),
            ("double* Allocate<double>(unsigned long)", "double* Allocate"),
            ("Matrix2<double>::allocate()", "Matrix2::allocate"),
            ("xmalloc", "xmalloc"),
            ("<alloc::vec::Vec<T> as core::clone::Clone>::clone", "<alloc::vec::Vec as core::clone::Clone>::clone"),
        ] {
            assert_eq!(stem(name), wanted);
        }
    }

    #[test]
    fn constructors_and_allocators_are_named_like_ones() {
        for (name, wanted) in
            [("Soa::Soa", true), ("xmalloc", true), ("Grid::allocate", true), ("solve", false), ("Tile::init", false)]
        {
            assert_eq!(is_named_like_one(name), wanted, "{name}");
        }
    }
}
