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

/// Whether an executable is complete in itself. Not so: one that names a loader, and a loader that is executed like a program.
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

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::process::Command;
    use std::vec::Vec;

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
