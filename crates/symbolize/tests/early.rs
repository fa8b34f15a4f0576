//! What is found early, for some of the sites, is what one search for all of them finds.

use numalens_profile::ids::{ModuleId, SiteId};
use numalens_profile::tables::{Module, Site};
use numalens_symbolize::{Early, Options, name_early, symbolize_rows, symbolize_with};
use object::{Object, ObjectSection};

/// This program, which has debug information, and a library without any of its own.
fn modules() -> Vec<Module> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let library = maps.split_whitespace().find(|word| word.contains("libc.so")).unwrap();
    let program = std::env::current_exe().unwrap().to_string_lossy().into_owned();
    let module =
        |(id, path): (u32, &str)| Module { module: ModuleId(id), path: path.to_owned(), build_id: String::new() };
    [(0, &*program), (1, library), (2, "/nowhere/at/all")].map(module).into()
}

/// Places all over the code of the modules, those of one mixed with those of others.
fn sites(modules: &[Module]) -> Vec<Site> {
    let mut places = vec![(None, 0x1234), (Some(ModuleId(2)), 64)];
    for module in &modules[..2] {
        let bytes = std::fs::read(&module.path).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let text = file.section_by_name(".text").unwrap();
        let step = (text.size() / 2000).max(1) as usize;
        places.extend((text.address()..text.address() + text.size()).step_by(step).map(|at| (Some(module.module), at)));
    }
    places.sort_by_key(|(_, address)| address.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let site = |((module, address), id)| Site { site: SiteId(id), module, address };
    places.into_iter().zip(0..).map(site).collect()
}

#[test]
fn names_that_were_found_early_are_those_of_one_search() {
    let modules = modules();
    let sites = sites(&modules);
    for without in [None, Some(ModuleId(0)), Some(ModuleId(1))] {
        let options =
            Options { separate_lines: false, without_lines: without.into_iter().collect(), ..Options::default() };
        let expected = symbolize_rows(&sites, &modules, &options, None);
        assert!(expected.frames.len() > 2000 && expected.doubts.len() > 2);
        for known in [0, sites.len() / 3, sites.len()] {
            let early = name_early(&sites[..known], &modules, &options);
            assert!(
                symbolize_with(early, &sites, &modules, &options, (&[], &[])) == expected,
                "{without:?}, {known} known"
            );
        }
        assert!(symbolize_with(Early::default(), &sites, &modules, &options, (&[], &[])) == expected);
    }
}
