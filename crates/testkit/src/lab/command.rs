//! `tutti-lab`, the command for people; and the programs of a lab's own processes, which are the same file.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::control::{LinkState, MachineState, NodeStatus};
use super::error::LabError;
use super::terms::{MTU_BYTES, MTU_RANGE, Share, Terms, parse_delay, parse_rate};
use super::{Lab, enter, etc, init, keeper, mark};

/// Machines of namespaces on this machine, which share nothing but a cable
#[derive(Debug, Parser)]
#[command(name = "tutti-lab", disable_help_subcommand = true)]
struct Options {
    /// The lab's mark (default: the only one that runs)
    #[arg(long, global = true, value_name = "MARK")]
    lab: Option<String>,
    #[command(subcommand)]
    action: Action,
}

/// Terms of a cable.
#[derive(Debug, clap::Args)]
struct CableOptions {
    /// Frames that are lost, as 1%
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    loss: Share,
    /// Frames that come twice
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    dup: Share,
    /// Frames that are overtaken by those after them
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    reorder: Share,
    /// How long a frame is under way, as 50us
    #[arg(long, value_name = "TIME", value_parser = parse_delay, default_value = "0us")]
    delay: u64,
    /// Bits a second, as 1Gbit (default: as many as it can)
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<u64>,
    /// Longest packet, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = MTU_BYTES,
        value_parser = clap::value_parser!(u32).range(i64::from(MTU_RANGE.0)..=i64::from(MTU_RANGE.1)))]
    mtu: u32,
    /// Which frames meet with it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl CableOptions {
    fn terms(&self) -> Terms {
        Terms {
            loss: self.loss,
            duplication: self.dup,
            reordering: self.reorder,
            delay_ns: self.delay,
            rate_bits: self.rate.unwrap_or(0),
            mtu_bytes: self.mtu,
            seed: self.seed,
        }
    }
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start machines node0, node1, ... and a cluster of daemons on them
    Up {
        /// How many
        nodes: u32,
        /// No daemons
        #[arg(long)]
        bare: bool,
        /// Homes and installation apart on each machine, not as by a file server
        #[arg(long)]
        no_shared_files: bool,
        #[command(flatten)]
        cables: CableOptions,
        /// Options of the daemons
        #[arg(last = true, value_name = "OPTION")]
        daemons: Vec<String>,
    },
    /// Run a command on a machine, with the installation in its PATH
    At {
        /// As alice or bob
        #[arg(long, value_name = "NAME", default_value = "root")]
        user: String,
        /// Where it begins (default: the user's home)
        #[arg(long, value_name = "FOLDER")]
        dir: Option<PathBuf>,
        /// Leave it alone there
        #[arg(long)]
        detach: bool,
        /// A variable that only the command gets
        #[arg(long, value_name = "NAME=VALUE")]
        set: Vec<String>,
        #[arg(long, hide = true)]
        folder: Option<PathBuf>,
        /// The machine
        node: u32,
        /// The command (default: a shell)
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
        words: Vec<OsString>,
    },
    /// Cut a machine's cable: the link is down
    Cut {
        /// The machine
        node: u32,
    },
    /// Let a machine's cable drop everything and look well
    Silence {
        /// The machine
        node: u32,
    },
    /// Mend a machine's cable
    Mend {
        /// The machine
        node: u32,
    },
    /// Change what a machine's cable does
    Cable {
        /// The machine
        node: u32,
        #[command(flatten)]
        cable: CableOptions,
    },
    /// Stop all processes of a machine
    Pause {
        /// The machine
        node: u32,
    },
    /// Let them go on
    Resume {
        /// The machine
        node: u32,
    },
    /// Take a machine's power away
    Kill {
        /// The machine
        node: u32,
    },
    /// Start a machine that was killed
    Boot {
        /// The machine
        node: u32,
    },
    /// Show machines and cables
    Status {
        /// For scripts
        #[arg(long)]
        json: bool,
    },
    /// End the lab, and remove what killed ones have left
    Down,
    #[command(hide = true)]
    Keep,
    #[command(hide = true)]
    Machine {
        /// For ps.
        _mark: String,
        _name: String,
    },
}

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tutti-lab: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<ExitCode, LabError> {
    let of_process = |ended: std::io::Result<()>| match ended {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(LabError::Start(error.to_string())),
    };
    let lab = || find(options.lab.as_deref());
    match &options.action {
        Action::Keep => return of_process(keeper::run()),
        Action::Machine { .. } => return of_process(init::run()),
        Action::Up { nodes, bare, no_shared_files, cables, daemons } => {
            let mut plan = Lab::plan(*nodes).cables(cables.terms());
            if *no_shared_files {
                plan = plan.no_shared_files();
            }
            if !plan.settings.installation.join("bin").is_dir() {
                let folder = plan.settings.installation.display();
                return Err(LabError::Start(format!("{folder} is missing: run `make` first")));
            }
            let mut lab = plan.start_to_stay()?;
            if !bare {
                let options: Vec<&str> = daemons.iter().map(String::as_str).collect();
                if let Err(error) = lab.start_daemons(&options) {
                    let _ = lab.down();
                    return Err(error);
                }
            }
            let mark = lab.status()?.mark;
            let with = if *bare { "" } else { ", a daemon on each" };
            println!("lab {mark}: machines 0 to {}{with}; try: tutti-lab at 0 tutti nodes", nodes - 1);
        }
        Action::At { user, dir, detach, set, folder, node, words } => {
            let folder = match folder {
                Some(folder) => folder.clone(),
                None => lab()?.folder.clone(),
            };
            let split = |pair: &String| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                (name.into(), value.into())
            };
            let machine = folder.join("machines").join(etc::host_name(*node));
            if !machine.is_dir() {
                return Err(LabError::Refused(format!("there is no machine {node} in this lab")));
            }
            let words = if words.is_empty() { vec!["bash".into()] } else { words.clone() };
            return enter::run(&enter::Entry {
                machine,
                user: user.clone(),
                directory: dir.clone(),
                detach: *detach,
                variables: set.iter().map(split).collect(),
                words,
            });
        }
        Action::Cut { node } => at(&lab()?, *node)?.set_link(LinkState::Cut)?,
        Action::Silence { node } => at(&lab()?, *node)?.set_link(LinkState::Silent)?,
        Action::Mend { node } => at(&lab()?, *node)?.set_link(LinkState::Up)?,
        Action::Cable { node, cable } => at(&lab()?, *node)?.set_cable(cable.terms())?,
        Action::Pause { node } => at(&lab()?, *node)?.set_paused(true)?,
        Action::Resume { node } => at(&lab()?, *node)?.set_paused(false)?,
        Action::Kill { node } => at(&lab()?, *node)?.try_kill()?,
        Action::Boot { node } => at(&lab()?, *node)?.try_boot()?,
        Action::Status { json } => {
            let status = lab()?.status()?;
            if *json {
                println!("{}", serde_json::json!(status));
            } else {
                let shared = if status.shared_files { "shared files" } else { "no shared files" };
                println!("lab {}, {shared}, keeper {}", status.mark, status.keeper);
                for node in &status.nodes {
                    println!("{}", line(node));
                }
            }
        }
        Action::Down => {
            lab()?.down()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn at(lab: &Lab, node: u32) -> Result<super::Machine<'_>, LabError> {
    if node >= lab.nodes() {
        return Err(LabError::Refused(format!(
            "there is no machine {node}: this lab has 0 to {}",
            lab.nodes() - 1
        )));
    }
    Ok(lab.node(node))
}

/// The lab of a mark, or the only one.
fn find(mark: Option<&str>) -> Result<Lab, LabError> {
    let failed = |error: std::io::Error| LabError::Start(format!("cannot use the folder of labs: {error}"));
    let base = mark::base().map_err(failed)?;
    mark::sweep(&base).map_err(failed)?;
    let running = mark::running(&base).map_err(failed)?;
    let name = match (mark, &running[..]) {
        (Some(mark), all) if all.iter().any(|name| name == mark) => mark,
        (None, [only]) => only,
        (Some(mark), _) => return Err(LabError::Refused(format!("no lab {mark} is running"))),
        (None, []) => return Err(LabError::Refused("no lab is running: tutti-lab up 3 starts one".into())),
        (None, all) => {
            let names = all.join(", ");
            return Err(LabError::Refused(format!("several labs are running: name one by --lab: {names}")));
        }
    };
    Lab::find(&base.join(name))
}

fn line(node: &NodeStatus) -> String {
    let state = match node.state {
        MachineState::Running => "running",
        MachineState::Paused => "paused",
        MachineState::Off => "off",
    };
    let link = match node.link {
        LinkState::Up => "up",
        LinkState::Cut => "cut",
        LinkState::Silent => "silent",
    };
    let mut text = format!("{:<7} {:<12} {state:<8} cable {link}: {}", node.name, node.address, node.cable);
    if let Some([from, to]) = node.frames {
        text += &format!(
            "; {} frames from it ({} lost), {} to it ({} lost)",
            from.taken,
            from.lost + from.overflowed,
            to.taken,
            to.lost + to.overflowed
        );
    }
    text
}
