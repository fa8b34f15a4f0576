//! Rules about crates: what they may depend on, and how their manifests look.

use super::{Complaint, File, Tree};
use toml::{Table, Value};

/// Which crates of the workspace a crate may use. Data flows one way: collect -> profile -> symbolize -> analyze ->
/// view; the two halves meet in the profile, so nothing to the right of it may name `event`, `aggregate`, `isa` or
/// `collect`.
const MAY_USE: &[(&str, &[&str])] = &[
    ("numalens-topology", &[]),
    ("numalens-event", &[]),
    ("numalens-aggregate", &[]),
    ("numalens-isa", &[]),
    ("numalens-pclntab", &[]),
    ("numalens-translator", &["numalens-isa"]),
    ("numalens-agent", &["numalens-event", "numalens-isa", "numalens-pclntab", "numalens-translator"]),
    ("numalens-profile", &["numalens-topology"]),
    ("numalens-interpose", &["numalens-event"]),
    (
        "numalens-collect",
        &[
            "numalens-topology",
            "numalens-event",
            "numalens-agent",
            "numalens-translator",
            "numalens-aggregate",
            "numalens-isa",
            "numalens-profile",
            "numalens-interpose",
        ],
    ),
    ("numalens-symbolize", &["numalens-topology", "numalens-pclntab", "numalens-profile"]),
    ("numalens-simulate", &["numalens-topology"]),
    ("numalens-rules", &["numalens-topology"]),
    ("numalens-analyze", &["numalens-topology", "numalens-profile", "numalens-simulate"]),
    // Its tests look at what was imported.
    ("numalens-import", &["numalens-topology", "numalens-profile", "numalens-analyze"]),
    // Its tests ask for everything that it may have to show.
    ("numalens-view", &["numalens-topology", "numalens-profile", "numalens-simulate", "numalens-analyze"]),
    (
        "numalens-serve",
        &["numalens-topology", "numalens-profile", "numalens-simulate", "numalens-analyze", "numalens-view"],
    ),
    ("numalens-lab", &["numalens-topology", "numalens-profile"]),
    (
        "numalens",
        &[
            "numalens-topology",
            "numalens-profile",
            "numalens-collect",
            "numalens-import",
            "numalens-symbolize",
            "numalens-simulate",
            "numalens-analyze",
            "numalens-view",
            "numalens-serve",
            // Its tests check recordings against the truth that targets tell, as the lab does.
            "numalens-lab",
        ],
    ),
    (
        "numalens-fuzz",
        &[
            "numalens-topology",
            "numalens-profile",
            "numalens-import",
            "numalens-simulate",
            "numalens-analyze",
            "numalens-view",
        ],
    ),
    ("numalens-bench", &[]),
    ("xtask", &[]),
];

const KINDS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// Manifests of crates (not the workspace's), parsed.
fn manifests(tree: &Tree) -> Vec<(&File, Result<Table, String>)> {
    let is_manifest = |file: &&File| file.path.ends_with("/Cargo.toml");
    let parse = |file: &File| file.text.parse::<Table>().map_err(|error| error.message().to_owned());
    tree.files.iter().filter(is_manifest).map(|file| (file, parse(file))).collect()
}

fn package_name(manifest: &Table) -> Option<&str> {
    manifest.get("package")?.get("name")?.as_str()
}

/// Names in all dependency tables, those under `[target.'cfg(...)']` too.
fn dependencies(manifest: &Table) -> Vec<&str> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let tables = std::iter::once(manifest).chain(targets.filter_map(Value::as_table));
    let of_kinds = tables.flat_map(|table| KINDS.iter().filter_map(|kind| table.get(*kind)?.as_table()));
    of_kinds.flat_map(Table::keys).map(String::as_str).collect()
}

/// A crate uses only those of the workspace that [`MAY_USE`] lists.
pub fn dependencies_flow_one_way(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (file, manifest) in manifests(tree) {
        let manifest = match manifest {
            Ok(manifest) => manifest,
            Err(error) => {
                complaints.push(Complaint::new(file, 0, error));
                continue;
            }
        };
        let Some(name) = package_name(&manifest) else {
            continue;
        };
        let Some((_, may_use)) = MAY_USE.iter().find(|(of, _)| *of == name) else {
            let text = format!("{name} is new: say in xtask/src/tidy/crates.rs which crates it may use");
            complaints.push(Complaint::new(file, 0, text));
            continue;
        };
        let is_ours = |used: &&str| MAY_USE.iter().any(|(of, _)| of == used);
        let mut used: Vec<&str> = dependencies(&manifest).into_iter().filter(is_ours).collect();
        used.dedup();
        for used in used.into_iter().filter(|used| !may_use.contains(used)) {
            let text =
                format!("{name} must not use {used}: data flows collect -> profile -> symbolize -> analyze -> view");
            complaints.push(Complaint::new(file, 0, text));
        }
    }
    complaints
}

/// Every crate inherits the workspace's lints, of which `undocumented_unsafe_blocks` wants a SAFETY comment at each
/// `unsafe`.
pub fn lints_are_inherited(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    if let Some(root) = tree.get("Cargo.toml") {
        let manifest = root.text.parse::<Table>().unwrap_or_default();
        let clippy = manifest.get("workspace").and_then(|value| value.get("lints")?.get("clippy")?.as_table());
        let level = clippy.and_then(|lints| lints.get("undocumented_unsafe_blocks")?.as_str());
        if level != Some("deny") {
            complaints.push(Complaint::new(root, 0, "workspace.lints.clippy must deny undocumented_unsafe_blocks"));
        }
    }
    for (file, manifest) in manifests(tree) {
        let Ok(manifest) = manifest else { continue };
        let inherits = manifest.get("lints").and_then(|lints| lints.get("workspace")?.as_bool());
        if package_name(&manifest).is_some() && inherits != Some(true) {
            complaints.push(Complaint::new(file, 0, "add `[lints]` with `workspace = true`"));
        }
    }
    complaints
}

/// What the workspace offers as a dependency is used by a crate.
pub fn workspace_dependencies_are_used(tree: &Tree) -> Vec<Complaint> {
    let Some(root) = tree.get("Cargo.toml") else {
        return Vec::new();
    };
    let workspace = root.text.parse::<Table>().unwrap_or_default();
    let offered = workspace.get("workspace").and_then(|value| value.get("dependencies")?.as_table());
    let manifests: Vec<Table> = manifests(tree).into_iter().filter_map(|(_, manifest)| manifest.ok()).collect();
    let is_used = |name: &str| {
        MAY_USE.iter().any(|(ours, _)| *ours == name) || manifests.iter().any(|m| dependencies(m).contains(&name))
    };
    let unused = offered.into_iter().flat_map(Table::keys).filter(|name| !is_used(name));
    unused.map(|name| Complaint::new(root, 0, format!("no crate uses the dependency {name}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n{rest}")
    }

    fn texts(complaints: Vec<Complaint>) -> Vec<String> {
        complaints.into_iter().map(|complaint| complaint.text).collect()
    }

    #[test]
    fn dependencies() {
        let against = |name: &str, rest: &str| {
            let text = manifest(name, rest);
            texts(dependencies_flow_one_way(&Tree::of(&[("crates/x/Cargo.toml", &text)])))
        };
        assert_eq!(against("numalens-view", "[dependencies]\nnumalens-analyze.workspace = true\nserde = '1'"), [""; 0]);
        for rest in [
            "[dependencies]\nnumalens-collect.workspace = true",
            "[dev-dependencies]\nnumalens-collect = { path = '../collect' }",
            "[build-dependencies]\nnumalens-collect.workspace = true",
            "[target.'cfg(unix)'.dependencies]\nnumalens-collect.workspace = true",
        ] {
            let complaints = against("numalens-view", rest);
            assert!(complaints.len() == 1 && complaints[0].contains("must not use numalens-collect"), "{complaints:?}");
        }
        assert!(against("numalens-newcomer", "")[0].contains("is new"));
        assert_eq!(texts(dependencies_flow_one_way(&Tree::of(&[("a/Cargo.toml", "[package")]))).len(), 1);
    }

    #[test]
    fn the_table_itself_flows_one_way() {
        for (index, (name, may_use)) in MAY_USE.iter().enumerate() {
            for used in *may_use {
                let position = MAY_USE.iter().position(|(of, _)| of == used);
                assert!(position.is_some_and(|position| position < index), "{name} uses {used}");
            }
        }
    }

    #[test]
    fn lints() {
        let root = |level: &str| format!("[workspace.lints.clippy]\nundocumented_unsafe_blocks = \"{level}\"\n");
        let good = manifest("numalens-view", "");
        let check = |root: &str, of_crate: &str| {
            lints_are_inherited(&Tree::of(&[("Cargo.toml", root), ("crates/view/Cargo.toml", of_crate)])).len()
        };
        assert_eq!(check(&root("deny"), &good), 0);
        assert_eq!(check(&root("warn"), &good), 1);
        assert_eq!(check("", &good), 1);
        assert_eq!(check(&root("deny"), &good.replace("workspace = true", "workspace = false")), 1);
        assert_eq!(check(&root("deny"), "[package]\nname = \"numalens-view\"\n"), 1);
    }

    #[test]
    fn offered_and_unused() {
        let root = "[workspace.dependencies]\nnumalens-view = { path = 'crates/view' }\nserde = '1'\nlibc = '0.2'\n";
        let user = manifest("numalens-view", "[dev-dependencies]\nserde.workspace = true");
        let tree = Tree::of(&[("Cargo.toml", root), ("crates/view/Cargo.toml", &user)]);
        assert_eq!(texts(workspace_dependencies_are_used(&tree)), ["no crate uses the dependency libc"]);
    }
}
