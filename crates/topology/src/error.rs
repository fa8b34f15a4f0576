//! What can go wrong when a machine is read or described.

use crate::NodeId;
use std::path::PathBuf;

/// Why a machine could not be had. Each message says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A file that must be there could not be read.
    #[error("cannot read {}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: std::io::Error,
    },
    /// A file was read but does not say what such a file says.
    #[error("{}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was wrong, and with which text.
        reason: String,
    },
    /// A list of CPUs or nodes that the kernel would not write.
    #[error("`{text}` is not a list of CPUs: {reason} (a list looks like 0-3,8)")]
    CpuList {
        /// The text.
        text: String,
        /// What was wrong with it.
        reason: String,
    },
    /// A `--machine` that is none of the known forms.
    #[error("unknown machine `{spec}`: {reason}")]
    Spec {
        /// What was asked for.
        spec: String,
        /// What was wrong, and which forms there are.
        reason: String,
    },
    /// A `--placement` or `--policy` that is none of the known words.
    #[error("unknown {what} `{word}`; known are {known}")]
    Word {
        /// `thread placement` or `page policy`.
        what: &'static str,
        /// What was asked for.
        word: String,
        /// The possibilities.
        known: &'static str,
    },
    /// A policy names a node that cannot hold pages.
    #[error("page policy names node {node}, which the machine {machine} {reason}; nodes with memory: {known}")]
    PolicyNode {
        /// The node.
        node: NodeId,
        /// The machine's name.
        machine: String,
        /// `does not have` or `has without memory`.
        reason: &'static str,
        /// The nodes that would do.
        known: String,
    },
    /// A machine that contradicts itself.
    #[error("the machine {machine} is not consistent: {reason}")]
    Invalid {
        /// The machine's name.
        machine: String,
        /// The first contradiction found.
        reason: String,
    },
}
