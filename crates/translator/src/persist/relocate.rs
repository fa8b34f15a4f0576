//! A persisted fragment comes to a place in a code cache.

use super::field::relocate;
use super::place::Place;
use super::record::{Record, read_rare};
use super::told::Told;
use crate::fragment::Fragment;
use crate::fragment::drafts::Drafts;
use crate::fragment::links::Chain;
use crate::fragment::metadata::{Base, FragmentMetadata};
use crate::translate::{Target, Tools};
use crate::{Config, Env, ExitId, LastPage, LastPageId, SiteId};
use core::num::NonZeroU32;
use numalens_isa::PAGE;

/// Records in a page of their table.
const RECORDS: u32 = PAGE as u32 / LastPage::BYTES;

/// The fragment at `ip` from its record, and with it what is known of its kind: as translated, complete and not yet
/// placed. `None`: the record is none of this code, or cannot be had there.
pub(crate) fn relocated(
    config: &Config,
    tools: &mut Tools,
    env: &mut impl Env,
    record: &[u8],
    ip: u64,
    target: &Target<'_>,
) -> Option<Fragment> {
    let record = Record::read(record)?;
    let code = &mut tools.source.bytes;
    code.resize(record.code.len(), 0);
    if env.read_code(ip, code) < code.len() || code != record.code {
        return None;
    }
    let numbers = &mut tools.numbers;
    let last_page = match record.takes.together {
        true if numbers.last_pages % RECORDS + record.takes.last_pages > RECORDS => {
            numbers.last_pages.next_multiple_of(RECORDS)
        }
        _ => numbers.last_pages,
    };
    let place = Place {
        ip,
        end: ip + record.code.len() as u64,
        hot: target.room.hot,
        cold: target.room.cold,
        site: env.next_site().0,
        last_page,
        executions: numbers.executions,
        exit: target.first_exit.0,
    };
    let after = [
        config.site_counter(SiteId(place.site.checked_add(record.takes.sites)?), 0),
        config.last_page_record(LastPageId(last_page.checked_add(record.takes.last_pages)?)),
        config.execution_counter(place.executions.checked_add(record.takes.executions)?),
    ];
    if after.contains(&None) {
        return None;
    }
    let fragment = at_place(config, &mut tools.drafts, &record, &place)?;
    (numbers.last_pages, numbers.executions) =
        (last_page + record.takes.last_pages, place.executions + record.takes.executions);
    let mut told = record.told;
    while let Some(one) = Told::unpack(&mut told) {
        one.tell(env, &place);
    }
    Some(fragment)
}

/// The fragment at a place, its code and exits in the drafts.
pub(super) fn at_place(config: &Config, drafts: &mut Drafts, record: &Record<'_>, place: &Place) -> Option<Fragment> {
    *drafts = drafts.take();
    let values = place.values(config);
    for (number, half) in [&mut drafts.hot, &mut drafts.cold].into_iter().enumerate() {
        half.extend_from_slice(record.halves[number]);
        relocate(half, &values, record.fields[number])?;
    }
    let Base { site, last_page, executions } = record.base;
    let base = Base {
        site: site.wrapping_add(place.site),
        last_page: last_page.wrapping_add(place.last_page),
        executions: executions.wrapping_add(place.executions),
    };
    let metadata = FragmentMetadata::moved(record.metadata, base);
    drafts.exits.extend(metadata.exits(place.ip, place.hot, place.cold));
    drafts.goes_back = record.goes_back.checked_sub(1).map(|number| ExitId(place.exit + number));
    let [hot_length, cold_length] = record.lengths;
    Some(Fragment {
        ip: place.ip,
        hot: place.hot,
        metadata,
        rare: read_rare(record.rare, place),
        landing: None,
        returns_at: NonZeroU32::new(record.returns_at),
        incoming: Chain::EMPTY,
        length: record.code.len() as u32,
        hot_length,
        cold: i32::try_from(place.cold.wrapping_sub(place.hot) as i64).ok()?,
        cold_length,
        first_exit: ExitId(place.exit),
        compares: false,
        dead: false,
    })
}
