#!/bin/bash
# image.sh: target/image has what a container with Tutti is built from: a Dockerfile, a definition for Apptainer, and the newest
# packages of target/deb.
set -euo pipefail
cd "$(dirname "$0")/.."
image=target/image
newest=$(ls -t target/deb/tutti_*.deb 2>/dev/null | head -1) || true
[ -n "$newest" ] || { echo "image: target/deb has no package: make deb" >&2; exit 1; }
main=${newest##*/}
dev=tutti-dev_${main#tutti_}
[ -f "target/deb/$dev" ] || { echo "image: target/deb has no $dev: make deb" >&2; exit 1; }
rm -rf "$image"
mkdir -p "$image"
cp "$newest" "target/deb/$dev" mk/image/Dockerfile "$image/"
sed -e "s|@TUTTI@|$main|g" -e "s|@TUTTI_DEV@|$dev|g" mk/image/tutti.def >"$image/tutti.def"
echo "$image: docker build -t tutti $image"
echo "$image: cd $image && apptainer build tutti.sif tutti.def"
