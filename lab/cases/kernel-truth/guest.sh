set -e
for target in "$TARGETS"/*; do
    [ -f "$target" ] && [ -x "$target" ] || continue
    name=${target##*/}
    case $name in *.so) continue ;; esac
    pin=--pin
    [ $name = unpinned ] && pin=
    "$target" $pin --size 4 --scale 0.01 --truth $name.json
done
