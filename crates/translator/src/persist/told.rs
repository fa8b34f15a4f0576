//! What the owner of the cache is told of a fragment, with numbers that count from those of its place.

use super::place::Place;
use crate::fragment::packed::{put, put_signed, split, take, take_signed};
use crate::{Env, FetchCounter, Group, LastPageId, LastPageSlot, Segment, Site, SiteId, Way};
use alloc::vec::Vec;
use numalens_isa::{Address, Kind, Shape};

/// A call of [`Env`]'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// `at_program`: the displacement counts from the fragment's first instruction.
    Site {
        site: Site,
        at_program: bool,
    },
    Group(Group),
    Counted {
        first: SiteId,
        sites: u32,
        way: Way,
    },
    Segment(Segment),
}

const KINDS: [Kind; 3] = [Kind::Read, Kind::Write, Kind::ReadWrite];
/// Images of the processor's state are so rare that whoever saves one is translated.
const SHAPES: [Shape; 6] = [Shape::Plain, Shape::String, Shape::Masked, Shape::Elements, Shape::Tile, Shape::Bits];

const SITE: u8 = 0;
const GROUP: u8 = 1;
const COUNTED: u8 = 2;
const SEGMENT: u8 = 3;
/// The lowest bits of the first byte say which; those above are the call's own.
const CALLS: u8 = 2;

impl Told {
    /// `None`: what cannot be packed.
    pub fn pack(&self, into: &mut Vec<u8>) -> Option<()> {
        match *self {
            Told::Site { site, at_program } => {
                into.push(SITE);
                pack_site(&site, at_program, into)?;
            }
            Told::Group(Group { last_page, first, members }) => {
                into.push(GROUP | u8::from(last_page.is_some()) << CALLS);
                put(into, first.0.into());
                put(into, members.into());
                if let Some(LastPageSlot { id, executions }) = last_page {
                    put(into, id.0.into());
                    put(into, executions.into());
                }
            }
            Told::Counted { first, sites, way } => {
                into.push(COUNTED | (way as u8) << CALLS);
                put(into, first.0.into());
                put(into, sites.into());
            }
            Told::Segment(Segment { ip, instructions, counter }) => {
                let (is_site, number) = match counter {
                    FetchCounter::Executions(number) => (false, number),
                    FetchCounter::Site(site) => (true, site.0),
                    FetchCounter::Correction(_) => return None,
                };
                into.push(SEGMENT | u8::from(is_site) << CALLS);
                put(into, ip);
                put(into, instructions.into());
                put(into, number.into());
            }
        }
        Some(())
    }

    /// The next call, and off with it.
    pub fn unpack(bytes: &mut &[u8]) -> Option<Told> {
        let first = *split(bytes, 1).first()?;
        let own = first >> CALLS;
        let mut number = || take(bytes) as u32;
        Some(match first & ((1 << CALLS) - 1) {
            SITE => return unpack_site(bytes),
            GROUP => {
                let (first, members) = (SiteId(number()), number());
                let last_page = (own != 0).then(|| LastPageSlot { id: LastPageId(number()), executions: number() });
                Told::Group(Group { last_page, first, members })
            }
            COUNTED => {
                let way = *Way::ALL.get(usize::from(own).checked_sub(1)?)?;
                Told::Counted { first: SiteId(number()), sites: number(), way }
            }
            _ => {
                let (ip, instructions, number) = (number().into(), number(), number());
                let counter =
                    if own != 0 { FetchCounter::Site(SiteId(number)) } else { FetchCounter::Executions(number) };
                Told::Segment(Segment { ip, instructions, counter })
            }
        })
    }

    /// Makes the call for a fragment at `place`.
    pub fn tell(&self, env: &mut impl Env, place: &Place) {
        let site = |id: SiteId| SiteId(id.0.wrapping_add(place.site));
        match *self {
            Told::Site { site, at_program } => {
                let Address { displacement, .. } = site.address;
                let displacement = if at_program { displacement.wrapping_add(place.ip as i64) } else { displacement };
                let address = Address { displacement, ..site.address };
                env.new_site(&Site { ip: place.ip.wrapping_add(site.ip), address, ..site });
            }
            Told::Group(Group { last_page, first, members }) => {
                let last_page = last_page.map(|LastPageSlot { id, executions }| LastPageSlot {
                    id: LastPageId(id.0.wrapping_add(place.last_page)),
                    executions: executions.wrapping_add(place.executions),
                });
                env.new_group(&Group { last_page, first: site(first), members });
            }
            Told::Counted { first, sites, way } => env.counted(site(first), sites, way),
            Told::Segment(Segment { ip, instructions, counter }) => {
                let counter = match counter {
                    FetchCounter::Site(id) => FetchCounter::Site(site(id)),
                    FetchCounter::Executions(number) => FetchCounter::Executions(number.wrapping_add(place.executions)),
                    other => other,
                };
                env.new_segment(&Segment { ip: place.ip.wrapping_add(ip), instructions, counter });
            }
        }
    }
}

fn pack_site(site: &Site, at_program: bool, into: &mut Vec<u8>) -> Option<()> {
    let &Site { ip, kind, size, shape, stack, address } = site;
    let Address { base, index, scale, displacement, fs, gs, narrow, byte_index } = address;
    let kind = KINDS.iter().position(|&one| one == kind)? as u8;
    let shape = SHAPES.iter().position(|&one| one == shape)? as u8;
    let register = |number: Option<u8>| number.map_or(0, |number| number + 1);
    let flags = [at_program, fs, gs, narrow, byte_index, stack];
    into.push(kind | shape << 2);
    into.push((0..).zip(flags).map(|(bit, is)| u8::from(is) << bit).sum());
    into.extend([register(base), register(index), scale]);
    put(into, ip);
    put(into, size.into());
    put_signed(into, displacement);
    Some(())
}

fn unpack_site(bytes: &mut &[u8]) -> Option<Told> {
    let &[what, flags, base, index, scale] = split(bytes, 5) else { return None };
    let flag = |bit: u8| flags >> bit & 1 != 0;
    let register = |number: u8| number.checked_sub(1);
    let (ip, size, displacement) = (take(bytes), take(bytes) as u32, take_signed(bytes));
    let (base, index) = (register(base), register(index));
    let (fs, gs, narrow, byte_index) = (flag(1), flag(2), flag(3), flag(4));
    let address = Address { base, index, scale, displacement, fs, gs, narrow, byte_index };
    let (kind, shape) = (*KINDS.get(usize::from(what & 3))?, *SHAPES.get(usize::from(what >> 2))?);
    Some(Told::Site { site: Site { ip, kind, size, shape, stack: flag(5), address }, at_program: flag(0) })
}
