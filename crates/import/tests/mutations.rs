//! Mutated files: an importer takes a file or refuses it with a reason, whatever is in it. The same mutations in every
//! run; `fuzz/` has targets that go on for as long as one likes.

mod common;

use numalens_import::{ImportError, Options, numaprof, perf};
use numalens_profile::Profile;
use serde_json::{Value, json};
use std::path::Path;

struct Scatter(u64);

impl Scatter {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

/// What may stand where something else did.
fn odd(scatter: &mut Scatter) -> Value {
    let odd = [
        json!(null),
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(1e300),
        json!(70000),
        json!(""),
        json!("0x"),
        json!("0xffffffffffffffff"),
        json!([]),
        json!([u64::MAX, u64::MAX, 1]),
        json!({}),
        json!({ "-1": [1], "0": [1], "65535": [1] }),
        json!({ "0x7fffffffffffffff": { "localAccess": u64::MAX, "remoteAccess": u64::MAX } }),
    ];
    odd[scatter.below(odd.len())].clone()
}

/// Replaces, removes or doubles something somewhere in the tree.
fn mutate(value: &mut Value, scatter: &mut Scatter) {
    let deeper = scatter.below(8) > 0;
    match value {
        Value::Object(map) if deeper && !map.is_empty() => {
            let key = map.keys().nth(scatter.below(map.len())).cloned().unwrap_or_default();
            match scatter.below(12) {
                0 => drop(map.remove(&key)),
                1 => {
                    let content = map.remove(&key).unwrap_or_default();
                    map.insert(format!("{key}9"), content);
                }
                _ => mutate(&mut map[&key], scatter),
            }
        }
        Value::Array(list) if deeper && !list.is_empty() => {
            let index = scatter.below(list.len());
            match scatter.below(12) {
                0 => drop(list.remove(index)),
                1 => list.push(list[index].clone()),
                _ => mutate(&mut list[index], scatter),
            }
        }
        _ => *value = odd(scatter),
    }
}

/// Whether it was taken; if so, the profile can be read and looked at.
fn import(text: &[u8], scratch: &Path) -> bool {
    let output = scratch.join("a.numalens");
    let name = Path::new("numaprof-app-1.json");
    match numaprof::import_bytes(text, name, &Options::default(), &output, true) {
        Ok(made) => {
            let profile = Profile::open(&made).unwrap();
            numalens_profile::check(&profile).unwrap();
            let sections: Vec<_> = numalens_analyze::sections::ALL.iter().collect();
            numalens_analyze::sections::run(&profile, &Default::default(), &sections).unwrap();
            true
        }
        Err(ImportError::Form { why, .. }) => {
            assert!(!why.is_empty());
            false
        }
        Err(other) => panic!("another failure than of the form: {other}"),
    }
}

#[test]
fn trees_with_odd_values_are_taken_or_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let mut taken = 0;
    for seed in 0..200 {
        let (mut scatter, mut file) = (Scatter(seed), common::numaprof());
        for _ in 0..1 + scatter.below(3) {
            mutate(&mut file, &mut scatter);
        }
        taken += u32::from(import(file.to_string().as_bytes(), scratch.path()));
    }
    // Both happen: mutations that nothing takes test the parser alone.
    assert!((20..180).contains(&taken), "{taken} of 200 were taken");
}

#[test]
fn flipped_and_cut_bytes_are_taken_or_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let whole = common::numaprof().to_string().into_bytes();
    for seed in 0..200 {
        let (mut scatter, mut text) = (Scatter(seed), whole.clone());
        for _ in 0..1 + scatter.below(4) {
            let at = scatter.below(text.len());
            match scatter.below(3) {
                0 => text[at] = b"0123456789-,:[]{}\"eE. xnull"[scatter.below(27)],
                1 => text.truncate(at.max(1)),
                _ => drop(text.remove(at)),
            }
            if text.is_empty() {
                break;
            }
        }
        import(&text, scratch.path());
    }
}

#[test]
fn damaged_recordings_of_perf_are_taken_or_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let (file, pipe) = (common::perf::file(&common::perf::forty()), common::perf::pipe(&common::perf::forty()));
    let mut taken = 0;
    for seed in 0..200 {
        let whole = if seed % 2 == 0 { &file } else { &pipe };
        let (mut scatter, mut bytes) = (Scatter(seed), whole.clone());
        for _ in 0..1 + scatter.below(4) {
            let at = scatter.below(bytes.len());
            match scatter.below(8) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = 0xff,
                2 => bytes[at] = 0,
                _ => bytes[at] = scatter.below(256) as u8,
            }
        }
        let output = scratch.path().join("b.numalens");
        match perf::import_bytes(&bytes, Path::new("perf.data"), &Options::default(), &output, true) {
            Ok(made) => {
                let profile = Profile::open(&made).unwrap();
                assert_eq!(numalens_profile::check(&profile).unwrap(), Vec::new(), "seed {seed}");
                taken += 1;
            }
            Err(ImportError::Form { .. }) => {}
            Err(other) => panic!("another failure than of the form: {other}"),
        }
    }
    assert!((20..195).contains(&taken), "{taken} of 200 were taken");
}
