# For scripts that check: `step COMMAND` runs one and keeps its time, `times` says what each has taken. A file has them,
# as a step may be in a pipe and so in a shell of its own.
# shellcheck shell=bash

steps=target/steps.txt
mkdir -p target
: > "$steps"

step() {
    local begun=$SECONDS status=0
    printf '\n== %s\n' "$*"
    "$@" || status=$?
    printf '%5d s  %s\n' $((SECONDS - begun)) "$*" >> "$steps"
    return "$status"
}

times() {
    printf '\nwhat took how long:\n'
    cat "$steps"
    printf '%5d s  in all\n' "$SECONDS"
}
