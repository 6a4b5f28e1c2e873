//! GPUs as they are counted, whether the machine has any or not: which ones jobs get, and what both families
//! of commands say.

use crate::Slurm;
use crate::harness::await_that;

/// Numbers of the GPUs that a job has written, when it has.
fn gpus_of(slurm: &Slurm, file: &str) -> String {
    await_that(&format!("{file} is written"), || {
        std::fs::read_to_string(slurm.cluster.folder.join(file)).is_ok_and(|text| text.ends_with('\n'))
    });
    slurm.read(file).trim().to_owned()
}

#[test]
fn gpus_are_one_jobs_alone() {
    let slurm = Slurm::up("gpus", 2, &["--slots", "4", "--gpus", "2"]);
    let submit = |file: &str, options: &str| {
        let script = "echo [$CUDA_VISIBLE_DEVICES]; exec sleep 1000";
        slurm.ok(&format!("tutti submit --host node1 -n 1 -o {file} {options} sh -c '{script}'"))
    };
    let number = |answer: String| answer.split_whitespace().last().unwrap().trim_matches('.').to_owned();
    let jobs = ["a", "b", "c"].map(|file| number(submit(file, "--gpus 1")));
    // Nodes of one machine share none: those of node1 are the second two.
    assert_eq!(["a", "b"].map(|file| gpus_of(&slurm, file)), ["[2]", "[3]"]);
    await_that("the third waits", || {
        slurm
            .ok("tutti ps --all")
            .contains(&format!("job {} waits: it needs 1 GPU on 1 node, 0 have so many left", jobs[2]))
    });
    let nodes = slurm.ok("tutti nodes");
    assert!(nodes.lines().any(|line| line.contains("node1") && line.contains("2/2")), "{nodes}");

    // Memory of a GPU stays where it is: a suspended job keeps its own.
    slurm.ok(&format!("tutti suspend {}", jobs[0]));
    let state = |job: &str| slurm.ok(&format!("tutti status {job}"));
    await_that("the first is suspended", || state(&jobs[0]).contains("suspended"));
    assert!(state(&jobs[2]).contains("waiting"), "{}", state(&jobs[2]));
    slurm.ok(&format!("tutti kill {}", jobs[0]));
    assert_eq!(gpus_of(&slurm, "c"), "[2]");
}

/// Ranks that a running job starts have them from the starter.
#[test]
fn gpus_are_told_to_ranks_that_others_start() {
    let slurm = Slurm::up("gpus-started", 1, &["--slots", "4", "--gpus", "2"]);
    let script = "xargs -0n1 </proc/$PPID/environ | grep ^CUDA_VISIBLE";
    let told = slurm.ok(&format!("CUDA_VISIBLE_DEVICES=9 tutti run --gpus 2 -n 1 sh -c '{script}'"));
    assert_eq!(told, "CUDA_VISIBLE_DEVICES=0,1\n");
}

#[test]
fn slurms_words_for_gpus_are_understood() {
    let slurm = Slurm::up("slurm-gpus", 1, &["--slots", "4", "--gpus", "4"]);
    slurm.write(
        "job.sh",
        "#!/bin/sh\n#SBATCH --gres=gpu:2 -n 2\necho $CUDA_VISIBLE_DEVICES $SLURM_JOB_GPUS $SLURM_GPUS_ON_NODE\n\
         srun -n 2 --gpus-per-task=1 sh -c 'echo task $SLURM_PROCID has $CUDA_VISIBLE_DEVICES' | sort\n\
         srun --gpus 3 true 2>&1\nsqueue -h -o %b\nscontrol show job -o $SLURM_JOB_ID | grep -o 'TresPerNode=[^ ]*'\n",
    );
    slurm.ok("sbatch --wait -o out job.sh");
    let expected = "0,1 0,1 2\ntask 0 has 0\ntask 1 has 1\n\
                    srun: error: Unable to create step: 3 GPUs on a node are more than the 2 of its job\n\
                    gres:gpu:2\nTresPerNode=gres:gpu:2\n";
    assert_eq!(slurm.read("out"), expected);
    for (words, gpus) in [
        ("--gpus 3", "0,1,2"),
        ("--gpus-per-node=1", "0"),
        ("-n 2 --gpus-per-task=2", "0,1,2,3"),
        ("--gres=none", ""),
    ] {
        slurm.ok(&format!("sbatch --wait -o words {words} --wrap='echo $CUDA_VISIBLE_DEVICES'"));
        assert_eq!(slurm.read("words"), format!("{gpus}\n"), "{words}");
    }
    assert_eq!(slurm.ok("srun --gpus 2 sh -c 'echo $CUDA_VISIBLE_DEVICES'"), "0,1\n");
    assert_eq!(slurm.ok("sinfo -h -o %G"), "gpu:4\n");
    assert!(slurm.ok("scontrol show node -o").contains(" Gres=gpu:4 "));
    for (words, expected) in [("--gres=gpu:5", "5 GPUs on one node"), ("--gres=gpu:a100:1", "gpu:a100:1")] {
        let ran = slurm.run(&format!("sbatch {words} --wrap=true"));
        assert!(ran.code() == 1 && ran.stderr.starts_with("sbatch: error: "), "{ran}");
        assert!(ran.stderr.contains(expected) && ran.stderr.lines().count() == 1, "{ran}");
    }
}
