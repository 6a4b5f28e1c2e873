//! From the description of a job to forked ranks: limits, segment, socket, cgroup, cores, pipes, environment, fork.
//!
//! Everything that can fail for want of something is asked for before the first fork, so that a job that does not fit is
//! refused in one line and nothing of it has run.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags, open};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use tutti_shm::layout::{Geometry, LOCAL_RANKS_MAX};
use tutti_shm::segment::{Segment, SegmentError};
use tutti_shm::ticket::TICKET_VARIABLE;

use crate::binding::{self, Machine};
use crate::cgroup::{self, Cgroup};
use crate::os::{self, Child, Failure, Step};
use crate::output::{PART_NS, PROMPT_NS};
use crate::starter::Parts;
use crate::tickets::Tickets;
use crate::wire::{Inherits, Input, Job, Kind, Program};

/// Descriptors of the starter for one rank: pidfds, output, errors, input, connection.
const DESCRIPTORS_PER_RANK: u64 = 6;
/// Descriptors of the starter beside them.
const DESCRIPTORS_BESIDE: u64 = 48 + crate::tickets::PENDING_MAX as u64;

/// Variables that a program gets when it inherits only some: without them hardly anything starts.
const ALWAYS_INHERITED: [&str; 11] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "XDG_RUNTIME_DIR",
];

/// Variables of a launcher above us that would make another library believe it is that launcher's child.
const NEVER_INHERITED: [&str; 6] =
    ["PMI_FD", "PMI_PORT", "PMI_ID", "PMIX_RANK", "PMIX_NAMESPACE", "HYDI_CONTROL_FD"];

/// What the front end is told.
#[derive(Debug)]
pub struct Launched {
    /// Pids by rank.
    pub pids: Vec<u32>,
    /// Cores by rank.
    pub cores: Vec<String>,
}

/// Why a job does not start. Each is one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// More ranks than the node takes.
    #[error("{ranks} ranks are more than the {LOCAL_RANKS_MAX} that one node takes")]
    TooManyRanks {
        /// What was asked for.
        ranks: u64,
    },
    /// The limit of open descriptors is too low.
    #[error(
        "{ranks} ranks need {needed} open descriptors, the limit is {limit}: raise it (ulimit -n) or start fewer ranks"
    )]
    Descriptors {
        /// What was asked for.
        ranks: u64,
        /// What they need.
        needed: u64,
        /// The hard limit.
        limit: u64,
    },
    /// The user wants no more ranks than cores.
    #[error("{ranks} ranks are more than the {cores} cores of this job, and --nooversubscribe was given")]
    Oversubscribed {
        /// What was asked for.
        ranks: u64,
        /// What there is.
        cores: usize,
    },
    /// No shared memory.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The kernel refuses a process.
    #[error("cannot start rank {rank} of {ranks}: {source}{hint}")]
    Fork {
        /// Which rank.
        rank: u32,
        /// Of how many.
        ranks: u64,
        /// The kernel's answer.
        source: io::Error,
        /// What the user can do.
        hint: &'static str,
    },
    /// The kernel refuses something else.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A text from the front end with a zero byte.
    #[error("the program's {what} has a zero byte in it")]
    ZeroByte {
        /// Which text.
        what: &'static str,
    },
}

fn failed<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> LaunchError {
    move |source| LaunchError::System { action, source: source.into() }
}

/// Starts all ranks of a job.
///
/// # Errors
/// When it does not fit; `parts` then holds what has been started until then.
pub fn launch(job: &Job, parts: &mut Parts) -> Result<Launched, LaunchError> {
    let ranks = job.ranks();
    if ranks > u64::from(LOCAL_RANKS_MAX) {
        return Err(LaunchError::TooManyRanks { ranks });
    }
    let descriptors_max = raise_descriptors(ranks)?;
    let machine = Machine::read();
    if job.no_oversubscribe && ranks > machine.usable as u64 {
        return Err(LaunchError::Oversubscribed { ranks, cores: machine.usable });
    }
    parts.segment = Some(Segment::create(Geometry {
        world_ranks: ranks as u32,
        local_ranks: ranks as u32,
        first_rank: 0,
        node: 0,
        cores: machine.usable as u32,
        starter_pid: std::process::id(),
        job: job.id,
    })?);
    parts.tickets = Some(Tickets::create(job.id, ranks as usize).map_err(failed("open the job's socket"))?);
    parts.cgroup = Cgroup::create(&cgroup::name(job.id));
    let sets = machine.bind(ranks as usize, job.binding, job.cores_per_rank.map(|cores| cores as usize));
    let (failures, failure) = pipe_with(PipeFlags::CLOEXEC).map_err(failed("open a pipe"))?;
    rustix::io::ioctl_fionbio(&failures, true).map_err(failed("open a pipe"))?;
    parts.failures = Some(failures);
    let null = open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(failed("open /dev/null"))?;

    let common = Common { job, sets: &sets, null: null.as_fd(), failure: failure.as_fd(), descriptors_max };
    for program in &job.programs {
        let prepared = Prepared::new(program)?;
        for _ in 0..program.ranks {
            start_rank(&common, &prepared, parts)?;
        }
    }
    let cores = sets.iter().map(|set| set.as_ref().map_or_else(String::new, |set| binding::list_of(set)));
    Ok(Launched { pids: parts.ranks.pids().collect(), cores: cores.collect() })
}

/// What all ranks of a job have in common.
struct Common<'a> {
    job: &'a Job,
    sets: &'a [Option<Vec<usize>>],
    null: BorrowedFd<'a>,
    failure: BorrowedFd<'a>,
    descriptors_max: Option<(u64, u64)>,
}

/// Starts the next rank.
fn start_rank(common: &Common<'_>, prepared: &Prepared, parts: &mut Parts) -> Result<(), LaunchError> {
    let Common { job, .. } = *common;
    let (rank, ranks) = (parts.ranks.count() as u32, job.ranks());
    parts.names.push(prepared.name.clone());
    let (output, output_end) = match job.terminal {
        // Without a devpts, or when it has no more, a pipe is better than no job.
        Some(size) => pseudoterminal(size).or_else(|_| output_pipe()),
        None => output_pipe(),
    }
    .map_err(failed("open a pipe for a rank's output"))?;
    let (errors, errors_end) = output_pipe().map_err(failed("open a pipe for a rank's error output"))?;
    let takes_input = job.input == Input::All || job.input == Input::Rank(rank);
    let mut input_end = None;
    if takes_input && !job.input_inherited {
        let (end, input) = pipe_with(PipeFlags::CLOEXEC).map_err(failed("open a pipe for a rank's input"))?;
        rustix::io::ioctl_fionbio(&input, true).map_err(failed("open a pipe for a rank's input"))?;
        parts.inputs.add(input);
        input_end = Some(end);
    }
    let ticket = parts.tickets.as_ref().expect("the socket is opened before any rank").ticket(rank);
    let own = variables(rank, ranks, job.id, &ticket);
    let mask = common.sets[rank as usize].as_ref().map(|cores| binding::mask_of(cores));
    let child = Child {
        file: &prepared.file,
        arguments: &prepared.arguments,
        environment: &[&prepared.environment, &own],
        directory: prepared.directory.as_deref(),
        input: match &input_end {
            Some(end) => Some(end.as_fd()),
            None if takes_input => None,
            None => Some(common.null),
        },
        output: output_end.as_fd(),
        errors: errors_end.as_fd(),
        cores: mask.as_ref(),
        cgroup: None,
        descriptors_max: common.descriptors_max,
        failure: common.failure,
        rank,
    };
    let (pid, pidfd) = fork(child, &mut parts.cgroup).map_err(|source| LaunchError::Fork {
        rank,
        ranks,
        hint: hint(&source),
        source,
    })?;
    // The child does the same; whoever is first.
    let _ = rustix::process::setpgid(Some(pid), Some(pid));
    parts.ranks.add(pid, pidfd);
    let silence_ns = if job.terminal.is_some() { PROMPT_NS } else { PART_NS };
    parts.streams.add(rank, Kind::Output, output, silence_ns);
    parts.streams.add(rank, Kind::Errors, errors, PROMPT_NS);
    Ok(())
}

/// Forks into the cgroup. One that lets the first rank not in (a threaded domain, a filter) is as good as none.
fn fork(child: Child<'_>, cgroup: &mut Option<Cgroup>) -> io::Result<(Pid, OwnedFd)> {
    if let Some(group) = cgroup {
        let forked = os::fork_rank(&Child { cgroup: Some(group.descriptor()), ..child });
        if forked.is_ok() || child.rank > 0 {
            return forked;
        }
    }
    let forked = os::fork_rank(&child);
    if forked.is_ok() {
        *cgroup = None;
    }
    forked
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => "; the limit of processes is reached (ulimit -u, or pids.max of the cgroup)",
        _ => "",
    }
}

/// Makes room for the descriptors of all ranks; gives the limits that ranks are to get back.
fn raise_descriptors(ranks: u64) -> Result<Option<(u64, u64)>, LaunchError> {
    let needed = ranks * DESCRIPTORS_PER_RANK + DESCRIPTORS_BESIDE;
    let limit = getrlimit(Resource::Nofile);
    let (soft, hard) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    if needed <= soft {
        return Ok(None);
    }
    let raised = Rlimit { current: Some(needed), maximum: limit.maximum };
    if needed > hard || setrlimit(Resource::Nofile, raised).is_err() {
        return Err(LaunchError::Descriptors { ranks, needed, limit: hard });
    }
    Ok(Some((soft, hard)))
}

/// What all ranks of a program have in common, as C strings.
struct Prepared {
    name: String,
    file: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    directory: Option<CString>,
}

impl Prepared {
    fn new(program: &Program) -> Result<Self, LaunchError> {
        let text = |bytes: &[u8], what| CString::new(bytes).map_err(|_| LaunchError::ZeroByte { what });
        let arguments = program.arguments.iter().map(|argument| text(argument.as_bytes(), "argument list"));
        let set: Vec<(OsString, OsString)> =
            program.variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let mut environment = Vec::new();
        for (name, value) in std::env::vars_os() {
            let wanted = match &program.inherits {
                Inherits::All => true,
                Inherits::Only(names) => {
                    ALWAYS_INHERITED.iter().any(|always| name == *always)
                        || names.iter().any(|listed| listed.as_bytes() == name.as_bytes())
                }
            };
            let replaced = NEVER_INHERITED.iter().any(|never| name == *never)
                || OWN_VARIABLES.iter().any(|own| name == *own)
                || set.iter().any(|(other, _)| *other == name);
            if wanted && !replaced {
                environment.push(variable(&name, &value)?);
            }
        }
        for (index, (name, value)) in set.iter().enumerate() {
            // The last one given wins.
            if set[index + 1..].iter().all(|(later, _)| later != name) {
                environment.push(variable(name, value)?);
            }
        }
        Ok(Prepared {
            name: String::from_utf8_lossy(program.file.as_bytes()).into_owned(),
            file: text(program.file.as_bytes(), "name")?,
            arguments: arguments.collect::<Result<_, _>>()?,
            environment,
            directory: program
                .directory
                .as_ref()
                .map(|directory| text(directory.as_bytes(), "directory"))
                .transpose()?,
        })
    }
}

fn variable(name: &OsString, value: &OsString) -> Result<CString, LaunchError> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(b'=');
    bytes.extend_from_slice(value.as_bytes());
    CString::new(bytes).map_err(|_| LaunchError::ZeroByte { what: "environment" })
}

/// Variables that every rank gets a value of its own for.
const OWN_VARIABLES: [&str; 14] = [
    TICKET_VARIABLE,
    "TUTTI_JOB",
    "TUTTI_RANK",
    "TUTTI_SIZE",
    "TUTTI_LOCAL_RANK",
    "TUTTI_LOCAL_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "PMI_RANK",
    "PMI_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
];

/// The values of [`OWN_VARIABLES`] for a rank. The names after ours are those that wrappers, PyTorch and scripts for GPU
/// pinning read before MPI_Init.
fn variables(rank: u32, ranks: u64, job: u64, ticket: &str) -> Vec<CString> {
    let value = |name: &str| match name {
        TICKET_VARIABLE => ticket.to_owned(),
        "TUTTI_JOB" => format!("{job:016x}"),
        name if name.ends_with("SIZE") || name.ends_with("NRANKS") => ranks.to_string(),
        _ => rank.to_string(),
    };
    let text = |name: &&str| CString::new(format!("{name}={}", value(name))).expect("no zero byte");
    OWN_VARIABLES.iter().map(text).collect()
}

/// A pipe whose reading end does not block.
fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((read, write))
}

/// A raw terminal of the given size (rows, columns), so that the C library of a rank writes line by line (F26); our end
/// does not block.
fn pseudoterminal((rows, columns): (u16, u16)) -> io::Result<(OwnedFd, OwnedFd)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let slave = open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    let mut settings = tcgetattr(&slave)?;
    settings.make_raw();
    tcsetattr(&slave, OptionalActions::Now, &settings)?;
    tcsetwinsize(&slave, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })?;
    rustix::io::ioctl_fionbio(&master, true)?;
    Ok((master, slave))
}

/// One line about a child that could not become its program.
pub fn failure_text(name: &str, failure: &Failure) -> String {
    let reason = io::Error::from_raw_os_error(failure.errno);
    match (failure.step, failure.errno) {
        (Step::Execute, libc::ENOENT) => {
            format!("cannot execute {name}: the file, or the interpreter it names, does not exist")
        }
        (Step::Execute, libc::ENOEXEC) => format!(
            "cannot execute {name}: it is not a program for this machine (a script needs a first line such as #!/bin/sh)"
        ),
        (Step::Execute, libc::EACCES) => format!("cannot execute {name}: permission denied"),
        (Step::Execute, libc::E2BIG) => {
            format!("cannot execute {name}: its arguments and environment are too long")
        }
        (Step::Execute, _) => format!("cannot execute {name}: {reason}"),
        (Step::Directory, _) => {
            format!("cannot change to the working directory of rank {}: {reason}", failure.rank)
        }
        (Step::Prepare, _) => format!("cannot prepare rank {}: {reason}", failure.rank),
    }
}

/// The exit status that a shell gives in that case.
pub fn failure_status(failure: &Failure) -> u8 {
    match (failure.step, failure.errno) {
        (Step::Execute, libc::ENOENT) => 127,
        (Step::Execute, _) => 126,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_own_variable_has_its_value() {
        let texts: Vec<String> = variables(3, 8, 0xab, "socket:3:00")
            .iter()
            .map(|text| text.to_str().expect("ASCII").to_owned())
            .collect();
        for expected in [
            "TUTTI_TICKET=socket:3:00",
            "TUTTI_JOB=00000000000000ab",
            "TUTTI_RANK=3",
            "TUTTI_LOCAL_SIZE=8",
            "MPI_LOCALRANKID=3",
            "MPI_LOCALNRANKS=8",
            "OMPI_COMM_WORLD_LOCAL_RANK=3",
            "PMI_SIZE=8",
        ] {
            assert!(texts.iter().any(|text| text == expected), "{expected} is not in {texts:?}");
        }
    }

    #[test]
    fn a_raw_terminal_changes_no_byte() {
        let (master, slave) = pseudoterminal((24, 80)).unwrap();
        rustix::io::write(&slave, b"a\nb\x03\x04\0\xff").unwrap();
        let mut bytes = [0; 64];
        let read = rustix::io::read(&master, &mut bytes).unwrap();
        assert_eq!(&bytes[..read], b"a\nb\x03\x04\0\xff");
        assert!(rustix::termios::isatty(&slave));
    }
}
