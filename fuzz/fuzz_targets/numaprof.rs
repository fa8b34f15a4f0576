//! Any bytes as a file of NUMAPROF: taken or refused, and what is taken can be looked at.
#![no_main]

use libfuzzer_sys::fuzz_target;
use numalens_import::{Options, numaprof};
use numalens_profile::Profile;
use std::path::Path;

fuzz_target!(|text: &[u8]| {
    let Ok(scratch) = tempfile::tempdir() else { return };
    let output = scratch.path().join("a.numalens");
    let name = Path::new("numaprof-app-1.json");
    if let Ok(made) = numaprof::import_bytes(text, name, &Options::default(), &output, false) {
        let profile = Profile::open(&made).expect("what was just written can be read");
        let sections: Vec<_> = numalens_analyze::sections::ALL.iter().collect();
        let _ = numalens_analyze::sections::run(&profile, &Default::default(), &sections);
    }
});
