//! What the owner of the cache hears of a fragment: its sites, groups and segments, with the numbers that they get.

use super::strategy::{GroupAt, Place};
use crate::abi::segment::{FetchCounter, Segment};
use crate::ir::decode::Decoded;
use crate::ir::member::Ahead;
use crate::ir::numbers::Numbers;
use crate::ir::plan::Plan;
use crate::ir::segments::{Piece, Planned};
use crate::{Config, Env, Error, LastPageId, LastPageSlot, Site, SiteId};
use alloc::vec::Vec;
use numalens_isa::PAGE;

pub(crate) struct Registry<'a, E: Env> {
    pub config: &'a Config,
    pub env: &'a mut E,
    pub numbers: &'a mut Numbers,
    /// The address of the fragment in the program.
    pub start: u64,
    /// Sites that are counted one by one, and the offset of the instruction of each.
    pub sites: Vec<SiteId>,
    pub site_instructions: Vec<u32>,
    /// Accesses of groups.
    pub ahead: Vec<Ahead>,
    /// Sites that are counted by themselves, once whenever their instruction (by its offset) is executed.
    pub once: Vec<(u32, SiteId)>,
    /// Segments and their execution counters.
    pub counted_segments: Vec<(u16, u32)>,
    /// The segments, once it is known what counts them.
    pub pieces: Vec<Piece>,
}

impl<E: Env> Registry<'_, E> {
    /// A site of the instruction at an offset.
    pub fn new_site(&mut self, site: &Site, instruction: u32) -> SiteId {
        let id = self.env.new_site(site);
        self.sites.push(id);
        self.site_instructions.push(instruction);
        id
    }

    /// A record for a last page, or for what has the place of one.
    pub fn new_last_page(&mut self) -> LastPageId {
        let id = LastPageId(self.numbers.last_pages);
        self.numbers.last_pages += 1;
        id
    }

    /// Offset from GS of a new record.
    pub fn new_record(&mut self) -> Result<u32, Error> {
        let record = self.record(LastPageId(self.numbers.last_pages))?;
        self.numbers.last_pages += 1;
        Ok(record)
    }

    /// Offset from GS of the record of a last page.
    pub fn record(&self, last_page: LastPageId) -> Result<u32, Error> {
        self.config.last_page_record(last_page).ok_or(Error::TooMany)
    }

    /// Gives the group its sites, and its records where there are several.
    pub fn register_group<'p>(
        &mut self,
        plan: &'p Plan,
        number: u16,
        last_page: Option<LastPageSlot>,
        live: u16,
    ) -> Result<GroupAt<'p>, Error> {
        let group = plan.groups.get(usize::from(number)).ok_or(Error::TooMany)?;
        let from = plan.members.partition_point(|member| member.group < number);
        let members = &plan.members[from..from + usize::from(group.members)];
        let mut first = SiteId(0);
        for (index, member) in members.iter().enumerate() {
            let id = self.env.new_site(&Site::new(member.ip, &member.access));
            self.config.site_counter(id, 0).ok_or(Error::TooMany)?;
            if index == 0 {
                first = id;
            }
            self.ahead.push(Ahead {
                site: id,
                last_page,
                instruction: (member.ip - self.start) as u32,
                group: number,
                segment: group.segment,
                megamorphic: group.megamorphic || group.is_constant(),
            });
        }
        let row = match last_page {
            None if group.members == 1 => first,
            _ => self.env.new_group(&crate::Group { last_page, first, members: group.members.into() }),
        };
        let [record, executions] = match last_page {
            Some(last_page) => {
                [self.config.last_page_record(last_page.id), self.config.execution_counter(last_page.executions)]
            }
            None => [Some(0); 2],
        };
        let place = Place {
            last_page,
            record: record.ok_or(Error::TooMany)?,
            executions: executions.ok_or(Error::TooMany)?,
            row: self.config.site_counter(row, 0).ok_or(Error::TooMany)?,
            first_row: self.config.site_counter(first, 0).ok_or(Error::TooMany)?,
            first,
        };
        Ok(GroupAt { group, members, place, live })
    }

    /// An execution counter for a segment: its offset from GS.
    pub fn new_execution_counter(&mut self, segment: u16) -> Result<u32, Error> {
        let number = self.numbers.executions;
        let offset = self.config.execution_counter(number).ok_or(Error::TooMany)?;
        self.numbers.executions += 1;
        self.counted_segments.push((segment, number));
        Ok(offset)
    }

    /// Registers what counts the executions of each segment, now that all code is written.
    pub fn register_segments(&mut self, list: &[Decoded], planned: &[Planned]) {
        let start = self.start;
        let offset = |number: usize| list.get(number).map_or(u64::MAX, |one| one.instruction.ip()) - start;
        let mut told: Option<Segment> = None;
        for (segment, part) in (0u16..).zip(planned).filter(|(_, part)| part.from < part.to) {
            let last = &list[part.to - 1];
            let (from, to) = (offset(part.from) as u32, (offset(part.to - 1) + last.length as u64) as u32);
            let within = |at: u32| (from..to).contains(&at);
            let executions = self.counted_segments.iter().find(|(number, _)| *number == segment);
            let member = || self.ahead.iter().filter(|one| one.segment == segment).min_by_key(|one| one.instruction);
            let (counter, counted_at) = if let Some(&(_, executions)) = executions {
                (FetchCounter::Executions(executions), Piece::BY_EXECUTION)
            } else if let Some(member) = member() {
                (FetchCounter::Site(member.site), member.instruction as u16)
            } else if let Some(&(at, site)) = self.once.iter().find(|(at, _)| within(*at)) {
                (FetchCounter::Site(site), at as u16)
            } else {
                continue;
            };
            self.pieces.push(Piece { from: from as u16, to: to as u16, counted_at });
            for one in &list[part.from..part.to] {
                let ip = one.instruction.ip();
                match &mut told {
                    Some(told) if told.counter == counter && told.ip / PAGE == ip / PAGE => told.instructions += 1,
                    _ => {
                        let before = told.replace(Segment { ip, instructions: 1, counter });
                        before.iter().for_each(|segment| self.env.new_segment(segment));
                    }
                }
            }
        }
        told.iter().for_each(|segment| self.env.new_segment(segment));
    }
}
