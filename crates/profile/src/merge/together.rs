//! Several profiles as one without a copy: tables stay where they are, and ids change as rows are read.
//!
//! What all of them share is made anew, in memory: code, the machine, `meta`.

use super::code::{Code, NewCode};
use super::{common_machine, keeps_rows, merged_meta, narrowest_bin, tells_nodes};
use crate::content::Content;
use crate::error::Error;
use crate::limits::Texts;
use crate::meta::Meta;
use crate::read::Profile;
use crate::renumbering::Renumbering;
use crate::tables::TABLES;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reads profiles as the one that [`super::merge`] makes of them, if `page_accesses` of all tell the nodes.
///
/// # Errors
/// Profiles that do not go together, damage; some do not tell the nodes, so that a merged copy has to.
pub fn together(profiles: &[Profile]) -> Result<Profile, Error> {
    let machine = common_machine(profiles)?;
    if let Some(older) = profiles.iter().find(|profile| !tells_nodes(profile)) {
        let why = "it is of an older version, which has to be merged to be read beside others".to_owned();
        return Err(Error::Apart { path: older.path().to_owned(), why });
    }
    let bin_ns = narrowest_bin(profiles);
    let texts = Arc::new(Texts::of(profiles.iter().map(Profile::bytes).sum()));
    let mut tables: BTreeMap<String, Vec<_>> = BTreeMap::new();
    let (mut code, mut rows, mut ids) = (Code::default(), NewCode::default(), Renumbering::default());
    for profile in profiles {
        ids.bin_ns = (profile.meta.bin_ns, bin_ns);
        rows.extend(code.add(profile, &mut ids)?);
        ids.check(profile.path())?;
        let next = ids.behind(profile)?;
        let own = Arc::new(std::mem::replace(&mut ids, next));
        for table in TABLES.iter().filter(|table| keeps_rows(table)) {
            for file in profile.files(table).iter() {
                let file = file.among_profiles(own.clone(), texts.clone());
                tables.entry((*table).to_owned()).or_default().push(file);
            }
        }
    }
    let NewCode { modules, sites, functions, frames } = rows;
    let contents = vec![
        Content::of(|| machine),
        Content::of(|| modules),
        Content::of(|| sites),
        Content::of(|| functions),
        Content::of(|| frames),
    ];
    let meta = Meta { complete: profiles.iter().all(|profile| profile.meta.complete), ..merged_meta(profiles, bin_ns) };
    Profile::of_tables(meta, profiles[0].path(), tables, contents)
}
