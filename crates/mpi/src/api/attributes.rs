//! MPI 7.7: attributes of communicators, datatypes and windows; the names of MPI-1 too.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::attribute_calls;
use crate::attributes::HasAttributes;
use crate::attributes::{Object, Owner};
use crate::comm::HasComms;
use crate::datatype::HasTypes;
use crate::error::{Result, check};
use crate::error_codes;
use crate::progress::Progress;
use crate::session::HasEnvironment;
use crate::win::HasWindows;

pub(super) fn create_key(
    call: &mut impl HasAttributes,
    object: Object,
    copy: usize,
    delete: usize,
    extra_state: *mut c_void,
) -> Result<c_int> {
    Ok(attribute_calls::create_key(call, object, copy, delete, extra_state as usize))
}

/// Frees a key; gives what the user has then.
pub(super) fn free_key(call: &mut impl HasAttributes, object: Object, key: c_int) -> Result<c_int> {
    attribute_calls::free_key(call, object, key)?;
    Ok(MPI_KEYVAL_INVALID)
}

/// A value as it is written, and whether there is one.
fn found(value: Option<usize>) -> (Option<*mut c_void>, bool) {
    (value.map(|value| value as *mut c_void), value.is_some())
}

/// Address of the value of a predefined attribute of a communicator; none when it has no value there; nothing
/// for other keys.
fn predefined(call: &mut impl HasEnvironment, of_session: bool, keyval: c_int) -> Option<Option<usize>> {
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
        MPI_UNIVERSE_SIZE => &call.env().universe_size,
        MPI_APPNUM => match &call.env().app_number {
            Some(number) => number,
            None => return Some(None),
        },
        _ => return None,
    };
    // What else describes the environment describes that of MPI_COMM_WORLD.
    Some((!of_session || keyval == MPI_TAG_UB).then_some(place as usize))
}

fn check_not_predefined(call: &mut impl HasEnvironment, keyval: c_int) -> Result<()> {
    check(predefined(call, false, keyval).is_none(), MPI_ERR_KEYVAL, || {
        format!("key {keyval} is predefined, its attribute cannot be changed")
    })
}

pub(super) fn set_of_comm(
    call: &mut (impl Progress + HasComms + HasTypes + HasAttributes + HasWindows + HasEnvironment),
    comm: MPI_Comm,
    key: c_int,
    value: *mut c_void,
) -> Result<()> {
    call.comms().find(comm)?;
    check_not_predefined(call, key)?;
    attribute_calls::set(call, Owner::Comm(comm), key, value as usize)
}

pub(super) fn of_comm(
    call: &mut (impl HasComms + HasTypes + HasAttributes + HasWindows + HasEnvironment),
    comm: MPI_Comm,
    key: c_int,
) -> Result<(Option<*mut c_void>, bool)> {
    let of_session = call.comms().find(comm)?.of_session;
    Ok(found(match predefined(call, of_session, key) {
        Some(value) => value,
        None => attribute_calls::get(call, Owner::Comm(comm), key)?,
    }))
}

pub(super) fn delete_of_comm(
    call: &mut (impl Progress + HasComms + HasTypes + HasAttributes + HasWindows + HasEnvironment),
    comm: MPI_Comm,
    key: c_int,
) -> Result<()> {
    call.comms().find(comm)?;
    check_not_predefined(call, key)?;
    attribute_calls::delete(call, Owner::Comm(comm), key)
}

pub(super) fn set_of_type(
    call: &mut (impl Progress + HasComms + HasTypes + HasAttributes + HasWindows),
    datatype: MPI_Datatype,
    key: c_int,
    value: *mut c_void,
) -> Result<()> {
    attribute_calls::set(call, Owner::Datatype(datatype), key, value as usize)
}

pub(super) fn of_type(
    call: &(impl HasComms + HasTypes + HasAttributes + HasWindows),
    datatype: MPI_Datatype,
    key: c_int,
) -> Result<(Option<*mut c_void>, bool)> {
    Ok(found(attribute_calls::get(call, Owner::Datatype(datatype), key)?))
}

pub(super) fn delete_of_type(
    call: &mut (impl Progress + HasComms + HasTypes + HasAttributes + HasWindows),
    datatype: MPI_Datatype,
    key: c_int,
) -> Result<()> {
    attribute_calls::delete(call, Owner::Datatype(datatype), key)
}

/// Address of the value of a predefined attribute of a window; the value itself for MPI_WIN_BASE.
fn predefined_of_window(call: &impl HasWindows, win: MPI_Win, keyval: c_int) -> Result<Option<usize>> {
    let values = &call.wins().find(win)?.values;
    Ok(Some(match keyval {
        MPI_WIN_BASE => values.base,
        MPI_WIN_SIZE => (&raw const values.bytes).expose_provenance(),
        MPI_WIN_DISP_UNIT => (&raw const values.disp_unit).expose_provenance(),
        MPI_WIN_CREATE_FLAVOR => (&raw const values.flavor).expose_provenance(),
        MPI_WIN_MODEL => (&raw const values.model).expose_provenance(),
        _ => return Ok(None),
    }))
}

fn check_not_of_window(call: &impl HasWindows, win: MPI_Win, keyval: c_int) -> Result<()> {
    check(predefined_of_window(call, win, keyval)?.is_none(), MPI_ERR_KEYVAL, || {
        format!("key {keyval} is predefined, its attribute cannot be changed")
    })
}

pub(super) fn set_of_window(
    call: &mut (impl Progress + HasComms + HasTypes + HasAttributes + HasWindows),
    win: MPI_Win,
    key: c_int,
    value: *mut c_void,
) -> Result<()> {
    check_not_of_window(call, win, key)?;
    attribute_calls::set(call, Owner::Win(win), key, value as usize)
}

pub(super) fn of_window(
    call: &(impl HasComms + HasTypes + HasAttributes + HasWindows),
    win: MPI_Win,
    key: c_int,
) -> Result<(Option<*mut c_void>, bool)> {
    Ok(found(match predefined_of_window(call, win, key)? {
        Some(value) => Some(value),
        None => attribute_calls::get(call, Owner::Win(win), key)?,
    }))
}

pub(super) fn delete_of_window(
    call: &mut (impl Progress + HasComms + HasTypes + HasAttributes + HasWindows),
    win: MPI_Win,
    key: c_int,
) -> Result<()> {
    check_not_of_window(call, win, key)?;
    attribute_calls::delete(call, Owner::Win(win), key)
}
