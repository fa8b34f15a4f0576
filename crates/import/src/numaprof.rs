//! NUMAPROF's JSON. It keeps sums: per thread a matrix of nodes and counts by class, per instruction and per allocation
//! counts by class. They become `node_accesses` and `class_sums` as they are; who accessed which page, and when, is not
//! in the file.
//!
//! What the file says in other words than a profile:
//! - Accesses that place a page, or that find no page (the kernel's shared pages), are in `firstTouch` and in no class.
//!   They make the class `unplaced`. A page without a home is counted again at each access, so their number is not the
//!   number of pages; `touchedPages` is.
//! - The matrices have the accesses that placed a page, and leave out those that found none.
//! - Distances are ranks, times are cycles of an unknown rate.

mod code;
mod format;
mod machine;
mod threads;

use crate::{ImportError, NUMAPROF, Options};
use format::{Document, Infos, Stats};
use numalens_profile::ids::{ObjectId, ProcessId, SiteId, ThreadId};
use numalens_profile::tables::{ClassSum, MachineNode, Object, Process};
use numalens_profile::words::ObjectKind;
use numalens_profile::{Engine, Meta, RecordedUnit, write_whole};
use std::path::{Path, PathBuf};

/// The one process of a file.
const PROCESS: ProcessId = ProcessId(0);

/// Whether a file seems to be of this form, by its beginning.
pub fn looks_like(beginning: &[u8]) -> bool {
    beginning.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

/// Imports `file` into a new profile at `output`; `force` replaces an existing one.
///
/// # Errors
/// The file cannot be read or is of another form; the machine does not fit; the profile cannot be written.
pub fn import(file: &Path, options: &Options, output: &Path, force: bool) -> Result<PathBuf, ImportError> {
    let text = std::fs::read(file).map_err(|source| ImportError::Io { path: file.to_owned(), source })?;
    import_bytes(&text, file, options, output, force)
}

/// The same from memory; `file` is for messages.
///
/// # Errors
/// As [`import`].
pub fn import_bytes(
    text: &[u8],
    file: &Path,
    options: &Options,
    output: &Path,
    force: bool,
) -> Result<PathBuf, ImportError> {
    let wrong = |why: String| ImportError::Form { path: file.to_owned(), form: NUMAPROF, why };
    let document = parse(text).map_err(wrong)?;
    let Some(recorded) = &document.threads else { return Err(wrong("it has no `threads`".to_owned())) };
    let mut notes = notes(&document);
    let machine = machine::of(&document, options, file, &mut notes)?;
    let threads = threads::read(recorded, &machine).map_err(wrong)?;
    let code = code::read(&document);
    let (class_sums, objects) = sums(&document, recorded, &code);
    check_sums(&document, recorded, &mut notes);
    let process = process(&document.infos, file);
    let meta = Meta {
        machine_name: machine.name.clone(),
        // All of the recording is one bin.
        bin_ns: threads.last_clock.max(document.infos.duration).saturating_add(1),
        bins: 1,
        run_time_ns: options.run_time_ns,
        notes,
        ..meta(&document.infos)
    };
    write_whole(output, force, |writer| {
        writer.replace(MachineNode::of(&machine))?;
        writer.replace([process])?;
        writer.replace(threads.rows)?;
        writer.replace(threads.placements)?;
        writer.replace(threads.accesses)?;
        writer.replace(class_sums)?;
        writer.replace(objects)?;
        writer.replace(code.modules)?;
        writer.replace(code.mappings)?;
        writer.replace(code.sites)?;
        writer.replace(code.frames)?;
        writer.replace(code.functions)?;
        Ok(meta)
    })
}

/// The document, if it is NUMAPROF's and of a known version; else why not.
fn parse(text: &[u8]) -> Result<Document, String> {
    let document: Document = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if document.infos.tool.as_deref().is_some_and(|tool| tool != "numaprof") {
        return Err(format!("it was written by `{}`", document.infos.tool.unwrap_or_default()));
    }
    let version = document.infos.format_version.unwrap_or(2);
    if version > 2 {
        return Err(format!("its format version {version} is newer than 2, the newest that is known"));
    }
    Ok(document)
}

/// The command line; of files that lack it the program.
fn command(infos: &Infos) -> &str {
    if infos.command.is_empty() { &infos.exe } else { &infos.command }
}

fn process(infos: &Infos, file: &Path) -> Process {
    Process {
        process: PROCESS,
        pid: pid(file),
        parent: None,
        rank: None,
        host: infos.hostname.clone(),
        command: command(infos).to_owned(),
        start_ns: 0,
        end_ns: Some(infos.duration),
        end: "unknown".to_owned(),
        heap_observed: true,
    }
}

/// What the document says of the recording, and what is so of all that NUMAPROF records.
fn meta(infos: &Infos) -> Meta {
    Meta {
        command: command(infos).split_whitespace().map(str::to_owned).collect(),
        host: infos.hostname.clone(),
        numalens_version: env!("CARGO_PKG_VERSION").to_owned(),
        engine: Engine::Numaprof,
        unit: RecordedUnit::Accesses,
        unit_note: "imported from NUMAPROF: sums by thread, node and instruction".to_owned(),
        machine_virtual: false,
        start_time: infos.date.clone(),
        reads_and_writes: false,
        ..Meta::default()
    }
}

/// The pid that NUMAPROF puts into the file's name, `numaprof-PROGRAM-PID.json`; 0 where it is not.
fn pid(file: &Path) -> u32 {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.split(".json").next().unwrap_or_default();
    stem.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// What the file leaves out.
fn notes(document: &Document) -> Vec<String> {
    let mut notes = vec![
        "reads and writes are not told apart, and there are no pages, times or call stacks".to_owned(),
        "times are cycles of the processor's clock, as if it ran at 1 GHz: its rate is not in the file".to_owned(),
    ];
    if document.config.core.skip_stack_accesses == Some(true) {
        notes.push("accesses to stacks were not counted".to_owned());
    }
    if !document.process.max_allocated_pages.is_empty() {
        let pages: Vec<String> = document.process.max_allocated_pages.iter().map(u64::to_string).collect();
        notes.push(format!("peak pages by node: {}", pages.join(" ")));
    }
    notes
}

/// Threads and sites count the same accesses; matrices have all but those that found no page. Where a file contradicts
/// itself its reader must know.
fn check_sums(document: &Document, threads: &[format::Thread], notes: &mut Vec<String>) {
    let all = |stats: &mut dyn Iterator<Item = &Stats>| stats.map(Stats::accesses).sum::<u128>();
    let by_thread = all(&mut threads.iter().map(|thread| &thread.stats));
    let by_site = all(&mut document.instructions.values());
    if by_thread != by_site && !document.instructions.is_empty() {
        notes.push(format!(
            "the file contradicts itself: its threads have {by_thread} accesses, its instructions {by_site}"
        ));
    }
    let matrices: u128 = threads.iter().flat_map(|t| t.access_matrix.values()).flatten().map(|n| u128::from(*n)).sum();
    let homeless = by_thread.saturating_sub(matrices);
    if matrices > by_thread {
        notes.push(format!(
            "the file contradicts itself: its matrices have {matrices} accesses, its threads {by_thread}"
        ));
    } else if homeless > 0 {
        notes.push(format!("{homeless} accesses found no page (the kernel's shared pages): no matrix has them"));
    }
}

/// Counts by class, of threads, instructions and allocations; and an object for each of the last.
fn sums(document: &Document, threads: &[format::Thread], code: &code::Code) -> (Vec<ClassSum>, Vec<Object>) {
    let mut sums: Vec<ClassSum> =
        (0..).zip(threads).map(|(id, thread)| sum(&thread.stats, Some(ThreadId(id)), None, None)).collect();
    let site_of = |address: &str| format::address(address).and_then(|address| code.site_of(address));
    let of_sites = document.instructions.iter().filter_map(|(address, stats)| Some((site_of(address)?, stats)));
    sums.extend(of_sites.map(|(site, stats)| sum(stats, None, Some(site), None)));
    let mut objects: Vec<Object> = Vec::new();
    for (address, stats) in &document.allocs {
        let object = ObjectId(objects.len() as u32);
        objects.push(Object {
            process: PROCESS,
            object,
            kind: ObjectKind::Heap,
            name: String::new(),
            base: 0,
            size: 0,
            count: 1,
            site: site_of(address),
            stack: None,
            thread: None,
            birth_ns: 0,
            death_ns: None,
        });
        sums.push(sum(stats, None, None, Some(object)));
    }
    (sums, objects)
}

fn sum(stats: &Stats, thread: Option<ThreadId>, site: Option<SiteId>, object: Option<ObjectId>) -> ClassSum {
    ClassSum {
        process: PROCESS,
        thread,
        site,
        object,
        local: stats.local_access,
        remote: stats.remote_access,
        unpinned_page: stats.unpinned_page_access,
        unpinned_thread: stats.unpinned_thread_access,
        unpinned_both: stats.unpinned_both_access,
        memory_tier_local: stats.local_mcdram_access,
        // Old files do not tell local from remote: the cautious answer.
        memory_tier_remote: stats.remote_mcdram_access.saturating_add(stats.mcdram_access),
        first_touch: stats.first_touch,
        unpinned_first_touch: stats.unpinned_first_touch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pid_is_in_the_name() {
        assert_eq!(pid(Path::new("/a/numaprof-sum-euler-60307.json")), 60307);
        assert_eq!(pid(Path::new("numaprof-app-12.json.xz")), 12);
        assert_eq!(pid(Path::new("profile.json")), 0);
    }
}
