#!/usr/bin/env bash
# Fuzzes what reads other people's files: a short run of each target in fuzz/, always with the same random numbers.
#   ./scripts/fuzz.sh [RUNS [TARGET...]]
# Inputs that fail are left in target/fuzz/TARGET/; `target/release/fuzz_TARGET FILE` looks at one again.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=${1:-1500}
shift || true
targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || targets=(numaprof perf profile tables machine)

build=${CARGO_TARGET_DIR:-$PWD/target}
out=$build/fuzz
mkdir -p "$out"

examples=$build/release/examples
[[ -x $examples/seeds && -x $examples/synthetic ]] || cargo build --release -q --workspace --examples
# The whole workspace is named, so that dependencies are those of every other build; only these programs are built.
RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/coverage-rustc.sh cargo build --release -q --workspace \
    --features numalens-fuzz/libfuzzer "${targets[@]/#/--bin=fuzz_}"

# Small valid files to start from.
seeds=$out/seeds
rm -rf "$seeds" "$out/example.numalens"
mkdir -p "$seeds/profile"
"$examples/seeds" "$seeds"
# Tables with their number before them, as fuzz_targets/profile.rs wants them.
"$examples/synthetic" "$out/example.numalens" >"$out/log"
number=0
export LC_ALL=C
for table in "$out/example.numalens"/*; do
    { printf '%b' "\\x$(printf '%02x' "$number")"; cat "$table"; } >"$seeds/profile/${table##*/}"
    number=$((number + 1))
done
cp -r crates/topology/tests/data "$seeds/machine"
# A change of each table, from which others are made.
mkdir -p "$seeds/tables"
for table in {0..25}; do
    printf '%b' "\\x$(printf '%02x' "$table")\\x04\\x00\\x00\\x01\\x00\\x00\\x07" >"$seeds/tables/$table"
done

# Changes of tables take few bytes; more of them only hide each other.
declare -A longest=([tables]=512)
# Each of these runs every analysis into every view, so that one takes as long as some hundred others.
declare -A share=([tables]=4)
# Runs one target; what it says goes to its log.
fuzz() {
    local target=$1 found=$out/$1
    "$build/release/fuzz_$target" -runs="$((runs / ${share[$target]:-1}))" -seed=1 -rss_limit_mb=1024 -timeout=20 \
        -max_len="${longest[$target]:-65536}" -artifact_prefix="$found/" "$found/corpus" "$seeds/$target" >"$found/log" 2>&1
}

# The longest first; each has one processor.
declare -A job=()
for target in tables "${targets[@]}"; do
    [[ " ${targets[*]} " == *" $target "* && -z ${job[$target]:-} ]] || continue
    rm -rf "${out:?}/$target"
    mkdir -p "$out/$target/corpus"
    while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n || true; done
    fuzz "$target" &
    job[$target]=$!
done

passed=0 failed=0
for target in "${targets[@]}"; do
    log=$out/$target/log
    if wait "${job[$target]}"; then
        passed=$((passed + 1))
        echo "$target: $(grep -E '^#[0-9]+.DONE' "$log" || tail -1 "$log")"
    else
        failed=$((failed + 1))
        tail -40 "$log"
        echo "failed: fuzzing of $target"
    fi
done
echo "$passed passed, $failed failed"
[[ $failed == 0 ]]
