//! Datasets kept for the next question: a page of the browser asks for one section after the other of the same profile,
//! and folding millions of facts takes longer than everything that is made of them.
//!
//! Two are kept, never more: that of the whole recording, and that of the filter that was asked for last. What a
//! question needs beyond what its dataset has is read and added to it.

use crate::dataset::Dataset;
use crate::dataset::options::Options;
use crate::dataset::source::{self, Known, LoadError};
use crate::facts::fold::Need;
use crate::facts::sorted;
use crate::model::about::About;
use numalens_profile::{Error, Profile};

/// The datasets of one profile that were used last.
pub struct DatasetCache {
    /// What the whole is: it may be that of some processes.
    all: Options,
    whole: Option<Kept>,
    part: Option<Kept>,
    facts: sorted::Kept,
}

struct Kept {
    options: Options,
    /// What was read into it.
    has: Vec<Need>,
    dataset: Dataset,
}

impl DatasetCache {
    /// Of a reader who begins with these options.
    pub fn new(all: Options) -> DatasetCache {
        DatasetCache { all, whole: None, part: None, facts: sorted::Kept::default() }
    }

    /// Reads the facts of a profile, which are then kept as far as they take no more than `most` bytes. The answer is
    /// what they take. The profile's facts must stay as they are from then on.
    ///
    /// # Errors
    /// The profile cannot be read.
    pub fn keep_facts(&mut self, profile: &Profile, most: usize) -> Result<usize, Error> {
        let weight = About::new(profile.meta.clone()).weight();
        let (facts, bytes) = sorted::Kept::read(profile, weight, most)?;
        self.facts = facts;
        Ok(bytes)
    }

    /// The dataset of what `options` name, with at least what `needs` names.
    ///
    /// # Errors
    /// As [`Dataset::load`]; what is kept stays.
    pub fn dataset(&mut self, profile: &Profile, options: &Options, needs: &[Need]) -> Result<&Dataset, LoadError> {
        let DatasetCache { all, whole, part, facts } = self;
        let needs = &source::asked(profile, options, needs)?[..];
        if *options == *all {
            let known = Known { whole: None, kept: facts };
            return keep(whole, options, needs, |needs| Dataset::load_beside(profile, options, needs, known));
        }
        let beside = whole.as_ref().filter(|kept| kept.options.filter.is_empty() && kept.options.pids == options.pids);
        let known = Known { whole: beside.map(|kept| (&kept.dataset, kept.has.as_slice())), kept: facts };
        keep(part, options, needs, |needs| Dataset::load_beside(profile, options, needs, known))
    }
}

/// What is kept in a place, with at least what `needs` names: what is missing is loaded.
fn keep<'a>(
    place: &'a mut Option<Kept>,
    options: &Options,
    needs: &[Need],
    load: impl Fn(&[Need]) -> Result<Dataset, LoadError>,
) -> Result<&'a Dataset, LoadError> {
    let kept = match place.take_if(|kept| kept.options == *options) {
        Some(mut kept) => {
            // Each once: several sections need the same.
            let mut missing: Vec<Need> = Vec::new();
            for need in needs {
                if !kept.has.contains(need) && !missing.contains(need) {
                    missing.push(*need);
                }
            }
            if !missing.is_empty() {
                match load(&missing) {
                    Ok(more) => kept.dataset.take(more, &missing),
                    Err(error) => {
                        *place = Some(kept);
                        return Err(error);
                    }
                }
                kept.has.extend(missing);
            }
            kept
        }
        None => {
            // The old one's memory first.
            *place = None;
            Kept { options: options.clone(), has: needs.to_vec(), dataset: load(needs)? }
        }
    };
    Ok(&place.insert(kept).dataset)
}
