//! MPI chapter 7: communicators. Names stand in `names.rs`, attributes in `attributes.rs`.

use core::ffi::{CStr, c_int};

use crate::abi::*;
use crate::argument::{get, put};
use crate::attributes::HasAttributes;
use crate::collective::state::HasCollectives;
use crate::comm::Comms;
use crate::comm::HasComms;
use crate::comm::calls;
use crate::comm::intercomm::Bridge;
use crate::comm::machine::{RESOURCE_KEY, SHARED_MEMORY};
use crate::datatype::HasTypes;
use crate::error::Result;
use crate::file::HasFiles;
use crate::info;
use crate::phase::{FORKED, phase};
use crate::process::entry::call;
use crate::process::{self, Process};
use crate::progress::Progress;
use crate::win::HasWindows;

/// Size of the local group.
///
/// # Safety
/// `size` is valid for writing, or null.
#[inline]
pub(super) unsafe fn size(name: &'static CStr, comm: MPI_Comm, size: *mut c_int) -> c_int {
    // SAFETY: our contract.
    unsafe { ask(name, comm, (size, "size"), |process| Ok(process.comms.find(comm)?.size())) }
}

/// Rank in the local group.
///
/// # Safety
/// `rank` is valid for writing, or null.
#[inline]
pub(super) unsafe fn rank(name: &'static CStr, comm: MPI_Comm, rank: *mut c_int) -> c_int {
    // SAFETY: our contract.
    unsafe { ask(name, comm, (rank, "rank"), |process| Ok(process.comms.find(comm)?.rank)) }
}

/// A number of a communicator, which a forked child may ask for too: a worker names itself by it.
///
/// # Safety
/// The place is valid for writing, or null.
#[inline(always)]
unsafe fn ask(
    name: &'static CStr,
    comm: MPI_Comm,
    (place, parameter): (*mut c_int, &str),
    find: impl Fn(&Process) -> Result<usize>,
) -> c_int {
    if phase() == FORKED
        && let Some(number) = process::state_before_fork().and_then(|process| find(process).ok())
        && !place.is_null()
    {
        // SAFETY: our contract.
        unsafe { place.write(number as c_int) };
        return MPI_SUCCESS;
    }
    // SAFETY: our contract.
    call(name, comm, |guard| unsafe { put(place, parameter, find(guard)? as c_int) })
}

/// How two communicators are alike.
pub(super) fn compare(comms: &Comms, comm: MPI_Comm, other: MPI_Comm) -> Result<c_int> {
    Ok(comms.find(comm)?.compare(comms.find(other)?))
}

pub(super) fn is_inter(comms: &Comms, comm: MPI_Comm) -> Result<bool> {
    Ok(comms.find(comm)?.remote.is_some())
}

/// Size of the remote group.
///
/// # Safety
/// `size` is valid for writing, or null.
#[inline]
pub(super) unsafe fn remote_size(name: &'static CStr, comm: MPI_Comm, size: *mut c_int) -> c_int {
    // SAFETY: our contract.
    unsafe { ask(name, comm, (size, "size"), |process| Ok(process.comms.intercomm(comm)?.1.size())) }
}

/// The local group.
pub(super) fn group(call: &mut impl HasComms, comm: MPI_Comm) -> Result<MPI_Group> {
    let members = call.comms().find(comm)?.group.clone();
    Ok(call.comms_mut().keep_group(members))
}

pub(super) fn remote_group(call: &mut impl HasComms, comm: MPI_Comm) -> Result<MPI_Group> {
    let members = call.comms().intercomm(comm)?.1.clone();
    Ok(call.comms_mut().keep_group(members))
}

pub(super) fn duplicate_with_info(
    call: &mut (impl Progress + HasComms + HasTypes + HasAttributes + HasWindows),
    comm: MPI_Comm,
    info: MPI_Info,
) -> Result<MPI_Comm> {
    let hints = info::hints(info)?;
    calls::dup_comm(call, comm, Some(hints))
}

pub(super) fn start_duplicate_with_info(
    call: &mut (impl Progress + HasComms + HasTypes + HasAttributes + HasWindows),
    comm: MPI_Comm,
    info: MPI_Info,
) -> Result<(MPI_Comm, MPI_Request)> {
    let hints = info::hints(info)?;
    calls::start_dup_comm(call, comm, Some(hints))
}

/// The communicator of a subgroup.
pub(super) fn create(
    call: &mut (impl Progress + HasComms),
    comm: MPI_Comm,
    group: MPI_Group,
) -> Result<MPI_Comm> {
    let group = call.comms().group(group)?;
    calls::create_comm(call, comm, group)
}

/// The same, called by the members of the subgroup only.
pub(super) fn create_of_group(
    call: &mut (impl Progress + HasComms),
    comm: MPI_Comm,
    group: MPI_Group,
    tag: c_int,
) -> Result<MPI_Comm> {
    let group = call.comms().group(group)?;
    calls::create_comm_of_group(call, comm, group, tag)
}

/// One communicator for each part of the machine.
pub(super) fn split_by_type(
    call: &mut (impl Progress + HasComms),
    comm: MPI_Comm,
    split_type: c_int,
    key: c_int,
    info: MPI_Info,
) -> Result<MPI_Comm> {
    let hints = info::hints(info)?;
    let color = call.comms().find(comm)?.part_of_machine(call.engine(), split_type, &hints)?;
    let part = calls::split_comm(call, comm, color, key)?;
    // A call that did not ask for a kind of part learns which one it is.
    if split_type == MPI_COMM_TYPE_HW_UNGUIDED && part != MPI_COMM_NULL && info != MPI_INFO_NULL {
        info::change(info, |info| {
            info.set(RESOURCE_KEY, SHARED_MEMORY);
            Ok(())
        })?;
    }
    Ok(part)
}

/// An intercommunicator between two groups.
pub(super) fn create_inter(
    call: &mut (impl Progress + HasComms),
    local: MPI_Comm,
    local_leader: c_int,
    peer: MPI_Comm,
    remote_leader: c_int,
    tag: c_int,
) -> Result<MPI_Comm> {
    calls::create_intercomm(call, Bridge { local, local_leader, peer, remote_leader, tag })
}

/// Ends a communicator for this process (7.4.3).
#[inline]
pub unsafe fn MPI_Comm_free(comm: *mut MPI_Comm) -> c_int {
    // SAFETY: as the user's.
    unsafe { end(c"MPI_Comm_free", comm, false) }
}

/// Ends a communicator when all its messages have arrived (11.10.4).
#[inline]
pub unsafe fn MPI_Comm_disconnect(comm: *mut MPI_Comm) -> c_int {
    // SAFETY: as the user's.
    unsafe { end(c"MPI_Comm_disconnect", comm, true) }
}

unsafe fn end(name: &'static core::ffi::CStr, comm: *mut MPI_Comm, waits: bool) -> c_int {
    // SAFETY: the user gives a place that holds a handle.
    let handle = unsafe { get(comm, "comm") };
    call(name, *handle.as_ref().unwrap_or(&MPI_COMM_NULL), |guard| {
        match waits {
            true => calls::disconnect_comm(guard, handle?),
            false => calls::free_connected(guard, handle?),
        }?;
        // SAFETY: as above.
        unsafe { put(comm, "comm", MPI_COMM_NULL) }
    })
}

/// The communicator with the processes that started this one.
pub(super) fn parent(comms: &Comms) -> Result<MPI_Comm> {
    Ok(comms.parent())
}

pub(super) fn set_info(call: &mut impl HasComms, comm: MPI_Comm, info: MPI_Info) -> Result<()> {
    call.comms().find(comm)?;
    let hints = info::read(info, |info| Ok(info.clone()))?;
    call.comms_mut().find_mut(comm)?.take_hints(&hints);
    Ok(())
}

/// The hints that are in use.
pub(super) fn info(comms: &Comms, comm: MPI_Comm) -> Result<MPI_Info> {
    Ok(info::keep(comms.find(comm)?.hints.clone().with_memory_kinds()))
}

/// Lets go of a group; gives the handle that the user has then. That of the empty group may be given back
/// too, and stays.
pub(super) fn free_group(
    call: &mut (impl Progress + HasCollectives + HasComms + HasWindows + HasFiles),
    group: MPI_Group,
) -> Result<MPI_Group> {
    call.comms().group(group)?;
    if call.comms_mut().free_group(group) {
        calls::forget_left_ranks(call);
    }
    Ok(MPI_GROUP_NULL)
}
