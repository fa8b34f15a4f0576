//! Detection on copies of what real kernels show, each file on a line.

use super::*;

/// A tree under `bus/event_source/devices`.
fn sysfs(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary directory");
    for (path, text) in files {
        let path = root.path().join("bus/event_source/devices").join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
        fs::write(path, format!("{text}\n")).expect("a file");
    }
    root
}

const SKYLAKE: &[(&str, &str)] = &[
    ("cpu/type", "4"),
    ("cpu/caps/max_precise", "3"),
    ("cpu/format/event", "config:0-7"),
    ("cpu/format/umask", "config:8-15"),
    ("cpu/format/ldlat", "config1:0-15"),
    ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
    ("cpu/events/mem-stores", "event=0xd0,umask=0x82"),
];

#[test]
fn skylake() {
    let root = sysfs(SKYLAKE);
    let found = detect(root.path()).expect("loads and stores");
    assert_eq!(found.vendor, Vendor::Intel);
    let [loads, stores] = &found.events[..] else { panic!("{found:?}") };
    assert_eq!((loads.name.as_str(), loads.sampled, loads.type_), ("cpu/mem-loads/", Sampled::Loads, 4));
    assert_eq!((loads.config, loads.precise, loads.leader), ([0x1cd, 3, 0], 3, None));
    assert_eq!((stores.sampled, stores.config), (Sampled::Stores, [0x82d0, 0, 0]));
    assert!(loads.exclude_kernel && loads.cpus.is_none());
    assert_eq!(loads.sample_type & u64::from(sys::PERF_SAMPLE_DATA_SRC), u64::from(sys::PERF_SAMPLE_DATA_SRC));
    assert_eq!(why_absent(root.path()), None);
}

#[test]
fn hybrid_with_a_leader() {
    let root = sysfs(&[
        ("cpu_core/type", "4"),
        ("cpu_core/cpus", "0-3,8"),
        ("cpu_core/format/event", "config:0-7"),
        ("cpu_core/format/umask", "config:8-15"),
        ("cpu_core/format/ldlat", "config1:0-15"),
        ("cpu_core/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
        ("cpu_core/events/mem-loads-aux", "event=0x03,umask=0x82"),
        ("cpu_core/events/mem-stores", "event=0xcd,umask=0x2"),
        ("cpu_atom/type", "10"),
        ("cpu_atom/cpus", "4-7"),
        ("cpu_atom/format/event", "config:0-7"),
        ("cpu_atom/format/umask", "config:8-15"),
        ("cpu_atom/format/ldlat", "config1:0-15"),
        ("cpu_atom/events/mem-loads", "event=0xd0,umask=0x5,ldlat=3"),
    ]);
    let found = detect(root.path()).expect("events of both kinds of core");
    let names: Vec<&str> = found.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["cpu_atom/mem-loads/", "cpu_core/mem-loads/", "cpu_core/mem-stores/"]);
    assert_eq!((found.events[0].type_, found.events[0].leader), (10, None));
    assert_eq!(found.events[0].cpus, Some(vec![4, 5, 6, 7]));
    assert_eq!(found.events[1].leader, Some([0x8203, 0, 0]));
    assert_eq!(found.events[1].cpus, Some(vec![0, 1, 2, 3, 8]));
    assert_eq!(found.events[2].leader, None);
}

#[test]
fn ibs() {
    let files = [("ibs_op/type", "11"), ("ibs_op/format/cnt_ctl", "config:19"), ("cpu/type", "4")];
    let old = detect(sysfs(&files).path()).expect("ibs");
    assert_eq!((old.vendor, old.events.len()), (Vendor::Amd, 1));
    assert_eq!((old.events[0].type_, old.events[0].config, old.events[0].precise), (11, [1 << 19, 0, 0], 0));
    assert!(!old.events[0].exclude_kernel);
    assert_ne!(old.events[0].sample_type & u64::from(sys::PERF_SAMPLE_RAW), 0);

    let new = [&files[..], &[("ibs_op/format/swfilt", "config2:0")]].concat();
    let new = detect(sysfs(&new).path()).expect("ibs");
    assert_eq!((new.events[0].config, new.events[0].exclude_kernel), ([1 << 19, 0, 1], true));
}

#[test]
fn absent() {
    let root = sysfs(&[("software/type", "1"), ("msr/type", "7")]);
    assert_eq!(detect(root.path()), None);
    assert_eq!(why_absent(root.path()), Some(Absent::NoPmu));
    let root = sysfs(&[("cpu/type", "4"), ("cpu/events/cycles", "event=0x3c")]);
    assert_eq!(why_absent(root.path()), Some(Absent::NoMemoryEvents { pmu: "cpu".into() }));
    assert_eq!(why_absent(Path::new("/does/not/exist")), Some(Absent::NoPmu));
}

#[test]
fn not_understood() {
    for (path, text) in [
        ("cpu/events/mem-loads", "event=banana"),
        ("cpu/events/mem-loads", "unknown=1"),
        ("cpu/format/event", "config9:0-7"),
        ("cpu/format/event", "config:7-0"),
        ("cpu/format/event", "config:60-64"),
        ("cpu/type", "many"),
        ("cpu/cpus", "0-x"),
    ] {
        let files: Vec<_> = SKYLAKE.iter().copied().filter(|(known, _)| *known != path).chain([(path, text)]).collect();
        let absent = why_absent(sysfs(&files).path());
        assert!(matches!(absent, Some(Absent::NotUnderstood { .. })), "{path}: {text}: {absent:?}");
    }
}

#[test]
fn parameters_in_parts() {
    let bits = parse_format("config:0-7,32-35").expect("two ranges");
    let mut config = [0; 3];
    bits.put(&mut config, 0xabc);
    assert_eq!(config, [0xa_0000_00bc, 0, 0]);
    let mut config = [0; 3];
    parse_format("config1:0-63").expect("a whole word").put(&mut config, u64::MAX);
    assert_eq!(config, [0, u64::MAX, 0]);
}
