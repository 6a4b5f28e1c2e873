#!/bin/bash
# fresh.sh 12|13 root|user TARGET...: a clone of this commit in a bare root of Debian, in which `make TARGET` runs: with its own
# pids, mounts, IPC, name and cgroups, and the network of this machine. Nothing is there but Debian's minimum, ca-certificates,
# make, git, and this machine's Rust toolchain, mounted read-only.
#
# The bare root (mk/bare-root.sh) is made once and unpacked for each run; what a run left stays in target/fresh/VERSION-WHO
# until the next one. As `user` what the packages give has to be there first: root installs what `make` names in its line, once,
# as an administrator would. Each target has TIME_LIMIT_S (3 hours).
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 3 ] || { echo "usage: fresh.sh 12|13 root|user TARGET..." >&2; exit 2; }
debian=$1 user=$2
shift 2
case $debian in
12) suite=bookworm ;;
13) suite=trixie ;;
*) echo "fresh: DEBIAN=$debian: 12 or 13" >&2; exit 2 ;;
esac
case $user in root | user) ;; *) echo "fresh: FRESH_AS=$user: root or user" >&2; exit 2 ;; esac
[ "$(id -u)" = 0 ] || { echo "fresh: only root can make a root of its own: sudo make fresh" >&2; exit 1; }
mk/setup.sh rust mmdebstrap git unshare
limit_s=${TIME_LIMIT_S:-10800}
place=$PWD/target/fresh
root=$place/$debian-$user
mkdir -p "$place"

base=$(mk/bare-root.sh "$suite")

umount_all() {
    local at
    while at=$(awk -v root="$root/" 'index($2, root) == 1 { at = $2 } END { print at }' /proc/mounts) && [ -n "$at" ]; do umount -l "$at" || return; done
}
umount_all
rm -rf "$root"
mkdir -p "$root"
tar -x -C "$root" -f "$base"
git clone --quiet --no-local . "$root/srv/tutti"
[ -z "$(git status --porcelain)" ] || echo "fresh: what is not committed is not in it"

# The toolchain, the certificates that this machine trusts, its names of hosts.
mkdir -p "$root/opt/rust"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
passed_on=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/rust/bin LANG=C.UTF-8 "TERM=${TERM:-dumb}")
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY PIP_INDEX_URL PIP_CERT PIP_DEFAULT_TIMEOUT SSL_CERT_FILE \
    REQUESTS_CA_BUNDLE CARGO_HTTP_CAINFO TUTTI_REQUIRE; do
    [ -z "${!name:-}" ] || passed_on+=("$name=${!name}")
done

# inside WHO COMMAND...: in namespaces of its own, which end with it.
inside() {
    local who=$1 become=()
    shift
    [ "$who" = root ] || become=(setpriv --reuid=1000 --regid=1000 --clear-groups)
    ROOT=$root TOOLCHAIN=$(rustc --print sysroot) timeout --kill-after=20 "$limit_s" \
        unshare --mount --pid --ipc --uts --cgroup --fork --kill-child --propagation private bash -c '
            mount --bind "$ROOT" "$ROOT" && cd "$ROOT" || exit 1
            mount --bind "$TOOLCHAIN" opt/rust && mount -o remount,bind,ro opt/rust || exit 1
            mount -t proc proc proc && mount --rbind /dev dev && mount -t tmpfs -o mode=755 tmpfs run || exit 1
            mount -t tmpfs -o mode=1777 tmpfs dev/shm && mount -t tmpfs -o mode=1777 tmpfs tmp && mount --rbind /sys sys || exit 1
            hostname bare
            exec chroot . "$@"' _ env -i "${passed_on[@]}" HOME="$([ "$who" = root ] && echo /root || echo /home/user)" "${become[@]}" "$@"
}

if [ "$user" = user ]; then
    inside root bash -c 'useradd --create-home --uid 1000 --shell /bin/bash user && chown -R user: /srv/tutti'
fi
failed=0
for target in "$@"; do
    start=$SECONDS
    echo "fresh: Debian $debian, as $user: make $target"
    log=$place/$debian-$user-$target.log
    status=0
    inside "$user" make -C /srv/tutti "$target" 2>&1 | tee "$log" || status=$?
    # The administrator reads the line, installs what it names, and the user types the same again.
    if [ $status != 0 ] && [ "$user" = user ] && packages=$(sed -n 's/^setup: missing: .*install the Debian packages: //p' "$log" | tail -1) && [ -n "$packages" ]; then
        echo "fresh: root installs $packages"
        # shellcheck disable=SC2086
        inside root bash -c 'apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"' _ $packages >>"$log" 2>&1
        start=$SECONDS status=0
        inside "$user" make -C /srv/tutti "$target" 2>&1 | tee "$log" || status=$?
    fi
    echo "fresh: Debian $debian, as $user: make $target: $([ $status = 0 ] && echo passed || echo "FAILED (status $status)") after $((SECONDS - start)) s; ${log#"$PWD/"}"
    [ $status = 0 ] || failed=1
done
exit $failed
