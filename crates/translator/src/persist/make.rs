//! Records are made: by whoever has a file of code and time, for processes that have neither.

use super::field::{self, find, take_place_away};
use super::place::Place;
use super::record::{Record, Takes, pack_rare};
use super::relocate::at_place;
use super::told::Told;
use crate::fragment::Fragment;
use crate::fragment::drafts::Drafts;
use crate::fragment::metadata::Base;
use crate::translate::{Target, Tools, translate};
use crate::{
    Changes, Config, Env, ExitId, FetchCounter, FragmentId, Group, LastPageSlot, Room, Segment, Site, SiteId, Way,
};
use alloc::vec::Vec;
use hashbrown::HashMap;
use numalens_isa::Address;

/// The code of a file, by addresses as the file has them.
pub trait ProgramCode {
    /// As much of the code at `address` as there is and fits; returns how much.
    fn read(&self, address: u64, into: &mut [u8]) -> usize;
}

/// How many places fragments are translated at: two that they are made from, one where they are tried.
const PLACES: usize = 3;

/// Makes records.
pub struct Maker {
    config: Config,
    tools: [Tools; PLACES],
}

/// A file of code, as far as it is persisted.
pub struct CodeFile<C> {
    code: C,
    places: [Place; PLACES],
    known: [HashMap<u64, FragmentId>; PLACES],
}

impl<C: ProgramCode> CodeFile<C> {
    /// `is_fixed`: the file is for one place, and its addresses are those of the process.
    pub fn new(code: C, is_fixed: bool) -> Self {
        // Where the file, the hot half and the cold half begin, and with which numbers: no difference between two
        // places is that of another pair.
        let ips = if is_fixed { [0; PLACES] } else { [0x5555_1234_5000, 0x7e12_9abc_d000, 0x7f01_4567_3000] };
        let far =
            if is_fixed { [0x5a5a_a008, 0x6c3c_5010, 0x7b7b_c018] } else { [0x1a5a_a008, 0x2c3c_5010, 0x3b7b_c018] };
        let further = [0x0123_4000, 0x0234_8008, 0x0345_c010];
        let numbers =
            [[0x0101, 3 * 128, 0x203, 0x1011], [0x1a34, 70 * 128, 0x31a5, 0x3_5a17], [0x0b0d, 9 * 128, 0x1c47, 0x111]];
        let places = core::array::from_fn(|at| {
            let [site, last_page, executions, exit] = numbers[at];
            let hot = ips[at] + far[at];
            Place { ip: ips[at], end: 0, hot, cold: hot + further[at], site, last_page, executions, exit }
        });
        CodeFile { code, places, known: core::array::from_fn(|_| HashMap::new()) }
    }

    /// Its code.
    pub fn code(&self) -> &C {
        &self.code
    }

    /// There is a record of the fragment at `address` already.
    pub fn add_known(&mut self, address: u64) {
        for (known, place) in self.known.iter_mut().zip(&self.places) {
            let id = FragmentId(known.len() as u32);
            known.insert(place.ip.wrapping_add(address), id);
        }
    }
}

impl Maker {
    /// Makes them for translators of this configuration.
    pub fn new(config: Config) -> Self {
        Maker { config, tools: core::array::from_fn(|_| Tools::new(&config)) }
    }

    /// The next record is of another file than the last.
    pub fn change_file(&mut self) {
        self.tools.iter_mut().for_each(|tools| tools.liveness.forget());
    }

    /// The record of the fragment at `address`; none where it is to be translated by whoever executes it.
    pub fn make(&mut self, file: &mut CodeFile<impl ProgramCode>, address: u64) -> Option<Vec<u8>> {
        let record = self.attempt(file, address).or_else(|| {
            // What was looked up for other fragments may reach farther at one place than at another.
            self.change_file();
            self.attempt(file, address)
        });
        file.add_known(address);
        record
    }

    fn attempt(&mut self, file: &CodeFile<impl ProgramCode>, address: u64) -> Option<Vec<u8>> {
        let made: [Option<Made>; PLACES] = core::array::from_fn(|number| self.translate(file, number, address));
        let [Some(mut one), Some(other), Some(third)] = made else { return None };
        let config = &self.config;
        let told = one.told_like(&other)?;
        let hot = find(config, [(&one.drafts.hot, &one.place), (&other.drafts.hot, &other.place)])?;
        let cold = find(config, [(&one.drafts.cold, &one.place), (&other.drafts.cold, &other.place)])?;
        take_place_away(config, &mut one.drafts.hot, &one.place, &hot)?;
        take_place_away(config, &mut one.drafts.cold, &one.place, &cold)?;
        let fields = [hot, cold].map(|fields| {
            let mut packed = Vec::new();
            field::pack(&fields, &mut packed);
            packed
        });
        let rare = pack_rare(one.fragment.rare.as_deref(), &one.place);
        let record = Record {
            takes: one.takes,
            code: &one.code,
            halves: [&one.drafts.hot, &one.drafts.cold],
            lengths: [one.fragment.hot_length, one.fragment.cold_length],
            fields: [&fields[0], &fields[1]],
            base: one.base(),
            metadata: one.fragment.metadata.packed(),
            returns_at: one.fragment.returns_at.map_or(0, |at| at.get()),
            goes_back: one.drafts.goes_back.map_or(0, |exit| exit.0 - one.place.exit + 1),
            told: &told,
            rare: &rare,
        };
        third.is(config, &record).then(|| record.pack())
    }

    fn translate(&mut self, file: &CodeFile<impl ProgramCode>, number: usize, address: u64) -> Option<Made> {
        let start = file.places[number];
        let mut place = Place { ip: start.ip.wrapping_add(address), ..start };
        let tools = &mut self.tools[number];
        tools.numbers.last_pages = place.last_page;
        tools.numbers.executions = place.executions;
        let mut paper = Paper { code: &file.code, file: start.ip, place, sites: 0, told: Vec::new() };
        let room = Room { hot: place.hot, hot_size: usize::MAX, cold: place.cold, cold_size: usize::MAX };
        let target = Target { room: &room, first_exit: ExitId(place.exit) };
        let made = translate(&self.config, tools, &mut paper, &file.known[number], place.ip, &target);
        // What it shows, it shows to whoever executes it.
        tools.liveness.flags_dead_at_calls = self.config.flags_dead_at_calls;
        let fragment = made.ok()??;
        place.end = fragment.end();
        let takes = Takes {
            last_pages: tools.numbers.last_pages - place.last_page,
            executions: tools.numbers.executions - place.executions,
            sites: paper.sites,
            together: !tools.drafts.page_limits.is_empty(),
        };
        let Paper { told, .. } = paper;
        let drafts = core::mem::take(&mut tools.drafts);
        Some(Made { place, takes, told, code: tools.source.bytes.clone(), fragment, drafts })
    }
}

/// A fragment at a place.
struct Made {
    place: Place,
    takes: Takes,
    told: Vec<Told>,
    /// The program's.
    code: Vec<u8>,
    fragment: Fragment,
    drafts: Drafts,
}

impl Made {
    /// What the owner was told, packed, if it was told the same at the other place.
    fn told_like(&self, other: &Made) -> Option<Vec<u8>> {
        let moved = other.place.ip.wrapping_sub(self.place.ip) as i64;
        let mut packed = Vec::new();
        if self.told.len() != other.told.len() {
            return None;
        }
        for (&one, &there) in self.told.iter().zip(&other.told) {
            let told = match (one, there) {
                _ if one == there => one,
                (Told::Site { site, .. }, Told::Site { site: other, .. }) => {
                    let displacement = site.address.displacement;
                    let address = Address { displacement: displacement.wrapping_add(moved), ..site.address };
                    if other != (Site { address, ..site }) {
                        return None;
                    }
                    let displacement = displacement.wrapping_sub(self.place.ip as i64);
                    Told::Site { site: Site { address: Address { displacement, ..address }, ..site }, at_program: true }
                }
                _ => return None,
            };
            told.pack(&mut packed)?;
        }
        Some(packed)
    }

    /// From where the members' numbers count, counted from the fragment's.
    fn base(&self) -> Base {
        let Base { site, last_page, executions } = self.fragment.metadata.base();
        Base {
            site: site.wrapping_sub(self.place.site),
            last_page: last_page.wrapping_sub(self.place.last_page),
            executions: executions.wrapping_sub(self.place.executions),
        }
    }

    /// Whether it is what the record is at its place.
    fn is(&self, config: &Config, record: &Record<'_>) -> bool {
        let mut drafts = Drafts::default();
        let Some(fragment) = at_place(config, &mut drafts, record, &self.place) else { return false };
        let members = |of: &Fragment| of.metadata.members().iter().collect::<Vec<_>>();
        let of = |fragment: &Fragment| {
            let Fragment { ip, hot, length, hot_length, cold, cold_length, first_exit, returns_at, compares, .. } =
                *fragment;
            (ip, hot, length, hot_length, cold, cold_length, first_exit, returns_at, compares)
        };
        self.takes == record.takes
            && self.code == record.code
            && (&drafts.hot, &drafts.cold) == (&self.drafts.hot, &self.drafts.cold)
            && (drafts.exits == self.drafts.exits && drafts.goes_back == self.drafts.goes_back)
            && of(&fragment) == of(&self.fragment)
            && members(&fragment) == members(&self.fragment)
            && fragment.metadata.packed() == self.fragment.metadata.packed()
            && fragment.rare == self.fragment.rare
    }
}

/// The owner of a cache that is never executed.
struct Paper<'c, C> {
    code: &'c C,
    /// Where the file begins.
    file: u64,
    place: Place,
    sites: u32,
    /// In numbers that count from those of the place.
    told: Vec<Told>,
}

impl<C> Paper<'_, C> {
    fn take_site(&mut self) -> SiteId {
        self.sites += 1;
        SiteId(self.place.site + self.sites - 1)
    }

    fn own(&self, site: SiteId) -> SiteId {
        SiteId(site.0.wrapping_sub(self.place.site))
    }
}

impl<C: ProgramCode> Env for Paper<'_, C> {
    fn read_code(&mut self, address: u64, into: &mut [u8]) -> usize {
        self.code.read(address.wrapping_sub(self.file), into)
    }

    fn changes(&mut self, _: u64, _: u64) -> Changes {
        Changes::Never
    }

    fn new_site(&mut self, site: &Site) -> SiteId {
        let site = Site { ip: site.ip.wrapping_sub(self.place.ip), ..*site };
        self.told.push(Told::Site { site, at_program: false });
        self.take_site()
    }

    fn new_group(&mut self, group: &Group) -> SiteId {
        let last_page = group.last_page.map(|LastPageSlot { id, executions }| LastPageSlot {
            id: crate::LastPageId(id.0.wrapping_sub(self.place.last_page)),
            executions: executions.wrapping_sub(self.place.executions),
        });
        self.told.push(Told::Group(Group { last_page, first: self.own(group.first), members: group.members }));
        if group.members == 1 { group.first } else { self.take_site() }
    }

    fn next_site(&self) -> SiteId {
        SiteId(self.place.site + self.sites)
    }

    fn counted(&mut self, first: SiteId, sites: u32, way: Way) {
        self.told.push(Told::Counted { first: self.own(first), sites, way });
    }

    fn new_segment(&mut self, segment: &Segment) {
        let counter = match segment.counter {
            FetchCounter::Executions(number) => FetchCounter::Executions(number.wrapping_sub(self.place.executions)),
            FetchCounter::Site(site) => FetchCounter::Site(self.own(site)),
            correction => correction,
        };
        let ip = segment.ip.wrapping_sub(self.place.ip);
        self.told.push(Told::Segment(Segment { ip, counter, ..*segment }));
    }

    fn room(&mut self, _: u64) -> Option<Room> {
        None
    }

    fn place(&mut self, _: &Room, _: &[u8], _: &[u8]) {}

    fn patch(&mut self, _: u64, _: i32) {}
}
