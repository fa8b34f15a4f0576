//! numalens.h: any compiler takes it, and the program speaks to the preloaded library if there is one.

use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = r#"
#include "numalens.h"
#include <stdio.h>
int main(void) {
    int block = 0;
    numalens_start();
    numalens_phase_begin("a");
    numalens_phase_end("a");
    numalens_mark("b");
    numalens_alloc(&block, sizeof block);
    numalens_name(&block, "c");
    numalens_free(&block);
    numalens_moved();
    numalens_stop();
    puts("done");
    return block;
}
"#;

/// In place of the library: writes what it is asked.
const HOOK: &str = r#"
#include <stdio.h>
void numalens_hook(unsigned long what, const void *first, size_t second) { printf("%lu ", what); (void)first; (void)second; }
"#;

/// A function in a shared library, and a program that calls it.
const LIBRARY: &str = "#include \"numalens.h\"\nvoid from_library(void) { numalens_mark(\"x\"); }\n";
const CALLER: &str = "void from_library(void);\nint main(void) { from_library(); return 0; }\n";

struct Workshop(tempfile::TempDir);

impl Workshop {
    /// Compiles `source`; `None` when the compiler is not installed, or cannot do it and need not.
    fn compile(&self, name: &str, source: &str, compiler: &[&str], more: &[&Path]) -> Option<PathBuf> {
        let extension = if compiler[0].contains("++") { "cc" } else { "c" };
        let (from, to) = (self.0.path().join(name).with_extension(extension), self.0.path().join(name));
        std::fs::write(&from, source).unwrap();
        let mut command = Command::new(compiler[0]);
        command.args(["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/../../include"), "-Wall", "-Wextra", "-Werror"]);
        let output = command.args(&compiler[1..]).arg("-o").arg(&to).arg(&from).args(more).output().ok()?;
        assert!(output.status.success(), "{compiler:?}: {}", String::from_utf8_lossy(&output.stderr));
        Some(to)
    }

    fn run(&self, program: &Path, preload: Option<&Path>) -> String {
        let mut command = Command::new(program);
        command.envs(preload.map(|library| ("LD_PRELOAD", library)));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{program:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn compilers_take_it_and_programs_speak_by_it() {
    let workshop = Workshop(tempfile::tempdir().unwrap());
    let hook =
        workshop.compile("hook.so", HOOK, &["cc", "-shared", "-fPIC"], &[]).expect("cc, which built the library");
    let ways: [&[&str]; 14] = [
        &["cc", "-O0"],
        &["cc", "-O3"],
        &["cc", "-O2", "-fno-pie", "-no-pie"],
        &["cc", "-O0", "-fno-pie", "-no-pie"],
        &["cc", "-O2", "-fno-plt", "-Wl,-z,now"],
        &["cc", "-O2", "-flto"],
        &["cc", "-O2", "-masm=intel"],
        &["cc", "-std=gnu89", "-O1"],
        &["cc", "-std=c11", "-pedantic"],
        &["c++", "-O0"],
        &["c++", "-std=c++98", "-pedantic", "-O2"],
        &["clang", "-O0"],
        &["clang", "-O2", "-fno-pie", "-no-pie"],
        &["clang++", "-O3"],
    ];
    for way in ways {
        let Some(program) = workshop.compile("program", PROGRAM, way, &[]) else {
            println!("skipped: {} is not installed", way[0]);
            continue;
        };
        assert_eq!(workshop.run(&program, None), "done\n", "{way:?}");
        assert_eq!(workshop.run(&program, Some(&hook)), "1 3 4 5 7 9 8 6 2 done\n", "{way:?}");
    }
    // Nobody can be preloaded into a static program.
    let program = workshop.compile("static", PROGRAM, &["cc", "-O1", "-static"], &[]).unwrap();
    assert_eq!(workshop.run(&program, Some(&hook)), "done\n");
    let library = workshop.compile("library.so", LIBRARY, &["cc", "-O1", "-shared", "-fPIC"], &[]).unwrap();
    let program = workshop.compile("caller", CALLER, &["cc"], &[&library]).unwrap();
    assert_eq!(workshop.run(&program, None), "");
    assert_eq!(workshop.run(&program, Some(&hook)), "5 ");
}

#[test]
fn it_can_be_left_out() {
    let workshop = Workshop(tempfile::tempdir().unwrap());
    let hook = workshop.compile("hook.so", HOOK, &["cc", "-shared", "-fPIC"], &[]).unwrap();
    let program = workshop.compile("without", PROGRAM, &["cc", "-DNUMALENS_DISABLE"], &[]).unwrap();
    assert_eq!(workshop.run(&program, Some(&hook)), "done\n");
}
