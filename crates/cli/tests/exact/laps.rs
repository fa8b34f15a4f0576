//! Passes of a loop are counted wherever signals stop or leave it.

use super::{numalens, program};
use numalens_profile::Profile;
use numalens_profile::ids::SiteId;
use numalens_profile::tables::SiteAccess;
use std::collections::BTreeMap;

/// As in `laps.c`.
const ROUNDS: u64 = 400 << 18;

#[test]
fn passes_equal_arithmetic_while_signals_leave_the_loop() {
    let directory = tempfile::tempdir().unwrap();
    let laps = program(directory.path(), "laps.c", &["-O1", "-g"]);
    for scheme in ["flat", "stays", "loops", "usual"] {
        let profile = directory.path().join(scheme);
        let recorded = numalens()
            .args(["record", "--engine", "exact", "-q", "--machine", "2x2", "-o"])
            .arg(&profile)
            .arg("--")
            .arg(&laps)
            .env("NUMALENS_EXACT", scheme)
            .output()
            .unwrap();
        assert!(recorded.status.success(), "{scheme}: {recorded:?}");
        let said = String::from_utf8(recorded.stdout).unwrap();
        let said: Vec<u64> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let [stored, left] = said[..] else { panic!("{scheme}: {said:?}") };
        assert!(left > 0 && stored > ROUNDS, "{scheme}: {left} left the loop");
        let mut by_site: BTreeMap<SiteId, [u64; 2]> = BTreeMap::new();
        for row in Profile::open(&profile).unwrap().rows::<SiteAccess>().unwrap() {
            let [reads, writes] = by_site.entry(row.site).or_default();
            (*reads, *writes) = (*reads + row.reads, *writes + row.writes);
        }
        let most = by_site.values().map(|counts| counts[1]).max();
        assert_eq!(most, Some(stored), "{scheme}");
        // A pass that is left may have read one operand or both.
        let mut reads: Vec<u64> = by_site.values().map(|counts| counts[0]).collect();
        reads.sort_unstable();
        for &read in &reads[reads.len() - 2..] {
            assert!((stored..=stored + left).contains(&read), "{scheme}: {read} reads, {stored} stored, {left} left");
        }
    }
}
