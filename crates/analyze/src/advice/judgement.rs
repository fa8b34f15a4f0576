//! A target that could be placed better: where to change that, and which object it is about.

use super::case::Case;
use super::evidence;
use super::neighbours::PageOfVariables;
use crate::dataset::usages::Usages;
use crate::facts::code::OwnPlace;
use crate::model::metrics;
use crate::model::object_group::Group;
use crate::model::patterns::{Pattern, Remedy};
use crate::model::report::{Field, Member, Value};
use numalens_profile::ids::SiteId;
use numalens_profile::tables::Object;
use numalens_profile::words::ObjectKind;
use numalens_simulate::Traffic;

/// Callers of an allocation that tell it from others.
const CALLERS: usize = 3;

/// A target that could be placed better, and how its traffic would be then.
pub(super) struct Judgement<'a> {
    pub(super) case: Case<'a>,
    pub(super) pattern: Pattern,
    pub(super) remedy: Remedy,
    pub(super) after: Traffic,
    pub(super) page: PageOfVariables<'a>,
}

impl Judgement<'_> {
    /// Of the objects that share the target's pages, the one whose lines travel.
    pub(super) fn contended_object(&self) -> Option<&Object> {
        let contended = self.case.contended.filter(|_| self.pattern == Pattern::SharedLine)?;
        let object = self.case.usages.dataset.memory.objects.get(&contended.object()?)?;
        let other = self.case.target.example.as_ref().is_none_or(|example| Group::of(example) != Group::of(object));
        other.then_some(object)
    }

    /// The object that lies on the target's pages by now.
    pub(super) fn next_object(&self) -> Option<&Object> {
        self.case.handed_on.as_ref().filter(|_| self.pattern == Pattern::HandedOn)?.next
    }

    /// The one object that it is about, in place of the target's own.
    pub(super) fn other_object(&self) -> Option<&Object> {
        self.contended_object().or(self.next_object()).or(self.busiest_neighbour())
    }

    /// The variable beside the one that was touched first, where the page is about that.
    fn busiest_neighbour(&self) -> Option<&Object> {
        let object = self.page.busiest?;
        let other = self.case.target.example.as_ref().is_none_or(|example| Group::of(example) != Group::of(object));
        other.then_some(object)
    }

    /// The object that it is about.
    pub(super) fn example(&self) -> Option<&Object> {
        // Of several variables, no name is better than that of the one which happened to be touched first.
        let own = self.case.target.example.as_ref();
        self.other_object().or(own.filter(|_| !self.page.is_any_of_several))
    }

    /// Where to change it.
    pub(super) fn place(&self) -> Option<OwnPlace> {
        let dataset = self.case.usages.dataset;
        let allocated = self.example().and_then(|o| dataset.wanted_at(o.stack, o.site));
        let first_touch = self.case.first_touch();
        let busiest = self.page.site.map(|site| dataset.code.own(site));
        // What touched a page of several variables first says nothing of this one.
        let is_of_another = self.busiest_neighbour().is_some() || self.page.is_any_of_several;
        if busiest.is_some() && is_of_another && self.case.contended.is_none() {
            return busiest;
        }
        match self.remedy {
            Remedy::SplitLine => {
                let own = |site: &SiteId| dataset.code.own_frame(*site).is_some();
                let sites = self.case.contended.map(|lines| &lines.sites).into_iter().flatten();
                let hottest = sites.filter(|(site, _)| own(site)).max_by_key(|(_, n)| **n);
                hottest.map(|(site, _)| dataset.code.own(*site)).or(busiest).or(allocated).or(first_touch)
            }
            Remedy::LocalAllocation | Remedy::ParallelInitialisation => {
                // A library that fills what it gives is not to be changed: the line that wanted it is.
                let own = |place: &Option<OwnPlace>| {
                    place.as_ref().is_some_and(|place| dataset.code.own_frame(place.site).is_some())
                };
                if own(&allocated) && !own(&first_touch) { allocated } else { first_touch.or(allocated) }
            }
            _ => allocated.or(first_touch),
        }
    }

    /// Of pages that nobody is known to have made there is no line to change.
    pub(super) fn has_place(&self) -> bool {
        self.example().is_some() || self.place().is_some()
    }

    pub(super) fn object(&self) -> Vec<Field> {
        let target = self.case.target;
        let of_own = self.other_object().map(|object| (object.size, 1));
        let (size, count) = of_own.unwrap_or((target.size, target.count));
        self.example().map_or(Vec::new(), |object| object_fields(self.case.usages, object, size, count))
    }

    pub(super) fn member(&self) -> Member {
        Member {
            place: self.place().map(|place| place.location),
            object: self.object(),
            evidence: evidence::shares(&[&self.case]),
        }
    }
}

/// What an object is.
fn object_fields(usages: &Usages, object: &Object, size: u64, count: u64) -> Vec<Field> {
    let site = usages.dataset.wanted_at(object.stack, object.site);
    let callers = |place: &OwnPlace| match object.stack {
        Some(stack) => usages.dataset.code.callers(stack, place.site, CALLERS),
        None => Vec::new(),
    };
    let called_from: Vec<Value> = site.as_ref().map(callers).unwrap_or_default().into_iter().map(Value::Text).collect();
    let via = site.as_ref().and_then(|place| place.via.clone()).filter(|_| object.kind == ObjectKind::Heap);
    let mut fields = vec![
        Field::new("kind", "kind", Value::Text(object.kind.word().to_string())),
        Field::new("name", "name", Value::Text(usages.dataset.name_of(object).to_owned())),
        Field::new("size", "size", Value::Bytes(size)),
        Field::metric(&metrics::COUNT, Value::Count(count)),
        Field::new("site", "allocated at", Value::maybe(site, |place| Value::Location(place.location))),
    ];
    fields.extend(via.map(|via| Field::new("via", "by", Value::Text(via))));
    if !called_from.is_empty() {
        fields.push(Field::new("called_from", "called from", Value::List(called_from)));
    }
    fields
}
