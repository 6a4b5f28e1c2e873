# Sources with PARMACS macros go through m4 first. An m4 file of the program's own set would be in the way.
macros=$prefix/share/tutti/parmacs.m4
translated=
count=0
dsm=            # adsm: the plugin makes notes of stores; udsm: it checks loads, too; twin: pages are compared; empty: as there is
globals=        # shared: variables of C are shared memory; empty: they are private to each process
switches=       # of the plugin
compiles=no     # whether anything is compiled here
strangers=      # objects that make no notes
threads=        # a source that makes threads
other_linker=   # the option that names a linker which is not GNU ld
plus=           # a source is C++, or its library is named
has_macros=     # a source has macros of PARMACS, or may have some
fixed=$link     # Functions and variables have the same address on all ranks: pointers to them may be shared. Empty: not asked for
[ $link = yes ] || fixed=
for arg do
    shift
    case $arg in
    --dsm=adsm | --dsm=udsm | --dsm=twin) dsm=${arg#*=}; continue ;;
    --dsm=*) say "tutticc: $arg: adsm, udsm and twin are known" >&2; exit 1 ;;
    --rcop=*)
        for word in $(printf %s "${arg#*=}" | tr , ' '); do
            case $word in
            all) switches= ;;
            none) switches="-mllvm -rcop-ia=false -mllvm -rcop-re=false -mllvm -rcop-private=false" ;;
            ia | re | private) switches="$switches -mllvm -rcop-$word=true" ;;
            no-ia | no-re | no-private) switches="$switches -mllvm -rcop-${word#no-}=false" ;;
            *) say "tutticc: $arg: $word is not known; all, none, ia, re, private, and these with no- are" >&2; exit 1 ;;
            esac
        done
        continue
        ;;
    --globals=shared) globals=shared; continue ;;
    --globals=private) globals=; continue ;;
    --globals=*) say "tutticc: $arg: shared and private are known" >&2; exit 1 ;;
    -fopenmp | -fopenmp=*)
        say "tutticc: $arg: threads of OpenMP do not share memory between nodes; CREATE makes processes that do" >&2
        exit 1
        ;;
    -fsanitize=*)
        for word in $(printf %s "${arg#*=}" | tr , ' '); do
            case $word in
            thread | memory | dataflow)
                say "tutticc: $arg: its tables are where shared memory is; TUTTI_DSM_CHECK=1 finds races, -fsanitize=address runs" >&2
                exit 1
                ;;
            esac
        done
        ;;
    *.f | *.for | *.ftn | *.f77 | *.f90 | *.f95 | *.f03 | *.f08 | *.F | *.FOR | *.F77 | *.F90 | *.F95 | *.F03 | *.F08)
        say "tutticc: $arg: the macros are C's; a Fortran compiler makes an object of it (-c), which tutticc links with -lgfortran" >&2
        exit 1
        ;;
    *.c.in | *.C)
        if [ $mode = run ]; then
            command -v m4 >/dev/null 2>&1 || { say "tutticc: m4, which $arg needs, is not there" >&2; exit 127; }
            [ -r "$arg" ] || { say "tutticc: $arg cannot be read" >&2; exit 1; }
            if [ -z "$translated" ]; then
                translated=$(mktemp -d) || exit 1
                trap 'rm -rf -- "$translated"' EXIT
                trap 'exit 1' HUP INT TERM
                run_by=
            fi
            count=$((count + 1))
            name=${arg##*/}
            name=${name%.in}
            name=${name%.[cC]}
            folder=.
            case $arg in */*) folder=${arg%/*} ;; esac
            parts=$translated/$count/parts
            mkdir -p "$parts" || exit 1
            # Headers of the source that use the macros, too: m4 finds them as they are (include), the compiler beside it.
            for header in "$folder"/*.h.in; do
                [ -r "$header" ] || continue
                beside=${header##*/}
                cp -- "$header" "$parts/${beside%.in}" || exit 1
            done
            translate() { m4 -s -Ulen -Uindex -I "$parts" -- "$macros" "$1"; }
            translate "$arg" >"$translated/$count/$name.c" || exit 1
            for header in "$folder"/*.h.in; do
                [ -r "$header" ] || continue
                beside=${header##*/}
                translate "$header" >"$translated/$count/${beside%.in}" || exit 1
            done
            compiles=yes has_macros=yes
            set -- "$@" -iquote "$folder" "$translated/$count/$name.c"
            continue
        fi
        compiles=yes
        ;;
    *.c | *.i)
        compiles=yes
        if [ ! -r "$arg" ] || grep -qE 'tutti/parmacs|(MAIN|EXTERN)_ENV' -- "$arg"; then
            has_macros=yes
        elif grep -qE 'pthread_create|thrd_create' -- "$arg"; then
            threads=$arg
        fi
        ;;
    -flto=thin) thin=$arg ;;
    # Its place is behind all objects.
    -lstdc++) plus=yes; continue ;;
    -pie | -shared) fixed= ;;
    -fuse-ld=bfd) other_linker= ;;
    -fuse-ld=* | --ld-path=*) other_linker=$arg ;;
    -) compiles=yes ;;
    -*) ;;
    *.cc | *.cpp | *.cxx | *.c++ | *.ii) compiles=yes plus=yes ;;
    *.bc | *.ll) compiles=yes ;;
    *.s | *.S) strangers=$arg ;;
    # A file of arguments may name anything.
    @*) strangers=$arg has_macros=yes ;;
    *.o | *.lo | *.obj)
        has_macros=yes
        [ ! -r "$arg" ] || grep -qa tutti_rcop_object -- "$arg" || strangers=$arg
        ;;
    *.a)
        has_macros=yes
        # One name of a member a line, and one mark in each that makes notes.
        if [ -r "$arg" ] && [ "$(ar t "$arg" | wc -l)" != "$(nm -- "$arg" 2>/dev/null | grep -c ' tutti_rcop_object$')" ]; then
            strangers=$arg
        fi
        ;;
    esac
    set -- "$@" "$arg"
done

# A linker that does not know how to place sections behind its own script leaves variables private, or says what is no help.
if [ -n "$globals" ] && [ -n "$other_linker" ] && [ $link = yes ]; then
    say "tutticc: --globals=shared: GNU ld puts variables into pages of their own; $other_linker names another linker" >&2
    exit 1
fi
if [ -n "$globals" ] && [ -z "$fixed" ] && [ $link = yes ]; then
    say "tutticc: --globals=shared: variables need the same address on all ranks, which -pie and -shared do not give" >&2
    exit 1
fi

# Threads do not leave a node, and without CREATE there is one process.
if [ -n "$threads" ] && [ -z "$has_macros" ] && [ $mode$link = runyes ]; then
    say "tutticc: $threads makes threads, and no source has macros of PARMACS: memory of G_MALLOC and processes of CREATE are on many nodes (docs/user/shared-memory.md)" >&2
fi

# The plugin is one of clang 19. Without it any compiler serves: pages are compared.
plugin=$libdir/tutti/rcop.so noted=
case $compiler in
cc) [ "$dsm" = twin ] || ! command -v clang-19 >/dev/null 2>&1 || [ ! -r "$plugin" ] || compiler=clang-19 ;;
esac
case ${compiler%% *} in
clang-19 | */clang-19 | clang++-19 | */clang++-19) ;;
*) plugin= ;;
esac
[ "$dsm" != twin ] && [ -r "$plugin" ] || plugin=
if [ -n "$plugin" ]; then
    if [ -n "${thin:-}" ]; then
        say "tutticc: $thin: no notes would be made at the link; -flto, or --dsm=twin" >&2
        exit 1
    fi
    noted=$libdir/tutti/parmacs_noted.o
    if [ -n "$strangers" ] && [ $link$inputs = yesyes ]; then
        [ $mode != run ] || say "tutticc: $strangers makes no notes of its stores: pages are compared (--dsm=twin)" >&2
        noted=
    fi
elif [ "$dsm" = adsm ] || [ "$dsm" = udsm ]; then
    say "tutticc: --dsm=$dsm needs clang-19 and its plugin, which \`make dsm\` builds" >&2
    exit 1
elif [ -z "$dsm$strangers" ] && [ $mode$compiles = runyes ]; then
    say "tutticc: without clang-19 and its plugin (\`make dsm\`) pages are compared (--dsm=twin)" >&2
fi
[ "$dsm" != udsm ] || switches="$switches -mllvm -rcop-udsm=true"
[ -n "$plugin" ] || switches=
loads=$plugin
[ $compiles = yes ] || [ $mode != run ] || loads= switches=

# Streams of C++ hand memory to the kernel, too: functions are put in the place of those that an archive calls, not of those that
# a shared library does.
streams=
case ${compiler%% *} in
*++ | *++-[0-9]*) plus=driver ;;
esac
if [ -n "$plus" ] && [ $link = yes ]; then
    archive=$($compiler -print-file-name=libstdc++.a 2>/dev/null) || archive=
    case $plus$archive in
    driver*/*) streams=-static-libstdc++ ;;
    driver*) ;;
    yes*/*) streams='-Wl,-Bstatic -lstdc++ -Wl,-Bdynamic -lm' ;;
    yes*) streams='-lstdc++ -lm' ;;
    esac
fi

# A program's own function may have the name of one of the C library that another is put in the place of: its calls are to reach
# it, as they are to reach one of a shared library that the program brings with it. What is linked says which names these are;
# with such ones it is linked again. Memory that others free may be shared.
output_of() {
    output=a.out
    while [ $# -gt 0 ]; do
        case $1 in
        -o) output=${2:-} ;;
        -o?*) output=${1#-o} ;;
        --output=*) output=${1#*=} ;;
        --output) output=${2:-} ;;
        -Xlinker | -I | -L | -D | -U) shift ;;
        esac
        [ $# = 0 ] || shift
    done
    say "$output"
}
# Folders that are named to the linker: what it finds in others is the system's.
folders_of() {
    while [ $# -gt 0 ]; do
        case $1 in
        -L) say "${2:-.}"; shift ;;
        -L?*) say "${1#-L}" ;;
        -Wl,-L?*) folder=${1#-Wl,-L}; say "${folder%%,*}" ;;
        -Xlinker | -I | -D | -U | -o) shift ;;
        esac
        [ $# = 0 ] || shift
    done
}
# Shared libraries that the program brings with it: by their files, or -l and a folder.
libraries_of() {
    folders=$(folders_of "$@" | grep -vxF -e "$libdir")
    while [ $# -gt 0 ]; do
        name=
        case $1 in
        -l) name=lib${2:-}.so; shift ;;
        -l:?*) name=${1#-l:} ;;
        -l?*) name=lib${1#-l}.so ;;
        -Xlinker | -I | -L | -D | -U | -o) shift ;;
        -*) ;;
        *.so | *.so.[0-9]*) say "$1" ;;
        esac
        [ -z "$name" ] || say "$folders" | while IFS= read -r folder; do
            [ -z "$folder" ] || [ ! -r "$folder/$name" ] || say "$folder/$name"
        done
        [ $# = 0 ] || shift
    done
}
own_names() {
    {
        nm -gP -- "$output"
        nm -DP -- "$output"
        libraries_of "$@" | while IFS= read -r library; do nm -DP -- "$library" | sed 's/@[^ ]*//'; done
    } 2>/dev/null | sed -n 's/^\([^ @]*\) [TWVDBRi]\( .*\)*$/--wrap=\1/p' |
        grep -vxE -e '--wrap=(free|realloc|reallocarray)' | grep -xF -f "$wrapped" | sort -u
}
link_own() {
    wrapped=$libdir/tutti/parmacs_wrapped
    # What is stripped has no names: that is done behind the links.
    strip=
    for word do
        shift
        case $word in
        -s | -Wl,-s | -Wl,--strip-all) strip=yes; continue ;;
        -Wl,*,-s | -Wl,*,-s,* | -Wl,-s,* | -Wl,*,--strip-all | -Wl,*,--strip-all,* | -Wl,--strip-all,*)
            strip=yes
            word=$(say "$word" | sed -E 's/,(-s|--strip-all)(,(-s|--strip-all))*(,|$)/\4/g')
            ;;
        esac
        set -- "$@" "$word"
    done
    "$@" || exit $?
    output=$(output_of "$@")
    # A device has no symbols to look at.
    [ -f "$output" ] || exit 0
    own=$(own_names "$@")
    # A source that comes by a pipe has been read.
    for word do [ "$word" != - ] || own=; done
    if [ -n "$own" ]; then
        if [ -z "$translated" ]; then
            translated=$(mktemp -d) || exit 1
            trap 'rm -rf -- "$translated"' EXIT
            trap 'exit 1' HUP INT TERM
        fi
        say "$own" | grep -vxF -f - "$wrapped" >"$translated/wrapped"
        for word do
            shift
            [ "$word" != "-Wl,@$wrapped" ] || word=-Wl,@$translated/wrapped
            set -- "$@" "$word"
        done
        "$@" || exit $?
    fi
    [ -z "$strip" ] || strip -s -- "$output"
}
[ $mode$link$inputs != runyesyes ] || run_by=link_own

