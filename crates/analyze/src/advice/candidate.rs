//! A finding before it is ranked, and what it takes to be one.

use crate::facts::code::OwnPlace;
use crate::model::patterns::{Pattern, Remedy};
use crate::model::report::{Field, Member};
use numalens_simulate::Traffic;

/// A finding before it is ranked.
pub(super) struct Candidate {
    pub(super) pattern: Pattern,
    pub(super) remedy: Remedy,
    pub(super) place: Option<OwnPlace>,
    pub(super) object: Vec<Field>,
    pub(super) evidence: Vec<Field>,
    pub(super) name: Option<String>,
    /// Where several targets have one cause: all of them.
    pub(super) members: Vec<Member>,
    pub(super) effect: Effect,
}

/// What a remedy changes.
pub(super) enum Effect {
    /// Traffic: from, to; and to, where the remedy itself costs as much as it can. None: then nothing may be gained.
    Traffic { before: Traffic, after: Traffic, worst: Option<Traffic> },
    /// Percent of the memory time, of so many samples or exact counts: estimate, low, high.
    Time { percent: f64, low: f64, high: f64 },
}

/// Percent of the memory time below which nobody should change a program.
pub(crate) const LEAST_GAIN: f64 = 2.0;
/// Percent of all accesses that a finding must be about, at the lower end of its interval.
pub(super) const LEAST_SHARE: f64 = 1.0;
/// Samples without which there is no advice at all.
pub(crate) const LEAST_SAMPLES: u64 = 40;
/// Percent of all accesses from which it is told of memory that it may lie otherwise the next time.
pub(super) const MUCH: f64 = 10.0;
