//! All that a fragment's code depends on beside the program's code.

use crate::{Config, LastPage};

/// Where a fragment and its program lie, and what its numbers begin with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// Of its first instruction, and behind its last one, in the program.
    pub ip: u64,
    pub end: u64,
    pub hot: u64,
    pub cold: u64,
    pub site: u32,
    pub last_page: u32,
    pub executions: u32,
    pub exit: u32,
}

impl Place {
    /// Offset from GS of the first record, from that of all records.
    pub fn records(&self) -> u32 {
        self.last_page.wrapping_mul(LastPage::BYTES)
    }

    /// Offset from GS of the first execution counter, from that of all.
    pub fn counters(&self) -> u32 {
        self.executions.wrapping_mul(8)
    }

    /// What fields have added, by their kinds in order.
    pub fn values(&self, config: &Config) -> [u64; Kind::ALL.len()] {
        Kind::ALL.map(|kind| self.value(config, kind))
    }

    /// What fields of this kind have added.
    pub fn value(&self, config: &Config, kind: Kind) -> u64 {
        match kind {
            Kind::Row => u64::from(self.site.wrapping_mul(8)),
            Kind::Site => self.site.into(),
            Kind::Record => self.records().into(),
            Kind::Executions => self.counters().into(),
            Kind::Exit => self.exit.into(),
            Kind::ProgramFromHot => self.ip.wrapping_sub(self.hot),
            Kind::ProgramFromCold => self.ip.wrapping_sub(self.cold),
            Kind::ColdFromHot => self.cold.wrapping_sub(self.hot),
            Kind::HotFromCold => self.hot.wrapping_sub(self.cold),
            Kind::ReturnEntry => config.return_entry(self.end),
            Kind::ReturnTagAt => config.return_tag(self.end).0,
            Kind::ReturnTag => config.return_tag(self.end).1.into(),
            Kind::Program => self.ip,
            Kind::Page => self.ip >> numalens_isa::PAGE_BITS,
            Kind::Hot => self.hot,
        }
    }
}

/// What a field of a fragment's code depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Offset from GS of the counters of a site.
    Row,
    /// The number of a site.
    Site,
    /// Offset from GS of the record of a last page.
    Record,
    /// Offset from GS of an execution counter.
    Executions,
    /// The number of an exit.
    Exit,
    /// Distances between the program, the hot half and the cold half.
    ProgramFromHot,
    ProgramFromCold,
    ColdFromHot,
    HotFromCold,
    /// Of the return to the end of the fragment: [`Config::return_entry`], and both of [`Config::return_tag`].
    ReturnEntry,
    ReturnTagAt,
    ReturnTag,
    /// An address of the program, of 64 bits; the number of a page of its.
    Program,
    Page,
    /// An address in the hot half, of 64 bits.
    Hot,
}

impl Kind {
    pub const ALL: [Kind; 15] = [
        Kind::Row,
        Kind::Site,
        Kind::Record,
        Kind::Executions,
        Kind::Exit,
        Kind::ProgramFromHot,
        Kind::ProgramFromCold,
        Kind::ColdFromHot,
        Kind::HotFromCold,
        Kind::ReturnEntry,
        Kind::ReturnTagAt,
        Kind::ReturnTag,
        Kind::Program,
        Kind::Page,
        Kind::Hot,
    ];

    /// Bytes of a field.
    pub fn width(self) -> usize {
        if (self as u8) < Kind::Program as u8 { 4 } else { 8 }
    }

    /// Displacements, which have a sign: they must not be too far.
    pub fn is_distance(self) -> bool {
        (Kind::ProgramFromHot as u8..=Kind::HotFromCold as u8).contains(&(self as u8))
    }
}
