//! How to do it: lines of source in the program's language, and commands that do without.

mod c;
mod fortran;
mod managed;
mod rust;
mod settings;

pub use settings::without_code;

use crate::facts::runtime::{Managed, managed_by};
use crate::model::patterns::Remedy;
use crate::model::report::Location;

/// The languages that snippets are written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    C { openmp: bool },
    Fortran,
    Rust,
    Haskell,
    Java,
    Go,
    Python,
    JavaScript,
}

/// The language of a place. Where the file does not say, or is of the runtime itself, that of the runtime that was
/// there; else C.
pub fn language(place: Option<&Location>, managed: Option<Managed>, openmp: bool) -> Language {
    let module = place.and_then(|place| place.module.as_deref()).unwrap_or_default();
    let is_pythons = managed_by(module) == Some(Managed::Python)
        || [".cpython-3", ".abi3.so"].iter().any(|part| module.contains(part));
    let extension = place.and_then(|place| place.file.as_deref()?.rsplit_once('.')).map(|(_, extension)| extension);
    match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("f" | "f77" | "f90" | "f95" | "f03" | "f08" | "for" | "ftn") => Language::Fortran,
        Some("rs") => Language::Rust,
        Some("hs" | "lhs") => Language::Haskell,
        Some("java" | "kt" | "scala") => Language::Java,
        Some("go") => Language::Go,
        Some("py" | "pyx") => Language::Python,
        Some("js" | "mjs" | "cjs" | "ts") => Language::JavaScript,
        Some(_) if !(managed == Some(Managed::Python) && is_pythons) => Language::C { openmp },
        _ => match managed {
            Some(Managed::Java) => Language::Java,
            Some(Managed::Python) => Language::Python,
            Some(Managed::JavaScript) => Language::JavaScript,
            Some(Managed::Haskell) => Language::Haskell,
            Some(Managed::Go) => Language::Go,
            None => Language::C { openmp },
        },
    }
}

/// Source for a remedy. `name` is the object's own, where it has one.
pub fn in_code(remedy: Remedy, language: Language, name: Option<&str>) -> String {
    let array = name.filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_')).unwrap_or("data");
    let like_c = |own: Option<&'static str>| own.unwrap_or_else(|| c::in_c(remedy, false));
    let text = match language {
        Language::C { openmp } => c::in_c(remedy, openmp),
        Language::Fortran => like_c(fortran::in_fortran(remedy)),
        Language::Rust => like_c(rust::in_rust(remedy)),
        Language::Haskell => managed::in_haskell(remedy),
        Language::JavaScript => managed::in_javascript(remedy),
        Language::Java => managed::in_java(remedy),
        Language::Go => managed::in_go(remedy),
        Language::Python => managed::in_python(remedy),
    };
    text.replace("ARRAY", array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remedy_says_how_in_every_language() {
        let languages = [
            Language::C { openmp: true },
            Language::C { openmp: false },
            Language::Fortran,
            Language::Rust,
            Language::Haskell,
            Language::Java,
            Language::Go,
            Language::Python,
            Language::JavaScript,
        ];
        for remedy in Remedy::ALL.iter().copied() {
            for language in languages {
                assert!(!in_code(remedy, language, None).is_empty(), "{} in {language:?}", remedy.name());
            }
            for language in languages {
                assert!(!without_code(remedy, language).is_empty(), "{}", remedy.name());
            }
        }
        let named = in_code(Remedy::ParallelInitialisation, Language::Fortran, Some("grid"));
        assert!(named.contains("grid(i)") && !named.contains("ARRAY"), "{named}");
    }

    #[test]
    fn the_file_tells_the_language() {
        let place = |file: &str| Location { file: Some(file.to_string()), ..Location::default() };
        assert_eq!(language(Some(&place("/src/a.F90")), None, true), Language::Fortran);
        assert_eq!(language(Some(&place("a.rs")), None, true), Language::Rust);
        assert_eq!(language(Some(&place("a.cc")), None, true), Language::C { openmp: true });
        assert_eq!(language(None, None, false), Language::C { openmp: false });
        // What the runtime does is the program's doing; native code of the user's own is C.
        assert_eq!(language(None, Some(Managed::Java), false), Language::Java);
        assert_eq!(language(Some(&place("native.c")), Some(Managed::Java), false), Language::C { openmp: false });
        let of = |file: &str, module: &str| Location { module: Some(module.to_string()), ..place(file) };
        let python = |at: Location| language(Some(&at), Some(Managed::Python), false);
        assert_eq!(python(of("obmalloc.c", "python3.11")), Language::Python);
        assert_eq!(python(of("solver.cpp", "solver")), Language::C { openmp: false });
    }
}
