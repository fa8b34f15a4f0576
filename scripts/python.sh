#!/usr/bin/env bash
# Tests the Python package in a virtual environment of its own, which it makes.   usage: python.sh SYNTHETIC [spark]
# SYNTHETIC is the program that writes the synthetic profile: target/release/examples/synthetic.
set -euo pipefail
NUMALENS_SYNTHETIC=$(realpath "$1")
export NUMALENS_SYNTHETIC
what=${2:-}
cd "$(dirname "$0")/.."

venv=$(realpath -m "${CARGO_TARGET_DIR:-target}")/python-venv
extras=all
tests=test_numalens
if [ "$what" = spark ]; then
    extras=all,spark
    tests=test_spark
fi

[ -x "$venv/bin/python" ] || { python3 -m venv "$venv" && "$venv/bin/pip" install -q --upgrade pip; }
# Installed from a copy: building leaves files beside the sources.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r python "$copy/python"
"$venv/bin/pip" install -q "$copy/python[$extras]"
"$venv/bin/pip" install -q --force-reinstall --no-deps "$copy/python"

cd python/tests
status=0
output=$(PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" -W error::ResourceWarning -m unittest -v "$tests" 2>&1) || status=1
echo "$output"
passed=$(grep -c ' \.\.\. ok$' <<<"$output" || true)
failed=$(grep -cE ' \.\.\. (FAIL|ERROR)$' <<<"$output" || true)
[ $status = 0 ] || [ "$failed" -gt 0 ] || failed=1
echo "$passed passed, $failed failed"
exit $status
