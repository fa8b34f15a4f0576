# Counted exactly: counts repeat, so that recordings of several runs can be compared. The policy is
# that of the whole command, so that no other program than the target is in the profile. All begin on the CPU of node 0:
# where the kernel would have a program begin, before its threads bind themselves, is chance. Rounds: the 50,000
# accesses that loading a program makes to files lie where these were in memory before, and are to be less than the
# tolerance.
set -e
record() { # POLICY TARGET ROUNDS COMMAND...
    policy=$1 name=$2 rounds=$3
    shift 3
    "$@" "$NUMALENS" record --engine exact -q -o "$name.$policy.numalens" -- "$TARGETS/$name" --pin --size 4 --rounds "$rounds"
}
for target in serial_init_pthreads:20 shared_read_write:1000000 main_allocates_private:20; do
    record first-touch ${target%:*} ${target#*:} numactl --physcpubind=0
    record interleave ${target%:*} ${target#*:} numactl --physcpubind=0 --interleave=all
    record bind:2 ${target%:*} ${target#*:} numactl --physcpubind=0 --membind=2
done
