//! Ways to count, and what they have in common.
//!
//! A way is a type in a file of its own. It is added to the list in [`count_access`] or [`count_group`]: the first in
//! the list that suits counts.

use super::direct::Direct;
use super::each::EachInPlace;
use super::gathers::{Gather, GatherApart};
use super::images::ImageApart;
use super::immediate::Immediate;
use super::last_page::{ConstantPage, MovingPage};
use super::masked::{MaskedApart, MaskedInPlace};
use super::megamorphic::Megamorphic;
use super::numbered_bits::BitsApart;
use super::single::{Apart, Single, SingleQuietly};
use super::tiles::TileApart;
use crate::emit::Emitter;
use crate::ir::liveness::Live;
use crate::ir::plan::{Group, Member};
use crate::{Config, Error, LastPageSlot, SiteId, Way};
use iced_x86::Instruction;
use numalens_isa::Access;

/// A way to count `T`, which is registered already: what is left is to write code.
pub(crate) trait CountStrategy<T> {
    /// What it is for those who ask.
    const WAY: Way;

    /// Whether it is for `of`.
    fn suits(config: &Config, of: &T) -> bool;

    /// Writes the code, before the instruction that the emitter has come to.
    fn write(out: &mut Emitter<'_>, of: &T) -> Result<(), Error>;
}

/// An access of the current instruction, to be counted by itself before it.
pub(crate) struct AccessAt<'p> {
    pub instruction: &'p Instruction,
    pub access: &'p Access,
    pub site: SiteId,
    /// What is needed when the instruction begins.
    pub live: Live,
}

/// A group, to be counted where it is checked. Flags are dead there.
#[derive(Clone, Copy)]
pub(crate) struct GroupAt<'p> {
    pub group: &'p Group,
    pub members: &'p [Member],
    pub place: Place,
    /// Registers that are needed at the check.
    pub live: u16,
}

/// A group's place in the tables: offsets from GS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// None: it is counted immediately.
    pub last_page: Option<LastPageSlot>,
    pub record: u32,
    pub executions: u32,
    pub row: u32,
    pub first_row: u32,
    pub first: SiteId,
}

/// Has the first of the ways that suits count, and returns.
macro_rules! first_that_suits {
    ($out:expr, $of:expr, $($way:ty),+ $(,)?) => {
        $(if <$way>::suits($out.config, $of) {
            <$way>::write($out, $of)?;
            return Ok(Some(<$way>::WAY));
        })+
    };
}

/// Counts one access, and says how. Those of repeated string instructions are counted afterwards: [`super::strings`].
pub(crate) fn count_access(out: &mut Emitter<'_>, of: &AccessAt<'_>) -> Result<Option<Way>, Error> {
    first_that_suits!(
        out,
        of,
        EachInPlace,
        Apart,
        Single,
        SingleQuietly,
        MaskedInPlace,
        MaskedApart,
        Gather,
        GatherApart,
        BitsApart,
        TileApart,
        ImageApart,
    );
    Ok(None)
}

/// Counts a group, and says how.
pub(crate) fn count_group(out: &mut Emitter<'_>, of: &GroupAt<'_>) -> Result<Option<Way>, Error> {
    first_that_suits!(out, of, Direct, Immediate, ConstantPage, Megamorphic, MovingPage);
    Ok(None)
}
