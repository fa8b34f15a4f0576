//! The executable file of this process, as it lies on disk.

use crate::sys::{self, raw};
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{LittleEndian, ReadRef};

/// A file in memory.
pub struct Mapped {
    at: u64,
    bytes: u64,
}

impl Mapped {
    /// The program that this process executes; none: its file cannot be read.
    pub fn program() -> Option<Self> {
        let file = sys::open(c"/proc/self/exe", raw::O_RDONLY)?;
        let bytes = sys::length(file).unwrap_or(0);
        let at = if bytes > 0 { sys::map_file(bytes, file).ok() } else { None };
        sys::close(file);
        at.map(|at| Mapped { at, bytes })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped until `self` is dropped. An executable that runs cannot be written to.
        unsafe { core::slice::from_raw_parts(self.at as *const u8, self.bytes as usize) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        sys::unmap(self.at, self.bytes);
    }
}

/// Whether an executable is complete in itself. Not so: one that names a loader, and a loader that is executed like a
/// program.
pub fn is_static<'a>(data: impl ReadRef<'a>) -> bool {
    static_program(data).unwrap_or(false)
}

fn static_program<'a>(data: impl ReadRef<'a>) -> object::Result<bool> {
    let header = FileHeader64::<LittleEndian>::parse(data)?;
    let endian = header.endian()?;
    let parts = header.program_headers(endian, data)?;
    if parts.iter().any(|part| part.p_type(endian) == elf::PT_INTERP) {
        return Ok(false);
    }
    for part in parts {
        if let Some(entries) = part.dynamic(endian, data)? {
            let is_pie = |entry: &elf::Dyn64<LittleEndian>| {
                entry.tag(endian) == elf::DT_FLAGS_1 && entry.val(endian) & elf::DF_1_PIE.0 != 0
            };
            return Ok(header.e_type(endian) == elf::ET_EXEC || entries.iter().any(is_pie));
        }
    }
    Ok(true)
}

/// Symbols of which each sanitizer with memory of its own has one, or names it (linked in by gcc, the last one alone).
const SANITIZERS: [&[u8]; 5] =
    [b"__asan_init", b"__tsan_init", b"__msan_init", b"__hwasan_init", b"__sanitizer_malloc_hook"];

/// Whether an executable has, or loads, a sanitizer that wants to be loaded first and has its tables at fixed places.
pub fn has_sanitizer<'a>(data: impl ReadRef<'a>) -> bool {
    let names = dynamic_names(data).ok().flatten().unwrap_or(&[]);
    names.split(|&byte| byte == 0).any(|name| SANITIZERS.contains(&name))
}

/// Whether an executable is one that uses the address space as it likes from its start on: one with such a sanitizer,
/// or linked to an address where no linker puts programs unless it is told to, as valgrind is.
pub fn lays_out_memory<'a>(data: impl ReadRef<'a>) -> bool {
    /// Linkers begin at 4 MiB or below.
    const UNUSUAL: u64 = 256 << 20;
    has_sanitizer(data) || linked_to(data).is_ok_and(|start| start.is_some_and(|start| start >= UNUSUAL))
}

/// The address that an executable begins at, if it was linked to one.
fn linked_to<'a>(data: impl ReadRef<'a>) -> object::Result<Option<u64>> {
    let header = FileHeader64::<LittleEndian>::parse(data)?;
    let endian = header.endian()?;
    if header.e_type(endian) != elf::ET_EXEC {
        return Ok(None);
    }
    let parts = header.program_headers(endian, data)?;
    Ok(parts.iter().filter(|part| part.p_type(endian) == elf::PT_LOAD).map(|part| part.p_vaddr(endian)).min())
}

/// The names of what an executable gives to other modules and wants of them, each with a NUL.
fn dynamic_names<'a>(data: impl ReadRef<'a>) -> object::Result<Option<&'a [u8]>> {
    let header = FileHeader64::<LittleEndian>::parse(data)?;
    let endian = header.endian()?;
    let parts = header.program_headers(endian, data)?;
    for part in parts {
        let Some(entries) = part.dynamic(endian, data)? else { continue };
        let value = |tag| entries.iter().find(|entry| entry.tag(endian) == tag).map(|one| one.val(endian));
        let (Some(at), Some(bytes)) = (value(elf::DT_STRTAB), value(elf::DT_STRSZ)) else { continue };
        let holds = |part: &&elf::ProgramHeader64<LittleEndian>| {
            let start = part.p_vaddr(endian);
            part.p_type(endian) == elf::PT_LOAD && (start..start.saturating_add(part.p_filesz(endian))).contains(&at)
        };
        let Some(holder) = parts.iter().find(holds) else { continue };
        let offset = holder.p_offset(endian) + (at - holder.p_vaddr(endian));
        return Ok(data.read_bytes_at(offset, bytes).ok());
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::process::Command;
    use std::vec::Vec;

    fn compiled(directory: &std::path::Path, source: &str, flags: &[&str]) -> Vec<u8> {
        let [from, made] = ["first.c", "made"].map(|name| directory.join(name));
        std::fs::write(&from, source).unwrap();
        let status = Command::new("cc").arg("-o").args([&made, &from]).args(flags).status().unwrap();
        assert!(status.success(), "{flags:?}");
        std::fs::read(&made).unwrap()
    }

    #[test]
    fn programs_that_lay_out_memory_are_known() {
        let directory = tempfile::tempdir().unwrap();
        let made = |source, flags: &[&str]| compiled(directory.path(), source, flags);
        let plain = "int main(void) { return 0; }";
        let there = "void __tsan_init(void) {} int main(void) { return 0; }";
        assert!(!lays_out_memory(&*made(plain, &[])) && !has_sanitizer(&*made(plain, &["-static"])));
        assert!(
            has_sanitizer(&*made(plain, &["-fsanitize=address"])) && lays_out_memory(&*made(there, &["-rdynamic"]))
        );
        let elsewhere = made(plain, &["-static", "-no-pie", "-Wl,-Ttext-segment=0x58000000"]);
        assert!(lays_out_memory(&*elsewhere) && !has_sanitizer(&*elsewhere));
        assert!(!lays_out_memory(&*made(plain, &["-no-pie"])) && !lays_out_memory(&elsewhere[..70]));
    }

    #[test]
    fn programs_are_told_from_loaders() {
        let directory = tempfile::tempdir().unwrap();
        let [source, made] = ["first.c", "made"].map(|name| directory.path().join(name));
        std::fs::write(&source, "void _start(void) {}").unwrap();
        let loader = "-Wl,--dynamic-linker=/lib64/ld-linux-x86-64.so.2";
        let cases: [(&[&str], bool); 5] = [
            (&["-static", "-no-pie"], true),
            (&["-static-pie"], true),
            (&["-pie", loader], false),
            (&["-no-pie", "-Wl,-E", loader, "-Wl,-soname=x", "-shared"], false),
            (&["-shared"], false),
        ];
        for (flags, wanted) in cases {
            let status =
                Command::new("cc").args(["-nostdlib", "-o"]).args([&made, &source]).args(flags).status().unwrap();
            assert!(status.success());
            let bytes: Vec<u8> = std::fs::read(&made).unwrap();
            assert_eq!(is_static(&*bytes), wanted, "{flags:?}");
            assert!(!is_static(&bytes[..60]));
        }
    }
}
