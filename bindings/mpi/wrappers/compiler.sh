#!/bin/sh
# @NAME@ of Tutti @VERSION@: the @LANGUAGE@ compiler with what an @INTERFACE@ program needs. It finds its tree by its own place.

say() { printf '%s\n' "$*"; }

usage() {
    say "Usage: @NAME@ [option...] [argument of the compiler...]"
    say "Runs the @LANGUAGE@ compiler with the place of the @INTERFACE@ header and library added."
    say "  -show, -showme          print the command instead of running it"
    say "  -compile_info           print the command that compiles"
    say "  -link_info              print the command that links"
    say "  -showme:WHAT            print WHAT: command, compile, link, incdirs, libdirs, libs, version@INSTALL@"
    say "  -cc=NAME, -cxx=NAME     use this compiler (also: environment @VARIABLES@)"
    say "  -profile=NAME           link with libNAME before the @INTERFACE@ library, for a profiling tool"
    say "  -v                      print the version, then run the compiler with -v"
    say "  -help                   print this"
    say "Everything else goes to the compiler."
}

# Prints its arguments as one line that a shell reads back as the same arguments.
show() {
    line=
    for word do
        case $word in
        '' | *[!A-Za-z0-9_./:=,+@%^-]*) word=\'$(printf %s "$word" | sed "s/'/'\\\\''/g")\' ;;
        esac
        line="$line${line:+ }$word"
    done
    say "$line"
}

self=$(readlink -f -- "$0") || exit 1
prefix=${self%/*}/..
prefix=$(cd -- "$prefix" && pwd) || exit 1
incdir=$prefix/include libdir=$prefix/lib
version=@VERSION@
compiler=
for name in @VARIABLES@; do
    eval "value=\${$name:-}"
    compiler=${compiler:-$value}
done
compiler=${compiler:-@COMPILER@}
@FORTRAN@
mode=run            # run | show | help | one of the -showme: words
link=yes            # no: the compiler stops before linking
run_by=exec         # empty: something is left to do behind the compiler
inputs=no           # whether anything is named that can be compiled or linked
static=no
profile=
value_of=           # the option whose value is the next argument
for arg do
    shift
    if [ -n "$value_of" ]; then
        value_of=
        set -- "$@" "$arg"
        continue
    fi
    case $arg in
    -show | -showme | --showme) mode=show; continue ;;
    -compile_info | -compile-info) mode=compile_info; continue ;;
    -link_info | -link-info) mode=link_info; continue ;;
    -showme:* | --showme:*) mode=${arg#*:}; continue ;;
    -help) mode=help; continue ;;
    -cc=* | -CC=* | -cxx=* | -fc=* | -f90=* | -f77=*) compiler=${arg#*=}; continue ;;
    -profile=*) profile=${arg#*=}; continue ;;
    -v) [ $mode != run ] || say "@NAME@: Tutti $version" >&2 ;;
    -c | -S | -E | -M | -MM | -r | -fsyntax-only) link=no ;;
    -static | -static-pie) static=yes ;;
    -o | -I | -L | -D | -U | -x | -T | -u | -z | -B | -e | -MF | -MT | -MQ | -include | -imacros | -isystem | -iquote | \
        -idirafter | -iprefix | -Xlinker | -Xassembler | -Xpreprocessor | -Xclang | --param | -arch | -target)
        value_of=$arg
        ;;
    -l?* | -Wl,* | -) inputs=yes ;;
    -*) ;;
    *) inputs=yes ;;
    esac
    set -- "$@" "$arg"
done

@MODULES@# Each calls its arguments with more behind them: `all_flags exec cc x.c` executes cc x.c -I...
# The compiler's own folders are not named: that would only change the order in which it looks there.
compile_flags() { case $incdir in /usr/include) "$@"@FLAGS@ ;; *) "$@" "-I$incdir"@FLAGS@ ;; esac; }
link_flags() {
    case $libdir in
    /usr/lib) "$@" @PROFILE@ @LIBRARIES@ ;;
    *) "$@" "-L$libdir" "-Wl,-rpath,$libdir" -Wl,--enable-new-dtags @PROFILE@ @LIBRARIES@ ;;
    esac
}
all_flags() { if [ $link = yes ]; then compile_flags link_flags "$@"; else compile_flags "$@"; fi; }

case $mode in
help) usage; exit 0 ;;
version) say "@NAME@: Tutti $version (Language: @LANGUAGE@)"; exit 0 ;;
command) say "$compiler"; exit 0 ;;
compile) compile_flags show; exit 0 ;;
link) link_flags show; exit 0 ;;
incdirs) say "$incdir"; exit 0 ;;
libdirs) say "$libdir"; exit 0 ;;
libs) show ${profile:+"-l$profile"} @LIBRARIES@ | sed 's/-l//g'; exit 0 ;;
compile_info) compile_flags show $compiler "$@"; exit 0 ;;
link_info) compile_flags link_flags show $compiler "$@"; exit 0 ;;
run | show) ;;
*) say "@NAME@: -showme:$mode is not known; @NAME@ -help lists what is" >&2; exit 1 ;;
esac

# Without an input the compiler is only asked something (--version, -print-search-dirs); it would try to link our flags.
[ $inputs = yes ] || [ $mode = show ] || link=no
if [ $link$static = yesyes ]; then
    say "@NAME@: there is no static @INTERFACE@ library; link without -static" >&2
    exit 1
fi
case $mode in
show) all_flags show $compiler "$@" ;;
run)
    command -v ${compiler%% *} >/dev/null 2>&1 || {
        say "@NAME@: ${compiler%% *}, the compiler of @LANGUAGE@, is not there; @NAME@ -help says how to name another" >&2
        exit 127
    }
    all_flags $run_by $compiler "$@"
    ;;
esac
