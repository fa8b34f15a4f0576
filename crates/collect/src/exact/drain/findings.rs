//! What a recording has found of programs beside what they count.

use crate::exact::persisted::CodeNews;

/// What is said of programs in the profile, and to whoever records.
#[derive(Default)]
pub struct Findings {
    /// Programs that were found unobserved.
    pub unobserved: Vec<String>,
    /// Calls of programs that were refused, as memory of the agent's is there: each with its process.
    pub refused: Vec<String>,
    /// What agents found worth a note.
    pub notes: Vec<String>,
    /// What they say of the code that is executed.
    pub code: Vec<CodeNews>,
}
