//! Memory that allocators map and carve blocks out of (jemalloc's, mimalloc's, tcmalloc's): its bytes are the blocks', and count once.

use numalens_profile::ids::ProcessId;
use numalens_profile::tables::Allocation;
use numalens_profile::words::Call;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// Calls that allocate or release, in the order of time, without the mappings that blocks of others lay in while they were there.
pub fn without(allocations: &[Allocation]) -> Vec<&Allocation> {
    let mut calls: Vec<&Allocation> = allocations.iter().collect();
    calls.sort_by_key(|call| call.time_ns);
    let mut arenas: FxHashSet<usize> = FxHashSet::default();
    // Mappings that are there, by their beginnings: where they end, and which call that was.
    let mut mapped: BTreeMap<(ProcessId, u64), (u64, usize)> = BTreeMap::new();
    for (number, call) in calls.iter().enumerate() {
        let place = (call.process, call.address);
        match call.call {
            Call::Mmap | Call::Mremap | Call::Brk => {
                mapped.insert(place, (call.address.saturating_add(call.bytes), number));
            }
            Call::Munmap => {
                mapped.remove(&place);
            }
            Call::Free => {}
            _ => {
                let around = mapped.range((call.process, 0)..=place).next_back();
                arenas.extend(around.filter(|(_, (end, _))| call.address < *end).map(|(_, (_, arena))| *arena));
            }
        }
    }
    calls.into_iter().enumerate().filter(|(number, _)| !arenas.contains(number)).map(|(_, call)| call).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use numalens_profile::ids::ThreadId;

    #[test]
    fn what_blocks_lie_in_does_not_count_besides() {
        let call = |time_ns, process, call, address, bytes| Allocation {
            process: ProcessId(process),
            time_ns,
            thread: ThreadId(0),
            object: None,
            call,
            address,
            bytes,
            weight: bytes,
        };
        let allocations = [
            call(1, 0, Call::Mmap, 0x10000, 0x4000),
            call(5, 0, Call::Malloc, 0x13ff0, 16),
            // Behind the arena; another process's; after the mapping has gone.
            call(2, 0, Call::Mmap, 0x20000, 0x1000),
            call(6, 0, Call::Malloc, 0x21000, 16),
            call(7, 1, Call::Malloc, 0x20010, 16),
            call(8, 0, Call::Munmap, 0x20000, 0),
            call(9, 0, Call::New, 0x20010, 16),
        ];
        let kept: Vec<u64> = without(&allocations).iter().map(|call| call.time_ns).collect();
        assert_eq!(kept, [2, 5, 6, 7, 8, 9]);
    }
}
