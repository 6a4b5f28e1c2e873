#!/bin/bash
# parsl 2026.10.26: its provider for Slurm reports a job as FAILED once and as COMPLETED from the next call of status on. It
# asks sacct only for jobs that are not over, and takes those of which nothing was answered, the failed one too, for jobs
# that have ended well. Seen as soon as another job is still running. sacct and sbatch are two lines of a shell here: the
# states that they tell never change.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check parsl==2026.10.26
mkdir bin scripts
cat >bin/sbatch <<'END'
#!/bin/sh
echo x >>"$COUNT"; echo "Submitted batch job $(wc -l <"$COUNT")"
END
# Job 1 has failed, job 2 runs; what is not asked for is not told.
cat >bin/sacct <<'END'
#!/bin/sh
for word; do jobs=$word; done
for job in $(echo "$jobs" | tr , ' '); do
    case $job in 1) echo "1 FAILED" ;; 2) echo "2 RUNNING" ;; esac
done
END
chmod +x bin/*
COUNT=$work/count PATH=$work/bin:$PATH venv/bin/python - <<'END'
from parsl.providers import SlurmProvider
provider = SlurmProvider(walltime="00:05:00")
provider.script_dir = "scripts"
jobs = [provider.submit("exit 4", 1), provider.submit("sleep 100", 1)]
seen = [[status.state.name for status in provider.status(jobs)] for _ in range(2)]
print("parsl 2026.10.26: of a failed job and one that runs status says", *seen[0], "then", *seen[1])
assert seen == [["FAILED", "RUNNING"], ["COMPLETED", "RUNNING"]], "this has changed"
END
