//! Reading a profile: a directory, one that is still being written, or a packed one.

use crate::content::{self, Content};
use crate::directory;
use crate::error::Error;
use crate::extremes::Extremes;
use crate::file::{Extent, TableFile};
use crate::kept::{self, Kept};
use crate::limits::{self, Texts};
use crate::meta::Meta;
use crate::pack;
use crate::place;
use crate::row::Row;
use crate::tables::MetaEntry;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// The file that makes a directory a profile.
pub(crate) const META: &str = "meta.parquet";

/// An opened profile. Opening reads `meta` and the footers of all files; rows are read when they are asked for.
///
/// The files stay open: what a writer removes later can still be read.
pub struct Profile {
    /// How it was made.
    pub meta: Meta,
    path: PathBuf,
    /// What is replaced stays in memory: it is packed, or several.
    is_read_only: bool,
    tables: RwLock<BTreeMap<String, Arc<Vec<TableFile>>>>,
    kept: Kept,
}

/// `path.partial`
pub(crate) fn partial_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

impl Profile {
    /// Opens the profile at `path`; where there is none, the unfinished one at `path.partial`.
    ///
    /// # Errors
    /// Nothing there, not a profile, written by a newer version, or damaged; the message names the file.
    pub fn open(path: &Path) -> Result<Profile, Error> {
        let mut path: PathBuf = path.components().collect();
        let mut found = std::fs::metadata(&path);
        if found.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            let partial = partial_of(&path);
            found = std::fs::metadata(&partial);
            match &found {
                Err(error) if error.kind() == ErrorKind::NotFound => return Err(Error::Missing { path }),
                _ => path = partial,
            }
        }
        if found.map_err(Error::io("open", &path))?.is_dir() {
            Self::open_directory(path)
        } else {
            Self::open_packed(path)
        }
    }

    fn open_directory(path: PathBuf) -> Result<Profile, Error> {
        // A writer may retire files between our reading of `meta` and of them; then there is a newer `meta`.
        let mut attempts = 0;
        loop {
            match Self::try_directory(&path) {
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound && attempts < 3 => attempts += 1,
                outcome => return outcome,
            }
        }
    }

    fn try_directory(path: &Path) -> Result<Profile, Error> {
        let meta = path.join(META);
        if !meta.exists() {
            let why = if path.extension().is_some_and(|ending| ending == "partial") {
                "the recording ended before its first checkpoint"
            } else {
                "it has no meta.parquet"
            };
            return Err(Error::NotAProfile { path: path.to_owned(), why: why.to_owned() });
        }
        Self::from_files(path, false, Extent::whole(&meta)?, |name| Extent::whole(&path.join(name)))
    }

    fn open_packed(path: PathBuf) -> Result<Profile, Error> {
        let mut entries = pack::entries(&path)?;
        let meta = entries
            .remove(META)
            .ok_or_else(|| Error::NotAProfile { path: path.clone(), why: format!("it has no {META}") })?;
        let lacking = |name: &str| Error::Damaged { path: path.clone(), damage: format!("it lacks {name}") };
        Self::from_files(&path, true, meta, |name| entries.remove(name).ok_or_else(|| lacking(name)))
    }

    fn from_files(
        path: &Path,
        packed: bool,
        meta: Extent,
        mut file: impl FnMut(&str) -> Result<Extent, Error>,
    ) -> Result<Profile, Error> {
        let meta = TableFile::open(meta)?;
        let (values, names) = read_meta(&meta)?;
        let mut tables: BTreeMap<String, Vec<TableFile>> = BTreeMap::new();
        for name in &names {
            let table = table_of(name).ok_or_else(|| Error::BadMeta {
                path: meta.path().to_owned(),
                key: "files".to_owned(),
                why: format!("`{}` is no name of a table's file", name.escape_debug()),
            })?;
            tables.entry(table.to_owned()).or_default().push(TableFile::open(file(name)?)?);
        }
        tables.insert(MetaEntry::TABLE.to_owned(), vec![meta]);
        let all = || tables.values().flatten();
        let bytes = all().map(|file| file.extent.len).sum();
        limits::check_rows(all().map(TableFile::rows).fold(0, u64::saturating_add), bytes, path)?;
        let texts = Arc::new(Texts::of(bytes));
        for files in tables.values_mut() {
            *files = std::mem::take(files).into_iter().map(|file| file.among(&texts)).collect();
        }
        let tables = tables.into_iter().map(|(table, files)| (table, Arc::new(files))).collect();
        let tables = RwLock::new(tables);
        Ok(Profile { meta: values, path: path.to_owned(), is_read_only: packed, tables, kept: Kept::default() })
    }

    /// One of the files of others, and of tables that are made for it.
    pub(crate) fn of_tables(
        meta: Meta,
        path: &Path,
        tables: BTreeMap<String, Vec<TableFile>>,
        contents: Vec<Content<'_>>,
    ) -> Result<Profile, Error> {
        let names = tables.keys().map(String::as_str).chain(contents.iter().map(|content| content.table));
        let names: Vec<String> = names.map(|table| format!("{table}.parquet")).collect();
        let entries = meta.entries(&names, meta.complete, path)?;
        let tables = tables.into_iter().map(|(table, files)| (table, Arc::new(files))).collect();
        let tables = RwLock::new(tables);
        let profile = Profile { meta, path: path.to_owned(), is_read_only: true, tables, kept: Kept::default() };
        profile.replace_all(contents.into_iter().chain([Content::of(|| entries)]).collect())?;
        Ok(profile)
    }

    /// The same with its files closed while nobody reads them: a thousand profiles have more files than a process may
    /// open. What a writer removes or replaces cannot be read any more then.
    ///
    /// # Errors
    /// The system does not tell which files they are.
    pub fn closed(mut self) -> Result<Profile, Error> {
        let tables = self.tables.get_mut().unwrap_or_else(PoisonError::into_inner);
        for files in tables.values_mut() {
            *files = Arc::new(files.iter().map(TableFile::closed).collect::<Result<Vec<_>, _>>()?);
        }
        Ok(self)
    }

    /// Where it was opened, of several the first: for an unfinished profile with `.partial`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its recording has not finished (yet).
    pub fn is_partial(&self) -> bool {
        !self.meta.complete
    }

    /// Bytes of all its files.
    pub(crate) fn bytes(&self) -> u64 {
        self.all_files().iter().flat_map(|(_, files)| files.iter()).map(|file| file.extent.len).sum()
    }

    pub(crate) fn files(&self, table: &str) -> Arc<Vec<TableFile>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).get(table).cloned().unwrap_or_default()
    }

    /// Every file with its table, `meta` included.
    pub(crate) fn all_files(&self) -> Vec<(String, Arc<Vec<TableFile>>)> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.iter().map(|(table, files)| (table.clone(), files.clone())).collect()
    }

    /// Whether all that there is of a table has a column; profiles of older versions may lack those that can be empty.
    pub fn has_column<T: Row>(&self, column: &str) -> bool {
        self.files(T::TABLE).iter().all(|file| file.has_column(column))
    }

    /// All rows of a table in the order in which they were written; none when the profile has no such table.
    ///
    /// # Errors
    /// Damage, an unknown word, a missing column.
    pub fn rows<T: Row>(&self) -> Result<Vec<T>, Error> {
        self.fold(
            T::COLUMNS,
            Vec::new,
            |rows: &mut Vec<T>, row| rows.push(row),
            |mut left, mut right| {
                if left.is_empty() {
                    return right;
                }
                left.append(&mut right);
                left
            },
        )
    }

    /// Holds the decoded rows of a table in memory from now on, for who folds the same table again and again: walking
    /// over them takes a tenth of the time that decoding takes. A table that would take more than `most` bytes stays on
    /// disk. The answer is what they take.
    ///
    /// For tables of plain numbers: texts beside the rows are not counted.
    ///
    /// # Errors
    /// As [`Profile::rows`].
    pub fn keep<T: Row>(&self, most: usize) -> Result<usize, Error> {
        let bytes = size_of::<T>().saturating_mul(usize::try_from(self.count::<T>()?).unwrap_or(usize::MAX));
        if bytes == 0 || bytes > most || self.kept.get::<T>().is_some() {
            return Ok(0);
        }
        // In runs as they were decoded: they need not be copied together.
        let runs = self.fold::<T, Vec<Vec<T>>>(
            T::COLUMNS,
            || vec![Vec::new()],
            |runs, row| {
                if let Some(run) = runs.last_mut() {
                    run.push(row);
                }
            },
            |mut left, mut right| {
                left.append(&mut right);
                left
            },
        )?;
        self.kept.put(runs);
        Ok(bytes)
    }

    /// Folds over the rows of a table, row groups in parallel.
    ///
    /// Only the named columns are decoded; the other fields of the rows are blank (0, "", `None`, the first word of
    /// a set), or what they are where the table is kept in memory. `init` makes an accumulator per run of row groups or
    /// more, `step` adds a row to it, `merge` joins two that are neighbours, in the order of the rows; it must be
    /// associative.
    ///
    /// # Errors
    /// As [`Profile::rows`]; a name that is no column of the table.
    pub fn fold<T: Row, A: Send>(
        &self,
        columns: &[&str],
        init: impl Fn() -> A + Sync + Send,
        step: impl Fn(&mut A, T) + Sync + Send,
        merge: impl Fn(A, A) -> A + Sync + Send,
    ) -> Result<A, Error> {
        self.fold_some(columns, &|_| true, init, step, merge)
    }

    /// The same over row groups that may have `wanted` rows alone: by what the footer says of their columns. Of those
    /// there are rows that nobody wants as well.
    ///
    /// # Errors
    /// As [`Profile::fold`].
    pub fn fold_some<T: Row, A: Send>(
        &self,
        columns: &[&str],
        wanted: &dyn Fn(&Extremes<'_>) -> bool,
        init: impl Fn() -> A + Sync + Send,
        step: impl Fn(&mut A, T) + Sync + Send,
        merge: impl Fn(A, A) -> A + Sync + Send,
    ) -> Result<A, Error> {
        if let Some(column) = columns.iter().find(|column| !T::COLUMNS.contains(column)) {
            return Err(Error::NoSuchColumn { table: T::TABLE, column: (*column).to_owned() });
        }
        if let Some(runs) = self.kept.get::<T>() {
            return Ok(kept::fold(&runs, &init, &step, &merge));
        }
        let files = self.files(T::TABLE);
        let mut groups: Vec<Group<'_>> =
            files.iter().flat_map(|file| (0..file.row_groups()).map(move |group| (file, group))).collect();
        groups.retain(|(file, group)| wanted(&file.extremes(*group)));
        let each = |groups: &[Group<'_>]| {
            let mut accumulator = init();
            for (file, group) in groups {
                file.decode(*group, columns, |row| step(&mut accumulator, row))?;
            }
            Ok(accumulator)
        };
        reduce(&groups, &each, &init, &merge)
    }

    /// Number of rows of a table, from the footers.
    ///
    /// # Errors
    /// None today; the footers were verified when the profile was opened.
    pub fn count<T: Row>(&self) -> Result<u64, Error> {
        Ok(self.files(T::TABLE).iter().map(TableFile::rows).sum())
    }

    /// Number of rows of all tables that the profile has, those unknown to this version included.
    pub fn total_rows(&self) -> u64 {
        self.all_files().iter().flat_map(|(_, files)| files.iter()).map(TableFile::rows).sum()
    }

    /// Replaces the content of a table, in the profile's directory: written aside, renamed. For who has just made the
    /// profile; whoever only reads one uses [`Profile::overlay`].
    ///
    /// Where that cannot be (a packed profile, a recording that still runs, a directory that may not be written, or is
    /// full) the new content is kept in memory and seen through this `Profile` only.
    ///
    /// Of two tables replaced one after the other a crash may leave the first new and the second old.
    ///
    /// # Errors
    /// What is to be written cannot be encoded, ...
    pub fn replace<T: Row>(&self, rows: impl IntoIterator<Item = T> + Send) -> Result<(), Error> {
        self.replace_all(vec![Content::of(|| rows)])
    }

    /// Lays the rows of several tables over those of the profile, and a change over its `meta`: seen through this
    /// `Profile` only, and by who packs it. Nothing is written to where the profile stands, which may be somebody
    /// else's.
    ///
    /// # Errors
    /// No memory for them; `meta` is damaged.
    pub fn overlay(&self, contents: Vec<Content<'_>>, change: impl FnOnce(&mut Meta)) -> Result<(), Error> {
        let encoded = self.encode(contents)?;
        let files = self.files(MetaEntry::TABLE);
        let Some(old) = files.first() else { return Ok(()) };
        let (mut meta, mut files) = read_meta(old)?;
        change(&mut meta);
        for (table, ..) in &encoded {
            list_as_one(&mut files, table);
        }
        let rows = meta.entries(&files, meta.complete, old.path())?;
        let meta = self.encode(vec![Content::of(|| rows)])?;
        for (table, forget, content) in encoded.into_iter().chain(meta) {
            let file = Arc::new(vec![TableFile::open(content)?]);
            self.tables.write().unwrap_or_else(PoisonError::into_inner).insert(table.to_owned(), file);
            forget(&self.kept);
        }
        Ok(())
    }

    /// The bytes of some tables, one after the other, for a checksum: two profiles with the same bytes have the same
    /// rows in them.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn digest(&self, tables: &[&str], digest: &mut impl Write) -> Result<(), Error> {
        for table in tables {
            for file in self.files(table).iter() {
                // Told apart from the next one by its length.
                let header = format!("{table} {}\n", file.extent.len);
                digest.write_all(header.as_bytes()).map_err(Error::io("read", file.path()))?;
                file.extent.copy(digest, file.path())?;
            }
        }
        Ok(())
    }

    /// Tables as they would be written, in memory: rows can be iterated over only once, and whether a directory takes
    /// them shows later.
    fn encode(&self, contents: Vec<Content<'_>>) -> Result<Vec<Encoded>, Error> {
        let encoded = content::side_by_side(contents, |content| {
            let (table, forget) = (content.table, content.forget);
            let name = format!("{table}.parquet");
            let path = self.path.join(&name);
            let memory = place::nameless(&name).map_err(Error::io("create", &path))?;
            let (memory, bytes) = content.encode(memory, &path)?;
            Ok((table, forget, Extent::of(Arc::new(memory), 0, bytes, path)))
        });
        encoded.into_iter().collect()
    }

    /// Replaces the rows of several tables, which are encoded side by side, as [`Profile::replace`] does those of one.
    ///
    /// # Errors
    /// As there; of what was to be replaced some may have been.
    pub fn replace_all(&self, contents: Vec<Content<'_>>) -> Result<(), Error> {
        let encoded = self.encode(contents)?;
        // While this is held no other process writes here.
        let lock = if self.is_read_only { None } else { directory::lock(&self.path).ok() };
        let mut stored = Vec::new();
        let done = encoded.into_iter().try_for_each(|(table, forget, content)| {
            let place = if lock.is_some() { store(&content) } else { Ok(content.clone()) };
            let place = match place {
                Err(Error::Io { source, .. }) if takes_nothing(source.kind()) => content,
                place => {
                    let place = place?;
                    stored.push(table);
                    place
                }
            };
            let file = Arc::new(vec![TableFile::open(place)?]);
            self.tables.write().unwrap_or_else(PoisonError::into_inner).insert(table.to_owned(), file);
            forget(&self.kept);
            Ok(())
        });
        let listed = match if lock.is_some() { list(&self.path, &stored) } else { Ok(()) } {
            // What is not listed is computed anew by the next reader.
            Err(Error::Io { source, .. }) if takes_nothing(source.kind()) => Ok(()),
            listed => listed,
        };
        done.and(listed)
    }
}

/// Whether a directory cannot take what is computed for a reader, who has it in memory then.
fn takes_nothing(kind: ErrorKind) -> bool {
    use ErrorKind::{FileTooLarge, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(kind, PermissionDenied | ReadOnlyFilesystem | StorageFull | QuotaExceeded | FileTooLarge)
}

/// What folds make side by side, for each thread.
pub(crate) const RUNS_A_THREAD: usize = 2;

/// A table as it would be written: its name, what forgets rows of it that are kept in memory, its bytes.
type Encoded = (&'static str, fn(&Kept), Extent);

/// A row group of a file.
type Group<'a> = (&'a TableFile, usize);

/// Folds row groups in parallel: a few runs of neighbours for each thread, as merging what two runs made costs about
/// what making it did. Dynamic, so that the compiler does not make rayon's machinery anew for every table.
fn reduce<A: Send>(
    groups: &[Group<'_>],
    each: &(dyn Fn(&[Group<'_>]) -> Result<A, Error> + Sync),
    init: &(dyn Fn() -> A + Sync),
    merge: &(dyn Fn(A, A) -> A + Sync),
) -> Result<A, Error> {
    // Most tables of most profiles: no threads are started for them.
    if groups.len() < 2 {
        return each(groups);
    }
    let run = groups.len().div_ceil(RUNS_A_THREAD * rayon::current_num_threads());
    groups.par_chunks(run).map(each).try_reduce(init, |left, right| Ok(merge(left, right)))
}

/// Copies a table's new content into its profile's directory.
fn store(content: &Extent) -> Result<Extent, Error> {
    let path = &content.path;
    let (mut file, place) = directory::aside(path)?;
    content.copy(&mut file, path)?;
    directory::publish_file(place, path)?;
    Extent::whole(path)
}

/// Lists tables in `meta` that are a file each, and were not.
fn list(directory: &Path, tables: &[&str]) -> Result<(), Error> {
    if tables.is_empty() {
        return Ok(());
    }
    // The list as it is now: another process may have added a table since the profile was opened.
    let (meta, mut files) = read_meta(&TableFile::open(Extent::whole(&directory.join(META))?)?)?;
    let mut changed = false;
    for &table in tables {
        changed |= list_as_one(&mut files, table);
    }
    if changed { directory::write_meta(directory, &meta, &files, meta.complete).map(drop) } else { Ok(()) }
}

/// Makes one file of a table in the list of files; whether it was something else.
fn list_as_one(files: &mut Vec<String>, table: &str) -> bool {
    let name = format!("{table}.parquet");
    // `meta` is not in its own list.
    if table == MetaEntry::TABLE || files.iter().filter(|file| table_of(file) == Some(table)).eq([&name]) {
        return false;
    }
    files.retain(|file| table_of(file) != Some(table));
    files.push(name);
    true
}

/// What `meta.parquet` says, and the files that it lists.
pub(crate) fn read_meta(file: &TableFile) -> Result<(Meta, Vec<String>), Error> {
    let mut entries: Vec<MetaEntry> = Vec::new();
    for group in 0..file.row_groups() {
        file.decode(group, MetaEntry::COLUMNS, |row| entries.push(row))?;
    }
    Meta::from_entries(entries, file.path())
}

/// The table of `TABLE.parquet` or of a part, `TABLE.7.parquet`; none for any other name.
pub(crate) fn table_of(file: &str) -> Option<&str> {
    let name = file.strip_suffix(".parquet")?;
    let (table, number) = name.split_once('.').unwrap_or((name, "0"));
    let plain = |text: &str, allowed: fn(&u8) -> bool| !text.is_empty() && text.bytes().all(|byte| allowed(&byte));
    (plain(table, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_')
        && plain(number, u8::is_ascii_digit))
    .then_some(table)
}
