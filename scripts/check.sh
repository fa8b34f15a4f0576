#!/usr/bin/env bash
# What a developer runs before each commit: rules, format, lints, unit tests. Everything else is `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh

step cargo xtask tidy
step cargo xtask docs
step cargo fmt --all --check
step cargo clippy --release --workspace --all-targets -- -D warnings
step cargo test --release --workspace --lib --bins -q
times
