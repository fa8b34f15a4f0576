//! Shared memory of System V: shmat, shmdt.

use super::{Affected, Change, Done};
use crate::code::Code;
use crate::machine::published_policies;
use crate::pages;
use crate::state::maps::{self, Mapping, Maps};
use crate::sys::{self, PAGE, raw};
use crate::syscalls::call::ENOMEM;
use crate::syscalls::own_memory::{Claim, range_of};
use alloc::vec::Vec;
use core::ops::Range;

const SHM_REMAP: u64 = 0o40000;
const SHM_RND: u64 = 0o20000;

/// shmat.
pub struct Attach;
/// shmdt.
pub struct Detach;

impl Change for Attach {
    fn claim(&self, _code: &Code, &[id, address, flags, ..]: &[u64; 6]) -> Claim {
        if flags & SHM_REMAP == 0 {
            return Claim::Nothing;
        }
        Claim::takes("shmat", named(id, address, flags), ENOMEM)
    }

    fn affects(&self, _code: &Code, _arguments: &[u64; 6], _range: &Range<u64>) -> Affected {
        // Where it comes to lie is known afterwards; what is there now goes with `SHM_REMAP` only.
        Affected::Nothing
    }

    fn follow(&self, done: &mut Done<'_>) {
        let memory = done.runtime.process();
        let text = maps::read();
        let Some(line) = maps::parse(&text).find(|line| line.mapping.start == done.result) else { return };
        if done.arguments[2] & SHM_REMAP != 0 {
            pages::clear(&done.runtime.shadow, memory, line.mapping.start..line.mapping.end);
        }
        published_policies::begin();
        done.maps().insert(line.mapping);
        maps::log(memory, &line.mapping, line.offset, line.name);
    }
}

impl Change for Detach {
    fn claim(&self, _code: &Code, _arguments: &[u64; 6]) -> Claim {
        Claim::Nothing
    }

    fn affects(&self, code: &Code, &[address, ..]: &[u64; 6], _range: &Range<u64>) -> Affected {
        match attached(&code.env.maps, address).as_slice() {
            [] => Affected::Nothing,
            [first, .., last] => Affected::Goes(first.start..last.end),
            [one] => Affected::Goes(one.clone()),
        }
    }

    fn follow(&self, done: &mut Done<'_>) {
        for piece in attached(&done.code.env.maps, done.arguments[0]) {
            done.remove(piece);
        }
    }
}

/// Where a segment is to be attached in place of what is there.
fn named(id: u64, address: u64, flags: u64) -> Range<u64> {
    const IPC_STAT: u64 = 2;
    /// `struct shmid64_ds`, and where it has the segment's bytes: behind `struct ipc64_perm`.
    const WORDS: usize = 14;
    const BYTES_AT: usize = 6;
    let mut found = [0u64; WORDS];
    // SAFETY: the kernel's structure, our own.
    let asked = unsafe { sys::for_program(raw::__NR_shmctl, [id, IPC_STAT, found.as_mut_ptr() as u64, 0, 0, 0]) };
    // One that may not be asked about may not be attached either.
    let bytes = if sys::check(asked).is_ok() { found[BYTES_AT] } else { 0 };
    let start = if flags & SHM_RND != 0 { address & !(PAGE - 1) } else { address };
    range_of(start, bytes)
}

/// What is left of shared memory that was attached at an address: parts may have been given other rights, or been
/// unmapped.
fn attached(maps: &Maps, address: u64) -> Vec<Range<u64>> {
    let from_there = |mapping: &&Mapping| mapping.start >= address && mapping.file.begins_at(address / PAGE);
    let Some(first) = maps.iter().find(from_there) else { return Vec::new() };
    let same = maps.iter().filter(from_there).filter(|mapping| mapping.file.key == first.file.key);
    same.map(|mapping| mapping.start..mapping.end).collect()
}
