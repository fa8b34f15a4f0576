//! Names of heap blocks: the variables to which the program's own lines assign them.
//!
//! The profile says where each block was allocated; what stands there, the source says, where it can be read:
//!
//! ```text
//!   malloc
//!   xmalloc   util.c:9    void *p = malloc(n);  ...  return p;     not p: whoever calls knows it by another name
//!   init      grid.c:40   grid->cells = xmalloc(n);                grid->cells
//! ```
//! A source is a stranger's file: regular, named like a source, bounded, and not newer than the recording, as lines of
//! one that was changed since are others.

use crate::statement::{AROUND, Assigned, Language, assigned};
use numalens_profile::ids::{FunctionId, SiteId, StackId};
use numalens_profile::tables::{Frame, Function, Object, Stack};
use numalens_profile::words::ObjectKind;
use numalens_profile::{Error, Profile};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Longer sources were not written by people.
const LONGEST: u64 = 4 << 20;
/// So many sources are read, and so many bytes of them.
const MOST_FILES: usize = 1000;
const MOST_BYTES: usize = 64 << 20;
/// Places of a call stack that are looked at, and wrappers among them.
const MOST_PLACES: usize = 64;
const MOST_WRAPPERS: usize = 4;
/// `O_NOFOLLOW | O_NONBLOCK | O_NOCTTY` of Linux on x86-64.
const OPENED: i32 = 0o400_000 | 0o4_000 | 0o400;
/// Whose lines are not the user's.
const SYSTEM: &[&str] = &[
    "/usr/include/",
    "/usr/lib/",
    "/usr/local/go/src/",
    "/rustc/",
    "/build/",
    "./",
    "../",
    "/proc/",
    "/sys/",
    "/dev/",
    "/run/",
];
/// Functions of languages' libraries, by the beginnings of their names.
const LIBRARIES: &[&str] = &["std::", "core::", "alloc::", "gnu_cxx::", "operator new", "runtime."];
const SOURCES: &[&str] = &[
    "c", "cc", "cpp", "cxx", "c++", "h", "hh", "hpp", "hxx", "h++", "inl", "ipp", "tpp", "tcc", "cu", "cuh", "hip",
    "rs", "go", "f", "for", "ftn", "f77", "f90", "f95", "f03", "f08", "fpp", "d", "m", "mm", "nim", "zig", "jl",
    "swift",
];

/// Names heap objects that have none; whether there were any.
pub(crate) fn name_blocks(
    profile: &Profile,
    objects: &mut [Object],
    functions: &[Function],
    frames: &[Frame],
) -> Result<bool, Error> {
    let is_nameless = |object: &&mut Object| {
        object.kind == ObjectKind::Heap && object.name.is_empty() && (object.stack.is_some() || object.site.is_some())
    };
    if !objects.iter_mut().any(|object| is_nameless(&object)) || frames.iter().all(|frame| frame.line.is_none()) {
        return Ok(false);
    }
    let stacks = profile.rows::<Stack>()?.into_iter().map(|stack| (stack.stack, (stack.parent, stack.site))).collect();
    let mut names = Names::new(profile, stacks, functions, frames);
    let mut known: FxHashMap<(Option<StackId>, Option<SiteId>), Option<String>> = FxHashMap::default();
    let mut changed = false;
    for object in objects.iter_mut().filter(is_nameless) {
        let place = (object.stack, object.site);
        let name = known.entry(place).or_insert_with(|| names.of(place.0, place.1));
        if let Some(name) = name {
            object.name.clone_from(name);
            changed = true;
        }
    }
    Ok(changed)
}

struct Names<'a> {
    stacks: FxHashMap<StackId, (Option<StackId>, SiteId)>,
    /// By site and depth, of those of the program's own that have a line.
    frames: Vec<&'a Frame>,
    sources: Sources,
}

impl<'a> Names<'a> {
    fn new(
        profile: &Profile,
        stacks: FxHashMap<StackId, (Option<StackId>, SiteId)>,
        functions: &[Function],
        frames: &'a [Frame],
    ) -> Self {
        let of_libraries: FxHashSet<FunctionId> = functions
            .iter()
            .filter(|function| is_of_library(&function.name))
            .map(|function| function.function)
            .collect();
        let is_own = |frame: &&Frame| {
            frame.line.is_some()
                && frame.file.as_deref().is_some_and(|file| !SYSTEM.iter().any(|place| file.starts_with(place)))
                && !of_libraries.contains(&frame.function)
        };
        let mut frames: Vec<&Frame> = frames.iter().filter(is_own).collect();
        frames.sort_by_key(|frame| (frame.site, frame.depth));
        Names { stacks, frames, sources: Sources::of(profile) }
    }

    /// The program's own places of a site, innermost first.
    fn places(&self, site: SiteId) -> &[&'a Frame] {
        let begin = self.frames.partition_point(|frame| frame.site < site);
        let end = begin + self.frames[begin..].partition_point(|frame| frame.site == site);
        &self.frames[begin..end]
    }

    /// The variable that has what was allocated there.
    fn of(&mut self, stack: Option<StackId>, site: Option<SiteId>) -> Option<String> {
        let mut sites = Vec::from_iter(site);
        let mut at = stack;
        // A damaged table may go in circles.
        while let Some(stack) = at.filter(|_| sites.len() < MOST_PLACES) {
            let Some(&(parent, site)) = self.stacks.get(&stack) else { break };
            if sites.last() != Some(&site) {
                sites.push(site);
            }
            at = parent;
        }
        let places: Vec<&Frame> = sites.iter().flat_map(|site| self.places(*site)).copied().take(MOST_PLACES).collect();
        let mut nearest = None;
        for frame in places.into_iter().take(MOST_WRAPPERS) {
            match self.sources.assigned(frame.file.as_deref()?, frame.line?) {
                Some(Assigned::To(name)) => return Some(name),
                // A function that returns what it allocates: its caller has it.
                Some(Assigned::Returned(name)) => nearest = nearest.or(name),
                None => break,
            }
        }
        nearest
    }
}

/// Whether a function is one of a language's library, by its readable name.
fn is_of_library(function: &str) -> bool {
    let name = function.trim_start_matches(['_', '<']);
    LIBRARIES.iter().any(|beginning| name.starts_with(beginning))
}

/// The texts of sources.
struct Sources {
    cwd: PathBuf,
    /// When the recording began.
    began: Option<SystemTime>,
    texts: FxHashMap<String, Option<Text>>,
    bytes: usize,
}

struct Text {
    text: String,
    /// Where lines begin, and where the last one ends.
    begins: Vec<usize>,
}

impl Text {
    fn new(text: String) -> Self {
        let begins = text.split_inclusive('\n').scan(0, |at, line| Some(std::mem::replace(at, *at + line.len())));
        let begins = begins.chain([text.len()]).collect();
        Text { text, begins }
    }

    /// What is read around a line, and which of these it is.
    fn around(&self, line: u32) -> Option<(Vec<&str>, u32)> {
        let at = (line as usize).checked_sub(1).filter(|&at| at + 1 < self.begins.len())?;
        let from = at.saturating_sub(AROUND[0]);
        let to = (at + AROUND[1]).min(self.begins.len() - 1);
        let lines = self.begins[from..=to].windows(2).map(|ends| self.text[ends[0]..ends[1]].trim_end());
        Some((lines.collect(), (at - from + 1) as u32))
    }
}

impl Sources {
    fn of(profile: &Profile) -> Self {
        let cwd = PathBuf::from(&profile.meta.cwd);
        Sources { cwd, began: time(&profile.meta.start_time), texts: FxHashMap::default(), bytes: 0 }
    }

    fn assigned(&mut self, file: &str, line: u32) -> Option<Assigned> {
        if !self.texts.contains_key(file) {
            let is_full = self.texts.len() >= MOST_FILES || self.bytes >= MOST_BYTES;
            let text = if is_full { None } else { self.read(file).map(Text::new) };
            self.bytes += text.as_ref().map_or(0, |text| text.text.len());
            self.texts.insert(file.to_owned(), text);
        }
        let (lines, number) = self.texts[file].as_ref()?.around(line)?;
        assigned(&lines, number, Language::of(file))
    }

    fn read(&self, file: &str) -> Option<String> {
        let place = self.cwd.join(file).canonicalize().ok()?;
        if !may_be_source(&place) {
            return None;
        }
        let file = OpenOptions::new().read(true).custom_flags(OPENED).open(&place).ok()?;
        let about = file.metadata().ok()?;
        let is_newer = || Some(about.modified().ok()? > self.began?);
        if !about.is_file() || about.len() > LONGEST || is_newer().unwrap_or(false) {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(LONGEST).read_to_end(&mut bytes).ok()?;
        (!bytes.contains(&0)).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Whether a place is named like a source, and nowhere hidden but where Rust's tools keep theirs.
fn may_be_source(place: &Path) -> bool {
    let ending = place.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    let is_hidden = |part: Component<'_>| {
        let part = part.as_os_str().as_encoded_bytes();
        part.starts_with(b".") && part != b".cargo" && part != b".rustup"
    };
    ending.is_some_and(|ending| SOURCES.contains(&ending.as_str()))
        && !SYSTEM.iter().any(|system| place.starts_with(system))
        && !place.components().any(is_hidden)
}

/// A time as profiles have it: `2026-11-28T20:55:05Z`. A second later, as parts of it are left out.
fn time(text: &str) -> Option<SystemTime> {
    let (date, clock) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, joint: char| -> Option<[u64; 3]> {
        let mut parts = text.split(joint).map(|part| part.split('.').next()?.parse::<u64>().ok());
        let three = [parts.next()??, parts.next()??, parts.next()??];
        parts.next().is_none().then_some(three)
    };
    let ([year, month, day], [hour, minute, second]) = (numbers(date, '-')?, numbers(clock, ':')?);
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // March is the first month of a year of the calendar's arithmetic.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second + 1;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        let since = |text| time(text).map(|time| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() - 1);
        assert_eq!(since("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(since("2024-02-29T12:00:00Z"), Some(1_709_208_000));
        assert_eq!(since("2026-11-28T20:55:05.25Z"), Some(1_795_899_305));
        for text in ["", "yesterday", "2024-02-29", "0000-00-00T00:00:00Z", "99999-01-01T00:00:00Z"] {
            assert_eq!(since(text), None, "{text}");
        }
    }

    #[test]
    fn only_what_is_named_like_a_source_is_read() {
        let may = |place: &str| may_be_source(Path::new(place));
        assert!(may("/home/me/app/grid.c") && may("/home/me/.cargo/registry/src/x/a.rs"));
        for place in
            ["/home/me/.ssh/id.c", "/proc/self/a.c", "/home/me/app/key", "/home/me/key.pem", "/usr/include/a.h"]
        {
            assert!(!may(place), "{place}");
        }
        let folder = tempfile::Builder::new().prefix("sources").tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(at("a.c"), "b = malloc(n);\n").unwrap();
        std::fs::create_dir(at("folder.c")).unwrap();
        std::os::unix::fs::symlink("a.c", at("link.c")).unwrap();
        std::fs::write(at("binary.c"), "b = \0 malloc(n);\n").unwrap();
        std::fs::File::create(at("long.c")).unwrap().set_len(LONGEST + 1).unwrap();
        let sources = |began| Sources { cwd: PathBuf::new(), began, texts: FxHashMap::default(), bytes: 0 };
        let name = Some(Assigned::To("b".to_owned()));
        assert_eq!(sources(None).assigned(&at("a.c"), 1), name);
        assert_eq!(sources(None).assigned(&at("link.c"), 1), name);
        for other in ["folder.c", "binary.c", "long.c", "none.c"] {
            assert_eq!(sources(None).assigned(&at(other), 1), None, "{other}");
        }
        let before = SystemTime::now() - Duration::from_secs(60);
        assert_eq!(sources(Some(before)).assigned(&at("a.c"), 1), None, "it was changed since");
    }
}
