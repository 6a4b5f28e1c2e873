//! From the description of a job to forked ranks: limits, segment, sockets, cgroup, cores, pipes,
//! environment, fork.
//!
//! Every resource is acquired before the first fork ([`prepare`], then [`launch`]). So a job that does not
//! fit is refused in one line, and nothing of it has run on any node.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use tutti_channel::PEERS_MAX;
use tutti_shm::layout::{Geometry, LOCAL_RANKS_MAX, Layout, SPARE_RANKS};
use tutti_shm::numbers::share_of_later;
use tutti_shm::peers::Peers;
use tutti_shm::segment::Segment;
use tutti_shm::spawn::Spawned;
use tutti_transport::udp;

use crate::binding::Machine;
use crate::environment::{Prepared, variables};
use crate::foreign::Foreign;
use crate::keeper::Keeper;
use crate::pages::{Pages, PagesError};
use crate::parts::Parts;
use crate::pmi::Pmi;
use crate::pmix::{self, Pmix};
use crate::ranks::{Origin, Ranks};
use crate::spawning::SpawnedRank;
use crate::tickets::Tickets;
use tutti_os::Child;
use tutti_os::cgroup::{self, Cgroup, Entrance};
use tutti_protocol::wire::{Adopted, Job, MemoryLimit, Program, Reached};

mod error;
mod streams;

pub use error::{LaunchError, failure_status, failure_text};
use error::{failed, hint};
use streams::{InputEnd, open_null, open_streams, own_terminal};

/// Descriptors of the starter for one rank: pidfds, output, errors, input, connection, PMI, UDP socket.
const DESCRIPTORS_PER_RANK: u64 = 8;
/// The segment takes at most this part of an address space that is limited: the program needs the rest.
const ADDRESS_SPACE_PART: u64 = 4;
/// Descriptors of the starter beside them.
const DESCRIPTORS_EXTRA: u64 = 48 + crate::tickets::PENDING_MAX as u64;

/// Errors of a launch, as the front end gets them.
#[derive(Debug)]
pub struct Launched {
    /// Pids in the order of ranks.
    pub pids: Vec<u32>,
    /// Cores in the order of ranks.
    pub cores: Vec<String>,
}

/// A job for whose ranks everything is there.
#[derive(Debug)]
pub struct Ready {
    pub(crate) job: Job,
    /// Cores in the order of ranks.
    sets: Vec<Option<Vec<usize>>>,
    null: OwnedFd,
    /// The pipe on which children report that they could not become their program.
    failure: OwnedFd,
    descriptors_max: Option<(u64, u64)>,
    /// Where the ranks of this node are reached, if there are others.
    pub reached: Reached,
}

/// Makes everything that the ranks of a job on this node need.
///
/// # Errors
/// When it does not fit.
pub fn prepare(job: Job, parts: &mut Parts) -> Result<Ready, LaunchError> {
    let local = job.local_ranks();
    let ranks = local.end - local.start;
    if ranks > u64::from(LOCAL_RANKS_MAX) {
        return Err(LaunchError::TooManyRanks { ranks });
    }
    let machine = Machine::read();
    let (universe, room) = room(&job, machine.usable)?;
    check_far(u64::from(job.later_ranks()) + job.ranks(), room)?;
    let descriptors_max = raise_descriptors(ranks, later_here(&job))?;
    // Virtual nodes share the cores of the machine as one node would.
    let shares = job.part.as_ref().is_some_and(|part| part.shares_machine);
    let (before, on_machine) = if shares { (local.start, job.ranks()) } else { (0, ranks) };
    if job.no_oversubscribe && on_machine > machine.usable as u64 {
        return Err(LaunchError::Oversubscribed { ranks: on_machine, cores: machine.usable });
    }
    let all = machine.bind(on_machine as usize, job.binding, job.cores_per_rank.map(|cores| cores as usize));
    let sets = all.into_iter().skip(before as usize).take(ranks as usize).collect();
    let adopted = job.adopted.as_ref().map(|adopted| tutti_os::take_descriptor(adopted.segment));
    let mut geometry = Geometry {
        world_ranks: job.ranks() as u32,
        local_ranks: ranks as u32,
        first_rank: local.start as u32,
        node: job.node(),
        cores: (machine.usable as u64 * ranks / on_machine) as u32,
        starter_pid: std::process::id(),
        room,
        universe,
        nodes: job.part.as_ref().map_or(0, |part| part.first_ranks.len() as u32),
        world_room: job.ranks() as u32 + job.later_ranks(),
        job: job.id,
    };
    if job.part.is_none() && job.universe.is_none() {
        geometry.room = room_within(&geometry, getrlimit(Resource::As).current);
    }
    parts.segment = Some(match adopted {
        None => Segment::create(geometry)?,
        Some(segment) => {
            Segment::adopt(segment.map_err(failed("take over the process"))?, geometry.starter_pid)?
        }
    });
    let numbers = parts.segment.as_ref().map(|segment| *segment.layout().numbers());
    let numbers = numbers.expect("the segment has just been made");
    parts.streams.set_label(job.label);
    let pages = Pages::create(&job, machine.usable as u64);
    parts.pages = pages.map_err(|PagesError { action, source }| failed(action)(source))?;
    parts.ranks = Ranks::of(numbers);
    let tickets =
        Tickets::create(&job.name(), numbers, ranks as usize).map_err(failed("open the job's socket"))?;
    parts.tickets = Some(tickets);
    let crowded = on_machine > machine.usable as u64;
    pmix::sweep();
    let pmix = pmix::wanted(&job).map(|wanted| Pmix::start(&job, wanted, universe, crowded)).transpose();
    let pmix = pmix.map_err(failed("start the PMIx server"))?;
    parts.foreign = Some(Foreign::new(Pmi::new(&job, universe), pmix));
    if parts.cgroup.is_none() {
        parts.cgroup = Cgroup::create(&cgroup::name(&job.name()));
    }
    let is_limited =
        |limit: &MemoryLimit| parts.cgroup.as_ref().is_some_and(|group| group.limit_memory(limit.bytes));
    parts.memory = job.memory.clone().filter(is_limited);
    // A daemon's start ends what another one and its starters have left.
    if job.daemon.is_none() {
        let cgroup = parts.cgroup.as_ref().and_then(Cgroup::path);
        parts.keeper = Keeper::start(job.id, job.front_end, cgroup, &pmix::folders(&job.name()));
    }
    let reached = open_sockets(&job, parts)?;
    let (failures, failure) = failure_pipe()?;
    parts.failures = Some(failures);
    let null = open_null()?;
    Ok(Ready { job, sets, null, failure, descriptors_max, reached })
}

/// Whether a rank of this node, which has room for `room`, can talk to all others of the job.
fn check_far(all: u64, room: u32) -> Result<(), LaunchError> {
    let far = all.saturating_sub(u64::from(room));
    if far > PEERS_MAX as u64 { Err(LaunchError::TooManyFar { far }) } else { Ok(()) }
}

/// MPI_UNIVERSE_SIZE, and how many ranks of this node there is room for.
fn room(job: &Job, cores: usize) -> Result<(u32, u32), LaunchError> {
    let ranks = job.ranks() as u32;
    if job.part.is_some() {
        let (local, later) = (job.local_ranks(), job.later_ranks());
        let room = (local.end - local.start) as u32 + later_here(job);
        return match room > LOCAL_RANKS_MAX {
            true => Err(LaunchError::Universe { ranks: ranks + later }),
            false => Ok((ranks + later, room)),
        };
    }
    match job.universe {
        Some(universe) if universe > LOCAL_RANKS_MAX => Err(LaunchError::Universe { ranks: universe }),
        Some(universe) => Ok((universe.max(ranks), universe.max(ranks))),
        None => {
            let universe = ranks.max(cores as u32);
            Ok((universe, (universe + SPARE_RANKS).min(LOCAL_RANKS_MAX).max(ranks)))
        }
    }
}

/// The room that nobody has asked for is given up where it would take too much of a limited address space.
fn room_within(geometry: &Geometry, address_space: Option<u64>) -> u32 {
    let Some(bytes_max) = address_space.map(|bytes| bytes / ADDRESS_SPACE_PART) else { return geometry.room };
    let fits =
        |room: &u32| Layout::new(&Geometry { room: *room, ..*geometry }).total_bytes() as u64 <= bytes_max;
    let rooms = geometry.universe..=geometry.room;
    rooms.rev().find(fits).unwrap_or(geometry.universe)
}

/// Ranks that may be started later on this node of a job on several.
fn later_here(job: &Job) -> u32 {
    let nodes = job.part.as_ref().map_or(1, |part| part.first_ranks.len() as u32);
    share_of_later(job.later_ranks(), job.node(), nodes)
}

/// Opens one socket for each rank of this node, when there are others, and for each that may be started
/// later.
fn open_sockets(job: &Job, parts: &mut Parts) -> Result<Reached, LaunchError> {
    let Some(part) = &job.part else { return Ok(Reached::default()) };
    let mut addresses = Vec::new();
    let began = job.local_ranks();
    for _ in 0..began.end - began.start + u64::from(later_here(job)) {
        let at = part.address;
        let opened = part.ports.map_or_else(|| udp::open(at), |ports| udp::open_within(at, ports.range()));
        let refused = |source: io::Error| match part.ports {
            Some(ports) if source.kind() == io::ErrorKind::AddrInUse => {
                LaunchError::Ports { address: at, ports }
            }
            _ => LaunchError::Socket { address: at, source },
        };
        let (socket, address) = opened.map_err(refused)?;
        parts.sockets.push(socket);
        addresses.push(address);
    }
    let later = addresses.split_off((began.end - began.start) as usize);
    Ok(Reached { addresses, later, datagram_bytes: udp::link_bytes(part.address) as u32 })
}

/// Keeps where all ranks are reached, of a job on several nodes, for the ranks of this one.
///
/// # Errors
/// When there are more or fewer of them than ranks, or there is no memory.
pub fn take_peers(ready: &Ready, reached: Reached, parts: &mut Parts) -> Result<(), LaunchError> {
    let part = ready.job.part.as_ref().expect("only a job on several nodes waits for its peers");
    let (firsts, began) = (part.first_ranks.clone(), ready.job.ranks() as u32);
    let peers = Peers::new(part.key, reached.datagram_bytes, firsts, began, reached.addresses)?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let table = memfd_create("tutti-peers", flags).map_err(failed("make the table of peers"))?;
    let mut file = std::fs::File::from(table);
    io::Write::write_all(&mut file, &peers.encode()).map_err(failed("write the table of peers"))?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    fcntl_add_seals(&file, seals).map_err(failed("seal the table of peers"))?;
    parts.peers = Some((file.into(), peers));
    Ok(())
}

/// Starts the ranks of a job on this node.
///
/// # Errors
/// When the kernel makes no more; `parts` then holds what has been started until then.
pub fn launch(ready: &Ready, parts: &mut Parts) -> Result<Launched, LaunchError> {
    if let Some(adopted) = &ready.job.adopted {
        adopt(adopted, parts).map_err(failed("take over the process"))?;
        return Ok(Launched { pids: parts.ranks.pids().collect(), cores: vec![String::new()] });
    }
    let local = ready.job.local_ranks();
    let mut rank = 0;
    for program in &ready.job.programs {
        let (begin, end) = (rank, rank + u64::from(program.ranks));
        rank = end;
        let mine = begin.max(local.start)..end.min(local.end);
        if mine.is_empty() {
            continue;
        }
        let mut prepared = Prepared::new(program)?;
        if ready.job.shared_slots.is_some() {
            prepared.limit_spinning();
        }
        for _ in mine {
            start_rank(ready, &prepared, None, parts)?;
        }
    }
    let cores = ready
        .sets
        .iter()
        .map(|set| set.as_ref().map_or_else(String::new, |set| tutti_os::cpu_list::format(set)));
    Ok(Launched { pids: parts.ranks.pids().collect(), cores: cores.collect() })
}

/// Rank 0 is there already.
fn adopt(adopted: &Adopted, parts: &mut Parts) -> io::Result<()> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let connection = tutti_os::take_descriptor(adopted.connection)?;
    parts.ranks.adopt(Pid::from_raw(adopted.pid.cast_signed()).ok_or_else(gone)?)?;
    parts.names.push("the program".into());
    parts.foreign.iter_mut().for_each(|foreign| foreign.pmi.add_silent(0));
    if let Some(tickets) = &mut parts.tickets {
        tickets.adopt(0, connection);
    }
    Ok(())
}

/// Starts those of the ranks that other ranks have asked for that are of this node, in that group of PMI, if
/// any; their places and tickets are there. Gives the pipe on which they report that they could not become
/// their programs.
///
/// # Errors
/// When the kernel makes no more; `parts` then holds what has been started until then.
pub fn spawn(
    job: &Job,
    programs: &[Program],
    place: &Spawned,
    group: Option<u32>,
    parts: &mut Parts,
) -> Result<OwnedFd, LaunchError> {
    let (present, numbers) = parts
        .segment
        .as_ref()
        .map_or((0, None), |segment| (segment.present(), Some(*segment.layout().numbers())));
    let descriptors_max = raise_descriptors(present.into(), later_here(job))?;
    let (failures, failure) = failure_pipe()?;
    let (machine, per_rank) = (Machine::read(), job.cores_per_rank.map(|cores| cores as usize));
    let shares = job.part.as_ref().is_some_and(|part| part.shares_machine);
    let sets = |numbers| machine.bind_all_later(numbers, shares, job.binding, per_rank);
    let sets = numbers.map_or_else(Vec::new, sets);
    let reached = Reached::default();
    let ready = Ready { job: job.clone(), sets, null: open_null()?, failure, descriptors_max, reached };
    let mut end = 0;
    for (number, program) in programs.iter().enumerate() {
        let prepared = Prepared::new(program)?;
        let begin = end;
        end += program.ranks as usize;
        for rank in begin..end {
            if numbers.is_none_or(|numbers| numbers.contains(place.ranks[rank] as usize)) {
                start_rank(
                    &ready,
                    &prepared,
                    Some(SpawnedRank { all: place, rank, program: number, group }),
                    parts,
                )?;
            }
        }
    }
    Ok(failures)
}

/// The reading end does not block.
fn failure_pipe() -> Result<(OwnedFd, OwnedFd), LaunchError> {
    let (failures, failure) = pipe_with(PipeFlags::CLOEXEC).map_err(failed("open a pipe"))?;
    rustix::io::ioctl_fionbio(&failures, true).map_err(failed("open a pipe"))?;
    Ok((failures, failure))
}

/// Starts the next rank: one of the launch, or of those that other ranks have asked for, with the number of
/// its program.
fn start_rank(
    ready: &Ready,
    prepared: &Prepared,
    spawned: Option<SpawnedRank<'_>>,
    parts: &mut Parts,
) -> Result<(), LaunchError> {
    let Ready { job, .. } = ready;
    let next = parts.ranks.count() as u32;
    // The number of one that others have asked for may have been that of another process.
    let index = match &spawned {
        Some(spawned) => parts.ranks.place_of(spawned.all.ranks[spawned.rank]),
        None => next,
    };
    let rank = parts.ranks.world_rank(index);
    match parts.names.get_mut(index as usize) {
        Some(name) => name.clone_from(&prepared.name),
        None => parts.names.push(prepared.name.clone()),
    }
    let ends = if job.pty && rank == 0 { own_terminal(job, parts) } else { open_streams(job, rank, parts) }?;
    let ticket = parts.tickets.as_ref().expect("the socket is opened before any rank").ticket(index);
    let Foreign { pmi, pmix, .. } = parts.foreign.as_mut().expect("the servers are made before any rank");
    let pmi_end = match spawned.map(|spawned| spawned.group) {
        None if pmix.is_some() => {
            pmi.add_silent(index);
            None
        }
        None => Some(pmi.add()),
        Some(Some(group)) => Some(pmi.add_to(index, group)),
        Some(None) => {
            pmi.add_silent(index);
            None
        }
    };
    let pmi_end = pmi_end.transpose().map_err(failed("open a socket for PMI"))?;
    let mut own = variables(job, index, &ticket, pmi_end.as_ref().map(AsRawFd::as_raw_fd), spawned);
    own.extend(pmix.iter().flat_map(|pmix| pmix.variables(index)).cloned());
    own.extend(parts.pages.board_variable(job));
    let mut kept: Vec<_> = pmi_end.iter().map(AsFd::as_fd).collect();
    if let Some((ends, variable)) = parts.pages.slots() {
        own.extend(variable);
        kept.extend(ends);
    }
    let cores = ready.sets.get(index as usize).and_then(Option::as_ref);
    let mask = cores.map(|cores| tutti_os::cpu_list::mask_of(cores));
    let child = Child {
        file: &prepared.file,
        arguments: &prepared.arguments,
        environment: &[&prepared.environment, &own],
        directory: prepared.directory.as_deref(),
        input: match &ends.input {
            InputEnd::Own(end) => Some(end.as_fd()),
            InputEnd::Inherited => None,
            InputEnd::Null => Some(ready.null.as_fd()),
        },
        output: ends.output.as_fd(),
        errors: ends.errors.as_fd(),
        kept: &kept,
        terminal: parts.terminal.as_ref().filter(|_| job.pty && rank == 0).map(|(_, slave)| slave.as_fd()),
        cores: mask.as_ref(),
        cgroup: None,
        enters: None,
        descriptors_max: ready.descriptors_max,
        failure: ready.failure.as_fd(),
        rank,
    };
    let is_first = index == u32::from(job.adopted.is_some());
    let (pid, pidfd) = fork(child, is_first, &mut parts.cgroup).map_err(|source| LaunchError::Fork {
        rank,
        ranks: job.ranks(),
        hint: hint(&source),
        source,
    })?;
    // The child does the same; the order does not matter.
    let _ = rustix::process::setpgid(Some(pid), Some(pid));
    let origin = spawned.map_or(Origin::Launch, |spawned| Origin::Spawn(spawned.all.context));
    if index < next {
        parts.gone.extend(parts.ranks.replace(index, pid, pidfd, origin));
    } else {
        parts.ranks.add(pid, pidfd, origin);
    }
    Ok(())
}

/// Forks into the cgroup. One of ours that lets the first rank not in (a threaded domain, a filter) is as
/// good as none.
fn fork(child: Child<'_>, first: bool, cgroup: &mut Option<Cgroup>) -> io::Result<(Pid, OwnedFd)> {
    match cgroup.as_ref().map(Cgroup::entrance) {
        Some(Entrance::Write(enters)) => {
            return tutti_os::fork_rank(&Child { enters: Some(enters), ..child });
        }
        Some(Entrance::Clone(into)) => {
            let forked = tutti_os::fork_rank(&Child { cgroup: Some(into), ..child });
            if forked.is_ok() || !first {
                return forked;
            }
        }
        None => {}
    }
    let forked = tutti_os::fork_rank(&child);
    if forked.is_ok() {
        *cgroup = None;
    }
    forked
}

/// Makes room for the descriptors of all ranks, and the sockets of so many later ones; gives the limits that
/// ranks are to get back.
fn raise_descriptors(ranks: u64, later: u32) -> Result<Option<(u64, u64)>, LaunchError> {
    let needed = ranks * DESCRIPTORS_PER_RANK + u64::from(later) + DESCRIPTORS_EXTRA;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_with_more_far_ranks_than_channels_is_refused() {
        let most = PEERS_MAX as u64;
        assert!(check_far(most + 2, 2).is_ok() && check_far(1, 2048).is_ok());
        let text = check_far(most + 3, 2).unwrap_err().to_string();
        assert!(text.contains("65536 ranks on other nodes") && text.contains("65535"), "{text}");
    }
}
