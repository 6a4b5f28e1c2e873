//! `tutti member`: what `ssh` starts on a host of `tutti up --hosts`. It starts the daemon, waits until that
//! is in the cluster, and says where it is.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tutti_client::at;
use tutti_protocol::{paths, variables};

use super::{free_folder, lacks, last_line};
use crate::cluster::{self, Request};
use crate::stdout;

/// Beginning of an answer: a host's shell may print something in front.
pub(super) const MARK: &str = "tutti-member ";
/// A daemon is in the cluster within this time.
const TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);
/// Variable of ssh about the connection: address and port of the client, then of this host.
const CONNECTION: &str = "SSH_CONNECTION";

/// Daemon that is to be started.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// Name of the node.
    pub name: String,
    /// The cluster's key.
    pub key: String,
    /// Where the controller is; none: it is this one.
    pub join: Option<String>,
    /// Slots of the node.
    pub slots: Option<u32>,
    /// Other options of the daemon.
    pub flags: Vec<String>,
}

impl Order {
    /// Whether the cluster is for the job of one command, and leaves with it.
    fn is_for_a_job(&self) -> bool {
        self.flags.iter().any(|flag| flag == "--leave-after")
    }
}

/// Outcome of a start.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The daemon is in the cluster.
    Up {
        /// Where it hears others.
        address: String,
        /// Lacks of this host, a line each.
        notes: Vec<String>,
    },
    /// Refusal, in one line.
    Refused(String),
}

/// Reads the order on stdin and carries it out.
pub fn run() -> ExitCode {
    let answer = at::read_line(&mut std::io::stdin())
        .map_err(|error| format!("no order has come: {error}"))
        .and_then(|words| {
            serde_json::from_slice(&words).map_err(|_| "tutti is of another version there".into())
        })
        .and_then(|order| start(&order));
    let (answer, status) = match answer {
        Ok(address) => (Answer::Up { address, notes: lacks::of_this_host() }, ExitCode::SUCCESS),
        Err(text) => (Answer::Refused(text), ExitCode::FAILURE),
    };
    let json = serde_json::to_string(&answer).expect("answers are serialisable");
    stdout::print(Some(format!("{MARK}{json}\n")), "");
    status
}

fn start(order: &Order) -> Result<String, String> {
    let folder = free_folder()?;
    let address = own_address(&order.name, order.join.as_deref())?;
    let file = folder.join(format!("{}.log", order.name.replace('/', "_")));
    let log =
        paths::open_log(&file, true).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    let address_file = folder.join(paths::address(&order.name));
    let _ = std::fs::remove_file(&address_file);
    let mut command = Command::new(paths::daemon());
    command.args(["--name", &order.name, "--listen", &SocketAddr::new(address, 0).to_string(), "--dir"]);
    command.arg(&folder).args(&order.flags).env(variables::KEY, &order.key);
    if order.is_for_a_job() && std::env::var_os(paths::STATE_VARIABLE).is_none_or(|named| named.is_empty()) {
        // Another session of its user may have another folder, and the same home.
        command.arg("--state").arg(&folder);
    }
    command.args(order.join.iter().flat_map(|join| ["--join", join]));
    command.args(order.slots.iter().flat_map(|slots| ["--slots".to_owned(), slots.to_string()]));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
    let mut daemon =
        command.spawn().map_err(|error| format!("cannot start {}: {error}", paths::daemon().display()))?;
    let deadline = Instant::now() + TIMEOUT;
    let mut listens = None;
    loop {
        listens = listens.or_else(|| paths::read_address(&address_file));
        if let Some(address) = listens.as_ref().filter(|_| is_in_cluster(&order.name)) {
            return Ok(address.to_string());
        }
        let last = || last_line(&file).unwrap_or_else(|| "it has said nothing".into());
        if let Ok(Some(status)) = daemon.try_wait() {
            return Err(format!("the daemon has ended ({status}): {}", last()));
        }
        if Instant::now() >= deadline {
            let _ = daemon.kill();
            let _ = daemon.wait();
            return Err(format!(
                "its daemon is not in the cluster after {} s: {}",
                TIMEOUT.as_secs(),
                last()
            ));
        }
        std::thread::sleep(POLL);
    }
}

fn is_in_cluster(name: &str) -> bool {
    if !cluster::is_there() {
        return false;
    }
    match cluster::request_with(&Request::Nodes, &mut |_| {}) {
        Ok((cluster::Answer::Nodes(rows), _)) => rows.iter().any(|row| row.alive && row.name == name),
        _ => false,
    }
}

/// Address of this host for the others: that of its name, else the one to which ssh has come, else the one
/// from which it reaches the controller.
fn own_address(name: &str, controller: Option<&str>) -> Result<IpAddr, String> {
    let is_own = |ip: &IpAddr| UdpSocket::bind((*ip, 0)).is_ok();
    let of_name = |name: &str| {
        let found = (name, 0).to_socket_addrs().into_iter().flatten().map(|found| found.ip());
        found.filter(is_own).min_by_key(IpAddr::is_loopback)
    };
    let of_ssh = || std::env::var(CONNECTION).ok()?.split(' ').nth(2)?.parse().ok().filter(is_own);
    let route = || {
        let target: SocketAddr = controller?.parse().ok()?;
        let any: IpAddr = if target.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(target).ok()?;
        socket.local_addr().ok().map(|own| own.ip())
    };
    let named = of_name(name);
    let far = named.filter(|ip| !ip.is_loopback());
    far.or_else(of_ssh)
        .or_else(route)
        .or(named)
        .ok_or_else(|| "this host has no address by which others reach it".into())
}
