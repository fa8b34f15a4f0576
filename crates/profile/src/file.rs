//! One Parquet file of one table: how it is opened, verified and decoded. The only place where bytes of a profile meet
//! a decoder.
//!
//! What is decoded has passed the checksums of `seal`, so accidental damage never gets this far. A file made on
//! purpose, or by a bug, still might; the decoder is known to panic on some of those, so its calls run inside
//! [`contain`], which makes an error of a panic. Memory stays bounded by what the file really holds: column chunks are
//! read at their sizes on disk, what they unpack to is checked before (`limits`), and rows are produced in batches.

use crate::SCHEMA_VERSION;
use crate::error::Error;
pub(crate) use crate::extent::Extent;
use crate::extremes::Extremes;
use crate::limits::{self, Texts};
use crate::renumbering::Renumbering;
use crate::row::{Batch, Row};
use crate::seal;
use crate::thrift;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Fields, Schema};
use bytes::{Buf, Bytes};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::reader::{ChunkReader, Length};
use rustc_hash::FxHashSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows decoded at a time.
const BATCH: usize = 16 << 10;
/// A footer larger than this is none of ours (a row group costs about 1 KiB of it, a block 8 bytes).
const MAX_FOOTER: u64 = 256 << 20;
/// Key of the schema version in a file's key-value metadata.
pub(crate) const VERSION_KEY: &str = "numalens.schema_version";

/// Runs the decoder on bytes that may be hostile: a panic becomes an error that names the file.
pub(crate) fn contain<R>(path: &Path, decode: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    // Unwind safety: on a panic everything that `decode` has touched is dropped with it; only the error gets out.
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| {
        Err(Error::Damaged {
            path: path.to_owned(),
            damage: "its content contradicts itself (the decoder gave up)".to_owned(),
        })
    })
}

/// An opened file of a table: its footer is verified and understood.
pub(crate) struct TableFile {
    pub(crate) extent: Extent,
    metadata: ArrowReaderMetadata,
    blocks: Arc<[u32]>,
    body: u64,
    /// What texts take, here and in the other files of the profile; and the columns of row groups that are in it.
    texts: Arc<Texts>,
    told: Mutex<FxHashSet<(usize, usize)>>,
    /// The ids that its rows have in a profile of several; none: their own.
    ids: Option<Arc<Renumbering>>,
}

impl TableFile {
    /// Opens and verifies the footer.
    ///
    /// # Errors
    /// Damage and newer versions, naming the file.
    pub(crate) fn open(extent: Extent) -> Result<TableFile, Error> {
        let path = extent.path.clone();
        let damaged = |damage: String| Error::Damaged { path: path.clone(), damage };
        let tail = extent
            .len
            .checked_sub(seal::TAIL as u64)
            .ok_or_else(|| damaged(format!("it has only {} bytes", extent.len)))?;
        let end = extent.read(tail..extent.len)?;
        if end[4..] != *b"PAR1" {
            return Err(damaged("its end is missing (truncated while it was written or copied?)".to_owned()));
        }
        let length = u64::from(u32::from_le_bytes([end[0], end[1], end[2], end[3]]));
        let body = tail.checked_sub(length).filter(|_| length <= MAX_FOOTER);
        let body = body.ok_or_else(|| damaged("the length of its footer is impossible".to_owned()))?;
        let footer = extent.read(body..extent.len)?;
        seal::verify_footer(&footer, &path)?;
        thrift::check_schema(&footer).map_err(|why| damaged(why.to_owned()))?;
        let metadata = contain(&path, || {
            let metadata = ParquetMetaDataReader::decode_metadata(&footer[..footer.len() - seal::TAIL])
                .map_err(Error::damaged(&path))?;
            limits::check_shape(&metadata, &path)?;
            let metadata = ArrowReaderMetadata::try_new(Arc::new(metadata), ArrowReaderOptions::new())
                .map_err(Error::damaged(&path))?;
            // Texts as views: a name that all rows of a batch have stands there once.
            let fields = metadata.schema().fields().iter().map(|field| match field.data_type() {
                DataType::Utf8 => Arc::new(Field::new(field.name(), DataType::Utf8View, field.is_nullable())),
                _ => field.clone(),
            });
            let schema = Arc::new(Schema::new(fields.collect::<Fields>()));
            let options = ArrowReaderOptions::new().with_schema(schema);
            ArrowReaderMetadata::try_new(metadata.metadata().clone(), options).map_err(Error::damaged(&path))
        })?;
        let key_values = metadata.metadata().file_metadata().key_value_metadata();
        let value = |key: &str| key_values?.iter().find(|entry| entry.key == key)?.value.as_deref();
        let version = value(VERSION_KEY)
            .and_then(|version| version.parse::<u32>().ok())
            .ok_or_else(|| damaged("it states no schema version".to_owned()))?;
        if version > SCHEMA_VERSION {
            return Err(Error::Newer { path, found: version, known: SCHEMA_VERSION });
        }
        let blocks = seal::parse_blocks(value(seal::BODY_KEY).unwrap_or_default(), body, &path)?.into();
        let texts = Arc::new(Texts::of(extent.len));
        Ok(TableFile { extent, metadata, blocks, body, texts, told: Mutex::default(), ids: None })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.extent.path
    }

    /// The same, counting its texts together with those of other files.
    pub(crate) fn among(self, texts: &Arc<Texts>) -> TableFile {
        TableFile { texts: texts.clone(), ..self }
    }

    /// The same as a part of a profile of several, with these ids.
    pub(crate) fn among_profiles(&self, ids: Arc<Renumbering>, texts: Arc<Texts>) -> TableFile {
        TableFile { texts, ids: Some(ids), ..self.again(self.extent.clone()) }
    }

    /// The same, closed while nobody reads it.
    ///
    /// # Errors
    /// The system does not tell which file it is.
    pub(crate) fn closed(&self) -> Result<TableFile, Error> {
        Ok(self.again(self.extent.closed()?))
    }

    fn again(&self, extent: Extent) -> TableFile {
        TableFile {
            extent,
            metadata: self.metadata.clone(),
            blocks: self.blocks.clone(),
            body: self.body,
            texts: self.texts.clone(),
            told: Mutex::default(),
            ids: self.ids.clone(),
        }
    }

    /// Whether its rows are in another file than they are read: with other ids.
    pub(crate) fn is_renumbered(&self) -> bool {
        self.ids.is_some()
    }

    pub(crate) fn row_groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    /// Rows, from the footer.
    pub(crate) fn rows(&self) -> u64 {
        self.metadata.metadata().row_groups().iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0)).sum()
    }

    /// What the footer says of the columns of a row group.
    pub(crate) fn extremes(&self, group: usize) -> Extremes<'_> {
        Extremes { group: self.metadata.metadata().row_group(group), ids: self.ids.as_deref() }
    }

    pub(crate) fn parquet(&self) -> &Arc<parquet::file::metadata::ParquetMetaData> {
        self.metadata.metadata()
    }

    /// Reads a range of the body, widened to whole blocks, verified.
    fn verified(&self, range: Range<u64>) -> Result<(u64, Bytes), Error> {
        let start = range.start / seal::BLOCK * seal::BLOCK;
        let end = range.end.div_ceil(seal::BLOCK).saturating_mul(seal::BLOCK).min(self.body);
        if range.end > end || range.start > range.end {
            return Err(Error::Damaged {
                path: self.path().to_owned(),
                damage: format!("its footer refers to byte {}, behind the last row group", range.end),
            });
        }
        let bytes = self.extent.read(start..end)?;
        seal::verify_blocks(&bytes, start, &self.blocks, self.path())?;
        Ok((start, Bytes::from(bytes)))
    }

    /// Verifies every byte, a few blocks at a time.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        let step = 64 * seal::BLOCK;
        (0..self.body.div_ceil(step))
            .try_for_each(|index| self.verified(index * step..((index + 1) * step).min(self.body)).map(drop))
    }

    /// The bytes of some columns of a row group, verified.
    pub(crate) fn chunks(&self, group: usize, columns: &[usize]) -> Result<Chunks, Error> {
        let group = self.metadata.metadata().row_group(group);
        let mut parts = Vec::with_capacity(columns.len());
        for &column in columns {
            let (start, length) = contain(self.path(), || Ok(group.column(column).byte_range()))?;
            let end = start.checked_add(length).ok_or_else(|| Error::Damaged {
                path: self.path().to_owned(),
                damage: "a column has no end".to_owned(),
            })?;
            parts.push(self.verified(start..end)?);
        }
        Ok(Chunks { len: self.extent.len, parts })
    }

    pub(crate) fn has_column(&self, name: &str) -> bool {
        let columns = self.metadata.parquet_schema().columns();
        columns.iter().any(|column| column.path().parts().first().is_some_and(|part| part == name))
    }

    /// Decodes the `wanted` columns of a row group; `each` gets its rows, the other columns blank.
    pub(crate) fn decode<T: Row>(&self, group: usize, wanted: &[&str], mut each: impl FnMut(T)) -> Result<(), Error> {
        let bit = |(place, name): (usize, &&str)| u64::from(wanted.contains(name)) << place;
        let columns = T::COLUMNS.iter().enumerate().map(bit).sum();
        self.batches(group, wanted, &mut |batch| {
            let opened = T::open(&Batch { path: self.path(), batch, wanted })?;
            for index in 0..batch.num_rows() {
                let mut row = T::row(&opened, index);
                if let Some(ids) = &self.ids {
                    row.renumber(ids, columns);
                }
                each(row);
            }
            self.ids.as_ref().map_or(Ok(()), |ids| ids.check(self.path()))
        })
    }

    /// Looks at the headers of pages before they are unpacked.
    fn check_pages(&self, group: usize, columns: &[usize], chunks: &Chunks) -> Result<(), Error> {
        let group = self.metadata.metadata().row_group(group);
        let mut found = Vec::with_capacity(columns.len());
        for &column in columns {
            let column = group.column(column);
            let (start, length) = contain(self.path(), || Ok(column.byte_range()))?;
            let length = usize::try_from(length).map_err(Error::damaged(self.path()))?;
            let bytes = chunks.get_bytes(start, length).map_err(Error::damaged(self.path()))?;
            found.push((bytes, column));
        }
        limits::check_pages(found.iter().map(|(bytes, column)| (&bytes[..], *column)), self.path())
    }

    /// The part of [`TableFile::decode`] that is the same for all tables.
    fn batches(
        &self,
        group: usize,
        wanted: &[&str],
        each: &mut dyn FnMut(&RecordBatch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let schema = self.metadata.parquet_schema();
        let columns: Vec<usize> = (0..schema.num_columns())
            .filter(|&index| {
                schema.column(index).path().parts().first().is_some_and(|name| wanted.contains(&name.as_str()))
            })
            .collect();
        let expected = self.metadata.metadata().row_group(group).num_rows();
        let chunks = self.chunks(group, &columns)?;
        self.check_pages(group, &columns, &chunks)?;
        let (mut rows, mut texts) = (0i64, 0);
        // What was counted at an earlier time is not counted again, not even for a moment.
        let counts = {
            let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            columns.iter().any(|column| !told.contains(&(group, *column)))
        };
        let decoded = contain(self.path(), || {
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(chunks, self.metadata.clone())
                .with_batch_size(BATCH)
                .with_row_groups(vec![group])
                .with_projection(ProjectionMask::leaves(schema, columns.iter().copied()))
                .build()
                .map_err(Error::damaged(self.path()))?;
            for batch in reader {
                let batch = batch.map_err(Error::damaged(self.path()))?;
                rows += batch.num_rows() as i64;
                if rows > expected {
                    break;
                }
                if counts {
                    texts += self.texts.take(&batch, self.path())?;
                }
                each(&batch)?;
            }
            Ok(())
        });
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = columns.iter().fold(false, |is_new, column| told.insert((group, *column)) | is_new);
        if decoded.is_err() || !is_new {
            self.texts.give_back(texts);
        }
        drop(told);
        decoded?;
        if rows != expected {
            return Err(Error::Damaged {
                path: self.path().to_owned(),
                damage: format!("row group {group} has {rows} rows instead of {expected}"),
            });
        }
        Ok(())
    }
}

/// Verified pieces of a file, which is all of it that the decoder gets to see.
pub(crate) struct Chunks {
    len: u64,
    parts: Vec<(u64, Bytes)>,
}

impl Chunks {
    /// The bytes from `start` on. Pieces overlap, as they are widened to whole blocks: the one that reaches farthest
    /// has the whole column.
    fn from(&self, start: u64) -> Option<Bytes> {
        let reaching = self.parts.iter().filter_map(|(at, bytes)| {
            let offset = usize::try_from(start.checked_sub(*at)?).ok()?;
            (offset < bytes.len()).then(|| bytes.slice(offset..))
        });
        reaching.max_by_key(Bytes::len)
    }
}

fn outside(start: u64) -> ParquetError {
    ParquetError::EOF(format!("a page refers to byte {start}, outside of its column"))
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for Chunks {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        self.from(start).map(Buf::reader).ok_or_else(|| outside(start))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        self.from(start)
            .filter(|bytes| bytes.len() >= length)
            .map(|bytes| bytes.slice(..length))
            .ok_or_else(|| outside(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::TableWriter;
    use crate::ids::*;
    use crate::tables::{PageAccess, SiteAccess};
    use crate::words::Class;
    use std::fs::File;
    use std::path::PathBuf;

    fn site_access() -> SiteAccess {
        SiteAccess {
            process: ProcessId(0),
            bin: Bin(0),
            thread: ThreadId(0),
            node: None,
            site: SiteId(0),
            home: None,
            class: Class::Unplaced,
            reads: 1,
            writes: 2,
            samples: 0,
            period: 1,
        }
    }

    /// A file of site accesses as another version would write it.
    fn written_as<T: Row>(version: u32, rows: Vec<T>) -> (tempfile::TempDir, PathBuf) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("site_accesses.parquet");
        let mut writer = TableWriter::on(File::create(&path).unwrap(), &path, version).unwrap();
        writer.append(rows).unwrap();
        writer.finish().unwrap();
        (scratch, path)
    }

    fn read(path: &Path) -> Result<Vec<SiteAccess>, Error> {
        let (file, mut rows) = (TableFile::open(Extent::whole(path)?)?, Vec::new());
        (0..file.row_groups()).try_for_each(|group| file.decode(group, SiteAccess::COLUMNS, |row| rows.push(row)))?;
        Ok(rows)
    }

    #[test]
    fn a_newer_file_says_so() {
        let (_scratch, path) = written_as(SCHEMA_VERSION, vec![site_access()]);
        assert_eq!(read(&path).unwrap(), [site_access()]);
        let (_scratch, path) = written_as(SCHEMA_VERSION + 1, vec![site_access()]);
        let message = read(&path).unwrap_err().to_string();
        let expected =
            "site_accesses.parquet was written by a newer numalens (schema 2, this one reads up to 1): update numalens";
        assert!(message.ends_with(expected), "{message}");
    }

    // Tables of other versions of numalens under the same name. The macros make more than is used here.
    #[allow(dead_code)]
    mod other {
        use crate::ids::*;
        use numalens_topology::NodeId;

        crate::words::words! {
            /// A class that is not known yet.
            LaterClass { Telepathic = "telepathic", }
        }

        table! {
            /// Without its node, with one column more, columns in another order.
            LaterAccess = "site_accesses" {
                period: u64,
                colour: String,
                process: ProcessId,
                bin: Bin,
                thread: ThreadId,
                site: SiteId,
                home: Option<NodeId>,
                class: crate::words::Class,
                reads: u64,
                writes: u64,
                samples: u32,
            }

            /// Only a word.
            UnknownWord = "site_accesses_of_unknown_class" { class: LaterClass, }

            /// Only a number of another type.
            OtherType = "site_accesses_of_other_type" { reads: u32, }
        }
    }

    #[test]
    fn columns_may_be_more_and_nullable_ones_fewer() {
        let SiteAccess { process, bin, thread, site, home, class, reads, writes, samples, period, .. } = site_access();
        let colour = "blue".to_owned();
        let later =
            other::LaterAccess { period, colour, process, bin, thread, site, home, class, reads, writes, samples };
        let (_scratch, path) = written_as(SCHEMA_VERSION, vec![later]);
        assert_eq!(read(&path).unwrap(), [site_access()]);
    }

    #[test]
    fn a_missing_column_is_named() {
        let row = PageAccess {
            process: ProcessId(0),
            bin: Bin(0),
            thread: ThreadId(0),
            node: None,
            home: None,
            page: Page(0),
            reads: 0,
            writes: 0,
            samples: 0,
            period: 1,
        };
        let (_scratch, path) = written_as(SCHEMA_VERSION, vec![row]);
        let error = read(&path).unwrap_err();
        assert!(matches!(error, Error::MissingColumn { column: "site", .. }), "{error}");
        assert!(error.to_string().contains("has no column `site`: it was written by an older numalens"), "{error}");
    }

    fn decode(path: &Path, wanted: &[&str]) -> String {
        let file = TableFile::open(Extent::whole(path).unwrap()).unwrap();
        file.decode(0, wanted, |_: SiteAccess| ()).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_word_is_named() {
        let (_scratch, path) =
            written_as(SCHEMA_VERSION, vec![other::UnknownWord { class: other::LaterClass::Telepathic }]);
        let message = decode(&path, &["class"]);
        assert!(
            message.starts_with("column `class` of ") && message.contains("unknown word `telepathic`"),
            "{message}"
        );
    }

    #[test]
    fn another_type_is_named() {
        let (_scratch, path) = written_as(SCHEMA_VERSION, vec![other::OtherType { reads: 1 }]);
        let message = decode(&path, &["reads"]);
        assert!(
            message.starts_with("column `reads` of ") && message.contains("holds UInt32, expected UInt64"),
            "{message}"
        );
    }

    #[test]
    fn a_panic_of_the_decoder_is_an_error() {
        let error =
            contain(Path::new("x.parquet"), || -> Result<(), Error> { std::panic::resume_unwind(Box::new("boom")) });
        assert_eq!(
            error.unwrap_err().to_string(),
            "x.parquet is damaged: its content contradicts itself (the decoder gave up); copy or record it again"
        );
    }
}
