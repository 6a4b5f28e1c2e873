#!/bin/bash
# slurm-tools.sh TOOL ...: each tool, driven by tests/slurm/tools/uses_TOOL.py, does its work on a cluster of three daemons, with Slurm's commands of the
# tree DIST. Virtual environments are in PLACE, one for each tool, kept until its version changes. Ends with `N passed, N failed,
# N skipped`; a tool that PyPI does not give is skipped.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
root=$PWD
declare -A packages=(
    [snakemake]="snakemake==9.27.1 snakemake-executor-plugin-slurm==2.8.0 snakemake-executor-plugin-slurm-jobstep==0.6.1"
    [submitit]="submitit==1.5.4"
    [simple_slurm]="simple_slurm==0.3.6"
    [psij]="psij-python==0.9.11"
    [dask_jobqueue]="dask-jobqueue==0.9.0"
    [executorlib]="executorlib==1.11.0"
    [parsl]="parsl==2026.10.26"
    [aiida]="aiida-core==2.9.4"
    [reframe]="reframe-hpc==4.10.4"
    [qtoolkit]="qtoolkit==0.1.7"
    [pysqa]="pysqa==1.1.1"
    [cluster_tools]="cluster-tools==4.3.3"
    [dpdispatcher]="dpdispatcher==1.1.0"
    [cylc]="cylc-flow==8.5.4"
    [reportseff]="reportseff==2.10.3 slurm2sql==0.9.9"
    [law]="law==0.1.21"
    [maestrowf]="maestrowf==1.2.1"
    [b2luigi]="b2luigi==1.3.0"
    [clusterfutures]="clusterfutures==0.5"
    [troika]="troika==0.2.7"
    [easybuild]="easybuild-framework==5.4.1"
    [toil]="toil==9.6.0"
    [myqueue]="myqueue==26.8.1"
)
passed=0 failed=0 skipped=0
mkdir -p "$PLACE"

# The tool's environment, or status 3.
environment() {
    local venv=$PLACE/$1 wanted=${packages[$1]}
    [ "$(cat "$venv/installed" 2>/dev/null)" != "$wanted" ] || return 0
    rm -rf "$venv"
    python3 -m venv "$venv" >"$PLACE/$1.log" 2>&1 &&
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 $wanted >>"$PLACE/$1.log" 2>&1 </dev/null || return 3
    echo "$wanted" >"$venv/installed"
}

work=$(mktemp -d "$PLACE/work.XXXXXX")
export TUTTI_DIR=$work/cluster TUTTI_DAEMON=$work/cluster/tuttid.sock
export PATH=$DIST/share/tutti/slurm/bin:$DIST/bin:$PATH
cleanup() {
    tutti down >/dev/null 2>&1
    rm -rf "$work"
}
trap cleanup EXIT
export USER=${USER:-$(id -un)}
tutti up --nodes 3 --slots 2 >/dev/null || exit 1
for tool; do
    if [ -z "${packages[$tool]:-}" ]; then
        echo "$tool is no tool of this test: ${!packages[*]}" >&2
        exit 2
    fi
    if ! environment "$tool"; then
        echo "$tool: skipped: PyPI does not give ${packages[$tool]} ($PLACE/$tool.log)"
        skipped=$((skipped + 1))
        continue
    fi
    mkdir -p "$work/$tool"
    log=$work/$tool.log
    if (cd "$work/$tool" && PATH=$PLACE/$tool/bin:$PATH exec timeout --kill-after=5 "${TOOL_SECONDS:-600}" "$PLACE/$tool/bin/python" -B \
        "$root/tests/slurm/tools/uses_$tool.py") >"$log" 2>&1 </dev/null; then
        echo "$tool: passed (${packages[$tool]})"
        passed=$((passed + 1))
    else
        echo "$tool: failed with status $?"
        cat "$log"
        squeue -t all
        failed=$((failed + 1))
    fi
    scancel --me
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
