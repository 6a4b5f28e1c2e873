//! Refusals: one line, Slurm's status, and nothing submitted.

use crate::Slurm;

#[test]
fn what_cannot_be_had_is_refused_in_slurms_words() {
    let slurm = Slurm::up("slurm-refusals", 2, &["--slots", "2"]);
    slurm.write("plain", "echo\n");
    slurm.write("time", "#!/bin/sh\n#SBATCH -t abc\ntrue\n");
    slurm.write("option", "#!/bin/sh\n#SBATCH --frob\ntrue\n");
    slurm.write("word", "#!/bin/sh\n#SBATCH foo\ntrue\n");
    slurm.write("het", "#!/bin/sh\n#SBATCH hetjob\ntrue\n");
    for (line, status, error) in [
        ("sbatch nothing.sh", 1, "sbatch: error: Unable to open file nothing.sh\n"),
        ("sbatch --frob job.sh", 255, "sbatch: unrecognized option '--frob'\n"),
        ("sbatch plain", 1, "sbatch: error: This does not look like a batch script."),
        ("sbatch het", 1, "sbatch: error: script line 2: heterogeneous jobs are not supported by Tutti\n"),
        (
            "sbatch --gres=gpu:1 --wrap=true",
            1,
            "sbatch: error: Batch job submission failed: 1 GPU on one node is more than this cluster has",
        ),
        (
            "sbatch -L matlab --wrap=true",
            1,
            "sbatch: error: Batch job submission failed: Invalid license specification: there are none\n",
        ),
        ("sbatch -M other --wrap=true", 1, "sbatch: error: --clusters: there is one cluster"),
        (
            "sbatch -C haswell --wrap=true",
            1,
            "sbatch: error: Batch job submission failed: Invalid feature specification: nodes have no features\n",
        ),
        (
            "sbatch -p other --wrap=true",
            1,
            "sbatch: error: invalid partition specified: other\n\
             sbatch: error: Batch job submission failed: Invalid partition name specified\n",
        ),
        (
            "sbatch -d afterok:999999 --wrap=true",
            1,
            "sbatch: error: Batch job submission failed: Job dependency problem: there is no job 999999\n",
        ),
        (
            "sbatch -a 0-99999999 --wrap=true",
            1,
            "sbatch: error: Batch job submission failed: Invalid job array specification\n",
        ),
        ("sbatch -t abc --wrap=true", 255, "sbatch: error: Invalid --time specification\n"),
        ("sbatch time", 255, "sbatch: error: Invalid --time specification\n"),
        (
            "sbatch option",
            255,
            "sbatch: unrecognized option '--frob'\nTry \"sbatch --help\" for more information\n",
        ),
        ("sbatch word", 255, "sbatch: error: Invalid directive found in batch script: foo\n"),
        ("SBATCH_TIMELIMIT=abc sbatch --wrap=true", 255, "sbatch: error: Invalid --time specification\n"),
        ("sbatch --mem=1.5G --wrap=true", 255, "sbatch: error: Invalid --mem specification\n"),
        ("sbatch --begin=soon --wrap=true", 255, "sbatch: error: Invalid --begin specification\n"),
        ("sbatch --signal=FROB@1 --wrap=true", 255, "sbatch: error: Invalid --signal specification\n"),
        ("sbatch --open-mode=x --wrap=true", 255, "sbatch: error: Invalid --open-mode specification\n"),
        ("sbatch --exclusive=x --wrap=true", 255, "sbatch: error: Invalid --exclusive specification\n"),
        (
            "sbatch --hint=x --wrap=true",
            1,
            "sbatch: error: unrecognized --hint argument \"x\", see --hint=help\n",
        ),
        ("sbatch -N x --wrap=true", 255, "sbatch: error: \"x\" is not a valid node count\n"),
        (
            "sbatch -N 0 --wrap=true",
            1,
            "sbatch: error: Batch job submission failed: Node count specification invalid\n",
        ),
        ("sbatch -n x --wrap=true", 1, "sbatch: error: Invalid numeric value \"x\" for --ntasks.\n"),
        ("srun -t abc true", 255, "srun: error: Invalid --time specification\n"),
        ("squeue -w other", 1, "squeue: error: Invalid node name other\n"),
        ("squeue -M other", 1, "squeue: error: No cluster 'other' known by database.\n"),
        ("sbatch -D /nothing --wrap=true", 1, "sbatch: error: Unable to set working directory /nothing"),
        (
            "sbatch -o /nothing/x --wrap=true",
            1,
            "sbatch: error: Batch job submission failed: cannot write /nothing/x",
        ),
        ("sbatch -N 9 --wrap=true", 1, "sbatch: error: Batch job submission failed: "),
        ("srun -n 1 true : -n 1 true", 1, "srun: error: heterogeneous jobs are not supported by Tutti\n"),
        ("srun --mpi=pmix true", 1, "srun: error: --mpi=pmix is not there"),
        ("squeue -j 999999", 1, "slurm_load_jobs error: Invalid job id specified\n"),
        (
            "squeue -t FROB",
            1,
            "squeue: error: Invalid job state specified: FROB\nsqueue: error: Valid job states include: PEND",
        ),
        ("squeue 7", 1, "squeue: error: Unrecognized option: 7\n"),
        (
            "squeue --frob",
            1,
            "squeue: unrecognized option '--frob'\nTry \"squeue --help\" for more information\n",
        ),
        ("scontrol show job 999999", 1, "slurm_load_jobs error: Invalid job id specified\n"),
        ("scontrol hold 999999", 1, "slurm_suspend error: Invalid job id specified\n"),
        ("scontrol requeue 999999", 1, "Invalid job id specified for job 999999\n"),
        ("scontrol show step 999999", 1, "scontrol: error: Job step 999999 not found\n"),
        ("sinfo -t FROB", 1, "sinfo: error: Bad state string: \"frob\"\n"),
        (
            "sbatch -N 3-1 --wrap=true",
            255,
            "sbatch: error: Maximum node count 1 is less than minimum node count 3\n",
        ),
        (
            "sbatch --test-only -N 9 --wrap=true",
            1,
            "allocation failure: Requested node configuration is not available\n",
        ),
        (
            "srun -p other true",
            1,
            "srun: error: invalid partition specified: other\n\
             srun: error: Unable to allocate resources: Invalid partition name specified\n",
        ),
        ("srun --frob true", 255, "srun: unrecognized option '--frob'\n"),
        ("sacctmgr add user eva", 1, "sacctmgr: error: add is not there: "),
        ("scontrol update job=1 frob=2", 1, "Update of this parameter is not supported: frob=2\n"),
        ("sacct -nu root -o Account%256 '|' tail -1", 1, "sacct: invalid option -- '1'\n"),
    ] {
        let ran = slurm.run(line);
        assert!(
            ran.code() == status && ran.stderr.starts_with(error) && ran.stdout.is_empty(),
            "{line}: {ran}"
        );
    }
    assert_eq!(slurm.ok("squeue -h -t all; squeue -h -j 999998,999999; sacct -n -j 999999"), "");
    // What has no meaning here is told on stderr, and the answer stays one line.
    let ran = slurm.run("sbatch --qos=high --nice=5 --exclusive --wrap=true");
    let job = Slurm::number_in(&ran.stdout);
    slurm.ok(&format!("scancel {job}"));
    assert_eq!(ran.stderr, "sbatch: --qos, --nice without effect on a cluster of Tutti\n");
    let ran = slurm.run("TUTTI_DAEMON=/nothing/tuttid.sock squeue");
    assert!(ran.code() == 1 && ran.stderr.contains("Unable to contact slurm controller"), "{ran}");
    assert_eq!(slurm.run("TUTTI_DAEMON=/nothing/tuttid.sock scancel 1").code(), 8);
}
