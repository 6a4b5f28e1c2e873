//! The command line of `mpiexec`: the options of the MPICH and Open MPI families, in one table.
//!
//! A single dash and two mean the same, `--name=value` is `--name value`, `-n4` is `-n 4`. Options end at the
//! first word that is none: the program. A lone `:` begins the next program; options for all programs (marked
//! below) may come before any of them. An option that only controls another launcher is ignored, with a line;
//! one that would change the job, and cannot be done, is refused.

use std::ffi::OsString;
use std::time::Duration;

use tutti_protocol::batch::Batch;
use tutti_protocol::terms::Terms;
use tutti_protocol::wire::{Binding, Inherits, Input};

use crate::library::Choice;

mod completed;
mod config_file;
mod effects;
mod error;
mod foreign;
mod help;
mod keys;
mod table;
mod values;
mod words;

pub use completed::command;
pub use config_file::{expanded, for_earlier};
pub use error::OptionError;
pub use help::help;
pub use keys::Launcher;
#[cfg(test)]
pub use table::names;
pub use values::{SECONDS, seconds};
pub use words::{parse, parse_as};

/// Text of `--version`. CMake's FindMPI runs it and wants no more than success.
pub const VERSION: &str = concat!("mpiexec (Tutti) ", env!("CARGO_PKG_VERSION"));

/// Exit status of a wrong command line.
pub const USAGE: u8 = 2;

/// The parsed command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The programs, at least one.
    pub programs: Vec<Program>,
    /// Ranks per node, if given.
    pub ranks_per_node: Option<u32>,
    /// Nodes of the cluster, if given.
    pub nodes: Option<u32>,
    /// The job is the cluster's, however many nodes it takes.
    pub cluster: bool,
    /// Step of the job whose script has started this front end.
    pub step: bool,
    /// Ranks with those that are started later, if given.
    pub universe: Option<u32>,
    /// Nodes that are made on this machine.
    pub virtual_nodes: VirtualNodes,
    /// Ranks are dealt out to nodes one by one: the option that says so.
    pub by_node: Option<String>,
    /// Which cores a rank may use.
    pub binding: Binding,
    /// Cores of a rank.
    pub cores_per_rank: Option<u32>,
    /// Print which rank is bound where.
    pub report_bindings: bool,
    /// Refuse more ranks than cores.
    pub no_oversubscribe: bool,
    /// How the job shares nodes and time with others.
    pub terms: Terms,
    /// Name, time and what the job waits for.
    pub batch: Batch,
    /// Further tasks of the command beside the start of the job.
    pub beside: Beside,
    /// Where its output goes.
    pub output: OutputOptions,
    /// Which ranks get stdin.
    pub input: Input,
    /// The terminal is rank 0's.
    pub pty: bool,
    /// A hang-up leaves the job alone.
    pub detach_on_hangup: bool,
    /// End of the job.
    pub timeout: Option<Duration>,
    /// Remarks to the user beside the output.
    pub remarks: Remarks,
}

/// Nodes that a job has made on this machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VirtualNodes {
    /// How many, if given.
    pub count: Option<u32>,
    /// How many with a network namespace each, if given.
    pub namespaces: Option<u32>,
    /// MTU of each one's cable; the last holds for the rest, none: the kernel's choice.
    pub mtus: Vec<u32>,
}

/// Further tasks of the command beside the start of the job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beside {
    /// Answers in JSON.
    pub json: bool,
    /// Folders that the command serves to the job's nodes; an empty name: the working directory.
    pub files: Vec<OsString>,
}

/// Where the output of a job goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutputOptions {
    /// Begin lines with the rank.
    pub label: bool,
    /// Columns in which it stands, before a colon; none: in brackets.
    pub label_columns: Option<usize>,
    /// Files for stdout, with %r.
    pub stdout: Option<OsString>,
    /// Files for stderr, with %r.
    pub stderr: Option<OsString>,
    /// Such files keep what is in them.
    pub append: bool,
}

/// Remarks to the user of a command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remarks {
    /// No remarks.
    pub quiet: bool,
    /// More remarks.
    pub verbose: bool,
    /// Options of other launchers that were given.
    pub foreign: Vec<String>,
    /// Others that this command ignores, and why.
    pub ignored: Vec<(String, &'static str)>,
}

/// One program of the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Number of ranks, if given.
    pub ranks: Option<u32>,
    /// Nodes named by -host.
    pub hosts: Vec<String>,
    /// Files named by -hostfile.
    pub host_files: Vec<OsString>,
    /// Program and arguments, not empty.
    pub words: Vec<OsString>,
    /// Working directory.
    pub directory: Option<OsString>,
    /// Where to search before PATH.
    pub search_path: Option<OsString>,
    /// Variables and libraries that it gets.
    pub environment: Environment,
}

/// Surroundings of a program of a command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Environment {
    /// Which variables it inherits.
    pub inherits: Inherits,
    /// Variables set for it.
    pub variables: Vec<(OsString, OsString)>,
    /// The MPI library that it gets.
    pub library: Choice,
}

/// The request of a command line.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Run a job.
    Run(Box<Options>),
    /// Print the version.
    Version,
    /// Print the help.
    Help,
}

#[cfg(test)]
mod tests;
