#!/usr/bin/env bash
# Installs what building and testing need and says what it does; quick when nothing is missing.
#   ./setup.sh            install
#   ./setup.sh --build    only what `make build` and `make demo` need: a C compiler and Rust's target for the agent
#   ./setup.sh --check    only say what is missing; status 1 when something is
#   ./setup.sh --corpus   install the programs of `make corpus` as well
set -euo pipefail
cd "$(dirname "$0")"

rust_wanted=1.90
agent_target=x86_64-unknown-none
# The web pages' tools need it; building numalens itself needs no Node.js at all.
node_wanted=20.19.0
node_brought=22.12.0

check_only=false
build_only=false
corpus=false
case "${1:-}" in
    '') ;;
    --check) check_only=true ;;
    --build) build_only=true ;;
    --corpus) corpus=true ;;
    *) echo "usage: ./setup.sh [--check | --build | --corpus]" >&2; exit 2 ;;
esac

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# Debian packages, and why. Some are large (ghc: 1 GB): tests record programs of all these languages.
packages=(
    build-essential gfortran ghc    # targets in C, Fortran, Haskell
    libnuma-dev numactl hwloc       # programs and machines to compare with
    qemu-system-x86 busybox-static  # the NUMA lab
    xz-utils python3 openmpi-bin    # programs that tests record
    hyperfine jq                    # measurements
    valgrind                        # callgrind_annotate reads exports
    python3-venv                    # tests of the Python package
    libomp5                         # an OpenMP runtime that tells of its regions
    musl-tools                      # programs of another C library
    libjemalloc2 libtcmalloc-minimal4 libmimalloc2.0 # allocators that tests record
)
# Commands that may come from elsewhere; their package only when they are missing.
declare -A package_of=([go]=golang-go [java]=default-jdk-headless [javac]=default-jdk-headless [node]=nodejs [npm]=npm [chromium]=chromium)

if $build_only; then
    packages=(build-essential)
    package_of=()
fi

# Programs that `make corpus` records, and nothing else needs: some 1 GB. Servers are installed for their programs; they
# are neither started nor enabled.
servers=(nginx postgresql redis-server)
if $corpus; then
    python=$(basename "$(readlink -f /usr/bin/python3 || echo python3.11)")
    packages+=(
        bc bzip2 cmake ffmpeg g++ gawk gdb git imagemagick lua5.4 openssl patch perl sqlite3 strace stress-ng zstd
        libopenblas0-pthread "lib$python-testsuite" python3-numpy
        erlang-base guile-3.0 luajit ocaml-nox php-cli ruby sbcl swi-prolog-nox
        "${servers[@]}" apache2-utils
    )
fi

missing_packages() {
    local installed command
    installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null \
        | sed -n 's/^installed //p' || true)
    for package in "${packages[@]}"; do
        grep -qxF "$package" <<<"$installed" || echo "$package"
    done
    for command in "${!package_of[@]}"; do
        command -v "$command" >/dev/null || echo "${package_of[$command]}"
    done
}

install_packages() {
    local as_root=() missing
    command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || {
        say "this is not a Debian; make sure that these are installed: ${packages[*]} ${!package_of[*]}"
        return
    }
    mapfile -t missing < <(missing_packages | sort -u)
    [ ${#missing[@]} -gt 0 ] || return 0
    $check_only && fail "missing Debian packages: ${missing[*]}"
    say "installing Debian packages: ${missing[*]}"
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || fail "not root and no sudo; run as root: apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    $corpus && keep_servers_down
    "${as_root[@]}" apt-get -q update || fail "apt-get update failed: is there a network? Then run again"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends "${missing[@]}" \
        || fail "apt-get could not install ${missing[*]}; its message above says why"
    $corpus || return 0
    # Those that this has brought, not those that were there.
    if command -v systemctl >/dev/null; then
        for package in "${servers[@]}"; do
            printf '%s\n' "${missing[@]}" | grep -qxF "$package" || continue
            "${as_root[@]}" systemctl disable -q "$package" || say "$package could not be disabled"
        done
    fi
}

# Packages of servers start them when they are installed, unless a policy says no. One that is there already stays.
keep_servers_down() {
    local policy=/usr/sbin/policy-rc.d
    [ -e $policy ] && return
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null
    "${as_root[@]}" chmod +x $policy
    # shellcheck disable=SC2064
    trap "${as_root[*]} rm -f $policy" EXIT
}

# A new enough Rust is not in Debian 12, so this only checks and says what to do.
check_rust() {
    local version component
    command -v cargo >/dev/null || {
        [ -x "$HOME/.cargo/bin/cargo" ] && fail 'Rust is installed but not on the PATH: run  . "$HOME/.cargo/env"'
        fail "there is no Rust. Install $rust_wanted or newer with rustup, https://rustup.rs, then run again"
    }
    version=$(cargo --version | awk '{print $2}')
    if [ "$(printf '%s\n' "$rust_wanted" "$version" | sort -V | head -n 1)" != "$rust_wanted" ]; then
        command -v rustup >/dev/null && fail "Rust $version is too old, $rust_wanted is needed: run  rustup update stable"
        fail "Rust $version is too old (Debian's is); install $rust_wanted or newer with rustup, https://rustup.rs"
    fi
    for component in fmt:rustfmt clippy:clippy; do
        $build_only && break
        command -v "cargo-${component%%:*}" >/dev/null && continue
        command -v rustup >/dev/null || fail "there is no cargo-${component%%:*}: install it beside cargo"
        $check_only && fail "missing Rust component: ${component##*:}"
        say "installing the Rust component ${component##*:}"
        rustup component add "${component##*:}" || fail "rustup could not install ${component##*:}: is there a network?"
    done
    # The exact engine's part inside the program is freestanding.
    if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$agent_target" ]; then
        command -v rustup >/dev/null || fail "the Rust target $agent_target is missing: install it beside cargo"
        $check_only && fail "missing Rust target: $agent_target"
        say "installing the Rust target $agent_target"
        rustup target add "$agent_target" || fail "rustup could not install $agent_target: is there a network?"
    fi
}

# Debian 12's Node.js is too old: npm has newer ones as packages.
check_node() {
    local version own=target/node/node_modules/.bin/node
    command -v node >/dev/null || { say "there is no Node.js: tests of the web pages will fail"; return; }
    version=$(node --version | tr -d v)
    [ "$(printf '%s\n' "$node_wanted" "$version" | sort -V | head -n 1)" = "$node_wanted" ] && return
    [ -x $own ] && return
    $check_only && fail "Node.js $version is too old for the web pages' tools: run ./setup.sh"
    say "Node.js $version is too old for the web pages' tools: bringing $node_brought into target/node"
    npm install --silent --no-audit --no-fund --no-save --prefix target/node "node@$node_brought" \
        || fail "npm could not install node@$node_brought: is there a network?"
}

install_packages
check_rust
$build_only || check_node
