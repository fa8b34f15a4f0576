//! A constructed perf.data: nodes of threads from CPUs, homes of pages from physical addresses and from what the
//! processor said.

mod common;

use common::perf::{self, CACHED_LOAD, LOCAL_LOAD, REMOTE_LOAD, REMOTE_STORE, Sampled};
use numalens_analyze::report::{Report, Value};
use numalens_analyze::{Options as Load, sections};
use numalens_import::{Options, perf as importer};
use numalens_profile::Profile;
use numalens_profile::tables::{PlacedPages, Sample, Site};
use numalens_profile::words::{Access, Source};
use numalens_topology::NodeId;
use std::path::Path;

const HEAP: u64 = 0x7f00_0000_0000;

/// Thread 77 on CPU 0 (node 0), thread 78 on CPU 2 (node 1).
fn samples() -> Vec<Sampled> {
    let at = |time, tid, cpu, page: u64, physical, data_source| Sampled {
        time,
        tid,
        cpu,
        ip: 0x40_0010,
        caller: 0x40_0105,
        address: HEAP + page * 4096 + 8,
        physical,
        data_source,
    };
    vec![
        // Page 0: physical block 2, which is node 1's, whatever the processor says.
        at(1_000, 77, 0, 0, (2 << 24) + 8, LOCAL_LOAD),
        at(2_000, 78, 2, 0, (2 << 24) + 8, CACHED_LOAD),
        // Page 1: no physical address; remote for thread 77 on node 0, so on node 1.
        at(3_000, 77, 0, 1, 0, REMOTE_STORE),
        at(4_000, 77, 0, 1, 0, REMOTE_LOAD),
        // Page 2: only ever in a cache.
        at(5_000, 77, 0, 2, 0, CACHED_LOAD),
        // Thread 78 moves to node 0.
        at(6_000, 78, 1, 1, 0, CACHED_LOAD),
        // Without an address, and of the kernel's own code: left out.
        Sampled { address: 0, ..at(6_500, 77, 0, 0, 0, CACHED_LOAD) },
        Sampled { ip: 0xffff_ffff_8000_0000, ..at(6_600, 77, 0, 0, 0, CACHED_LOAD) },
    ]
}

fn import(bytes: &[u8]) -> Result<(tempfile::TempDir, Profile), String> {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("a.numalens");
    let made = importer::import_bytes(bytes, Path::new("perf.data"), &Options::default(), &output, false);
    let made = made.map_err(|error| error.to_string())?;
    let profile = Profile::open(&made).unwrap();
    Ok((directory, profile))
}

fn reports(profile: &Profile) -> Vec<Report> {
    sections::run(profile, &Load::default(), &sections::ALL.iter().collect::<Vec<_>>()).unwrap()
}

#[test]
fn threads_are_where_their_cpus_are_and_pages_where_samples_say() {
    let (_directory, profile) = import(&perf::file(&samples())).unwrap();
    assert_eq!(numalens_profile::check(&profile).unwrap(), Vec::new());
    let rows: Vec<Sample> = profile.rows().unwrap();
    let seen: Vec<_> =
        rows.iter().map(|row| (row.node.map(|n| n.0), row.home.map(|n| n.0), row.class.word())).collect();
    assert_eq!(
        seen,
        [
            (Some(0), Some(1), "remote"),
            (Some(1), Some(1), "local"),
            (Some(0), Some(1), "remote"),
            (Some(0), Some(1), "remote"),
            (Some(0), None, "unplaced"),
            (Some(0), Some(1), "remote"),
        ]
    );
    assert_eq!(
        (rows[2].access, rows[2].source, rows[2].latency),
        (Access::Write, Some(Source::RemoteMemory), Some(250))
    );
    let pages: Vec<PlacedPages> = profile.rows().unwrap();
    assert_eq!(
        pages.iter().map(|page| (page.home, page.inferred)).collect::<Vec<_>>(),
        [(Some(NodeId(1)), false), (Some(NodeId(1)), true)]
    );

    let reports = reports(&profile);
    let find = |key: &str| reports.iter().find(|report| report.key == key).unwrap();
    // Six samples of 1000 accesses each.
    assert!(matches!(find("summary").field("accesses"), Some(Value::Estimate(6000, _))));
    let log = find("placements");
    assert_eq!(log.cell(2, "node"), Some(&Value::Node(NodeId(0))), "thread 78 was seen on another node");
    assert_eq!(log.cell(2, "cause"), Some(&Value::Text("observed".to_owned())));
    let notes = profile.meta.notes.join("\n");
    assert!(
        notes.contains("1 samples of the kernel's own code") && notes.contains("1 samples without an address"),
        "{notes}"
    );
    assert_eq!(profile.meta.command, ["perf", "record"]);
}

#[test]
fn instructions_and_callers_are_in_their_file() {
    let (_directory, profile) = import(&perf::file(&samples())).unwrap();
    let sites: Vec<Site> = profile.rows().unwrap();
    // Mapped at 0x400000 from offset 0x1000; the caller is the call, one byte before where it returns to.
    assert_eq!(sites.iter().map(|site| site.address).collect::<Vec<_>>(), [0x1010, 0x1104]);
    assert!(sites.iter().all(|site| site.module.is_some()));
}

fn seen(profile: &Profile) -> Vec<(u64, Option<NodeId>, Option<NodeId>)> {
    let rows: Vec<Sample> = profile.rows().unwrap();
    rows.iter().map(|row| (row.address, row.node, row.home)).collect()
}

/// `perf record -o -`: events and sections are records.
#[test]
fn what_came_through_a_pipe_is_read_alike() {
    let (_directory, of_file) = import(&perf::file(&samples())).unwrap();
    let pipe = perf::pipe(&samples());
    let (_directory, of_pipe) = import(&pipe).unwrap();
    assert_eq!(seen(&of_pipe), seen(&of_file));
    assert_eq!(of_pipe.meta.command, ["perf", "record"]);
    let why = import(&pipe[..16]).err().expect("it is refused");
    assert!(why.contains("came through a pipe") && why.contains("its beginning is missing"), "{why}");
    let why = import(&pipe[..pipe.len() - 3]).err().expect("it is refused");
    assert!(why.contains("does not end within the file"), "{why}");
}

/// `perf record --threads`: each of its threads has written a file of its own.
#[test]
fn the_files_of_a_folder_are_read_together() {
    let (_directory, of_file) = import(&perf::file(&samples())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (samples(), samples());
    std::fs::write(folder.path().join("data"), perf::file(&[])).unwrap();
    // By number, and in order of time whatever the file.
    std::fs::write(folder.path().join("data.10"), perf::records(&first[..3])).unwrap();
    std::fs::write(folder.path().join("data.9"), perf::records(&second[3..])).unwrap();
    std::fs::write(folder.path().join("data.old"), "no records").unwrap();
    assert!(importer::is_folder(folder.path()));
    let output = folder.path().join("a.numalens");
    let made = importer::import(folder.path(), &Options::default(), &output, false).unwrap();
    assert_eq!(seen(&Profile::open(&made).unwrap()), seen(&of_file));
}

/// The header is written last.
#[test]
fn a_file_whose_recorder_was_killed_has_its_records() {
    let whole = perf::file(&samples());
    let end = 104 + 152 + u64::from_le_bytes(whole[48..56].try_into().unwrap()) as usize;
    let mut killed = whole[..end - 5].to_vec();
    killed[48..56].fill(0);
    killed[72..104].fill(0);
    let why = import(&killed).err().expect("the machine is in a section");
    assert!(why.contains("--machine"), "{why}");
    let machine = numalens_topology::Machine::preset("togian");
    let options = Options { machine, ..Options::default() };
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("a.numalens");
    let made = importer::import_bytes(&killed, Path::new("perf.data"), &options, &output, false).unwrap();
    // The last one, which is cut, was of the kernel's code.
    assert_eq!(seen(&Profile::open(&made).unwrap()).len(), 6);
}

#[test]
fn a_file_without_addresses_or_of_another_kind_is_refused() {
    let without: Vec<Sampled> = samples().into_iter().map(|sample| Sampled { address: 0, ..sample }).collect();
    let refused = import(&perf::file(&without)).err().expect("it is refused");
    assert!(refused.contains("`perf mem record` or `perf record -d`"), "{refused}");
    assert!(import(b"PERFILE2 and nothing more").err().is_some_and(|why| why.contains("is no perf.data file")));
    let foreign = |magic: &[u8]| import(magic).err().unwrap_or_default();
    assert!(foreign(b"2ELIFREP").contains("big-endian") && foreign(b"PERFFILE").contains("before Linux 3.6"));
    assert!(importer::looks_like(&perf::file(&[])) && !importer::looks_like(b"{\"infos\": 1}"));
}
