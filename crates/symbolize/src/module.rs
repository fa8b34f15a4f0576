//! Names for addresses of one module: every source asked, the best answer taken, panics of readers contained.

use crate::Options;
use crate::demangle::{demangle_from, is_mangled};
use crate::doubt::Cause;
use crate::dwarf::{self, SplitFiles};
use crate::elf::Bytes;
use crate::find::{self, Files};
use crate::ghc::Origin;
use crate::go;
use crate::path_map::PathMap;
use crate::plt::Stubs;
use crate::rows::Named;
use crate::spin;
use crate::symbols::{self, Symbol};
use numalens_profile::perf_map;
use numalens_profile::tables::{Module, PERF_MAP};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One level of a site's inlined chain, in the linker's words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RawFrame {
    /// None: code with a line and without a name.
    pub(crate) function: Option<Arc<str>>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    /// Where the function begins, when its name is from a symbol table.
    pub(crate) start: Option<u64>,
}

/// How the kernel's names of mappings that have no file on a disk begin.
pub(crate) const WITHOUT_FILE: [&str; 6] = ["[", "//anon", "anon_inode:", "/memfd:", "/dev/zero", "/SYSV"];

/// What is done of a module whose debug information is to be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dwarf {
    Read,
    /// Nothing.
    Leave,
}

/// Names for `addresses` (sorted, in the module's own numbering) of `module`.
pub(crate) fn name(module: &Module, addresses: &[u64], options: &Options) -> Named {
    name_by(module, addresses, options, Dwarf::Read).unwrap_or_else(|| Named::none(addresses.len()))
}

/// The same of a module without debug information that is to be read.
pub(crate) fn name_without_dwarf(module: &Module, addresses: &[u64], options: &Options) -> Option<Named> {
    name_by(module, addresses, options, Dwarf::Leave)
}

fn name_by(module: &Module, addresses: &[u64], options: &Options, dwarf: Dwarf) -> Option<Named> {
    let (path, build_id) = (module.path.as_str(), module.build_id.as_str());
    let kept = options.kept.get(&module.module).map(PathBuf::as_path);
    let lines = !options.without_lines.contains(&module.module);
    let mut named = Named::none(addresses.len());
    let all = addresses.len() as u64;
    if let Some(pid) = path.strip_prefix(PERF_MAP) {
        // Of anybody's profile: nothing but a number leads to a file.
        match pid.parse::<u32>() {
            Ok(pid) => generated(pid, addresses, options, &mut named),
            Err(_) => named.causes.push((Cause::Generated, all)),
        }
    } else if path == "[kernel]" || path == "[kernel.kallsyms]" || path == "[vsyscall]" {
        named.causes.push((Cause::Kernel, all));
    } else if kept.is_none()
        && (path.is_empty() || path != "[vdso]" && WITHOUT_FILE.iter().any(|start| path.starts_with(start)))
    {
        named.causes.push((Cause::Generated, all));
    } else {
        match contain(|| find::locate(path, build_id, kept, options)) {
            Ok(files) => {
                let lines = lines && !files.are_left_out(options);
                if lines && dwarf == Dwarf::Leave && files.with_debug_info().is_some() {
                    return None;
                }
                from_files(&files, addresses, lines, options, &mut named);
            }
            Err(why) => named.causes.push((Cause::Damaged { file: path.into(), why }, all)),
        }
    }
    Some(named)
}

fn generated(pid: u32, addresses: &[u64], options: &Options, named: &mut Named) {
    let path = PathMap(&options.path_map).apply(&perf_map::path_of(pid));
    let all = addresses.len() as u64;
    match Bytes::open(&path) {
        Ok(map) => {
            for (frames, symbol) in named.frames.iter_mut().zip(perf_map::look_up(addresses, &map)) {
                *frames = symbol.map(RawFrame::made_at_run_time).into_iter().collect();
            }
            let unnamed = named.frames.iter().filter(|frames| frames.is_empty()).count() as u64;
            named.add(Cause::NoSymbols(path), unnamed);
        }
        Err(_) => named.causes.push((Cause::NoPerfMap(path), all)),
    }
}

fn from_files(files: &Files, addresses: &[u64], lines: bool, options: &Options, named: &mut Named) {
    let all = addresses.len() as u64;
    named.causes.extend(files.causes.iter().map(|cause| (cause.clone(), all)));
    let tables: Vec<&Bytes> = [&files.image, &files.debug].into_iter().flatten().collect();
    let Some(shown) = tables.first().map(|bytes| bytes.path.clone()) else { return };
    if let Some(debug) = files.with_debug_info().filter(|_| lines) {
        from_dwarf(debug, files, addresses, options, named);
    } else if let Some(image) = &files.image {
        match contain(|| go::look_up(addresses, image)) {
            Ok(found) => named.frames = found.unwrap_or_else(|| std::mem::take(&mut named.frames)),
            Err(why) => named.causes.push((Cause::Damaged { file: image.path.clone(), why }, all)),
        }
    }
    from_symbols(&tables, addresses, named);
    if let Some(image) = &files.image
        && let Ok(waits) = contain(|| spin::waits(image, addresses))
    {
        named.waits = waits;
    }
    if let Some(image) = &files.image
        && named.frames.iter().any(Vec::is_empty)
    {
        from_stubs(image, addresses, named);
    }
    let count = |filter: &dyn Fn(&[RawFrame]) -> bool| named.frames.iter().filter(|frames| filter(frames)).count();
    let unnamed = count(&|frames| frames.is_empty());
    // Debug information that knows the file and no line says that the code has none: nothing is missing there.
    let without_line =
        count(&|frames| matches!(frames, [f, ..] if f.line.is_none() && f.file.is_none() && !f.is_stub()));
    named.add(Cause::NoSymbols(shown.clone()), unnamed as u64);
    if lines {
        named.add(Cause::NoLines(shown), without_line as u64);
    }
}

fn from_dwarf(debug: &Bytes, files: &Files, addresses: &[u64], options: &Options, named: &mut Named) {
    let all = addresses.len() as u64;
    let damaged = |why| (Cause::Damaged { file: debug.path.clone(), why }, all);
    match contain(|| dwarf::look_up(addresses, debug, files.common.as_ref(), &Split { files, options })).flatten() {
        Ok(answer) => {
            named.frames = answer.frames;
            let files = answer.missing.len() as u64;
            let missing = answer.missing.into_iter().next().map(|first| (Cause::MissingSplit { files, first }, all));
            named.causes.extend(missing);
            named.causes.extend(answer.error.map(damaged));
        }
        Err(why) => named.causes.push(damaged(why)),
    }
}

fn from_symbols(tables: &[&Bytes], addresses: &[u64], named: &mut Named) {
    let error = match contain(|| symbols::look_up(addresses, tables)) {
        Ok(answer) => {
            if answer.haskell {
                named.origin = Origin::Haskell;
            }
            for (frames, symbol) in named.frames.iter_mut().zip(answer.symbols) {
                name_outermost(frames, symbol);
            }
            answer.error
        }
        Err(why) => Some(why),
    };
    let damaged = |(why, table): (String, &&Bytes)| Cause::Damaged { file: table.path.clone(), why };
    let cause = error.zip(tables.first()).map(damaged);
    named.causes.extend(cause.map(|cause| (cause, addresses.len() as u64)));
}

fn from_stubs(image: &Bytes, addresses: &[u64], named: &mut Named) {
    // A file whose stubs cannot be read has been doubted before.
    let Ok(Some(stubs)) = contain(|| Stubs::of(image)) else { return };
    for (frames, address) in named.frames.iter_mut().zip(addresses).filter(|(frames, _)| frames.is_empty()) {
        let symbol = stubs.find(*address).map(|(name, start)| Symbol { name: name.into(), start });
        *frames = symbol.map(RawFrame::alone).unwrap_or_default();
    }
}

/// Lets the symbol table name the function itself where DWARF has no name, or (C++, internal linkage) only the
/// last part of it.
fn name_outermost(frames: &mut Vec<RawFrame>, symbol: Option<Symbol>) {
    let Some(symbol) = symbol else { return };
    let Some(outermost) = frames.last_mut() else {
        *frames = RawFrame::alone(symbol);
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
            if stem.starts_with("_Z")
                && !is_mangled(name)
                && is_mangled(stem)
                && demangle_from(stem, Origin::Unknown).contains(&**name)
            {
                outermost.function = Some(stem.into());
            }
        }
    }
}

impl RawFrame {
    /// The only frame of an address, without room for more: there are as many lists as addresses.
    fn alone(symbol: Symbol) -> Vec<Self> {
        vec![RawFrame { function: Some(symbol.name), file: None, line: None, start: Some(symbol.start) }]
    }

    /// That of code that a runtime has made.
    fn made_at_run_time(named: perf_map::Named) -> Self {
        let perf_map::Named { function, file, line, start } = named;
        RawFrame { function: Some(function.into()), file, line, start: Some(start) }
    }

    fn is_stub(&self) -> bool {
        self.function.as_ref().is_some_and(|name| name.ends_with("@plt"))
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
pub(crate) fn contain<T>(read: impl FnOnce() -> T) -> Result<T, String> {
    // What `read` borrows is only read, and what it builds is dropped with the panic.
    catch_unwind(AssertUnwindSafe(read)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        format!("a reader failed: {}", text.unwrap_or("without a message"))
    })
}
