//! Short cuts of counting change no count.

use super::*;
use numalens_profile::Profile;
use numalens_profile::ids::SiteId;
use numalens_profile::tables::{PageAccess, Site, SiteAccess};
use std::collections::BTreeMap;

pub(super) type SiteCounts = BTreeMap<(u32, u64, String), (u64, u64)>;

/// The whole tables of a profile: what each site has counted, by thread, address, home and class; and what each page
/// has, by thread, without its address, which the agent's own memory may shift; and executed instructions.
pub(super) fn tables(lab: &Lab) -> (SiteCounts, Vec<(u32, u64, u64)>, u64) {
    let profile = Profile::open(&lab.profile()).unwrap();
    let sites: BTreeMap<SiteId, Site> =
        profile.rows::<Site>().unwrap().into_iter().map(|site| (site.site, site)).collect();
    let mut by_site = SiteCounts::new();
    for row in profile.rows::<SiteAccess>().unwrap() {
        let site = &sites[&row.site];
        let key = (row.thread.0, site.address, format!("{:?} {:?} {:?}", site.module, row.home, row.class));
        let (reads, writes) = by_site.entry(key).or_default();
        (*reads, *writes) = (*reads + row.reads, *writes + row.writes);
    }
    let mut by_page: BTreeMap<(u32, u64), (u64, u64)> = BTreeMap::new();
    for row in profile.rows::<PageAccess>().unwrap() {
        let (reads, writes) = by_page.entry((row.thread.0, row.page.0)).or_default();
        (*reads, *writes) = (*reads + row.reads, *writes + row.writes);
    }
    let mut pages: Vec<_> = by_page.into_iter().map(|((thread, _), (reads, writes))| (thread, reads, writes)).collect();
    pages.sort_unstable();
    (by_site, pages, instructions(&profile))
}

#[test]
fn stays_count_what_the_flat_tables_count() {
    let lab = Lab::exact();
    let kernel = lab.build("exact/kernel.S", FREESTANDING);
    let text = lab.at("text");
    let lines: String =
        (0..20_000u32).map(|i| format!("{:08x} line {}\n", i.wrapping_mul(2_654_435_761), i % 77)).collect();
    std::fs::write(&text, lines).unwrap();
    // With one thread each: others race.
    let commands: [&[&str]; 4] = [
        &[&kernel],
        &["gzip", "-6", "-c", &text],
        &["sort", "--parallel=1", &text],
        &["sed", "-e", "s/line/LINE/;/7$/d", &text],
    ];
    for command in commands {
        let record = |scheme: &str| {
            let output = recorder_in_place(&lab, &[])
                .args(command)
                .env("NUMALENS_EXACT", scheme)
                // The environment lies on the stack: of the same length, the stack's pages are used alike.
                .env("PADDING", "x".repeat(8 - scheme.len()))
                .env("LC_ALL", "C")
                .output()
                .unwrap();
            (output.stdout, tables(&lab))
        };
        let recorded = with_ids_alike(|| SCHEMES.map(record));
        let [(flat_output, flat), others @ ..] = &recorded;
        assert!(flat.1.len() > 3, "{command:?} was recorded");
        for (output, (sites, pages, instructions)) in others {
            assert!(output == flat_output, "the output of {command:?}");
            let differ: Vec<_> = flat.0.iter().filter(|(key, counts)| sites.get(key) != Some(counts)).take(5).collect();
            assert!(sites == &flat.0, "the sites of {command:?}: {} and {}, {differ:?}", sites.len(), flat.0.len());
            assert!(pages == &flat.1, "the pages of {command:?}");
            assert_eq!(instructions, &flat.2, "executed instructions of {command:?}");
        }
    }
}
