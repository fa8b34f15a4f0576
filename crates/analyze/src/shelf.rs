//! Studies kept for the next question: a page of the browser asks for one section after the other of the same profile, and folding
//! millions of facts takes longer than everything that is made of them.
//!
//! Two are kept: that of the whole recording, and that of the filter that was asked for last. What a question needs beyond what its study has
//! is read and added to it.

use crate::load::{LoadError, Need, Options};
use crate::study::Study;
use numalens_profile::Profile;

/// The studies of one profile that were used last.
#[derive(Default)]
pub struct Shelf {
    whole: Option<Kept>,
    part: Option<Kept>,
}

struct Kept {
    options: Options,
    /// What was read into it.
    has: Vec<Need>,
    study: Study,
}

impl Shelf {
    /// The study of what `options` name, with at least what `needs` names.
    ///
    /// # Errors
    /// As [`Study::load`]; what is kept stays.
    pub fn study(&mut self, profile: &Profile, options: &Options, needs: &[Need]) -> Result<&Study, LoadError> {
        let place = if options.filter.is_empty() && options.pids.is_empty() { &mut self.whole } else { &mut self.part };
        let kept = match place.take_if(|kept| kept.options == *options) {
            Some(mut kept) => {
                let missing: Vec<Need> = needs.iter().filter(|need| !kept.has.contains(need)).copied().collect();
                if !missing.is_empty() {
                    match Study::load(profile, options, &missing) {
                        Ok(more) => kept.study.take(more, &missing),
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
                Kept { options: options.clone(), has: needs.to_vec(), study: Study::load(profile, options, needs)? }
            }
        };
        Ok(&place.insert(kept).study)
    }
}
