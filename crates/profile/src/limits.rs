//! What a profile may make of its bytes. A megabyte of Parquet can state billions of rows, a page of gigabytes, or one
//! name that each of a million rows repeats; what is decoded is bounded before memory is taken for it.
//!
//! | what | at most | why no recording has more |
//! |---|---|---|
//! | rows of a row group | [`ROW_GROUP`] | the writer begins another |
//! | rows of a profile | [`ROWS`], and [`ROWS_A_BYTE`] for each byte of it | the densest tables of recordings have eleven rows a byte in one small table, two or three in all |
//! | a page, unpacked | [`PAGE`] | the writer ends one at a megabyte, unless a text is longer |
//! | the pages of a row group, unpacked | [`PAGES`], and [`UNPACKED`] times their bytes | numbers are short before they are packed, too |
//! | a text | [`TEXT`] | a command line has two megabytes at most, and its words stand apart |
//! | all texts of a profile, as often as rows have them | [`TEXTS`], and [`TEXTS_A_BYTE`] for each byte of it | |
//!
//! A column is plain, and its pages are encoded as the writer encodes them: other decoders have other appetites.

use crate::encode::ROW_GROUP;
use crate::error::Error;
use crate::thrift;
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Rows of a profile.
const ROWS: u64 = 2 << 20;
/// Rows for each byte of it.
const ROWS_A_BYTE: u64 = 8;
/// Bytes of a page.
const PAGE: u64 = 16 << 20;
/// Bytes of the pages of a row group.
const PAGES: u64 = 32 << 20;
/// Bytes of them for each byte that they take.
const UNPACKED: u64 = 64;
/// Bytes of a text.
const TEXT: u64 = 2 << 20;
/// Bytes of all texts.
const TEXTS: u64 = 48 << 20;
/// Bytes of them for each byte of the profile.
const TEXTS_A_BYTE: u64 = 32;
/// The user says that the maker of a profile is trusted with memory.
const TRUSTED: &str = "NUMALENS_TRUST_PROFILES";

fn is_trusted() -> bool {
    std::env::var_os(TRUSTED).is_some_and(|value| value == "1")
}

fn too_much(path: &Path, what: String) -> Error {
    Error::TooMuch { path: path.to_owned(), what }
}

/// Refuses files whose shape no writer makes.
///
/// # Errors
/// A nested column, a compression that is none of ours, a row group with more rows than the writer puts there.
pub(crate) fn check_shape(metadata: &ParquetMetaData, path: &Path) -> Result<(), Error> {
    let damaged = |damage: String| Err(Error::Damaged { path: path.to_owned(), damage });
    for column in metadata.file_metadata().schema_descr().columns() {
        if column.max_rep_level() > 0 || column.max_def_level() > 1 || column.path().parts().len() != 1 {
            return damaged(format!("its column {} is nested", column.path().string().escape_debug()));
        }
    }
    for (number, group) in metadata.row_groups().iter().enumerate() {
        if !u64::try_from(group.num_rows()).is_ok_and(|rows| rows <= ROW_GROUP as u64) {
            return damaged(format!("its row group {number} states {} rows", group.num_rows()));
        }
        let ours = |column: &ColumnChunkMetaData| {
            matches!(column.compression(), Compression::UNCOMPRESSED | Compression::ZSTD(_))
        };
        if !group.columns().iter().all(ours) {
            return damaged(format!("its row group {number} is compressed in a way that numalens does not use"));
        }
    }
    Ok(())
}

/// Refuses a profile that states more rows than recordings of its size have.
///
/// # Errors
/// So it is.
pub(crate) fn check_rows(rows: u64, bytes: u64, path: &Path) -> Result<(), Error> {
    let most = ROWS.saturating_add(bytes.saturating_mul(ROWS_A_BYTE));
    if rows <= most || is_trusted() {
        return Ok(());
    }
    Err(too_much(path, format!("{rows} rows in {bytes} bytes, where a recording of its size has {most} at most")))
}

/// Refuses the column chunks of a row group that would unpack to more than they should, by the headers of their pages.
///
/// # Errors
/// So it is, or a header cannot be read.
pub(crate) fn check_pages<'a>(
    chunks: impl Iterator<Item = (&'a [u8], &'a ColumnChunkMetaData)>,
    path: &Path,
) -> Result<(), Error> {
    let (mut packed, mut unpacked) = (0u64, 0u64);
    for (bytes, column) in chunks {
        let name = column.column_path().string();
        let damaged = |why: &str| Error::Damaged {
            path: path.to_owned(),
            damage: format!("a page of its column {} {why}", name.escape_debug()),
        };
        let values = u64::try_from(column.num_values()).unwrap_or(0);
        let pages = thrift::pages(bytes).map_err(damaged)?;
        let stated: u64 = pages.iter().filter(|page| !page.is_dictionary).map(|page| page.values).sum();
        if stated > values || values > ROW_GROUP as u64 {
            return Err(damaged("states more values than there are rows"));
        }
        for page in &pages {
            if !page.is_encoded_as_ours {
                return Err(damaged("is encoded in a way that numalens does not use"));
            }
            if page.unpacked > PAGE || page.values > page.unpacked.saturating_add(ROW_GROUP as u64) {
                return Err(too_much(
                    path,
                    format!("a page of {} bytes in column {}", page.unpacked, name.escape_debug()),
                ));
            }
            unpacked += page.unpacked;
        }
        packed += bytes.len() as u64;
    }
    let most = PAGES.saturating_add(packed.saturating_mul(UNPACKED));
    if unpacked > most && !is_trusted() {
        return Err(too_much(path, format!("{packed} bytes that unpack to {unpacked}")));
    }
    Ok(())
}

/// What the texts of a profile take together, as far as they have been decoded.
pub(crate) struct Texts {
    decoded: AtomicU64,
    most: u64,
}

impl Texts {
    /// For a profile of so many bytes.
    pub(crate) fn of(bytes: u64) -> Self {
        let most = if is_trusted() { u64::MAX } else { TEXTS.saturating_add(bytes.saturating_mul(TEXTS_A_BYTE)) };
        Texts { decoded: AtomicU64::new(0), most }
    }

    /// Takes in the texts of a batch; returns their bytes.
    ///
    /// # Errors
    /// One of them is too long, or all are too many.
    pub(crate) fn take(&self, batch: &RecordBatch, path: &Path) -> Result<u64, Error> {
        let mut bytes = 0;
        for array in batch.columns().iter().filter(|array| *array.data_type() == DataType::Utf8View) {
            let Some(array) = array.as_string_view_opt() else { continue };
            // The lower half of a view is its length; 0 where there is none.
            for length in array.views().iter().map(|view| u64::from(*view as u32)) {
                if length > TEXT {
                    return Err(too_much(path, format!("a text of {length} bytes")));
                }
                bytes += length;
            }
        }
        let all = self.decoded.fetch_add(bytes, Relaxed).saturating_add(bytes);
        if all > self.most {
            self.give_back(bytes);
            return Err(too_much(path, format!("texts of {all} bytes, all together")));
        }
        Ok(bytes)
    }

    /// They have been decoded before, or were not decoded after all.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.decoded.fetch_sub(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SCHEMA_VERSION;
    use crate::encode::TableWriter;
    use crate::file::{Extent, TableFile};
    use crate::ids::FunctionId;
    use crate::tables::Function;

    /// Reads functions with these names.
    fn read(names: impl Iterator<Item = String>) -> (u64, Result<u64, Error>) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("functions.parquet");
        let mut writer = TableWriter::on(std::fs::File::create(&path).unwrap(), &path, SCHEMA_VERSION).unwrap();
        let function = |(id, name)| Function { function: FunctionId(id), module: None, name };
        writer.append((0..).zip(names).map(function)).unwrap();
        let bytes = writer.finish().unwrap();
        let file = TableFile::open(Extent::whole(&path).unwrap()).unwrap();
        let mut length = 0;
        let read = (0..file.row_groups()).try_for_each(|group| {
            file.decode(group, Function::COLUMNS, |row: Function| length += row.name.len() as u64)
        });
        (bytes, read.map(|()| length))
    }

    #[test]
    fn texts_are_bounded_one_by_one_and_together() {
        let long = |bytes: usize| std::iter::once("n".repeat(bytes));
        assert_eq!(read(long(1 << 20)).1.unwrap(), 1 << 20);
        let error = read(long((2 << 20) + 1)).1.unwrap_err().to_string();
        assert!(error.contains("a text of 2097153 bytes") && error.contains("NUMALENS_TRUST_PROFILES"), "{error}");
        // A dictionary has it once: two kilobytes become a gigabyte.
        let (bytes, error) = read((0..1 << 15).map(|_| "n".repeat(32 << 10)));
        let error = error.unwrap_err();
        assert!(bytes < 64 << 10 && matches!(error, Error::TooMuch { .. }), "{bytes}: {error}");
        // What a recording has.
        assert!(read((0..100_000).map(|id| format!("function {id}"))).1.is_ok());
    }

    /// They are counted once, however often they are decoded, and not where they were refused.
    #[test]
    fn texts_are_counted_once() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("functions.parquet");
        let mut writer = TableWriter::on(std::fs::File::create(&path).unwrap(), &path, SCHEMA_VERSION).unwrap();
        writer.append([Function { function: FunctionId(0), module: None, name: "n".repeat(1000) }]).unwrap();
        writer.finish().unwrap();
        let texts = std::sync::Arc::new(Texts { decoded: AtomicU64::new(0), most: 1500 });
        let file = TableFile::open(Extent::whole(&path).unwrap()).unwrap().among(&texts);
        for _ in 0..3 {
            file.decode(0, Function::COLUMNS, |_: Function| ()).unwrap();
        }
        let other = TableFile::open(Extent::whole(&path).unwrap()).unwrap().among(&texts);
        other.decode(0, Function::COLUMNS, |_: Function| ()).unwrap_err();
        assert_eq!(texts.decoded.load(Relaxed), 1000);
    }

    #[test]
    fn rows_are_bounded_by_bytes() {
        let path = Path::new("a.numalens");
        // The densest that was recorded.
        check_rows(210_202, 84_045, path).unwrap();
        check_rows(2 << 20, 1000, path).unwrap();
        let error = check_rows(1 << 30, 133 << 10, path).unwrap_err().to_string();
        assert!(error.starts_with("a.numalens states 1073741824 rows in 136192 bytes"), "{error}");
    }
}
