#!/bin/bash
# deb.sh [FOLDER]: Debian packages of the finished tree target/dist, in FOLDER (target/deb), by dpkg-deb alone:
#
# | package | what |
# |---|---|
# | tutti | daemon, commands, libraries, manual pages of commands, completions, configuration, unit |
# | tutti-dev | headers, compiler wrappers, modules of Fortran, pkg-config, manual pages of functions |
# | tutti-dbgsym | debug information of both, by build id; the programs are stripped |
#
# The tree stands in /usr/lib/tutti as it is, since it finds itself by its own place. Outside of it are links, with names
# that no other MPI has; `mpirun`, `mpicc` and the like are alternatives of Debian's groups `mpirun` and `mpi`.
#
# DEB_VERSION says which version it is (default: the release, the date of the commit and its name), DEB_COMPRESS how dpkg-deb
# compresses (default: -Zxz), DEB_MAINTAINER who answers for them ("NAME <ADDRESS>").
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
dist=$PWD/target/dist facts=$PWD/mk/deb
out=${1:-target/deb}
prefix=/usr/lib/tutti
fail() {
    echo "deb: $*" >&2
    exit 1
}

[ -x "$dist/bin/tutti" ] || fail "target/dist is not built: run make first"
for tool in dpkg-deb objcopy strip readelf gzip; do
    command -v "$tool" >/dev/null || fail "$tool is missing: install the Debian packages dpkg and binutils"
done
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d "$out/.work.XXXXXX")
trap 'rm -rf "$work"' EXIT

release=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
commit=$(git log -1 --format='%ct %cd %h' --date=format:%Y%m%d 2>/dev/null) || commit="$(date +%s) $(date +%Y%m%d) unknown"
read -r SOURCE_DATE_EPOCH day name <<<"$commit"
export SOURCE_DATE_EPOCH
version=${DEB_VERSION:-$release+git$day.$name}
maintainer=${DEB_MAINTAINER:-The authors of Tutti <tutti@localhost>}
architecture=$(dpkg --print-architecture)
triplet=$(uname -m)-linux-gnu
read -r -a compress <<<"${DEB_COMPRESS:--Zxz}"

main=$work/tutti dev=$work/tutti-dev debug=$work/tutti-dbgsym
mkdir -p "$main$prefix" "$dev" "$debug"
cp -a "$dist/." "$main$prefix/"

# put PACKAGE FROM TO: moves what of the tree has a place outside of it.
put() {
    local target=$1$3
    mkdir -p "${target%/*}"
    mv "$main$prefix/$2" "$target"
}
# link PACKAGE PLACE TARGET
link() {
    mkdir -p "$1${2%/*}"
    ln -s "$3" "$1$2"
}

# What a machine needs that compiles programs, and one that only runs them does not.
split() {
    (
        cd "$main$prefix"
        find include share/pkgconfig share/man/man3 share/tutti lib/tutti/fortran lib/tutti/parmacs_start.o lib/tutti/parmacs_noted.o lib/tutti/parmacs_wrapped lib/tutti/rcop.so ! -type d ! -path 'share/tutti/monitoring/*' 2>/dev/null || true
        find bin -name 'mpi[cCf]*' -o -name 'osh[cC]*' -o -name tutticc -o -name tutticxx
        find lib -maxdepth 1 -type l
    ) >"$work/dev"
    mkdir -p "$dev$prefix"
    tar -c -C "$main$prefix" -T "$work/dev" | tar -x -C "$dev$prefix"
    (cd "$main$prefix" && xargs -d '\n' rm) <"$work/dev"
    find "$main$prefix" -mindepth 1 -type d -empty -delete
}

# Debug information by build id, where debuggers look for it; then the file without it.
strip_file() {
    local file=$1 id place
    id=$(readelf -n "$file" 2>/dev/null | sed -n 's/^ *Build ID: //p')
    [ -n "$id" ] || fail "${file#"$work"/*/} has no build id"
    place=$debug/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
    mkdir -p "${place%/*}"
    # Small libraries that the C compiler makes still have theirs.
    cp "$dist-debug/.build-id/${id:0:2}/${id:2}.debug" "$place" 2>/dev/null || objcopy --only-keep-debug "$file" "$place"
    strip --strip-unneeded --remove-section=.comment --remove-section=.note "$file"
    chmod 644 "$place"
}

# is_program FILE: whether it is linked (a program or a library), not an object.
is_program() { [ "$(head -c 4 "$1" | tr -d '\0')" = $'\x7fELF' ] && ! readelf -h "$1" | grep -q 'REL ('; }

# strip_all PACKAGE: strips its programs, and lists them.
strip_all() {
    local file
    while read -r file; do
        is_program "$file" || continue
        echo "$file"
        strip_file "$file"
        # Libraries are no commands.
        case ${file##*/} in *.so | *.so.*) chmod 644 "$file" ;; esac
    done < <(find "$1" -type f) >"$work/programs.${1##*/}"
}

# needs PACKAGE: the packages that its programs need by the libraries and the symbols that they name.
needs() {
    local libraries library glibc programs packages=()
    mapfile -t programs <"$work/programs.${1##*/}"
    [ ${#programs[@]} -gt 0 ] || return 0
    libraries=$(readelf -d "${programs[@]}" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p' | sort -u)
    glibc=$(readelf -V "${programs[@]}" | sed -n 's/.* Name: GLIBC_\([0-9.]*\) .*/\1/p' | sort -uV | tail -1)
    for library in $libraries; do
        case $library in
        libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | ld-linux*) packages+=("libc6 (>= $glibc)") ;;
        libgcc_s.so.1) packages+=("libgcc-s1 (>= 3.0)") ;;
        libstdc++.so.6) packages+=("libstdc++6 (>= 5)") ;;
        *) [ -n "$(find "$dist/lib" -name "$library")" ] || fail "a program needs $library, of which no package is known here" ;;
        esac
    done
    printf '%s\n' "${packages[@]}" | sort -u | paste -sd, | sed 's/,/, /g'
}

# Places outside of the tree: names that are ours alone.
lay_out() {
    local name page
    for name in mpiexec mpirun oshrun; do link "$main" /usr/bin/$name.tutti ../lib/tutti/bin/$name; done
    link "$main" /usr/bin/tutti ../lib/tutti/bin/tutti
    link "$main" /usr/sbin/tuttid ../lib/tutti/bin/tuttid
    for name in mpicc mpicxx mpifort oshcc oshcxx; do link "$dev" /usr/bin/$name.tutti ../lib/tutti/bin/$name; done
    for name in tutticc tutticxx; do link "$dev" /usr/bin/$name ../lib/tutti/bin/$name; done
    for name in tuttid tutti-sight; do
        put "$main" lib/systemd/system/$name.service /usr/lib/systemd/system/$name.service
        sed -i -e "s|@PREFIX@|$prefix|" -e 's|^# Installed by .make install.\. |# Of the Debian package. |' \
            "$main/usr/lib/systemd/system/$name.service"
    done
    for page in tutti tutti-run tutti-submit; do put "$main" share/man/man1/$page.1 /usr/share/man/man1/$page.1; done
    put "$main" share/man/man1/mpiexec.1 /usr/share/man/man1/mpiexec.tutti.1
    rm "$main$prefix/share/man/man1/mpirun.1" "$main$prefix/share/man/man1/oshrun.1"
    for name in mpirun oshrun; do link "$main" /usr/share/man/man1/$name.tutti.1.gz mpiexec.tutti.1.gz; done
    put "$main" share/man/man8/tuttid.8 /usr/share/man/man8/tuttid.8
    for name in tutti tuttid; do
        put "$main" share/bash-completion/completions/$name /usr/share/bash-completion/completions/$name
        put "$main" share/zsh/site-functions/_$name /usr/share/zsh/vendor-completions/_$name
        put "$main" share/fish/vendor_completions.d/$name.fish /usr/share/fish/vendor_completions.d/$name.fish
    done
    # The commands that stand in the tree find these by their own folders.
    gzip -9n "$main"/usr/share/man/man*/*.[18]
    find "$dev$prefix/share/man" -type f -exec gzip -9n {} +
    # Files of pkg-config are reached by links, and do not find the tree from there.
    sed -i "s|^prefix=.*|prefix=$prefix|" "$dev$prefix"/share/pkgconfig/*.pc
    link "$dev" /usr/share/pkgconfig/tutti.pc ../../lib/tutti/share/pkgconfig/tutti.pc
    mkdir -p "$main/etc/tutti"
    cp "$facts/tutti.toml" "$main/etc/tutti/tutti.toml"
    find "$main" "$dev" -mindepth 1 -type d -empty -delete
}

# documents PACKAGE: what Debian wants of each.
documents() {
    local folder=$1/usr/share/doc/${1##*/}
    mkdir -p "$folder"
    sed "s|@YEAR@|$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y)|" "$facts/copyright" >"$folder/copyright"
    gzip -9nc CHANGELOG.md >"$folder/NEWS.gz"
    printf '%s (%s) unstable; urgency=medium\n\n  * Built from the sources; NEWS.gz has what a user notices.\n\n -- %s  %s\n' \
        "${1##*/}" "$version" "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9nc >"$folder/changelog.gz"
    if [ -f "$facts/${1##*/}.lintian" ]; then
        mkdir -p "$1/usr/share/lintian/overrides"
        cp "$facts/${1##*/}.lintian" "$1/usr/share/lintian/overrides/${1##*/}"
    fi
}

# alternative LINK NAME TARGET, slave LINK NAME TARGET: words of update-alternatives.
alternative() { printf ' \\\n    --install %s %s %s 30' "$1" "$2" "$3"; }
slave() { printf ' \\\n    --slave %s %s %s' "$1" "$2" "$3"; }

# What the two groups of Debian have, by their names there.
alternatives_of_main() {
    local name
    printf 'update-alternatives'
    alternative /usr/bin/mpirun mpirun /usr/bin/mpirun.tutti
    slave /usr/bin/mpiexec mpiexec /usr/bin/mpiexec.tutti
    for name in mpirun mpiexec; do
        slave /usr/share/man/man1/$name.1.gz $name.1.gz /usr/share/man/man1/$name.tutti.1.gz
        slave /usr/share/bash-completion/completions/$name $name.bash $prefix/share/bash-completion/completions/$name
    done
    echo
}
alternatives_of_dev() {
    local name
    printf 'update-alternatives'
    alternative /usr/bin/mpicc mpi /usr/bin/mpicc.tutti
    for name in mpic++ mpicxx mpiCC mpifort mpif77 mpif90; do slave /usr/bin/$name $name "$prefix/bin/$name"; done
    printf '\nupdate-alternatives'
    alternative "/usr/include/$triplet/mpi" "mpi-$triplet" $prefix/include
    slave "/usr/lib/$triplet/libmpi.so" "libmpi.so-$triplet" $prefix/lib/libmpi.so
    for name in mpi mpi-c mpi-cxx mpi-fort; do
        [ ! -e "$dev$prefix/share/pkgconfig/$name.pc" ] ||
            slave "/usr/lib/$triplet/pkgconfig/$name.pc" "$name.pc-$triplet" "$prefix/share/pkgconfig/$name.pc"
    done
    echo
}

# scripts PACKAGE NAME...: maintainer scripts, with the alternatives of the package in them.
scripts() {
    local package=$1 script
    shift
    for script in "$@"; do
        sed -e "s|@PREFIX@|$prefix|g" -e "s|@TRIPLET@|$triplet|g" -e "/^@ALTERNATIVES@$/{r $work/alternatives" -e 'd;}' \
            "$facts/${package##*/}.$script" >"$package/DEBIAN/$script"
        chmod 755 "$package/DEBIAN/$script"
    done
}

# control PACKAGE SECTION DEPENDS SUMMARY [FIELD...] <TEXT
control() {
    local package=$1 section=$2 depends=$3 summary=$4
    shift 4
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: %s\n' "${package##*/}" "$version" "$architecture" \
            "$maintainer"
        printf 'Section: %s\nPriority: optional\nInstalled-Size: %s\nDepends: %s\n' "$section" "$(du -k -s "$package" | cut -f1)" "$depends"
        [ $# = 0 ] || printf '%s\n' "$@"
        printf 'Description: %s\n' "$summary"
        sed 's/^/ /'
    } >"$package/DEBIAN/control"
    (cd "$package" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | LC_ALL=C sort | tr '\n' '\0' | xargs -0 md5sum) >"$package/DEBIAN/md5sums"
}

build() {
    local package=${1##*/}
    dpkg-deb --root-owner-group "${compress[@]}" --build "$1" "$out/${package}_${version}_$architecture.deb" >"$work/log" ||
        fail "$(head -1 "$work/log")"
    echo "${out#"$PWD"/}/${package}_${version}_$architecture.deb"
}

split
strip_all "$main"
strip_all "$dev"
depends=$(needs "$main")
of_dev=$(needs "$dev")
lay_out
for package in "$main" "$dev" "$debug"; do
    mkdir -p "$package/DEBIAN"
    [ "$package" = "$debug" ] || documents "$package"
done
alternatives_of_main >"$work/alternatives"
scripts "$main" postinst prerm postrm
echo /etc/tutti/tutti.toml >"$main/DEBIAN/conffiles"
alternatives_of_dev >"$work/alternatives"
scripts "$dev" postinst prerm
link "$debug" /usr/share/doc/tutti-dbgsym tutti

control "$main" net "$depends" "time-shared parallel computing: MPI, OpenSHMEM, gangs" "Suggests: tutti-dev, libpmix2, libc6-dbg" <"$facts/tutti.text"
control "$dev" devel "tutti (= $version)${of_dev:+, $of_dev}" "time-shared parallel computing: headers, compiler wrappers" \
    "Recommends: gcc | c-compiler, libc6-dev | libc-dev" "Suggests: g++, gfortran, pkg-config" <"$facts/tutti-dev.text"
control "$debug" debug "tutti (= $version)" "debug information of tutti" "Build-Ids: $(find "$debug/usr/lib/debug" -name '*.debug' \
    -printf '%P\n' | sed 's|^.build-id/||;s|/||;s|\.debug$||' | LC_ALL=C sort | paste -sd' ')" <"$facts/tutti-dbgsym.text"
for package in "$main" "$dev" "$debug"; do build "$package"; done
