//! Names for addresses of one module: every source asked, the best answer taken, panics of readers contained.

use crate::Options;
use crate::demangle::{demangle_from, is_mangled};
use crate::doubt::Cause;
use crate::dwarf::{self, SplitFiles};
use crate::elf::Bytes;
use crate::find::{self, Files};
use crate::ghc::Origin;
use crate::path_map::PathMap;
use crate::plt::Stubs;
use crate::symbols::{self, Symbol};
use crate::{perf_map, rows::Named};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// One level of a site's inlined chain, in the linker's words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RawFrame {
    pub(crate) function: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    /// Where the function begins, when its name is from a symbol table.
    pub(crate) start: Option<u64>,
}

/// Shown for code whose line is known and whose function is not (stripped assembly, mostly).
const NO_NAME: &str = "[no symbol]";

/// The module whose addresses `/tmp/perf-PID.map` names: its path is `perf-map:PID`.
const PERF_MAP: &str = "perf-map:";

/// Names for `addresses` (sorted, in the module's own numbering) of the module recorded as `path` and `build_id`.
pub(crate) fn name(path: &str, build_id: &str, addresses: &[u64], options: &Options) -> Named {
    let mut named = Named { frames: vec![Vec::new(); addresses.len()], causes: Vec::new(), origin: Origin::Unknown };
    let all = addresses.len() as u64;
    if let Some(pid) = path.strip_prefix(PERF_MAP) {
        generated(pid, addresses, options, &mut named);
    } else if path == "[kernel]" || path == "[kernel.kallsyms]" || path == "[vsyscall]" {
        named.causes.push((Cause::Kernel, all));
    } else if path.is_empty() || path.starts_with("//anon") || path.starts_with("[") && path != "[vdso]" || !path.starts_with(['/', '[']) {
        named.causes.push((Cause::Generated, all));
    } else {
        match contain(|| find::locate(path, build_id, options)) {
            Ok(files) => from_files(&files, Path::new(path), addresses, options, &mut named),
            Err(why) => named.causes.push((Cause::Damaged { file: path.into(), why }, all)),
        }
    }
    named
}

fn generated(pid: &str, addresses: &[u64], options: &Options, named: &mut Named) {
    let path = PathMap(&options.path_map).apply(&PathBuf::from(format!("/tmp/perf-{pid}.map")));
    let all = addresses.len() as u64;
    match Bytes::open(&path) {
        Ok(map) => {
            for (frames, symbol) in named.frames.iter_mut().zip(perf_map::look_up(addresses, &map)) {
                frames.extend(symbol.map(RawFrame::of));
            }
            let unnamed = named.frames.iter().filter(|frames| frames.is_empty()).count() as u64;
            named.add(Cause::NoSymbols(path), unnamed);
        }
        Err(_) => named.causes.push((Cause::NoPerfMap(path), all)),
    }
}

fn from_files(files: &Files, path: &Path, addresses: &[u64], options: &Options, named: &mut Named) {
    let all = addresses.len() as u64;
    named.causes.extend(files.causes.iter().map(|cause| (cause.clone(), all)));
    if files.image.is_none() && files.debug.is_none() {
        return;
    }
    let shown = files.image.as_ref().or(files.debug.as_ref()).map_or(path, |bytes| &bytes.path);
    let damaged = |bytes: &Bytes, why: String| Cause::Damaged { file: bytes.path.clone(), why };
    if let Some(debug) = files.with_debug_info() {
        let split = Split { files, options };
        match contain(|| dwarf::look_up(addresses, debug, files.common.as_ref(), &split)).flatten() {
            Ok(answer) => {
                named.frames = answer.frames;
                let missing = answer.missing.len() as u64;
                if let Some(first) = answer.missing.into_iter().next() {
                    named.causes.push((Cause::MissingSplit { files: missing, first }, all));
                }
                named.causes.extend(answer.error.map(|why| (damaged(debug, why), all)));
            }
            Err(why) => named.causes.push((damaged(debug, why), all)),
        }
    }
    let tables: Vec<&Bytes> = [&files.image, &files.debug].into_iter().flatten().collect();
    match contain(|| symbols::look_up(addresses, &tables)) {
        Ok(answer) => {
            if answer.haskell {
                named.origin = Origin::Haskell;
            }
            for (frames, symbol) in named.frames.iter_mut().zip(answer.symbols) {
                name_outermost(frames, symbol);
            }
            named.causes.extend(answer.error.zip(files.image.as_ref()).map(|(why, image)| (damaged(image, why), all)));
        }
        Err(why) => named.causes.extend(files.image.as_ref().map(|image| (damaged(image, why), all))),
    }
    if let Some(image) = &files.image
        && named.frames.iter().any(Vec::is_empty)
        && let Ok(Some(stubs)) = contain(|| Stubs::of(image))
    {
        for (frames, address) in named.frames.iter_mut().zip(addresses).filter(|(frames, _)| frames.is_empty()) {
            frames.extend(stubs.find(*address).map(|(name, start)| RawFrame::of(Symbol { name, start })));
        }
    }
    let nameless = named.frames.iter_mut().flatten().filter(|frame| frame.function.is_none());
    nameless.for_each(|frame| frame.function = Some(NO_NAME.into()));
    let unnamed = named.frames.iter().filter(|frames| frames.is_empty()).count() as u64;
    let is_stub = |frame: &RawFrame| frame.function.as_ref().is_some_and(|name| name.ends_with("@plt"));
    let lineless = |frames: &&Vec<RawFrame>| frames.first().is_some_and(|frame| frame.line.is_none() && !is_stub(frame));
    // Line 0 of known debug information means that the code has no line: nothing is missing there.
    let without_file = named.frames.iter().filter(lineless).filter(|frames| frames[0].file.is_none()).count() as u64;
    named.add(Cause::NoSymbols(shown.to_path_buf()), unnamed);
    named.add(Cause::NoLines(shown.to_path_buf()), without_file);
}

/// Lets the symbol table name the function itself where DWARF has no name, or (C++, internal linkage) only the
/// last part of it.
fn name_outermost(frames: &mut Vec<RawFrame>, symbol: Option<Symbol>) {
    let Some(symbol) = symbol else { return };
    let Some(outermost) = frames.last_mut() else {
        frames.push(RawFrame::of(symbol));
        return;
    };
    match &outermost.function {
        None => {
            outermost.function = Some(symbol.name);
            outermost.start = Some(symbol.start);
        }
        Some(name) => {
            // `.cold`, `.isra.0`: parts and copies that the compiler made of the function.
            let stem = symbol.name.split('.').next().unwrap_or_default();
            if stem.starts_with("_Z") && !is_mangled(name) && is_mangled(stem) && demangle_from(stem, Origin::Unknown).contains(name.as_str()) {
                outermost.function = Some(stem.to_string());
            }
        }
    }
}

impl RawFrame {
    fn of(symbol: Symbol) -> Self {
        RawFrame { function: Some(symbol.name), file: None, line: None, start: Some(symbol.start) }
    }
}

/// Split files, found for the module of `files`.
struct Split<'a> {
    files: &'a Files,
    options: &'a Options,
}

impl SplitFiles for Split<'_> {
    fn open(&self, dir: &Path, relative: &Path) -> Option<Bytes> {
        find::split_file(&dir.join(relative), relative, self.files, self.options)
    }

    fn package(&self) -> Option<Bytes> {
        find::split_package(self.files)
    }
}

/// Runs `read`; a panic in it becomes an error. The readers return errors for damaged files; where one has a bug
/// instead, the profile must not be lost for it. Here is the only place that catches.
fn contain<T>(read: impl FnOnce() -> T) -> Result<T, String> {
    // What `read` borrows is only read, and what it builds is dropped with the panic.
    catch_unwind(AssertUnwindSafe(read)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        format!("a reader failed: {}", text.unwrap_or("without a message"))
    })
}
