//! Policies of the mappings of a process, published for others of the recording that look into its `numa_maps`.
//!
//! Only the process itself knows its mappings, so one that has policies, or memory that has, writes them down in its
//! extent whenever they change: a number, how many they are, the mappings, and the number again. Who reads both numbers
//! alike has read what was written at once.

use super::policy::Policy;
use crate::call;
use crate::state::maps::{File, Mapping, Maps};
use crate::state::runtime::{Runtime, is_virtual};
use crate::sys::PAGE;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use numalens_event::exact::{Extent, POLICY_WORDS, PolicyWords, log, process};
use rustc_hash::FxBuildHasher;

/// Start, end, policy; the key of memory that has policies of its own, and its first page there.
const WORDS: usize = 4 + POLICY_WORDS;
const MOST: usize = process::MOST_PUBLISHED_POLICIES;
/// Times that a reader tries again while it is written.
const PATIENCE: u32 = 100;

/// Whether this process has ever had any.
static EVER: AtomicBool = AtomicBool::new(false);

fn has_any(mapping: &&Mapping) -> bool {
    mapping.policy != Policy::NONE || mapping.file.is_memory
}

/// This process has one now: programs without any look for none.
pub fn begin() {
    EVER.store(true, Relaxed);
}

/// The mappings of this process have changed: publishes what others could not know. Called with the mappings locked.
pub fn publish(runtime: &Runtime, maps: &Maps) {
    /// Of what was published last, and where.
    static PUBLISHED: AtomicU64 = AtomicU64::new(0);
    if !EVER.load(Relaxed) || !is_virtual() {
        return;
    }
    let extent = runtime.process().extent;
    let with = || maps.iter().filter(has_any);
    let mut words = vec![0, with().take(MOST).count() as u64];
    for mapping in with().take(MOST) {
        let file = match mapping.file.is_memory {
            true => [mapping.file.key, mapping.file.page(mapping.start / PAGE)],
            false => [0; 2],
        };
        words.extend([mapping.start, mapping.end]);
        words.extend(mapping.policy.to_words());
        words.extend(file);
    }
    let hash = FxBuildHasher.hash_one((extent.0, &words)) | 1;
    if PUBLISHED.swap(hash, Relaxed) == hash {
        return;
    }
    words[0] = hash;
    words.push(hash);
    runtime.session.write(extent.offset() + process::POLICIES, &words);
    if with().count() > MOST {
        static SAID: AtomicBool = AtomicBool::new(false);
        if !SAID.swap(true, Relaxed) {
            let text = b"a process has more than 4,096 mappings with memory policies: other processes do not see those of further ones in its numa_maps";
            runtime.process().log(log::NOTE, &[], text);
        }
    }
}

/// A child of a fork has the mappings of its parent, and has not published them.
pub fn publish_again(runtime: &Runtime) {
    publish(runtime, &runtime.code.lock().env.maps);
}

/// The mappings with policies of another process, by address.
pub fn of(runtime: &Runtime, process: Extent) -> Vec<Mapping> {
    let read = |words: &mut [u64], from: usize| {
        let (to, bytes) = (words.as_mut_ptr(), words.len() * 8);
        let offset = process.offset() + process::POLICIES + from as u64 * 8;
        // SAFETY: so many words of our own.
        let read = unsafe { call!(__NR_pread64, runtime.session.descriptor, to, bytes, offset) };
        read == Ok(bytes as u64)
    };
    for _ in 0..PATIENCE {
        let mut head = [0u64; 2];
        if !read(&mut head, 0) || head[0] == 0 {
            return Vec::new();
        }
        let count = (head[1] as usize).min(MOST);
        let mut words = vec![0u64; count * WORDS + 1];
        if read(&mut words, 2) && words.last() == Some(&head[0]) {
            return words[..count * WORDS].chunks_exact(WORDS).map(mapping).collect();
        }
    }
    Vec::new()
}

fn mapping(words: &[u64]) -> Mapping {
    let parts = words.split_first_chunk().and_then(|(place, rest)| Some((place, rest.split_first_chunk()?)));
    let Some((&[start, end], (policy, &[key, first]))) = parts else { return Mapping::anonymous(0, 0, 0) };
    let policy: &PolicyWords = policy;
    let file = File::new(key, start / PAGE, first).memory(key != 0);
    Mapping { policy: Policy::from_shared(*policy), file, ..Mapping::anonymous(start, end, 0) }
}
