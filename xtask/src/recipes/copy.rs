//! A copy of the tree, and the compiler's word on it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The files that git tracks or would track, by their paths.
pub fn files(root: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut files = BTreeMap::new();
    for path in crate::tidy::listed(root)? {
        // A file deleted and not yet committed is still listed.
        if let Ok(bytes) = std::fs::read(root.join(&path)) {
            files.insert(path, bytes);
        }
    }
    Ok(files)
}

/// Makes `folder` hold these files and no others. Those that are right are left alone, so that the compiler need not
/// look at them again.
pub fn write(folder: &Path, files: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
    let said = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(folder).map_err(|error| said(folder, error))?;
    remove_others(folder, "", files).map_err(|error| said(folder, error))?;
    for (path, bytes) in files {
        let path = folder.join(path);
        if std::fs::read(&path).is_ok_and(|old| old == *bytes) {
            continue;
        }
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(|error| said(parent, error))?;
        std::fs::write(&path, bytes).map_err(|error| said(&path, error))?;
    }
    Ok(())
}

fn remove_others(folder: &Path, prefix: &str, files: &BTreeMap<String, Vec<u8>>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            remove_others(&entry.path(), &format!("{path}/"), files)?;
        } else if !files.contains_key(&path) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Asks the compiler. What it built for the tree itself serves the copy, as far as it is other people's.
pub fn compile(root: &Path, folder: &Path) -> Result<(), String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |target| root.join(target));
    let status = Command::new(env!("CARGO"))
        .args(["check", "--release", "--quiet", "--workspace", "--all-targets", "--target-dir"])
        .arg(target)
        .current_dir(folder)
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{}: the copy does not pass the compiler", folder.display())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_holds_its_files_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let files = |names: &[&str]| -> BTreeMap<String, Vec<u8>> {
            names.iter().map(|name| ((*name).to_owned(), name.as_bytes().to_vec())).collect()
        };
        write(folder.path(), &files(&["a", "b/c", "b/d"])).unwrap();
        write(folder.path(), &files(&["a", "b/d"])).unwrap();
        assert_eq!(std::fs::read(folder.path().join("b/d")).unwrap(), b"b/d");
        assert!(!folder.path().join("b/c").exists());
    }
}
