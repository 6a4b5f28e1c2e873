#!/bin/bash
# setup.sh WHAT...: makes sure that each of WHAT is there (a command, or `venv` for Python's venv with pip).
# What is missing is installed with apt-get when we are root, else named in one line and the status is 1.
set -euo pipefail

package_of() {
    case $1 in
    venv) echo python3-venv ;;
    python-headers) echo python3-dev ;;
    taskset) echo util-linux ;;
    gcc) echo gcc libc6-dev ;;
    nm) echo binutils ;;
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

missing=()
for what in "$@"; do
    present "$what" || missing+=("$what")
done
[ ${#missing[@]} -gt 0 ] || exit 0

packages=()
for what in "${missing[@]}"; do
    read -ra more <<<"$(package_of "$what")"
    packages+=("${more[@]}")
done

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "setup: installing ${packages[*]}"
    log=$(mktemp)
    export DEBIAN_FRONTEND=noninteractive
    if ! { apt-get install -y --no-install-recommends "${packages[@]}" ||
        { apt-get update && apt-get install -y --no-install-recommends "${packages[@]}"; }; } >"$log" 2>&1 </dev/null; then
        echo "setup: apt-get could not install ${packages[*]}: $(grep '^E:' "$log" | tail -1)" >&2
        rm -f "$log"
        exit 1
    fi
    rm -f "$log"
else
    echo "setup: missing: ${missing[*]}; install the Debian packages: ${packages[*]}" >&2
    exit 1
fi
