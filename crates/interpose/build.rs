//! Builds the preload library. It links nothing (no libc, so that it loads into any), which `cc` alone cannot express.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let variable = |name: &str| env::var(name).map_err(|error| io::Error::other(format!("{name}: {error}")));
    let output = PathBuf::from(variable("OUT_DIR")?).join("libnumalens_interpose.so");
    println!("cargo::rerun-if-changed=numalens_event.h");
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rerun-if-changed=../../include/numalens.h");
    if variable("CARGO_CFG_TARGET_ARCH")? != "x86_64" || variable("CARGO_CFG_TARGET_OS")? != "linux" {
        return fs::write(&output, []);
    }
    let mut sources: Vec<PathBuf> =
        fs::read_dir("c")?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    sources.sort();
    compile(&sources, &output)
}

fn compile(sources: &[PathBuf], output: &Path) -> io::Result<()> {
    let compiler = cc::Build::new().cargo_metadata(false).get_compiler();
    let mut command = compiler.to_command();
    command
        .args(["-std=gnu11", "-O2", "-g1", "-fPIC", "-shared", "-nostdlib", "-ffreestanding", "-Wall", "-Wextra"])
        // No stack protector and no fortified calls: both would need libc.
        .args(["-fno-stack-protector", "-U_FORTIFY_SOURCE", "-fno-tree-loop-distribute-patterns"])
        // The callers' frames are what is recorded; unwinding passes through the library (thread cancellation).
        .args(["-fno-omit-frame-pointer", "-foptimize-sibling-calls", "-fasynchronous-unwind-tables"])
        .args(["-fvisibility=hidden", "-ftls-model=initial-exec"])
        .args([
            "-Wl,-soname,libnumalens_interpose.so",
            "-Wl,-z,relro,-z,now",
            "-Wl,--build-id",
            "-Wl,--hash-style=both",
        ])
        .arg("-o")
        .arg(output)
        .args(sources);
    let status = command.status()?;
    if !status.success() {
        return Err(io::Error::other(format!("{command:?} failed: {status}")));
    }
    Ok(())
}
