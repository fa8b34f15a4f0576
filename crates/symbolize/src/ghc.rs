//! GHC's linker names: `base_GHCziBase_map_info` is the code of `map` in the module `GHC.Base` of the package `base`.
//!
//! A name is `PACKAGE_Module_entity_SUFFIX` (the package is missing for the program's own modules), each part
//! Z-encoded so that `_` cannot occur in it. The code is that of `GHC.Utils.Encoding` (compiler/GHC/Utils/Encoding.hs,
//! functions `zEncodeString` and `maybe_tuple`), written out in the commentary "Symbol names" of GHC's wiki:
//! `z` and `Z` start an escape, of one letter for common signs, `z<hex>U` for any other character,
//! `Z<n>T` and `Z<n>H` for tuples and unboxed tuples. The suffixes are those of `GHC.Cmm.CLabel`.
//!
//! Plain C names look alike (`SSL_get_info`), so a name counts as GHC's only when it ends in a known suffix, a part
//! before the entity starts with a capital, as modules do, and either the file is known to hold Haskell code or the
//! name itself has an escape or the module `Main`. The runtime's own names (`stg_ap_pp_fast`, `evacuate`) have no
//! module and stay.

/// Suffixes of labels, and what is shown for them: code is shown by its name alone.
const SUFFIXES: &[(&str, &str)] = &[
    ("_static_info", ""),
    ("_con_info", ""),
    ("_ret_info", ""),
    ("_info", ""),
    ("_entry", ""),
    ("_slow", ""),
    ("_closure", " closure"),
    ("_closure_tbl", " closure table"),
    ("_bytes", " literal"),
    ("_srt", " reference table"),
];

/// How much is known about the file that a name comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Origin {
    /// It has code made by GHC.
    Haskell,
    Unknown,
}

/// `package:Module.entity` of a linker name of GHC; none when `name` is not one. The package comes without version and
/// hash.
pub(crate) fn decode(name: &str, origin: Origin) -> Option<String> {
    let (stem, shown) = SUFFIXES.iter().find_map(|(suffix, shown)| Some((name.strip_suffix(suffix)?, shown)))?;
    let parts: Vec<&str> = stem.split('_').collect();
    let is_module = |part: &str| part.starts_with(|c: char| c.is_ascii_uppercase());
    let (package, module, entity) = match parts.as_slice() {
        [module, entity @ ..] if !entity.is_empty() && is_module(module) => (None, module, entity),
        [package, module, entity @ ..] if !entity.is_empty() && is_module(module) => (Some(package), module, entity),
        _ => return None,
    };
    if origin == Origin::Unknown
        && !parts.iter().any(|part| part.contains('z') || part.contains('Z') || *part == "Main")
    {
        return None;
    }
    // Local entities carry their unique after an underscore: `Main_sat_s3aB_info`.
    let entity = entity.iter().map(|part| unescape(part)).collect::<Option<Vec<_>>>()?.join("_");
    let module = unescape(module)?;
    if entity.is_empty() || module.is_empty() {
        return None;
    }
    Some(match package {
        Some(package) => format!("{}:{module}.{entity}{shown}", package_name(&unescape(package)?)),
        None => format!("{module}.{entity}{shown}"),
    })
}

/// The linker name of code that has none, before what `name` is in a file: functions that a module does not export
/// stand before or between those that it does.
pub(crate) fn local_code_before(name: &str) -> Option<String> {
    let (stem, _) = SUFFIXES.iter().find_map(|(suffix, shown)| Some((name.strip_suffix(suffix)?, shown)))?;
    let parts: Vec<&str> = stem.split('_').collect();
    let module = parts.iter().take(2).position(|part| part.starts_with(|c: char| c.is_ascii_uppercase()))?;
    Some(format!("{}_localz20Ucode_info", parts[..=module].join("_")))
}

/// `vector` of `vector-0.13.1.0-AbCdEf`.
fn package_name(package: &str) -> &str {
    let version = |(at, _): &(usize, &str)| package[at + 1..].starts_with(|c: char| c.is_ascii_digit());
    package.match_indices('-').find(version).map_or(package, |(at, _)| &package[..at])
}

/// Undoes the Z-encoding; none when an escape is not one of the code's.
fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            'z' => match rest.next()? {
                digit @ '0'..='9' => out.push(by_number(digit, &mut rest)?),
                letter => out.push(lower(letter)?),
            },
            'Z' => match rest.next()? {
                digit @ '0'..='9' => out.push_str(&tuple(digit, &mut rest)?),
                letter => out.push(upper(letter)?),
            },
            c => out.push(c),
        }
    }
    Some(out)
}

fn lower(letter: char) -> Option<char> {
    Some(match letter {
        'a' => '&',
        'b' => '|',
        'c' => '^',
        'd' => '$',
        'e' => '=',
        'g' => '>',
        'h' => '#',
        'i' => '.',
        'l' => '<',
        'm' => '-',
        'n' => '!',
        'p' => '+',
        'q' => '\'',
        'r' => '\\',
        's' => '/',
        't' => '*',
        'u' => '_',
        'v' => '%',
        'z' => 'z',
        _ => return None,
    })
}

fn upper(letter: char) -> Option<char> {
    Some(match letter {
        'L' => '(',
        'R' => ')',
        'M' => '[',
        'N' => ']',
        'C' => ':',
        'Z' => 'Z',
        _ => return None,
    })
}

/// The character of `<hex>U`, whose first digit has been read.
fn by_number(first: char, rest: &mut std::str::Chars) -> Option<char> {
    let mut value = first.to_digit(16)?;
    loop {
        match rest.next()? {
            'U' => return char::from_u32(value),
            digit => value = value.checked_mul(16)?.checked_add(digit.to_digit(16)?)?,
        }
    }
}

/// The tuple of `<n>T` (or `<n>H`, unboxed), whose first digit has been read: n - 1 commas, none for the unit.
fn tuple(first: char, rest: &mut std::str::Chars) -> Option<String> {
    let mut size = first.to_digit(10)?;
    loop {
        match rest.next()? {
            'T' => return Some(format!("({})", ",".repeat(size.saturating_sub(1) as usize))),
            'H' if size <= 1 => return Some("(# #)".into()),
            'H' => return Some(format!("(#{}#)", ",".repeat(size as usize - 1))),
            // GHC stops at 64; a damaged name must not ask for memory.
            digit => size = Some(size * 10 + digit.to_digit(10)?).filter(|size| *size <= 999)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_table() {
        for (linker, readable) in [
            ("base_GHCziBase_map_info", "base:GHC.Base.map"),
            ("Main_zdwgo_info", "Main.$wgo"),
            ("Main_main1_info", "Main.main1"),
            ("ZCMain_main_closure", ":Main.main closure"),
            ("base_GHCziBase_zpzp_info", "base:GHC.Base.++"),
            ("ghczmprim_GHCziTypes_ZC_con_info", "ghc-prim:GHC.Types.:"),
            ("ghczmprim_GHCziTuple_Z3T_con_info", "ghc-prim:GHC.Tuple.(,,)"),
            ("ghczmprim_GHCziTuple_Z0T_closure", "ghc-prim:GHC.Tuple.() closure"),
            ("ghczmprim_GHCziPrim_Z1H_info", "ghc-prim:GHC.Prim.(# #)"),
            ("ghczmprim_GHCziPrim_Z2H_info", "ghc-prim:GHC.Prim.(#,#)"),
            (
                "vectorzm0zi13zi1zi0zm5bTZZ_DataziVectorziGeneric_unsafeFreezze_info",
                "vector:Data.Vector.Generic.unsafeFreeze",
            ),
            ("unorderedzmcontainerszm0zi2_DataziHashMap_lookupzq_info", "unordered-containers:Data.HashMap.lookup'"),
            ("Main_sat_s3aB_info", "Main.sat_s3aB"),
            ("Main_z3bbU_info", "Main.λ"),
            ("Main_zdfShowTreezuzdcshow_info", "Main.$fShowTree_$cshow"),
        ] {
            assert_eq!(decode(linker, Origin::Unknown).as_deref(), Some(readable), "{linker}");
        }
    }

    #[test]
    fn code_without_a_name_is_its_modules() {
        let named = |name| decode(&local_code_before(name)?, Origin::Haskell);
        assert_eq!(named("Main_main1_info").as_deref(), Some("Main.local code"));
        assert_eq!(named("base_GHCziBase_map_info").as_deref(), Some("base:GHC.Base.local code"));
        assert_eq!(named("stg_ap_v_info"), None);
        assert_eq!(named("main"), None);
    }

    #[test]
    fn plain_modules_only_where_haskell_is_known() {
        for (name, readable) in
            [("Solver_relax_info", "Solver.relax"), ("mypkg_Solver_relax_closure", "mypkg:Solver.relax closure")]
        {
            assert_eq!(decode(name, Origin::Unknown), None, "{name}");
            assert_eq!(decode(name, Origin::Haskell).as_deref(), Some(readable), "{name}");
        }
        assert_eq!(decode("SSL_get_info", Origin::Unknown), None);
    }

    #[test]
    fn names_of_others() {
        for name in [
            "stg_ap_pp_fast",
            "evacuate",
            "x_z_info",
            "Main_info",
            "Main__info",
            "_info",
            "get_info",
            "my_Get_info",
            "Main_zX_info",
            "Main_z3bb_info",
            "Main_zffffffffffU_info",
            "Main_Z99999T_info",
            "Main_Z_info",
            "Main_zdwgo",
            "",
        ] {
            assert_eq!(decode(name, Origin::Unknown), None, "{name}");
        }
    }
}
