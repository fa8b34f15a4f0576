//! `cargo xtask deny`: licences and sources of all crates that are built in, by `deny.toml`, without a network.
//!
//! cargo-deny checks the same and more (known vulnerabilities, from a database that it fetches), but takes minutes to
//! build. So this reads what cargo knows anyway, in a second, and `scripts/test.sh` runs cargo-deny besides where it is
//! installed.

use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use toml::Table;

/// Where crates may come from beside this repository.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// What is built in depends on where numalens runs.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What is wrong, a line each.
///
/// # Errors
/// `deny.toml` or cargo's answer cannot be read.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let policy = std::fs::read_to_string(root.join("deny.toml")).map_err(|error| format!("deny.toml: {error}"))?;
    let policy = Policy::parse(&policy)?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET]).current_dir(root);
    let output = cargo.output().map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata = serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    Ok(complaints(&policy, &metadata))
}

struct Policy {
    licences: HashSet<String>,
    banned: HashSet<String>,
}

impl Policy {
    fn parse(text: &str) -> Result<Self, String> {
        let table: Table = text.parse().map_err(|error| format!("deny.toml: {error}"))?;
        let list = |section: &str, key: &str| {
            let list = table.get(section).and_then(|section| section.get(key)).and_then(toml::Value::as_array);
            list.ok_or_else(|| format!("deny.toml: no list {section}.{key}"))
        };
        let licences = list("licenses", "allow")?.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect();
        let banned = list("bans", "deny")?.iter().filter_map(|entry| entry.get("crate")?.as_str());
        Ok(Policy { licences, banned: banned.map(str::to_owned).collect() })
    }
}

/// What `cargo metadata` tells, held against a policy.
fn complaints(policy: &Policy, metadata: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let built: HashSet<String> =
        list(&metadata["resolve"]["nodes"]).iter().filter_map(|node| Some(node["id"].as_str()?.to_owned())).collect();
    let mut complaints = Vec::new();
    for package in list(&metadata["packages"]) {
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        if !built.contains(&text("id")) {
            continue;
        }
        let name = format!("{} {}", text("name"), text("version"));
        if !is_allowed(&text("license"), &policy.licences) {
            complaints.push(format!("{name}: its licence `{}` is none of deny.toml", text("license")));
        }
        if !["", REGISTRY].contains(&text("source").as_str()) {
            complaints.push(format!("{name}: it comes from {}, not from crates.io", text("source")));
        }
        if policy.banned.contains(&text("name")) {
            complaints.push(format!("{name}: deny.toml bans it"));
        }
    }
    complaints
}

/// Whether a licence expression (SPDX, or with `/` for `OR` as older manifests have it) can be met with these licences.
fn is_allowed(expression: &str, allowed: &HashSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ").replace(" WITH ", "-WITH-");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (met, rest) = any_of(&words, allowed);
    met && rest.is_empty()
}

/// Terms between `OR`; what is behind them.
fn any_of<'a>(words: &'a [&'a str], allowed: &HashSet<String>) -> (bool, &'a [&'a str]) {
    let (mut met, mut rest) = all_of(words, allowed);
    while let ["OR", more @ ..] = rest {
        let (other, behind) = all_of(more, allowed);
        (met, rest) = (met || other, behind);
    }
    (met, rest)
}

/// Terms between `AND`.
fn all_of<'a>(words: &'a [&'a str], allowed: &HashSet<String>) -> (bool, &'a [&'a str]) {
    let (mut met, mut rest) = term(words, allowed);
    while let ["AND", more @ ..] = rest {
        let (other, behind) = term(more, allowed);
        (met, rest) = (met && other, behind);
    }
    (met, rest)
}

fn term<'a>(words: &'a [&'a str], allowed: &HashSet<String>) -> (bool, &'a [&'a str]) {
    match words {
        ["(", inner @ ..] => match any_of(inner, allowed) {
            (met, [")", rest @ ..]) => (met, rest),
            _ => (false, &[]),
        },
        [name, rest @ ..] => (allowed.contains(*name), rest),
        [] => (false, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const POLICY: &str =
        "[licenses]\nallow = [\"MIT\", \"Apache-2.0\", \"Unicode-3.0\"]\n[bans]\ndeny = [{ crate = \"old\" }]";

    #[test]
    fn licence_expressions() {
        let allowed = Policy::parse(POLICY).unwrap().licences;
        for good in
            ["MIT", "Unlicense/MIT", "GPL-3.0 OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0", "MIT AND Apache-2.0"]
        {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR GPL-3.0) AND GPL-2.0", "(MIT", "MIT MIT", "MIT WITH x"] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn crates_that_are_built_in_are_held_against_the_policy() {
        let policy = Policy::parse(POLICY).unwrap();
        let package = |name: &str, license: &str, source: Value| json!({ "id": name, "name": name, "version": "1", "license": license, "source": source });
        let built = ["ours", "fine", "old", "git", "gpl"].map(|id| json!({ "id": id }));
        let metadata = json!({
            "packages": [
                package("ours", "MIT", Value::Null),
                package("fine", "MIT", json!(REGISTRY)),
                package("old", "MIT", json!(REGISTRY)),
                package("git", "MIT", json!("git+https://example.org")),
                package("gpl", "GPL-3.0", json!(REGISTRY)),
                package("elsewhere", "GPL-3.0", json!(REGISTRY)),
            ],
            "resolve": { "nodes": built },
        });
        let found = complaints(&policy, &metadata);
        assert_eq!(found.iter().map(|line| &line[..3]).collect::<Vec<_>>(), ["old", "git", "gpl"], "{found:?}");
    }
}
