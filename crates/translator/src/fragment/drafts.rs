//! The memory that fragments are made in.

use crate::ir::exit::Exit;
use crate::ir::mark::MapEntry;
use crate::ir::member::Ahead;
use crate::ir::segments::Piece;
use crate::{ExitId, LastPageId, SiteId};
use alloc::vec::Vec;

/// What fragments are made in. Kept from one to the next for its memory; a fragment has copies of their exact lengths,
/// as there are many.
#[derive(Default)]
pub(crate) struct Drafts {
    pub hot: Vec<u8>,
    pub cold: Vec<u8>,
    pub hot_map: Vec<MapEntry>,
    pub cold_map: Vec<MapEntry>,
    /// Room to pack both in.
    pub packed: Vec<u8>,
    pub exits: Vec<Exit>,
    /// The exit that goes back to the start.
    pub goes_back: Option<ExitId>,
    pub sites: Vec<SiteId>,
    pub site_instructions: Vec<u32>,
    pub ahead: Vec<Ahead>,
    pub pieces: Vec<Piece>,
    /// For what these are, see [`crate::emit::scratch::Scratch`] and [`crate::counting::Counting`].
    pub uses: Vec<u16>,
    pub once: Vec<(u32, SiteId)>,
    pub counted_segments: Vec<(u16, u32)>,
    pub page_limits: Vec<(u16, LastPageId)>,
}

impl Drafts {
    /// Takes all of it, emptied.
    pub fn take(&mut self) -> Drafts {
        let mut drafts = core::mem::take(self);
        drafts.hot.clear();
        drafts.cold.clear();
        drafts.hot_map.clear();
        drafts.cold_map.clear();
        drafts.exits.clear();
        drafts.goes_back = None;
        drafts.sites.clear();
        drafts.site_instructions.clear();
        drafts.ahead.clear();
        drafts.pieces.clear();
        drafts.uses.clear();
        drafts.once.clear();
        drafts.counted_segments.clear();
        drafts.page_limits.clear();
        drafts
    }
}
