//! Any bytes as changes of the synthetic profile: tables that agree but for what was changed, and tables that agree in
//! nothing.
//!
//! A fuzzer that changes bytes of files gets no further than their checksums. This changes rows, columns and tables
//! instead, so that it is analyses that meet what no recording has: values at the edges of their types, nobody who uses
//! anything, ids of nothing, tables that are empty.

use super::Synthetic;
use crate::Engine;
use crate::row::Row;

/// Takes numbers from bytes; zeros when they are used up.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        usize::from(u16::from_le_bytes([self.byte(), self.byte()])) % bound.max(1)
    }

    /// Small, at an edge, or any.
    fn value(&mut self) -> u64 {
        let (kind, byte) = (self.byte(), self.byte());
        match kind % 6 {
            0 | 1 => u64::from(byte % 16),
            2 => 1 << (byte % 64),
            3 => (1u64 << (byte % 64)) - 1,
            4 => u64::MAX - u64::from(byte),
            _ => (0..8).fold(u64::from(byte), |value, _| value << 8 | u64::from(self.byte())),
        }
    }
}

/// What becomes of a table.
fn change<T: Row>(rows: &mut Vec<T>, bytes: &mut Bytes<'_>) {
    let (what, at) = (bytes.byte(), bytes.below(rows.len()));
    match what % 8 {
        0..=3 => {
            let (column, value) = (bytes.below(T::COLUMNS.len()), bytes.value());
            if let Some(row) = rows.get_mut(at) {
                row.set(column, value);
            }
        }
        4 => {
            let (column, value) = (bytes.below(T::COLUMNS.len()), bytes.value());
            rows.iter_mut().for_each(|row| row.set(column, value));
        }
        5 => {
            if at < rows.len() {
                rows.remove(at);
            }
        }
        6 => {
            if let Some(row) = rows.get(at).cloned() {
                rows.push(row);
            }
        }
        _ => rows.truncate(at),
    }
}

impl Synthetic {
    /// The same with as many changes as the bytes tell of, 64 at most.
    pub fn changed(mut self, bytes: &[u8]) -> Synthetic {
        let mut bytes = Bytes(bytes);
        for _ in 0..64 {
            if bytes.0.is_empty() {
                break;
            }
            self.change_once(&mut bytes);
        }
        self
    }

    fn change_once(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.byte() % 28 {
            0 => change(&mut self.machine, bytes),
            1 => change(&mut self.processes, bytes),
            2 => change(&mut self.threads, bytes),
            3 => change(&mut self.placements, bytes),
            4 => change(&mut self.modules, bytes),
            5 => change(&mut self.mappings, bytes),
            6 => change(&mut self.sites, bytes),
            7 => change(&mut self.frames, bytes),
            8 => change(&mut self.functions, bytes),
            9 => change(&mut self.stacks, bytes),
            10 => change(&mut self.page_accesses, bytes),
            11 => change(&mut self.site_accesses, bytes),
            12 => change(&mut self.object_accesses, bytes),
            13 => change(&mut self.object_bounds, bytes),
            14 => change(&mut self.samples, bytes),
            15 => change(&mut self.code_fetches, bytes),
            16 => change(&mut self.site_misses, bytes),
            17 => change(&mut self.page_misses, bytes),
            18 => change(&mut self.cache_lines, bytes),
            19 => change(&mut self.line_communication, bytes),
            20 => change(&mut self.pages, bytes),
            21 => change(&mut self.objects, bytes),
            22 => change(&mut self.allocations, bytes),
            23 => change(&mut self.phases, bytes),
            24 => change(&mut self.collections, bytes),
            25 => change(&mut self.processed_objects, bytes),
            _ => self.change_meta(bytes),
        }
    }

    fn change_meta(&mut self, bytes: &mut Bytes<'_>) {
        let (what, value) = (bytes.byte(), bytes.value());
        let meta = &mut self.meta;
        match what % 9 {
            0 => meta.duration_ns = value,
            1 => meta.counted_ns = (value > 0).then_some(value),
            2 => meta.bin_ns = value,
            3 => meta.bins = value as u32,
            4 => meta.period = value,
            5 => meta.frequency = Some(f64::from_bits(value)),
            6 => meta.reads_and_writes = value.is_multiple_of(2),
            7 => meta.run_time_ns = Some(value),
            _ => meta.engine = if value.is_multiple_of(2) { Engine::Exact } else { Engine::Sample },
        }
    }
}
