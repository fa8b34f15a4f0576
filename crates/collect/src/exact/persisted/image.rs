//! Images: records as agents find them, in the session file.

use crate::exact::file::Shared;
use numalens_event::exact::{CODE_BYTES, CODE_OFFSET, CodeDirectory, FragmentSlot, MOST_IMAGES, first_slot};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Some fragments of a file of code: where each begins in it, and its record. Sorted by where they begin.
pub type Records = std::collections::BTreeMap<u64, Vec<u8>>;

/// The bytes of an image of records, and log2 of its slots. What cannot be persisted has a record without bytes, so
/// that nobody tries again.
pub fn image<'r>(records: impl Iterator<Item = (u64, &'r [u8])> + Clone) -> (Vec<u8>, u32) {
    let count = records.clone().count();
    // Two thirds are filled at most.
    let slots_log2 = (count + count / 2).max(2).next_power_of_two().ilog2();
    let mut slots = vec![FragmentSlot::default(); 1 << slots_log2];
    let mut at = size_of_val(&slots[..]);
    let mut bytes = vec![0; at];
    for (place, record) in records {
        let mut slot = first_slot(place + 1, slots_log2);
        while slots[slot].place != 0 {
            slot = (slot + 1) % slots.len();
        }
        slots[slot] = FragmentSlot { place: place + 1, at: at as u32, bytes: record.len() as u32 };
        bytes.extend_from_slice(record);
        at += record.len();
    }
    for (to, slot) in bytes.chunks_exact_mut(size_of::<FragmentSlot>()).zip(&slots) {
        to[..8].copy_from_slice(&slot.place.to_le_bytes());
        to[8..12].copy_from_slice(&slot.at.to_le_bytes());
        to[12..].copy_from_slice(&slot.bytes.to_le_bytes());
    }
    (bytes, slots_log2)
}

/// The records of an image; nothing of what is damaged.
pub fn records_of(image: &[u8], slots_log2: u32) -> Records {
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    let slots = 1usize.checked_shl(slots_log2).unwrap_or(0);
    let slots = image.chunks_exact(size_of::<FragmentSlot>()).take(slots);
    slots
        .filter_map(|slot| {
            let place = u64::from_le_bytes(slot[..8].try_into().ok()?).checked_sub(1)?;
            let at = word(&slot[8..12]);
            Some((place, image.get(at..at.checked_add(word(&slot[12..]))?)?.to_vec()))
        })
        .collect()
}

/// Bytes that are copied at a time: the processor's cache holds them.
const PORTION: usize = 256 << 10;

/// An image that is stored.
pub struct StoredImage<'s> {
    pub file: &'s File,
    pub offset: u64,
    pub bytes: u64,
    pub slots_log2: u32,
}

impl StoredImage<'_> {
    /// The records of it; none where it cannot be read.
    pub fn records(&self) -> Records {
        let mut bytes = vec![0; self.bytes as usize];
        let read = self.file.read_exact_at(&mut bytes, self.offset);
        read.map(|()| records_of(&bytes, self.slots_log2)).unwrap_or_default()
    }
}

/// Copies bytes from one file to another. Not by its position (`sendfile`): whoever looks for data in it moves that.
fn send(from: &File, offset: u64, to: &File, at: u64, bytes: u64) -> io::Result<()> {
    let mut buffer = vec![0; PORTION];
    let mut done = 0;
    while done < bytes {
        let length = (bytes - done).min(PORTION as u64) as usize;
        from.read_exact_at(&mut buffer[..length], offset + done)?;
        to.write_all_at(&buffer[..length], at + done)?;
        done += length as u64;
    }
    Ok(())
}

/// Where the agents of a recording find images.
pub struct CodeRegion {
    file: File,
    directory: Shared,
    /// Bytes that are taken.
    used: u64,
}

impl CodeRegion {
    /// That of a session file.
    pub fn new(file: File, directory: Shared) -> Self {
        CodeRegion { file, directory, used: (size_of::<CodeDirectory>() as u64).next_multiple_of(64) }
    }

    /// What agents look at.
    pub fn directory(&self) -> &CodeDirectory {
        &self.directory.words(0, 1)[0]
    }

    /// Has agents find an image of the file with this key. What there is no room for, they do without.
    pub fn publish(&mut self, key: u64, image: &[u8], slots_log2: u32) {
        self.add(key, image.len() as u64, slots_log2, |file, at| file.write_all_at(image, at));
    }

    /// The same of an image that stands in another file.
    pub fn publish_stored(&mut self, key: u64, stored: &StoredImage<'_>) {
        let &StoredImage { file: from, offset, bytes, slots_log2 } = stored;
        self.add(key, bytes, slots_log2, |file, at| send(from, offset, file, at, bytes));
    }

    fn add(&mut self, key: u64, bytes: u64, slots_log2: u32, write: impl FnOnce(&File, u64) -> io::Result<()>) {
        let directory = self.directory();
        let number = directory.images.load(Relaxed);
        let offset = self.used;
        let end = offset + bytes.next_multiple_of(64);
        let Some(place) = directory.places.get(number as usize).filter(|_| end <= CODE_BYTES) else { return };
        if write(&self.file, CODE_OFFSET + offset).is_err() {
            return;
        }
        place.file.store(key, Relaxed);
        place.offset.store(offset, Relaxed);
        place.bytes.store(bytes, Relaxed);
        place.slots_log2.store(slots_log2.into(), Relaxed);
        directory.images.store(number + 1, Release);
        self.used = end;
    }

    /// There is room for more.
    pub fn has_room(&self) -> bool {
        (self.directory().images.load(Relaxed) as usize) < MOST_IMAGES && self.used < CODE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_from_their_image() {
        let records: Records =
            (0..1000u64).map(|number| (number * number, vec![number as u8; 1 + number as usize % 7])).collect();
        let (bytes, slots_log2) = image(records.iter().map(|(&place, record)| (place, &record[..])));
        assert_eq!(records_of(&bytes, slots_log2), records);
        for cut in [0, 3, 100, bytes.len() / 2] {
            assert!(records_of(&bytes[..cut], slots_log2).len() < records.len());
        }
        assert!(records_of(&vec![0xff; 4096], 63).is_empty());
    }
}
