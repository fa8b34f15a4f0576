//! The crates of the workspace as modules with their items, tests left out: what rules about structure look at.

use super::{Complaint, Tree};
use std::collections::{HashMap, HashSet};
use syn::{Attribute, Item, ItemMod};
use toml::{Table, Value};

/// A module of a crate. Modules written inside others have the file of those.
pub struct Module {
    pub path: String,
    pub parent: Option<usize>,
    pub children: HashMap<String, usize>,
    /// Without modules, and without what only tests have.
    pub items: Vec<Item>,
}

/// A crate: the modules that its roots (`lib.rs`, `main.rs`, ...) reach.
#[derive(Default)]
pub struct Crate {
    /// Of its manifest, from the repository's root.
    pub folder: String,
    pub modules: Vec<Module>,
    /// Files that are not understood, and why.
    failures: Vec<(String, String)>,
}

impl Crate {
    /// A file of the crate as the crate names it: `src/lib.rs`.
    pub fn own<'a>(&self, path: &'a str) -> &'a str {
        path.strip_prefix(self.folder.as_str()).map_or(path, |path| path.trim_start_matches('/'))
    }

    fn read_file(&mut self, tree: &Tree, path: &str, parent: Option<usize>) -> Option<usize> {
        let file = tree.get(path)?;
        match syn::parse_file(&file.text) {
            Ok(ast) => {
                let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
                let is_root = parent.is_none() || name == "mod.rs";
                let children = if is_root { folder } else { path.trim_end_matches(".rs") };
                Some(self.add(tree, path, children, parent, ast.items))
            }
            Err(error) => {
                self.failures.push((path.to_owned(), error.to_string()));
                None
            }
        }
    }

    /// A module and those below it, whose files are in `folder`.
    fn add(&mut self, tree: &Tree, path: &str, folder: &str, parent: Option<usize>, items: Vec<Item>) -> usize {
        let index = self.modules.len();
        self.modules.push(Module { path: path.to_owned(), parent, children: HashMap::new(), items: Vec::new() });
        for item in items.into_iter().filter(|item| !is_test(attributes(item))) {
            let Item::Mod(ItemMod { ident, content, .. }) = item else {
                self.modules[index].items.push(item);
                continue;
            };
            let below = format!("{folder}/{ident}");
            let child = match content {
                Some((_, items)) => Some(self.add(tree, path, &below, Some(index), items)),
                None => [format!("{below}.rs"), format!("{below}/mod.rs")]
                    .iter()
                    .find_map(|path| self.read_file(tree, path, Some(index))),
            };
            if let Some(child) = child {
                self.modules[index].children.insert(ident.to_string(), child);
            }
        }
        index
    }
}

/// All crates whose manifests are in the tree.
pub fn crates(tree: &Tree) -> Vec<Crate> {
    let mut crates = Vec::new();
    for manifest in &tree.files {
        let Some(folder) = manifest.path.strip_suffix("/Cargo.toml") else { continue };
        let table = manifest.text.parse::<Table>().unwrap_or_default();
        let mut of_crate = Crate { folder: folder.to_owned(), ..Crate::default() };
        for root in roots(tree, folder, &table) {
            of_crate.read_file(tree, &root, None);
        }
        crates.push(of_crate);
    }
    crates
}

/// Files of which a crate's programs and its library are made.
fn roots(tree: &Tree, folder: &str, manifest: &Table) -> Vec<String> {
    let usual = ["src/lib.rs", "src/main.rs", "build.rs"].map(|name| format!("{folder}/{name}"));
    let binaries = manifest.get("bin").and_then(Value::as_array).into_iter().flatten();
    let named = binaries.filter_map(|bin| Some(format!("{folder}/{}", bin.get("path")?.as_str()?)));
    let bin = format!("{folder}/src/bin/");
    let others =
        tree.files.iter().map(|file| &file.path).filter(|path| path.starts_with(&bin) && path.ends_with(".rs"));
    let mut seen = HashSet::new();
    usual.into_iter().chain(named).chain(others.cloned()).filter(|path| seen.insert(path.clone())).collect()
}

/// Rules about structure are blind for files that the parser does not understand.
pub fn sources_are_understood(tree: &Tree) -> Vec<Complaint> {
    let failures = tree.crates().iter().flat_map(|of_crate| &of_crate.failures);
    failures.map(|(path, error)| Complaint { path: path.clone(), line: 0, text: error.clone() }).collect()
}

/// Whether only tests have what these attributes stand at.
pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let condition = list.tokens.to_string();
        let has = |word: &str| condition.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word);
        list.path.is_ident("cfg") && has("test") && !has("not")
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(syn::ItemConst { attrs, .. })
        | Item::Enum(syn::ItemEnum { attrs, .. })
        | Item::ExternCrate(syn::ItemExternCrate { attrs, .. })
        | Item::Fn(syn::ItemFn { attrs, .. })
        | Item::ForeignMod(syn::ItemForeignMod { attrs, .. })
        | Item::Impl(syn::ItemImpl { attrs, .. })
        | Item::Macro(syn::ItemMacro { attrs, .. })
        | Item::Mod(ItemMod { attrs, .. })
        | Item::Static(syn::ItemStatic { attrs, .. })
        | Item::Struct(syn::ItemStruct { attrs, .. })
        | Item::Trait(syn::ItemTrait { attrs, .. })
        | Item::TraitAlias(syn::ItemTraitAlias { attrs, .. })
        | Item::Type(syn::ItemType { attrs, .. })
        | Item::Union(syn::ItemUnion { attrs, .. })
        | Item::Use(syn::ItemUse { attrs, .. }) => attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_without_tests() {
        let tree = Tree::of(&[
            ("crates/x/Cargo.toml", "[package]\nname = 'x'\n[[bin]]\npath = 'other.rs'"),
            ("crates/x/src/lib.rs", "mod a; mod b { pub mod c; fn f() {} }\n#[cfg(test)]\nmod tests;"),
            ("crates/x/src/a/mod.rs", "#[cfg(not(test))] fn f() {}\n#[cfg(all(test, unix))] fn g() {}"),
            ("crates/x/src/b/c.rs", ""),
            ("crates/x/src/tests.rs", "mod a;"),
            ("crates/x/other.rs", "fn main() {}"),
        ]);
        let crates = crates(&tree);
        let modules = crates[0].modules.iter();
        let found: Vec<_> = modules.map(|module| (crates[0].own(&module.path), module.items.len())).collect();
        let wanted = [("src/lib.rs", 0), ("src/a/mod.rs", 1), ("src/lib.rs", 1), ("src/b/c.rs", 0), ("other.rs", 1)];
        assert_eq!(found, wanted);
        assert_eq!(sources_are_understood(&tree), []);
    }

    #[test]
    fn what_is_not_understood() {
        let tree = Tree::of(&[("crates/x/Cargo.toml", ""), ("crates/x/src/lib.rs", "fn {")]);
        assert_eq!(sources_are_understood(&tree).len(), 1);
    }
}
