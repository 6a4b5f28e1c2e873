# A compiler wrapper in FC is no compiler.
case ${compiler##*/} in mpif* | mpi[fF]*) compiler=@COMPILER@ ;; esac
for arg do
    case $arg in -fc=* | -f90=* | -f77=*) compiler=${arg#*=} ;; esac
done

# The installed files of modules are of one major version of one compiler; others make their own, once, of the same sources.
sources=$prefix/share/tutti/fortran moddir= mismatch=
# Options that change the kinds of reals: the modules are compiled with them, too. What reads ahead has its value in the
# next argument.
reals='-fdefault-real-8 -fdefault-real-10 -fdefault-real-16 -fdefault-double-8 -freal-4-real-8 -freal-4-real-10 -freal-4-real-16
    -r4 -r8 -r16 -real-size=32 -real-size=64 -real-size=128 -autodouble -double-size=64 -double-size=128 -Mr8 -Mr16 -Kautodouble'
options=

# find_options ARGUMENT...: which of these options are given, to the compiler or in its name, in the order of the list.
find_options() {
    before=
    for word in $compiler "$@"; do
        case $before in -real-size | -double-size) word=$before=$word ;; esac
        before=$word
        case $word in
        -freal-8-real-*)
            say "@NAME@: $word: MPI_Wtime gives a REAL(8) of 8 bytes; use -fdefault-real-8 or -freal-4-real-8" >&2
            exit 1
            ;;
        -f*real* | -f*double* | -*[rR][0-9]* | -*size=* | -*double*) given="$given $word" ;;
        esac
    done
    [ -n "$given" ] || return 0
    for word in $reals; do
        case " $given " in *" $word "*) options="$options $word" ;; esac
    done
}
given=

# find_kind: which compiler it is, as the name of a folder.
find_kind() {
    command -v ${compiler%% *} >/dev/null 2>&1 || {
        say "@NAME@: there is no Fortran compiler $compiler here; install gfortran, or name another with -fc= or FC" >&2
        exit 1
    }
    banner=$($compiler --version 2>/dev/null | sed -n '/[^ ]/{p;q;}')
    major=$($compiler -dumpversion 2>/dev/null) major=${major%%.*}
    case $banner in
    'GNU Fortran'*) kind=gfortran-$major; [ "${major:-0}" -lt 10 ] || mismatch=-fallow-argument-mismatch ;;
    *) kind=$(say "$banner" | tr -cs 'A-Za-z0-9.\n' '-') ;;
    esac
    [ -z "$options" ] || kind=$kind$(say "$options" | tr -d ' ')
}

# make_modules FOLDER: compiles the modules beside it, then puts them there at once.
make_modules() {
    mkdir -p -- "${1%/*}" 2>/dev/null && new=$(mktemp -d "${1%/*}/.new.XXXXXX" 2>/dev/null) || return 1
    for module in tutti_mpi_base mpi mpi_f08; do
        (cd "$new" && $compiler $options -c "$sources/$module.f90" -o "$new/$module.o") >"$new/errors" 2>&1 && continue
        say "@NAME@: $compiler ($kind) cannot compile the module $module: $(grep -m 1 -i error "$new/errors")" >&2
        [ $module = mpi_f08 ] || { rm -rf -- "$new"; return 1; }
    done
    rm -f -- "$new"/*.o "$new/errors"
    mv -T -- "$new" "$1" 2>/dev/null || rm -rf -- "$new"
}

# install_modules: module files for this compiler in the tree itself, for all users, and mpi-fort of pkg-config for it.
install_modules() {
    new=
    { [ -f "$libdir/tutti/fortran/$kind/mpi.mod" ] || make_modules "$libdir/tutti/fortran/$kind"; } &&
        [ -f "$libdir/tutti/fortran/$kind/mpi.mod" ] &&
        new=$(mktemp "$prefix/share/pkgconfig/.new.XXXXXX" 2>/dev/null) &&
        sed "s/@KIND@/$kind/g" "$sources/mpi-fort.pc.in" >"$new" && chmod 644 "$new" &&
        mv -- "$new" "$prefix/share/pkgconfig/mpi-fort.pc" || {
        [ -z "$new" ] || rm -f -- "$new"
        say "@NAME@: the module files for $kind cannot be put into $prefix: become its owner" >&2
        return 1
    }
    # What is uninstalled with the rest.
    if [ -w "$prefix/share/tutti/installed" ]; then
        (cd -- "$prefix" && say share/pkgconfig/mpi-fort.pc "lib/tutti/fortran/$kind"/*.mod "lib/tutti/fortran/$kind/" | tr ' ' '\n') \
            >>"$prefix/share/tutti/installed"
    fi
    say "@NAME@: $libdir/tutti/fortran/$kind has the modules for $compiler, and mpi-fort of pkg-config names it"
}

find_modules() {
    find_kind
    moddir=$libdir/tutti/fortran/$kind
    [ ! -f "$moddir/mpi.mod" ] || return 0
    sum=$(cat "$sources"/*.f90 | cksum) name=tutti/fortran/$kind-${sum%% *}
    for cache in "${XDG_CACHE_HOME:-}" "${HOME:+$HOME/.cache}" "${TMPDIR:-/tmp}/tutti-$(id -u)"; do
        case $cache in /*) ;; *) continue ;; esac
        # A folder in a place where all may write must be the user's own.
        mkdir -p -m 700 -- "$cache" 2>/dev/null && [ -O "$cache" ] && [ ! -L "$cache" ] || continue
        moddir=$cache/$name
        [ -f "$moddir/mpi.mod" ] || make_modules "$moddir" || continue
        [ ! -f "$moddir/mpi.mod" ] || return 0
    done
    say "@NAME@: no module files of MPI for $compiler ($kind): only mpif.h can be used" >&2
    moddir=
}
