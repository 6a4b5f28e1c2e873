#!/bin/bash
# easybuild-framework 5.4.1: a note of sbatch on stderr, such as a site's job_submit plugin writes for its users ("sbatch: Job
# will be charged to project x"), makes its Slurm backend fail although the job was accepted. It reads stdout and stderr as
# one text and looks for "^Submitted batch job" at its very beginning alone (no re.MULTILINE). The job stays behind, held,
# since it is submitted with --hold and would be released later. Without the note the number is found. sbatch is a line of a
# shell here.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check easybuild-framework==5.4.1
mkdir bin
cat >bin/sbatch <<'END'
#!/bin/sh
case "$*" in
*--version*) echo "slurm 22.05.8" ;;
*)
    case " $* " in *" --hold "*) echo held >>"$HOME/held" ;; esac
    [ -z "$NOTE" ] || echo "$NOTE" >&2
    echo "Submitted batch job 12" ;;
esac
END
printf '#!/bin/sh\n' >bin/scontrol
chmod +x bin/*
cat >submit.py <<'END'
import os
from easybuild.tools.build_log import EasyBuildError
from easybuild.tools.options import set_up_configuration

set_up_configuration(args=["--job-backend=Slurm", "--allow-use-as-root-and-accept-consequences"], silent=True)
from easybuild.tools.job.slurm import Slurm

backend = Slurm()
backend.init()
for os.environ["NOTE"] in "", "sbatch: Job will be charged to project x":
    job = backend.make_job("eb x.eb", "x", hours=1, cores=1)
    try:
        backend.queue(job)
        end = f"job {job.jobid}"
    except EasyBuildError as error:
        end = error.msg.split(":")[0]
    print(f"easybuild-framework 5.4.1, {'with' if os.environ['NOTE'] else 'without'} a note: {end}")
END
PATH=$work/bin:$PATH HOME=$work timeout 120 venv/bin/python submit.py >said 2>log || { cat said log; exit 1; }
{ grep '^easybuild' said; echo "submitted with --hold: $(wc -l <held)"; } | tee seen
cat >expected <<'END'
easybuild-framework 5.4.1, without a note: job 12
easybuild-framework 5.4.1, with a note: Failed to determine job ID from output of submission command
submitted with --hold: 2
END
cmp -s seen expected || { cat said log; echo "this has changed"; exit 1; }
