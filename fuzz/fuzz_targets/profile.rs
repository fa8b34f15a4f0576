//! Any bytes as a packed profile: refused, or checked and looked at.
#![no_main]

use libfuzzer_sys::fuzz_target;
use numalens_profile::Profile;

fuzz_target!(|bytes: &[u8]| {
    let Ok(scratch) = tempfile::tempdir() else { return };
    let path = scratch.path().join("a.numalens");
    if std::fs::write(&path, bytes).is_err() {
        return;
    }
    if let Ok(profile) = Profile::open(&path) {
        let _ = numalens_profile::check(&profile);
        let sections: Vec<_> = numalens_analyze::sections::ALL.iter().collect();
        let _ = numalens_analyze::sections::run(&profile, &Default::default(), &sections);
        let _ = numalens_analyze::advice::run(&profile, &Default::default());
    }
});
