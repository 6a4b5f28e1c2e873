//! Settings of a daemon: what it is started with, and where its files are.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use tutti_protocol::gpus::Gpus;
use tutti_protocol::job_numbers::{self, JobNumbers};
use tutti_protocol::paths;
use tutti_protocol::ports::Ports;
use tutti_protocol::settings::Setting;

use super::script_files::ScriptSettings;
use super::state;
use crate::configuration::ConfigurationSource;
use crate::core::config::Loaded;
use crate::gang::GangSettings;
use crate::key::KeySource;

/// Settings with which a daemon is started.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where daemons and ranks meet.
    pub network: NetworkSettings,
    /// The node, and what jobs have of it.
    pub node: NodeSettings,
    /// Files of the daemon.
    pub folders: Folders,
    /// The credential.
    pub key: KeySource,
    /// Times after which something happens.
    pub delays: Delays,
    /// How gangs are scheduled.
    pub gangs: GangSettings,
    /// Configuration that the keeper has set.
    pub configured: Configured,
}

impl Settings {
    /// Whether this is the daemon that places the cluster's jobs.
    #[must_use]
    pub fn is_controller(&self) -> bool {
        self.network.controller.is_none()
    }
}

/// Where daemons and ranks meet.
#[derive(Clone, Debug)]
pub struct NetworkSettings {
    /// Where the controller hears; none: this is the controller.
    pub controller: Option<SocketAddr>,
    /// Where this daemon hears other daemons.
    pub listen: SocketAddr,
    /// Address on which its ranks are reached.
    pub data: IpAddr,
    /// Ports of its ranks' sockets between nodes; none: the kernel chooses.
    pub ports: Option<Ports>,
    /// Children of a node in the control tree.
    pub arity: u32,
}

/// The node, and what jobs have of it.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Name of the node.
    pub name: String,
    /// Text that all nodes of one machine share.
    pub machine: String,
    /// Cores that ranks can hold.
    pub slots: u32,
    /// Memory for jobs.
    pub memory_bytes: u64,
    /// GPUs for jobs.
    pub gpus_for_jobs: Gpus,
    /// Processes and threads of a job here, at most.
    pub pids_max: u64,
    /// The starter's program.
    pub starter: PathBuf,
    /// Scripts of the keeper around the parts of jobs.
    pub scripts: ScriptSettings,
}

/// Configuration that the keeper has set.
#[derive(Clone, Debug)]
pub struct Configured {
    /// Where that stands.
    pub source: ConfigurationSource,
    /// The same as it was read at the start.
    pub loaded: Loaded,
    /// Settings that hold for this node, for people.
    pub shown: Vec<Setting>,
    /// Command that sends mail about jobs, on the controller.
    pub mail: Option<PathBuf>,
}

/// Times of silence, of idleness and of the board, in ms.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    /// A node that is not heard of for so long is lost.
    pub lost_ms: u64,
    /// Starters wait so long for a daemon of their node that is away.
    pub keep_ms: u64,
    /// The daemon leaves after so long without clients and jobs; none: it stays.
    pub leave_ms: Option<u64>,
    /// Between two pictures of the board.
    pub board_refresh_ms: u64,
}

/// Where a daemon's files are.
#[derive(Clone, Debug)]
pub struct Folders {
    /// The local socket.
    pub(super) socket: PathBuf,
    /// Files of this boot.
    run: PathBuf,
    /// Files that outlive it.
    state: PathBuf,
    /// Lock of this daemon's files that outlive a boot.
    state_lock: PathBuf,
    /// The log of events, on the controller.
    pub(super) events: PathBuf,
    /// The log of the turns of gangs, on the controller.
    pub(super) turns: PathBuf,
    /// Logs of other daemons of this machine, whose numbers of jobs are not given again.
    other_events: Vec<PathBuf>,
    /// The series of its user's numbers.
    numbers: Arc<JobNumbers>,
    /// Whether `mpiexec` has started it.
    is_on_demand: bool,
    /// The file that says where it hears others, for the daemon after this one.
    pub(super) address: PathBuf,
    /// Records of starters, for the daemon after this one.
    pub(super) parts: PathBuf,
    /// Kept output of jobs that were submitted here.
    pub(super) output: PathBuf,
    /// The jobs that wait for nodes, on the controller, for the controller after this one.
    pub(super) queue: PathBuf,
    /// Where the sections of the cluster are stored.
    pub(super) cluster_file: PathBuf,
}

impl Folders {
    /// Of the daemon of this name.
    #[must_use]
    pub fn new(run: PathBuf, state: PathBuf, socket: PathBuf, name: &str, is_on_demand: bool) -> Self {
        let file = name.replace('/', "_");
        Folders {
            state_lock: state.join(format!("{file}.state.lock")),
            events: state.join(paths::EVENTS),
            turns: state.join(paths::TURNS),
            other_events: paths::other_logs(&run, is_on_demand),
            numbers: JobNumbers::of(run.parent().filter(|_| is_on_demand).unwrap_or(&run)).into(),
            is_on_demand,
            address: run.join(paths::address(name)),
            parts: run.join(format!("{file}.parts")),
            output: state.join(format!("{file}.output")),
            queue: state.join(format!("{file}.queue")),
            cluster_file: state.join(format!("{file}.cluster.toml")),
            socket,
            run,
            state,
        }
    }

    /// Locks of the files that outlive a boot, the last one of the controller's logs: another controller may
    /// have another name.
    pub(super) fn locks(&self) -> [PathBuf; 2] {
        [self.state_lock.clone(), self.state.join(format!("{}.lock", paths::EVENTS))]
    }

    /// Takes over what an earlier release has left in the folder of this boot.
    pub(super) fn adopt(&self, name: &str) {
        state::adopt(&self.run, &self.state, name);
    }

    /// Leaves a link to the files that outlive this boot beside the socket.
    pub(super) fn link_state(&self) {
        let _ = paths::link_state(&self.socket, &self.state).inspect_err(|error| {
            tracing::warn!("cannot leave a link to the state beside the socket: {error}");
        });
    }

    /// The series of its user's numbers, where `mpiexec` has started it.
    pub(super) fn numbers_of_user(&self) -> Option<Arc<JobNumbers>> {
        self.is_on_demand.then(|| Arc::clone(&self.numbers))
    }

    /// Number behind the last job of this machine that the logs have, and the series of its user.
    pub(super) fn first_job(&self) -> u64 {
        let others = self.other_events.iter().filter(|path| **path != self.events);
        let last = others.map(|path| job_numbers::last_job(path)).max().unwrap_or(0);
        // An on-demand daemon draws from the series itself, and a job that asks to take part may have begun
        // it.
        let drawn = if self.is_on_demand { 0 } else { self.numbers.last() };
        job_numbers::next_job(&self.events).max(last.max(drawn) + 1)
    }
}
