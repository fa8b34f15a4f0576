//! Where the agent's own memory is.

use super::Code;
use crate::state::maps::Maps;
use crate::state::runtime::runtime;
use crate::sys;
use alloc::vec::Vec;
use core::ops::Range;

/// Where the agent's memory is that cannot move, and maybe in between memory of the program's.
fn fixed() -> impl Iterator<Item = Range<u64>> {
    [runtime().image.clone()].into_iter().chain(sys::own_windows())
}

/// Where the agent's memory is, and maybe in between memory of the program's.
fn own(code: &Code) -> impl Iterator<Item = Range<u64>> + use<'_> {
    fixed().chain([runtime().shadow.range()]).chain(code.env.arenas.ranges())
}

fn both(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    a.start.max(b.start)..a.end.min(b.end)
}

/// Whether the program has all of a range.
fn is_programs(maps: &Maps, range: &Range<u64>) -> bool {
    let has = maps.overlapping(range.clone()).iter().map(|mapping| both(&(mapping.start..mapping.end), range));
    has.map(|part| part.end - part.start).sum::<u64>() == range.end - range.start
}

/// Whether memory of the agent's, or what it keeps for itself, is in a range.
pub fn is_taken(code: &Code, range: &Range<u64>) -> bool {
    overlaps(own(code), code, range)
}

/// Whether memory of the agent's that cannot move is in a range.
pub fn is_taken_for_good(code: &Code, range: &Range<u64>) -> bool {
    overlaps(fixed(), code, range)
}

fn overlaps(own: impl Iterator<Item = Range<u64>>, code: &Code, range: &Range<u64>) -> bool {
    let mut shared = own.map(|own| both(&own, range)).filter(|shared| !shared.is_empty());
    shared.any(|shared| !is_programs(&code.env.maps, &shared))
}

/// What of a range is not the agent's.
pub fn pieces(code: &Code, range: Range<u64>) -> Vec<Range<u64>> {
    let mut left = alloc::vec![range.clone()];
    let mut between = Vec::new();
    for own in own(code) {
        let without = |piece: Range<u64>| [piece.start..piece.end.min(own.start), piece.start.max(own.end)..piece.end];
        left = left.into_iter().flat_map(without).filter(|piece| !piece.is_empty()).collect();
        let shared = both(&own, &range);
        let programs = code.env.maps.overlapping(shared.start..shared.end.max(shared.start)).iter();
        between.extend(programs.map(|mapping| both(&(mapping.start..mapping.end), &shared)));
    }
    left.extend(between);
    left
}
