#!/bin/bash
# setup.sh WHAT... [-- WANTED...]: makes sure that each of WHAT is there: a command, `rust` (the toolchain that Cargo.toml asks
# for), `venv` (Python's, with pip), `python-headers`.
#
# All that is missing is installed at once with apt-get when we are root, else named in one line, and the status is 1.
# What is WANTED and cannot be had is named too, and stops nothing: what needs it is skipped.
set -euo pipefail

package_of() {
    case $1 in
    venv) echo python3-venv ;;
    python-headers) echo python3-dev ;;
    taskset | setpriv | unshare | nsenter) echo util-linux ;;
    gcc) echo gcc libc6-dev ;;
    nm | readelf) echo binutils ;;
    llvm-config-19) echo llvm-19-dev ;;
    dpkg-deb) echo dpkg ;;
    ip) echo iproute2 ;;
    pgrep) echo procps ;;
    script) echo bsdutils ;;
    autoreconf) echo autoconf automake libtool ;;
    *) echo "$1" ;;
    esac
}

present() {
    case $1 in
    venv) python3 -c 'import venv, ensurepip' ;;
    # It calls the other two.
    autoreconf) command -v autoreconf && command -v automake && command -v libtoolize ;;
    python-headers) python3 -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' ;;
    *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

# Rust is no package of Debian's: its own is too old. One line says what is here and how the right one comes.
rust_is_missing() {
    local wanted here
    wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "${0%/*}/../Cargo.toml")
    here=$({ "${CARGO:-cargo}" --version && rustc --version; } 2>/dev/null | sed -n 's/^[a-z]* \([0-9.]*\).*/\1/p' | sort -V | head -1) || true
    [ "$(printf '%s\n' "$wanted" "${here:-0}" | sort -V | head -1)" != "$wanted" ] || return 1
    if [ -n "$here" ]; then here="here is $here"; else here="there is none in PATH"; fi
    echo "setup: needs Rust $wanted or newer ($here); rustup has it: \`rustup toolchain install stable\`" >&2
}

missing=() needed=0 is_wanted='' failed=0
for what in "$@"; do
    case $what in
    --) is_wanted=yes ;;
    rust) ! rust_is_missing || failed=1 ;;
    *)
        present "$what" || {
            missing+=("$what")
            [ -n "$is_wanted" ] || needed=${#missing[@]}
        }
        ;;
    esac
done
[ ${#missing[@]} -gt 0 ] || exit $failed

# packages WHAT...: of which packages they are.
packages() {
    local what all=()
    for what in "$@"; do all+=("$(package_of "$what")"); done
    echo "${all[@]}"
}

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    export DEBIAN_FRONTEND=noninteractive
    limits=(-o Acquire::Retries=1 -o Acquire::http::Timeout=20)
    get() {
        # shellcheck disable=SC2046
        apt-get install -y --no-install-recommends "${limits[@]}" $(packages "$@") >"$log" 2>&1 </dev/null
    }
    echo "setup: installing $(packages "${missing[@]}")"
    ! get "${missing[@]}" || exit $failed
    can_update=yes
    apt-get update "${limits[@]}" -o APT::Update::Error-Mode=any >"$log" 2>&1 </dev/null || can_update=''
    ! get "${missing[@]}" || exit $failed
    # One that cannot be had does not take the others along.
    if [ "$needed" -gt 0 ] && ! get "${missing[@]:0:needed}"; then
        echo "setup: apt-get could not install $(packages "${missing[@]:0:needed}"): $(grep '^E:' "$log" | tail -1)" >&2
        failed=1
    fi
    still=()
    for what in "${missing[@]:needed}"; do
        [ -n "$can_update" ] && get "$what" || still+=("$what")
    done
    [ ${#still[@]} = 0 ] ||
        echo "setup: apt-get could not install $(packages "${still[@]}"): what needs it is skipped ($(grep '^E:' "$log" | tail -1))"
    exit $failed
fi
if [ "$needed" -gt 0 ]; then
    echo "setup: missing: ${missing[*]:0:needed}; install the Debian packages: $(packages "${missing[@]}")" >&2
    exit 1
fi
echo "setup: what needs ${missing[*]} is skipped; to have it, install the Debian packages: $(packages "${missing[@]}")"
exit $failed
