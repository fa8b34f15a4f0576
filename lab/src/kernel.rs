//! Debian's kernel for virtual machines, of which only the image is needed: no module is loaded, as the console, NVMe
//! (by which results leave) and everything NUMA are built in.

use miette::{IntoDiagnostic, Result, WrapErr, bail, miette};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The package that depends on the newest kernel's package.
const META: &str = "linux-image-cloud-amd64";

/// The kernel image: from the cache when there, else downloaded with apt into it.
pub fn image(build: &Path) -> Result<PathBuf> {
    let cache = cache_directory().filter(|path| fs::create_dir_all(path).is_ok()).unwrap_or_else(|| build.to_owned());
    let package = match newest_package() {
        Ok(package) => package,
        Err(error) => return any_cached(&cache).ok_or(error),
    };
    let image = cache.join(format!("vmlinuz-{package}"));
    if !image.exists() {
        eprintln!("lab: downloading {package}");
        download(&package, build, &image)?;
    }
    Ok(image)
}

fn cache_directory() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))?;
    Some(base.join("numalens/lab"))
}

fn any_cached(cache: &Path) -> Option<PathBuf> {
    let mut images: Vec<_> = fs::read_dir(cache).ok()?.flatten().map(|entry| entry.path()).collect();
    images
        .retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-linux-image")));
    images.sort();
    images.pop()
}

fn newest_package() -> Result<String> {
    let output = Command::new("apt-cache")
        .args(["depends", META])
        .output()
        .into_diagnostic()
        .wrap_err("the lab takes its kernel from Debian and needs apt-cache; or give one with --kernel")?;
    let text = String::from_utf8_lossy(&output.stdout);
    depended_on(&text).ok_or_else(|| {
        miette!("apt-cache knows no kernel behind {META}: run `apt-get update`, or give a kernel with --kernel")
    })
}

/// The versioned image package in the output of `apt-cache depends`.
fn depended_on(text: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-") && *name != META)
        .map(str::to_owned)
}

fn download(package: &str, build: &Path, image: &Path) -> Result<()> {
    let directory = build.join("kernel");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).into_diagnostic()?;
    let output =
        Command::new("apt-get").args(["download", "-q", package]).current_dir(&directory).output().into_diagnostic()?;
    let package_file = fs::read_dir(&directory).into_diagnostic()?.flatten().map(|entry| entry.path()).next();
    let Some(package_file) = package_file.filter(|_| output.status.success()) else {
        bail!("apt-get download {package} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    };
    let mut archive = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(&package_file)
        .stdout(Stdio::piped())
        .spawn()
        .into_diagnostic()?;
    let stdout = archive.stdout.take().ok_or_else(|| miette!("dpkg-deb has no output"))?;
    let mut found = false;
    for entry in tar::Archive::new(stdout).entries().into_diagnostic()? {
        let mut entry = entry.into_diagnostic()?;
        let name = entry.path().into_diagnostic()?.to_string_lossy().into_owned();
        if name.trim_start_matches("./").starts_with("boot/vmlinuz-") {
            // Aside and renamed: another run may be looking at the cache.
            let partial = image.with_extension("partial");
            std::io::copy(&mut entry, &mut fs::File::create(&partial).into_diagnostic()?).into_diagnostic()?;
            fs::rename(&partial, image).into_diagnostic()?;
            found = true;
            break;
        }
    }
    // It may still be writing the rest, which nobody wants.
    let _ = archive.kill();
    let _ = archive.wait();
    let _ = fs::remove_dir_all(&directory);
    if found { Ok(()) } else { Err(miette!("{} holds no boot/vmlinuz-*", package_file.display())) }
}

#[cfg(test)]
mod tests {
    use super::depended_on;

    #[test]
    fn finds_the_package_behind_the_meta_package() {
        let text = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-56-cloud-amd64\n  Conflicts: x\n";
        assert_eq!(depended_on(text).as_deref(), Some("linux-image-6.1.0-56-cloud-amd64"));
        assert_eq!(depended_on("linux-image-cloud-amd64\n"), None);
    }
}
