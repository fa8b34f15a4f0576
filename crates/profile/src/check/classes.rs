//! The machine, and whether access classes are what its nodes make of them.

use super::{Checked, Found, each_row};
use crate::tables::*;
use crate::words::Class;
use numalens_topology::{Machine, NodeId};

pub(super) fn machine(checked: &Checked<'_>) -> Found {
    if checked.machine.is_some() {
        return Ok(Vec::new());
    }
    let why = checked.profile.machine().err().map_or_else(String::new, |error| error.to_string());
    Ok(vec![(MachineNode::TABLE, why)])
}

/// The definition has one more input than a fact has columns: whether the page's first toucher was pinned. So two
/// classes are possible, or one.
fn wrong(machine: &Machine, node: Option<NodeId>, home: Option<NodeId>, class: Class) -> Option<String> {
    let [pinned, unpinned] = [true, false].map(|placed| Class::from(machine.locality(node, home, placed)));
    if class == pinned || class == unpinned {
        return None;
    }
    let thread = node.map_or("an unpinned thread".to_owned(), |node| format!("a thread on node {node}"));
    let page = home.map_or("pages without a home".to_owned(), |home| format!("pages on node {home}"));
    let expected =
        if pinned == unpinned { pinned.word().to_owned() } else { format!("{} or {}", pinned.word(), unpinned.word()) };
    Some(format!("accesses of {thread} to {page} are called {}, expected {expected}", class.word()))
}

pub(super) fn classes(checked: &Checked<'_>) -> Found {
    let Some(machine) = &checked.machine else { return Ok(Vec::new()) };
    let (profile, columns) = (checked.profile, &["node", "home", "class"]);
    let found = [
        each_row(profile, columns, &|row: &SiteAccess| wrong(machine, row.node, row.home, row.class))?,
        each_row(profile, columns, &|row: &SiteMiss| wrong(machine, row.node, row.home, row.class))?,
        each_row(profile, columns, &|row: &ObjectAccess| wrong(machine, row.node, row.home, row.class))?,
        each_row(profile, columns, &|row: &Sample| wrong(machine, row.node, row.home, row.class))?,
    ];
    Ok(found.into_iter().flatten().collect())
}
