//! A world on paper: code is translated for addresses that nothing is mapped at, and read, not run.

use numalens_translator::{
    Cache, Changes, Config, Env, FragmentLimits, Group, Room, Scheme, Segment, Shadow, Site, SiteId, Way,
};

pub const HOT: u64 = 0x1000_0000;
pub const COLD: u64 = 0x3000_0000;

/// The program's code at `base`, and what was made of it.
pub struct Paper {
    pub program: Vec<u8>,
    pub base: u64,
    pub changes: Changes,
    pub sites: Vec<Site>,
    pub segments: Vec<Segment>,
    /// Of so many sites.
    pub ways: Vec<(u32, Way)>,
    pub hot: Vec<u8>,
    pub cold: Vec<u8>,
}

impl Paper {
    pub fn new(program: Vec<u8>, base: u64) -> Paper {
        Paper {
            program,
            base,
            changes: Changes::Never,
            sites: Vec::new(),
            segments: Vec::new(),
            ways: Vec::new(),
            hot: Vec::new(),
            cold: Vec::new(),
        }
    }
}

impl Env for Paper {
    fn read_code(&mut self, address: u64, into: &mut [u8]) -> usize {
        let code = address.checked_sub(self.base).and_then(|offset| self.program.get(offset as usize..)).unwrap_or(&[]);
        let length = code.len().min(into.len());
        into[..length].copy_from_slice(&code[..length]);
        length
    }

    fn changes(&mut self, _: u64, _: u64) -> Changes {
        self.changes
    }

    fn new_site(&mut self, site: &Site) -> SiteId {
        self.sites.push(*site);
        SiteId(self.sites.len() as u32 - 1)
    }

    fn new_group(&mut self, group: &Group) -> SiteId {
        if group.members == 1 { group.first } else { self.new_site(&self.sites[group.first.0 as usize].clone()) }
    }

    fn counted(&mut self, _: SiteId, sites: u32, way: Way) {
        self.ways.push((sites, way));
    }

    fn next_site(&self) -> SiteId {
        SiteId(self.sites.len() as u32)
    }

    fn new_segment(&mut self, segment: &Segment) {
        self.segments.push(*segment);
    }

    fn room(&mut self, _: u64) -> Option<Room> {
        let (hot, cold) = (HOT + self.hot.len() as u64, COLD + self.cold.len() as u64);
        Some(Room { hot, hot_size: Cache::ROOM, cold, cold_size: Cache::ROOM })
    }

    fn place(&mut self, _: &Room, hot: &[u8], cold: &[u8]) {
        assert!(hot.len() <= Cache::ROOM && cold.len() <= Cache::ROOM);
        self.hot.extend_from_slice(hot);
        self.cold.extend_from_slice(cold);
    }

    fn patch(&mut self, _: u64, _: i32) {}
}

pub const CONFIG: Config = Config {
    count: true,
    code: false,
    stack_operands: false,
    stack_operations: false,
    shadow: Shadow::At(0x7000_0000),
    lookup: 0x20_0000,
    lookup_bits: 18,
    sites: 0x100_0000,
    pages: 0x4000_0000,
    updates: -0x4000_0000,
    fragments: FragmentLimits { instructions: 64, in_a_row: 16, side_exits: 4 },
    flags_dead_at_calls: true,
    own_processor: false,
    scheme: Scheme::LastPage,
    each: None,
    most_sites: 1 << 20,
    last_pages: 0x1000_0000,
    executions: 0x1800_0000,
    touched: 0x40_0000,
    direct: -0x5000_0000,
    direct_pages: 1 << 18,
};
