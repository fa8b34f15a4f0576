//! Accesses by FS are counted where FS points to.

use super::{numalens, program};
use numalens_profile::Profile;
use numalens_profile::tables::PageAccess;
use std::collections::BTreeMap;

#[test]
fn accesses_by_fs_follow_it() {
    let directory = tempfile::tempdir().unwrap();
    let segments = program(directory.path(), "segments.c", &["-O1", "-g"]);
    for scheme in ["flat", "stays", "loops", "usual"] {
        let profile = directory.path().join(scheme);
        let recorded = numalens()
            .args(["record", "-q", "--machine", "2x2", "-o"])
            .arg(&profile)
            .arg("--")
            .arg(&segments)
            .arg("300000")
            .env("NUMALENS_EXACT", scheme)
            .output()
            .unwrap();
        assert!(recorded.status.success(), "{scheme}: {recorded:?}");
        let said = String::from_utf8(recorded.stdout).unwrap();
        let numbers: Vec<u64> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let mut found: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
        for row in Profile::open(&profile).unwrap().rows::<PageAccess>().unwrap() {
            let [reads, writes] = found.entry(row.page.0).or_default();
            (*reads, *writes) = (*reads + row.reads, *writes + row.writes);
        }
        let (wanted, _) = numbers.as_chunks::<3>();
        for &[page, reads, writes] in wanted {
            assert_eq!(found.get(&page), Some(&[reads, writes]), "{scheme}");
        }
    }
}
