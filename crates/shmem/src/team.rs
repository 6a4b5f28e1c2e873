//! Teams: who belongs to them, and the communicator on which their collective operations run.

use core::ffi::c_int;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tutti_mpi::abi::*;
use tutti_mpi::api;

use crate::fault;
use crate::memory;
use crate::pes::{self, Pes};
use tutti_runtime::job::Job;

/// A handle: a number that never comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
#[allow(non_camel_case_types)]
pub struct shmem_team_t(pub usize);

/// No team.
pub const INVALID: shmem_team_t = shmem_team_t(0);
/// All PEs.
pub const WORLD: shmem_team_t = shmem_team_t(1);
/// The PEs whose memory this one reaches by addresses: those of its node.
pub const SHARED: shmem_team_t = shmem_team_t(2);

/// A team, as this PE knows it.
#[derive(Debug)]
pub struct Team {
    /// Members of the team, by their numbers in the world.
    pub members: Vec<u32>,
    /// Number of this PE in it.
    pub me: usize,
    /// Only for its collective operations.
    pub comm: MPI_Comm,
    /// Number of contexts that was asked for when the team was made.
    pub contexts: c_int,
}

#[derive(Debug)]
struct Teams {
    by_handle: HashMap<usize, Arc<Team>>,
    /// By start, stride and size: the deprecated collective operations name their members so.
    active_sets: HashMap<(c_int, c_int, c_int), Arc<Team>>,
    /// Only for calls that take memory or give it back, so that none of them meets another call.
    heap: MPI_Comm,
    next: usize,
}

static TEAMS: Mutex<Option<Teams>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Teams>> {
    TEAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The predefined teams, on communicators of their own.
pub fn start(pes: Pes, job: &Job) {
    let all = || split(MPI_COMM_WORLD, Some(0), pes.me).expect("every PE is a member");
    let (comm, heap) = (all(), all());
    let members = (0..pes.count as u32).collect();
    let world = Arc::new(Team { members, me: pes.me, comm, contexts: 0 });
    let is_near = |pe: &usize| job.local_ranks().contains(pes::rank(*pe));
    let near: Vec<u32> = (0..pes.count).filter(is_near).map(|pe| pe as u32).collect();
    // The same question for all, so that all or none of them take part.
    let shared = if job.nodes() == 1 {
        Arc::clone(&world)
    } else {
        Arc::new(world.split_by(job.node() as usize, &near, 0))
    };
    let by_handle = HashMap::from([(WORLD.0, world), (SHARED.0, shared)]);
    *lock() = Some(Teams { by_handle, active_sets: HashMap::new(), heap, next: SHARED.0 + 1 });
}

/// Frees all communicators. Called by all PEs.
pub fn finish() {
    let Some(teams) = lock().take() else { return };
    // World's goes last: MPI's own order of collective calls is that of the handles, which all PEs share.
    let mut comms: Vec<usize> = teams.by_handle.values().map(|team| team.comm.0).collect();
    comms.extend(teams.active_sets.values().map(|team| team.comm.0));
    comms.push(teams.heap.0);
    comms.sort_unstable();
    comms.dedup();
    for comm in comms {
        free(MPI_Comm(comm));
    }
}

/// A team by handle, if it is one of this PE.
pub fn find(team: shmem_team_t) -> Option<Arc<Team>> {
    lock().as_ref()?.by_handle.get(&team.0).cloned()
}

/// The same; ends the job if it is none.
pub fn get(function: &str, team: shmem_team_t) -> Arc<Team> {
    memory::pes(function);
    find(team).unwrap_or_else(|| {
        let what = if team == INVALID { "is SHMEM_TEAM_INVALID" } else { "was destroyed or was never one" };
        fault::end(function, format_args!("the team {:#x} {what}", team.0))
    })
}

/// The world's team, also while the library starts.
pub fn world_of_start() -> Arc<Team> {
    find(WORLD).expect("the teams were made")
}

/// The communicator of all PEs on which they agree about the heap.
pub fn of_heap() -> MPI_Comm {
    lock().as_ref().map_or(MPI_COMM_NULL, |teams| teams.heap)
}

/// The world's team.
pub fn world(function: &str) -> Arc<Team> {
    get(function, WORLD)
}

/// Keeps a team.
pub fn keep(team: Team) -> shmem_team_t {
    let mut teams = lock();
    let teams = teams.as_mut().expect("teams are made while the library runs");
    let handle = teams.next;
    teams.next += 1;
    teams.by_handle.insert(handle, Arc::new(team));
    shmem_team_t(handle)
}

/// Destroys a team.
pub fn destroy(function: &str, team: shmem_team_t) {
    if team == INVALID {
        return;
    }
    if team == WORLD || team == SHARED {
        fault::end(function, format_args!("a predefined team cannot be destroyed"));
    }
    get(function, team);
    let gone = lock().as_mut().and_then(|teams| teams.by_handle.remove(&team.0));
    if let Some(gone) = gone {
        free(gone.comm);
    }
}

impl Team {
    /// A new team of members of this one; none if this PE is not among them. Called by all members.
    pub fn split(&self, chosen: &[u32], contexts: c_int) -> Option<Team> {
        let world = self.members[self.me];
        let me = chosen.iter().position(|member| *member == world);
        let comm = split(self.comm, me.map(|_| 0), me.unwrap_or(0));
        Some(Team { members: chosen.to_vec(), me: me?, comm: comm?, contexts })
    }

    /// The part with this PE, of parts that have all members and are numbered. Called by all members.
    pub fn split_by(&self, part: usize, chosen: &[u32], contexts: c_int) -> Team {
        let world = self.members[self.me];
        let me = chosen.iter().position(|member| *member == world).expect("this PE is in its part");
        let comm = split(self.comm, Some(part as c_int), me).expect("this PE has a part");
        Team { members: chosen.to_vec(), me, comm, contexts }
    }

    /// How many members it has.
    pub fn size(&self) -> usize {
        self.members.len()
    }
}

/// The team of a deprecated operation; made when its members use it first.
pub fn active_set(function: &str, start: c_int, log_stride: c_int, size: c_int) -> Arc<Team> {
    let pes = memory::pes(function);
    let is_valid = start >= 0 && (0..31).contains(&log_stride) && size > 0;
    let last = i64::from(start) + ((i64::from(size.max(1)) - 1) << log_stride.clamp(0, 30));
    if !is_valid || last >= pes.count as i64 {
        fault::end(
            function,
            format_args!(
                "PE_start {start}, logPE_stride {log_stride}, PE_size {size} is no active set of {} PEs",
                pes.count
            ),
        );
    }
    let key = (start, log_stride, size);
    if let Some(team) = lock().as_ref().and_then(|teams| teams.active_sets.get(&key).cloned()) {
        return team;
    }
    let world = world(function);
    let members: Vec<u32> = (0..size).map(|member| (start + (member << log_stride)) as u32).collect();
    let Some(me) = members.iter().position(|member| *member as usize == pes.me) else {
        fault::end(
            function,
            format_args!("PE_start {start}, logPE_stride {log_stride}, PE_size {size} does not have this PE"),
        )
    };
    let comm = if members.len() == world.size() { world.comm } else { of_members(world.comm, &members) };
    let team = Arc::new(Team { members, me, comm, contexts: 0 });
    if let Some(teams) = lock().as_mut() {
        teams.active_sets.insert(key, team.clone());
    }
    team
}

fn split(comm: MPI_Comm, color: Option<c_int>, key: usize) -> Option<MPI_Comm> {
    let mut made = MPI_COMM_NULL;
    let color = color.unwrap_or(MPI_UNDEFINED);
    // SAFETY: the place is ours; errors end the job.
    unsafe { api::MPI_Comm_split(comm, color, key as c_int, &mut made) };
    (made != MPI_COMM_NULL).then_some(made)
}

fn of_members(comm: MPI_Comm, members: &[u32]) -> MPI_Comm {
    let ranks: Vec<c_int> = members.iter().map(|member| *member as c_int).collect();
    let (mut all, mut some, mut made) = (MPI_GROUP_NULL, MPI_GROUP_NULL, MPI_COMM_NULL);
    // SAFETY: the places and the array are ours; errors end the job.
    unsafe {
        api::MPI_Comm_group(comm, &mut all);
        api::MPI_Group_incl(all, ranks.len() as c_int, ranks.as_ptr(), &mut some);
        api::MPI_Comm_create_group(comm, some, 0, &mut made);
        api::MPI_Group_free(&mut all);
        api::MPI_Group_free(&mut some);
    }
    made
}

fn free(mut comm: MPI_Comm) {
    // SAFETY: the handle is ours.
    unsafe { api::MPI_Comm_free(&mut comm) };
}
