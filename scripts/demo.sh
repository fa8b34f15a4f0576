#!/usr/bin/env bash
# Records a program with a planted fault and shows what numalens says of it: demo.sh NUMALENS FOLDER
set -euo pipefail

numalens=$1
folder=$2
program=targets/build/serial_init_pthreads
recording=$folder/serial_init.numalens

show() { printf '\n$ %s\n' "$*"; "$@"; }

mkdir -p "$folder"
cat <<END

$program allocates an array, initialises all of it in its first thread, and then lets four threads work on a
quarter each. Pages land on the node of the thread that touches them first, so three of the four work on remote memory.
END
show "$numalens" record --engine sample --force -o "$recording" -- "$program"
show "$numalens" report "$recording" --section summary --section first-touch --section lines --top 5
cat <<END

The line on top of first-touch is where the fault is: initialise in the threads that use the memory. Next:
  $numalens report $recording                       all sections
  $numalens record --engine sample -- YOUR-PROGRAM
  $numalens machine list                            other machines to place it on
END
