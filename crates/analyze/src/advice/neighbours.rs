//! Which variable a page of several is about.
//!
//! A page of global variables is one target, named after the variable that was touched first: often one that the
//! runtime checks at the start. What matters is the variable that the busy instructions access. Which that is, the
//! accesses tell that were looked at one by one; each stands for its instruction's part of all accesses, since few are
//! looked at and instructions are counted exactly.

use crate::dataset::Dataset;
use crate::facts::objects::pages_of;
use crate::model::report::Location;
use numalens_profile::ids::{ObjectId, Page, SiteId};
use numalens_profile::tables::Object;
use numalens_profile::words::ObjectKind;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// A variable counts as the one that a page is about from so much of what is known of the page's accesses on.
const MOST: f64 = 0.5;
/// Of the page's accesses so much must be of instructions of which some were looked at.
const KNOWN: f64 = 0.25;
const PAGE: u64 = Page::BYTES;

/// Accesses of global variables, by instruction.
pub struct Neighbours<'a> {
    dataset: &'a Dataset,
    accesses: FxHashMap<ObjectId, Vec<(SiteId, f64)>>,
    /// Accesses of the line with the most, and an instruction of it: found when it is first asked for.
    hottest: OnceLock<Option<(u64, SiteId)>>,
}

/// What is known of a page of variables; of other memory nothing.
#[derive(Clone, Copy, Default)]
pub struct PageOfVariables<'a> {
    /// The variable with most of its accesses.
    pub busiest: Option<&'a Object>,
    /// The program's instruction that accesses that most, or one of the line that most accesses to the page must be of.
    pub site: Option<SiteId>,
    /// There are several, the line is known, and nobody knows which of them that accesses.
    pub is_any_of_several: bool,
}

impl<'a> Neighbours<'a> {
    /// Those of a recording.
    pub fn of(dataset: &'a Dataset) -> Self {
        let mut counted: FxHashMap<SiteId, u64> = FxHashMap::default();
        for ((site, _), tally) in dataset.facts.sites.by_site() {
            *counted.entry(site).or_default() += tally.accesses();
        }
        let mut seen: FxHashMap<SiteId, u64> = FxHashMap::default();
        for ((site, ..), tally) in &dataset.facts.uses.0 {
            *seen.entry(*site).or_default() += tally.accesses();
        }
        let mut accesses: FxHashMap<ObjectId, Vec<(SiteId, f64)>> = FxHashMap::default();
        for ((site, object, _), tally) in &dataset.facts.uses.0 {
            let of_global =
                object.filter(|id| dataset.memory.objects.get(id).is_some_and(|row| row.kind == ObjectKind::Global));
            let (Some(object), Some(all)) = (of_global, counted.get(site)) else { continue };
            let part = tally.accesses() as f64 / seen[site].max(1) as f64;
            accesses.entry(object).or_default().push((*site, *all as f64 * part));
        }
        Neighbours { dataset, accesses, hottest: OnceLock::new() }
    }

    /// Of the pages of a small variable, which have so many accesses.
    pub fn page(&self, example: Option<&Object>, accesses: f64) -> PageOfVariables<'a> {
        let Some((example, is_beside)) = example.and_then(|example| Some((example, beside(example)?))) else {
            return PageOfVariables::default();
        };
        let (busiest, site) = match self.busiest(&is_beside, accesses) {
            Some((object, site)) => (Some(object), site),
            None => (None, None),
        };
        let site = site.or_else(|| self.dominant(accesses));
        let is_other = |row: &&Object| row.kind == ObjectKind::Global && row.object != example.object;
        let is_any_of_several =
            busiest.is_none() && site.is_some() && self.dataset.memory.objects.values().filter(is_other).any(is_beside);
        PageOfVariables { busiest, site, is_any_of_several }
    }

    /// An instruction of the line that most of a page's accesses must be of, as both have nearly all of the program's.
    fn dominant(&self, of_page: f64) -> Option<SiteId> {
        let all = self.dataset.facts.total().accesses() as f64;
        let (accesses, site) = (*self.hottest.get_or_init(|| hottest_line(self.dataset)))?;
        (accesses as f64 + of_page > all * (1.0 + MOST)).then_some(site)
    }

    /// Of the variables on some pages that with most of their accesses, and the instruction that accesses it most.
    fn busiest(&self, is_beside: impl Fn(&Object) -> bool, of_page: f64) -> Option<(&'a Object, Option<SiteId>)> {
        let mut beside: Vec<_> = self
            .accesses
            .iter()
            .filter_map(|(id, sites)| {
                let object = self.dataset.memory.objects.get(id).filter(|object| is_beside(object))?;
                Some((object, sites, sites.iter().map(|(_, n)| n).sum::<f64>()))
            })
            .collect();
        beside.sort_by(|(a, _, one), (b, _, other)| other.total_cmp(one).then(a.base.cmp(&b.base)));
        let all: f64 = beside.iter().map(|(.., n)| n).sum();
        let (object, sites, most) = beside.first()?;
        if *most <= all * MOST || all < of_page * KNOWN {
            return None;
        }
        let mut by_site: BTreeMap<SiteId, f64> = BTreeMap::new();
        for (site, n) in sites.iter().filter(|(site, _)| self.dataset.code.own_frame(*site).is_some()) {
            *by_site.entry(*site).or_default() += n;
        }
        let site = by_site.into_iter().max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(site, _)| site);
        Some((object, site))
    }
}

/// Whether another object has a page of a small variable; none: it is no such.
fn beside(example: &Object) -> Option<impl Fn(&Object) -> bool> {
    let (process, own) = (example.process, pages_of(example));
    (example.kind == ObjectKind::Global && example.size <= PAGE).then_some(move |object: &Object| {
        let its = pages_of(object);
        object.process == process && its.start() <= own.end() && its.end() >= own.start()
    })
}

/// Accesses of the line with the most, and an instruction of it.
fn hottest_line(dataset: &Dataset) -> Option<(u64, SiteId)> {
    let mut lines: BTreeMap<Location, (u64, SiteId)> = BTreeMap::new();
    for ((site, _), tally) in dataset.facts.sites.by_site() {
        if let Some(place) = dataset.code.own_frame(site) {
            let line = lines.entry(place.location).or_insert((0, site));
            *line = (line.0.saturating_add(tally.accesses()), line.1.min(site));
        }
    }
    lines.into_values().max_by_key(|&(n, site)| (n, Reverse(site)))
}
