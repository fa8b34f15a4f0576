for node in /sys/devices/system/node/node[0-9]*; do
    echo "${node##*/} cpus=$(cat $node/cpulist) distance=$(cat $node/distance)"
done > sysfs
cat /sys/devices/system/node/node*/meminfo > meminfo
grep -H . /sys/devices/virtual/memory_tiering/memory_tier*/nodelist > tiers
numactl --hardware > numactl
"$NUMALENS" machine show --format json > machine.json
"$NUMALENS" machine show > machine.txt
# An emulator has no far memory: what is measured means nothing here, but whose it is does.
"$NUMALENS" machine measure --format json -o measured.xml > measured.json
"$NUMALENS" machine show --format json --machine measured.xml > measured-machine.json
