//! From the program's code at an address to a fragment.
//!
//! Three passes: decode up to the end of the fragment, find what is live before each instruction, write the code. The
//! writer keeps the program's registers in place except for those that [`crate::emit::scratch`] has spilled, and puts
//! all back before control leaves the fragment.

mod builder;
mod compare;
mod exits;
mod leave;
mod returns;

use crate::counting::tier_up::{count_until_tier_up, free_register};
use crate::fragment::Fragment;
use crate::fragment::drafts::Drafts;
use crate::ir::decode::{Decoded, Source, decode, find_live, is_loop};
use crate::ir::liveness::Liveness;
use crate::ir::loops::LoopBody;
use crate::ir::mark::State;
use crate::ir::numbers::Numbers;
use crate::ir::plan::Plan;
use crate::ir::segments::{Planned, segments};
use crate::{Changes, Config, Env, Error, FragmentId, Scheme, Watch};
use alloc::vec::Vec;
pub(crate) use builder::{Builder, Target};
use compare::compare_code;
use hashbrown::{HashMap, HashSet};
use iced_x86::FlowControl;
use numalens_isa::Access;

/// What executions have shown of the program's code, by the address of an instruction or a fragment.
#[derive(Default)]
pub(crate) struct Learned {
    /// Instructions of the program whose groups are megamorphic.
    pub megamorphic: HashSet<u64>,
    /// Those of them whose classes change too often as well.
    pub any_class: HashSet<u64>,
    /// And those that have no direct table.
    pub no_direct: HashSet<u64>,
    /// Fragments that are loops of few iterations, each time that they are entered.
    pub short: HashSet<u64>,
    /// Fragments that have had many iterations altogether.
    pub long: HashSet<u64>,
    /// All fragments of which they have shown something: what is persisted does not know it.
    pub fragments: HashSet<u64>,
}

/// What is kept from fragment to fragment.
pub(crate) struct Tools {
    pub source: Source,
    pub liveness: Liveness,
    pub groups: Plan,
    pub segments: Vec<Planned>,
    /// Of the fragment that was made last, both halves of its code among it.
    pub drafts: Drafts,
    pub numbers: Numbers,
    pub learned: Learned,
}

impl Tools {
    pub fn new(config: &Config) -> Self {
        Tools {
            source: Source::default(),
            liveness: Liveness::new(config),
            groups: Plan::default(),
            segments: Vec::new(),
            drafts: Drafts::default(),
            numbers: Numbers::default(),
            learned: Learned::default(),
        }
    }
}

/// What a fragment is to become, before its code is written.
#[derive(Clone, Copy)]
pub(crate) struct FragmentPlan<'a> {
    pub ip: u64,
    /// Behind its last instruction.
    pub end: u64,
    pub list: &'a [Decoded],
    /// The program's code.
    pub bytes: &'a [u8],
    /// Of all instructions.
    pub accesses: &'a [Access],
    pub groups: &'a Plan,
    pub segments: &'a [Planned],
    /// It begins by comparing its code.
    pub compares: bool,
    /// It is a loop that may be short: its iterations are counted with this register.
    pub tier_up: Option<u8>,
}

/// Translates the fragment at `ip` for `target`. The fragment's code is complete but not yet placed. None, where the
/// fragment shows that others were translated in a wrong belief ([`crate::ir::flags_abi`]): they are to be invalidated,
/// and then this is to be translated.
pub(crate) fn translate(
    config: &Config,
    tools: &mut Tools,
    env: &mut impl Env,
    known: &HashMap<u64, FragmentId>,
    ip: u64,
    target: &Target<'_>,
) -> Result<Option<Fragment>, Error> {
    let as_it_is = Config { count: false, ..*config };
    let config = if env.is_counted(ip) { config } else { &as_it_is };
    decode(config, env, known, ip, &mut tools.liveness, &mut tools.source)?;
    if tools.liveness.learn(env, &tools.source.list) {
        return Ok(None);
    }
    let (plan, drafts, numbers) = plan(config, tools, env, ip);
    let (fragment, made) = write(Builder::new(config, env, plan, target, drafts.take(), numbers))?;
    *drafts = made;
    Ok(Some(fragment))
}

/// Decides how the fragment that was decoded is counted.
fn plan<'t>(
    config: &Config,
    tools: &'t mut Tools,
    env: &mut impl Env,
    ip: u64,
) -> (FragmentPlan<'t>, &'t mut Drafts, &'t mut Numbers) {
    let Tools { source, liveness, groups, segments: planned, drafts, numbers, learned } = tools;
    let Source { list, bytes, accesses } = source;
    let end = ip + bytes.len() as u64;
    let changes = env.changes(ip, end);
    let in_loop = is_loop(ip, list);
    let is_long = learned.long.contains(&ip);
    let may_be_short = config.scheme == Scheme::LongLoops && in_loop && !is_long;
    find_live(list, liveness, env, end, changes, in_loop && !may_be_short);
    let tier_up = if may_be_short { free_register(list) } else { None };
    if may_be_short && tier_up.is_none() {
        find_live(list, liveness, env, end, changes, true);
    }
    if config.count && config.scheme != Scheme::Flat && config.each.is_none() {
        let last_pages = config.scheme == Scheme::LastPage || in_loop && tier_up.is_none() || is_long;
        groups.make(list, accesses, !last_pages, [&learned.megamorphic, &learned.any_class]);
        if in_loop {
            groups.direct(config, numbers, &learned.no_direct);
        }
        // Page limits take room that last pages may need.
        let roomy = numbers.last_pages < config.most_sites / 2;
        let wanted = !groups.immediate && changes == Changes::Never && roomy && !learned.short.contains(&ip);
        if wanted && let Some(body) = LoopBody::of(list) {
            groups.advance(list, &body);
        }
        groups.sort();
    } else {
        groups.clear();
    }
    planned.clear();
    if config.code && config.count {
        segments(list, accesses, groups, planned);
    }
    let tier_up = tier_up.filter(|_| !groups.groups.is_empty());
    let compares = changes == Changes::Silently;
    (FragmentPlan { ip, end, list, bytes, accesses, groups, segments: planned, compares, tier_up }, drafts, numbers)
}

/// Writes the code of a fragment as planned.
fn write<E: Env>(mut builder: Builder<'_, E>) -> Result<(Fragment, Drafts), Error> {
    let FragmentPlan { ip, end, list, bytes, compares, tier_up, .. } = builder.plan;
    builder.out.scratch.uses.extend(list.iter().map(|one| one.usage.reads | one.usage.kills));
    builder.out.map_hot(State::Before);
    if compares {
        compare_code(&mut builder.out, &mut builder.exits, bytes)?;
    }
    match builder.counting.registry.env.watch(ip) {
        Some(Watch::Reached) => builder.reached()?,
        Some(Watch::Pointee(register)) => builder.probe(register)?,
        None => {}
    }
    if let Some(register) = tier_up
        && let Ok(record) = builder.counting.registry.new_record()
    {
        count_until_tier_up(&mut builder.out, record, register)?;
    }
    builder.begin_loop(list.first().map_or(u16::MAX, |one| one.before.registers))?;
    let mut closed = false;
    for (number, one) in list.iter().enumerate() {
        let at = (one.instruction.ip() - ip) as usize;
        builder.begin(number, one);
        builder.counting.end_derived(&mut builder.out, number, one.before.registers);
        builder.counting.count_execution(&mut builder.out, number, one)?;
        builder.counting.check_groups(&mut builder.out, number, one.before.registers)?;
        closed = builder.instruction(number, one, &bytes[at..])?;
        if one.instruction.flow_control() == FlowControl::ConditionalBranch {
            builder.out.at.begun = 0;
        }
    }
    if !closed {
        builder.out.at.instruction = (end - ip) as u32;
        builder.out.at.counted = 0;
        builder.out.map_hot(State::Before);
        let live = list.last().map_or(u16::MAX, |one| one.before.registers);
        builder.counting.end_derived(&mut builder.out, list.len(), live);
        builder.out.scratch.restore(&mut builder.out.hot, u16::MAX);
        builder.exits.jump(&mut builder.out, &[0xe9], end)?;
    }
    builder.counting.registry.register_segments(list, builder.plan.segments);
    builder.finish(end)
}

/// A fragment without instructions: where returns to `ip` come that no call was translated for.
pub(crate) fn relay(
    config: &Config,
    tools: &mut Tools,
    env: &mut impl Env,
    ip: u64,
    target: &Target<'_>,
) -> Result<Fragment, Error> {
    let Tools { groups, drafts, numbers, .. } = tools;
    groups.clear();
    let plan = FragmentPlan {
        ip,
        end: ip,
        list: &[],
        bytes: &[],
        accesses: &[],
        groups,
        segments: &[],
        compares: false,
        tier_up: None,
    };
    let mut builder = Builder::new(config, env, plan, target, drafts.take(), numbers);
    builder.return_site(ip)?;
    let fragment;
    (fragment, *drafts) = builder.finish(ip)?;
    Ok(fragment)
}
