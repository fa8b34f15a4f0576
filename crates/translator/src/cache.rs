//! The code cache: which fragments there are, how they are linked, and what stands at an address.

mod by_address;
pub(crate) mod evict;

use crate::abi::registers::{RAX, RCX};
use crate::abi::segment::{FetchCounter, Segment};
use crate::abi::what::{RetranslateReason, Retranslation};
use crate::emit::{Code, Memory};
use crate::fragment::links::{Chain, Links};
use crate::fragment::{Fragment, Position};
use crate::ir::decode::pages;
use crate::ir::exit::{Exit, ExitKind};
use crate::ir::far::{FarReturn, Obstacle};
use crate::persist::relocate::relocated;
use crate::translate::{Target, Tools, relay, translate};
use crate::{Config, CpuQuery, Env, Error, ExitId, FragmentId, FragmentLimits, Room, Scheme, SiteId, context};
use alloc::boxed::Box;
use alloc::vec::Vec;
use by_address::ByAddress;
use core::num::NonZeroU64;
use core::ops::Range;
use hashbrown::HashMap;
use numalens_isa::PAGE;

/// What the program wants to do at an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Go on in the cache at this address, with all registers of the program in place.
    Enter(u64),
    /// A system call. Either do what it does, set rcx to `next` and go on at [`Cache::entry`] of `next`; or go on in
    /// the cache at `execute`, with all registers in place, where it is executed and followed by what comes after it.
    Syscall {
        /// The address of the instruction.
        ip: u64,
        /// The address after it.
        next: u64,
        /// The address in the cache of a copy of it.
        execute: u64,
    },
    /// An instruction by which the program asks its observer for something ([`numalens_isa::is_request`]). When that is
    /// done, go on at [`Cache::entry`] of `next`.
    Request {
        /// The address after the instruction.
        next: u64,
    },
    /// An instruction by which the program asks for its CPU, where that is not the host's. When its registers have the
    /// answer, go on at [`Cache::entry`] of `next`.
    CpuQuery {
        /// What it asks.
        query: CpuQuery,
        /// The address after the instruction.
        next: u64,
    },
    /// An address that is watched ([`crate::Watch::Reached`]). Go on in the cache at `execute`, with all registers in
    /// place.
    Reached {
        /// The address.
        ip: u64,
        /// The address in the cache of what stands there.
        execute: u64,
    },
    /// A system call by 32-bit rules (`int 0x80`), as [`Leave::Syscall`], but that rcx and r11 stay what they are.
    OldSyscall {
        /// The address of the instruction.
        ip: u64,
        /// The address after it.
        next: u64,
        /// The address in the cache of a copy of it.
        execute: u64,
    },
    /// A return that takes more than rip off the stack. When stack pointer and flags are what it makes of them, go on
    /// at [`Cache::entry`] of where it goes.
    Returns {
        /// The address of the instruction.
        ip: u64,
        /// What it takes.
        how: FarReturn,
    },
    /// An instruction that cannot be translated.
    Unsupported {
        /// The address of the instruction.
        ip: u64,
        /// Why not.
        why: Obstacle,
    },
}

/// A target of indirect jumps, or of returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landing {
    /// For the lookup table of the thread, at [`Config::lookup_entry`]: code that checks that it is the right target,
    /// then takes the program's rax and rcx (after returns: rcx) from `context::REGISTERS`.
    pub checked: u64,
    /// Where to go on now, with all registers of the program in place.
    pub entry: u64,
}

/// What stands at `branch` in a jump to `target`; none: it is out of reach.
fn displacement(branch: u64, target: u64) -> Option<i32> {
    i32::try_from(target.wrapping_sub(branch + 4) as i64).ok()
}

/// The code cache. It has no lock: the owner has.
pub struct Cache {
    pub(crate) config: Config,
    tools: Tools,
    /// `None`: evicted.
    pub(crate) fragments: Vec<Option<Box<Fragment>>>,
    pub(crate) by_ip: HashMap<u64, FragmentId>,
    pub(crate) by_page: HashMap<u64, Vec<FragmentId>>,
    /// Where returns to an address go.
    pub(crate) returns: HashMap<u64, u64>,
    /// Which fragment an exit belongs to, and which ones jump to the same.
    pub(crate) links: Links,
    /// Fragments by the addresses of their halves.
    pub(crate) hot: ByAddress<FragmentId>,
    pub(crate) cold: ByAddress<FragmentId>,
    /// Fragments by the first of their sites that are counted in groups: in order, as numbers are given so.
    by_site: Vec<(SiteId, FragmentId)>,
    /// Landings by the address of their code: for jumps to which address of the program they are.
    pub(crate) landings: ByAddress<u64>,
    /// Execution counters that correct how many instructions of a page were executed.
    corrections: HashMap<u64, u32>,
}

/// Bytes of the code of a landing, at most.
const LANDING: u64 = 64;
/// Where the upper half of its tag lies.
const TAG: u64 = 8;

impl Cache {
    /// Free bytes that [`Env::room`] must offer in each half: more than any fragment can take.
    pub const ROOM: usize = 64 * 1024;
    /// Instructions in a fragment at most, whatever the configuration says.
    const INSTRUCTIONS: usize = 128;

    /// An empty one.
    pub fn new(config: Config) -> Self {
        let FragmentLimits { instructions, in_a_row, side_exits } = config.fragments;
        let [instructions, in_a_row] = [instructions, in_a_row].map(|most| most.clamp(1, Self::INSTRUCTIONS));
        let config = Config { fragments: FragmentLimits { instructions, in_a_row, side_exits }, ..config };
        Cache {
            tools: Tools::new(&config),
            config,
            fragments: Vec::new(),
            by_ip: HashMap::new(),
            by_page: HashMap::new(),
            by_site: Vec::new(),
            returns: HashMap::new(),
            links: Links::default(),
            hot: ByAddress::new(),
            cold: ByAddress::new(),
            landings: ByAddress::new(),
            corrections: HashMap::new(),
        }
    }

    /// How it translates.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How many fragments were ever translated, and how many exits they have.
    pub fn size(&self) -> (usize, usize) {
        (self.fragments.len(), self.links.len())
    }

    /// The address in the cache of the fragment at `ip`, translated if there is none.
    pub fn entry(&mut self, env: &mut impl Env, ip: u64) -> Result<u64, Error> {
        self.fragment(env, ip).map(|id| self.entry_of(id))
    }

    pub(crate) fn get(&self, id: FragmentId) -> Option<&Fragment> {
        self.fragments.get(id.0 as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, id: FragmentId) -> Option<&mut Fragment> {
        self.fragments.get_mut(id.0 as usize)?.as_deref_mut()
    }

    /// Of a fragment that is there.
    fn entry_of(&self, id: FragmentId) -> u64 {
        self.get(id).map_or(0, |fragment| fragment.hot)
    }

    /// An exit, with the fragment that it belongs to.
    fn exit(&self, id: ExitId) -> Option<(&Fragment, Exit)> {
        let fragment = self.get(self.links.from(id)?)?;
        let exit = fragment.exits().nth((id.0 - fragment.first_exit.0) as usize)?;
        Some((fragment, exit))
    }

    fn fragment(&mut self, env: &mut impl Env, ip: u64) -> Result<FragmentId, Error> {
        if let Some(&id) = self.by_ip.get(&ip) {
            return Ok(id);
        }
        let room = env.room(ip).filter(|room| room.hot_size >= Self::ROOM && room.cold_size >= Self::ROOM);
        let Some(room) = room else {
            // Jumps into nowhere may go where no room can be.
            let is_code = env.read_code(ip, &mut [0]) != 0;
            return Err(if is_code { Error::NoRoom { ip } } else { Error::Unreadable { ip, at: ip } });
        };
        let id = FragmentId(self.fragments.len() as u32);
        let first_exit = ExitId(self.links.len() as u32);
        let target = Target { room: &room, first_exit };
        let fragment = match self.persisted(env, ip, &target) {
            Some(fragment) => fragment,
            None => {
                let Some(fragment) = translate(&self.config, &mut self.tools, env, &self.by_ip, ip, &target)? else {
                    self.invalidate(env, 0..u64::MAX);
                    return self.fragment(env, ip);
                };
                env.translated(ip);
                fragment
            }
        };
        let links = self.link(&room);
        env.place(&room, &self.tools.drafts.hot, &self.tools.drafts.cold);
        self.by_ip.insert(ip, id);
        for page in pages(ip..fragment.end()) {
            self.by_page.entry(page).or_default().push(id);
        }
        if let Some(at) = fragment.returning() {
            self.returns.insert(fragment.end(), at);
        }
        let members = fragment.metadata.members().iter().map(|one| one.site);
        let single = fragment.compares.then(|| fragment.sites().iter().copied());
        if let Some(first) = members.chain(single.into_iter().flatten()).min() {
            self.by_site.push((first, id));
        }
        self.keep(fragment);
        for (exit, to) in links {
            self.linked(exit, to);
        }
        Ok(id)
    }

    /// The fragment at `ip`, if it is persisted and nothing is known that it does not know.
    fn persisted(&mut self, env: &mut impl Env, ip: u64, target: &Target<'_>) -> Option<Fragment> {
        let Tools { liveness, learned, .. } = &self.tools;
        if liveness.flags_dead_at_calls != self.config.flags_dead_at_calls || learned.fragments.contains(&ip) {
            return None;
        }
        let record = env.persisted(ip)?;
        relocated(&self.config, &mut self.tools, env, record, ip, target)
    }

    /// Has the jumps of the fragment that was just made go directly to fragments that are there already: returns which
    /// exits lead to which fragments.
    fn link(&mut self, room: &Room) -> Vec<(ExitId, FragmentId)> {
        let first = self.links.len() as u32;
        let mut links = Vec::new();
        for number in 0..self.tools.drafts.exits.len() {
            let Exit { kind, target, .. } = self.tools.drafts.exits[number];
            let ExitKind::Direct { branch } = kind else { continue };
            let Some(&to) = self.by_ip.get(&target) else { continue };
            let Some(short) = displacement(branch, self.entry_of(to)) else { continue };
            let at = (branch - room.hot) as usize;
            self.tools.drafts.hot[at..at + 4].copy_from_slice(&short.to_le_bytes());
            links.push((ExitId(first + number as u32), to));
        }
        links
    }

    /// An exit jumps to a fragment.
    fn linked(&mut self, exit: ExitId, to: FragmentId) {
        if let Some(to) = self.fragments.get_mut(to.0 as usize).and_then(Option::as_mut) {
            self.links.push(&mut to.incoming, exit);
        }
    }

    /// Takes in a fragment that is in its place.
    fn keep(&mut self, mut fragment: Fragment) {
        let id = FragmentId(self.fragments.len() as u32);
        self.links.add(id, self.tools.drafts.exits.len());
        if let Some(goes_back) = self.tools.drafts.goes_back {
            self.links.push(&mut fragment.incoming, goes_back);
        }
        self.hot.insert(fragment.hot, id);
        if fragment.cold_length > 0 {
            self.cold.insert(fragment.cold(), id);
        }
        self.fragments.push(Some(Box::new(fragment)));
    }

    /// What an exit wants. Links it, where it is a jump, so that it does not come again.
    pub fn leave(&mut self, env: &mut impl Env, id: ExitId) -> Result<Leave, Error> {
        let (fragment, Exit { kind, target, .. }) = self.exit(id).ok_or(Error::NoExit(id))?;
        match kind {
            ExitKind::Unsupported(why) => Ok(Leave::Unsupported { ip: target, why }),
            ExitKind::Returns(how) => Ok(Leave::Returns { ip: target, how }),
            ExitKind::OldSyscall { execute } => Ok(Leave::OldSyscall { ip: target, next: fragment.end(), execute }),
            // The only system call of a fragment is its last instruction.
            ExitKind::Syscall { execute } => Ok(Leave::Syscall { ip: target, next: fragment.end(), execute }),
            ExitKind::Request => Ok(Leave::Request { next: fragment.end() }),
            ExitKind::CpuQuery(query) => Ok(Leave::CpuQuery { query, next: fragment.end() }),
            ExitKind::Reached { execute } => Ok(Leave::Reached { ip: target, execute }),
            ExitKind::News => self.entry(env, target).map(Leave::Enter),
            ExitKind::Stale => {
                let range = fragment.ip..fragment.end();
                self.invalidate(env, range);
                self.entry(env, target).map(Leave::Enter)
            }
            ExitKind::Direct { branch } => {
                // Fragments that are dead too: returns come there until the cache is evicted.
                // The stub of a jump back may have executions to count.
                let counts_iterations = fragment.counts_at_its_end() && target == fragment.ip;
                let from = self.links.from(id).ok_or(Error::NoExit(id))?;
                let to = self.fragment(env, target)?;
                let entry = self.entry_of(to);
                let again = self.get(to).and_then(Fragment::loop_start).filter(|_| from == to);
                if counts_iterations && again.is_none() {
                    return Ok(Leave::Enter(entry));
                }
                if let Some(short) = displacement(branch, again.unwrap_or(entry)) {
                    env.patch(branch, short);
                    self.linked(id, to);
                }
                Ok(Leave::Enter(entry))
            }
        }
    }

    /// Where an indirect jump to `ip` goes.
    pub fn landing(&mut self, env: &mut impl Env, ip: u64) -> Result<Landing, Error> {
        let id = self.fragment(env, ip)?;
        let entry = self.entry_of(id);
        if let Some(checked) = self.get(id).and_then(|fragment| fragment.landing) {
            return Ok(Landing { checked: checked.get(), entry });
        }
        let room = env.room(ip).filter(|room| room.hot_size >= Self::ROOM).ok_or(Error::NoRoom { ip })?;
        let mut code = Code::new(room.hot);
        // The upper half of the tag can be replaced at once: it begins at `TAG`, as the code is 8-aligned.
        code.raw(&[0x66, 0x90]);
        code.raw(&[0x48, 0xb9]); // mov rcx, -ip
        code.imm64(ip.wrapping_neg());
        code.lea(RCX, Memory::Flat { base: Some(RCX), index: Some(RAX), scale: 1, displacement: 0 });
        code.raw(&[0xe3, 0]); // jrcxz past the next
        let from = code.bytes.len();
        code.jump_context(None, context::LOOKUP_MISS);
        code.bytes[from - 1] = (code.bytes.len() - from) as u8;
        code.load(RCX, Memory::context(context::register(RCX)));
        code.load(RAX, Memory::context(context::register(RAX)));
        let field = code.relative(&[0xe9]);
        if !code.resolve(field, entry) {
            return Err(Error::OutOfReach { ip, target: entry });
        }
        code.align(8, 0xcc);
        env.place(&room, &code.bytes, &[]);
        self.landings.insert(room.hot, ip);
        if let Some(fragment) = self.get_mut(id) {
            fragment.landing = NonZeroU64::new(room.hot);
        }
        Ok(Landing { checked: room.hot, entry })
    }

    /// Where a return to `ip` goes. What is checked is for the table of the thread, at [`Config::return_entry`]; it is
    /// valid until its range is closed ([`Cache::close`]), whatever becomes of the program's code.
    pub fn returning(&mut self, env: &mut impl Env, ip: u64) -> Result<Landing, Error> {
        let id = self.fragment(env, ip)?;
        let entry = self.entry_of(id);
        if let Some(&checked) = self.returns.get(&ip) {
            return Ok(Landing { checked, entry });
        }
        // Not the return of a call that was translated.
        let room = env.room(ip).filter(|room| room.hot_size >= Self::ROOM && room.cold_size >= Self::ROOM);
        let room = room.ok_or(Error::NoRoom { ip })?;
        let target = Target { room: &room, first_exit: ExitId(self.links.len() as u32) };
        let fragment = relay(&self.config, &mut self.tools, env, ip, &target)?;
        env.place(&room, &self.tools.drafts.hot, &self.tools.drafts.cold);
        let checked = fragment.hot;
        self.keep(fragment);
        self.returns.insert(ip, checked);
        Ok(Landing { checked, entry })
    }

    /// A fragment is translated again when it is next entered: as a group is megamorphic, with its look-up in place; as
    /// the class of a megamorphic one changes as well, without any last page for it, or its direct table does not pay,
    /// without one; as the loop is short, without a page limit; as it has had many iterations, with last pages. The
    /// thread that says so finishes its execution.
    pub fn retranslate(&mut self, env: &mut impl Env, retranslation: Retranslation) {
        let Some((id, fragment)) = self.fragment_at(retranslation.at) else { return };
        let ip = fragment.ip;
        if fragment.dead {
            return;
        }
        let loops = match retranslation.why {
            RetranslateReason::ShortLoop => Some(&mut self.tools.learned.short),
            RetranslateReason::LongLoop => Some(&mut self.tools.learned.long),
            RetranslateReason::Page | RetranslateReason::Class | RetranslateReason::Direct => None,
        };
        if let Some(loops) = loops {
            loops.insert(ip);
            self.tools.learned.fragments.insert(ip);
            return self.kill(env, id);
        }
        let Some(fragment) = self.get(id) else { return };
        let all = fragment.metadata.members();
        let group = all.iter().find(|one| {
            one.site == retranslation.site && (retranslation.why != RetranslateReason::Page || !one.megamorphic)
        });
        let Some(group) = group.map(|one| one.group) else { return };
        let members = all.iter().filter(|one| one.group == group);
        let instructions: Vec<u64> = members.map(|one| ip + u64::from(one.instruction)).collect();
        match retranslation.why {
            RetranslateReason::Class => self.tools.learned.any_class.extend(&instructions),
            RetranslateReason::Direct => self.tools.learned.no_direct.extend(&instructions),
            _ => {}
        }
        self.tools.learned.megamorphic.extend(instructions);
        self.tools.learned.fragments.insert(ip);
        self.kill(env, id);
    }

    /// A site has counted many accesses: its fragment is translated again when it is next entered, with last pages for
    /// its groups if it has none, as they will pay, and without comparing its code, where the owner can tell when that
    /// changes. Only with [`Scheme::LongLoops`].
    pub fn tier_up(&mut self, env: &mut impl Env, site: SiteId) {
        if self.config.scheme != Scheme::LongLoops || self.config.each.is_some() {
            return;
        }
        let at = self.by_site.partition_point(|&(first, _)| first <= site);
        let Some(&(_, id)) = at.checked_sub(1).and_then(|at| self.by_site.get(at)) else { return };
        let Some(fragment) = self.get(id).filter(|fragment| !fragment.dead) else { return };
        let ip = fragment.ip;
        let members = fragment.metadata.members();
        // Sites that are counted one by one, and fragments without groups, have numbers in between.
        let is_of_a_group = members.iter().any(|one| one.site == site);
        let pages = ip & !(PAGE - 1)..fragment.end().next_multiple_of(PAGE);
        let is_its = is_of_a_group || fragment.sites().contains(&site);
        if fragment.compares && is_its && env.write_protect(pages.start, pages.end) {
            self.tools.learned.long.insert(ip);
            self.tools.learned.fragments.insert(ip);
            return self.invalidate(env, pages);
        }
        if is_of_a_group && members.iter().all(|one| one.last_page.is_none()) && self.tools.learned.long.insert(ip) {
            self.tools.learned.fragments.insert(ip);
            self.kill(env, id);
        }
    }

    /// The fragment that an address in the cache belongs to.
    fn fragment_at(&self, address: u64) -> Option<(FragmentId, &Fragment)> {
        let holds = |(_, id)| Some((id, self.get(id)?)).filter(|(_, fragment)| fragment.holds(address));
        self.hot.last_up_to(address).and_then(holds).or_else(|| self.cold.last_up_to(address).and_then(holds))
    }

    /// The program's code in `range` is no longer what it was: nothing goes to its translations any more. Threads that
    /// are inside one finish it.
    pub fn invalidate(&mut self, env: &mut impl Env, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.tools.liveness.forget();
        let pages = range.start / PAGE..(range.end - 1) / PAGE + 1;
        let touched: Vec<u64> = if pages.end - pages.start > self.by_page.len() as u64 {
            self.by_page.keys().copied().filter(|page| pages.contains(page)).collect()
        } else {
            pages.filter(|page| self.by_page.contains_key(page)).collect()
        };
        for page in touched {
            let Some(mut fragments) = self.by_page.remove(&page) else { continue };
            fragments.retain(|&id| !self.kill_if_within(env, id, &range));
            if !fragments.is_empty() {
                self.by_page.insert(page, fragments);
            }
        }
    }

    /// Words of a page are no longer what they were, which nobody has looked at but for translating them: as
    /// [`Cache::invalidate`], and cheap where they are no code.
    pub fn changed(&mut self, env: &mut impl Env, words: impl Iterator<Item = Range<u64>>) {
        self.tools.liveness.window.forget();
        for range in words {
            let fragments = self.by_page.get(&(range.start / PAGE)).map_or(&[][..], Vec::as_slice);
            let mut fragments = fragments.iter().filter_map(|&id| self.get(id));
            if fragments.any(|fragment| !fragment.dead && fragment.ip < range.end && range.start < fragment.end()) {
                self.invalidate(env, range);
            }
        }
    }

    /// `true` when the fragment is dead or gone.
    fn kill_if_within(&mut self, env: &mut impl Env, id: FragmentId, range: &Range<u64>) -> bool {
        match self.get(id) {
            Some(fragment) if !fragment.dead && (fragment.end() <= range.start || range.end <= fragment.ip) => false,
            Some(fragment) if !fragment.dead => {
                self.kill(env, id);
                true
            }
            _ => true,
        }
    }

    /// Has nothing go to a fragment any more.
    pub(crate) fn kill(&mut self, env: &mut impl Env, id: FragmentId) {
        let Some(fragment) = self.get_mut(id).filter(|fragment| !fragment.dead) else { return };
        fragment.dead = true;
        env.died(fragment.hot, fragment.hot_length + fragment.cold_length);
        let (ip, landing) = (fragment.ip, fragment.landing);
        if self.by_ip.get(&ip) == Some(&id) {
            self.by_ip.remove(&ip);
        }
        if let Some(landing) = landing {
            // An address that no jump can have.
            env.patch(landing.get() + TAG, i32::MIN + 1);
        }
        self.unlink_incoming(env, id);
    }

    /// Has the jumps that lead to a fragment go to their stubs again.
    pub(crate) fn unlink_incoming(&mut self, env: &mut impl Env, id: FragmentId) {
        let Some(fragment) = self.get_mut(id) else { return };
        let mut chain = core::mem::replace(&mut fragment.incoming, Chain::EMPTY);
        while let Some(exit) = self.links.pop(&mut chain) {
            let Some((_, Exit { kind: ExitKind::Direct { branch }, stub, .. })) = self.exit(exit) else { continue };
            if let Some(short) = displacement(branch, stub) {
                env.patch(branch, short);
            }
        }
    }

    /// The number of the execution counter that [`crate::Unexecuted`] instructions of the page at `page` are added to;
    /// none: there is no room for more.
    pub fn correction(&mut self, env: &mut impl Env, page: u64) -> Option<u32> {
        if let Some(&known) = self.corrections.get(&page) {
            return Some(known);
        }
        let number = self.tools.numbers.executions;
        self.config.execution_counter(number)?;
        self.tools.numbers.executions += 1;
        env.new_segment(&Segment { ip: page, instructions: 1, counter: FetchCounter::Correction(number) });
        self.corrections.insert(page, number);
        Some(number)
    }

    /// What stands at an address in the cache.
    pub fn locate(&self, address: u64) -> Option<Position<'_>> {
        if let Some((_, fragment)) = self.fragment_at(address) {
            return fragment.locate(address);
        }
        let (start, _) = self.landings.last_up_to(address)?;
        (address - start < LANDING).then(|| Position::leaving(0, 0, 1 << RAX | 1 << RCX))
    }
}
