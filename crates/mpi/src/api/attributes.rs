//! MPI 7.7: attributes of communicators, datatypes and windows; the names of MPI-1 too.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::attribute_calls;
use crate::attributes::{Object, Owner};
use crate::error::{Result, check};
use crate::error_codes;
use crate::process::Guard;

pub(super) fn create_key(
    guard: &mut Guard,
    object: Object,
    copy: usize,
    delete: usize,
    extra_state: *mut c_void,
) -> Result<c_int> {
    Ok(attribute_calls::create_key(guard, object, copy, delete, extra_state as usize))
}

/// Frees a key; gives what the user has then.
pub(super) fn free_key(guard: &mut Guard, object: Object, key: c_int) -> Result<c_int> {
    attribute_calls::free_key(guard, object, key)?;
    Ok(MPI_KEYVAL_INVALID)
}

/// A value as it is written, and whether there is one.
fn found(value: Option<usize>) -> (Option<*mut c_void>, bool) {
    (value.map(|value| value as *mut c_void), value.is_some())
}

/// Address of the value of a predefined attribute of a communicator; none when it has no value there; nothing
/// for other keys.
fn predefined(guard: &mut Guard, of_session: bool, keyval: c_int) -> Option<Option<usize>> {
    static TAG_UB: c_int = c_int::MAX;
    static IO: c_int = MPI_ANY_SOURCE;
    static HOST: c_int = MPI_PROC_NULL;
    static YES: c_int = 1;
    let place: *const c_int = match keyval {
        MPI_TAG_UB => &TAG_UB,
        MPI_IO => &IO,
        MPI_HOST => &HOST,
        // One clock for all processes of a node.
        MPI_WTIME_IS_GLOBAL => &YES,
        MPI_LASTUSEDCODE => error_codes::LAST_USED.as_ptr(),
        MPI_UNIVERSE_SIZE => &guard.env.universe_size,
        MPI_APPNUM => match &guard.env.app_number {
            Some(number) => number,
            None => return Some(None),
        },
        _ => return None,
    };
    // What else describes the environment describes that of MPI_COMM_WORLD.
    Some((!of_session || keyval == MPI_TAG_UB).then_some(place as usize))
}

fn check_not_predefined(guard: &mut Guard, keyval: c_int) -> Result<()> {
    check(predefined(guard, false, keyval).is_none(), MPI_ERR_KEYVAL, || {
        format!("key {keyval} is predefined, its attribute cannot be changed")
    })
}

pub(super) fn set_of_comm(guard: &mut Guard, comm: MPI_Comm, key: c_int, value: *mut c_void) -> Result<()> {
    guard.comms.find(comm)?;
    check_not_predefined(guard, key)?;
    attribute_calls::set(guard, Owner::Comm(comm), key, value as usize)
}

pub(super) fn of_comm(guard: &mut Guard, comm: MPI_Comm, key: c_int) -> Result<(Option<*mut c_void>, bool)> {
    let of_session = guard.comms.find(comm)?.of_session;
    Ok(found(match predefined(guard, of_session, key) {
        Some(value) => value,
        None => attribute_calls::get(guard, Owner::Comm(comm), key)?,
    }))
}

pub(super) fn delete_of_comm(guard: &mut Guard, comm: MPI_Comm, key: c_int) -> Result<()> {
    guard.comms.find(comm)?;
    check_not_predefined(guard, key)?;
    attribute_calls::delete(guard, Owner::Comm(comm), key)
}

pub(super) fn set_of_type(
    guard: &mut Guard,
    datatype: MPI_Datatype,
    key: c_int,
    value: *mut c_void,
) -> Result<()> {
    attribute_calls::set(guard, Owner::Datatype(datatype), key, value as usize)
}

pub(super) fn of_type(
    guard: &Guard,
    datatype: MPI_Datatype,
    key: c_int,
) -> Result<(Option<*mut c_void>, bool)> {
    Ok(found(attribute_calls::get(guard, Owner::Datatype(datatype), key)?))
}

pub(super) fn delete_of_type(guard: &mut Guard, datatype: MPI_Datatype, key: c_int) -> Result<()> {
    attribute_calls::delete(guard, Owner::Datatype(datatype), key)
}

/// Address of the value of a predefined attribute of a window; the value itself for MPI_WIN_BASE.
fn predefined_of_window(guard: &Guard, win: MPI_Win, keyval: c_int) -> Result<Option<usize>> {
    let values = &guard.wins.find(win)?.values;
    Ok(Some(match keyval {
        MPI_WIN_BASE => values.base,
        MPI_WIN_SIZE => (&raw const values.bytes).expose_provenance(),
        MPI_WIN_DISP_UNIT => (&raw const values.disp_unit).expose_provenance(),
        MPI_WIN_CREATE_FLAVOR => (&raw const values.flavor).expose_provenance(),
        MPI_WIN_MODEL => (&raw const values.model).expose_provenance(),
        _ => return Ok(None),
    }))
}

fn check_not_of_window(guard: &Guard, win: MPI_Win, keyval: c_int) -> Result<()> {
    check(predefined_of_window(guard, win, keyval)?.is_none(), MPI_ERR_KEYVAL, || {
        format!("key {keyval} is predefined, its attribute cannot be changed")
    })
}

pub(super) fn set_of_window(guard: &mut Guard, win: MPI_Win, key: c_int, value: *mut c_void) -> Result<()> {
    check_not_of_window(guard, win, key)?;
    attribute_calls::set(guard, Owner::Win(win), key, value as usize)
}

pub(super) fn of_window(guard: &Guard, win: MPI_Win, key: c_int) -> Result<(Option<*mut c_void>, bool)> {
    Ok(found(match predefined_of_window(guard, win, key)? {
        Some(value) => Some(value),
        None => attribute_calls::get(guard, Owner::Win(win), key)?,
    }))
}

pub(super) fn delete_of_window(guard: &mut Guard, win: MPI_Win, key: c_int) -> Result<()> {
    check_not_of_window(guard, win, key)?;
    attribute_calls::delete(guard, Owner::Win(win), key)
}
