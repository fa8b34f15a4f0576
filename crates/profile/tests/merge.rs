//! Several profiles become one.

use numalens_profile::ids::*;
use numalens_profile::tables::*;
use numalens_profile::testing::Synthetic;
use numalens_profile::{Engine, Error, Profile, Row, Visitor, check, merge, pack_opened, together};
use numalens_topology::NodeId;
use std::path::Path;

fn written(profile: &Synthetic, folder: &Path, name: &str) -> Profile {
    Profile::open(&profile.write(&folder.join(name)).unwrap()).unwrap()
}

/// The merged profile. Those that are read together, where they are, have the same rows.
fn merged(profiles: &[Profile], folder: &Path) -> Profile {
    let merged = Profile::open(&merge(profiles, &folder.join("merged.numalens"), false).unwrap()).unwrap();
    assert_eq!(check(&merged).unwrap(), []);
    if profiles.iter().all(|profile| profile.has_column::<PageAccess>("node")) {
        let together = together(profiles).unwrap();
        assert_eq!(together.meta, merged.meta);
        visit(&mut Compare(&together, &merged)).unwrap();
    }
    merged
}

/// Compares all tables of two profiles, but for what they say of their files.
struct Compare<'a>(&'a Profile, &'a Profile);

impl Visitor for Compare<'_> {
    fn table<T: Row>(&mut self) -> Result<(), Error> {
        if T::TABLE != MetaEntry::TABLE {
            assert_eq!(self.0.rows::<T>()?, self.1.rows::<T>()?, "{}", T::TABLE);
        }
        Ok(())
    }
}

/// The example with its sites, functions and modules in another order, as another rank may meet them, and another bin
/// width.
fn other_rank() -> Synthetic {
    let mut rank = Synthetic::example();
    let last = rank.sites.len() as u32 - 1;
    let turned = |site: SiteId| SiteId(last - site.0);
    rank.sites.iter_mut().for_each(|row| row.site = turned(row.site));
    rank.frames.iter_mut().for_each(|row| row.site = turned(row.site));
    rank.stacks.iter_mut().for_each(|row| row.site = turned(row.site));
    rank.site_accesses.iter_mut().for_each(|row| row.site = turned(row.site));
    rank.samples.iter_mut().for_each(|row| row.site = turned(row.site));
    rank.object_accesses.iter_mut().for_each(|row| row.site = row.site.map(turned));
    rank.pages.iter_mut().for_each(|row| row.site = row.site.map(turned));
    rank.objects.iter_mut().for_each(|row| row.site = row.site.map(turned));
    rank
}

fn sums(profile: &Profile) -> (u64, u64) {
    let rows = profile.rows::<SiteAccess>().unwrap();
    (rows.iter().map(|row| row.reads * row.period).sum(), rows.iter().map(|row| row.writes * row.period).sum())
}

#[test]
fn facts_add_up_and_code_is_shared() {
    let folder = tempfile::tempdir().unwrap();
    let one = written(&Synthetic::example(), folder.path(), "one.numalens");
    let two = written(&other_rank(), folder.path(), "two.numalens");
    let (reads, writes) = sums(&one);
    let count = |profile: &Profile| {
        (profile.count::<Thread>().unwrap(), profile.count::<Site>().unwrap(), profile.count::<Frame>().unwrap())
    };
    let (threads, sites, frames) = count(&one);
    let stacks = one.count::<Stack>().unwrap();
    let both = merged(&[one, two], folder.path());
    assert_eq!(sums(&both), (2 * reads, 2 * writes));
    assert_eq!(count(&both), (2 * threads, sites, frames));
    assert_eq!(both.count::<Stack>().unwrap(), 2 * stacks);
    // Each site has twice the accesses that it had in one.
    let of_site = |profile: &Profile, site: &Site| -> u64 {
        let known = profile.rows::<Site>().unwrap();
        let id = known.iter().find(|row| row.address == site.address).unwrap().site;
        profile
            .rows::<SiteAccess>()
            .unwrap()
            .iter()
            .filter(|row| row.site == id)
            .map(|row| row.reads + row.writes)
            .sum()
    };
    let one = Profile::open(&folder.path().join("one.numalens")).unwrap();
    for site in one.rows::<Site>().unwrap() {
        assert_eq!(of_site(&both, &site), 2 * of_site(&one, &site), "{site:?}");
    }
    assert!(both.meta.notes.iter().any(|note| note.contains("2 recordings in one")), "{:?}", both.meta.notes);
}

#[test]
fn code_made_at_run_time_is_nobody_elses() {
    let folder = tempfile::tempdir().unwrap();
    let mut jit = Synthetic::example();
    jit.modules[0].path = format!("{PERF_MAP}1");
    let one = written(&jit, folder.path(), "one.numalens");
    let two = written(&jit, folder.path(), "two.numalens");
    let (modules, sites) = (one.count::<Module>().unwrap(), one.rows::<Site>().unwrap());
    let own = sites.iter().filter(|site| site.module == Some(ModuleId(0))).count() as u64;
    let both = merged(&[one, two], folder.path());
    assert_eq!(both.count::<Module>().unwrap(), modules + 1);
    assert_eq!(both.count::<Site>().unwrap(), sites.len() as u64 + own);
}

#[test]
fn the_narrowest_bins_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut wide = Synthetic::example();
    wide.meta.bin_ns *= 4;
    wide.meta.duration_ns *= 4;
    let latest = wide.page_accesses.iter().map(|row| row.bin.0).max().unwrap();
    let narrow = Synthetic::example();
    let width = narrow.meta.bin_ns;
    let one = written(&wide, folder.path(), "one.numalens");
    let two = written(&narrow, folder.path(), "two.numalens");
    let both = together(&[one, two]).unwrap();
    assert_eq!(both.meta.bin_ns, width);
    assert_eq!(both.rows::<PageAccess>().unwrap().iter().map(|row| row.bin.0).max(), Some(4 * latest));
    assert!(both.meta.notes.iter().any(|note| note.contains("different widths")));
}

/// What is known of row groups is known of the ids that their rows get.
#[test]
fn only_row_groups_that_may_have_a_thread_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let one = written(&Synthetic::example(), folder.path(), "one.numalens");
    let two = written(&other_rank(), folder.path(), "two.numalens");
    let threads = one.count::<Thread>().unwrap();
    let both = together(&[one, two]).unwrap();
    let rows = both
        .fold_some(
            &["thread", "site"],
            &|rows| rows.of("thread").is_none_or(|(least, most)| least >= threads && most >= threads),
            Vec::new,
            |all: &mut Vec<SiteAccess>, row| all.push(row),
            |left, right| [left, right].concat(),
        )
        .unwrap();
    assert_eq!(rows.len(), other_rank().site_accesses.len());
    assert!(rows.iter().all(|row| u64::from(row.thread.0) >= threads && row.reads == 0));
}

#[test]
fn closed_profiles_take_no_files_and_notice_what_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let mut profiles: Vec<Profile> = (0..3).map(|_| written_again(&Synthetic::example(), folder.path())).collect();
    let path = profiles[1].path().join("site_accesses.parquet");
    let packed = folder.path().join("packed.zip");
    pack_opened(&profiles[2], &packed, false).unwrap();
    profiles.push(Profile::open(&packed).unwrap());
    let profiles: Vec<Profile> = profiles.into_iter().map(|profile| profile.closed().unwrap()).collect();
    let all = together(&profiles).unwrap();
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| entry.ok()?.path().read_link().ok());
    assert_eq!(open().filter(|file| file.starts_with(folder.path())).count(), 0);
    assert_eq!(all.rows::<SiteAccess>().unwrap().len(), 4 * Synthetic::example().site_accesses.len());
    let error = pack_opened(&all, &folder.path().join("all.zip"), false).unwrap_err().to_string();
    assert!(error.contains("must be merged"), "{error}");
    let copy = path.with_extension("copy");
    std::fs::copy(&path, &copy).unwrap();
    std::fs::rename(&copy, &path).unwrap();
    let error = all.rows::<SiteAccess>().unwrap_err().to_string();
    assert!(error.contains("site_accesses.parquet") && error.contains("replaced"), "{error}");
}

/// What older versions did not tell is filled in, as far as the pinning log tells it.
#[test]
fn page_accesses_of_older_versions_get_their_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let mut older = Synthetic::example();
    older.older = true;
    // The last thread goes to another place, within a bin.
    let last = older.placements.last().unwrap().clone();
    older.placements.push(Placement { time_ns: last.time_ns + 1, node: Some(NodeId(0)), ..last });
    let one = written(&older, folder.path(), "one.numalens");
    assert_eq!(check(&one).unwrap(), []);
    assert!(!one.has_column::<PageAccess>("node") && one.has_column::<SiteAccess>("node"));
    let two = written(&Synthetic::example(), folder.path(), "two.numalens");
    let both = merged(&[one, two], folder.path());
    assert!(both.has_column::<PageAccess>("node"));
    let nodes = |rows: &[PageAccess]| rows.iter().map(|row| row.node).collect::<Vec<_>>();
    let told = nodes(&Synthetic::example().page_accesses);
    let rows = both.rows::<PageAccess>().unwrap();
    let (filled, kept) = rows.split_at(told.len());
    assert_eq!(nodes(kept), told);
    for (row, told) in filled.iter().zip(told) {
        assert_eq!(row.node, if row.thread == last.thread { Some(NodeId(0)) } else { told }, "{row:?}");
    }
    assert!(both.meta.notes.iter().any(|note| note.contains("do not tell the node")), "{:?}", both.meta.notes);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let plain = || written_again(&Synthetic::example(), folder.path());
    let refused = |change: &dyn Fn(&mut Synthetic)| {
        let mut other = Synthetic::example();
        change(&mut other);
        let other = written_again(&other, folder.path());
        let path = folder.path().join("merged.numalens");
        let error = merge(&[plain(), other], &path, false).unwrap_err().to_string();
        assert!(!path.exists(), "half a profile is no profile");
        let _ = std::fs::remove_dir_all(path.with_extension("numalens.partial"));
        error
    };
    assert!(refused(&|other| other.meta.engine = Engine::Exact).contains("(exact), the other"));
    assert!(
        refused(&|other| other.meta.unit_note = "those relative to the stack".to_owned()).contains("one counts those")
    );
    assert!(refused(&|other| other.machine[1].distances = "16 10 99 28".to_owned()).contains("different machines"));
    assert!(refused(&|other| other.site_accesses[0].site = SiteId(77)).contains("numalens check"));
    assert!(merge(&[], &folder.path().join("none.numalens"), false).unwrap_err().to_string().contains("there is none"));
}

fn written_again(profile: &Synthetic, folder: &Path) -> Profile {
    let name = format!("{}.numalens", std::fs::read_dir(folder).unwrap().count());
    written(profile, folder, &name)
}

#[test]
fn every_table_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let one = written(&Synthetic::example(), folder.path(), "one.numalens");
    let rows = one.total_rows() - one.count::<MetaEntry>().unwrap();
    let alone = merged(&[one], folder.path());
    assert_eq!(alone.total_rows() - alone.count::<MetaEntry>().unwrap(), rows);
}

/// Of one recording the sums stand for all facts; of two, for those of one only.
#[test]
fn several_profiles_have_no_sums_of_one() {
    let scratch = tempfile::tempdir().unwrap();
    let one = written(&Synthetic::example(), scratch.path(), "0.numalens");
    let users = vec![MainUser { node: NodeId(0), own: 1, accesses: 1 }];
    let pages = vec![NodePage {
        process: ProcessId(0),
        page: Page(1),
        node: Some(NodeId(0)),
        home: Some(NodeId(0)),
        reads: 1,
        writes: 0,
    }];
    one.replace(users).unwrap();
    one.replace(pages).unwrap();
    let profiles = [Profile::open(one.path()).unwrap(), written(&Synthetic::example(), scratch.path(), "1.numalens")];
    assert_eq!(profiles[0].count::<MainUser>().unwrap(), 1);
    let merged = merged(&profiles, scratch.path());
    assert_eq!(merged.count::<MainUser>().unwrap() + merged.count::<NodePage>().unwrap(), 0);
}
