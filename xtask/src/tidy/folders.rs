//! Rules about files that belong together: circles of imports, a type's methods, names of modules.

use super::imports::{Graph, circles, graph};
use super::names::Names;
use super::offenders::Offence;
use super::syntax::Crate;
use super::{File, Tree, source::is_given};
use std::collections::{BTreeMap, BTreeSet};
use syn::{Item, Type};

/// Files over which a type's methods may be spread.
const MAX_FILES_OF_METHODS: usize = 3;

/// Files of a crate need each other only within one folder, whose root file (`x.rs` of `x/`) is a part of it.
pub fn circles_stay_in_a_folder(tree: &Tree) -> Vec<Offence> {
    let offence = |of_crate: &Crate| {
        let circles = circles_beyond(&graph(of_crate));
        let sizes: Vec<String> = circles.iter().map(|circle| circle.len().to_string()).collect();
        let text = format!("files of more than one folder need each other (in circles of {})", sizes.join(", "));
        let files: BTreeSet<String> = circles.iter().flatten().map(|path| of_crate.own(path).to_owned()).collect();
        (!files.is_empty()).then(|| Offence::of_files(&of_crate.folder, "", files, text))
    };
    tree.crates().iter().filter_map(offence).collect()
}

fn circles_beyond(graph: &Graph) -> Vec<BTreeSet<String>> {
    let mut circles = circles(graph);
    circles.retain(|circle| !are_of_one_folder(circle));
    circles
}

/// The files in each circle of a crate, with those of them that each needs.
pub fn arrows(tree: &Tree, folder: &str) -> Vec<String> {
    let mut arrows = Vec::new();
    for of_crate in tree.crates().iter().filter(|of_crate| of_crate.folder == folder) {
        let graph = graph(of_crate);
        for (file, circle) in
            circles_beyond(&graph).iter().flat_map(|circle| circle.iter().map(move |file| (file, circle)))
        {
            let needed: Vec<&str> = graph[file].intersection(circle).map(|path| of_crate.own(path)).collect();
            arrows.push(format!("{} -> {}", of_crate.own(file), needed.join(" ")));
        }
    }
    arrows
}

/// A type's own methods are in at most three files, of one folder.
pub fn methods_stay_together(tree: &Tree) -> Vec<Offence> {
    tree.crates().iter().flat_map(scattered_types).collect()
}

fn scattered_types(of_crate: &Crate) -> Vec<Offence> {
    let names = Names::of(of_crate);
    let mut types: BTreeMap<(&str, String), BTreeSet<String>> = BTreeMap::new();
    for (index, module) in of_crate.modules.iter().enumerate() {
        for item in &module.items {
            let Item::Impl(block) = item else { continue };
            let Type::Path(of_type) = &*block.self_ty else { continue };
            let path: Vec<String> = of_type.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            if block.trait_.is_some() {
                continue;
            }
            if let Some(target) = names.resolve(index, &path)
                && let Some(name) = target.item
            {
                let home = of_crate.modules[target.module].path.as_str();
                types.entry((home, name)).or_default().insert(module.path.clone());
            }
        }
    }
    types.retain(|_, files| files.len() > MAX_FILES_OF_METHODS || !are_of_one_folder(files));
    let offence = |((home, name), files): ((&str, String), BTreeSet<String>)| {
        let files: BTreeSet<String> = files.iter().map(|path| of_crate.own(path).to_owned()).collect();
        let list = files.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let text = format!("its methods are in {list}: at most {MAX_FILES_OF_METHODS} files, of one folder");
        Offence::of_files(home, &name, files, text)
    };
    types.into_iter().map(offence).collect()
}

/// The file of a module is named after it: `x.rs` beside `x/`. (In `tests/`, cargo would take that for a test.)
pub fn modules_have_names(tree: &Tree) -> Vec<Offence> {
    let is_nameless =
        |file: &&File| file.path.ends_with("/mod.rs") && file.path.contains("/src/") && !is_given(&file.path);
    let offence = |file: &File| {
        let text = format!("name it {}.rs", file.path.trim_end_matches("/mod.rs"));
        Offence::new(&file.path, "", 1, text)
    };
    tree.files.iter().filter(is_nameless).map(offence).collect()
}

fn are_of_one_folder(files: &BTreeSet<String>) -> bool {
    let mut files = files.iter().map(|path| folders(path));
    let Some(candidates) = files.next() else { return true };
    let others: Vec<[&str; 2]> = files.collect();
    candidates.iter().any(|folder| others.iter().all(|folders| folders.contains(folder)))
}

/// The folders that a file belongs to: the one of its module's siblings, and the one of its children.
fn folders(path: &str) -> [&str; 2] {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let own = if ["mod.rs", "lib.rs", "main.rs"].contains(&name) { folder } else { path.trim_end_matches(".rs") };
    [own.rsplit_once('/').map_or("", |(above, _)| above), own]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        Tree::of(&[&[("x/Cargo.toml", "")], files].concat())
    }

    #[test]
    fn circles_of_imports() {
        let check = |files: &[(&str, &str)]| circles_stay_in_a_folder(&tree(files));
        let root = ("x/src/lib.rs", "mod a; mod b; pub struct R;");
        let below = ("x/src/b/c.rs", "use crate::a::A; pub struct C;");
        let beyond = [root, ("x/src/a.rs", "use crate::b::c::C; pub struct A;"), ("x/src/b.rs", "mod c;"), below];
        let found = check(&beyond);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].files, BTreeSet::from(["src/a.rs", "src/b/c.rs"].map(str::to_owned)));
        assert!(found[0].text.contains("in circles of 2"), "{}", found[0].text);
        assert_eq!(arrows(&tree(&beyond), "x"), ["src/a.rs -> src/b/c.rs", "src/b/c.rs -> src/a.rs"]);
        let within = |b| check(&[root, ("x/src/a.rs", "use crate::b::B; pub struct A;"), b, below]).len();
        assert_eq!(within(("x/src/b.rs", "mod c; use crate::a::A; pub struct B;")), 0);
        assert_eq!(within(("x/src/b/mod.rs", "mod c; use crate::a::A; pub struct B;")), 0);
        assert_eq!(within(("x/src/b.rs", "mod c; use c::C; pub struct B;")), 1);
        let with_root = ("x/src/a.rs", "use crate::R; pub struct A;");
        assert_eq!(check(&[("x/src/lib.rs", "mod a; use a::A; pub struct R;"), with_root]).len(), 0);
    }

    #[test]
    fn methods() {
        let check = |names: &[&str]| {
            let modules: String = names.iter().map(|name| format!("mod {name}; ")).collect();
            let root = format!("{modules} pub struct T;");
            let paths: Vec<String> = names.iter().map(|name| format!("x/src/{name}.rs")).collect();
            let block = |path| (path, "use crate::T; impl<'a> T { fn f(&self) {} } impl Clone for T {}");
            let files: Vec<(&str, &str)> = paths.iter().map(|path| block(path.as_str())).collect();
            methods_stay_together(&tree(&[&[("x/src/lib.rs", root.as_str())], &files[..]].concat()))
        };
        assert_eq!(check(&["a", "b", "c"]).len(), 0);
        let found = check(&["a", "b", "c", "d"]);
        assert_eq!((found[0].path.as_str(), found[0].name.as_str(), found[0].figure), ("x/src/lib.rs", "T", 4));
        let two_folders = [
            ("x/src/lib.rs", "mod a; pub struct T;"),
            ("x/src/a.rs", "mod b; mod d;"),
            ("x/src/a/b.rs", "mod c;"),
            ("x/src/a/b/c.rs", "impl crate::T {}"),
            ("x/src/a/d.rs", "impl crate::T {}"),
        ];
        assert_eq!(methods_stay_together(&tree(&two_folders)).len(), 1);
    }

    #[test]
    fn names_of_modules() {
        let check = |path| modules_have_names(&Tree::of(&[(path, "")])).len();
        assert_eq!(check("x/src/a/mod.rs"), 1);
        assert_eq!(check("x/src/a.rs"), 0);
        assert_eq!(check("x/tests/common/mod.rs"), 0);
    }
}
