#!/usr/bin/env bash
# Everything that is checked, cheapest first. Ends with one line: N passed, N failed.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/steps.sh
log=target/test.log
: > "$log"

# Sums cargo's "test result: ok. 28 passed; 0 failed; ..." and the lab's "16 passed, 0 failed".
tally() {
    awk '/^test result: / { passed += $4; failed += $6 }
         /^[0-9]+ passed, [0-9]+ failed$/ { passed += $1; failed += $3 }
         END { printf "%d passed, %d failed\n", passed, failed }' "$log"
}

# What failed, by name, and why, beside the count: the log is long, and only its end may be at hand.
failures() {
    grep -aE '^test .* FAILED$|^failed: |^(FAIL|ERROR): ' "$log" | sort -u || true
    grep -aA2 ' panicked at ' "$log" | cut -c1-400 || true
    awk '/^FAILED [a-z0-9-]+\// { why = 1; print; next } !/^    / { why = 0 } why' "$log" | cut -c1-400
}

step cargo xtask tidy
step cargo xtask deny
step cargo xtask docs
# Takes minutes to build, and a database from the network: only where there is either.
if cargo deny --version > /dev/null 2>&1 && cargo deny fetch db > /dev/null 2>&1; then
    step cargo deny --offline check advisories
fi
step cargo fmt --all --check
step cargo clippy --release --workspace --all-targets -- -D warnings
step cargo xtask recipes
step make -s -C targets

status=0
step cargo test --release --workspace --no-fail-fast 2>&1 | tee -a "$log" || status=1
step cargo xtask ui --check || status=1
step cargo xtask ui --script check || status=1
step cargo xtask ui --script test 2>&1 | tee -a "$log" || status=1
step cargo xtask ui --script e2e 2>&1 | tee -a "$log" || status=1
step ./scripts/python.sh "${CARGO_TARGET_DIR:-target}/release/examples/synthetic" 2>&1 | tee -a "$log" || status=1
step ./scripts/fuzz.sh 2>&1 | tee -a "$log" || status=1
# With the tests, as what they are built from is what was built for them.
step cargo build --release -q --workspace --bins --tests
step "${CARGO_TARGET_DIR:-target}/release/numalens-lab" run 2>&1 | tee -a "$log" || status=1
step ./scripts/dist.sh --test || status=1

times
echo
failures
tally
exit "$status"
