#!/bin/sh
# RUSTC_WORKSPACE_WRAPPER of scripts/fuzz.sh: our own crates get libFuzzer's coverage, an LLVM pass like any other that needs no
# nightly compiler, and stop at an overflow. Build scripts would lack libFuzzer to link with.
case " $* " in
*" build_script_build "*) exec "$@" ;;
esac
exec "$@" --cfg fuzzing -Coverflow-checks=on -Cdebug-assertions=on \
    -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares
