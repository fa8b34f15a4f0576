set -e
for target in "$TARGETS"/*; do
    [ -f "$target" ] && [ -x "$target" ] || continue
    name=${target##*/}
    case $name in
    *.so) continue ;;
    # They tell of the touches of all threads as of one.
    serial_init_haskell_fixed | serial_init_rust_fixed) continue ;;
    esac
    pin=--pin
    case $name in unpinned*) pin= ;; esac
    "$target" $pin --size 4 --scale 0.01 --truth $name.json
done
