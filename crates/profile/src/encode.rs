//! Writing one Parquet file of one table, and joining several into one.

use crate::error::Error;
use crate::file::{TableFile, VERSION_KEY};
use crate::row::Row;
use crate::seal::{self, SealingFile};
use arrow_schema::{Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use rayon::prelude::*;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of a full row group: enough for the encodings to pay, few enough that several cores share a table.
pub(crate) const ROW_GROUP: usize = 256 << 10;
/// Rows that are turned into Arrow columns at a time.
const BATCH: usize = 32 << 10;
/// zstd's. Level 1 makes facts 3 % larger (`examples/ten_million.rs`).
const ZSTD_LEVEL: i32 = 3;
/// Row groups with fewer rows than this are decoded and packed anew when files are joined.
const SMALL_GROUP: u64 = (ROW_GROUP / 4) as u64;
/// Rows from which on the columns of a table are encoded by several threads: below, starting the threads costs more.
const WORTH_SHARING: usize = 16 << 10;

/// Row groups with fewer rows than this are not compressed: each column would have a compressor of its own, and most
/// tables of a short recording are that small.
const WORTH_COMPRESSING: usize = 256;

fn properties<T: Row>(compression: Compression) -> Result<WriterProperties, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(compression)
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        // An index of pages would stand between row groups and footer, outside of both checksums.
        .set_offset_index_disabled(true)
        .set_created_by(concat!("numalens ", env!("CARGO_PKG_VERSION")).to_owned());
    // Rows are in order, so most integers grow, cluster or stay the same along the file: their differences are shorter
    // than a dictionary, and quicker to make. Counts, which do nothing of it, are no longer than in one.
    for field in T::fields() {
        if field.data_type().is_integer() {
            let path = ColumnPath::from(field.name().as_str());
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(properties.build())
}

/// A writer of row groups, and what makes writers of columns for it.
fn serialized<T: Row, W: Write + Send>(
    to: W,
    fields: &[Field],
    compression: Compression,
) -> Result<(SerializedFileWriter<W>, ArrowRowGroupWriterFactory), ParquetError> {
    let schema = Arc::new(Schema::new(fields.to_vec()));
    ArrowWriter::try_new(to, schema, Some(properties::<T>(compression)?))?.into_serialized_writer()
}

/// A file of `T` rows being written.
pub(crate) struct TableWriter<T> {
    path: PathBuf,
    file: SerializedFileWriter<SealingFile<File>>,
    columns: ArrowRowGroupWriterFactory,
    fields: Vec<Field>,
    /// The row group in the making, and its rows.
    group: Option<(Vec<ArrowColumnWriter>, usize)>,
    buffer: Vec<T>,
}

impl<T: Row> TableWriter<T> {
    /// On an opened, empty file; `version` is this crate's [`crate::SCHEMA_VERSION`], or another to test how readers
    /// take it.
    pub(crate) fn on(file: File, path: &Path, version: u32) -> Result<Self, Error> {
        let fields = T::fields();
        let (mut file, columns) = ZstdLevel::try_new(ZSTD_LEVEL)
            .and_then(|level| serialized::<T, _>(SealingFile::new(file), &fields, Compression::ZSTD(level)))
            .map_err(|error| failed(path, error))?;
        file.append_key_value_metadata(KeyValue::new(VERSION_KEY.to_owned(), version.to_string()));
        Ok(TableWriter { path: path.to_owned(), file, columns, fields, group: None, buffer: Vec::new() })
    }

    pub(crate) fn append(&mut self, rows: impl IntoIterator<Item = T>) -> Result<(), Error> {
        for row in rows {
            self.buffer.push(row);
            if self.buffer.len() == BATCH {
                self.encode()?;
            }
        }
        Ok(())
    }

    /// Moves the buffered rows into the row group.
    fn encode(&mut self) -> Result<(), Error> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let arrays = T::arrays(&self.buffer);
        let added = self.buffer.len();
        self.buffer.clear();
        let (mut writers, rows) = match self.group.take() {
            Some(group) => group,
            None => (self.begin_group(added).map_err(|error| failed(&self.path, error))?, 0),
        };
        let write = |((field, array), writer): ((_, _), &mut ArrowColumnWriter)| {
            compute_leaves(field, array)?.iter().try_for_each(|leaf| writer.write(leaf))
        };
        if added < WORTH_SHARING {
            self.fields.iter().zip(&arrays).zip(&mut writers).try_for_each(write)
        } else {
            self.fields.par_iter().zip(&arrays).zip(&mut writers).try_for_each(write)
        }
        .map_err(|error| failed(&self.path, error))?;
        self.group = Some((writers, rows + added));
        if rows + added >= ROW_GROUP { self.close_group() } else { Ok(()) }
    }

    /// Writers for a row group that begins with so many rows.
    fn begin_group(&self, rows: usize) -> Result<Vec<ArrowColumnWriter>, ParquetError> {
        let number = self.file.flushed_row_groups().len();
        if rows < WORTH_COMPRESSING {
            let (_, columns) = serialized::<T, _>(Vec::new(), &self.fields, Compression::UNCOMPRESSED)?;
            return columns.create_column_writers(number);
        }
        self.columns.create_column_writers(number)
    }

    /// Writes the row group in the making.
    fn close_group(&mut self) -> Result<(), Error> {
        let Some((writers, rows)) = self.group.take() else { return Ok(()) };
        let write = || {
            let chunks = if rows < WORTH_SHARING {
                writers.into_iter().map(ArrowColumnWriter::close).collect::<Result<Vec<_>, _>>()?
            } else {
                writers.into_par_iter().map(ArrowColumnWriter::close).collect::<Result<Vec<_>, _>>()?
            };
            let mut group = self.file.next_row_group()?;
            chunks.into_iter().try_for_each(|chunk| chunk.append_to_row_group(&mut group))?;
            group.close().map(drop)
        };
        write().map_err(|error| failed(&self.path, error))
    }

    /// Adds the rows of another file of this table: large row groups are copied as they are, small ones packed anew.
    pub(crate) fn append_file(&mut self, file: &TableFile) -> Result<(), Error> {
        for index in 0..file.row_groups() {
            let rows = u64::try_from(file.parquet().row_group(index).num_rows()).unwrap_or(0);
            if rows < SMALL_GROUP {
                let mut decoded = Vec::new();
                file.decode::<T>(index, T::COLUMNS, |row| decoded.push(row))?;
                self.append(decoded)?;
            } else {
                self.encode()?;
                self.close_group()?;
                self.copy_group(file, index).map_err(|error| failed(&self.path, error))?;
            }
        }
        Ok(())
    }

    fn copy_group(&mut self, file: &TableFile, index: usize) -> Result<(), ParquetError> {
        let source = file.parquet().row_group(index);
        let all: Vec<usize> = (0..source.num_columns()).collect();
        let chunks = file.chunks(index, &all).map_err(|error| ParquetError::External(Box::new(error)))?;
        let mut group = self.file.next_row_group()?;
        for column in source.columns() {
            let result = ColumnCloseResult {
                bytes_written: u64::try_from(column.compressed_size()).unwrap_or(0),
                rows_written: u64::try_from(source.num_rows()).unwrap_or(0),
                metadata: column.clone(),
                bloom_filter: None,
                column_index: None,
                offset_index: None,
            };
            group.append_column(&chunks, result)?;
        }
        group.close().map(drop)
    }

    /// Completes the file; returns its bytes.
    pub(crate) fn finish(self) -> Result<u64, Error> {
        self.complete().map(|(_, bytes)| bytes)
    }

    /// Completes the file and gives it back, with its bytes.
    pub(crate) fn complete(mut self) -> Result<(File, u64), Error> {
        self.encode()?;
        self.close_group()?;
        let TableWriter { path, mut file, .. } = self;
        let close = || {
            file.flush()?;
            let blocks = file.inner_mut().begin_footer();
            file.append_key_value_metadata(KeyValue::new(seal::BODY_KEY.to_owned(), blocks));
            file.append_key_value_metadata(KeyValue::new(seal::FOOTER_KEY.to_owned(), seal::unsealed()));
            // This writes the footer.
            file.into_inner()
        };
        let sealing = close().map_err(|error| failed(&path, error))?;
        sealing.finish().map_err(Error::io("write", &path))
    }

    /// Bytes that have reached the file so far.
    pub(crate) fn written(&self) -> u64 {
        self.file.bytes_written() as u64
    }
}

/// What the Parquet writer says, with the system's error in it brought to the surface: a full disk shall read as one.
fn failed(path: &Path, error: ParquetError) -> Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(source) => Error::Io { what: "write", path: path.to_owned(), source: *source },
            Err(inner) => match inner.downcast::<Error>() {
                Ok(error) => *error,
                Err(inner) => Error::Encode { path: path.to_owned(), why: inner.to_string() },
            },
        },
        error => Error::Encode { path: path.to_owned(), why: error.to_string() },
    }
}
