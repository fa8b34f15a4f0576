//! Persisted code: which files the program's code comes from, and the translations that are known of them.
//!
//! A file is told by what the kernel says of it when it is mapped ([`numalens_translator::persist::file_key`]), and its
//! code is believed as long as the mapping has never been writable; the translator compares each fragment besides. What
//! is translated for want of a record is told to the collector, which makes one.

use crate::call;
use crate::interposer;
use crate::state::maps::{Backing, File, Line, Mapping};
use crate::state::session_file::{ProcessMemory, Session};
use crate::sys::{PAGE, raw};
use alloc::vec::Vec;
use core::ffi::CStr;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use hashbrown::HashMap;
use numalens_event::exact::{
    CODE_BYTES, CodeDirectory, FragmentSlot, KERNEL_CODE, MOST_IMAGES, PRELOADED_CODE, first_slot, log,
};
use numalens_translator::persist::file_key;
use rustc_hash::FxBuildHasher;

/// Fragments that are told at a time: few, as what is not told yet is lost when the program is killed.
const TOLD_TOGETHER: usize = 8;

/// The persisted code of a process.
#[derive(Default)]
pub struct PersistedCode {
    /// The directory, in the process; none: nothing is persisted.
    directory: Option<&'static CodeDirectory>,
    /// By the key of each file of code.
    files: HashMap<u64, CodeFile, FxBuildHasher>,
    /// A file, and where in it fragments begin that were translated.
    translated: (u64, Vec<u64>),
}

/// What is persisted of a file.
#[derive(Default)]
struct CodeFile {
    images: Vec<Image>,
    /// How many images of all files have been looked at.
    seen: u32,
}

/// Fragments of a file, in memory that nobody changes.
#[derive(Clone, Copy)]
struct Image {
    bytes: &'static [u8],
    slots: &'static [FragmentSlot],
}

impl PersistedCode {
    /// What the session has for translators of this configuration.
    pub fn new(session: &Session, config: u64) -> Self {
        let directory = session.code_directory().filter(|directory| directory.config.load(Acquire) == config);
        PersistedCode { directory, ..PersistedCode::default() }
    }

    /// Nothing is persisted any more: the translator has another configuration.
    pub fn disable(&mut self) {
        self.directory = None;
    }

    /// The record of the fragment that begins there in the file with this key; one without bytes: it cannot be
    /// persisted.
    pub fn find(&mut self, key: u64, place: u64) -> Option<&'static [u8]> {
        let directory = self.directory?;
        let file = self.files.get_mut(&key)?;
        let images = directory.images.load(Acquire).min(MOST_IMAGES as u32);
        if file.seen < images {
            file.look(directory, key, images);
        }
        file.images.iter().rev().find_map(|image| image.find(place))
    }

    /// There was none for a fragment.
    pub fn translated(&mut self, process: &ProcessMemory, key: u64, place: u64) {
        // What is there and does not fit, does not fit the next time either.
        if self.directory.is_none() || !self.files.contains_key(&key) || self.find(key, place).is_some() {
            return;
        }
        let (of, places) = &mut self.translated;
        if !places.is_empty() && (*of != key || places.len() == TOLD_TOGETHER) {
            places.insert(0, *of);
            process.log(log::TRANSLATED, places, &[]);
            places.clear();
        }
        *of = key;
        places.push(place);
    }

    /// Code of the file behind a descriptor, or a path, is mapped: notes which file it is.
    pub fn mapped(
        &mut self,
        process: &ProcessMemory,
        file: Opened<'_>,
        offset: u64,
        name: &[u8],
        mapping: &mut Mapping,
    ) {
        let is_code = mapping.executable() && !mapping.may_change() && mapping.backing == Backing::PrivateFile;
        if self.directory.is_none() || !is_code {
            return;
        }
        let is_preloaded = interposer::is_its_name(name);
        let Some(key) = (if is_preloaded { Some(PRELOADED_CODE) } else { file.key() }) else { return };
        self.is_file(process, key, offset, name, mapping);
    }

    fn is_file(&mut self, process: &ProcessMemory, key: u64, offset: u64, name: &[u8], mapping: &mut Mapping) {
        mapping.code = File::new(key, mapping.start / PAGE, offset / PAGE);
        if !self.files.contains_key(&key) {
            self.files.insert(key, CodeFile::default());
            process.log(log::CODE_FILE, &[key], name);
        }
    }

    /// The same of a line of the kernel's list of mappings.
    pub fn found(&mut self, process: &ProcessMemory, line: &Line<'_>, mapping: &mut Mapping) {
        if line.name == b"[vdso]" && self.directory.is_some() {
            return self.is_file(process, KERNEL_CODE, 0, line.name, mapping);
        }
        let mut path = [0; 512];
        let Some(to) = path.get_mut(..line.name.len()) else { return };
        to.copy_from_slice(line.name);
        if let Ok(path) = CStr::from_bytes_until_nul(&path) {
            self.mapped(process, Opened::Path(path, line.inode), line.offset, line.name, mapping);
        }
    }
}

/// A file whose code is mapped.
#[derive(Clone, Copy)]
pub enum Opened<'p> {
    /// Its descriptor.
    Descriptor(u64),
    /// Its path, and which inode must be there.
    Path(&'p CStr, u64),
}

impl Opened<'_> {
    /// What tells it from others; none: the kernel does not say.
    fn key(self) -> Option<u64> {
        // SAFETY: a structure of numbers.
        let mut stat: raw::stat = unsafe { core::mem::zeroed() };
        // SAFETY: the kernel's structure, our own; the path is NUL-terminated.
        let asked = unsafe {
            match self {
                Opened::Descriptor(descriptor) => call!(__NR_fstat, descriptor, &raw mut stat),
                Opened::Path(path, _) => {
                    call!(__NR_newfstatat, raw::AT_FDCWD, path.as_ptr(), &raw mut stat, 0)
                }
            }
        };
        asked.ok()?;
        if matches!(self, Opened::Path(_, inode) if inode != stat.st_ino) {
            return None;
        }
        let times = [stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec];
        let [modified, modified_ns, changed, changed_ns] = times;
        Some(file_key([stat.st_dev, stat.st_ino, stat.st_size as u64, modified, modified_ns, changed, changed_ns]))
    }
}

impl CodeFile {
    /// Looks for what has come since.
    fn look(&mut self, directory: &'static CodeDirectory, key: u64, images: u32) {
        for place in &directory.places[self.seen as usize..images as usize] {
            if place.file.load(Relaxed) == key {
                let [offset, bytes, slots] =
                    [&place.offset, &place.bytes, &place.slots_log2].map(|word| word.load(Relaxed));
                self.images.extend(Image::at(directory, offset, bytes, slots));
            }
        }
        self.seen = images;
    }
}

impl Image {
    /// None: it does not lie where it can be.
    fn at(directory: &'static CodeDirectory, offset: u64, bytes: u64, slots_log2: u64) -> Option<Image> {
        let slots = 1usize.checked_shl(u32::try_from(slots_log2).ok().filter(|&log| (1..32).contains(&log))?)?;
        let fits = offset.checked_add(bytes)? <= CODE_BYTES && (slots * size_of::<FragmentSlot>()) as u64 <= bytes;
        if !fits || !offset.is_multiple_of(8) {
            return None;
        }
        let start = core::ptr::from_ref(directory) as u64 + offset;
        // SAFETY: within what the session maps for ever, of CODE_BYTES; the collector wrote it before it named it, and
        // changes nothing afterwards. Aligned to 8.
        unsafe {
            let bytes = core::slice::from_raw_parts(start as *const u8, bytes as usize);
            let slots = core::slice::from_raw_parts(start as *const FragmentSlot, slots);
            Some(Image { bytes, slots })
        }
    }

    fn find(&self, place: u64) -> Option<&'static [u8]> {
        let wanted = place + 1;
        let first = first_slot(wanted, self.slots.len().ilog2());
        for step in 0..self.slots.len() {
            let slot = self.slots[(first + step) % self.slots.len()];
            if slot.place == wanted {
                let at = slot.at as usize;
                return self.bytes.get(at..at.checked_add(slot.bytes as usize)?);
            }
            if slot.place == 0 {
                break;
            }
        }
        None
    }
}
