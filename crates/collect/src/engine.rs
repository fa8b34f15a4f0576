//! What an engine is: it says whether it can record what is wanted, and what the profile says of that, and records it.

use crate::launch::{Demands, Outcome, Progress, RecordError, RecordOptions, Target};
use crate::session::SessionOptions;
use numalens_profile::Meta;
use numalens_topology::Machine;
use std::path::PathBuf;

/// Names the profile, once the target's pid is known; none: there is no one process.
pub type NameProfile<'a> = &'a dyn Fn(Option<i32>) -> PathBuf;

/// An engine.
pub trait Engine {
    /// Whether every access is counted, not sampled.
    fn counts(&self) -> bool;

    /// Whether it can do what is asked.
    ///
    /// # Errors
    /// What it cannot, for people.
    fn check(&self, demands: &Demands) -> Result<(), String>;

    /// Whether it has room for a machine.
    ///
    /// # Errors
    /// What that has too many of, for people.
    fn check_machine(&self, machine: &Machine) -> Result<(), String>;

    /// Says in `meta` what is counted.
    fn describe(&self, session: &SessionOptions, frequency: u64, meta: &mut Meta);

    /// Records a target into the profile that `path` names.
    ///
    /// # Errors
    /// See [`RecordError`].
    fn record(
        &self,
        target: &Target,
        options: RecordOptions,
        path: NameProfile<'_>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Outcome, RecordError>;
}
