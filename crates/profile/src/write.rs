//! Writing a profile: parts and generations in `NAME.partial`, one file per table and a rename at the end.
//!
//! A reader may open the profile at any time while it is written, and a crash may come at any time. Both see the
//! state of the last checkpoint, because
//!
//! - a file that `meta` names is never changed: appended rows go to new parts (`TABLE.7.parquet`), replaced tables to a
//!   new generation, each completed aside (see `place`) and renamed;
//! - `meta.parquet` lists the files that make up the profile. Renaming the new `meta` over the old one is the moment at
//!   which a checkpoint becomes true;
//! - files that the new `meta` no longer names are removed one checkpoint later, so that a reader that has just read
//!   the old `meta` still finds them.
//!
//! Parts would become many in a long recording. Eight neighbouring parts of one level are joined into one of the next
//! level, so their number grows with the logarithm of the checkpoints and each row is copied that many times.

use crate::SCHEMA_VERSION;
use crate::content::{Content, Join, join, side_by_side};
use crate::directory::{aside, publish, publish_file, remove, room, write_meta};
use crate::encode::TableWriter;
use crate::error::Error;
use crate::file::Extent;
use crate::meta::Meta;
use crate::row::Row;
use std::any::Any;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// Parts of one level that are joined into one of the next.
const JOIN: usize = 8;

/// A profile being written. When it is dropped without [`Writer::finish`], the last checkpoint stays in `PATH.partial`.
pub struct Writer {
    target: PathBuf,
    partial: PathBuf,
    force: bool,
    /// Held while this writer lives, so that two recordings do not write into one directory.
    _lock: File,
    tables: BTreeMap<&'static str, Table>,
    /// Number of the next part or generation.
    next: u64,
    /// Bytes of completed files, with those since removed.
    bytes: u64,
    /// Whether there is a `meta`, which names files.
    is_readable: bool,
    /// Files out of use, that the last `meta` may still name; and those that it does not.
    retired: Vec<PathBuf>,
    garbage: Vec<PathBuf>,
}

struct Part {
    name: String,
    level: u32,
}

struct Table {
    parts: Vec<Part>,
    open: Option<OpenPart>,
    join: Join,
}

/// A part being written: its name when complete, where it is until then.
struct OpenPart {
    name: String,
    place: TempPath,
    writer: Box<dyn Open>,
}

/// A [`TableWriter`] of some type of row.
trait Open: Send {
    fn rows(&mut self) -> &mut dyn Any;
    fn written(&self) -> u64;
    fn finish(self: Box<Self>) -> Result<u64, Error>;
}

impl<T: Row> Open for TableWriter<T> {
    fn rows(&mut self) -> &mut dyn Any {
        self
    }

    fn written(&self) -> u64 {
        TableWriter::written(self)
    }

    fn finish(self: Box<Self>) -> Result<u64, Error> {
        TableWriter::finish(*self)
    }
}

impl Writer {
    /// Creates `path.partial`, where the profile grows until [`Writer::finish`] renames it to `path`.
    ///
    /// # Errors
    /// When `path` or `path.partial` exists and not `force`; with `force` when what exists is no profile, or is being
    /// written.
    pub fn create(path: &Path, force: bool) -> Result<Writer, Error> {
        // Without a trailing slash, which would end up before `.partial`.
        let target: PathBuf = path.components().collect();
        let (partial, lock) = room(&target, force)?;
        Ok(Writer {
            target,
            partial,
            force,
            _lock: lock,
            tables: BTreeMap::new(),
            next: 0,
            bytes: 0,
            is_readable: false,
            retired: Vec::new(),
            garbage: Vec::new(),
        })
    }

    /// The directory that is being written, readable after the first checkpoint.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// Adds rows to a table. They become visible at the next [`Writer::checkpoint`].
    ///
    /// # Errors
    /// When the rows cannot be written (disk full, ...).
    pub fn append<T: Row>(&mut self, rows: impl IntoIterator<Item = T>) -> Result<(), Error> {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        let name = self.new_part(T::TABLE);
        let path = self.partial.join(&name);
        let table =
            self.tables.entry(T::TABLE).or_insert_with(|| Table { parts: Vec::new(), open: None, join: join::<T> });
        let open = match &mut table.open {
            Some(open) => open,
            None => {
                let (file, place) = aside(&path)?;
                let writer = Box::new(TableWriter::<T>::on(file, &path, SCHEMA_VERSION)?);
                table.open.insert(OpenPart { name, place, writer })
            }
        };
        match open.writer.rows().downcast_mut::<TableWriter<T>>() {
            Some(writer) => writer.append(rows),
            None => Err(Error::Encode {
                path: self.partial.join(T::TABLE),
                why: "two types of row for one table".to_owned(),
            }),
        }
    }

    /// Replaces the whole content of a table. It becomes visible at the next [`Writer::checkpoint`].
    ///
    /// # Errors
    /// As [`Writer::append`]; the content that it had stays then.
    pub fn replace<T: Row>(&mut self, rows: impl IntoIterator<Item = T> + Send) -> Result<(), Error> {
        self.replace_all(vec![Content::of(|| rows)])
    }

    /// Replaces the content of several tables, which are written side by side, as [`Writer::replace`] does that of one.
    ///
    /// # Errors
    /// The first of theirs; the others are replaced.
    pub fn replace_all(&mut self, contents: Vec<Content<'_>>) -> Result<(), Error> {
        let parts: Vec<_> = contents.into_iter().map(|content| (self.new_part(content.table), content)).collect();
        let partial = &self.partial;
        let written = side_by_side(parts, |(name, content)| {
            let (table, join, path) = (content.table, content.join, partial.join(&name));
            let written = aside(&path).and_then(|(file, place)| {
                let (_, bytes) = content.encode(file, &path)?;
                Ok((place, bytes))
            });
            (name, table, join, written)
        });
        let mut outcome = Ok(());
        for (name, table, join, written) in written {
            outcome = outcome.and(written.and_then(|(place, bytes)| self.put(table, name, place, bytes, join)));
        }
        outcome
    }

    /// Makes a file that is complete the content of a table.
    fn put(
        &mut self,
        table: &'static str,
        name: String,
        written: TempPath,
        bytes: u64,
        join: Join,
    ) -> Result<(), Error> {
        let part = self.complete(name, written, bytes, 0)?;
        // One that was open goes: it was never completed, so no `meta` names it.
        if let Some(old) = self.tables.insert(table, Table { parts: vec![part], open: None, join }) {
            self.retire(old.parts);
        }
        Ok(())
    }

    /// Makes all rows that were given so far readable in the `.partial` directory, together with `meta`, as one
    /// consistent profile (`meta.complete` is written as false).
    ///
    /// # Errors
    /// As [`Writer::append`]; readers go on to see the checkpoint before.
    pub fn checkpoint(&mut self, meta: &Meta) -> Result<(), Error> {
        for name in self.tables.keys().copied().collect::<Vec<_>>() {
            self.close_part(name)?;
            self.join_parts(name)?;
        }
        let files: Vec<String> =
            self.tables.values().flat_map(|table| &table.parts).map(|part| part.name.clone()).collect();
        self.write_meta(meta, &files, false)?;
        self.is_readable = true;
        self.garbage.drain(..).try_for_each(|path| remove(&path))?;
        self.garbage = std::mem::take(&mut self.retired);
        Ok(())
    }

    /// Bytes written so far, for the announcement of the profile's size.
    pub fn bytes_written(&self) -> u64 {
        self.bytes
            + self
                .tables
                .values()
                .filter_map(|table| table.open.as_ref())
                .map(|open| open.writer.written())
                .sum::<u64>()
    }

    /// Completes the profile: one file per table, `meta.complete` true, and its final name.
    /// Nothing waits for the disk: who loses power in that second has checksums to tell.
    /// An existing profile of that name (with `force`) is replaced in one step.
    ///
    /// # Errors
    /// As [`Writer::append`]; what was given before stays readable in the `.partial` directory.
    pub fn finish(mut self, meta: &Meta) -> Result<PathBuf, Error> {
        if let Some(files) = self.name_only_parts()? {
            self.write_meta(meta, &files, true)?;
            self.retired.iter().try_for_each(|path| remove(path))?;
            publish(&self.partial, &self.target, self.force)?;
            return Ok(self.target);
        }
        // Whatever fails after this, nothing is lost.
        self.checkpoint(meta)?;
        let mut files = Vec::new();
        let mut obsolete = std::mem::take(&mut self.garbage);
        for (name, table) in &self.tables {
            let file = format!("{name}.parquet");
            let path = self.partial.join(&file);
            let parts: Vec<PathBuf> = table.parts.iter().map(|part| self.partial.join(&part.name)).collect();
            match parts.as_slice() {
                [] => continue,
                // A second name, not another one: until `meta` is renamed the profile consists of the parts.
                [part] if fs::hard_link(part, &path).is_ok() => {}
                parts => {
                    let extents = parts.iter().map(|part| Extent::whole(part)).collect::<Result<Vec<_>, _>>()?;
                    let (joined, place) = aside(&path)?;
                    (table.join)(joined, &path, &extents)?;
                    publish_file(place, &path)?;
                }
            }
            files.push(file);
            obsolete.extend(parts);
        }
        self.write_meta(meta, &files, true)?;
        obsolete.iter().try_for_each(|path| remove(path))?;
        publish(&self.partial, &self.target, self.force)?;
        Ok(self.target)
    }

    /// Completes all tables, and gives their files the names that they have in a complete profile: of a short
    /// recording, in which nobody has been told of parts, and of each table there is one. Returns these names.
    fn name_only_parts(&mut self) -> Result<Option<Vec<String>>, Error> {
        let is_one = |table: &Table| table.parts.len() + usize::from(table.open.is_some()) <= 1;
        if self.is_readable || !self.tables.values().all(is_one) {
            return Ok(None);
        }
        for name in self.tables.keys().copied().collect::<Vec<_>>() {
            self.close_part(name)?;
        }
        let mut files = Vec::new();
        for (name, table) in &mut self.tables {
            for part in &mut table.parts {
                let (from, file) = (self.partial.join(&part.name), format!("{name}.parquet"));
                fs::rename(&from, self.partial.join(&file)).map_err(Error::io("rename", &from))?;
                part.name.clone_from(&file);
                files.push(file);
            }
        }
        Ok(Some(files))
    }

    /// The name of a new part.
    fn new_part(&mut self, table: &str) -> String {
        let number = self.next;
        self.next += 1;
        format!("{table}.{number}.parquet")
    }

    fn complete(&mut self, name: String, written: TempPath, bytes: u64, level: u32) -> Result<Part, Error> {
        publish_file(written, &self.partial.join(&name))?;
        self.bytes += bytes;
        Ok(Part { name, level })
    }

    fn retire(&mut self, parts: Vec<Part>) {
        self.retired.extend(parts.into_iter().map(|part| self.partial.join(part.name)));
    }

    /// Completes the part of a table that is being written, if there is one.
    fn close_part(&mut self, table: &'static str) -> Result<(), Error> {
        let Some(open) = self.tables.get_mut(table).and_then(|table| table.open.take()) else { return Ok(()) };
        let bytes = open.writer.finish()?;
        let part = self.complete(open.name, open.place, bytes, 0)?;
        self.tables.entry(table).and_modify(|table| table.parts.push(part));
        Ok(())
    }

    /// Joins the last parts of a table while there are enough of one level.
    fn join_parts(&mut self, table: &'static str) -> Result<(), Error> {
        while let Some(entry) = self.tables.get_mut(table) {
            let level = entry.parts.last().map_or(0, |part| part.level);
            let alike = entry.parts.iter().rev().take_while(|part| part.level == level).count();
            if alike < JOIN {
                break;
            }
            let (join, first) = (entry.join, entry.parts.len() - alike);
            let extents = entry.parts[first..]
                .iter()
                .map(|part| Extent::whole(&self.partial.join(&part.name)))
                .collect::<Result<Vec<_>, _>>()?;
            let name = self.new_part(table);
            let path = self.partial.join(&name);
            let (file, place) = aside(&path)?;
            let bytes = join(file, &path, &extents)?;
            let joined = self.complete(name, place, bytes, level + 1)?;
            if let Some(entry) = self.tables.get_mut(table) {
                let old = entry.parts.drain(first..).collect();
                entry.parts.push(joined);
                self.retire(old);
            }
        }
        Ok(())
    }

    fn write_meta(&mut self, meta: &Meta, files: &[String], complete: bool) -> Result<(), Error> {
        self.bytes += write_meta(&self.partial, meta, files, complete)?;
        Ok(())
    }
}

/// Writes a profile that cannot grow for long, such as one made of others: when anything fails, nothing is left of it.
/// `fill` gives its rows, and returns what it says of itself.
///
/// # Errors
/// As [`Writer::create`] and [`Writer::finish`], and what `fill` says.
pub fn write_whole<E: From<Error>>(
    path: &Path,
    force: bool,
    fill: impl FnOnce(&mut Writer) -> Result<Meta, E>,
) -> Result<PathBuf, E> {
    let mut writer = Writer::create(path, force)?;
    let partial = writer.partial.clone();
    let written = match fill(&mut writer) {
        Ok(meta) => writer.finish(&meta).map_err(E::from),
        Err(error) => {
            drop(writer);
            Err(error)
        }
    };
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_dir_all(&partial);
    }
    written
}
