//! What two builds of one program call alike: names without what compilers append, and without the program's own name.

use crate::dataset::Dataset;
use crate::facts::code::file_name;
use crate::model::report::Location;
use std::collections::BTreeMap;

/// What compilers append to a function that they split, copy or outline.
const SUFFIXES: [&str; 7] = ["_omp_fn", "isra", "part", "constprop", "cold", "lto_priv", "llvm"];
/// LLVM's: with `_debug__` and more behind it, and without any function in older versions.
const OUTLINED: &str = "omp_outlined";

/// The function that the programmer wrote.
pub fn function(name: &str) -> &str {
    let name = name.split(" [clone ").next().unwrap_or(name);
    let name = without_hash(without_suffixes(name));
    if name.is_empty() { OUTLINED } else { name }
}

fn without_suffixes(name: &str) -> &str {
    let (mut kept, mut at) = (name.len(), name.len());
    while let Some(dot) = name[..at].rfind('.') {
        let part = &name[dot + 1..at];
        if SUFFIXES.contains(&part) || part.starts_with(OUTLINED) {
            kept = dot;
        } else if !part.bytes().all(|byte| byte.is_ascii_digit()) {
            break;
        }
        at = dot;
    }
    &name[..kept]
}

/// Rust's: `::h` and 16 hexadecimal digits.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => name,
    }
}

/// The file name of the program's own executable: what the command names, else the one that accesses most. Libraries
/// are none.
pub fn executable(dataset: &Dataset) -> Option<String> {
    let mut executables: BTreeMap<&str, u64> = BTreeMap::new();
    for ((site, _), tally) in dataset.facts.sites.by_site() {
        let (module, _) = dataset.code.module_name_and_address(site);
        if let Some(module) = module.filter(|module| !module.contains(".so") && !module.starts_with('[')) {
            let sum = executables.entry(module).or_default();
            *sum = sum.saturating_add(tally.accesses());
        }
    }
    let named = dataset.about.meta.command.first().map(|command| file_name(command));
    let named = named.filter(|named| executables.contains_key(named));
    let most = executables.iter().max_by_key(|(_, accesses)| **accesses).map(|(module, _)| *module);
    named.or(most).map(str::to_string)
}

/// A place as the other build says it too: the executable has no name.
pub fn place(place: Location, executable: Option<&str>) -> Location {
    let own = place.module.is_some() && place.module.as_deref() == executable;
    let function = match place.module.as_deref().and_then(|module| place.function.strip_prefix(module)) {
        Some(offset) if own && offset.starts_with("+0x") => offset,
        _ => function(&place.function),
    };
    Location { function: function.to_string(), module: place.module.filter(|_| !own), ..place }
}

/// An object's name as the other build says it too: a path of the executable, or a section of it.
pub fn object(name: &str, executable: Option<&str>) -> String {
    let Some(executable) = executable else { return name.to_string() };
    if file_name(name) == executable && name.contains('/') {
        return "the executable".to_string();
    }
    match name.strip_suffix(executable).filter(|section| section.ends_with(" of ")) {
        Some(section) => format!("{section}the executable"),
        None => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_suffixes_go() {
        for (name, wanted) in [
            ("main._omp_fn.0", "main"),
            ("work.constprop.0.isra.3", "work"),
            ("work.part.0.cold", "work"),
            ("work.lto_priv.0", "work"),
            ("main.omp_outlined", "main"),
            ("main.omp_outlined_debug__.7", "main"),
            (".omp_outlined..5", "omp_outlined"),
            ("ns::f(double*) [clone ._omp_fn.12]", "ns::f(double*)"),
            ("app::work::h0123456789abcdef", "app::work"),
            ("main.main", "main.main"),
            ("counter.0", "counter.0"),
            ("app::hash::h0", "app::hash::h0"),
        ] {
            assert_eq!(function(name), wanted, "{name}");
        }
    }

    #[test]
    fn the_executable_has_no_name() {
        let of = |module: &str, function: &str| {
            let place = place(
                Location { function: function.into(), module: Some(module.into()), ..Location::default() },
                Some("app"),
            );
            (place.function, place.module)
        };
        assert_eq!(of("app", "main._omp_fn.1"), ("main".to_string(), None));
        assert_eq!(of("app", "app+0x12"), ("+0x12".to_string(), None));
        assert_eq!(of("libm.so.6", "libm.so.6+0x12"), ("libm.so.6+0x12".to_string(), Some("libm.so.6".to_string())));
        assert_eq!(object("/tmp/app", Some("app")), "the executable");
        assert_eq!(object(".data of app", Some("app")), ".data of the executable");
        assert_eq!(object("app", Some("app")), "app");
    }
}
