//! Passes of a loop are counted wherever signals stop or leave it.

use super::*;
use numalens_profile::ids::SiteId;
use numalens_profile::tables::SiteAccess;
use std::collections::BTreeMap;

/// As in `laps.c`.
const ROUNDS: u64 = 400 << 18;

#[test]
fn passes_equal_arithmetic_while_signals_leave_the_loop() {
    let lab = Lab::exact();
    let laps = lab.build("exact/laps.c", &["-O1", "-g"]);
    for scheme in SCHEMES {
        let recorded = record_by(&lab, scheme, &["--machine", "2x2"], &[&laps]);
        let said: Vec<u64> = recorded.said().split_whitespace().map(|word| word.parse().unwrap()).collect();
        let [stored, left] = said[..] else { panic!("{scheme}: {said:?}") };
        assert!(left > 0 && stored > ROUNDS, "{scheme}: {left} left the loop");
        let mut by_site: BTreeMap<SiteId, [u64; 2]> = BTreeMap::new();
        for row in recorded.profile().rows::<SiteAccess>().unwrap() {
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
