#!/bin/sh
# RUSTC_WORKSPACE_WRAPPER of scripts/fuzz.sh: our own crates get libFuzzer's coverage, an LLVM pass like any other that
# needs no nightly compiler. Those that read stop at an overflow. Sums of forged figures may go round in analyses and
# views, as they do in what is shipped: nonsense in, nonsense out, but no panic. Build scripts would lack libFuzzer to
# link with.
overflow=on
case " $* " in
*" build_script_build "*) exec "$@" ;;
*" numalens_analyze "* | *" numalens_simulate "* | *" numalens_view "*) overflow=off ;;
esac
exec "$@" --cfg fuzzing -Coverflow-checks=$overflow -Cdebug-assertions=on \
    -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares
