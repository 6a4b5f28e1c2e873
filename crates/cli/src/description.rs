//! From options to the description of a job, with everything checked that can be checked before anything is
//! started.

use std::ffi::OsString;
use std::path::Path;

use rustix::fs::{Access, access};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{isatty, tcgetwinsize};
use tutti_os::random::fill_random;
use tutti_protocol::batch::{Batch, StartRules};
use tutti_protocol::mail::Mail;
use tutti_protocol::terms::Terms;
use tutti_protocol::users::Script;
use tutti_protocol::wire::{self, Input, Job};

use crate::hosts;
use crate::library;
use crate::nodes::Nodes;
use crate::options::{Options, Program, USAGE};
use crate::program;

/// Line for the user, and the exit status.
pub type Refusal = (String, u8);

/// Place where a command line was typed, as it sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Size of the terminal that is stdout, if it is one: rows, columns.
    pub terminal: Option<(u16, u16)>,
    /// Whether stdin is a terminal.
    pub types: bool,
}

impl Place {
    /// Where this process is.
    pub fn here() -> Self {
        let size = || tcgetwinsize(stdout()).map_or(TERMINAL, |size| (size.ws_row, size.ws_col));
        Place { terminal: isatty(stdout()).then(size), types: isatty(stdin()) }
    }
}

/// Size of a terminal that does not report one: rows, columns.
const TERMINAL: (u16, u16) = (24, 80);

/// A job and where it is to run.
#[derive(Clone, Debug)]
pub struct Described {
    /// The whole job.
    pub job: Job,
    /// Nodes of the job.
    pub nodes: Nodes,
    /// Ranks on each, if given.
    pub per_node: Option<u32>,
    /// How it shares them.
    pub terms: Terms,
    /// Name, time and what it waits for.
    pub batch: Batch,
    /// Scripts and their steps.
    pub script: Script,
}

/// Checks the options and makes a job of them.
///
/// # Errors
/// When it cannot be done.
pub fn describe(options: &Options) -> Result<Described, Refusal> {
    describe_from(options, Place::here())
}

/// The same of a command line that was typed in this place.
///
/// # Errors
/// As [`describe`].
pub fn describe_from(options: &Options, place: Place) -> Result<Described, Refusal> {
    let chosen = hosts::wanted(options).map_err(|error| (error.to_string(), error.status()))?;
    let is_of_cluster = Nodes::are_of_cluster(options, &chosen.hosts);
    let options = &chosen.with_ranks(options, is_of_cluster);
    if options.programs.len() > 1 && options.programs.iter().any(|program| program.ranks.is_none()) {
        return Err(("each of several programs needs its number of ranks (-n N)".into(), USAGE));
    }
    if options
        .programs
        .iter()
        .any(|program| program.environment.library != options.programs[0].environment.library)
    {
        let text = "--own-mpi stands at some of the programs: ranks of two libraries cannot send each other messages; give it to all or to none";
        return Err((text.into(), USAGE));
    }
    let described = options.programs.iter().map(|program| describe_program(program, is_of_cluster));
    let programs = described.collect::<Result<Vec<wire::Program>, _>>()?;
    refuse_two_libraries(&programs)?;
    let terminal = place.terminal.filter(|_| options.output.stdout.is_none());
    if options.pty && !(terminal.is_some() && place.types && options.input == Input::Rank(0)) {
        let text = "--pty needs a terminal as stdin and stdout, and stdin for rank 0";
        return Err((text.into(), USAGE));
    }
    let mut id = [0; 8];
    fill_random(&mut id).map_err(|error| (format!("cannot draw random bytes: {error}"), 1))?;
    let job = Job {
        id: u64::from_ne_bytes(id),
        front_end: std::process::id(),
        programs,
        input: options.input,
        // Any other kind of stdin goes to its rank as it is: seekable, and nothing is read that the rank does
        // not read.
        input_inherited: matches!(options.input, Input::Rank(_)) && !place.types,
        terminal,
        pty: options.pty,
        binding: options.binding,
        cores_per_rank: options.cores_per_rank,
        no_oversubscribe: options.no_oversubscribe,
        label: false,
        part: None,
        debug: std::env::var_os("TUTTI_DEBUG").is_some_and(|value| value != "0"),
        daemon: None,
        memory: None,
        universe: options.universe,
        shared_slots: None,
        idle_ms: options.batch.on_idle.suspend_ms(),
        adopted: None,
        number: None,
    };
    let nodes = Nodes::of(options, job.ranks(), chosen.hosts).map_err(|error| (error.to_string(), USAGE))?;
    let is_one = match &nodes {
        Nodes::One => true,
        Nodes::Virtual(firsts) | Nodes::Namespaces { firsts, .. } => firsts.len() == 1,
        Nodes::Cluster(wanted) => wanted.nodes == Some(1) || wanted.hosts.len() == 1,
    };
    if let Some(option) = options.by_node.as_ref().filter(|_| !is_one) {
        let text =
            format!("{option} is for one node: consecutive ranks are on one node (-ppn N sets how many)");
        return Err((text, USAGE));
    }
    let is_of_cluster = matches!(nodes, Nodes::Cluster(_));
    if let Some(wanted) = wants_of_cluster(options).filter(|_| !is_of_cluster) {
        return Err((wanted.into(), USAGE));
    }
    let (terms, mut batch) = (options.terms, options.batch.clone());
    if is_of_cluster {
        // Its controller sees to it, also when nobody watches.
        batch.timeout_ms = options.timeout.map(|timeout| timeout.as_millis() as u64);
    }
    // A daemon's ranks cannot inherit what only we have.
    let job = Job { input_inherited: job.input_inherited && !is_of_cluster, ..job };
    match job.input {
        // Of a job whose ranks the controller counts, it says so.
        Input::Rank(rank) if job.ranks() > 0 && u64::from(rank) >= job.ranks() => {
            Err((format!("-stdin names rank {rank}, the job has {} ranks", job.ranks()), USAGE))
        }
        _ => {
            let per_node = options.ranks_per_node;
            let script = Script { is_step: options.step, ..Script::default() };
            Ok(Described { job, nodes, per_node, terms, batch, script })
        }
    }
}

/// The refusal of options that only jobs of a cluster have, if any of them was given.
fn wants_of_cluster(options: &Options) -> Option<&'static str> {
    let (terms, batch) = (&options.terms, &options.batch);
    let is_placed = terms.exclusive || terms.memory_bytes > 0 || terms.gpus > 0;
    let has_rules = *batch.rules() != StartRules::default() || batch.warning().is_some();
    let waits = !batch.after.is_empty() || !batch.queue.is_empty();
    let wanted = [
        (options.detach_on_hangup, "--detach-on-hangup is for jobs of a cluster (--nodes N)"),
        (
            is_placed || terms.phases.is_some() || terms.fill,
            "--exclusive, --memory, --gpus, --phases and --fill are for jobs of a cluster (--nodes N, or tutti run): this one would start at once",
        ),
        (
            has_rules,
            "--begin, --exclude, --reservation, --signal and --after-same-name are for jobs of a cluster (--nodes N, or tutti run)",
        ),
        (
            *batch.mail() != Mail::default(),
            "--mail-type and --mail-user are for jobs of a cluster (--nodes N, or tutti run)",
        ),
        (
            waits,
            "--queue, --after, --after-ok and --after-not-ok are for jobs of a cluster (--nodes N, or tutti run)",
        ),
    ];
    wanted.into_iter().find(|(is_given, _)| *is_given).map(|(_, text)| text)
}

/// Ranks of Open MPI send each other messages through its own library, which no other has.
fn refuse_two_libraries(programs: &[wire::Program]) -> Result<(), Refusal> {
    let files = programs.iter().map(|program| {
        let file = OsString::from(&program.file);
        let folder = program.directory.as_ref().map(OsString::from);
        folder.map_or_else(|| file.clone().into(), |folder| Path::new(&folder).join(&file))
    });
    let files: Vec<std::path::PathBuf> = files.collect();
    let of_open_mpi = files.iter().find(|file| library::is_of_open_mpi(file));
    let of_other = files.iter().find(|file| library::is_of_other_mpi(file));
    if let (Some(one), Some(other)) = (of_open_mpi, of_other) {
        let text = format!(
            "{} was built for Open MPI and {} was not: ranks of two libraries cannot send each other messages",
            one.display(),
            other.display()
        );
        return Err((text, USAGE));
    }
    Ok(())
}

fn describe_program(wanted: &Program, is_of_cluster: bool) -> Result<wire::Program, Refusal> {
    if let Some(directory) = &wanted.directory
        && !Path::new(directory).is_dir()
    {
        return Err((format!("the working directory {} does not exist", directory.to_string_lossy()), 1));
    }
    if let Some(directory) = &wanted.directory
        && let Err(error) = access(Path::new(directory), Access::EXEC_OK)
    {
        return Err((
            format!("cannot enter the working directory {}: {error}", directory.to_string_lossy()),
            1,
        ));
    }
    let own_path =
        wanted.environment.variables.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value);
    let path = std::env::var_os("PATH");
    let file = program::find(
        &wanted.words[0],
        wanted.directory.as_deref(),
        wanted.search_path.as_deref(),
        own_path.or(path.as_ref()).map(OsString::as_os_str),
    )
    .map_err(|error| (error.to_string(), error.status()))?;
    let every_core = || std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let here =
        wanted.directory.as_deref().map_or_else(|| file.clone(), |folder| Path::new(folder).join(&file));
    if let Some(bit) = library::bit_that_hides(&here, wanted.environment.library) {
        let text = format!(
            "{} gets the rights of its owner when it starts ({bit}): the loader would not take Tutti's library; remove that bit (chmod ug-s), or run it on a library of its own (--own-mpi)",
            file.display()
        );
        return Err((text, 1));
    }
    let variables = library::with_own(&wanted.environment.variables, wanted.environment.library, &here);
    Ok(wire::Program {
        file: file.into_os_string().into(),
        arguments: wanted.words.iter().map(|word| word.clone().into()).collect(),
        // On a cluster one for each slot of its nodes, which only the controller knows.
        ranks: wanted.ranks.unwrap_or_else(|| if is_of_cluster { 0 } else { every_core() }),
        directory: wanted.directory.clone().map(Into::into),
        inherits: wanted.environment.inherits.clone(),
        variables: variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
    })
}
