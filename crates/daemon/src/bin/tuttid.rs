//! `tuttid`: the daemon of a node. `tutti up` starts several on one machine; on real machines an administrator starts one each.
#![forbid(unsafe_code)]

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tutti_daemon::gang::Gangs;
use tutti_daemon::shell::{self, Settings};
use tutti_daemon::{key, place};

/// The daemon of a node: starts and watches the parts of jobs there, and talks with the daemons of the other nodes.
#[derive(Debug, Parser)]
#[command(name = "tuttid", version)]
struct Options {
    /// Address and port of the head; without it this daemon is the head of a new cluster
    #[arg(long, value_name = "HOST:PORT")]
    join: Option<String>,
    /// Where to hear other daemons
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7411")]
    listen: SocketAddr,
    /// Address on which the ranks of this node are reached (default: that of --listen)
    #[arg(long, value_name = "ADDRESS")]
    data: Option<IpAddr>,
    /// Name of the node (default: the host's)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How many cores ranks can hold (default: all that this process may use)
    #[arg(long, value_name = "N")]
    slots: Option<u32>,
    /// Nodes that say the same share one machine (default: the machine's boot id)
    #[arg(long, value_name = "TEXT")]
    machine: Option<String>,
    /// Folder of socket, key and logs
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// The cluster's key (default: cluster.key in the folder; the head makes one if there is none)
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The local socket (default: tuttid.sock in the folder)
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// Children of a node in the control tree
    #[arg(long, value_name = "K", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    arity: u32,
    /// A node that is not heard of for so many seconds is lost
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    lost_after: f64,
    /// On the head: how long the jobs of one row run before the next row's turn, in ms (5 to 3600000)
    #[arg(long, value_name = "MS", default_value_t = 100.0)]
    slice: f64,
    /// On the head: switch by the protocol of SCore-D, with a barrier after each step
    #[arg(long)]
    strict: bool,
    /// On the head: switch at the end of every slice, also when there is one job only
    #[arg(long)]
    force_switch: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let name = options.name.clone().unwrap_or_else(host_name);
    let result = settings(options, name.clone()).and_then(|settings| {
        let is_head = settings.head.is_none();
        shell::run(settings, |address| {
            let role = if is_head { "the head hears" } else { "hears" };
            eprintln!("tuttid {name}: {role} on {address}");
        })
        .map_err(|error| error.to_string())
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("tuttid: {text}");
            ExitCode::FAILURE
        }
    }
}

fn settings(options: Options, name: String) -> Result<Settings, String> {
    let folder = options.dir.unwrap_or_else(place::folder);
    let is_root = rustix::process::geteuid().is_root();
    place::make(&folder, is_root)
        .map_err(|error| format!("cannot use the folder {}: {error}", folder.display()))?;
    let head = options.join.as_deref().map(resolve).transpose()?;
    let key_file = options.key.unwrap_or_else(|| folder.join("cluster.key"));
    if head.is_none() && !key_file.exists() {
        key::make(&key_file).map_err(|error| error.to_string())?;
    }
    let lost_ms = options.lost_after * 1000.0;
    if !(200.0..=3_600_000.0).contains(&lost_ms) {
        return Err(format!("--lost-after {} is not between 0.2 and 3600 seconds", options.lost_after));
    }
    if !(5.0..=3_600_000.0).contains(&options.slice) {
        return Err(format!("--slice {} is not between 5 and 3600000 ms", options.slice));
    }
    let gangs = Gangs {
        slice_ns: (options.slice * 1e6) as u64,
        strict: options.strict,
        force_switch: options.force_switch,
    };
    let every_core = || std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    Ok(Settings {
        head,
        listen: options.listen,
        data: options.data.unwrap_or(options.listen.ip()),
        name,
        slots: options.slots.unwrap_or_else(every_core).max(1),
        machine: options.machine.unwrap_or_else(boot_id),
        socket: options.socket.unwrap_or_else(|| folder.join(place::SOCKET)),
        events: folder.join("events.jsonl"),
        key: key_file,
        arity: options.arity,
        lost_ms: lost_ms as u64,
        gangs,
        starter: place::starter(),
    })
}

fn resolve(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().map_err(|error| format!("--join {text}: {error}"))?.next();
    found.ok_or_else(|| format!("--join {text}: no such host"))
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| host_name(), |id| id.trim().to_owned())
}
