//! `cargo xtask ui`: builds the web pages into `ui/dist`, which is committed, so that building numalens needs no
//! Node.js. With `--check` it builds them aside and compares: whoever changes a page without building it is told.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Node.js that `setup.sh` brings where the system's is too old.
const OWN_NODE: &str = "target/node/node_modules/.bin";

/// Builds into `ui/dist`.
pub fn build(root: &Path) -> Result<(), String> {
    prepare(root)?;
    run(root, &["run", "--silent", "build"])
}

/// Builds aside; an error names the files in which `ui/dist` differs.
pub fn check(root: &Path) -> Result<(), String> {
    prepare(root)?;
    let aside = root.join("target/ui-dist").canonicalize().unwrap_or_else(|_| absolute(root).join("target/ui-dist"));
    let out = aside.to_string_lossy().into_owned();
    run(root, &["run", "--silent", "build", "--", "--outDir", &out, "--emptyOutDir"])?;
    let (built, committed) = (files(&aside)?, files(&root.join("ui/dist"))?);
    let differ: Vec<&str> = built
        .keys()
        .chain(committed.keys())
        .filter(|name| built.get(*name) != committed.get(*name))
        .map(String::as_str)
        .collect();
    match differ.is_empty() {
        true => Ok(()),
        false => Err(format!("ui/dist is stale ({}): run cargo xtask ui, and commit it", differ.join(", "))),
    }
}

/// One of package.json's scripts: `check`, `test`, `e2e`.
pub fn script(root: &Path, name: &str) -> Result<(), String> {
    prepare(root)?;
    run(root, &["run", "--silent", name])
}

fn absolute(root: &Path) -> PathBuf {
    root.canonicalize().unwrap_or_else(|_| root.to_owned())
}

/// Installs what the lock file names, unless it is there.
fn prepare(root: &Path) -> Result<(), String> {
    let ui = root.join("ui");
    let wanted =
        std::fs::read(ui.join("package-lock.json")).map_err(|error| format!("ui/package-lock.json: {error}"))?;
    // A copy of the lock file says for which one was installed.
    let stamp = ui.join("node_modules/.numalens-lock");
    if std::fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    run(root, &["ci", "--no-audit", "--no-fund", "--silent"])?;
    std::fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))
}

fn run(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let mut npm = Command::new("npm");
    npm.current_dir(root.join("ui")).args(arguments);
    let own = absolute(root).join(OWN_NODE);
    if own.join("node").exists() {
        let path = std::env::var("PATH").unwrap_or_default();
        npm.env("PATH", format!("{}:{path}", own.display()));
    }
    let status = npm.status().map_err(|error| format!("cannot run npm: {error}; ./setup.sh installs it"))?;
    if status.success() { Ok(()) } else { Err(format!("npm {}: {status}", arguments.join(" "))) }
}

/// Every file below a folder, by its path from there.
fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| format!("{path}: {error}")
    };
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).map_err(failed(&next))? {
            let path = entry.map_err(failed(&next))?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
                found.insert(name, std::fs::read(&path).map_err(failed(&path))?);
            }
        }
    }
    Ok(found)
}
