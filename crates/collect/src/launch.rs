//! Starting the target of a recording, and what every engine says of it: how it is meant, and how it ended.

mod child;
mod options;
mod outcome;
pub(crate) mod signals;

pub use child::{Child, LaunchError, Waiting, keep_files_private};
pub use options::{Demands, RecordOptions, Target};
pub(crate) use outcome::STARTING_THREADS;
pub use outcome::{Outcome, Progress, RecordError, describe};
