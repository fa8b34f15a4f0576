//! New content of tables, of any type of row.

use crate::SCHEMA_VERSION;
use crate::encode::TableWriter;
use crate::error::Error;
use crate::file::{Extent, TableFile};
use crate::kept::Kept;
use crate::row::Row;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use std::fs::File;
use std::path::Path;

/// Writes files of one table, in order, to a new one, which is called so in messages. Returns its bytes.
pub(crate) type Join = fn(File, &Path, &[Extent]) -> Result<u64, Error>;

/// Writes a table to an empty file, which has this path or stands for it. Returns the file and its bytes.
type Encode<'a> = dyn FnOnce(File, &Path) -> Result<(File, u64), Error> + Send + 'a;

/// The new content of a table: see [`Writer::replace_all`] and [`Profile::replace_all`].
pub struct Content<'a> {
    pub(crate) table: &'static str,
    pub(crate) join: Join,
    pub(crate) forget: fn(&Kept),
    encode: Box<Encode<'a>>,
}

impl<'a> Content<'a> {
    /// These rows. They are asked for by the thread that encodes them.
    pub fn of<T: Row, R: IntoIterator<Item = T>>(rows: impl FnOnce() -> R + Send + 'a) -> Self {
        let encode = |file: File, path: &Path| {
            let mut writer = TableWriter::<T>::on(file, path, SCHEMA_VERSION)?;
            writer.append(rows())?;
            writer.complete()
        };
        Content { table: T::TABLE, join: join::<T>, forget: Kept::forget::<T>, encode: Box::new(encode) }
    }

    /// See [`Encode`].
    pub(crate) fn encode(self, file: File, path: &Path) -> Result<(File, u64), Error> {
        (self.encode)(file, path)
    }
}

/// Does the same with several things side by side, each of which may take long.
pub(crate) fn side_by_side<T: Send, R: Send>(things: Vec<T>, each: impl Fn(T) -> R + Sync + Send) -> Vec<R> {
    match things.len() {
        // No threads are started for it.
        0 | 1 => things.into_iter().map(each).collect(),
        _ => things.into_par_iter().with_max_len(1).map(each).collect(),
    }
}

/// See [`Join`].
pub(crate) fn join<T: Row>(file: File, path: &Path, parts: &[Extent]) -> Result<u64, Error> {
    let mut writer = TableWriter::<T>::on(file, path, SCHEMA_VERSION)?;
    for part in parts {
        writer.append_file(&TableFile::open(part.clone())?)?;
    }
    writer.finish()
}
