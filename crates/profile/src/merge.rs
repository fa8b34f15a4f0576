//! One profile of several: the ranks of an MPI program, several runs, several hosts.
//!
//! Facts add up as they are; what has to be brought together are the ids. Every profile counts its processes, threads,
//! stacks and objects from 0, so those of later profiles move up behind those of earlier ones. Code is the same in all
//! ranks: a module, site or function that an earlier profile has keeps that profile's id, so that a line is one line.
//!
//! ```text
//!   rank 0: thread 0 1 2, site 0 1 2      merged: thread 0 1 2 | 3 4, site 0 1 2 | 3
//!   rank 1: thread 0 1,   site 0 1                                         ^ rank 1's site 1;
//!                                                                            its site 0 was rank 0's 2
//! ```
//!
//! Time bins of different widths become the narrowest; what a wide bin counted stands at its beginning then.

use crate::error::Error;
use crate::meta::Meta;
use crate::pinning::PinningLog;
use crate::read::Profile;
use crate::renumbering::{ALL_COLUMNS, Renumbering};
use crate::row::{Row, Visitor};
use crate::tables::{self, *};
use crate::write::{Writer, write_whole};
use crate::{LOOKS, NODES_INFERRED};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

mod code;
mod together;

use code::Code;
pub use together::together;

/// Copies a profile's other tables, with its ids as they are in the merged one.
struct Copying<'a> {
    profile: &'a Profile,
    ids: &'a Renumbering,
    writer: &'a mut Writer,
}

/// Tables that are made anew: [`Code`] and the machine, which all profiles share, and `meta`.
const ANEW: [&str; 6] =
    [Module::TABLE, Site::TABLE, Function::TABLE, Frame::TABLE, MachineNode::TABLE, MetaEntry::TABLE];

/// Whether a table of the merged profile has the rows that the profiles have.
fn keeps_rows(table: &str) -> bool {
    !ANEW.contains(&table) && !SUMS.contains(&table)
}

impl Visitor for Copying<'_> {
    fn table<T: Row>(&mut self) -> Result<(), Error> {
        // Those have a copier of their own.
        let apart = T::TABLE == PageAccess::TABLE || !keeps_rows(T::TABLE);
        if apart { Ok(()) } else { self.copy(|_: &mut T| ()) }
    }
}

impl Copying<'_> {
    /// Page accesses. The merged table has their nodes, so they must not be empty where a profile of an older version
    /// does not tell them.
    fn page_accesses(&mut self) -> Result<(), Error> {
        if tells_nodes(self.profile) {
            return self.copy(|_: &mut PageAccess| ());
        }
        let pinning = PinningLog::new(&self.profile.rows::<Placement>()?, self.profile.meta.bin_ns);
        self.copy(|row: &mut PageAccess| row.node = pinning.at_end_of(row.thread, row.bin))
    }

    /// Copies the rows of a table, after `each` has had a look at them as they are.
    fn copy<T: Row>(&mut self, each: impl Fn(&mut T)) -> Result<(), Error> {
        for file in self.profile.files(T::TABLE).iter() {
            for group in 0..file.row_groups() {
                let mut rows: Vec<T> = Vec::new();
                file.decode(group, T::COLUMNS, |mut row: T| {
                    each(&mut row);
                    row.renumber(self.ids, ALL_COLUMNS);
                    rows.push(row);
                })?;
                self.writer.append(rows)?;
            }
        }
        Ok(())
    }
}

/// Writes one profile of several to `path`. All must have counted the same on the same machine, or on machines that are
/// alike: nodes with the same number become one.
///
/// # Errors
/// Profiles that do not go together, damage, a full disk; `path` exists and not `force`.
pub fn merge(profiles: &[Profile], path: &Path, force: bool) -> Result<PathBuf, Error> {
    let machine = common_machine(profiles)?;
    write_whole(path, force, |writer| fill(writer, profiles, machine))
}

/// The machine of profiles that go together.
///
/// # Errors
/// They do not.
fn common_machine(profiles: &[Profile]) -> Result<Vec<MachineNode>, Error> {
    let Some((first, others)) = profiles.split_first() else {
        return Err(Error::Apart { path: PathBuf::new(), why: "there is none".to_owned() });
    };
    let machine = first.rows::<MachineNode>()?;
    for other in others {
        let why = if other.meta.engine != first.meta.engine || other.meta.unit != first.meta.unit {
            format!(
                "one counts {} ({}), the other {} ({})",
                said(other.meta.unit.word()),
                other.meta.engine,
                said(first.meta.unit.word()),
                first.meta.engine
            )
        } else if other.meta.unit_note != first.meta.unit_note {
            format!("one counts {}; the other {}", other.meta.unit_note, first.meta.unit_note)
        } else if !alike(&other.rows::<MachineNode>()?, &machine) {
            format!(
                "they were recorded on different machines, {} and {}",
                other.meta.machine_name, first.meta.machine_name
            )
        } else {
            continue;
        };
        return Err(Error::Apart { path: other.path().to_owned(), why });
    }
    Ok(machine)
}

/// Width of the time bins of all of them: the narrowest.
fn narrowest_bin(profiles: &[Profile]) -> u64 {
    profiles.iter().map(|profile| profile.meta.bin_ns).filter(|&width| width > 0).min().unwrap_or(0)
}

/// All rows of all of them; what the profile that they become says of itself.
fn fill(writer: &mut Writer, profiles: &[Profile], machine: Vec<MachineNode>) -> Result<Meta, Error> {
    writer.append(machine)?;
    let bin_ns = narrowest_bin(profiles);
    let mut ids = Renumbering::default();
    let mut code = Code::default();
    for profile in profiles {
        ids.bin_ns = (profile.meta.bin_ns, bin_ns);
        let new = code.add(profile, &mut ids)?;
        writer.append(new.modules)?;
        writer.append(new.sites)?;
        writer.append(new.functions)?;
        writer.append(new.frames)?;
        let mut copying = Copying { profile, ids: &ids, writer };
        tables::visit(&mut copying)?;
        copying.page_accesses()?;
        ids.check(profile.path())?;
        ids = ids.behind(profile)?;
    }
    Ok(merged_meta(profiles, bin_ns))
}

/// Whether page accesses have the node that the thread was bound to.
fn tells_nodes(profile: &Profile) -> bool {
    profile.has_column::<PageAccess>("node")
}

/// A unit for a message: a recording that was killed early has none.
fn said(unit: &str) -> &str {
    if unit.is_empty() { "nothing" } else { unit }
}

/// Whether accesses mean the same on both: nodes, CPUs, distances, tiers. Hosts of a cluster differ a little in memory.
fn alike(left: &[MachineNode], right: &[MachineNode]) -> bool {
    let shape = |row: &MachineNode| (row.node, row.cpus.clone(), row.distances.clone(), row.tier);
    left.iter().map(shape).eq(right.iter().map(shape))
}

fn merged_meta(profiles: &[Profile], bin_ns: u64) -> Meta {
    let all = || profiles.iter().map(|profile| &profile.meta);
    let mut meta = all().next().cloned().unwrap_or_default();
    let joined = |of: fn(&Meta) -> &str| {
        let values: BTreeSet<&str> = all().map(of).filter(|value| !value.is_empty()).collect();
        values.into_iter().collect::<Vec<_>>().join(", ")
    };
    meta.host = joined(|meta| &meta.host);
    meta.exit_status = joined(|meta| &meta.exit_status);
    meta.duration_ns = all().map(|meta| meta.duration_ns).max().unwrap_or(0);
    // Of the one that was counted longest, as the duration is.
    let counted = all().any(|meta| meta.counted_ns.is_some());
    meta.counted_ns = all().map(|meta| meta.counted_ns.unwrap_or(meta.duration_ns)).max().filter(|_| counted);
    meta.bins = all()
        .map(|meta| u64::from(meta.bins).saturating_mul(meta.bin_ns.checked_div(bin_ns).unwrap_or(1)))
        .max()
        .map_or(0, |bins| bins.min(u32::MAX.into()) as u32);
    meta.bin_ns = bin_ns;
    meta.lines_wait = all().any(|meta| meta.lines_wait);
    meta.losses.clear();
    for (what, count) in all().flat_map(|meta| &meta.losses) {
        *meta.losses.entry(what.clone()).or_default() += count;
    }
    let gathered = |of: fn(&Meta) -> &Vec<String>| {
        let mut seen = BTreeSet::new();
        all().flat_map(of).filter(|text| seen.insert(*text)).cloned().collect::<Vec<_>>()
    };
    meta.coarsened = gathered(|meta| &meta.coarsened);
    meta.unobserved = gathered(|meta| &meta.unobserved);
    meta.notes = gathered(|meta| &meta.notes);
    if profiles.len() > 1 {
        // Each recording had its own.
        meta.extra.remove(LOOKS);
    }
    if !profiles.iter().all(tells_nodes) {
        meta.extra.insert(NODES_INFERRED.to_owned(), true.into());
        meta.notes.push(
            "some recordings do not tell the node of page accesses: it is the one that the thread had when the time bin ended".to_owned(),
        );
    }
    let starts: BTreeSet<&str> = all().map(|meta| meta.start_time.as_str()).collect();
    meta.notes.push(format!(
        "this is {} recordings in one, whose times all begin at 0{}",
        profiles.len(),
        if starts.len() > 1 { " although they did not start together" } else { "" }
    ));
    if all().any(|other| other.host != profiles[0].meta.host) {
        meta.notes.push("the recordings are of several hosts: a node here is that node of each of them".to_owned());
    }
    if all().any(|other| other.bin_ns != bin_ns) {
        meta.notes.push("time bins had different widths: what a wide one counted stands at its beginning".to_owned());
    }
    if all().any(|other| other.command != meta.command) {
        meta.notes.push("the recordings are of different commands".to_owned());
    }
    meta
}
