# Sources with PARMACS macros go through m4 first. An m4 file of the program's own set would be in the way.
macros=$prefix/share/tutti/parmacs.m4
translated=
count=0
for arg do
    shift
    case $arg in
    -fopenmp | -fopenmp=*)
        say "tutticc: $arg: threads of OpenMP do not share memory between nodes; CREATE makes processes that do" >&2
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
            mkdir "$translated/$count" || exit 1
            m4 -s -Ulen -Uindex -- "$macros" "$arg" >"$translated/$count/$name.c" || exit 1
            set -- "$@" -iquote "$folder" "$translated/$count/$name.c"
            continue
        fi
        ;;
    esac
    set -- "$@" "$arg"
done

