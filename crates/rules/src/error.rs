//! What can be wrong with a file of rules.

use std::ops::Range;

/// Why rules could not be read: where, what, and what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}, line {line}: {reason}")]
pub struct RulesError {
    /// The file.
    pub file: String,
    /// From 1 on.
    pub line: usize,
    /// What is wrong, and what may stand there.
    pub reason: String,
}

/// An error before its line is known.
#[derive(Debug)]
pub(crate) struct Slip {
    /// Bytes of the text; none: the whole.
    pub(crate) span: Option<Range<usize>>,
    pub(crate) reason: String,
}

impl Slip {
    pub(crate) fn new(span: Range<usize>, reason: impl Into<String>) -> Self {
        Slip { span: Some(span), reason: reason.into() }
    }

    pub(crate) fn at(self, text: &str, file: &str) -> RulesError {
        let before = self.span.map_or(0, |span| span.start).min(text.len());
        let line = text.as_bytes()[..before].iter().filter(|&&byte| byte == b'\n').count() + 1;
        RulesError { file: file.to_owned(), line, reason: self.reason }
    }
}
