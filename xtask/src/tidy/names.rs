//! Where a path of a source leads: names, imports and re-exports of modules.

use super::syntax::{Crate, Module};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{HashMap, HashSet};
use syn::visit::{self, Visit};
use syn::{ForeignItem, Item, ItemUse, UseTree};

/// Where a path leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    pub module: usize,
    /// `None`: the module itself.
    pub item: Option<String>,
}

/// The names of a crate's modules.
pub struct Names<'a> {
    modules: &'a [Module],
    scopes: Vec<Scope>,
}

/// Names that were looked up on the way: modules may import from each other in circles.
type Seen = HashSet<(usize, String)>;

/// The names of one module.
#[derive(Default)]
struct Scope {
    items: HashSet<String>,
    /// Names in what macros make of: items perhaps.
    possible: HashSet<String>,
    imports: HashMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

impl<'a> Names<'a> {
    pub fn of(of_crate: &'a Crate) -> Self {
        let scopes = of_crate.modules.iter().map(Scope::of).collect();
        Names { modules: &of_crate.modules, scopes }
    }

    /// Where a path leads that stands in a module; `None`: out of the crate, or to something local.
    pub fn resolve(&self, module: usize, path: &[String]) -> Option<Target> {
        self.follow(module, path, &mut HashSet::new())
    }

    fn follow(&self, module: usize, path: &[String], seen: &mut Seen) -> Option<Target> {
        let mut target = Target { module, item: None };
        for (position, name) in path.iter().enumerate() {
            target = match name.as_str() {
                _ if target.item.is_some() => break,
                "crate" => Target { module: self.root(target.module), item: None },
                "self" => target,
                "super" => Target { module: self.modules[target.module].parent?, item: None },
                _ => match self.lookup(target.module, name, seen) {
                    Some(found) => found,
                    None if position == 0 => return None,
                    // A module of the crate has it, but made by a macro.
                    None => Target { module: target.module, item: Some(name.clone()) },
                },
            };
        }
        Some(target)
    }

    fn lookup(&self, module: usize, name: &str, seen: &mut Seen) -> Option<Target> {
        let scope = &self.scopes[module];
        let own = Target { module, item: Some(name.to_owned()) };
        if let Some(&child) = self.modules[module].children.get(name) {
            return Some(Target { module: child, item: None });
        }
        if scope.items.contains(name) {
            return Some(own);
        }
        if !seen.insert((module, name.to_owned())) {
            return None;
        }
        if let Some(import) = scope.imports.get(name) {
            return self.follow(module, import, seen);
        }
        let through_globs = scope.globs.iter().find_map(|glob| match self.follow(module, glob, seen)? {
            Target { module: from, item: None } if from != module => self.lookup(from, name, seen),
            _ => None,
        });
        through_globs.or_else(|| scope.possible.contains(name).then_some(own))
    }

    fn root(&self, module: usize) -> usize {
        self.modules[module].parent.map_or(module, |parent| self.root(parent))
    }
}

impl Scope {
    fn of(module: &Module) -> Self {
        let mut scope = Scope::default();
        for item in &module.items {
            scope.add(item);
            scope.visit_item(item);
        }
        scope
    }

    fn add(&mut self, item: &Item) {
        let name = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            Item::Macro(item) => match &item.ident {
                Some(name) => name,
                None => return self.possible.extend(words(item.mac.tokens.clone())),
            },
            Item::ForeignMod(block) => {
                self.items.extend(block.items.iter().filter_map(|item| match item {
                    ForeignItem::Fn(item) => Some(item.sig.ident.to_string()),
                    ForeignItem::Static(item) => Some(item.ident.to_string()),
                    _ => None,
                }));
                return;
            }
            _ => return,
        };
        self.items.insert(name.to_string());
    }
}

impl Visit<'_> for Scope {
    fn visit_item_use(&mut self, item: &ItemUse) {
        for (path, name) in leaves(item) {
            match name {
                Some(name) => drop(self.imports.entry(name).or_insert(path)),
                None => self.globs.push(path),
            }
        }
        visit::visit_item_use(self, item);
    }
}

/// What a `use` names: paths, and the names they get; none for a glob.
pub fn leaves(item: &ItemUse) -> Vec<(Vec<String>, Option<String>)> {
    fn walk(tree: &UseTree, before: &[String], leaves: &mut Vec<(Vec<String>, Option<String>)>) {
        let with = |name: &syn::Ident| before.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
        match tree {
            UseTree::Path(path) => walk(&path.tree, &with(&path.ident), leaves),
            UseTree::Group(group) => group.items.iter().for_each(|tree| walk(tree, before, leaves)),
            UseTree::Glob(_) => leaves.push((before.to_vec(), None)),
            UseTree::Name(name) if name.ident == "self" => leaves.push((before.to_vec(), before.last().cloned())),
            UseTree::Name(name) => leaves.push((with(&name.ident), Some(name.ident.to_string()))),
            UseTree::Rename(as_name) => leaves.push((with(&as_name.ident), Some(as_name.rename.to_string()))),
        }
    }
    let mut found = Vec::new();
    walk(&item.tree, &[], &mut found);
    found
}

fn words(tokens: TokenStream) -> Vec<String> {
    let words = tokens.into_iter().flat_map(|token| match token {
        TokenTree::Ident(name) => vec![name.to_string()],
        TokenTree::Group(group) => words(group.stream()),
        _ => Vec::new(),
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Tree;

    fn resolve(modules: &[(&str, &str)], path: &str) -> Option<(String, Option<String>)> {
        let tree = Tree::of(&[&[("x/Cargo.toml", "")], modules].concat());
        let of_crate = &tree.crates()[0];
        let path: Vec<String> = path.split("::").map(str::to_owned).collect();
        let target = Names::of(of_crate).resolve(0, &path)?;
        Some((of_crate.own(&of_crate.modules[target.module].path).to_owned(), target.item))
    }

    #[test]
    fn through_imports_and_globs() {
        let modules = [
            ("x/src/lib.rs", "mod a; mod b; use a::*; use b::f as g; use self::a as c;"),
            ("x/src/a.rs", "pub use super::b::{T, f}; pub struct S;"),
            ("x/src/b.rs", "pub enum T { One } pub fn f() {}"),
        ];
        let b = |name: &str| Some(("src/b.rs".to_owned(), Some(name.to_owned())));
        assert_eq!(resolve(&modules, "g"), b("f"));
        assert_eq!(resolve(&modules, "T::One"), b("T"));
        assert_eq!(resolve(&modules, "c::f"), b("f"));
        assert_eq!(resolve(&modules, "c"), Some(("src/a.rs".to_owned(), None)));
        assert_eq!(resolve(&modules, "Nowhere"), None);
        assert_eq!(resolve(&modules, "std::fs"), None);
    }

    #[test]
    fn modules_that_import_all_of_each_other() {
        let globs: String = (0..30).map(|module| format!("pub use super::m{module}::*; ")).collect();
        let root: String = (0..30).map(|module| format!("mod m{module} {{ {globs} }} ")).collect();
        assert_eq!(resolve(&[("x/src/lib.rs", &format!("{root} use m0::*;"))], "Nowhere"), None);
    }
}
