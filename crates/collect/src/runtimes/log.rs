//! The log of runtimes, read: the protocol is explained in `crates/event/src/runtime_log.rs`.

use crate::memory_file::memory_file;
use crate::refused::refused;
use memmap2::{MmapOptions, MmapRaw};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use numalens_event::runtime_log::{BYTES, HEAD_WORDS, MAGIC, START, Told, parse};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// The log, mapped, and how far it was read.
pub struct RuntimeLog {
    file: File,
    memory: MmapRaw,
    /// In words from [`START`].
    position: usize,
    /// Bytes of records that make no sense.
    damaged: u64,
}

/// A record, copied.
pub struct LogRecord<'a> {
    pub kind: Told,
    pub pid: u32,
    pub words: &'a [u64],
}

/// Words and texts of a record, one after the other.
pub struct Fields<'a> {
    words: &'a [u64],
}

impl RuntimeLog {
    /// Makes the memory file. It becomes memory as it is written.
    ///
    /// # Errors
    /// Those of `memfd_create`, `ftruncate` and `mmap`.
    pub fn create() -> io::Result<Self> {
        let file = memory_file("numalens-runtimes", &[])?;
        file.set_len(BYTES as u64).map_err(|error| refused("ftruncate of the log of runtimes", &error))?;
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL))?;
        let memory = MmapOptions::new().len(BYTES).map_raw(&file);
        let memory = memory.map_err(|error| refused("mmap of the log of runtimes", &error))?;
        let log = RuntimeLog { file, memory, position: 0, damaged: 0 };
        log.words()[2].store(MAGIC, Relaxed);
        Ok(log)
    }

    /// Its descriptor, by which processes find it.
    pub fn descriptor(&self) -> u32 {
        self.file.as_raw_fd().unsigned_abs()
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is BYTES long, page-aligned, never shrunk (sealed), and lives as long as self; atomics,
        // for which any bytes are valid and concurrent writes by other processes are no data race.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast::<AtomicU64>(), BYTES / 8) }
    }

    /// Bytes that were lost: no room, or no sense.
    pub fn lost(&self) -> u64 {
        self.words()[1].load(Relaxed).saturating_add(self.damaged)
    }

    /// Gives every record that is complete to `sink`, up to one that is being written; where all writers have ended,
    /// `is_over`, such ones are passed over for good.
    pub fn read(&mut self, is_over: bool, mut sink: impl FnMut(&LogRecord<'_>)) {
        let mut copy: Vec<u64> = Vec::new();
        loop {
            let (end, all) = (self.words()[0].load(Acquire) as usize / 8, &self.words()[START / 8..]);
            let end = end.min(all.len());
            let Some(first) = all[..end].get(self.position) else { return };
            let head = first.load(Acquire);
            let (kind, bytes, is_complete) = parse(head).unwrap_or((None, usize::MAX, false));
            let next = self.position.saturating_add(bytes / 8);
            if !is_over && (!is_complete || next > end) {
                return;
            }
            if next > end {
                // Who took this has not said how much, or somebody else has written here: what follows cannot be found.
                self.damaged = self.damaged.saturating_add((end - self.position) as u64 * 8);
                self.position = end;
                return;
            }
            copy.clear();
            copy.extend(all[self.position..next].iter().map(|word| word.load(Relaxed)));
            self.position = next;
            match kind.filter(|_| is_complete) {
                Some(kind) => sink(&LogRecord { kind, pid: copy[1] as u32, words: &copy[HEAD_WORDS..] }),
                None => self.damaged = self.damaged.saturating_add(bytes as u64),
            }
        }
    }
}

impl<'a> LogRecord<'a> {
    /// What is in it.
    pub fn fields(&self) -> Fields<'a> {
        Fields { words: self.words }
    }
}

impl<'a> Fields<'a> {
    /// The next word.
    pub fn next(&mut self) -> Option<u64> {
        let (&first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    /// The next word, as two halves.
    pub fn halves(&mut self) -> Option<(u32, u32)> {
        let word = self.next()?;
        Some((word as u32, (word >> 32) as u32))
    }

    /// A count of things of at least `words` words each; none: there are not so many.
    pub fn count(&self, count: u64, words: usize) -> Option<usize> {
        let count = usize::try_from(count).ok()?;
        (count.checked_mul(words)? <= self.words.len()).then_some(count)
    }

    /// Texts of these lengths, one behind the other, at the end of the record.
    pub fn texts<const N: usize>(&self, lengths: [u32; N]) -> Option<[String; N]> {
        let bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut rest = bytes.as_slice();
        let mut texts = [const { String::new() }; N];
        for (text, length) in texts.iter_mut().zip(lengths) {
            let (this, behind) = rest.split_at_checked(length as usize)?;
            *text = String::from_utf8_lossy(this).into_owned();
            rest = behind;
        }
        Some(texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numalens_event::runtime_log::{PUBLISHED, word};

    fn write(log: &RuntimeLog, at: usize, words: &[u64]) {
        for (to, word) in log.words()[START / 8 + at..].iter().zip(words) {
            to.store(*word, Relaxed);
        }
    }

    fn read(log: &mut RuntimeLog) -> Vec<(Told, u32, Vec<u64>)> {
        let mut all = Vec::new();
        log.read(true, |record| all.push((record.kind, record.pid, record.words.to_vec())));
        all
    }

    #[test]
    fn records_are_read_once_and_those_of_dead_writers_passed_over() {
        let mut log = RuntimeLog::create().unwrap();
        assert_eq!(read(&mut log), []);
        write(&log, 0, &[PUBLISHED | word(Told::Stub, 32), 7 | 8 << 32, 99, 0x1000]);
        write(&log, 4, &[word(Told::Stub, 32), 7, 99, 0x2000]);
        write(&log, 8, &[PUBLISHED | word(Told::Stub, 32), 8, 99, 0x3000]);
        log.words()[0].store(96, Relaxed);
        assert_eq!(read(&mut log), [(Told::Stub, 7, vec![0x1000]), (Told::Stub, 8, vec![0x3000])]);
        assert_eq!((read(&mut log), log.lost()), (vec![], 32));
        // One that has taken its room and may yet say something, or has ended.
        log.words()[0].store(128, Relaxed);
        log.read(false, |_| panic!("it is not complete"));
        log.words()[0].store(128, Relaxed);
        assert_eq!((read(&mut log), log.lost()), (vec![], 64));
    }

    #[test]
    fn damage_is_counted_and_ends_nothing_else() {
        let mut log = RuntimeLog::create().unwrap();
        write(&log, 0, &[PUBLISHED | 99 << 32 | 24, 0, 0]);
        write(&log, 3, &[PUBLISHED | word(Told::Stub, 1 << 30), 0, 0]);
        log.words()[0].store(u64::MAX, Relaxed);
        log.words()[1].store(5, Relaxed);
        assert_eq!(read(&mut log), []);
        assert!(log.lost() > 5 + 24, "{}", log.lost());
    }
}
