//! The command line of `tuttid`; its manual page is made from it.

use std::io::IsTerminal;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use tutti_os::stderr::escape_control;
use tutti_os::stdout;
pub use tutti_sched::Policy;

use crate::gpus::Gpus;
use crate::ports::Ports;
use crate::terms::SLICE_DEFAULT_MS;

/// The daemon of a node: starts and watches the parts of jobs there, and talks with the daemons of the other
/// nodes.
#[derive(Debug, Parser)]
#[command(name = "tuttid", version)]
pub struct Options {
    /// The configuration (default: TUTTI_CONFIG, else /etc/tutti/tutti.toml for root's daemon and
    /// ~/.config/tutti/tutti.toml for others'); options go before it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address and port of the controller; without it this daemon is the controller of a new cluster
    #[arg(long, value_name = "HOST:PORT")]
    pub join: Option<String>,
    /// Where to listen for other daemons
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7411")]
    pub listen: SocketAddr,
    /// Where its ranks are reached.
    #[command(flatten)]
    pub reach: Reach,
    /// Name of the node (default: the host's)
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// How many cores ranks can hold (default: all that this process may use)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub slots: Option<u32>,
    /// Amounts for jobs besides.
    #[command(flatten)]
    pub amounts: Amounts,
    /// Processes and threads of a job on this node, at most; for root's daemon (default: an eighth of what
    /// the kernel takes)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(16..))]
    pub pids_max: Option<u64>,
    /// Nodes with the same text share one machine (default: the machine's boot id)
    #[arg(long, value_name = "TEXT")]
    pub machine: Option<String>,
    /// Where its files are.
    #[command(flatten)]
    pub places: Places,
    /// The cluster's key (default: cluster.key in the folder; the controller makes one if there is none)
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Children of a node in the control tree
    #[arg(long, value_name = "K", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub arity: u32,
    /// A node from which nothing has come for so many seconds is lost
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub lost_after: f64,
    /// How jobs take turns.
    #[command(flatten)]
    pub gangs: Gangs,
    /// How often the board of this node is refreshed, in ms (10 to 60000)
    #[arg(long, value_name = "MS", default_value_t = 250)]
    pub board_refresh: u64,
    /// How long it lives.
    #[command(flatten)]
    pub life: Life,
    /// When this daemon dies, its jobs wait so many seconds for one that takes its place
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub keep_for: f64,
    /// What is logged: error, warn, info, debug or trace, each with those before it (default: TUTTI_LOG, or
    /// info)
    #[arg(long, value_name = "LEVEL", hide_possible_values = true)]
    pub log_level: Option<LogLevel>,
}

/// How jobs get nodes and take turns, on the controller.
#[derive(Debug, clap::Args)]
pub struct Gangs {
    /// On the controller: how long the jobs of one row run before the next row's turn, in ms (5 to 3600000)
    #[arg(long, value_name = "MS", default_value_t = SLICE_DEFAULT_MS)]
    pub slice: f64,
    /// On the controller: how jobs get nodes and rows: matrix (the first row with room) or dqt (SCore-D's
    /// Distributed Queue Tree)
    #[arg(long, value_name = "NAME", default_value_t, value_parser = parse_policy)]
    pub policy: Policy,
    /// On the controller: switch by the protocol of SCore-D, with a barrier after each step
    #[arg(long)]
    pub strict: bool,
    /// On the controller: switch at the end of every slice, also when there is one job only
    #[arg(long)]
    pub force_switch: bool,
}

/// How a daemon was started, and how long it lives.
#[derive(Debug, clap::Args)]
pub struct Life {
    /// Leave when no program has needed this daemon for so many seconds (default: stay)
    #[arg(long, value_name = "SECONDS")]
    pub leave_after: Option<f64>,
    /// In a session of its own, on all cores of the machine: as mpiexec starts the daemon of its user
    #[arg(long)]
    pub on_demand: bool,
    /// Belong to an allocation: name, address, cores and folder come from the batch system's environment, the
    /// key from TUTTI_KEY; the node that --join names is the controller. mpiexec starts daemons so
    #[arg(long, value_name = "NAME")]
    pub engine: Option<Engine>,
}

/// Amounts of a node that jobs get besides its cores.
#[derive(Debug, clap::Args)]
pub struct Amounts {
    /// Memory for jobs, as 16G or 512M (default: all of the machine but a sixteenth, at least 256M)
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse)]
    pub memory: Option<u64>,
    /// GPUs for jobs: how many, or their numbers as 0-3 or 0,2; found: those of the machine; none (default:
    /// found for root's daemon, none for others)
    #[arg(long, value_name = "GPUS")]
    pub gpus: Option<Gpus>,
}

/// Where the ranks of a node are reached.
#[derive(Debug, clap::Args)]
pub struct Reach {
    /// Address on which the ranks of this node are reached (default: that of --listen)
    #[arg(long, value_name = "ADDRESS")]
    pub data: Option<IpAddr>,
    /// The UDP and TCP ports that ranks of this node use between nodes, for a firewall (default: those that
    /// the kernel chooses)
    #[arg(long, value_name = "FIRST-LAST")]
    pub ports: Option<Ports>,
}

/// Where the files of a daemon are.
#[derive(Debug, clap::Args)]
pub struct Places {
    /// Folder of socket and key, and of the state if nothing else is said
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
    /// Folder of what outlives a boot: history, waiting jobs, use (default: TUTTI_STATE, else that of --dir,
    /// else /var/lib/tutti for root's daemon and ~/.local/state/tutti/HOST for others')
    #[arg(long, value_name = "FOLDER")]
    pub state: Option<PathBuf>,
    /// The local socket (default: tuttid.sock in the folder)
    #[arg(long, value_name = "FILE")]
    pub socket: Option<PathBuf>,
}

/// Starter of a daemon that lives as long as that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// A step of a Slurm allocation.
    Slurm,
}

/// How much a daemon logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogLevel {
    /// Faults that end the daemon, or lose something.
    Error,
    /// States that are not as they should be.
    Warn,
    /// Events that an administrator wants to know of afterwards.
    #[default]
    Info,
    /// Connections and starters as they come and go.
    Debug,
    /// Every message.
    Trace,
}

impl LogLevel {
    /// The environment variable for a daemon without `--log-level`.
    pub const VARIABLE: &str = "TUTTI_LOG";

    /// Reads the variable's value.
    ///
    /// # Errors
    /// When it is no level; a line for the user.
    pub fn of_variable(text: &str) -> Result<LogLevel, String> {
        let expected = "expected error, warn, info, debug or trace";
        let name = LogLevel::VARIABLE;
        clap::ValueEnum::from_str(text, true)
            .map_err(|_| format!("{name} has the value {text:?}, {expected}"))
    }
}

/// The name of a policy.
///
/// # Errors
/// When there is no such policy; a line for the user.
pub fn parse_policy(text: &str) -> Result<Policy, &'static str> {
    text.parse()
}

/// Prints what a command line has asked for in place of a run, such as help; the exit status.
#[must_use]
pub fn print_asked(error: &clap::Error) -> ExitCode {
    tutti_os::settle_stdout();
    let is_printed = match std::io::stdout().is_terminal() {
        // With its colours.
        true => error.print().inspect_err(stdout::report).is_ok(),
        false => stdout::print(&error.render().to_string()),
    };
    if is_printed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Says what is wrong with a command line, in one line.
#[must_use]
pub fn complaint(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "a command is missing (see --help)".into();
    }
    let mut text = error.to_string();
    // What the standard library says of a number or an address.
    for (found, expected) in [
        ("invalid digit found in string", "a number is expected"),
        ("cannot parse integer from empty string", "a number is expected"),
        ("invalid float literal", "a number is expected"),
        ("number too large to fit in target type", "it is too large"),
        ("invalid socket address syntax", "ADDRESS:PORT is expected, the address in numbers"),
    ] {
        text = text.replace(found, expected);
    }
    // The first paragraph says what is wrong; behind it stand advice and the usage.
    let mut paragraphs = text.split("\n\n");
    let wrong = paragraphs.next().unwrap_or_default().trim_start_matches("error: ");
    let advice = paragraphs.find_map(|text| text.trim().strip_prefix("tip: "));
    let words = |text: &str| escape_control(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    let advice = advice.map(|text| format!("; {}", words(text))).unwrap_or_default();
    let usage = text.split("\n\n").find(|text| text.starts_with("Usage: "));
    let usage = usage.filter(|_| error.kind() == ErrorKind::MissingRequiredArgument);
    let usage = usage.map(|text| format!("; {}", words(text).replacen("Usage", "usage", 1)));
    format!("{}{advice}{} (see --help)", words(wrong), usage.unwrap_or_default())
}
