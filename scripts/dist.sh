#!/usr/bin/env bash
# Makes the release archive: one program that needs nothing of the system but its kernel, with its papers.
#   ./scripts/dist.sh          make it: target/dist/numalens-VERSION-x86_64-linux.tar.xz
#   ./scripts/dist.sh --test   make it, unpack it in a root that has nothing else but busybox, and record with it there
#
# The program is linked statically with the system's own C library, which only takes another link of what `make build`
# compiles. (The library that it preloads into programs, and the agent, are bytes inside of it, and link nothing.)
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
dist=$target/dist
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
name=numalens-$version-x86_64-linux
archive=$dist/$name.tar.xz

fail() { printf 'dist: %s\n' "$*" >&2; exit 1; }

make_archive() {
    cargo rustc --release -q -p numalens --bin numalens -- -C target-feature=+crt-static
    rm -rf "$dist"
    mkdir -p "$dist/$name"/{include,completions,man/man1}
    strip -o "$dist/$name/numalens" "$target/release/numalens"
    cp README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$dist/$name"
    cp include/numalens.h "$dist/$name/include"
    local shell
    for shell in bash zsh fish; do
        "$dist/$name/numalens" completions "$shell" > "$dist/$name/completions/numalens.$shell"
    done
    "$dist/$name/numalens" man -o "$dist/$name/man/man1"
    # The same files make the same archive, whoever packs them and whenever.
    local time
    time=$(git log -1 --format=%ct 2>/dev/null || echo 0)
    tar -C "$dist" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$time" -c "$name" | xz -T0 -6 > "$archive"
    printf 'dist: %s, %s\n' "$archive" "$(du -h "$archive" | cut -f1)"
}

# What runs in the bare root, as its first process.
bare_test='
set -e
cd /tmp
fail() { echo "dist: in the bare root: $*" >&2; exit 1; }
numalens=/opt/*/numalens
$numalens --version
loop="i=0; while [ \$i -lt 500 ]; do i=\$((i+1)); done; echo \$i"
out=$($numalens record -q -o run.numalens -- /bin/busybox sh -c "$loop")
[ "$out" = 500 ] || fail "the program wrote: $out"
$numalens check run.numalens
$numalens report run.numalens --format json > report.json
grep -q "\"engine\": *\"exact\"" report.json || fail "it was not the exact engine"
accesses=$(sed -n "s/^ *\"accesses\": *\([0-9]*\),\$/\1/p" report.json | head -n 1)
[ "${accesses:-0}" -gt 500 ] || fail "accesses: $accesses"
$numalens header > numalens.h
cmp numalens.h /opt/*/include/numalens.h
echo "dist: recorded $accesses accesses in a root without any library"
'

test_archive() {
    local program=$dist/$name/numalens root
    ! readelf -lW "$program" | grep -q INTERP || fail "$program wants a loader"
    ! readelf -dW "$program" | grep -q NEEDED || fail "$program wants libraries"
    root=$(mktemp -d)
    trap 'rm -rf "$root"' RETURN
    mkdir -p "$root"/{bin,opt,proc,sys,dev,tmp}
    cp "$(command -v busybox)" "$root/bin/busybox"
    tar -C "$root/opt" -xJf "$archive"
    local as_root=() private=(unshare --mount --pid --fork --kill-child)
    [ "$(id -u)" = 0 ] || private+=(--map-root-user)
    if ! "${private[@]}" true 2>/dev/null; then
        echo 'dist: skipped: this system lets nobody have a root of their own (unshare)'
        return
    fi
    "${private[@]}" sh -ec '
        mount -t proc proc "$1/proc"
        mount --rbind /sys "$1/sys"
        for device in null random urandom; do
            : > "$1/dev/$device"
            mount --bind "/dev/$device" "$1/dev/$device"
        done
        exec chroot "$1" /bin/busybox env -i PATH=/nowhere /bin/busybox sh -c "/bin/busybox --install -s /bin; PATH=/bin; $2"
    ' sh "$root" "$bare_test"
}

case "${1:-}" in
    '') make_archive ;;
    --test) make_archive; test_archive ;;
    *) echo 'usage: ./scripts/dist.sh [--test]' >&2; exit 2 ;;
esac
