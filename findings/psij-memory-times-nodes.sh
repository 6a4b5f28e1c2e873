#!/bin/bash
# PSI/J (psij-python 0.9.11) says of a job's memory: "The total amount, in bytes, of memory requested for the job." It gives
# the number as it is to sbatch --mem, which is "the real memory required per node" (sbatch(1)), and to each of the chunks
# that PBS selects. So a job of 8 GiB on 4 nodes asks for 32, waits for larger nodes, and is charged for them. A job on one
# node is right. Its script for Cobalt has no duration at all: --time='' for five minutes. Only scripts are made here.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check psij-python==0.9.11
cat >ask.py <<'END'
import datetime, io, re
from psij import Job, JobAttributes, JobExecutor, JobSpec, ResourceSpecV1

for system in "slurm", "pbs", "cobalt":
    for nodes in 1, 4:
        executor = JobExecutor.get_instance(system)
        resources = ResourceSpecV1(node_count=nodes, processes_per_node=2, memory=8 * 1024**3)
        attributes = JobAttributes(duration=datetime.timedelta(minutes=5))
        job = Job(JobSpec(executable="/bin/true", resources=resources, attributes=attributes))
        script = io.StringIO()
        executor.generate_submit_script(job, executor._create_script_context(job), script)
        lines = re.findall(r"^#(?:SBATCH|PBS|COBALT) (.*(?:--nodes|node|mem|time).*)$", script.getvalue(), re.MULTILINE)
        print(f"{system}:", " ".join(lines))
END
HOME=$work timeout 60 venv/bin/python ask.py | tee said
cat >expected <<'END'
slurm: --nodes=1 --ntasks-per-node=2 --mem=8388608K --time=0:5:0
slurm: --nodes=4 --ntasks-per-node=2 --mem=8388608K --time=0:5:0
pbs: -l select=1:ncpus=2:mpiprocs=2:mem=8589934592 -l walltime=0:5:0
pbs: -l select=4:ncpus=2:mpiprocs=2:mem=8589934592 -l walltime=0:5:0
cobalt: --nodecount=1 --time=''
cobalt: --nodecount=4 --time=''
END
cmp -s said expected || { echo "this has changed"; exit 1; }
