//! Builds the agent: the same workspace, another target, its own target directory. So `cargo build` alone builds all.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-unknown-none";

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let workspace = manifest.join("../..");
    for part in ["Cargo.toml", "Cargo.lock", "crates/agent", "crates/translator", "crates/isa", "crates/event"] {
        println!("cargo::rerun-if-changed={}", workspace.join(part).display());
    }
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() != Ok("x86_64") {
        println!("cargo::error=the exact engine exists for x86-64 only");
        return;
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("agent");
    if let Err(message) = build(&workspace, &folder) {
        println!("cargo::error={message}");
        return;
    }
    let image = folder.join(TARGET).join("release/numalens-agent-image");
    println!("cargo::rustc-env=NUMALENS_AGENT_IMAGE={}", image.display());
}

fn build(workspace: &Path, folder: &Path) -> Result<(), String> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--package", "numalens-agent", "--features", "blob", "--target", TARGET]);
    cargo.args(["--bin", "numalens-agent-image", "--target-dir"]).arg(folder).current_dir(workspace);
    // What the outer build was told is meant for the host, not for the agent; lints run on the agent's library.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let of_the_outer_build = ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER", "RUSTC_WRAPPER"];
        let of_the_outer_package = ["CARGO_PKG_", "CARGO_FEATURE_", "CARGO_CFG_", "CARGO_PROFILE_", "CARGO_BUILD_"];
        if of_the_outer_build.contains(&&*text) || of_the_outer_package.iter().any(|prefix| text.starts_with(prefix)) {
            cargo.env_remove(&name);
        }
    }
    // It is small, and translates at run time: every microsecond of it is waited for.
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "fat").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1");
    let output = cargo.output().map_err(|error| format!("cargo cannot be run for the agent: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("may not be installed") {
        return Err(format!("the agent needs the Rust target {TARGET}: run `rustup target add {TARGET}`"));
    }
    // One line: a directive of cargo's ends at the first newline.
    Err(format!("the agent does not build: {}", said.replace('\n', " | ")))
}
