//! MPI 11.3: sessions, process sets, and communicators made from groups.

use core::ffi::{CStr, c_char, c_int};
use std::rc::Rc;

use crate::abi::*;
use crate::argument::{get, put, text};
use crate::comm::from_groups::StringTag;
use crate::comm::{Comms, HasComms};
use crate::errhandler::{self, Object};
use crate::error::{Error, Result, check};
use crate::info::{self, Info};
use crate::lifecycle;
use crate::process;
use crate::process::entry::{self, on_session};
use crate::session::Environment;
use crate::session::HasEnvironment;
use crate::session::{PSETS, Session, process_set};

const LEVELS: [(c_int, &[u8]); 4] = [
    (MPI_THREAD_SINGLE, b"MPI_THREAD_SINGLE"),
    (MPI_THREAD_FUNNELED, b"MPI_THREAD_FUNNELED"),
    (MPI_THREAD_SERIALIZED, b"MPI_THREAD_SERIALIZED"),
    (MPI_THREAD_MULTIPLE, b"MPI_THREAD_MULTIPLE"),
];

/// Opens a session (11.3.1).
#[inline]
pub unsafe fn MPI_Session_init(
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    session: *mut MPI_Session,
) -> c_int {
    let open = || {
        check(!session.is_null(), MPI_ERR_ARG, || "session is a null pointer".into())?;
        errhandler::check_for(Object::Session, errhandler)?;
        let wanted = info::hints(info)?;
        let named = |name: &[u8]| LEVELS.iter().find(|(_, level)| *level == name).map(|(level, _)| *level);
        let thread_level = match wanted.get(b"thread_level") {
            None => MPI_THREAD_SINGLE,
            Some(name) => named(name).ok_or_else(|| {
                let name = String::from_utf8_lossy(name);
                Error::new(MPI_ERR_ARG, format_args!("thread_level is \"{name}\", expected MPI_THREAD_*"))
            })?,
        };
        let opened = lifecycle::open(Session { errhandler, thread_level, origin: Rc::default() })?;
        errhandler::retain(errhandler);
        // SAFETY: the user gives a place for the session.
        unsafe { put(session, "session", opened) }
    };
    match open() {
        Ok(()) => MPI_SUCCESS,
        Err(error) => entry::raise_anywhere(c"MPI_Session_init", errhandler, MPI_SESSION_NULL.0, error),
    }
}

/// Closes a session (11.3.1).
#[inline]
pub unsafe fn MPI_Session_finalize(session: *mut MPI_Session) -> c_int {
    // SAFETY: the user gives a place that holds a handle.
    let handle = unsafe { get(session, "session") };
    let result =
        on_session(c"MPI_Session_finalize", *handle.as_ref().unwrap_or(&MPI_SESSION_NULL), |guard| {
            let handle = handle?;
            if let Some(index) = guard.env.sessions.index(handle.0) {
                let session = guard.env.sessions.remove(index);
                session.origin.buffer.take();
                errhandler::release(session.errhandler);
            }
            // SAFETY: as above.
            unsafe { put(session, "session", MPI_SESSION_NULL) }
        });
    if result == MPI_SUCCESS {
        lifecycle::closed();
    }
    result
}

/// The name of a process set, as much as fits, and its whole length (11.3.2).
#[inline]
pub unsafe fn MPI_Session_get_nth_pset(
    session: MPI_Session,
    _info: MPI_Info,
    n: c_int,
    pset_len: *mut c_int,
    pset_name: *mut c_char,
) -> c_int {
    on_session(c"MPI_Session_get_nth_pset", session, |_| {
        let name = usize::try_from(n).ok().and_then(|n| PSETS.get(n)).ok_or_else(|| {
            Error::new(MPI_ERR_ARG, format_args!("n is {n}, expected 0 to {}", PSETS.len() - 1))
        })?;
        // SAFETY: the user gives a place with the length of the other one.
        let room = unsafe { get(pset_len, "pset_len") }?;
        if room > 0 {
            check(!pset_name.is_null(), MPI_ERR_ARG, || "pset_name is a null pointer".into())?;
            let bytes = name.len().min(room as usize - 1);
            // SAFETY: the user gives room for pset_len bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(name.as_ptr().cast(), pset_name, bytes);
                pset_name.add(bytes).write(0);
            }
        }
        // SAFETY: as above.
        unsafe { put(pset_len, "pset_len", name.len() as c_int + 1) }
    })
}

/// The communicator of a group (7.4.2).
#[inline]
pub unsafe fn MPI_Comm_create_from_group(
    group: MPI_Group,
    stringtag: *const c_char,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    newcomm: *mut MPI_Comm,
) -> c_int {
    // SAFETY: the user gives a text and a place for the communicator.
    unsafe {
        entry::call_with_handler(c"MPI_Comm_create_from_group", errhandler, |guard| {
            let (tag, hints) = without_parent(stringtag, info, errhandler, newcomm)?;
            let group = guard.comms.group(group)?;
            let made = tag.create(guard, group)?;
            let made = made.map_or(MPI_COMM_NULL, |comm| guard.comms.keep_orphan(comm, &hints, errhandler));
            put(newcomm, "newcomm", made)
        })
    }
}

/// An intercommunicator between two groups (7.6.2).
#[inline]
pub unsafe fn MPI_Intercomm_create_from_groups(
    local_group: MPI_Group,
    local_leader: c_int,
    remote_group: MPI_Group,
    remote_leader: c_int,
    stringtag: *const c_char,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    newintercomm: *mut MPI_Comm,
) -> c_int {
    // SAFETY: the user gives a text and a place for the communicator.
    unsafe {
        entry::call_with_handler(c"MPI_Intercomm_create_from_groups", errhandler, |guard| {
            let (tag, hints) = without_parent(stringtag, info, errhandler, newintercomm)?;
            let local = guard.comms.group(local_group)?;
            // Without members on one side there is none on the other, and nobody to meet (7.6.2).
            let made = match local.size() == 0 || remote_group == MPI_GROUP_EMPTY {
                true => None,
                false => {
                    let remote = |call: &_| HasComms::comms(call).group(remote_group);
                    Some(tag.create_intercomm(guard, local, local_leader, remote, remote_leader)?)
                }
            };
            let made = made.map_or(MPI_COMM_NULL, |comm| guard.comms.keep_orphan(comm, &hints, errhandler));
            put(newintercomm, "newcomm", made)
        })
    }
}

/// The hints that a session uses.
pub(super) fn info(env: &Environment, session: MPI_Session) -> Result<MPI_Info> {
    let level = env.session(session)?.thread_level;
    let mut used = Info::default();
    if let Some((_, name)) = LEVELS.iter().find(|(number, _)| *number == level) {
        used.set(b"thread_level", name);
    }
    Ok(info::keep(used.with_memory_kinds()))
}

/// How many process sets there are.
pub(super) fn count() -> Result<usize> {
    Ok(PSETS.len())
}

/// Info of a process set: how many processes it has.
pub(super) fn set_info(comms: &Comms, name: &[u8]) -> Result<MPI_Info> {
    let mut known = Info::default();
    known.set(b"mpi_size", process_set(comms, name)?.size().to_string().as_bytes());
    Ok(info::keep(known))
}

/// The group of a process set.
pub(super) fn group(
    call: &mut (impl HasComms + HasEnvironment),
    session: MPI_Session,
    name: &[u8],
) -> Result<MPI_Group> {
    let origin = call.env().session(session)?.origin.clone();
    let set = process_set(call.comms(), name)?.of_session(origin);
    Ok(call.comms_mut().keep_group(Rc::new(set)))
}

/// Arguments of a call that makes a communicator without a parent: the tag, the hints.
unsafe fn without_parent(
    stringtag: *const c_char,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    newcomm: *mut MPI_Comm,
) -> Result<(StringTag, Info)> {
    check(!newcomm.is_null(), MPI_ERR_ARG, || "newcomm is a null pointer".into())?;
    errhandler::check_for(Object::Comm, errhandler)?;
    // SAFETY: the user gives a text.
    let tag = StringTag::new(unsafe { text(stringtag, "stringtag") }?)?;
    Ok((tag, info::hints(info)?))
}

/// Calls the error handler of a session (9.5).
#[inline]
pub unsafe fn MPI_Session_call_errhandler(session: MPI_Session, errorcode: c_int) -> c_int {
    const NAME: &CStr = c"MPI_Session_call_errhandler";
    if let Some(guard) = process::enter()
        && let Ok(found) = guard.env.session(session)
    {
        let handler = found.errhandler;
        entry::call_handler(guard, NAME, handler, session.0, errorcode);
        return MPI_SUCCESS;
    }
    on_session(NAME, session, |_| Ok(()))
}
