//! What was typed and cannot be: exit status 2, as of what the parser of the command line refuses.

use std::fmt::{self, Display, Formatter};

/// A mistake in the command line that needs more than the parser to be seen.
#[derive(Debug)]
pub struct Usage(String);

impl Display for Usage {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

impl miette::Diagnostic for Usage {}

/// The error of a command that was given what cannot be.
pub fn mistake(what: impl Display) -> miette::Report {
    Usage(what.to_string()).into()
}
