#!/bin/bash
# bare-run.sh bookworm|trixie NAME FILE... <SCRIPT: runs a script of bash in a bare root of Debian (mk/bare-root.sh) with its own
# mounts, pids, IPC, name and cgroups, and the network of this machine. The files are in /srv, where it begins; the root is gone
# behind it. NAME is what lines of failure begin with. Needs root, mmdebstrap, the network.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=$1 name=$2
shift 2
[ "$(id -u)" = 0 ] || { echo "$name: only root can make a root of its own: sudo make $name" >&2; exit 1; }
base=$(mk/bare-root.sh "$suite")
root=$PWD/target/fresh/$name-$suite
rm -rf "$root"
mkdir -p "$root"
trap 'rm -rf "$root"' EXIT
tar -x -C "$root" -f "$base"
cp -r "$@" "$root/srv/"
cat >"$root/srv/all"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
passed_on=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive)
for variable in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    [ -z "${!variable:-}" ] || passed_on+=("$variable=${!variable}")
done
ROOT=$root timeout --kill-after=20 1200 unshare --mount --pid --ipc --uts --cgroup --fork --kill-child --propagation private bash -c '
    mount --bind "$ROOT" "$ROOT" && cd "$ROOT" || exit 1
    mount -t proc proc proc && mount --rbind /dev dev && mount -t tmpfs -o mode=755 tmpfs run || exit 1
    mount -t tmpfs -o mode=1777 tmpfs dev/shm && mount -t tmpfs -o mode=1777 tmpfs tmp && mount --rbind /sys sys || exit 1
    hostname bare
    exec chroot . "$@"' _ env -i "${passed_on[@]}" bash -c 'cd /srv && exec bash -euo pipefail all'
