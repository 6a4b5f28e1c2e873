//! MPI chapter 7: communicators. Names stand in `names.rs`, attributes in `attributes.rs`.

use core::ffi::c_int;

use crate::abi::*;
use crate::argument::{get, put};
use crate::comm::intercomm::Bridge;
use crate::comm::machine::{RESOURCE_KEY, SHARED_MEMORY};
use crate::errhandler::call;
use crate::error::{Result, check};
use crate::info;
use crate::process::Guard;

/// Size of the local group (7.4.1).
#[inline]
pub unsafe fn MPI_Comm_size(comm: MPI_Comm, size: *mut c_int) -> c_int {
    call(c"MPI_Comm_size", comm, |guard| {
        let ranks = guard.comm(comm)?.size();
        // SAFETY: the user gives a place for the size.
        unsafe { put(size, "size", ranks as c_int) }
    })
}

/// Rank in the local group (7.4.1).
#[inline]
pub unsafe fn MPI_Comm_rank(comm: MPI_Comm, rank: *mut c_int) -> c_int {
    call(c"MPI_Comm_rank", comm, |guard| {
        let mine = guard.comm(comm)?.rank;
        // SAFETY: the user gives a place for the rank.
        unsafe { put(rank, "rank", mine as c_int) }
    })
}

/// How two communicators are alike (7.4.1).
#[inline]
pub unsafe fn MPI_Comm_compare(comm1: MPI_Comm, comm2: MPI_Comm, result: *mut c_int) -> c_int {
    call(c"MPI_Comm_compare", comm1, |guard| {
        let likeness = guard.comm(comm1)?.compare(guard.comm(comm2)?);
        // SAFETY: the user gives a place for the result.
        unsafe { put(result, "result", likeness) }
    })
}

/// Whether it is an intercommunicator (7.6.1).
#[inline]
pub unsafe fn MPI_Comm_test_inter(comm: MPI_Comm, flag: *mut c_int) -> c_int {
    call(c"MPI_Comm_test_inter", comm, |guard| {
        let is_inter = guard.comm(comm)?.remote.is_some();
        // SAFETY: the user gives a place for the flag.
        unsafe { put(flag, "flag", c_int::from(is_inter)) }
    })
}

/// Size of the remote group (7.6.1).
#[inline]
pub unsafe fn MPI_Comm_remote_size(comm: MPI_Comm, size: *mut c_int) -> c_int {
    call(c"MPI_Comm_remote_size", comm, |guard| {
        let ranks = guard.intercomm(comm)?.1.size();
        // SAFETY: the user gives a place for the size.
        unsafe { put(size, "size", ranks as c_int) }
    })
}

/// The local group (7.3.2).
#[inline]
pub unsafe fn MPI_Comm_group(comm: MPI_Comm, group: *mut MPI_Group) -> c_int {
    call(c"MPI_Comm_group", comm, |guard| {
        let members = guard.comm(comm)?.group.clone();
        let made = guard.keep_group(members);
        // SAFETY: the user gives a place for the group.
        unsafe { put(group, "group", made) }
    })
}

/// The remote group (7.6.1).
#[inline]
pub unsafe fn MPI_Comm_remote_group(comm: MPI_Comm, group: *mut MPI_Group) -> c_int {
    call(c"MPI_Comm_remote_group", comm, |guard| {
        let members = guard.intercomm(comm)?.1.clone();
        let made = guard.keep_group(members);
        // SAFETY: the user gives a place for the group.
        unsafe { put(group, "group", made) }
    })
}

/// Runs a call that makes a communicator.
#[inline(always)]
unsafe fn make(
    name: &'static core::ffi::CStr,
    parent: MPI_Comm,
    newcomm: *mut MPI_Comm,
    body: impl FnOnce(&mut Guard) -> Result<MPI_Comm>,
) -> c_int {
    call(name, parent, |guard| {
        check(!newcomm.is_null(), MPI_ERR_ARG, || "newcomm is a null pointer".into())?;
        let made = body(guard)?;
        // SAFETY: the user gives a place for the communicator.
        unsafe { put(newcomm, "newcomm", made) }
    })
}

/// A duplicate with the attributes (7.4.2).
#[inline]
pub unsafe fn MPI_Comm_dup(comm: MPI_Comm, newcomm: *mut MPI_Comm) -> c_int {
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Comm_dup", comm, newcomm, |guard| guard.dup_comm(comm, None)) }
}

/// A duplicate with the attributes and other hints (7.4.2).
#[inline]
pub unsafe fn MPI_Comm_dup_with_info(comm: MPI_Comm, info: MPI_Info, newcomm: *mut MPI_Comm) -> c_int {
    let body = |guard: &mut Guard| {
        let hints = info::hints(info)?;
        guard.dup_comm(comm, Some(hints))
    };
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Comm_dup_with_info", comm, newcomm, body) }
}

/// Runs a call that starts a duplicate.
#[inline(always)]
unsafe fn start_dup(
    name: &'static core::ffi::CStr,
    comm: MPI_Comm,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
    hints: impl FnOnce() -> Result<Option<info::Info>>,
) -> c_int {
    call(name, comm, |guard| {
        check(!newcomm.is_null(), MPI_ERR_ARG, || "newcomm is a null pointer".into())?;
        check(!request.is_null(), MPI_ERR_REQUEST, || "request is a null pointer".into())?;
        let hints = hints()?;
        let (made, pending) = guard.start_dup_comm(comm, hints)?;
        // SAFETY: the user gives places for the communicator and the request.
        unsafe {
            put(newcomm, "newcomm", made)?;
            put(request, "request", pending)
        }
    })
}

/// Starts a duplicate, which may be used when the request is done (7.4.2).
#[inline]
pub unsafe fn MPI_Comm_idup(comm: MPI_Comm, newcomm: *mut MPI_Comm, request: *mut MPI_Request) -> c_int {
    // SAFETY: as the user's.
    unsafe { start_dup(c"MPI_Comm_idup", comm, newcomm, request, || Ok(None)) }
}

/// Starts a duplicate with other hints (7.4.2).
#[inline]
pub unsafe fn MPI_Comm_idup_with_info(
    comm: MPI_Comm,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: as the user's.
    unsafe { start_dup(c"MPI_Comm_idup_with_info", comm, newcomm, request, || info::hints(info).map(Some)) }
}

/// The communicator of a subgroup (7.4.2).
#[inline]
pub unsafe fn MPI_Comm_create(comm: MPI_Comm, group: MPI_Group, newcomm: *mut MPI_Comm) -> c_int {
    let body = |guard: &mut Guard| {
        let group = guard.group(group)?;
        guard.create_comm(comm, group)
    };
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Comm_create", comm, newcomm, body) }
}

/// The communicator of a subgroup, called by its members only (7.4.2).
#[inline]
pub unsafe fn MPI_Comm_create_group(
    comm: MPI_Comm,
    group: MPI_Group,
    tag: c_int,
    newcomm: *mut MPI_Comm,
) -> c_int {
    let body = |guard: &mut Guard| {
        let group = guard.group(group)?;
        guard.create_comm_of_group(comm, group, tag)
    };
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Comm_create_group", comm, newcomm, body) }
}

/// One communicator for each color (7.4.2).
#[inline]
pub unsafe fn MPI_Comm_split(comm: MPI_Comm, color: c_int, key: c_int, newcomm: *mut MPI_Comm) -> c_int {
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Comm_split", comm, newcomm, |guard| guard.split_comm(comm, color, key)) }
}

/// One communicator for each part of the machine (7.4.2).
#[inline]
pub unsafe fn MPI_Comm_split_type(
    comm: MPI_Comm,
    split_type: c_int,
    key: c_int,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
) -> c_int {
    let body = |guard: &mut Guard| {
        let hints = info::hints(info)?;
        let part = guard.split_comm_by_type(comm, split_type, key, &hints)?;
        // Who did not ask for a kind of part is told which one it is.
        if split_type == MPI_COMM_TYPE_HW_UNGUIDED && part != MPI_COMM_NULL && info != MPI_INFO_NULL {
            info::change(info, |info| {
                info.set(RESOURCE_KEY, SHARED_MEMORY);
                Ok(())
            })?;
        }
        Ok(part)
    };
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Comm_split_type", comm, newcomm, body) }
}

/// An intercommunicator between two groups (7.6.2).
#[inline]
pub unsafe fn MPI_Intercomm_create(
    local_comm: MPI_Comm,
    local_leader: c_int,
    peer_comm: MPI_Comm,
    remote_leader: c_int,
    tag: c_int,
    newintercomm: *mut MPI_Comm,
) -> c_int {
    let bridge = Bridge { local: local_comm, local_leader, peer: peer_comm, remote_leader, tag };
    let body = |guard: &mut Guard| guard.create_intercomm(bridge);
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Intercomm_create", local_comm, newintercomm, body) }
}

/// One communicator of both groups (7.6.2).
#[inline]
pub unsafe fn MPI_Intercomm_merge(intercomm: MPI_Comm, high: c_int, newintracomm: *mut MPI_Comm) -> c_int {
    let body = |guard: &mut Guard| guard.merge_intercomm(intercomm, high != 0);
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Intercomm_merge", intercomm, newintracomm, body) }
}

/// Ends a communicator for this process (7.4.3).
#[inline]
pub unsafe fn MPI_Comm_free(comm: *mut MPI_Comm) -> c_int {
    // SAFETY: as the user's.
    unsafe { end(c"MPI_Comm_free", comm, Guard::free_comm) }
}

/// Ends a communicator when all its messages have arrived (11.10.4).
#[inline]
pub unsafe fn MPI_Comm_disconnect(comm: *mut MPI_Comm) -> c_int {
    // SAFETY: as the user's.
    unsafe { end(c"MPI_Comm_disconnect", comm, Guard::disconnect_comm) }
}

unsafe fn end(
    name: &'static core::ffi::CStr,
    comm: *mut MPI_Comm,
    body: impl FnOnce(&mut Guard, MPI_Comm) -> Result<()>,
) -> c_int {
    // SAFETY: the user gives a place that holds a handle.
    let handle = unsafe { get(comm, "comm") };
    call(name, *handle.as_ref().unwrap_or(&MPI_COMM_SELF), |guard| {
        body(guard, handle?)?;
        // SAFETY: as above.
        unsafe { put(comm, "comm", MPI_COMM_NULL) }
    })
}

/// The communicator with the processes that started this one: there is none (11.8.2).
#[inline]
pub unsafe fn MPI_Comm_get_parent(parent: *mut MPI_Comm) -> c_int {
    call(c"MPI_Comm_get_parent", MPI_COMM_SELF, |_| {
        // SAFETY: the user gives a place for the communicator.
        unsafe { put(parent, "parent", MPI_COMM_NULL) }
    })
}

/// Sets hints (7.4.4).
#[inline]
pub unsafe fn MPI_Comm_set_info(comm: MPI_Comm, info: MPI_Info) -> c_int {
    call(c"MPI_Comm_set_info", comm, |guard| {
        guard.comm(comm)?;
        let hints = info::read(info, |info| Ok(info.clone()))?;
        guard.comm_mut(comm)?.take_hints(&hints);
        Ok(())
    })
}

/// The hints that are in use (7.4.4).
#[inline]
pub unsafe fn MPI_Comm_get_info(comm: MPI_Comm, info_used: *mut MPI_Info) -> c_int {
    call(c"MPI_Comm_get_info", comm, |guard| {
        let hints = guard.comm(comm)?.hints.clone();
        // SAFETY: the user gives a place for the info object.
        unsafe { put(info_used, "info_used", info::keep(hints)) }
    })
}
