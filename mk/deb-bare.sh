#!/bin/bash
# deb-bare.sh 12|13: the packages of target/deb in a bare root of Debian, installed by apt: a job of a program of the system, one
# compiled there by mpicc, one of the daemon; then a purge. Without Rust, without the sources. Needs root, mmdebstrap, the network.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in
12) suite=bookworm ;;
13) suite=trixie ;;
*) echo "deb-bare: DEBIAN=${1:-}: 12 or 13" >&2; exit 2 ;;
esac
[ "$(id -u)" = 0 ] || { echo "deb-bare: only root can make a root of its own: sudo make deb-bare" >&2; exit 1; }
base=$(mk/bare-root.sh "$suite")
root=$PWD/target/fresh/deb-$suite
rm -rf "$root"
mkdir -p "$root"
trap 'rm -rf "$root"' EXIT
tar -x -C "$root" -f "$base"
# The newest version that has been made.
newest=$(ls -t target/deb/tutti_*.deb | head -1)
version=${newest#*/tutti_}
cp "$newest" "target/deb/tutti-dev_$version" examples/hello.c "$root/srv/"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
passed_on=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive)
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    [ -z "${!name:-}" ] || passed_on+=("$name=${!name}")
done
cat >"$root/srv/all" <<'END'
set -euo pipefail
cd /srv
files() { find / -xdev \( -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/log -o -path /srv -o -path /tmp \) -prune -o -print | LC_ALL=C sort; }
apt-get -qq update
apt-get -qq install -y --no-install-recommends gcc libc6-dev >log 2>&1 || { tail -5 log; exit 1; }
files >before
apt-get -qq install -y --no-install-recommends ./tutti_*.deb >log 2>&1 || { tail -5 log; exit 1; }
echo "deb-bare: a program of the system"
mpiexec -n 2 uname -s
apt-get -qq install -y --no-install-recommends ./tutti-dev_*.deb >log 2>&1 || { tail -5 log; exit 1; }
echo "deb-bare: a program that mpicc compiles"
mpicc -o hello hello.c
mpiexec -n 2 ./hello
echo "deb-bare: a job of the daemon"
tuttid >daemon.log 2>&1 &
for ((look = 0; look < 400; look++)); do ! tutti nodes 2>/dev/null | grep -q ' up ' || break; sleep 0.1; done
tutti run -n 2 ./hello
tutti down
wait
dpkg --purge tutti-dev tutti >log 2>&1 || { tail -5 log; exit 1; }
files >after
diff before after || { echo "deb-bare: FAILED: the purge has left something"; exit 1; }
echo "deb-bare: the purge has left nothing"
END
ROOT=$root timeout --kill-after=20 1200 unshare --mount --pid --ipc --uts --cgroup --fork --kill-child --propagation private bash -c '
    mount --bind "$ROOT" "$ROOT" && cd "$ROOT" || exit 1
    mount -t proc proc proc && mount --rbind /dev dev && mount -t tmpfs -o mode=755 tmpfs run || exit 1
    mount -t tmpfs -o mode=1777 tmpfs dev/shm && mount -t tmpfs -o mode=1777 tmpfs tmp && mount --rbind /sys sys || exit 1
    hostname bare
    exec chroot . "$@"' _ env -i "${passed_on[@]}" bash /srv/all
