//! A cluster on this machine: `tutti up` starts daemons, `tutti down` ends them.

use std::fs::File;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::PipeFlags;
use tutti_os::netns::{NAMESPACES_MAX, Namespaces};
use tutti_os::stderr::escape_control;
use tutti_protocol::config::{Config, settings};
use tutti_protocol::daemon_options::{Policy, parse_policy};
use tutti_protocol::gpus::Gpus;
use tutti_protocol::{daemon_lock, log_line, paths, size};
use tutti_shm::local_socket::connect_to;

pub mod hosts;
mod lacks;
pub mod member;
mod page;

use crate::cluster::{self, Answer, JobId, Request};
use crate::nodes::loopback;
use crate::options::USAGE;
use crate::{configuration, stdout};

/// The daemons have this time to find each other.
const TIMEOUT: Duration = Duration::from_secs(20);
/// A daemon whose socket is gone has this time: it waits 40 s for a job that its user has stopped.
const DAEMON_END: Duration = Duration::from_secs(60);
/// Processes of jobs have this time to be gone after the daemons.
const LEFT: Duration = Duration::from_secs(2);
/// Between two looks.
const POLL: Duration = Duration::from_millis(10);

/// Options of `tutti up`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How many nodes
    #[arg(long, short = 'N', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    nodes: u32,
    /// Start a daemon on each of these machines, reached by ssh, in place of several on this one
    #[arg(long, value_name = "[USER@]HOST,...", value_delimiter = ',', conflicts_with_all = ["nodes", "netns", "config", "pids_max"])]
    hosts: Vec<String>,
    /// Reach them by this program with its options, which is called as ssh is (default: TUTTI_RSH, or ssh)
    #[arg(long, value_name = "PROGRAM", requires = "hosts")]
    rsh: Option<String>,
    /// Cores that ranks can hold on each (default: all of the machine)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    slots: Option<u32>,
    /// Memory for jobs on each, as 16G or 512M (default: that of the machine but a sixteenth, in equal parts)
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    memory: Option<u64>,
    /// GPUs for jobs on each (default: those of the machine for root, in equal parts; none for others)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=64))]
    gpus: Option<u32>,
    /// Processes and threads of a job on each, at most; for root (default: an eighth of what the kernel
    /// takes)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(16..))]
    pids_max: Option<u64>,
    /// The configuration of the daemons (default: as for tuttid); options go before it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Children of a node in the control tree (default: 4)
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=64))]
    arity: Option<u32>,
    /// A node from which nothing has come for so many seconds is lost (default: 5)
    #[arg(long, value_name = "SECONDS")]
    lost_after: Option<f64>,
    /// How long the jobs of one row run before the next row's turn, in ms (default: 100)
    #[arg(long, value_name = "MS")]
    slice: Option<f64>,
    /// How jobs get nodes and rows: matrix (the first row with room) or dqt (SCore-D's Distributed Queue
    /// Tree) (default: matrix)
    #[arg(long, value_name = "NAME", value_parser = parse_policy)]
    policy: Option<Policy>,
    /// Switch by the protocol of SCore-D, with a barrier after each step
    #[arg(long)]
    strict: bool,
    /// Switch at the end of every slice, also when there is one job only
    #[arg(long)]
    force_switch: bool,
    /// A network namespace for each daemon and its ranks, joined by virtual cables (for root)
    #[arg(long)]
    netns: bool,
    /// For scripts
    #[arg(long)]
    json: bool,
    /// When a daemon dies, its jobs wait so many seconds for one that takes its place (default: 60)
    #[arg(long, value_name = "SECONDS")]
    keep_for: Option<f64>,
}

impl Options {
    /// Flags that daemons take as they are.
    fn flags(&self) -> Vec<String> {
        let given = [
            ("--arity", self.arity.map(|arity| arity.to_string())),
            ("--lost-after", self.lost_after.map(|seconds| seconds.to_string())),
            ("--keep-for", self.keep_for.map(|seconds| seconds.to_string())),
            ("--slice", self.slice.map(|ms| ms.to_string())),
            ("--policy", self.policy.map(|policy| policy.to_string())),
            ("--slots", self.slots.map(|slots| slots.to_string())),
            ("--memory", self.memory.map(|bytes| format!("{}K", bytes >> 10))),
            ("--gpus", self.gpus.map(|count| count.to_string())),
        ];
        let valued = given.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?]));
        let switches = [("--strict", self.strict), ("--force-switch", self.force_switch)];
        let switches = switches.into_iter().filter(|(_, on)| *on).map(|(flag, _)| flag.to_owned());
        valued.flatten().chain(switches).collect()
    }
}

/// Starts the daemons, and waits until they are a cluster.
///
/// # Errors
/// When it does not come to be: then nothing of it is left. A text for the user.
pub fn up(options: &Options) -> Result<ExitCode, String> {
    if !options.hosts.is_empty() {
        options.rsh.iter().for_each(|program| crate::rsh::reach_by(program));
        return hosts::up(&options.hosts, &options.flags(), options.json);
    }
    let folder = free_folder()?;
    if options.netns && options.nodes > NAMESPACES_MAX {
        return Err(format!("--netns takes at most {NAMESPACES_MAX} nodes, not {}", options.nodes));
    }
    let Some((config, _)) = configuration::read(options.config.clone()) else {
        return Ok(ExitCode::from(USAGE));
    };
    let machine_bytes = tutti_os::memory::of_machine();
    if let Some(wanted) = options.memory.filter(|wanted| machine_bytes > 0 && *wanted > machine_bytes) {
        let (wanted, there) = (size::text(wanted), size::text(machine_bytes));
        return Err(format!("--memory: {wanted} on a node is more than the {there} of this machine"));
    }
    let namespaces = options.netns.then(|| Namespaces::create(options.nodes, &[])).transpose();
    let namespaces = namespaces.map_err(|error| error.to_string())?;
    let mut daemons = Daemons(Vec::new());
    // None: a daemon has nothing to keep.
    let holder =
        Holder::start(namespaces.as_ref()).map_err(|error| format!("cannot keep the namespaces: {error}"))?;
    let mut head: Option<String> = None;
    for node in 0..options.nodes {
        let start = |daemons: &mut Daemons, address| {
            daemons.start((options, &config), &folder, node, address, head.as_deref())
        };
        let address = match &namespaces {
            None => start(&mut daemons, (loopback(), None)),
            Some(namespaces) => {
                let lives =
                    holder.try_clone().map_err(|error| format!("cannot keep the namespaces: {error}"))?;
                let address = namespaces.nodes[node as usize].address;
                let started = namespaces.inside(node as usize, || start(&mut daemons, (address, lives)));
                started.map_err(|error| error.to_string()).flatten()
            }
        }?;
        head.get_or_insert(address);
    }
    let deadline = Instant::now() + TIMEOUT;
    while alive()? < options.nodes as usize {
        daemons.check(&folder)?;
        if Instant::now() >= deadline {
            return Err(format!(
                "the daemons did not find each other in {} s: their logs are in {}",
                TIMEOUT.as_secs(),
                folder.display()
            ));
        }
        std::thread::sleep(POLL);
    }
    daemons.0.clear();
    let page = page::start(&config, options.config.as_deref(), &folder);
    let text = if options.json {
        format!("{}\n", serde_json::json!({ "nodes": options.nodes, "folder": folder, "page": page }))
    } else {
        let page = page.map_or_else(String::new, |page| format!("the page is at http://{page}\n"));
        format!("{} nodes; logs and sockets are in {}\n{page}", options.nodes, folder.display())
    };
    Ok(stdout::print(Some(text), ""))
}

/// Gives this user's folder, in which no daemon answers.
fn free_folder() -> Result<PathBuf, String> {
    let folder = paths::folder();
    let is_root = rustix::process::geteuid().is_root();
    paths::make(&folder, is_root)
        .map_err(|error| format!("cannot use the folder {}: {error}", folder.display()))?;
    let socket = folder.join(paths::SOCKET);
    if is_answered(&socket) {
        return Err(format!(
            "a daemon is running at {} already: `tutti nodes` lists its cluster, `tutti down` there ends it",
            socket.display()
        ));
    }
    Ok(folder)
}

/// The last that a daemon has said; none: nothing.
fn last_line(log: &Path) -> Option<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().last().map(|line| log_line::text_of(line).trim_start_matches("tuttid: ").to_owned())
}

/// The nodes that the controller knows.
fn alive() -> Result<usize, String> {
    match cluster::request(&Request::Nodes)?.0 {
        Answer::Nodes(rows) => Ok(rows.iter().filter(|row| row.alive).count()),
        _ => Err("the daemon is of another version".into()),
    }
}

/// Keeper of the namespaces of a cluster and what joins them, whichever of its daemons dies: a process that
/// has all of them open, and ends when no daemon has its end of a pipe any more. It does nothing else, so it
/// is `cat`, under another name. Who starts a daemon again enters its namespace by `/proc/PID/fd`.
struct Holder(Option<OwnedFd>);

/// Name of that process in lists of processes.
const HOLDER: &str = "tutti-namespaces";

impl Holder {
    fn start(namespaces: Option<&Namespaces>) -> std::io::Result<Self> {
        let Some(namespaces) = namespaces else { return Ok(Holder(None)) };
        let (end, lives) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // Copies, which that process has under their numbers.
        let copies =
            namespaces.descriptors().map(|open| open.try_clone_to_owned()).collect::<Result<Vec<_>, _>>()?;
        for copy in &copies {
            fcntl_setfd(copy, FdFlags::empty())?;
        }
        let mut command = Command::new("cat");
        command.arg0(HOLDER).stdin(end).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        // It is in the way of no folder.
        command.current_dir("/").spawn()?;
        Ok(Holder(Some(lives)))
    }

    /// Copy of the pipe's end, for a daemon that keeps it open.
    fn try_clone(&self) -> std::io::Result<Option<OwnedFd>> {
        self.0.as_ref().map(OwnedFd::try_clone).transpose()
    }
}

/// GPUs of one of several nodes of this machine, which share none; none: its daemon finds out.
fn gpus_of_node(options: &Options, configuration: &Config, name: &str, node: u32) -> Option<String> {
    let (all, each) = match options.gpus {
        // They are counted, whether they are there or not.
        Some(each) => (Gpus::range(0, 64), each),
        None if settings::of_node(configuration, name).text("gpus").is_some() => return None,
        None if !rustix::process::geteuid().is_root() => return None,
        None => (Gpus::found(), Gpus::found().count() / options.nodes),
    };
    let own = all.without(Gpus::range(0, node.saturating_mul(each))).lowest(each);
    Some(own.unwrap_or_default().spelled())
}

/// Daemons that end with us unless all of them are there.
struct Daemons(Vec<(String, Child)>);

impl Daemons {
    /// Starts one; gives the address on which it listens for others.
    fn start(
        &mut self,
        (options, configuration): (&Options, &Config),
        folder: &Path,
        node: u32,
        (address, held): (IpAddr, Option<OwnedFd>),
        head: Option<&str>,
    ) -> Result<String, String> {
        let name = format!("node{node}");
        let log_file = folder.join(format!("{name}.log"));
        let log = paths::open_log(&log_file, true)
            .map_err(|error| format!("cannot write {}: {error}", log_file.display()))?;
        let socket = if node == 0 { folder.join(paths::SOCKET) } else { folder.join(format!("{name}.sock")) };
        // No command may find this cluster where an earlier one was.
        let address_file = folder.join(paths::address(&name));
        let _ = std::fs::remove_file(&address_file);
        let mut command = Command::new(paths::daemon());
        command
            .args(["--listen", &SocketAddr::new(address, 0).to_string(), "--name", &name, "--dir"])
            .arg(folder)
            .arg("--socket")
            .arg(&socket);
        if settings::of_node(configuration, &name).text("state").is_none() {
            command.arg("--state").arg(paths::state(folder));
        }
        let given = [
            ("--arity", options.arity.map(|arity| arity.to_string())),
            ("--lost-after", options.lost_after.map(|seconds| seconds.to_string())),
            ("--keep-for", options.keep_for.map(|seconds| seconds.to_string())),
            ("--slice", options.slice.map(|ms| ms.to_string())),
            ("--policy", options.policy.map(|policy| policy.to_string())),
        ];
        for (flag, value) in given.into_iter().filter_map(|(flag, value)| Some((flag, value?))) {
            command.args([flag, &value]);
        }
        if let Some(file) = &options.config {
            command.arg("--config").arg(std::path::absolute(file).unwrap_or_else(|_| file.clone()));
        }
        let of_file = settings::of_node(configuration, &name).bytes("memory");
        let memory_bytes = options
            .memory
            .or_else(|| of_file.is_some().then_some(0))
            .unwrap_or_else(|| tutti_os::memory::for_jobs() / u64::from(options.nodes));
        if memory_bytes >> 10 > 0 {
            command.args(["--memory", &format!("{}K", memory_bytes >> 10)]);
        }
        if let Some(gpus) = gpus_of_node(options, configuration, &name, node) {
            command.args(["--gpus", &gpus]);
        }
        if let Some(pids_max) = options.pids_max {
            command.args(["--pids-max", &pids_max.to_string()]);
        }
        command.args(
            [("--strict", options.strict), ("--force-switch", options.force_switch)]
                .iter()
                .filter(|(_, on)| *on)
                .map(|(word, _)| word),
        );
        if let Some(slots) = options.slots {
            command.args(["--slots", &slots.to_string()]);
        }
        if let Some(head) = head {
            command.args(["--join", head]);
        }
        let held = held.map_or_else(Stdio::null, Stdio::from);
        command.stdin(held).stdout(Stdio::null()).stderr(log).process_group(0);
        let child = command
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", paths::daemon().display()))?;
        self.0.push((name, child));
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(address) = paths::read_address(&address_file) {
                return Ok(address.to_string());
            }
            self.check(folder)?;
            if Instant::now() >= deadline {
                return Err(format!("the daemon of node{node} does not begin: see {}", log_file.display()));
            }
            std::thread::sleep(POLL);
        }
    }

    /// None of them has died.
    fn check(&mut self, folder: &Path) -> Result<(), String> {
        for (name, child) in &mut self.0 {
            if let Ok(Some(status)) = child.try_wait() {
                let log = folder.join(format!("{name}.log"));
                let nothing = || format!("there is nothing in {}; is that disk full?", log.display());
                let line = last_line(&log).unwrap_or_else(nothing);
                return Err(format!("the daemon of {name} has ended ({status}): {line}"));
            }
        }
        Ok(())
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Ends the daemons of the cluster, and waits for those of this machine.
///
/// # Errors
/// When there are none or they do not let us; a text for the user.
pub fn down() -> Result<ExitCode, String> {
    let jobs = jobs_here();
    cluster::request(&Request::Down)?;
    let folder = paths::socket().parent().map(Path::to_path_buf).unwrap_or_default();
    let deadline = Instant::now() + TIMEOUT;
    while std::fs::read_dir(&folder).is_ok_and(|files| files.flatten().any(|file| is_answered(&file.path())))
    {
        if Instant::now() >= deadline {
            return Err(format!("a daemon whose socket is in {} does not end", folder.display()));
        }
        std::thread::sleep(POLL);
    }
    let deadline = Instant::now() + DAEMON_END;
    while std::fs::read_dir(&folder).is_ok_and(|files| files.flatten().any(|file| is_held(&file.path()))) {
        if Instant::now() >= deadline {
            return Err(format!("a daemon of {} waits for a job that does not end", folder.display()));
        }
        std::thread::sleep(POLL);
    }
    page::await_end(&folder)?;
    let deadline = Instant::now() + LEFT;
    while jobs.iter().any(Left::is_there) && Instant::now() < deadline {
        std::thread::sleep(POLL);
    }
    let left: Vec<String> = jobs.iter().filter(|job| job.is_there()).map(Left::text).collect();
    if left.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(format!("the daemons have ended, and this is left on this machine: {}", left.join("; ")))
}

/// A process of a job on this machine, as it was before the daemons ended.
#[derive(Debug)]
struct Left {
    job: JobId,
    pid: u32,
    /// Start time of the process, which tells it from another one with its number.
    began: String,
}

impl Left {
    fn is_there(&self) -> bool {
        began(self.pid).as_deref() == Some(&*self.began)
    }

    fn text(&self) -> String {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        format!("pid {} ({}) of job {}", self.pid, escape_control(name.trim()), self.job)
    }
}

/// When a process that is no zombie began, in ticks since the machine did.
fn began(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit(") ").next()?.split(' ');
    let state = fields.next()?;
    fields.nth(18).filter(|_| state != "Z").map(str::to_owned)
}

/// Processes that the cluster runs here. Jobs of a plain mpiexec continue without daemons.
fn jobs_here() -> Vec<Left> {
    let Ok((Answer::Nodes(nodes), _)) = cluster::request(&Request::Nodes) else { return Vec::new() };
    let Ok((Answer::Jobs(jobs), _)) = cluster::request(&Request::Jobs { all: false }) else {
        return Vec::new();
    };
    let is_here = |name: &str| {
        let address = nodes.iter().find(|node| node.name == name).and_then(|node| node.address.parse().ok());
        // No process can be bound to the address of another machine.
        address.is_some_and(|address: IpAddr| UdpSocket::bind((address, 0)).is_ok())
    };
    let of_cluster = jobs.iter().filter(|job| !job.enrolled);
    let pids = of_cluster.flat_map(|job| job.pids.iter().map(move |(node, pids)| (job.job, node, pids)));
    let here = pids.filter(|(_, node, _)| is_here(node));
    let here = here.flat_map(|(job, _, pids)| pids.iter().map(move |pid| (job, *pid)));
    here.filter_map(|(job, pid)| Some(Left { job, pid, began: began(pid)? })).collect()
}

/// Time for the question whether somebody listens.
const PROBE: Duration = Duration::from_millis(1);

fn is_answered(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "sock")
        && match connect_to(file, PROBE) {
            Ok(_) => true,
            // One that is stopped, and has no room for more connections.
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        }
}

/// Whether a daemon of this user lives that has had the socket beside this file.
fn is_held(file: &Path) -> bool {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut open = File::options();
    let open = open.read(true).custom_flags(flags.bits().cast_signed());
    file.to_string_lossy().ends_with(".sock.lock")
        && open.open(file).is_ok_and(|file| {
            let is_own = file
                .metadata()
                .is_ok_and(|found| found.is_file() && found.uid() == rustix::process::geteuid().as_raw());
            is_own && daemon_lock::is_held(&file)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn down_names_processes_that_are_left() {
        let mut child = Command::new("sleep").arg("100").spawn().expect("sleep");
        let began = began(child.id()).expect("it lives");
        let mut left = Left { job: JobId(7), pid: child.id(), began };
        assert!(left.is_there());
        let deadline = Instant::now() + TIMEOUT;
        while !left.text().contains("(sleep)") {
            assert!(Instant::now() < deadline, "{}", left.text());
        }
        assert_eq!(left.text(), format!("pid {} (sleep) of job 7", child.id()));
        left.began.push('0');
        assert!(!left.is_there(), "another one has its number");
        left.began.pop();
        child.kill().expect("it lives");
        child.wait().expect("our child");
        assert!(!left.is_there());
    }
}
