#!/bin/bash
# image-bare.sh: the image of target/image. buildah of Debian 12, in a bare root of it, builds what the Dockerfile says on a bare
# root in place of debian:bookworm-slim, and runs a job in it; the steps of the definition for Apptainer, which Debian 12 has
# not, are run one after the other. Needs root, mmdebstrap, the network.
set -euo pipefail
cd "$(dirname "$0")/.."
base=$(mk/bare-root.sh bookworm)
mk/bare-run.sh bookworm image-bare target/image examples/hello.c "$base" <<'END'
quiet() { "$@" >/srv/log 2>&1 || { tail -5 /srv/log; exit 1; }; }
apt-get -qq update
quiet apt-get -qq install -y --no-install-recommends buildah
# Without a daemon, without mounts of its own, on any file system.
export BUILDAH_ISOLATION=chroot CONTAINERS_STORAGE_CONF=/srv/storage.conf
printf '[storage]\ndriver = "vfs"\ngraphroot = "/srv/storage"\nrunroot = "/run/storage"\n' >storage.conf
mkdir -p /etc/containers
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >/etc/containers/policy.json
empty=$(buildah from scratch)
quiet buildah add "$empty" /srv/bookworm.tar /
quiet buildah copy "$empty" /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
quiet buildah commit --rm "$empty" docker.io/library/debian:bookworm-slim
rm bookworm.tar
echo "image-bare: buildah builds the Dockerfile"
quiet buildah build --pull=never --tag tutti image
built=$(buildah from --pull=never localhost/tutti)
inside() { buildah run --volume /srv:/srv:ro "$built" -- "$@"; }
[ "$(buildah inspect --format '{{.OCIv1.Config.Cmd}}' "$built")" = "[tutti doctor]" ]
inside sh -c 'cd /tmp && mpicc -o hello /srv/hello.c && exec mpiexec -n 2 ./hello'
inside sh -c 'tutti doctor >/dev/null; [ $? -le 1 ]'
[ "$(inside sh -c 'ls /opt /var/lib/apt/lists')" = "$(printf '/opt:\n\n/var/lib/apt/lists:')" ]

echo "image-bare: the steps for Apptainer"
# section NAME: its lines.
section() { awk -v name="%$1" '/^%/ { is_in = $1 == name; next } is_in' image/tutti.def; }
section files | awk NF | while read -r from to; do mkdir -p "${to%/*}" && cp "image/$from" "$to"; done
section post >post
quiet sh -e post
{ section environment; section runscript; } >runscript
mpicc -o hello hello.c
sh runscript -n 2 ./hello
section test >test
sh -e test
END
