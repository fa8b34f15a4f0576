//! Tiles (AMX): a load or store of one accesses as many places as the tile has rows, which only the configuration of
//! the thread tells.
//!
//! After the manual's `TILELOADD`, `TILELOADDT1`, `TILESTORED` and `LDTILECFG`: row *r*, from `start_row` on, is
//! `colsb` bytes at
//! `base + displacement + r * stride`, where the stride is the scaled index, 0 without one.

use core::ops::Range;

/// What a thread's configuration, the 64 bytes that `sttilecfg` stores, says of one tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The rows that an instruction has to do: those before were done when it was interrupted.
    pub rows: Range<u64>,
    /// Bytes of each.
    pub bytes: u32,
}

impl Tile {
    /// Tile `number` by `configuration`; none where it has none, and the instruction faults.
    pub fn of(configuration: &[u8; 64], number: u8) -> Option<Tile> {
        let number = usize::from(number & 15);
        let (palette, start_row) = (configuration[0], configuration[1]);
        let at = 16 + 2 * number;
        let bytes = u16::from_le_bytes([configuration[at], configuration[at + 1]]).into();
        let rows = configuration[48 + number];
        (palette != 0 && rows != 0 && bytes != 0).then(|| Tile { rows: start_row.into()..rows.into(), bytes })
    }

    /// Where its rows are in memory.
    pub fn addresses(&self, base: u64, stride: u64) -> impl Iterator<Item = u64> + use<> {
        self.rows.clone().map(move |row| base.wrapping_add(row.wrapping_mul(stride)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn configuration(start_row: u8, tiles: &[(usize, u16, u8)]) -> [u8; 64] {
        let mut bytes = [0; 64];
        (bytes[0], bytes[1]) = (1, start_row);
        for &(number, columns, rows) in tiles {
            bytes[16 + 2 * number..][..2].copy_from_slice(&columns.to_le_bytes());
            bytes[48 + number] = rows;
        }
        bytes
    }

    #[test]
    fn a_tile_is_accessed_row_by_row() {
        let of = configuration(0, &[(0, 64, 16), (5, 300, 3)]);
        let all: Vec<u64> = Tile::of(&of, 0).expect("it has one").addresses(0x1_0000, 4096).collect();
        assert_eq!(all, (0..16).map(|row| 0x1_0000 + 4096 * row).collect::<Vec<_>>(), "a page each");
        assert_eq!(
            Tile::of(&of, 5).map(|tile| (tile.rows.end, tile.bytes)),
            Some((3, 300)),
            "more bytes than a byte counts"
        );
        let all: Vec<u64> = Tile::of(&of, 5).expect("it has one").addresses(0x1000, (-64i64) as u64).collect();
        assert_eq!(all, [0x1000, 0xfc0, 0xf80], "downwards");
        let all: Vec<u64> = Tile::of(&of, 5).expect("it has one").addresses(0x1000, 0).collect();
        assert_eq!(all, [0x1000; 3], "without an index, one row again and again");
        assert_eq!(Tile::of(&of, 1), None, "not configured");
        assert_eq!(Tile::of(&[0; 64], 0), None, "no palette");
        let resumed = Tile::of(&configuration(14, &[(0, 64, 16)]), 0).expect("it has one");
        assert_eq!(resumed.addresses(0, 64).collect::<Vec<_>>(), [14 * 64, 15 * 64], "after an interruption");
    }
}
