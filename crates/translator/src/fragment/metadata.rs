//! Metadata of a fragment, for when a thread is stopped in it or leaves it, packed into one piece of memory.
//!
//! ```text
//!   base                       three numbers of 32 bits, from which those of members count
//!   lengths of the first four
//!   map of the hot half        see translation_map.rs
//!   map of the cold half
//!   exits                      kind, what goes with it, target, stub
//!   members of groups          each as what it changes of the one before
//!   pieces                     each from the end of the one before
//! ```
//! All is in the order in which it was made, and read from its start: a fragment has a few of each. Behind the base,
//! nothing depends on where the fragment lies, or on how many there were before it: a persisted one
//! ([`crate::persist`]) has the same bytes.

use super::drafts::Drafts;
use super::packed::{put, put_signed, split, take, take_signed};
use super::translation_map;
use crate::ir::cpu_query::CpuQuery;
use crate::ir::exit::{Exit, ExitKind};
use crate::ir::far::{FarReturn, Obstacle};
use crate::ir::mark::MapEntry;
use crate::ir::member::Ahead;
use crate::ir::segments::Piece;
use crate::{LastPageId, LastPageSlot, SiteId};
use alloc::boxed::Box;
use alloc::vec::Vec;
use numalens_isa::Register;

/// How many of its parts are preceded by their length.
const MEASURED: usize = 4;

/// The least numbers of a fragment's members: those of the members count from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base {
    pub site: u32,
    pub last_page: u32,
    pub executions: u32,
}

impl Base {
    const BYTES: usize = 12;

    /// Of these members.
    fn of(members: &[Ahead]) -> Base {
        let last_pages = || members.iter().filter_map(|one| one.last_page);
        Base {
            site: members.iter().map(|one| one.site.0).min().unwrap_or(0),
            last_page: last_pages().map(|one| one.id.0).min().unwrap_or(0),
            executions: last_pages().map(|one| one.executions).min().unwrap_or(0),
        }
    }

    fn bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (to, number) in bytes.chunks_exact_mut(4).zip([self.site, self.last_page, self.executions]) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Base {
        let number = |at: usize| bytes.get(at..at + 4).map_or(0, |of| u32::from_le_bytes([of[0], of[1], of[2], of[3]]));
        Base { site: number(0), last_page: number(4), executions: number(8) }
    }
}

#[derive(Debug)]
pub(crate) struct FragmentMetadata {
    bytes: Box<[u8]>,
}

impl FragmentMetadata {
    /// What was packed, for members that count from `base`.
    pub fn moved(packed: &[u8], base: Base) -> FragmentMetadata {
        FragmentMetadata { bytes: [&base.bytes()[..], packed].concat().into() }
    }

    /// From where its members' numbers count.
    pub fn base(&self) -> Base {
        Base::read(&self.bytes)
    }

    /// All of it that stays the same wherever it lies.
    pub fn packed(&self) -> &[u8] {
        self.bytes.get(Base::BYTES..).unwrap_or(&[])
    }

    /// Of the fragment at `ip` whose halves are at `hot` and `cold`. Members are in order of segment and instruction.
    pub fn pack(drafts: &mut Drafts, ip: u64, hot: u64, cold: u64) -> FragmentMetadata {
        let Drafts { packed, hot_map, cold_map, exits, ahead, pieces, .. } = drafts;
        packed.clear();
        let mut ends = [0; MEASURED];
        translation_map::pack(hot_map, packed);
        ends[0] = packed.len();
        translation_map::pack(cold_map, packed);
        ends[1] = packed.len();
        exits.iter().for_each(|exit| pack_exit(exit, packed, ip, hot, cold));
        ends[2] = packed.len();
        let base = Base::of(ahead);
        pack_members(ahead, base, packed);
        ends[3] = packed.len();
        pack_pieces(pieces, packed);
        let all = packed.len();
        let mut start = 0;
        for end in ends {
            put(packed, (end - start) as u64);
            start = end;
        }
        let (parts, lengths) = packed.split_at(all);
        FragmentMetadata { bytes: [&base.bytes()[..], lengths, parts].concat().into() }
    }

    /// The part with this number.
    fn part(&self, number: usize) -> &[u8] {
        let mut rest = self.packed();
        let lengths: [u64; MEASURED] = core::array::from_fn(|_| take(&mut rest));
        for &length in lengths.iter().take(number) {
            split(&mut rest, length);
        }
        match lengths.get(number) {
            Some(&length) => split(&mut rest, length),
            None => rest,
        }
    }

    pub fn hot_map(&self) -> impl Iterator<Item = MapEntry> {
        translation_map::unpack(self.part(0))
    }

    pub fn cold_map(&self) -> impl Iterator<Item = MapEntry> {
        translation_map::unpack(self.part(1))
    }

    /// The exits of the fragment at `ip` whose halves are at `hot` and `cold`.
    pub fn exits(&self, ip: u64, hot: u64, cold: u64) -> impl Iterator<Item = Exit> {
        let mut bytes = self.part(2);
        core::iter::from_fn(move || unpack_exit(&mut bytes, ip, hot, cold))
    }

    /// All accesses that are counted as members of groups.
    pub fn members(&self) -> Members<'_> {
        Members { packed: self.part(3), base: self.base(), within: None }
    }

    /// The segments whose instructions are counted.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> {
        let mut bytes = self.part(4);
        let mut before = 0;
        core::iter::from_fn(move || {
            (!bytes.is_empty()).then(|| {
                let [from, to, counted_at] = core::array::from_fn(|_| take(&mut bytes) as u16);
                let from = from.wrapping_add(before);
                before = from.wrapping_add(to);
                Piece { from, to: before, counted_at: counted_at.wrapping_sub(1) }
            })
        })
    }
}

fn pack_pieces(pieces: &[Piece], into: &mut Vec<u8>) {
    let mut before = 0;
    for piece in pieces {
        put(into, piece.from.wrapping_sub(before).into());
        put(into, piece.to.wrapping_sub(piece.from).into());
        // Most are counted by an execution: 0.
        put(into, piece.counted_at.wrapping_add(1).into());
        before = piece.to;
    }
}

const DIRECT: u8 = 0;
const SYSCALL: u8 = 1;
const REQUEST: u8 = 2;
const CPUID: u8 = 3;
const LIMIT: u8 = 4;
const REACHED: u8 = 5;
const STALE: u8 = 6;
const UNSUPPORTED: u8 = 7;
const NEWS: u8 = 8;
const OLD_SYSCALL: u8 = 9;
const RETURNS: u8 = 10;

fn pack_exit(exit: &Exit, into: &mut Vec<u8>, ip: u64, hot: u64, cold: u64) {
    let near = |address: u64, start: u64| address.wrapping_sub(start) as i64;
    match exit.kind {
        ExitKind::Direct { branch } => {
            into.push(DIRECT);
            put_signed(into, near(branch, hot));
        }
        ExitKind::Syscall { execute } => {
            into.push(SYSCALL);
            put_signed(into, near(execute, hot));
        }
        ExitKind::Request => into.push(REQUEST),
        ExitKind::CpuQuery(CpuQuery::Cpuid) => into.push(CPUID),
        ExitKind::CpuQuery(CpuQuery::Limit { to, bytes, selector }) => {
            into.extend([LIMIT, to.number(), bytes, selector.number()]);
        }
        ExitKind::Reached { execute } => {
            into.push(REACHED);
            put_signed(into, near(execute, hot));
        }
        ExitKind::News => into.push(NEWS),
        ExitKind::Stale => into.push(STALE),
        ExitKind::OldSyscall { execute } => {
            into.push(OLD_SYSCALL);
            put_signed(into, near(execute, hot));
        }
        ExitKind::Returns(FarReturn { bytes, interrupt, drops }) => {
            into.extend([RETURNS, bytes, u8::from(interrupt)]);
            into.extend(drops.to_le_bytes());
        }
        ExitKind::Unsupported(obstacle) => into.extend([UNSUPPORTED, obstacle as u8]),
    }
    put_signed(into, near(exit.target, ip));
    put_signed(into, near(exit.stub, cold));
}

fn unpack_exit(bytes: &mut &[u8], ip: u64, hot: u64, cold: u64) -> Option<Exit> {
    let kind = *split(bytes, 1).first()?;
    let mut near = |start: u64| start.wrapping_add_signed(take_signed(bytes));
    let kind = match kind {
        DIRECT => ExitKind::Direct { branch: near(hot) },
        SYSCALL => ExitKind::Syscall { execute: near(hot) },
        REQUEST => ExitKind::Request,
        CPUID => ExitKind::CpuQuery(CpuQuery::Cpuid),
        LIMIT => match *split(bytes, 3) {
            [to, bytes, selector] => {
                let [to, selector] = [to, selector].map(Register::of_number);
                ExitKind::CpuQuery(CpuQuery::Limit { to, bytes, selector })
            }
            _ => return None,
        },
        REACHED => ExitKind::Reached { execute: near(hot) },
        NEWS => ExitKind::News,
        STALE => ExitKind::Stale,
        OLD_SYSCALL => ExitKind::OldSyscall { execute: near(hot) },
        RETURNS => match *split(bytes, 4) {
            [bytes, interrupt, low, high] => {
                let drops = u16::from_le_bytes([low, high]);
                ExitKind::Returns(FarReturn { bytes, interrupt: interrupt != 0, drops })
            }
            _ => return None,
        },
        _ => ExitKind::Unsupported(*Obstacle::ALL.get(usize::from(*split(bytes, 1).first()?))?),
    };
    let mut near = |start: u64| start.wrapping_add_signed(take_signed(bytes));
    Some(Exit { kind, target: near(ip), stub: near(cold) })
}

/// Members of groups: all of a fragment, or those of a segment from an instruction on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members<'a> {
    packed: &'a [u8],
    base: Base,
    /// The segment and the instruction's offset.
    within: Option<(u16, u32)>,
}

impl<'a> Members<'a> {
    /// Those of a segment, of none if there is none, from the instruction at this offset on.
    pub fn of_segment(self, segment: Option<u16>, from: u32) -> Members<'a> {
        segment.map_or(Members::default(), |segment| Members { within: Some((segment, from)), ..self })
    }

    pub fn iter(self) -> impl Iterator<Item = Ahead> + use<'a> {
        let Members { packed: mut bytes, base, within } = self;
        let mut before = NONE;
        let all = core::iter::from_fn(move || {
            before = unpack_member(&mut bytes, &before)?;
            Some(at(before, base))
        });
        all.filter(move |one| within.is_none_or(|(segment, from)| one.segment == segment && one.instruction >= from))
    }
}

/// What the first member is a difference from.
const NONE: Ahead =
    Ahead { site: SiteId(0), last_page: None, group: 0, segment: 0, megamorphic: false, instruction: 0 };

const MEGAMORPHIC: u8 = 1;
const HAS_LAST_PAGE: u8 = 2;
/// It follows the one before: the next site, with the same group, segment and last page.
const FOLLOWS: u8 = 4;

/// A member whose numbers count from 0, with those that count from `base`.
fn at(one: Ahead, base: Base) -> Ahead {
    let last_page = one.last_page.map(|LastPageSlot { id, executions }| LastPageSlot {
        id: LastPageId(id.0.wrapping_add(base.last_page)),
        executions: executions.wrapping_add(base.executions),
    });
    Ahead { site: SiteId(one.site.0.wrapping_add(base.site)), last_page, ..one }
}

fn pack_members(members: &[Ahead], base: Base, into: &mut Vec<u8>) {
    let [site, last_page, executions] = [base.site, base.last_page, base.executions].map(u32::wrapping_neg);
    let mut before = NONE;
    for &one in members {
        let one = at(one, Base { site, last_page, executions });
        let like = Ahead { site: SiteId(before.site.0.wrapping_add(1)), instruction: one.instruction, ..before };
        let follows = one == like;
        let flags = [(MEGAMORPHIC, one.megamorphic), (HAS_LAST_PAGE, one.last_page.is_some()), (FOLLOWS, follows)];
        into.push(flags.iter().filter(|(_, is)| *is).map(|(bit, _)| bit).sum());
        let by = |now: u32, before: u32| i64::from(now.wrapping_sub(before) as i32);
        put_signed(into, by(one.instruction, before.instruction));
        if !follows {
            put_signed(into, by(one.site.0, before.site.0));
            put_signed(into, by(one.group.into(), before.group.into()));
            put_signed(into, by(one.segment.into(), before.segment.into()));
            if let Some(last_page) = one.last_page {
                put(into, last_page.id.0.into());
                put(into, last_page.executions.into());
            }
        }
        before = one;
    }
}

fn unpack_member(bytes: &mut &[u8], before: &Ahead) -> Option<Ahead> {
    let flags = *split(bytes, 1).first()?;
    let mut after = |before: u32| before.wrapping_add(take_signed(bytes) as u32);
    let instruction = after(before.instruction);
    if flags & FOLLOWS != 0 {
        return Some(Ahead { site: SiteId(before.site.0.wrapping_add(1)), instruction, ..*before });
    }
    let site = SiteId(after(before.site.0));
    let (group, segment) = (after(before.group.into()) as u16, after(before.segment.into()) as u16);
    let megamorphic = flags & MEGAMORPHIC != 0;
    let last_page = (flags & HAS_LAST_PAGE != 0)
        .then(|| LastPageSlot { id: LastPageId(take(bytes) as u32), executions: take(bytes) as u32 });
    Some(Ahead { site, last_page, group, segment, megamorphic, instruction })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn member() -> impl Strategy<Value = Ahead> {
        let last_page =
            (any::<u32>(), any::<u32>()).prop_map(|(id, executions)| LastPageSlot { id: LastPageId(id), executions });
        let place = (0..3u16, 0..3u16, any::<bool>(), prop_oneof![0..60u32, any::<u32>()]);
        (0..4u32, prop::option::of(last_page), place).prop_map(
            |(site, last_page, (group, segment, megamorphic, instruction))| {
                let site = SiteId(site.wrapping_sub(2));
                Ahead { site, last_page, group, segment, megamorphic, instruction }
            },
        )
    }

    /// Those of which nothing more is to be said.
    const PLAIN: [ExitKind; 4] =
        [ExitKind::CpuQuery(CpuQuery::Cpuid), ExitKind::Request, ExitKind::News, ExitKind::Stale];

    fn exit() -> impl Strategy<Value = Exit> {
        let kind = prop_oneof![
            any::<u64>().prop_map(|branch| ExitKind::Direct { branch }),
            any::<u64>().prop_map(|execute| ExitKind::Syscall { execute }),
            any::<u64>().prop_map(|execute| ExitKind::Reached { execute }),
            any::<[u8; 3]>().prop_map(|[to, bytes, selector]| {
                let [to, selector] = [to, selector].map(Register::of_number);
                ExitKind::CpuQuery(CpuQuery::Limit { to, bytes, selector })
            }),
            prop::sample::select(&PLAIN[..]),
            prop::sample::select(&Obstacle::ALL[..]).prop_map(ExitKind::Unsupported),
            any::<u64>().prop_map(|execute| ExitKind::OldSyscall { execute }),
            any::<(u8, bool, u16)>()
                .prop_map(|(bytes, interrupt, drops)| { ExitKind::Returns(FarReturn { bytes, interrupt, drops }) }),
        ];
        (kind, any::<u64>(), any::<u64>()).prop_map(|(kind, target, stub)| Exit { kind, target, stub })
    }

    fn piece() -> impl Strategy<Value = Piece> {
        any::<[u16; 3]>().prop_map(|[from, to, counted_at]| Piece { from, to, counted_at })
    }

    proptest! {
        #[test]
        fn what_was_packed_comes_back(
            ahead in prop::collection::vec(member(), 0..12),
            exits in prop::collection::vec(exit(), 0..5),
            pieces in prop::collection::vec(piece(), 0..4),
            [ip, hot, cold] in any::<[u64; 3]>(),
        ) {
            let mut drafts =
                Drafts { ahead: ahead.clone(), exits: exits.clone(), pieces: pieces.clone(), ..Drafts::default() };
            let metadata = FragmentMetadata::pack(&mut drafts, ip, hot, cold);
            prop_assert_eq!(metadata.members().iter().collect::<Vec<_>>(), ahead);
            prop_assert_eq!(metadata.exits(ip, hot, cold).collect::<Vec<_>>(), exits);
            prop_assert_eq!(metadata.pieces().collect::<Vec<_>>(), pieces);
            prop_assert!(metadata.hot_map().next().is_none() && metadata.cold_map().next().is_none());
        }
    }

    #[test]
    fn a_usual_fragment_takes_few_bytes() {
        let [ip, hot, cold] = [0x40_1000, 0x7fe0_0000, 0x7fe4_0000];
        let member = |site, instruction| Ahead { site: SiteId(site), instruction, ..NONE };
        let exit =
            |branch, stub| Exit { kind: ExitKind::Direct { branch: hot + branch }, target: ip + 90, stub: cold + stub };
        let mut drafts = Drafts {
            ahead: [member(9000, 4), member(9001, 9)].into(),
            exits: [exit(30, 0), exit(64, 20)].into(),
            pieces: [Piece { from: 0, to: 20, counted_at: Piece::BY_EXECUTION }].into(),
            ..Drafts::default()
        };
        assert_eq!(FragmentMetadata::pack(&mut drafts, ip, hot, cold).bytes.len(), 12 + 4 + (5 + 6) + (5 + 2) + 3);
    }
}
