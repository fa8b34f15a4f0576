//! Machine code for the pages of `numalens view`: read from the program's files on this host, and named anew.

use numalens_analyze::code::Code;
use numalens_analyze::disassembly::{Instruction, MachineCode};
use numalens_profile::ids::{ModuleId, SiteId};
use numalens_profile::tables::{Module, Site};
use numalens_profile::{Error, Profile};
use numalens_symbolize::{Listing, Options, listing, symbolize_rows};

/// Functions that are listed at once: copies of a template, or callers that a line was inlined into.
const MOST: usize = 8;

/// The functions around these instructions, the first ones first.
///
/// # Errors
/// The profile cannot be read. What the files do not have is in the doubts.
pub fn find(profile: &Profile, wanted: &[(ModuleId, u64)], names: &Options) -> Result<MachineCode, Error> {
    let modules = profile.rows::<Module>()?;
    let (mut doubts, mut left_out) = (Vec::new(), 0);
    let mut found: Vec<(ModuleId, Listing)> = Vec::new();
    for &(id, address) in wanted {
        let is_known = found.iter().any(|(of, listing)| *of == id && listing.range.contains(&address));
        let Some(module) = modules.iter().find(|module| module.module == id).filter(|_| !is_known) else { continue };
        if found.len() == MOST {
            left_out += 1;
            continue;
        }
        match listing(module, address, names) {
            Ok(listing) => {
                doubts.extend(listing.doubt.clone());
                found.push((id, listing));
            }
            Err(why) => doubts.push(why),
        }
    }
    if left_out > 0 {
        doubts.push(format!(
            "{left_out} more instructions of this line lie in other functions than the {MOST} that are shown"
        ));
    }
    doubts.sort_unstable();
    doubts.dedup();
    let all =
        found.into_iter().flat_map(|(module, listing)| listing.instructions.into_iter().map(move |one| (module, one)));
    let instructions: Vec<Instruction> = (0..)
        .zip(all)
        .map(|(site, (module, one))| Instruction { module, address: one.address, text: one.text, site: SiteId(site) })
        .collect();
    let site = |one: &Instruction| Site { site: one.site, module: Some(one.module), address: one.address };
    let sites: Vec<Site> = instructions.iter().map(site).collect();
    let named = symbolize_rows(&sites, &modules, names, None);
    let code = Code::new(modules, sites, named.frames, named.functions, Vec::new());
    Ok(MachineCode { instructions, code, doubts })
}
