//! Calls that make communicators, bring groups together, and end communicators: from handles to what the
//! modules beside this one do, and from what they make to handles.

use std::rc::Rc;

use core::ffi::c_int;

use tutti_shm::spawn::Spawned;

use super::agreement::Meeting;
use super::creation::{NOT_YET, Proposed, check_subset};
use super::intercomm::{Bridge, checked_leader};
use super::spawn::{Codes, Wish};
use super::topology::{Edges, Topology};
use super::{CONTEXTS_PER_COMM, Channel, Group, names, ports, spawn};
use crate::abi::*;
use crate::attribute_calls;
use crate::attributes::HasAttributes;
use crate::attributes::Owner;
use crate::check::collectives;
use crate::check_mode;
use crate::collective::plan::Place;
use crate::collective::state::Call;
use crate::collective::state::HasCollectives;
use crate::comm::HasComms;
use crate::datatype::HasTypes;
use crate::engine::Left;
use crate::error::{Result, check};
use crate::file::HasFiles;
use crate::info::Info;
use crate::progress::Progress;
use crate::request::Request;
use crate::wait_goal::Goal;
use crate::win::HasWindows;

/// A call that may end communicators: attributes go with them, and ranks are forgotten that no communicator,
/// window or file names any more.
pub trait EndsComms:
    Progress + HasCollectives + HasComms + HasTypes + HasAttributes + HasWindows + HasFiles
{
}

impl<T> EndsComms for T where
    T: Progress + HasCollectives + HasComms + HasTypes + HasAttributes + HasWindows + HasFiles
{
}

/// The next meeting of all processes of a communicator ([`Meeting::whole`]).
///
/// # Errors
/// MPI_ERR_COMM.
pub(crate) fn whole(call: &mut (impl Progress + HasComms), handle: MPI_Comm) -> Result<Meeting> {
    let tag = next_creation(call, handle)?;
    Ok(Meeting::whole(call.comms().find(handle)?, call.engine(), tag))
}

fn next_creation(call: &mut (impl Progress + HasComms), handle: MPI_Comm) -> Result<i32> {
    if check_mode::is_on() {
        let place = Place::next(call.comms_mut().find_mut(handle)?, Call::Blocking);
        let (mut schedule, must_not_wait) = collectives::creation(handle, &place);
        if must_not_wait {
            let request = call.launch(schedule);
            call.engine_mut().release(request);
        } else {
            call.run(&mut schedule)?;
        }
    }
    Ok(call.comms_mut().find_mut(handle)?.next_creation())
}

/// A copy of a communicator with its attributes (7.4.2), and with hints when there are some.
///
/// # Errors
/// MPI_ERR_COMM; whatever a copy callback of the user returned.
pub(crate) fn dup_comm(
    call: &mut (impl Progress + HasComms + HasTypes + HasAttributes + HasWindows),
    handle: MPI_Comm,
    hints: Option<Info>,
) -> Result<MPI_Comm> {
    let copied = attribute_calls::copy(call, Owner::Comm(handle));
    // The others wait for us even if our callback has failed.
    let context = whole(call, handle)?.new_context(call)?;
    call.comms_mut().keep_duplicate(handle, context, copied?, hints)
}

/// The same without waiting: the communicator is there at once and may be used when the request is done.
/// The request belongs to the schedule of the broadcast, which gives the communicator its context.
///
/// # Errors
/// As [`dup_comm`].
pub(crate) fn start_dup_comm(
    call: &mut (impl Progress + HasComms + HasTypes + HasAttributes + HasWindows),
    handle: MPI_Comm,
    hints: Option<Info>,
) -> Result<(MPI_Comm, MPI_Request)> {
    let copied = attribute_calls::copy(call, Owner::Comm(handle));
    let meeting = whole(call, handle)?;
    let Proposed { mut schedule, contexts, members } = meeting.propose_context(call)?;
    let attributes = match copied {
        Ok(attributes) => attributes,
        Err(error) => {
            // The others wait for us even if our callback has failed.
            call.run(&mut schedule)?;
            return Err(error);
        }
    };
    let made = call.comms_mut().keep_duplicate(handle, NOT_YET, attributes, hints)?;
    schedule.name(made, contexts, members);
    schedule.await_all();
    let index = call.launch(schedule);
    Ok((made, MPI_Request(call.engine().requests.handle(index))))
}

/// The communicator of a part of the members (MPI_Comm_create). All members of the parent call it;
/// MPI_COMM_NULL for those that are in no group.
///
/// # Errors
/// MPI_ERR_COMM; MPI_ERR_GROUP when the group has members that the parent has not.
pub(crate) fn create_comm(
    call: &mut (impl Progress + HasComms),
    handle: MPI_Comm,
    group: Rc<Group>,
) -> Result<MPI_Comm> {
    let parent = call.comms().find(handle)?;
    check_subset(&group, parent)?;
    if parent.remote.is_some() {
        let place = group.rank_of(call.engine().world_rank());
        let color = place.map(|_| 0);
        return split_inter(call, handle, color, place.unwrap_or(0) as i32);
    }
    let tag = next_creation(call, handle)?;
    create_among(call, handle, group, Channel::Creation, tag)
}

/// The same, called by the members of the group only (MPI_Comm_create_group).
///
/// # Errors
/// As [`create_comm`]; MPI_ERR_TAG.
pub(crate) fn create_comm_of_group(
    call: &mut (impl Progress + HasComms),
    handle: MPI_Comm,
    group: Rc<Group>,
    tag: c_int,
) -> Result<MPI_Comm> {
    let parent = call.comms().intracomm(handle)?;
    check_subset(&group, parent)?;
    check(tag >= 0, MPI_ERR_TAG, || format!("tag is {tag}, expected 0 to {}", c_int::MAX))?;
    create_among(call, handle, group, Channel::TaggedCreation, tag)
}

/// The members of the group agree over the parent's channel.
fn create_among(
    call: &mut (impl Progress + HasComms),
    handle: MPI_Comm,
    group: Rc<Group>,
    channel: Channel,
    tag: c_int,
) -> Result<MPI_Comm> {
    let me = call.engine().world_rank();
    let Some(rank) = group.rank_of(me) else { return Ok(MPI_COMM_NULL) };
    let context = call.comms().find(handle)?.context;
    let meeting = Meeting::new(group.members().to_vec(), me, context, channel, tag);
    let made = meeting.create(call, rank, group)?;
    Ok(call.comms_mut().keep_child(handle, made))
}

/// One new communicator for each color (MPI_Comm_split); MPI_COMM_NULL for those that give none.
///
/// # Errors
/// MPI_ERR_COMM; MPI_ERR_ARG when the color is negative.
pub(crate) fn split_comm(
    call: &mut (impl Progress + HasComms),
    handle: MPI_Comm,
    color: c_int,
    key: c_int,
) -> Result<MPI_Comm> {
    let parent = call.comms().find(handle)?;
    check(color >= 0 || color == MPI_UNDEFINED, MPI_ERR_ARG, || {
        format!("color is {color}, expected 0 or more, or MPI_UNDEFINED")
    })?;
    let color = (color != MPI_UNDEFINED).then_some(color as u32);
    if parent.remote.is_some() {
        return split_inter(call, handle, color, key);
    }
    let made = whole(call, handle)?.split(call, color, key)?;
    Ok(call.comms_mut().keep_part(handle, made))
}

fn split_inter(
    call: &mut (impl Progress + HasComms),
    handle: MPI_Comm,
    color: Option<u32>,
    key: i32,
) -> Result<MPI_Comm> {
    let (parent, remote) = call.comms().intercomm(handle)?;
    let (local, remote) = (parent.group.clone(), remote.clone());
    let made = whole(call, handle)?.split_inter(call, (&local, &remote), color, key)?;
    Ok(call.comms_mut().keep_part(handle, made))
}

/// An intercommunicator between two groups (7.6.2).
///
/// # Errors
/// MPI_ERR_COMM, MPI_ERR_RANK, MPI_ERR_TAG; MPI_ERR_GROUP when the groups overlap.
pub(crate) fn create_intercomm(call: &mut (impl Progress + HasComms), bridge: Bridge) -> Result<MPI_Comm> {
    let group = call.comms().intracomm(bridge.local)?.group.clone();
    let leader = checked_leader(bridge.local_leader, group.size(), "local_leader")?;
    let meeting = whole(call, bridge.local)?;
    let made = meeting
        .bridge(call, leader, group, |call| call.comms().other_leader(bridge, call.engine().world_rank()))?;
    Ok(call.comms_mut().keep_child(bridge.local, made))
}

/// One communicator of both groups ([`Meeting::merge`]).
///
/// # Errors
/// MPI_ERR_COMM; MPI_ERR_ARG when the members of a group do not agree.
pub(crate) fn merge_intercomm(
    call: &mut (impl Progress + HasComms),
    handle: MPI_Comm,
    high: bool,
) -> Result<MPI_Comm> {
    let (comm, remote) = call.comms().intercomm(handle)?;
    let (local, remote) = (comm.group.clone(), remote.clone());
    let made = whole(call, handle)?.merge(call, &local, &remote, high)?;
    Ok(call.comms_mut().keep_child(handle, made))
}

/// A communicator of the first `places` processes, with a topology; MPI_COMM_NULL for the others.
///
/// # Errors
/// MPI_ERR_COMM.
pub(crate) fn arrange(
    call: &mut (impl Progress + HasComms),
    handle: MPI_Comm,
    places: usize,
    topology: Topology,
) -> Result<MPI_Comm> {
    let rank = call.comms().intracomm(handle)?.rank;
    let color = if rank < places { 0 } else { MPI_UNDEFINED };
    split_arranged(call, handle, color, rank as c_int, topology)
}

/// The part of a grid that has this process and the dimensions kept (8.5.6).
///
/// # Errors
/// MPI_ERR_COMM, MPI_ERR_TOPOLOGY.
pub(crate) fn part_of_grid(
    call: &mut (impl Progress + HasComms),
    handle: MPI_Comm,
    kept: &[bool],
) -> Result<MPI_Comm> {
    let (grid, color, key) = call.comms().grid(handle)?.part(call.comms().find(handle)?.rank, kept);
    split_arranged(call, handle, color as c_int, key as c_int, Topology::Cart(grid))
}

fn split_arranged(
    call: &mut (impl Progress + HasComms),
    handle: MPI_Comm,
    color: c_int,
    key: c_int,
    topology: Topology,
) -> Result<MPI_Comm> {
    let made = split_comm(call, handle, color, key)?;
    if made != MPI_COMM_NULL {
        call.comms_mut().find_mut(made)?.topology = Some(Rc::new(topology));
    }
    Ok(made)
}

/// All processes name edges of the whole graph, each (from, to, weight); gives those of this process, in
/// the order of the ranks that named them.
///
/// # Errors
/// MPI_ERR_COMM.
pub(crate) fn distribute_edges(
    call: &mut (impl Progress + HasComms),
    handle: MPI_Comm,
    named: &[[c_int; 3]],
    is_weighted: bool,
) -> Result<Edges> {
    let rank = call.comms().intracomm(handle)?.rank as c_int;
    let meeting = whole(call, handle)?;
    let mine: Vec<u32> = named.iter().flatten().map(|&number| number as u32).collect();
    let all = meeting.gather_numbers(call, &mine)?;
    let mut edges = Edges { is_weighted, ..Edges::default() };
    for edge in all.chunks_exact(3) {
        let [from, to, weight] = [edge[0] as c_int, edge[1] as c_int, edge[2] as c_int];
        if to == rank {
            edges.sources.push((from, weight));
        }
        if from == rank {
            edges.destinations.push((to, weight));
        }
    }
    Ok(edges)
}

/// Opens a port; gives its name.
///
/// # Errors
/// MPI_ERR_INTERN when this process has too many.
pub(crate) fn open_port(call: &mut (impl Progress + HasComms)) -> Result<String> {
    call.comms().ports.clone().open(call)
}

/// Closes a port; whoever waits for an accept is refused.
///
/// # Errors
/// MPI_ERR_PORT when this process has not opened it, or has closed it.
pub(crate) fn close_port(call: &mut (impl Progress + HasComms), name: &[u8]) -> Result<()> {
    call.comms().ports.clone().close(call, name)
}

/// An intercommunicator with the group that connects next to a port of the root's (11.9.2). `name` is
/// asked at the root only.
///
/// # Errors
/// MPI_ERR_COMM, MPI_ERR_ROOT; MPI_ERR_PORT on all when the root cannot accept there; MPI_ERR_GROUP when
/// the groups overlap.
pub(crate) fn accept(
    call: &mut (impl Progress + HasComms),
    name: impl FnOnce() -> Result<Vec<u8>>,
    root: c_int,
    comm: MPI_Comm,
) -> Result<MPI_Comm> {
    let open = call.comms().ports.clone();
    meet_other_group(call, root, comm, |call| open.accept(call, &name()?))
}

/// An intercommunicator with the group that accepts at a port (11.9.2). `name` is asked at the root only.
///
/// # Errors
/// As [`accept`].
pub(crate) fn connect(
    call: &mut (impl Progress + HasComms),
    name: impl FnOnce() -> Result<Vec<u8>>,
    root: c_int,
    comm: MPI_Comm,
) -> Result<MPI_Comm> {
    meet_other_group(call, root, comm, |call| ports::connect(call, &name()?))
}

fn meet_other_group<C: Progress + HasComms>(
    call: &mut C,
    root: c_int,
    comm: MPI_Comm,
    other: impl FnOnce(&mut C) -> Result<Meeting>,
) -> Result<MPI_Comm> {
    call.engine().job.connect();
    let intracomm = call.comms().intracomm(comm)?;
    let (root, group) = (intracomm.checked_root(root)?, intracomm.group.clone());
    let made = whole(call, comm)?.bridge(call, root, group, other)?;
    Ok(call.comms_mut().keep_child(comm, made))
}

/// An intercommunicator with the process at the other end of a socket ([`ports::join`]).
///
/// # Errors
/// MPI_ERR_ARG, MPI_ERR_OTHER.
pub(crate) fn join(call: &mut (impl Progress + HasComms), socket: c_int) -> Result<MPI_Comm> {
    call.engine().job.connect();
    let made = ports::join(call, socket)?;
    Ok(call.comms_mut().keep_child(MPI_COMM_SELF, made))
}

/// Publishes a port under the name of a service.
///
/// # Errors
/// MPI_ERR_SERVICE, MPI_ERR_PORT.
pub(crate) fn publish_name(call: &mut (impl Progress + HasComms), service: &[u8], port: &[u8]) -> Result<()> {
    call.comms().ports.clone().publish_name(call, service, port)
}

/// Takes back what this process has published.
///
/// # Errors
/// MPI_ERR_SERVICE.
pub(crate) fn unpublish_name(
    call: &mut (impl Progress + HasComms),
    service: &[u8],
    port: &[u8],
) -> Result<()> {
    call.comms().ports.clone().unpublish_name(call, service, port)
}

/// The port that is published under the name of a service.
///
/// # Errors
/// MPI_ERR_NAME when there is none.
pub(crate) fn lookup_name(call: &mut impl Progress, service: &[u8]) -> Result<Vec<u8>> {
    names::lookup_name(call, service)
}

/// Starts processes and makes an intercommunicator with them ([`spawn::spawn`]). Gives the codes too, if
/// it has come so far.
///
/// # Errors
/// MPI_ERR_COMM, MPI_ERR_ROOT; what is wrong with the wishes; MPI_ERR_SPAWN.
pub(crate) fn spawn(
    call: &mut (impl Progress + HasCollectives + HasComms + HasWindows + HasFiles),
    wishes: impl FnOnce() -> Result<Vec<Wish>>,
    root: c_int,
    comm: MPI_Comm,
) -> (Result<MPI_Comm>, Codes) {
    let mut codes = Vec::new();
    let made = spawn_with(call, wishes, root, comm, &mut codes);
    (made, codes)
}

fn spawn_with(
    call: &mut (impl Progress + HasCollectives + HasComms + HasWindows + HasFiles),
    wishes: impl FnOnce() -> Result<Vec<Wish>>,
    root: c_int,
    comm: MPI_Comm,
    codes: &mut Codes,
) -> Result<MPI_Comm> {
    // Their numbers may be what the new ones need.
    forget_left_ranks(call);
    call.engine().job.connect();
    let intracomm = call.comms().intracomm(comm)?;
    let (root, group) = (intracomm.checked_root(root)?, intracomm.group.clone());
    let meeting = whole(call, comm)?;
    let made = spawn::spawn(call, &meeting, root, group, wishes, codes)?;
    Ok(call.comms_mut().keep_child(comm, made))
}

/// Meets those who have started this process, from MPI_Init.
pub(crate) fn meet_parents(call: &mut (impl Progress + HasComms), spawned: &Spawned) {
    let group = Rc::clone(&call.comms().world().group);
    let meeting = whole(call, MPI_COMM_WORLD);
    match meeting.and_then(|meeting| spawn::meet_parents(call, &meeting, group, spawned)) {
        Ok(mut made) => {
            // 7.8: the one name of a communicator that is not a constant.
            made.name = b"MPI_COMM_PARENT".to_vec();
            call.comms_mut().parent = call.comms_mut().keep_child(MPI_COMM_WORLD, made);
        }
        Err(error) => tutti_runtime::log::line(format_args!(
            "rank {}: no communicator with those who started this process: {error}",
            call.engine().world_rank()
        )),
    }
}

/// Frees a communicator: its attributes are deleted, then the handle is stale. Pending operations go on;
/// they hold what they need, and the context is never used again.
///
/// # Errors
/// MPI_ERR_COMM; whatever a delete callback of the user returned, and then the communicator stays.
pub(crate) fn free_comm(call: &mut impl EndsComms, handle: MPI_Comm) -> Result<()> {
    check_own(call, handle)?;
    attribute_calls::delete_all(call, Owner::Comm(handle))?;
    // A callback of the user may have freed it itself.
    call.comms().find(handle)?;
    if call.comms().parent == handle {
        call.comms_mut().parent = MPI_COMM_NULL;
        call.engine().job.part();
    }
    let has_guests = call.comms().find(handle)?.has_guests(call.engine());
    if let Some(index) = call.comms().made.index(handle.0) {
        let mut comm = call.comms_mut().made.remove(index);
        comm.collective.release(&call.engine().job);
        call.comms_mut().keep_freed(comm.context, handle, comm.errhandler);
        let ended = call.comms().ended(call.engine());
        call.comms_mut().forget_freed(&ended);
    }
    if has_guests {
        let launches = call.comms().launches(call.engine());
        call.engine_mut().keep_connected(&launches);
    }
    forget_left_ranks(call);
    let is_alone = call.engine().job.present_ranks().len() == call.comms().world().group.size();
    if !is_alone && call.comms().is_separate() {
        call.engine().job.separate();
    }
    Ok(())
}

/// The same, by the program: those who are connected by it stay so (MPI 11.10.4).
///
/// # Errors
/// As [`free_comm`].
pub(crate) fn free_connected(call: &mut impl EndsComms, handle: MPI_Comm) -> Result<()> {
    call.comms_mut().stay_connected(handle);
    free_comm(call, handle)
}

/// Frees a communicator when all its messages have arrived, at all members.
///
/// # Errors
/// As [`free_comm`].
pub(crate) fn disconnect_comm(call: &mut impl EndsComms, handle: MPI_Comm) -> Result<()> {
    check_own(call, handle)?;
    let comm = call.comms().find(handle)?;
    let contexts = comm.context..comm.context + CONTEXTS_PER_COMM;
    let pending = |request: &Request| !request.done && contexts.contains(&request.context);
    call.wait(None, Goal::Pending(&pending), |engine| {
        (!engine.requests.iter().any(|(_, request)| pending(request))).then_some(())
    });
    if call.comms().parent == handle {
        // Before the others know it: they may ask for other ranks at once.
        call.engine().job.part();
    }
    // Members of other launches may be gone, which is no error here.
    if !call.comms().find(handle)?.has_guests(call.engine()) {
        whole(call, handle)?.allgather(call, [0])?;
    }
    free_comm(call, handle)
}

fn check_own(call: &impl HasComms, handle: MPI_Comm) -> Result<()> {
    call.comms().find(handle)?;
    let predefined = [(MPI_COMM_WORLD, "MPI_COMM_WORLD"), (MPI_COMM_SELF, "MPI_COMM_SELF")];
    let name = predefined.into_iter().find(|(comm, _)| *comm == handle).map(|(_, name)| name);
    check(name.is_none(), MPI_ERR_COMM, || {
        format!("comm is {}, which cannot be freed", name.unwrap_or_default())
    })
}

/// Forgets the ranks that have left and that nothing here names ([`super::reuse`]). What frees a communicator
/// or group looks again by itself, a wait does for what ends without a call.
#[cold]
pub(crate) fn forget_left_ranks(
    call: &mut (impl Progress + HasCollectives + HasComms + HasWindows + HasFiles),
) {
    let forgets_guests = !has_collectives(call);
    let mut keeps = false;
    for rank in call.engine_mut().left_ranks() {
        if call.comms().has_handles_of(rank as u32) {
            continue;
        }
        if call.engine().is_guest(rank) && !forgets_guests || names(call, rank as u32) {
            keeps = true;
            continue;
        }
        match call.engine_mut().try_forget(rank) {
            Left::Kept => keeps = true,
            Left::Forgotten => {}
            Left::ForgottenFar => call.rank().forget_remote(rank),
        }
    }
    call.engine_mut().keeps_left_ranks = keeps;
}

/// Whether a collective operation goes on by itself. The tasks of ports and shared file pointers always
/// do.
fn has_collectives(call: &(impl HasCollectives + HasComms + HasFiles)) -> bool {
    call.colls().schedules.iter().count() > call.comms().port_tasks() + call.files().servers()
}

/// Whether something that the program may use names a rank, beside handles of communicators and groups.
fn names(call: &(impl Progress + HasComms + HasWindows), rank: u32) -> bool {
    let has = |group: &Group| group.contains(rank);
    call.engine().contexts.is_bridging(rank)
        || call.comms().names(rank)
        || call.wins().iter().any(|window| has(&window.group))
        || call.engine().requests.iter().any(|(_, request)| request.group.as_deref().is_some_and(has))
}
