#!/bin/bash
# install.sh is-current | copy DESTDIR PREFIX | remove DESTDIR PREFIX: the installation tree of target/dist, and its copy. Needs
# no cargo: `sudo make install` after `make` works where only the user has one.
#
# What was put there is listed in PREFIX/share/tutti/installed: files, and behind them the folders that were made for them
# ("lib/tutti/"). A later install removes what it no longer has, `remove` all of it, and nothing else. `copy-debug` and
# `remove-debug` do the same with the debug information in target/dist-debug, whose list is PREFIX/.build-id/tutti-installed.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
tree=target/dist installed=share/tutti/installed
complete=target/dist-work/complete

# Whether the tree is whole and no source is newer. `complete` has the time at which its build began.
is_current() {
    [ -x $tree/bin/tutti ] && [ -e $complete ] &&
        [ -z "$(find Cargo.toml Cargo.lock crates bindings -newer $complete -type f -print -quit)" ]
}

fail() {
    echo "$1: $2" >&2
    exit 1
}

# check_prefix COMMAND: an absolute path that the shell takes as it is.
check_prefix() {
    case $prefix in
    /*) ;;
    *) fail "$1" "PREFIX=$prefix: must be an absolute path" ;;
    esac
}

# listed FILE: the lines of a list that lead nowhere else.
listed() { [ ! -f "$1" ] || grep -vE '^/|(^|/)\.\.(/|$)|^$' "$1" || true; }

# remove_listed: reads lines of a list, removes files and then folders that are empty. A process for each file would take longer
# than the copy.
remove_listed() {
    local line files=() folders=()
    while read -r line; do
        case $line in
        ./) folders+=("") ;;
        */) folders+=("$line") ;;
        *) files+=("$line") ;;
        esac
    done
    [ ${#files[@]} = 0 ] || printf '%s\0' "${files[@]/#/$to/}" | xargs -0 rm -f --
    for line in "${folders[@]}"; do rmdir --ignore-fail-on-non-empty -- "$to/$line" 2>/dev/null || true; done
}

copy() {
    local list folder made=()
    log=$(mktemp) staging=
    trap 'rm -rf -- "$log" "$log.files" "$log.old" ${staging:+"$staging"}' EXIT
    # One line, before anything is written. The starter is readable by its owner only (and root).
    folder=$(find $tree -type f ! -readable -print -quit)
    [ -z "$folder" ] || fail install "cannot read $folder: install as the user who has built it, or as root"
    folder=$to
    while [ ! -e "$folder" ]; do folder=$(dirname -- "$folder"); done
    while read -r name; do
        { [ ! -e "$to/$name" ] && [ -w "$folder" ]; } || [ -w "$to/$name" ] ||
            fail install "cannot write to $([ -e "$to/$name" ] && echo "$to/$name" || echo "$folder"): become its owner (sudo make install), or choose another PREFIX="
    done < <(cd $tree && echo . && find . -mindepth 1 -type d -printf '%P\n' | sort)
    while read -r name; do
        [ -d "$to/$name" ] || { made+=("$name/"); mkdir -p -- "$to/$name"; }
    done < <(cd $tree && { echo .; dirname $installed; find . -mindepth 1 -type d -printf '%P\n'; } | sort -u)
    # Written whole beside their places, then linked there: a running program keeps its old files, and a program that starts
    # sees no half of one. Folders that are there keep their owner and mode.
    staging=$(mktemp -d -- "$to/.tutti-install.XXXXXX")
    (cd $tree && find . ! -type d -print0 | tar -c --null -T -) 2>"$log" | tar -x --no-same-owner -C "$staging" 2>>"$log" ||
        fail install "$(head -1 "$log")"
    # Where the service manager finds the daemon, and the page.
    local unit
    for unit in "$staging"/lib/systemd/system/*.service; do
        [ -e "$unit" ] || continue
        sed "s|@PREFIX@|$(sed 's/[&|\\]/\\&/g' <<<"$prefix")|" "$unit" >"$unit.new" && mv -- "$unit.new" "$unit"
    done
    list=$staging/$installed
    mkdir -p -- "${list%/*}"
    (cd $tree && find . ! -type d -printf '%P\n' | sort) >"$log.files"
    { cat "$log.files"; echo $installed; printf '%s\n' "${made[@]}" "$(listed "$to/$installed" | grep '/$' || true)" |
        grep . | sort -ru || true; } >"$list"
    listed "$to/$installed" | grep -v '/$' | sort | comm -23 - <(grep -v '/$' "$list" | sort) >"$log.old" || true
    (cd "$staging" && find . ! -type d -print0 | xargs -0 cp -P --parents --link --force --target-directory="$to") 2>"$log" ||
        fail install "$(head -1 "$log")"
    remove_listed <"$log.old"
    echo "installed $(wc -l <"$log.files") files in $to"
    [ $tree = target/dist ] || return 0
    case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) echo "    export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
}

remove() {
    local list=$to/$installed
    [ -f "$list" ] || fail uninstall "$list is not there: nothing of Tutti is installed in $to (PREFIX= says where)"
    [ -w "${list%/*}" ] || fail uninstall "cannot write to $to: become its owner (sudo make uninstall)"
    remove_listed < <(listed "$list")
    echo "removed what was installed in $to"
}

case ${1:-} in
is-current)
    ! is_current || exit 0
    # What root builds in a user's tree the user could not build again.
    if [ -n "${SUDO_UID:-}" ] || ! command -v "${CARGO:-cargo}" >/dev/null; then
        if [ -e $complete ]; then what="is older than the sources"; else what="is not built"; fi
        echo "install: target/dist $what: run make first, as the user who has Rust" >&2
        exit 2
    fi
    exit 1
    ;;
copy | remove | copy-debug | remove-debug)
    prefix=${3%/} to=$2${3%/}
    action=${1%-debug}
    check_prefix "$([ "$action" = copy ] && echo install || echo uninstall)"
    [ "$action" = "$1" ] || tree=target/dist-debug installed=.build-id/tutti-installed
    "$action"
    ;;
*) echo "usage: install.sh is-current | copy[-debug] DESTDIR PREFIX | remove[-debug] DESTDIR PREFIX" >&2; exit 2 ;;
esac
