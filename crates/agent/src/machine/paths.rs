//! Paths as the program means them: where they lead on the virtual machine, whatever they are relative to and however
//! they get there.
//!
//! ```text
//!   path              cpu/online                     what the call has
//!   base              /proc/self/fd/7 -> /sys/devices/system
//!   joined            /sys/devices/system/cpu/online leads into the collector's folder
//! ```
//! Of a folder in the collector's own folder the program's name for it is the base, so that `..` leads out of it where
//! it would on the machine. `..` behind a symbolic link is that of what the link leads to: such paths are walked, link
//! by link.
//!
//! Most paths have nothing to do with any of this, which is found out from their names alone, without asking the kernel
//! for anything.

use super::files::{is_place, place_of};
use crate::call;
use crate::state::collector::await_collector;
use crate::state::runtime::runtime;
use crate::sys::{Line, raw};
use core::fmt::Write;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use numalens_event::exact::machine_files;

/// Longest path that is looked at: all that lead to these files are shorter.
pub const LONGEST: usize = 256;
/// Links on the way of a path, as the kernel limits them.
const MOST_LINKS: u32 = 40;
const ROOM: usize = 4 * LONGEST;

/// What the names of a path say of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Names {
    /// It begins at the root.
    pub is_absolute: bool,
    /// There is a `..` in it.
    pub goes_up: bool,
    /// One of its names is that of something which a machine has of its own.
    pub has_own: bool,
    /// The first name is that of a file system of the kernel's.
    pub is_kernels: bool,
}

impl Names {
    /// Those in these bytes, up to a NUL or their end. `is_own`: of a name that a machine may have something of its own
    /// for.
    pub fn of(bytes: impl Iterator<Item = u8>, is_own: impl Fn(&[u8]) -> bool) -> Names {
        /// Longer names are nobody's here.
        const ROOM: usize = 32;
        let mut names = Names::default();
        let (mut name, mut length, mut before) = ([0u8; ROOM], 0usize, 0u32);
        let ended = bytes.take(LONGEST).take_while(|&byte| byte != 0).chain([b'/']);
        for (at, byte) in ended.enumerate() {
            if byte != b'/' {
                if let Some(to) = name.get_mut(length) {
                    *to = byte;
                }
                length += 1;
                continue;
            }
            names.is_absolute |= at == 0 && length == 0;
            match name.get(..length) {
                Some(b"" | b".") => {}
                Some(b"..") => names.goes_up = true,
                Some(known) => {
                    names.is_kernels |= before == 0 && matches!(known, b"sys" | b"proc");
                    names.has_own |= is_own(known);
                    before += 1;
                }
                None => before += 1,
            }
            length = 0;
        }
        names
    }

    /// Whether the path leads to the host's files, whatever it is relative to, as long as that is not in the
    /// collector's folder.
    fn is_hosts(&self) -> bool {
        !self.has_own || self.is_absolute && !self.is_kernels && !self.goes_up
    }

    /// Whether it certainly leads to other files: a thread that works in such a folder asks for it.
    pub fn is_other(&self, works_in: Option<Region>) -> bool {
        match works_in {
            _ if self.is_absolute => self.is_hosts(),
            Some(Region::Elsewhere) => self.is_hosts() || !self.goes_up,
            Some(Region::Kernels) => self.is_hosts(),
            // The kernel finds what is below.
            Some(Region::Machines) => !self.goes_up,
            None => self.is_hosts() && !self.goes_up,
        }
    }
}

/// Where a folder is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Region {
    /// The root, or a file system of the kernel's.
    Kernels,
    /// The collector's folder, or what the host has in place of a folder in it.
    Machines,
    /// Neither.
    Elsewhere,
}

/// An absolute path under construction, ended by 0.
pub struct Path {
    bytes: [u8; ROOM],
    length: usize,
}

impl Path {
    /// The root.
    pub fn new() -> Self {
        Path { bytes: [0; ROOM], length: 0 }
    }

    /// Its names, with one slash before each.
    pub fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// For the kernel.
    pub fn address(&self) -> u64 {
        let text = if self.length == 0 { c"/".as_ptr().cast() } else { self.bytes.as_ptr() };
        text as u64
    }

    fn is_root(&self) -> bool {
        self.length == 0
    }

    /// Appends the names of a path as they are. None where they do not fit.
    pub fn append(&mut self, path: &[u8]) -> Option<()> {
        path.split(|&byte| byte == b'/')
            .filter(|name| !matches!(*name, b"" | b"."))
            .try_for_each(|name| self.push(name))
    }

    fn push(&mut self, name: &[u8]) -> Option<()> {
        if self.length + name.len() + 2 > self.bytes.len() {
            return None;
        }
        self.bytes[self.length] = b'/';
        self.bytes[self.length + 1..][..name.len()].copy_from_slice(name);
        self.length += 1 + name.len();
        self.bytes[self.length] = 0;
        Some(())
    }

    fn pop(&mut self) {
        self.length = self.text().iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        self.bytes[self.length] = 0;
    }

    fn clear(&mut self) {
        self.length = 0;
        self.bytes[0] = 0;
    }
}

/// Waits until the machine's files are there, which takes a few milliseconds from the start of the command. `false`:
/// they will not be.
fn is_written() -> bool {
    let word = &runtime().session.header().files_written;
    await_collector(word, |state| state != machine_files::COMING) == Some(machine_files::THERE)
}

/// The collector's folder; none where there is none.
pub fn folder_of_machine() -> Option<Path> {
    let mut folder = Path::new();
    for (to, from) in folder.bytes.iter_mut().zip(&runtime().session.header().files) {
        *to = from.load(Relaxed);
    }
    folder.length = folder.bytes.iter().position(|&byte| byte == 0).filter(|&length| length > 0)?;
    Some(folder)
}

/// A path, led to where the machine has what it names: in the collector's folder, if that is a place of its own.
pub fn led(path: &[u8]) -> Option<Path> {
    let place = place_of(path);
    let mut led = match place {
        // Asked for once more: where they did not fit, they have come to lie elsewhere.
        Some(_) => folder_of_machine().filter(|_| is_written()).and_then(|_| folder_of_machine())?,
        None => Path::new(),
    };
    led.append(place.unwrap_or(path))?;
    Some(led)
}

/// A folder as the program names it, and where it is.
pub struct Base {
    pub path: Path,
    pub region: Region,
}

impl Base {
    /// That of a descriptor, or of [`raw::AT_FDCWD`].
    pub fn of(descriptor: i32) -> Option<Base> {
        Base::within(descriptor, folder_of_machine())
    }

    /// The same where `machine` is the collector's folder.
    fn within(descriptor: i32, machine: Option<Path>) -> Option<Base> {
        let mut link = Line::new();
        match descriptor {
            raw::AT_FDCWD => write!(link, "/proc/thread-self/cwd\0").ok()?,
            _ => write!(link, "/proc/thread-self/fd/{descriptor}\0").ok()?,
        }
        let mut text = [0u8; ROOM / 2];
        let text = target(link.text().as_ptr() as u64, &mut text)?;
        let (mut path, mut region) = (Path::new(), Region::Elsewhere);
        let within = machine.as_ref().and_then(|folder| text.strip_prefix(folder.text()));
        match within {
            Some(rest) if is_end(rest) => {
                region = Region::Machines;
                path.append(rest)?;
            }
            _ => path.append(text)?,
        }
        let begins = |with: &[u8]| path.text().strip_prefix(with).is_some_and(is_end);
        // A folder of the host's that the machine has a link to is below one of the machine's.
        if is_place(path.text()) {
            region = Region::Machines;
        }
        if region == Region::Elsewhere && (path.is_root() || begins(b"/sys") || begins(b"/proc")) {
            region = Region::Kernels;
        }
        Some(Base { path, region })
    }
}

/// Whether a name ends here.
pub fn is_end(rest: &[u8]) -> bool {
    matches!(rest.first(), None | Some(b'/'))
}

/// Where a symbolic link leads, if it is one.
fn target(link: u64, into: &mut [u8]) -> Option<&[u8]> {
    // SAFETY: a path of our own, ended by 0, and memory of our own for the answer.
    let length = unsafe { call!(__NR_readlinkat, raw::AT_FDCWD, link, into.as_mut_ptr(), into.len()) }.ok()? as usize;
    into.get(..length).filter(|text| (1..ROOM / 2).contains(&text.len()))
}

/// Goes from a folder to where a path leads that goes up on its way; says whether it comes through a place of the
/// machine's.
pub fn walk(at: &mut Path, path: &[u8]) -> Option<bool> {
    let mut rest = Path::new();
    rest.append(path)?;
    let (mut links, mut through) = (0, is_place(at.text()));
    let mut next = 0;
    while next < rest.length {
        let text = &rest.text()[next + 1..];
        let length = text.iter().position(|&byte| byte == b'/').unwrap_or(text.len());
        let (name, behind) = text.split_at(length);
        next += 1 + length;
        if name == b".." {
            at.pop();
            continue;
        }
        at.push(name)?;
        through |= is_place(at.text());
        // A link that nothing goes up behind is the kernel's to follow.
        if !behind.split(|&byte| byte == b'/').any(|name| name == b"..") {
            continue;
        }
        let mut into = [0u8; ROOM / 2];
        let Some(link) = target(led(at.text())?.address(), &mut into) else { continue };
        // What the machine has not of its own is linked to the host's, which has the same name.
        if link == at.text() {
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return None;
        }
        if link.first() == Some(&b'/') {
            at.clear();
        } else {
            at.pop();
        }
        let mut spliced = Path::new();
        spliced.append(link)?;
        spliced.append(behind)?;
        (rest, next) = (spliced, 0);
    }
    Some(through)
}

/// Where the process works: a count of changes above, and below what is known, one of these.
static WORKS_IN: AtomicU32 = AtomicU32::new(0);
const KNOWN_BITS: u32 = 2;
const REGIONS: [Region; 3] = [Region::Kernels, Region::Machines, Region::Elsewhere];

/// Where the process works, if that was asked for since it changed.
pub fn known_region() -> Option<Region> {
    let known = WORKS_IN.load(Acquire) & ((1 << KNOWN_BITS) - 1);
    REGIONS.get((known as usize).wrapping_sub(1)).copied()
}

/// Asks for the folder in which the process works, and keeps where it is.
pub fn working_folder() -> Option<Base> {
    let before = WORKS_IN.load(Acquire);
    let base = Base::of(raw::AT_FDCWD)?;
    let place = REGIONS.iter().position(|region| *region == base.region).map_or(0, |place| place as u32 + 1);
    let changes = before >> KNOWN_BITS << KNOWN_BITS;
    // Unless somebody has changed it meanwhile.
    let _ = WORKS_IN.compare_exchange(before, changes | place, AcqRel, Relaxed);
    Some(base)
}

/// The process works elsewhere from now on.
pub fn moved() {
    let _ = WORKS_IN.fetch_update(AcqRel, Acquire, |word| Some((word >> KNOWN_BITS).wrapping_add(1) << KNOWN_BITS));
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn names(path: &str) -> Names {
        Names::of(path.bytes().chain([0]), |name| matches!(name, b"cpu" | b"status"))
    }

    #[test]
    fn most_paths_are_told_by_their_names() {
        let other = |path: &str, works_in| names(path).is_other(works_in);
        for path in ["/usr/lib/x", "/sys/kernel/mm", "/srv/cpu", "/", "/proc2/status", "/lib/../lib64/x"] {
            assert!(other(path, None), "{path}");
        }
        for path in ["/sys/devices/system/cpu", "//proc/./self/status", "/lib/../sys/cpu/x", "/proc/../sys/cpu"] {
            assert!(!other(path, None) && !other(path, Some(Region::Elsewhere)), "{path}");
        }
        let all = [None, Some(Region::Elsewhere), Some(Region::Kernels), Some(Region::Machines)];
        for (path, wanted) in [
            ("x.c", [true; 4]),
            ("", [true; 4]),
            ("cpu/online", [false, true, false, true]),
            ("../x.h", [false, true, true, false]),
            ("../cpu", [false; 4]),
        ] {
            assert_eq!(all.map(|works_in| other(path, works_in)), wanted, "{path}");
        }
        // Where the memory ends before the path does.
        assert!(!Names::of(b"/sys/cpu".iter().copied(), |name| name == b"cpu").is_other(None));
    }

    fn shown(path: &Path) -> String {
        String::from_utf8(path.text().to_vec()).unwrap()
    }

    #[test]
    fn paths_are_put_together() {
        let mut path = Path::new();
        path.append(b"//a/./b//").unwrap();
        assert_eq!(shown(&path), "/a/b");
        path.pop();
        path.push(b"c").unwrap();
        assert_eq!(shown(&path), "/a/c");
        (0..3).for_each(|_| path.pop());
        assert!(path.is_root());
        assert!(path.append(&[b'x'; ROOM]).is_none());
    }

    #[test]
    fn folders_have_the_names_of_their_descriptors() {
        for (path, name, region) in [
            (c"/", "", Region::Kernels),
            (c"/proc/sys/kernel", "/proc/sys/kernel", Region::Kernels),
            (c"/sys/devices/../kernel", "/sys/kernel", Region::Kernels),
            (c"/usr", "/usr", Region::Elsewhere),
            (c"/sys/devices/system/cpu", "/sys/devices/system/cpu", Region::Machines),
        ] {
            // SAFETY: a path of our own.
            let folder = unsafe { call!(__NR_openat, raw::AT_FDCWD, path.as_ptr(), raw::O_PATH, 0) }.unwrap();
            let base = Base::within(folder as i32, None).unwrap();
            assert_eq!((shown(&base.path).as_str(), base.region), (name, region));
            let mut machine = Path::new();
            machine.append(name.as_bytes()).unwrap();
            let base = Base::within(folder as i32, Some(machine)).unwrap();
            assert!(name.is_empty() || base.path.is_root() && base.region == Region::Machines);
            // SAFETY: a descriptor of our own.
            let _ = unsafe { call!(__NR_close, folder) };
        }
        assert!(Base::within(-1, None).is_none());
    }
}
