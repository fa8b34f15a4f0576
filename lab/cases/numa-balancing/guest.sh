echo 1 > /proc/sys/kernel/numa_balancing || exit 1
before=$(awk '/^numa_hint_faults / { print $2 }' /proc/vmstat)
"$NUMALENS" record --engine sample -q -o profile.numalens -- "$PROBES/numa-balancing" --pin --size 4 --truth truth.json
status=$?
after=$(awk '/^numa_hint_faults / { print $2 }' /proc/vmstat)
echo 0 > /proc/sys/kernel/numa_balancing
echo "hint faults: $((after - before))" >&2
[ "$after" -gt "$before" ] || exit 1
exit $status
