#!/usr/bin/env bash
# Records a program with a planted fault and shows what numalens says of it: demo.sh NUMALENS FOLDER
set -euo pipefail

numalens=$1
folder=$2
program=targets/build/serial_init_omp
recording=$folder/serial_init.numalens

show() { printf '\n$ %s\n' "$*"; "$@"; }

mkdir -p "$folder"
cat <<END

$program allocates an array, initialises all of it in its first thread, and then lets four OpenMP threads work on
a quarter each. Pages land on the node of the thread that touches them first, so three of the four work on remote memory.
END
show "$numalens" record --force -o "$recording" -- "$program"
show "$numalens" report "$recording" --section summary --section matrix --section lines --section first-touch --top 3
show "$numalens" advise "$recording"
show "$numalens" report "$recording" --format html -o "$folder/serial_init.html"
cat <<END

The line on top of first-touch is where the fault is: initialise in the threads that use the memory. Next:
  $folder/serial_init.html    all of it as one page for a browser
  $numalens report $recording    the first screen; --section all for everything
  $numalens record -- YOUR-PROGRAM    (\`make build\` makes a quicker one: target/release/numalens)
  $numalens machine list         other machines to place it on, with --machine
END
