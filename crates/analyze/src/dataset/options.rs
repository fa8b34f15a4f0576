//! What to read of a profile.

use crate::dataset::source::{LoadError, Only};
use crate::facts::filter::Filter;
use numalens_profile::Profile;
use numalens_profile::tables::Process;

/// What to read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Only processes with these kernel numbers; empty: all.
    pub pids: Vec<u32>,
    /// Only a part of what they did.
    pub filter: Filter,
}

impl Options {
    /// Whether a profile has what is asked for.
    ///
    /// # Errors
    /// A process is not in it; it is damaged.
    pub fn check(&self, profile: &Profile) -> Result<(), LoadError> {
        if !self.pids.is_empty() {
            Only::new(&profile.rows::<Process>()?, &self.pids)?;
        }
        Ok(())
    }
}
