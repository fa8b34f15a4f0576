//! The layer over a profile's files: names are laid over it, kept in a cache, and packed.

mod common;

use common::*;
use numalens_profile::ids::{ModuleId, ObjectId, ProcessId, SiteId};
use numalens_profile::tables::{Frame, Function, Module, Object, Site};
use numalens_profile::words::ObjectKind;
use numalens_profile::{Meta, Profile, Writer};
use numalens_symbolize::{Cache, Outcome, name_profile};
use std::path::{Path, PathBuf};

fn object(object: u32, kind: ObjectKind, name: &str) -> Object {
    Object {
        process: ProcessId(0),
        object: ObjectId(object),
        kind,
        name: name.into(),
        base: 0x1000,
        size: 8,
        count: 1,
        site: None,
        stack: None,
        thread: None,
        birth_ns: 0,
        death_ns: None,
    }
}

#[test]
fn a_profile_gets_names_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let binary = compile(dir.path(), "program", "gcc -O2 -g -Wl,--build-id", &["inlined.c"]);
    let addresses = instructions(&binary, 50);
    let truth = oracle(&binary, &addresses);
    let path = dir.path().join("run.numalens");
    let mut writer = Writer::create(&path, false).unwrap();
    let module = Module { module: ModuleId(0), path: binary.to_string_lossy().into(), build_id: build_id(&binary) };
    writer.append([module]).unwrap();
    let site = |(index, address): (usize, &u64)| Site {
        site: SiteId(index as u32),
        module: Some(ModuleId(0)),
        address: *address,
    };
    writer.append(addresses.iter().enumerate().map(site)).unwrap();
    let mangled = "_ZN4grid5tableE";
    writer.append([object(0, ObjectKind::Global, mangled), object(1, ObjectKind::Heap, mangled)]).unwrap();
    writer.finish(&Meta::default()).unwrap();

    let before = contents(&path);
    let cache = Cache::at(&dir.path().join("cache"), 1 << 20).unwrap();
    let named = |cache: Option<&Cache>| {
        let profile = Profile::open(&path).unwrap();
        let doubts = name_profile(&profile, &options(&[]), cache).unwrap();
        (profile, doubts)
    };
    let (profile, doubts) = named(Some(&cache));
    let (functions, frames) = (profile.rows::<Function>().unwrap(), profile.rows::<Frame>().unwrap());
    let outcome =
        Outcome { functions: functions.clone(), frames: frames.clone(), waiting: Vec::new(), doubts: Vec::new() };
    assert_eq!(levels(&outcome, addresses.len()), truth);
    let names: Vec<String> = profile.rows::<Object>().unwrap().into_iter().map(|object| object.name).collect();
    assert_eq!(names, ["grid::table", mangled], "only what the linker named");
    assert_eq!(contents(&path), before, "who reads writes nothing");

    // From the cache, and without one: the same.
    for cache in [Some(&cache), None] {
        let (again, same) = named(cache);
        assert_eq!(
            (again.rows::<Function>().unwrap(), again.rows::<Frame>().unwrap()),
            (functions.clone(), frames.clone())
        );
        assert_eq!(same, doubts);
    }

    // What is packed has its names.
    let zip = dir.path().join("run.zip");
    numalens_profile::pack_opened(&profile, &zip, false).unwrap();
    assert_eq!(Profile::open(&zip).unwrap().rows::<Frame>().unwrap(), frames);

    // Another file in its place is not taken for it.
    std::fs::remove_file(&binary).unwrap();
    let (without, doubts) = named(Some(&cache));
    assert_eq!(without.count::<Frame>().unwrap(), 0);
    assert!(doubts[0].contains("was not found here"), "{doubts:?}");
}

/// The files of a profile and what is in them.
fn contents(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| (file.clone(), std::fs::read(file).unwrap())).collect()
}
