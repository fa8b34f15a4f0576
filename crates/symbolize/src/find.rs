//! Which files names can come from: the module's own file and its separate debug files.
//!
//! Another build's file gives wrong names that look right, so identity goes before location: when a build id was
//! recorded, a file counts only with the same one. In order:
//!
//! 1. the module's path, mapped by `--source-map`;
//! 2. when it is missing, another build, or has no debug information: `DIR/.build-id/ab/cdef.debug` and
//!    `DIR/abcdef/debuginfo` (the layout of debuginfod's cache) in the debug directories;
//! 3. the name in its `.gnu_debuglink`, beside it, in `.debug/` beside it, and under the debug directories, checked by
//!    build id, or by the CRC that the link states;
//! 4. without the module itself: `PATH.debug` and `.debug/NAME.debug` of the same build id.
//!
//! To the debug file may belong a common part that `dwz` took out (`.gnu_debugaltlink`). The order and the places are
//! GDB's ("Debugging Information in Separate Files" in its manual).

use crate::Options;
use crate::doubt::Cause;
use crate::elf::{self, Bytes};
use crate::path_map::PathMap;
use numalens_profile::tables::PERF_MAP;
use object::Object;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The files of one module; each has been seen to be ELF and to belong to the recorded build.
#[derive(Default)]
pub(crate) struct Files {
    /// What was executed.
    pub(crate) image: Option<Bytes>,
    /// Separate debug information.
    pub(crate) debug: Option<Bytes>,
    /// What `dwz` shared out of the debug information.
    pub(crate) common: Option<Bytes>,
    /// What stood in the way.
    pub(crate) causes: Vec<Cause>,
}

impl Files {
    /// The file that DWARF comes from.
    pub(crate) fn with_debug_info(&self) -> Option<&Bytes> {
        let filled = |bytes: &&Bytes| bytes.parse().is_ok_and(|file| elf::has_debug_info(&file));
        self.debug.as_ref().filter(filled).or(self.image.as_ref().filter(filled))
    }

    /// Whether debug information is not to be read, as it is in a file of its own.
    pub(crate) fn are_left_out(&self, options: &Options) -> bool {
        let separate = |debug: &Bytes| self.image.as_ref().map(|image| &image.path) != Some(&debug.path);
        !options.separate_lines && self.with_debug_info().is_some_and(separate)
    }
}

/// Finds the files of the module recorded at `path` with build id `recorded` (empty: none). `kept`: where what was
/// executed is, if not there.
pub(crate) fn locate(path: &str, recorded: &str, kept: Option<&Path>, options: &Options) -> Files {
    let recorded = recorded.to_ascii_lowercase();
    let mut files = Files::default();
    let here = PathMap(&options.path_map).apply(Path::new(path.strip_suffix(" (deleted)").unwrap_or(path)));
    if path == "[vdso]" {
        files.image = vdso().filter(|image| identity(image).is_some_and(|id| !recorded.is_empty() && id == recorded));
    } else if let Some(kept) = kept {
        match open_image(kept, &here, &recorded) {
            Ok(image) => files.image = Some(image),
            Err(cause) => files.causes.push(cause),
        }
    } else if path.ends_with(" (deleted)") && recorded.is_empty() {
        // What is there now cannot be told from what was deleted.
        files.causes.push(Cause::NotFound(here.clone()));
        return files;
    } else {
        match open_image(&here, &here, &recorded) {
            Ok(image) => files.image = Some(image),
            Err(cause) => files.causes.push(cause),
        }
    }
    let id = match &files.image {
        Some(image) => identity(image).unwrap_or_default(),
        None => recorded,
    };
    if files.with_debug_info().is_none() {
        files.debug =
            by_build_id(&id, options).or_else(|| by_debuglink(&mut files, &id, options)).or_else(|| beside(&here, &id));
    }
    if files.image.is_none() && files.debug.is_some() {
        files.causes.clear();
    }
    if path == "[vdso]" && files.image.is_none() && files.debug.is_none() {
        files.causes = vec![Cause::Kernel];
    }
    find_common(&mut files, options);
    files
}

/// The image at `file`, known as `path`.
fn open_image(file: &Path, path: &Path, recorded: &str) -> Result<Bytes, Cause> {
    let unreadable = |why: String| Cause::Unreadable { file: path.to_path_buf(), why };
    let image = Bytes::open_as(file, path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Cause::NotFound(path.to_path_buf()),
        _ => unreadable(error.to_string()),
    })?;
    let found = match image.parse() {
        Ok(file) => elf::build_id(&file),
        Err(why) => return Err(unreadable(why)),
    };
    if !recorded.is_empty() && found != recorded {
        return Err(Cause::OtherBuild { file: path.to_path_buf(), recorded: recorded.to_string(), found });
    }
    Ok(image)
}

/// The build id of an ELF file (empty when it has none); none for what is not ELF.
fn identity(bytes: &Bytes) -> Option<String> {
    bytes.parse().ok().map(|file| elf::build_id(&file))
}

/// The first of `paths` that is an ELF file of build id `id`.
fn first_of_build(paths: impl IntoIterator<Item = PathBuf>, id: &str) -> Option<Bytes> {
    (paths.into_iter()).filter_map(|path| Bytes::open(&path).ok()).find(|bytes| identity(bytes).as_deref() == Some(id))
}

fn by_build_id(id: &str, options: &Options) -> Option<Bytes> {
    first_of_build(build_id_places(id, options), id)
}

fn build_id_places(id: &str, options: &Options) -> Vec<PathBuf> {
    // Build ids are hexadecimal; anything else in a damaged table must not become a path.
    if id.len() < 4 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Vec::new();
    }
    let (first, rest) = id.split_at(2);
    let places = |dir: &PathBuf| [dir.join(format!(".build-id/{first}/{rest}.debug")), dir.join(id).join("debuginfo")];
    options.debug_dirs.iter().flat_map(places).collect()
}

/// Where files of a module may be, as far as its row tells: names that were found stay right while nothing changes
/// there.
pub(crate) fn places(path: &str, recorded: &str, options: &Options) -> Vec<PathBuf> {
    let map = PathMap(&options.path_map);
    if let Some(pid) = path.strip_prefix(PERF_MAP) {
        return pid.parse().map(|pid| map.apply(&numalens_profile::perf_map::path_of(pid))).into_iter().collect();
    }
    let here = map.apply(Path::new(path.strip_suffix(" (deleted)").unwrap_or(path)));
    let mut places = build_id_places(&recorded.to_ascii_lowercase(), options);
    let (Some(dir), Some(name)) = (here.parent(), here.file_name()) else { return places };
    let with = |ending: &str| {
        let mut name = name.to_os_string();
        name.push(ending);
        name
    };
    let debug = with(".debug");
    let beside = [with(".dwp"), debug.clone()].map(|name| dir.join(name));
    let below = options.debug_dirs.iter().map(|debugs| debugs.join(dir.strip_prefix("/").unwrap_or(dir)).join(&debug));
    places.extend(
        beside.into_iter().chain(below).chain([dir.join(".debug").join(&debug), dir.join(".debug").join(name)]),
    );
    places.push(here);
    places
}

fn by_debuglink(files: &mut Files, id: &str, options: &Options) -> Option<Bytes> {
    let image = files.image.as_ref()?;
    let file = image.parse().ok()?;
    let (name, crc) = file.gnu_debuglink().ok()??;
    let name = Path::new(OsStr::from_bytes(name));
    let real = std::fs::canonicalize(&image.path).ok();
    let dirs = [image.path.parent(), real.as_deref().and_then(Path::parent)];
    let mut others = Vec::new();
    for dir in dirs.into_iter().flatten() {
        let under = |debug: &PathBuf| debug.join(dir.strip_prefix("/").unwrap_or(dir)).join(name);
        let places = [dir.join(name), dir.join(".debug").join(name)];
        for path in places.into_iter().chain(options.debug_dirs.iter().map(under)) {
            let Some(found) = Bytes::open(&path).ok().filter(|_| path != image.path) else { continue };
            let same = match identity(&found) {
                Some(found_id) if !found_id.is_empty() && !id.is_empty() => found_id == id,
                Some(_) => crc32fast::hash(&found) == crc,
                None => continue,
            };
            if same {
                return Some(found);
            }
            others.push(Cause::OtherDebugFile(path));
        }
    }
    others.dedup();
    files.causes.extend(others);
    None
}

fn beside(path: &Path, id: &str) -> Option<Bytes> {
    let (dir, name) = (path.parent()?, path.file_name()?);
    let mut debug_name = name.to_os_string();
    debug_name.push(".debug");
    let places = [dir.join(&debug_name), dir.join(".debug").join(&debug_name), dir.join(".debug").join(name)];
    if id.is_empty() { None } else { first_of_build(places, id) }
}

fn find_common(files: &mut Files, options: &Options) {
    let Some(debug) = files.with_debug_info() else { return };
    let Ok(file) = debug.parse() else { return };
    let Ok(Some((name, id))) = file.gnu_debugaltlink() else { return };
    let id = elf::hex(id);
    let stated = PathMap(&options.path_map).bytes(name);
    let dir =
        std::fs::canonicalize(&debug.path).ok().and_then(|path| Some(path.parent()?.to_path_buf())).unwrap_or_default();
    let shared = stated.file_name().map(|name| options.debug_dirs.iter().map(move |dir| dir.join(".dwz").join(name)));
    // An absolute path stands for itself in a join.
    let places = std::iter::once(dir.join(&stated)).chain(shared.into_iter().flatten());
    let common = first_of_build(places, &id).or_else(|| by_build_id(&id, options));
    if common.is_none() {
        files.causes.push(Cause::MissingCommon(stated));
    }
    files.common = common;
}

/// The kernel's shared object that this process has mapped; the same as a recording's if the kernel is.
fn vdso() -> Option<Bytes> {
    use std::os::unix::fs::FileExt;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let range = maps.lines().find(|line| line.ends_with("[vdso]"))?.split(' ').next()?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let mut image = vec![0; usize::try_from(end.checked_sub(start)?).ok()?];
    std::fs::File::open("/proc/self/mem").ok()?.read_exact_at(&mut image, start).ok()?;
    Some(Bytes::owned(PathBuf::from("[vdso]"), image))
}

/// Where else the split file that debug information states as `stated` may be: beside the module, at its relative path
/// or its name.
pub(crate) fn split_file(stated: &Path, relative: &Path, files: &Files, options: &Options) -> Option<Bytes> {
    let here = PathMap(&options.path_map).apply(stated);
    let dirs = [&files.image, &files.debug].into_iter().flatten().filter_map(|bytes| bytes.path.parent());
    let near = dirs.flat_map(|dir| [dir.join(relative), dir.join(relative.file_name().unwrap_or_default())]);
    std::iter::once(here).chain(near).find_map(|path| Bytes::open(&path).ok())
}

/// The package of split files (`.dwp`) of the module: beside it or its debug file, named after it.
pub(crate) fn split_package(files: &Files) -> Option<Bytes> {
    [&files.image, &files.debug].into_iter().flatten().find_map(|bytes| {
        let mut name = bytes.path.as_os_str().to_os_string();
        name.push(".dwp");
        let stem = bytes.path.with_extension("dwp");
        Bytes::open(Path::new(&name)).or_else(|_| Bytes::open(&stem)).ok()
    })
}
