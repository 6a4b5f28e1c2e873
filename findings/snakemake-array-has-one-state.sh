#!/bin/bash
# snakemake-executor-plugin-slurm 2.8.0: all jobs of an array have the state of one of its elements. It knows them as 12_1 and
# 12_2, asks sacct for JobIdRaw and State, and looks for 12 where it finds no 12_1. In Slurm JobIdRaw of an element is a number
# of its own, and that of the last element is the array's (man sacct: "JobIDRaw: in the case of a job array, the unique JobID
# of the array element, without array task notation"). So if the last element fails, snakemake reports the first one, which
# has ended well, as failed too. With --slurm-status-command=squeue, which is asked for %i, each has its own. The commands of
# Slurm are lines of a shell here: the states that they tell never change.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check snakemake==9.27.1 snakemake-executor-plugin-slurm==2.8.0 \
    snakemake-executor-plugin-slurm-jobstep==0.6.1
mkdir bin
say() { printf '#!/bin/sh\n%s\n' "$2" >"bin/$1" && chmod +x "bin/$1"; }
say sinfo 'echo PARTITION; echo "main*"'
say scontrol 'echo "MinJobAge               = 300 sec"; echo "MaxArraySize            = 1001"'
say scancel 'exit 0'
# Both elements have written their files.
say sbatch 'cd "$WORK" && touch o1.txt o2.txt && echo 12'
# Element 12_1 is job 13 and has ended well; element 12_2, the last one, is job 12 and has failed.
say sacct 'case "$*" in *JobIdRaw,State*) echo "13|COMPLETED"; echo "12|FAILED" ;; esac'
say squeue 'echo "12_1|COMPLETED"; echo "12_2|FAILED"'
cat >Snakefile <<'END'
rule all:
    input: "o1.txt", "o2.txt"
rule each:
    output: "o{i}.txt"
    resources: mem_mb=50, runtime=5
    shell: "touch {output}"
END
for command in sacct squeue; do
    rm -f o?.txt
    WORK=$work PATH=$work/bin:$work/venv/bin:$PATH venv/bin/snakemake --executor slurm --jobs 2 --keep-going --slurm-array-jobs each \
        --slurm-status-command $command --slurm-init-seconds-before-status-checks 1 --latency-wait 1 >$command.log 2>&1 </dev/null || true
    grep -o "SLURM-job '12_[12]' failed" $command.log | sort -u >$command.failed || true
done
echo "snakemake-executor-plugin-slurm 2.8.0: of an array of which the last element alone has failed it says"
sed 's/^/by sacct: /' sacct.failed
sed 's/^/by squeue: /' squeue.failed
[ "$(wc -l <sacct.failed) $(wc -l <squeue.failed)" = "2 1" ] || { tail -20 sacct.log squeue.log; exit 1; }
