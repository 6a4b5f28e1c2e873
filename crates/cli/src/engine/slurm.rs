//! Slurm as the engine: in an allocation one step of `srun` starts a daemon on each node. They live as long
//! as the allocation. The key goes by a variable; the controller is the daemon of the first node.

use std::fs::{File, TryLockError};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tutti_client::node_list;
use tutti_os::{slurm, stderr::escape_control};
use tutti_protocol::{key, log_line, paths, variables};

/// Variables of the batch script that would change what the step gets.
const OF_TASKS: &str = "SLURM_NTASKS";
const OF_CPUS: [&str; 4] =
    ["SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_NPROCS", "SLURM_TRES_PER_TASK"];
/// Runs a command in the background, and writes its status to a file when it ends.
const IN_BACKGROUND: &str = r#"status=$1; shift; { "$@"; echo $? >"$status"; } &"#;

/// An allocation that this process is in, on one of its nodes.
#[derive(Debug)]
pub struct Allocation {
    nodes: Vec<String>,
    /// Of the daemon of this node.
    folder: PathBuf,
}

/// Names of the nodes of the allocation.
pub fn nodes(variable: &impl Fn(&str) -> Option<String>) -> Option<Vec<String>> {
    node_list::expand(&variable("SLURM_JOB_NODELIST").or_else(|| variable("SLURM_NODELIST"))?)
}

/// The allocation of a real Slurm; none: this process is in none, or on none of its nodes.
pub fn of_this_process() -> Option<Allocation> {
    let folder = paths::of_allocation()?;
    let nodes = nodes(&slurm::variable)?;
    Some(Allocation { nodes, folder })
}

impl Allocation {
    /// Waits for the other nodes, if the daemon that answers is one of this allocation's.
    pub fn await_if_ours(&self) -> Result<(), String> {
        if paths::is_named() || paths::socket() != self.folder.join(paths::SOCKET) {
            return Ok(());
        }
        super::await_nodes(&self.nodes, || None)
    }

    /// Starts the daemons, or waits for those that another `mpiexec` of this node is starting.
    pub fn start(&self) -> Result<(), String> {
        let folder = |error| format!("cannot use the folder {}: {error}", self.folder.display());
        paths::make(&paths::folder(), rustix::process::geteuid().is_root()).map_err(folder)?;
        paths::make(&self.folder, false).map_err(folder)?;
        let (log, status) = (self.folder.join("srun.log"), self.folder.join("srun.status"));
        let lock = File::create(self.folder.join("start.lock")).map_err(folder)?;
        match lock.try_lock() {
            Ok(()) if crate::cluster::connect().is_ok() => return self.await_if_ours(),
            Ok(()) => {
                let _ = std::fs::remove_file(&status);
                self.run_step(&log, &status)?;
            }
            // Whoever starts them reports what is wrong.
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(folder(error)),
        }
        let ended = || status.exists().then(|| "srun has ended".to_owned());
        let started = super::await_nodes(&self.nodes, ended);
        drop(lock);
        started.map_err(|text| {
            let last = last_line(&log).map_or_else(String::new, |line| format!(": {line}"));
            format!("its daemons do not start: {text}{last}")
        })
    }

    /// The step outlives this process: further jobs of the allocation use it.
    fn run_step(&self, log: &Path, status: &Path) -> Result<(), String> {
        let [first, ..] = &self.nodes[..] else { return Err("the allocation has no nodes".into()) };
        let key = key::text().map_err(|error| error.to_string())?;
        // One that is free here, where the first node is this one.
        let port = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| socket.local_addr());
        let port = port.map_err(|error| format!("cannot find a free port: {error}"))?.port();
        let log_file =
            paths::open_log(log, true).map_err(|error| format!("cannot write {}: {error}", log.display()))?;
        let count = self.nodes.len();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", IN_BACKGROUND, "sh"]).arg(status).arg("srun");
        command.args([format!("--nodes={count}"), format!("--ntasks={count}")]).args([
            "--overlap",
            "--ntasks-per-node=1",
            "--cpu-bind=none",
            "--mem=0",
            "--mpi=none",
            "--kill-on-bad-exit=0",
            "--input=none",
        ]);
        command.arg(paths::daemon()).args(["--engine", "slurm", "--join", &format!("{first}:{port}")]);
        let of_tasks = std::env::vars_os()
            .map(|(name, _)| name)
            .filter(|name| name.to_string_lossy().starts_with(OF_TASKS));
        for name in of_tasks.chain(OF_CPUS.map(Into::into)) {
            command.env_remove(name);
        }
        command.env(variables::KEY, key).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log_file);
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("a shell for srun ended with {status}")),
            Err(error) => Err(format!("cannot start a shell for srun: {error}")),
        }
    }
}

/// Last words of a daemon or of `srun`.
fn last_line(log: &Path) -> Option<String> {
    let text = std::fs::read_to_string(log).ok()?;
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(escape_control(log_line::text_of(line).trim_start_matches("tuttid: ")).to_string())
}
