//! Slurm's commands on clusters of real daemons: what scripts and tools for Slurm do, and what they read.
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

mod arrays;
#[path = "../cluster/cluster.rs"]
#[allow(dead_code)]
mod cluster;
mod gpus;
#[path = "../launch/harness.rs"]
#[allow(dead_code)]
mod harness;
mod hostile;
mod jobs;
mod lists;
mod refusals;
mod reservations;
mod submissions;

use std::process::Command;

use tutti_tests::{LIMIT, Ran, dist};

use cluster::Cluster;
use harness::await_that;

/// A cluster, and Slurm's commands in its folder.
pub struct Slurm {
    /// Cluster of the daemons.
    pub cluster: Cluster,
}

impl Slurm {
    /// Starts daemons; `more` are options of `tutti up`.
    #[track_caller]
    pub fn up(name: &str, nodes: u32, more: &[&str]) -> Self {
        Slurm { cluster: Cluster::up(name, nodes, more) }
    }

    /// A shell with Slurm's commands, and those of the tree, on its PATH.
    pub fn command(&self, script: &str) -> Command {
        let tree = dist();
        let mut command = Command::new("sh");
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{0}/share/tutti/slurm/bin:{0}/bin:{path}", tree.display());
        command.args(["-c", script]).env("PATH", path).env("TZ", "UTC").current_dir(&self.cluster.folder);
        command.env("TUTTI_DIR", &self.cluster.folder).env("TUTTI_DAEMON", self.cluster.socket(0));
        command.env("TUTTI_SWITCH_CALLS", "end");
        for (variable, _) in std::env::vars_os() {
            let name = variable.to_string_lossy().into_owned();
            if name.starts_with("SLURM_") || name.starts_with("SBATCH_") || name.starts_with("SQUEUE_") {
                command.env_remove(name);
            }
        }
        command
    }

    /// Runs a line of a shell.
    #[track_caller]
    pub fn run(&self, script: &str) -> Ran {
        tutti_tests::run(&mut self.command(script), LIMIT)
    }

    /// The same of one that ends well; its stdout.
    #[track_caller]
    pub fn ok(&self, script: &str) -> String {
        self.run(script).expect_success().stdout
    }

    /// Submits a job with these words; its number.
    #[track_caller]
    pub fn submit(&self, words: &str) -> u64 {
        let answer = self.ok(&format!("sbatch --parsable {words}"));
        answer.trim_end_matches('\n').parse().unwrap_or_else(|_| panic!("{answer:?} is no number"))
    }

    /// The number in the answer of `sbatch`.
    #[track_caller]
    pub fn number_in(answer: &str) -> u64 {
        let number = answer.strip_prefix("Submitted batch job ").and_then(|rest| rest.strip_suffix('\n'));
        number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"))
    }

    /// The state that `squeue` has of a job, also of one that is over.
    pub fn state(&self, job: &str) -> String {
        self.ok(&format!("squeue -h -t all -j {job} -o %T")).trim().to_owned()
    }

    /// Waits until `squeue` has this state of a job.
    #[track_caller]
    pub fn await_state(&self, job: &str, state: &str) {
        await_that(&format!("job {job} is {state}"), || self.state(job) == state);
    }

    /// A file in the folder of the cluster.
    pub fn read(&self, name: &str) -> String {
        let path = self.cluster.folder.join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Writes a file there.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.cluster.folder.join(name), text).expect("our folder");
    }
}
