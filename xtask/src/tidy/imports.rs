//! Which file of a crate names something of which other: by `use`, by paths in code and in macros. Calls of methods are
//! not seen. A re-export counts for those who use it, and leads to where the thing is.

use super::names::{Names, leaves};
use super::syntax::{Crate, Module, is_test};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// By file the files that it needs.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

pub fn graph(of_crate: &Crate) -> Graph {
    let names = Names::of(of_crate);
    let mut graph = Graph::new();
    for (index, module) in of_crate.modules.iter().enumerate() {
        let targets = paths(module).into_iter().filter_map(|path| names.resolve(index, &path));
        // A module alone is a way to something, not a need.
        let needed = targets.filter(|target| target.item.is_some()).map(|target| &of_crate.modules[target.module].path);
        let others = needed.filter(|path| **path != module.path).cloned();
        graph.entry(module.path.clone()).or_default().extend(others);
    }
    graph
}

/// Files that need each other, in sets of at least two.
pub fn circles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = graph.keys().map(|file| (file, reach(graph, file))).collect();
    let circle_of = |file: &String| -> BTreeSet<String> {
        let returns = reached[file].iter().filter(|other| reached[*other].contains(file));
        returns.map(|other| (*other).clone()).collect()
    };
    let circles: BTreeSet<BTreeSet<String>> = graph.keys().map(circle_of).collect();
    circles.into_iter().filter(|circle| circle.len() > 1).collect()
}

/// Files that a file needs, and those they need.
fn reach<'a>(graph: &'a Graph, file: &str) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = graph[file].iter().collect();
    while let Some(file) = open.pop() {
        if reached.insert(file) {
            open.extend(&graph[file]);
        }
    }
    reached
}

/// All paths that a module's code names.
fn paths(module: &Module) -> BTreeSet<Vec<String>> {
    let mut paths = Paths(BTreeSet::new());
    module.items.iter().for_each(|item| paths.visit_item(item));
    paths.0
}

struct Paths(BTreeSet<Vec<String>>);

impl Visit<'_> for Paths {
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        if matches!(item.vis, syn::Visibility::Inherited) {
            self.0.extend(leaves(item).into_iter().filter_map(|(path, name)| name.map(|_| path)));
        }
    }

    fn visit_path(&mut self, path: &syn::Path) {
        if path.leading_colon.is_none() {
            self.0.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &syn::Macro) {
        self.scan(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_impl_item_fn(&mut self, function: &syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }
}

impl Paths {
    /// Paths in a macro's tokens: `a::b`, and names of types and constants.
    fn scan(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.end(&mut path);
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                other => {
                    self.end(&mut path);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.scan(group.stream());
                    }
                }
            }
        }
        self.end(&mut path);
    }

    fn end(&mut self, path: &mut Vec<String>) {
        let path = std::mem::take(path);
        let is_type = path.first().is_some_and(|name| name.starts_with(char::is_uppercase));
        if path.len() > 1 || is_type {
            self.0.insert(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Tree;

    /// What `src/a.rs` needs, in a crate with modules a, b, c::d.
    fn needs(a: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("x/Cargo.toml", ""),
            ("x/src/lib.rs", "mod a; mod b; mod c; pub use b::B; pub use c::*; pub const ROOT: u8 = 0;"),
            ("x/src/a.rs", a),
            ("x/src/b.rs", "pub struct B; pub fn b() {}"),
            ("x/src/c.rs", "pub mod d; pub use d::D;"),
            ("x/src/c/d.rs", "pub enum D { One } pub fn d() {} macro_rules! m { () => {} } table! { Made }"),
        ]);
        let graph = graph(&tree.crates()[0]);
        graph["x/src/a.rs"].iter().map(|path| path["x/src/".len()..].to_owned()).collect()
    }

    #[test]
    fn ways_to_need_a_file() {
        for (source, wanted) in [
            ("use crate::b::B;", "b.rs"),
            ("use super::b::{self, b};", "b.rs"),
            ("use crate::B;", "b.rs"),
            ("use crate::D as Other;", "c/d.rs"),
            ("use crate::c::d::Made;", "c/d.rs"),
            ("use crate::ROOT;", "lib.rs"),
            ("fn f() { crate::b::b() }", "b.rs"),
            ("use crate::c; fn f(x: Vec<c::d::D>) {}", "c/d.rs"),
            ("fn f() { use crate::c::D; }", "c/d.rs"),
            ("use super::*; fn f() -> D { g(D::One) }", "c/d.rs"),
            ("fn f() { assert!(x.y && crate::b::b()) }", "b.rs"),
            ("mod inner { use super::super::b::B; }", "b.rs"),
            ("pub use crate::b::B; fn f(b: B) {}", "b.rs"),
        ] {
            assert_eq!(needs(source), [wanted], "{source}");
        }
    }

    #[test]
    fn ways_to_need_none() {
        for source in [
            "use crate::c;",
            "use std::fs;",
            "pub use crate::b::B;",
            "#[cfg(test)] mod tests { use crate::b::B; }",
            "struct A; impl A { fn b(&self) { self.b(); Self::c() } }",
            "fn f() { assert!(x.b, \"crate::b::b\") }",
            "use ::b::B;",
        ] {
            assert_eq!(needs(source), [""; 0], "{source}");
        }
    }

    #[test]
    fn files_that_need_each_other() {
        let arrows = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d"), ("f", "a")];
        let mut graph = Graph::new();
        for (from, to) in arrows {
            graph.entry(from.to_owned()).or_default().insert(to.to_owned());
            graph.entry(to.to_owned()).or_default();
        }
        let found: Vec<String> = circles(&graph).iter().map(|circle| circle.iter().cloned().collect()).collect();
        assert_eq!(found, ["abc", "de"]);
    }
}
