//! Areas of the map: mmap, munmap, mprotect.

use super::{Affected, Change, CodeFate, Done, file};
use crate::code::Code;
use crate::code::persisted::Opened;
use crate::interposer;
use crate::machine::published_policies;
use crate::pages;
use crate::state::maps::{self, Backing, File, Mapping};
use crate::sys::{PAGE, raw};
use crate::syscalls::call::{ENOMEM, errno};
use crate::syscalls::memory::lock::locks_new;
use crate::syscalls::own_memory::{Claim, range_of};
use crate::syscalls::written::{self, Written};
use alloc::vec::Vec;
use core::ops::Range;
use linux_raw_sys::errno::EEXIST;

/// mmap.
pub struct Map;
/// munmap.
pub struct Unmap;
/// mprotect and pkey_mprotect.
pub struct Protect;

fn is_fixed(arguments: &[u64; 6]) -> bool {
    arguments[3] as u32 & raw::MAP_FIXED != 0
}

impl Change for Map {
    fn claim(&self, _code: &Code, arguments: &[u64; 6]) -> Claim {
        let flags = arguments[3] as u32;
        let place = range_of(arguments[0], arguments[1]);
        match () {
            () if flags & raw::MAP_FIXED_NOREPLACE != 0 => Claim::asks("mmap", place, errno(EEXIST)),
            () if is_fixed(arguments) => Claim::takes("mmap", place, ENOMEM),
            () => Claim::Nothing,
        }
    }

    fn unprotects(&self) -> bool {
        true
    }

    fn code(&self, arguments: &[u64; 6]) -> CodeFate {
        if is_fixed(arguments) { CodeFate::Goes } else { CodeFate::Stays }
    }

    fn growth(&self, _code: &Code, arguments: &[u64; 6]) -> u64 {
        if is_fixed(arguments) { 0 } else { arguments[1] }
    }

    fn made_with(&self, code: &Code, mut arguments: [u64; 6]) -> [u64; 6] {
        if code.env.lock_new {
            arguments[3] |= u64::from(raw::MAP_LOCKED);
        }
        arguments
    }

    fn affects(&self, _code: &Code, arguments: &[u64; 6], range: &Range<u64>) -> Affected {
        if is_fixed(arguments) { Affected::Goes(range.clone()) } else { Affected::Nothing }
    }

    fn follow(&self, done: &mut Done<'_>) {
        let memory = done.runtime.process();
        let [_, bytes, protection, flags, descriptor, offset] = done.arguments;
        let flags = flags as u32;
        let (start, end) = (done.result, done.result + bytes.next_multiple_of(PAGE));
        if flags & raw::MAP_FIXED != 0 {
            pages::clear(&done.runtime.shadow, memory, start..end);
        }
        let anonymous = flags & raw::MAP_ANONYMOUS != 0;
        let backing = match flags & raw::MAP_TYPE {
            raw::MAP_PRIVATE if anonymous => Backing::Anonymous,
            raw::MAP_PRIVATE => Backing::PrivateFile,
            _ => Backing::Shared,
        };
        let shared = backing == Backing::Shared && !anonymous;
        let file = match backing {
            Backing::Shared if anonymous => File::new(file::unique_key(memory), start / PAGE, 0).memory(true),
            Backing::Shared => file::of_descriptor(memory, descriptor, start / PAGE, offset / PAGE),
            Backing::Anonymous | Backing::PrivateFile => File::NONE,
        };
        let mut mapping = Mapping { shared, backing, file, ..Mapping::anonymous(start, end, protection as u32) };
        let name = if anonymous { Vec::new() } else { file::name(descriptor) };
        if flags & raw::MAP_FIXED == 0 {
            interposer::mapped(start..end, &name);
        }
        if interposer::contains(start) && !mapping.executable() {
            done.maps().remove(start..end);
            return;
        }
        let persisted = &mut done.code.env.persisted;
        persisted.mapped(memory, Opened::Descriptor(descriptor), offset, &name, &mut mapping);
        if mapping.file.is_memory {
            published_policies::begin();
        }
        done.maps().insert(mapping);
        maps::log(memory, &mapping, offset, &name);
        if anonymous && protection as u32 == raw::PROT_NONE {
            done.code.env.arenas.prepare_for(&(start..end));
        }
    }

    fn brought_in(&self, &[_, bytes, _, flags, ..]: &[u64; 6], result: u64, _heap_end: u64) -> Option<Written> {
        let populates = flags as u32 & (raw::MAP_POPULATE | raw::MAP_LOCKED) != 0;
        (locks_new() || populates).then(|| written::brought_in(result, bytes)).flatten()
    }
}

impl Change for Unmap {
    fn claim(&self, _code: &Code, arguments: &[u64; 6]) -> Claim {
        Claim::Goes { range: range_of(arguments[0], arguments[1]), done: 0 }
    }

    fn unprotects(&self) -> bool {
        true
    }

    fn code(&self, _arguments: &[u64; 6]) -> CodeFate {
        CodeFate::Goes
    }

    fn affects(&self, _code: &Code, _arguments: &[u64; 6], range: &Range<u64>) -> Affected {
        Affected::Goes(range.clone())
    }

    fn follow(&self, done: &mut Done<'_>) {
        done.remove(done.range.clone());
    }
}

impl Change for Protect {
    fn claim(&self, _code: &Code, arguments: &[u64; 6]) -> Claim {
        Claim::changes("mprotect", range_of(arguments[0], arguments[1]), ENOMEM)
    }

    fn unprotects(&self) -> bool {
        true
    }

    fn code(&self, _arguments: &[u64; 6]) -> CodeFate {
        CodeFate::Goes
    }

    fn affects(&self, _code: &Code, _arguments: &[u64; 6], _range: &Range<u64>) -> Affected {
        Affected::Nothing
    }

    fn follow(&self, done: &mut Done<'_>) {
        let (range, protection) = (done.range.clone(), done.arguments[2] as u32);
        done.maps().protect(range, protection);
    }
}
