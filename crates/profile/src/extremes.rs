//! The least and the largest number of each column of a row group, as its file says.

use crate::renumbering::Renumbering;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;

/// Those of one row group.
pub struct Extremes<'a> {
    pub(crate) group: &'a RowGroupMetaData,
    /// What becomes of its ids.
    pub(crate) ids: Option<&'a Renumbering>,
}

impl Extremes<'_> {
    /// Of a column of whole numbers; none: not known.
    pub fn of(&self, column: &str) -> Option<(u64, u64)> {
        let is_it = |name: &str| name == column;
        let found =
            self.group.columns().iter().find(|chunk| chunk.column_path().parts().first().is_some_and(|n| is_it(n)));
        let (least, most) = match found?.statistics()? {
            // The bits are those of numbers without a sign, and so is the order.
            Statistics::Int64(of) => Some((*of.min_opt()? as u64, *of.max_opt()? as u64)),
            Statistics::Int32(of) => Some((u64::from(*of.min_opt()? as u32), u64::from(*of.max_opt()? as u32))),
            _ => None,
        }
        .filter(|(least, most)| least <= most)?;
        match self.ids {
            None => Some((least, most)),
            Some(ids) => Some((ids.number(column, least)?, ids.number(column, most)?)),
        }
    }
}
