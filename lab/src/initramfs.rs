//! The guest's file system: an uncompressed cpio archive (decompression costs more under emulation than reading).
//!
//! Programs lie at the same absolute paths as on the host, with the libraries that `ldd` names, so that a profile
//! made in the guest finds its modules when it is read on the host.

use miette::{IntoDiagnostic, Result, WrapErr, bail, miette};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

enum Entry {
    Directory,
    Link(PathBuf),
    File { content: Vec<u8>, mode: u32 },
}

/// The archive to be, by guest path without the leading `/`.
#[derive(Default)]
pub struct Initramfs {
    entries: BTreeMap<PathBuf, Entry>,
}

impl Initramfs {
    /// The directories and links that every guest has; Debian's merged /usr.
    pub fn new() -> Self {
        let mut image = Initramfs::default();
        for directory in [
            "dev",
            "proc",
            "sys",
            "tmp",
            "run",
            "out",
            "root",
            "etc",
            "usr/bin",
            "usr/sbin",
            "usr/lib",
            "usr/lib64",
            "var/tmp",
        ] {
            image.directory(Path::new(directory));
        }
        for merged in ["bin", "sbin", "lib", "lib64"] {
            image.entries.insert(merged.into(), Entry::Link(Path::new("usr").join(merged)));
        }
        image
    }

    /// Adds a file with this content.
    pub fn file(&mut self, path: impl AsRef<Path>, content: impl Into<Vec<u8>>, mode: u32) {
        let path = self.settled(path.as_ref());
        if let Some(parent) = path.parent() {
            self.directory(parent);
        }
        self.entries.insert(path, Entry::File { content: content.into(), mode });
    }

    /// Adds a file of the host at the same path; a symbolic link with what it points to.
    pub fn host_file(&mut self, path: &Path) -> Result<()> {
        let what = || format!("{} is wanted in the guest", path.display());
        if fs::symlink_metadata(path).into_diagnostic().wrap_err_with(what)?.is_symlink() {
            let to = fs::read_link(path).into_diagnostic().wrap_err_with(what)?;
            let target = path.parent().unwrap_or(Path::new("/")).join(&to);
            let link = self.settled(path);
            if let Some(parent) = link.parent() {
                self.directory(parent);
            }
            self.entries.insert(link, Entry::Link(to));
            return self.host_file(&target);
        }
        let mode = fs::metadata(path).into_diagnostic().wrap_err_with(what)?.permissions().mode() & 0o7777;
        let content = fs::read(path).into_diagnostic().wrap_err_with(what)?;
        self.file(path, content, mode);
        Ok(())
    }

    /// Adds a program of the host at its own path, with its shared libraries.
    pub fn program(&mut self, path: &Path) -> Result<()> {
        self.host_file(path)?;
        let output = Command::new("ldd")
            .arg(path)
            .output()
            .into_diagnostic()
            .wrap_err("ldd, which names a program's libraries")?;
        for library in libraries(&String::from_utf8_lossy(&output.stdout))
            .map_err(|name| miette!("{} needs {name}, which this host does not have", path.display()))?
        {
            self.host_file(&library)?;
        }
        Ok(())
    }

    /// Writes the archive.
    pub fn write(&self, to: &Path) -> Result<()> {
        let mut out = std::io::BufWriter::new(fs::File::create(to).into_diagnostic()?);
        for (inode, (path, entry)) in self.entries.iter().enumerate() {
            let Some(name) = path.to_str() else { bail!("{} is not UTF-8", path.display()) };
            let link;
            let (mode, content): (u32, &[u8]) = match entry {
                Entry::Directory => (0o040755, &[]),
                Entry::Link(to) => {
                    link = to.to_string_lossy().into_owned();
                    (0o120777, link.as_bytes())
                }
                Entry::File { content, mode } => (0o100000 | mode, content),
            };
            let builder = cpio::newc::Builder::new(name).ino(inode as u32 + 1).mode(mode).nlink(1);
            let mut writer = builder.write(&mut out, content.len() as u32);
            writer.write_all(content).into_diagnostic()?;
            writer.finish().into_diagnostic()?;
        }
        cpio::newc::trailer(&mut out).into_diagnostic()?;
        out.flush().into_diagnostic()
    }

    fn directory(&mut self, path: &Path) {
        for directory in path.ancestors().filter(|directory| !directory.as_os_str().is_empty()) {
            self.entries.entry(directory.to_owned()).or_insert(Entry::Directory);
        }
    }

    /// The path relative to the root, without `.` and `..`, and through the links of the merged /usr.
    fn settled(&self, path: &Path) -> PathBuf {
        let mut settled = PathBuf::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => settled.push(name),
                Component::ParentDir => {
                    settled.pop();
                }
                _ => {}
            }
            if let Some(Entry::Link(to)) = self.entries.get(&settled)
                && settled.components().count() == 1
            {
                settled = to.clone();
            }
        }
        settled
    }
}

/// The libraries in the output of `ldd`; the error is the name of one that was not found.
fn libraries(text: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let (name, place) = line.split_once(" => ").unwrap_or((line, line));
        if place.starts_with("not found") {
            return Err(name.to_owned());
        }
        if place.starts_with('/') {
            found.push(PathBuf::from(place.split(" (").next().unwrap_or(place)));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_ldd() {
        let text = "\tlinux-vdso.so.1 (0x0)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x0)\n\t/lib64/ld.so.2 (0x0)\n";
        assert_eq!(libraries(text).unwrap(), [PathBuf::from("/lib/x/libc.so.6"), "/lib64/ld.so.2".into()]);
        assert_eq!(libraries("\tlibq.so => not found\n"), Err("libq.so".to_owned()));
        assert!(libraries("\tstatically linked\n").unwrap().is_empty());
    }

    #[test]
    fn paths_follow_the_merged_usr() {
        let image = Initramfs::new();
        assert_eq!(image.settled(Path::new("/lib/x/../y/libc.so")), Path::new("usr/lib/y/libc.so"));
        assert_eq!(image.settled(Path::new("/data/./a")), Path::new("data/a"));
    }

    #[test]
    fn the_archive_reads_back() {
        let mut image = Initramfs::new();
        image.file("/etc/deep/hello", "hello", 0o644);
        let path = std::env::temp_dir().join(format!("numalens-lab-{}.cpio", std::process::id()));
        image.write(&path).unwrap();
        let mut input = fs::File::open(&path).unwrap();
        let mut names = Vec::new();
        loop {
            let mut reader = cpio::newc::Reader::new(input).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let name = reader.entry().name().to_owned();
            if name == "etc/deep/hello" {
                let mut content = String::new();
                std::io::Read::read_to_string(&mut reader, &mut content).unwrap();
                assert_eq!(content, "hello");
            }
            names.push(name);
            input = reader.finish().unwrap();
        }
        fs::remove_file(&path).unwrap();
        assert!(names.contains(&"etc/deep".to_owned()) && names.contains(&"usr/lib64".to_owned()), "{names:?}");
    }
}
