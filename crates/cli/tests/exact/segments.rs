//! Accesses by FS are counted where FS points to.

use super::*;
use numalens_profile::tables::PageAccess;
use std::collections::BTreeMap;

#[test]
fn accesses_by_fs_follow_it() {
    let lab = Lab::exact();
    let segments = lab.build("exact/segments.c", &["-O1", "-g"]);
    for scheme in SCHEMES {
        let recorded = record_by(&lab, scheme, &["--machine", "2x2"], &[&segments, "300000"]);
        let numbers: Vec<u64> = recorded.said().split_whitespace().map(|word| word.parse().unwrap()).collect();
        let mut found: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
        for row in recorded.profile().rows::<PageAccess>().unwrap() {
            let [reads, writes] = found.entry(row.page.0).or_default();
            (*reads, *writes) = (*reads + row.reads, *writes + row.writes);
        }
        let (wanted, _) = numbers.as_chunks::<3>();
        for &[page, reads, writes] in wanted {
            assert_eq!(found.get(&page), Some(&[reads, writes]), "{scheme}");
        }
    }
}
