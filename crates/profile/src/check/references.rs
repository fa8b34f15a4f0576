//! Ids and what refers to them.

use super::{Checked, Failures, Found, each_row};
use crate::error::Error;
use crate::ids::*;
use crate::read::Profile;
use crate::row::Row;
use crate::tables::*;
use rustc_hash::{FxHashMap, FxHashSet};

/// The ids of a table.
#[derive(Default)]
struct Ids {
    table: &'static str,
    known: FxHashSet<u32>,
    rows: u64,
    /// One that is there twice.
    double: Option<u32>,
}

impl Ids {
    fn of<T: Row>(profile: &Profile, column: &str, id: fn(&T) -> u32) -> Result<Ids, Error> {
        let ids = profile.fold(
            &[column],
            Vec::new,
            |ids: &mut Vec<u32>, row: T| ids.push(id(&row)),
            |mut left, mut right| {
                left.append(&mut right);
                left
            },
        )?;
        let mut known = FxHashSet::default();
        let double = ids.iter().copied().filter(|id| !known.insert(*id)).min();
        Ok(Ids { table: T::TABLE, known, rows: ids.len() as u64, double })
    }

    fn has(&self, id: u32) -> bool {
        self.known.contains(&id)
    }

    fn fault(&self) -> Option<(&'static str, String)> {
        if let Some(double) = self.double {
            return Some((self.table, format!("id {double} is there twice")));
        }
        let outside = self.known.iter().copied().filter(|&id| u64::from(id) >= self.rows).max()?;
        let hole = (0..=outside).find(|id| !self.known.contains(id))?;
        Some((self.table, format!("id {hole} is missing: {} rows have ids up to {outside}", self.rows)))
    }
}

/// The ids of all dimensions.
pub(super) struct Dimensions {
    processes: Ids,
    threads: Ids,
    modules: Ids,
    functions: Ids,
    sites: Ids,
    stacks: Ids,
    objects: Ids,
    nodes: Ids,
    owner: FxHashMap<ThreadId, ProcessId>,
}

impl Dimensions {
    pub(super) fn read(profile: &Profile) -> Result<Self, Error> {
        Ok(Dimensions {
            processes: Ids::of(profile, "process", |row: &Process| row.process.0)?,
            threads: Ids::of(profile, "thread", |row: &Thread| row.thread.0)?,
            modules: Ids::of(profile, "module", |row: &Module| row.module.0)?,
            functions: Ids::of(profile, "function", |row: &Function| row.function.0)?,
            sites: Ids::of(profile, "site", |row: &Site| row.site.0)?,
            stacks: Ids::of(profile, "stack", |row: &Stack| row.stack.0)?,
            objects: Ids::of(profile, "object", |row: &Object| row.object.0)?,
            nodes: Ids::of(profile, "node", |row: &MachineNode| u32::from(row.node.0))?,
            owner: profile.rows::<Thread>()?.into_iter().map(|row| (row.thread, row.process)).collect(),
        })
    }
}

pub(super) fn dense(checked: &Checked<'_>) -> Found {
    let Dimensions { processes, threads, modules, functions, sites, stacks, objects, .. } = &checked.dimensions;
    Ok([processes, threads, modules, functions, sites, stacks, objects].into_iter().filter_map(Ids::fault).collect())
}

/// Reports rows whose named columns hold ids that `known` does not have.
fn refer<T: Row, const N: usize>(
    profile: &Profile,
    columns: [(&'static str, &Ids); N],
    ids: fn(&T) -> [Option<u32>; N],
) -> Result<Option<(&'static str, String)>, Error> {
    each_row(profile, &columns.map(|(name, _)| name), &|row: &T| {
        columns.iter().zip(ids(row)).find_map(|((name, known), id)| {
            id.filter(|id| !known.has(*id)).map(|id| format!("{name} {id} is not in table {}", known.table))
        })
    })
}

/// A column of ids, and the ids that it may have.
type Column<'a> = (&'static str, &'a Ids);

/// Columns that several tables have.
struct Columns<'a> {
    process: Column<'a>,
    thread: Column<'a>,
    site: Column<'a>,
    stack: Column<'a>,
    module: Column<'a>,
    object: Column<'a>,
    node: Column<'a>,
    home: Column<'a>,
}

impl Dimensions {
    fn columns(&self) -> Columns<'_> {
        Columns {
            process: ("process", &self.processes),
            thread: ("thread", &self.threads),
            site: ("site", &self.sites),
            stack: ("stack", &self.stacks),
            module: ("module", &self.modules),
            object: ("object", &self.objects),
            node: ("node", &self.nodes),
            home: ("home", &self.nodes),
        }
    }
}

pub(super) fn exist(checked: &Checked<'_>) -> Found {
    let mut found = of_dimensions(checked)?;
    found.extend(of_accesses(checked)?);
    found.extend(of_events(checked)?);
    found.extend(of_sums(checked)?);
    Ok(found)
}

/// Who ran, and code.
fn of_dimensions(checked: &Checked<'_>) -> Found {
    let (profile, d) = (checked.profile, &checked.dimensions);
    let Columns { process, thread, site, module, node, .. } = d.columns();
    let found = [
        refer(profile, [("parent", &d.processes)], |row: &Process| [row.parent.map(|id| id.0)])?,
        refer(profile, [process], |row: &Thread| [Some(row.process.0)])?,
        refer(profile, [process, thread, node], |row: &Placement| {
            [Some(row.process.0), Some(row.thread.0), row.node.map(|id| id.0.into())]
        })?,
        refer(profile, [process, module], |row: &Mapping| [Some(row.process.0), row.module.map(|id| id.0)])?,
        refer(profile, [module], |row: &Site| [row.module.map(|id| id.0)])?,
        refer(profile, [site, ("function", &d.functions)], |row: &Frame| [Some(row.site.0), Some(row.function.0)])?,
        refer(profile, [module], |row: &Function| [row.module.map(|id| id.0)])?,
        refer(profile, [("parent", &d.stacks), site], |row: &Stack| [row.parent.map(|id| id.0), Some(row.site.0)])?,
    ];
    Ok(found.into_iter().flatten().collect())
}

/// Sums of accesses.
fn of_accesses(checked: &Checked<'_>) -> Found {
    let (profile, d) = (checked.profile, &checked.dimensions);
    let Columns { process, thread, site, object, node, home, .. } = d.columns();
    let found = [
        refer(profile, [process, thread, node, home], |row: &PageAccess| {
            [Some(row.process.0), Some(row.thread.0), row.node.map(|id| id.0.into()), row.home.map(|id| id.0.into())]
        })?,
        refer(profile, [process, thread, site, node, home], |row: &SiteAccess| {
            [
                Some(row.process.0),
                Some(row.thread.0),
                Some(row.site.0),
                row.node.map(|id| id.0.into()),
                row.home.map(|id| id.0.into()),
            ]
        })?,
        refer(profile, [process, thread, site, object, node, home], |row: &ObjectAccess| {
            [
                Some(row.process.0),
                Some(row.thread.0),
                row.site.map(|id| id.0),
                Some(row.object.0),
                row.node.map(|id| id.0.into()),
                row.home.map(|id| id.0.into()),
            ]
        })?,
        refer(profile, [process, thread, site, node, home], |row: &SiteMiss| {
            [
                Some(row.process.0),
                Some(row.thread.0),
                Some(row.site.0),
                row.node.map(|id| id.0.into()),
                row.home.map(|id| id.0.into()),
            ]
        })?,
        refer(profile, [process, thread, node, home], |row: &PageMiss| {
            [Some(row.process.0), Some(row.thread.0), row.node.map(|id| id.0.into()), row.home.map(|id| id.0.into())]
        })?,
        refer(profile, [process, thread, object], |row: &CacheLine| {
            [Some(row.process.0), Some(row.thread.0), row.object.map(|id| id.0)]
        })?,
        refer(profile, [process, thread, ("other", &d.threads)], |row: &LineCommunication| {
            [Some(row.process.0), Some(row.thread.0), Some(row.other.0)]
        })?,
        refer(profile, [process], |row: &PageRegion| [Some(row.process.0)])?,
        refer(profile, [site], |row: &WaitingSite| [Some(row.site.0)])?,
        refer(profile, [process, object], |row: &ObjectBound| [Some(row.process.0), Some(row.object.0)])?,
        refer(profile, [process, thread, node, home], |row: &NodeAccess| {
            [Some(row.process.0), Some(row.thread.0), row.node.map(|id| id.0.into()), row.home.map(|id| id.0.into())]
        })?,
        refer(profile, [process, thread, site, object], |row: &ClassSum| {
            [Some(row.process.0), row.thread.map(|id| id.0), row.site.map(|id| id.0), row.object.map(|id| id.0)]
        })?,
    ];
    Ok(found.into_iter().flatten().collect())
}

/// Sums that are written beside facts.
fn of_sums(checked: &Checked<'_>) -> Found {
    let profile = checked.profile;
    let Columns { process, thread, site, node, home, .. } = checked.dimensions.columns();
    let (other, other_node) = (("other", thread.1), ("other_node", node.1));
    let found = [
        refer(profile, [thread, node, home], |row: &PageSum| {
            [Some(row.thread.0), row.node.map(|id| id.0.into()), row.home.map(|id| id.0.into())]
        })?,
        refer(profile, [process, node], |row: &TargetPart| [Some(row.process.0), Some(row.node.0.into())])?,
        refer(profile, [thread, node, other, other_node], |row: &ThreadPair| {
            [
                Some(row.thread.0),
                row.node.map(|id| id.0.into()),
                Some(row.other.0),
                row.other_node.map(|id| id.0.into()),
            ]
        })?,
        refer(profile, [process], |row: &CachedPage| [Some(row.process.0)])?,
        refer(profile, [node], |row: &MainUser| [Some(row.node.0.into())])?,
        refer(profile, [process, node, home], |row: &NodePage| {
            [Some(row.process.0), row.node.map(|id| id.0.into()), row.home.map(|id| id.0.into())]
        })?,
        refer(profile, [site], |row: &SummedWait| [Some(row.site.0)])?,
    ];
    Ok(found.into_iter().flatten().collect())
}

/// Single accesses, pages, objects, and what happened when.
fn of_events(checked: &Checked<'_>) -> Found {
    let profile = checked.profile;
    let Columns { process, thread, site, stack, module, object, node, home, .. } = checked.dimensions.columns();
    let found = [
        refer(profile, [process, thread, site, stack, object, node, home], |row: &Sample| {
            [
                Some(row.process.0),
                Some(row.thread.0),
                Some(row.site.0),
                row.stack.map(|id| id.0),
                row.object.map(|id| id.0),
                row.node.map(|id| id.0.into()),
                row.home.map(|id| id.0.into()),
            ]
        })?,
        refer(profile, [process, thread, node, module, home], |row: &CodeFetch| {
            [
                Some(row.process.0),
                Some(row.thread.0),
                row.node.map(|id| id.0.into()),
                row.module.map(|id| id.0),
                row.home.map(|id| id.0.into()),
            ]
        })?,
        refer(profile, [process, home, thread, site, stack, object], |row: &PlacedPages| {
            [
                Some(row.process.0),
                row.home.map(|id| id.0.into()),
                row.thread.map(|id| id.0),
                row.site.map(|id| id.0),
                row.stack.map(|id| id.0),
                row.object.map(|id| id.0),
            ]
        })?,
        refer(profile, [process, site, stack, thread], |row: &Object| {
            [Some(row.process.0), row.site.map(|id| id.0), row.stack.map(|id| id.0), row.thread.map(|id| id.0)]
        })?,
        refer(profile, [process, thread, object], |row: &Allocation| {
            [Some(row.process.0), Some(row.thread.0), row.object.map(|id| id.0)]
        })?,
        refer(profile, [process, thread, node], |row: &Collection| {
            [Some(row.process.0), row.thread.map(|id| id.0), row.node.map(|id| id.0.into())]
        })?,
        refer(profile, [process, node, home], |row: &ProcessedObjects| {
            [Some(row.process.0), row.node.map(|id| id.0.into()), row.home.map(|id| id.0.into())]
        })?,
        refer(profile, [process, thread, site], |row: &Phase| {
            [Some(row.process.0), row.thread.map(|id| id.0), row.site.map(|id| id.0)]
        })?,
    ];
    Ok(found.into_iter().flatten().collect())
}

/// Threads that stand beside another process than their own.
pub(super) fn owners(checked: &Checked<'_>) -> Found {
    let owner = &checked.dimensions.owner;
    // A thread that does not exist is another invariant's affair.
    let foreign = |process: ProcessId, thread: ThreadId| {
        let of = owner.get(&thread).filter(|&&of| of != process)?;
        Some(format!("thread {thread} stands in a row of process {process}, but belongs to process {of}"))
    };
    let (profile, columns) = (checked.profile, &["process", "thread"]);
    let found = [
        each_row(profile, columns, &|row: &Placement| foreign(row.process, row.thread))?,
        each_row(profile, columns, &|row: &PageAccess| foreign(row.process, row.thread))?,
        each_row(profile, columns, &|row: &SiteAccess| foreign(row.process, row.thread))?,
        each_row(profile, columns, &|row: &ObjectAccess| foreign(row.process, row.thread))?,
        each_row(profile, columns, &|row: &SiteMiss| foreign(row.process, row.thread))?,
        each_row(profile, columns, &|row: &PageMiss| foreign(row.process, row.thread))?,
        each_row(profile, columns, &|row: &CacheLine| foreign(row.process, row.thread))?,
        each_row(profile, &["process", "thread", "other"], &|row: &LineCommunication| {
            foreign(row.process, row.thread).or_else(|| foreign(row.process, row.other))
        })?,
        each_row(profile, columns, &|row: &NodeAccess| foreign(row.process, row.thread))?,
        each_row(profile, columns, &|row: &ClassSum| row.thread.and_then(|thread| foreign(row.process, thread)))?,
        each_row(profile, columns, &|row: &Sample| foreign(row.process, row.thread))?,
        each_row(profile, columns, &|row: &CodeFetch| foreign(row.process, row.thread))?,
        each_row(profile, columns, &|row: &Allocation| foreign(row.process, row.thread))?,
        each_row(profile, columns, &|row: &Collection| row.thread.and_then(|thread| foreign(row.process, thread)))?,
        each_row(profile, columns, &|row: &Phase| row.thread.and_then(|thread| foreign(row.process, thread)))?,
    ];
    Ok(found.into_iter().flatten().collect())
}

/// A parent has a smaller id than its children, which leaves no way around in a circle.
pub(super) fn stacks(checked: &Checked<'_>) -> Found {
    let found = each_row(checked.profile, &["stack", "parent"], &|row: &Stack| {
        row.parent
            .filter(|&parent| parent >= row.stack)
            .map(|parent| format!("stack {} has parent {parent}, which is not before it", row.stack))
    })?;
    Ok(found.into_iter().collect())
}

/// Depths of a site's frames count from 0 without holes.
pub(super) fn frames(checked: &Checked<'_>) -> Found {
    let mut depths: Vec<(SiteId, u32)> =
        checked.profile.rows::<Frame>()?.into_iter().map(|row| (row.site, row.depth)).collect();
    depths.sort_unstable();
    let (mut failures, mut last) = (Failures::default(), None);
    for (site, depth) in depths {
        let expected =
            last.filter(|&(before, _)| before == site).map_or(0, |(_, depth): (SiteId, u32)| depth.saturating_add(1));
        failures.add(
            (depth != expected)
                .then(|| format!("site {site} has a frame of depth {depth} where depth {expected} should follow")),
        );
        last = Some((site, depth));
    }
    Ok(failures.found(Frame::TABLE).into_iter().collect())
}
