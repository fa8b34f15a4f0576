//! The layer over a profile's files: names are written, kept, and not lost when binaries go.

mod common;

use common::*;
use numalens_profile::ids::{ModuleId, ObjectId, ProcessId, SiteId};
use numalens_profile::tables::{Frame, Function, Module, Object, Site};
use numalens_profile::words::ObjectKind;
use numalens_profile::{Meta, Profile, Writer};
use numalens_symbolize::symbolize;

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
fn a_profile_gets_names_and_keeps_them() {
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

    let outcome = symbolize(&Profile::open(&path).unwrap(), &options(&[])).unwrap();
    assert_eq!(levels(&outcome, addresses.len()), truth);
    let again = Profile::open(&path).unwrap();
    assert_eq!(again.rows::<Function>().unwrap(), outcome.functions);
    assert_eq!(again.rows::<Frame>().unwrap(), outcome.frames);
    let names: Vec<String> = again.rows::<Object>().unwrap().into_iter().map(|object| object.name).collect();
    assert_eq!(names, ["grid::table", mangled], "only what the linker named");

    std::fs::remove_file(&binary).unwrap();
    let kept = symbolize(&again, &options(&[])).unwrap();
    assert_eq!((kept.functions, kept.frames), (outcome.functions, outcome.frames));
}
