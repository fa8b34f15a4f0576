//! Linker names back to the names that people wrote.
//!
//! Each scheme is recognised by its prefix or shape, never by the language of the unit, because a symbol table does not
//! say languages: Rust v0 (`_R`) and legacy (`_ZN..17h<hash>E`, the hash is dropped), C++ Itanium (`_Z`, without
//! the return type), gfortran modules (`__module_MOD_procedure`), GHC (see `ghc`). Names of C and Go stand as they are.
//! A library decodes each of them where one exists; gfortran's form is a plain concatenation (documented in
//! the GNU Fortran manual, "Naming conventions"), GHC's lives in [`crate::ghc`].

use crate::ghc::{self, Origin};
use std::borrow::Cow;
use std::fmt;

/// A longer linker name is shown as it is: decoding is superlinear in some schemes, and nobody reads such a name.
const LONGEST_INPUT: usize = 16 << 10;
/// Substitutions let a short C++ name unfold without end; past this length the linker name is shown instead.
const LONGEST_OUTPUT: usize = 64 << 10;

/// The readable form of the linker name `name`, which is returned as it is when no scheme fits.
///
/// A symbol version (`memcpy@GLIBC_2.14`, `memcpy@@GLIBC_2.14`) is dropped; `memcpy@plt` stays.
pub fn demangle(name: &str) -> Cow<'_, str> {
    demangle_from(name, Origin::Unknown)
}

/// [`demangle`], with what is known about the file that holds the name.
pub(crate) fn demangle_from(name: &str, origin: Origin) -> Cow<'_, str> {
    let name = without_version(name);
    if name.len() > LONGEST_INPUT {
        return Cow::Borrowed(name);
    }
    if let Some(target) = name.strip_suffix("@plt") {
        return match demangle_from(target, origin) {
            Cow::Owned(target) => Cow::Owned(format!("{target}@plt")),
            Cow::Borrowed(_) => Cow::Borrowed(name),
        };
    }
    let readable = rust(name).or_else(|| cpp(name)).or_else(|| fortran(name)).or_else(|| ghc::decode(name, origin));
    readable.map_or(Cow::Borrowed(name), Cow::Owned)
}

/// Whether `name` is in a scheme that makes it unique over the files of a program (C and Go names are not
/// told apart from source names, so a `static` one may occur in many files).
pub(crate) fn is_mangled(name: &str) -> bool {
    matches!(demangle(name), Cow::Owned(_))
}

fn without_version(name: &str) -> &str {
    match name.split_once('@') {
        Some((base, version))
            if !base.is_empty()
                && version != "plt"
                && base.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'$'))
                && version
                    .trim_start_matches('@')
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'+')) =>
        {
            base
        }
        _ => name,
    }
}

fn rust(name: &str) -> Option<String> {
    if !(name.starts_with("_R") || name.starts_with("_ZN")) {
        return None;
    }
    // The legacy scheme is C++'s with a hash at the end, which is what the library tests.
    let symbol = rustc_demangle::try_demangle(name).ok()?;
    bounded(|out| fmt::Write::write_fmt(out, format_args!("{symbol:#}")))
}

fn cpp(name: &str) -> Option<String> {
    if !name.starts_with("_Z") {
        return None;
    }
    let symbol = cpp_demangle::Symbol::new(name.as_bytes()).ok()?;
    let options = cpp_demangle::DemangleOptions::new().no_return_type();
    bounded(|out| symbol.structured_demangle(out, &options))
}

/// `__module_MOD_procedure` is Fortran's `module::procedure`; of a submodule, `__module.submodule_MOD_procedure`.
fn fortran(name: &str) -> Option<String> {
    let (module, procedure) = name.strip_prefix("__")?.split_once("_MOD_")?;
    let names = |s: &str| {
        !s.is_empty() && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'.'))
    };
    (names(module) && names(procedure)).then(|| format!("{}::{procedure}", module.replace('.', "::")))
}

/// What `write` writes, unless it fails or grows past [`LONGEST_OUTPUT`].
fn bounded(write: impl FnOnce(&mut Bounded) -> fmt::Result) -> Option<String> {
    let mut out = Bounded(String::new());
    write(&mut out).ok()?;
    (!out.0.is_empty()).then_some(out.0)
}

struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        if self.0.len() + s.len() > LONGEST_OUTPUT {
            return Err(fmt::Error);
        }
        self.0.push_str(s);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[(&str, &str)]) {
        for (linker, readable) in names {
            assert_eq!(demangle(linker), *readable, "{linker}");
        }
    }

    #[test]
    fn rust_names() {
        check(&[
            ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_RNvMs_NtCs1234_7mycrate3fooNtB4_3Bar3baz", "<mycrate::foo::Bar>::baz"),
            ("_RNvCs4fqI2P2rA04_3app4work.llvm.12345", "app::work"),
        ]);
    }

    #[test]
    fn cpp_names() {
        check(&[
            ("_ZN2ns5ClassIiE6methodEi", "ns::Class<int>::method(int)"),
            ("_Z3maxIdET_S0_S0_", "max<double>(double, double)"),
            ("_ZN12_GLOBAL__N_14workEv", "(anonymous namespace)::work()"),
            ("_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()() const"),
            ("_Z4workPd._omp_fn.0", "work(double*) [clone ._omp_fn.0]"),
        ]);
    }

    #[test]
    fn fortran_names() {
        check(&[
            ("__solver_MOD_relax", "solver::relax"),
            ("__solver.multigrid_MOD_v_cycle", "solver::multigrid::v_cycle"),
            ("relax_", "relax_"),
            ("MAIN__", "MAIN__"),
            ("__x_MOD_", "__x_MOD_"),
        ]);
    }

    #[test]
    fn names_that_stay() {
        check(&[
            ("main", "main"),
            ("", ""),
            ("_", "_"),
            ("work.isra.0", "work.isra.0"),
            ("main._omp_fn.0", "main._omp_fn.0"),
            ("main.(*Matrix).Multiply", "main.(*Matrix).Multiply"),
            ("runtime.mallocgc", "runtime.mallocgc"),
            ("type:.eq.[2]interface {}", "type:.eq.[2]interface {}"),
            ("_Zzz", "_Zzz"),
            ("_ZN", "_ZN"),
            ("_R", "_R"),
        ]);
    }

    #[test]
    fn versions_are_dropped_and_stubs_are_not() {
        check(&[
            ("memcpy@GLIBC_2.14", "memcpy"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("_ZNSs4swapERSs@@GLIBCXX_3.4", "std::string::swap(std::string&)"),
            ("memcpy@plt", "memcpy@plt"),
            ("_Z3fooi@plt", "foo(int)@plt"),
            ("@GLIBC_2.14", "@GLIBC_2.14"),
        ]);
    }

    #[test]
    fn a_name_that_unfolds_without_end_stays() {
        // Each of the twenty substitutions doubles the one before it.
        let mut bomb = String::from("_Z1fSt4pairIiiE");
        for i in 0..20u32 {
            let previous = match i {
                0 => "_".to_string(),
                i => format!("{}_", char::from_digit(i - 1, 36).unwrap_or('Z').to_ascii_uppercase()),
            };
            bomb.push_str(&format!("St4pairIS{previous}S{previous}E"));
        }
        assert!(demangle(&bomb).len() <= LONGEST_OUTPUT);
        let long = format!("_Z{}", "P".repeat(LONGEST_INPUT));
        assert_eq!(demangle(&long), long);
    }
}
