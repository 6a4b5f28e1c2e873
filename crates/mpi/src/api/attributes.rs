//! MPI 7.7: attributes of communicators, datatypes and windows; the names of MPI-1 too.

use core::ffi::{CStr, c_int, c_void};

use crate::abi::*;
use crate::argument::{get, put};
use crate::attribute_calls;
use crate::attributes::{Object, Owner};
use crate::errhandler::call;
use crate::error::{Result, check};
use crate::error_codes;
use crate::process::Guard;

unsafe fn create_keyval(
    name: &'static CStr,
    object: Object,
    copy: usize,
    delete: usize,
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    call(name, MPI_COMM_SELF, |guard| {
        check(!keyval.is_null(), MPI_ERR_ARG, || "keyval is a null pointer".into())?;
        let made = attribute_calls::create_key(guard, object, copy, delete, extra_state as usize);
        // SAFETY: the user gives a place for the key.
        unsafe { put(keyval, "keyval", made) }
    })
}

unsafe fn free_keyval(name: &'static CStr, object: Object, keyval: *mut c_int) -> c_int {
    call(name, MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives a place that holds a key.
        attribute_calls::free_key(guard, object, unsafe { get(keyval, "keyval") }?)?;
        // SAFETY: as above.
        unsafe { put(keyval, "keyval", MPI_KEYVAL_INVALID) }
    })
}

/// Writes the value of an attribute; `attribute_val` is the address of a `void *`.
pub(super) unsafe fn put_attribute(
    value: Option<usize>,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> Result<()> {
    if let Some(value) = value {
        // SAFETY: the user gives a place for a pointer, declared as void * by the standard.
        unsafe { put(attribute_val.cast::<usize>(), "attribute_val", value) }?;
    }
    // SAFETY: the user gives a place for the flag.
    unsafe { put(flag, "flag", c_int::from(value.is_some())) }
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
        MPI_UNIVERSE_SIZE => &guard.universe_size,
        MPI_APPNUM => match &guard.app_number {
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

fn set_comm(name: &'static CStr, comm: MPI_Comm, keyval: c_int, value: *mut c_void) -> c_int {
    call(name, comm, |guard| {
        guard.comm(comm)?;
        check_not_predefined(guard, keyval)?;
        attribute_calls::set(guard, Owner::Comm(comm), keyval, value as usize)
    })
}

unsafe fn get_comm(
    name: &'static CStr,
    comm: MPI_Comm,
    keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    call(name, comm, |guard| {
        let of_session = guard.comm(comm)?.of_session;
        let value = match predefined(guard, of_session, keyval) {
            Some(value) => value,
            None => attribute_calls::get(guard, Owner::Comm(comm), keyval)?,
        };
        // SAFETY: as the user's.
        unsafe { put_attribute(value, attribute_val, flag) }
    })
}

fn delete_comm(name: &'static CStr, comm: MPI_Comm, keyval: c_int) -> c_int {
    call(name, comm, |guard| {
        guard.comm(comm)?;
        check_not_predefined(guard, keyval)?;
        attribute_calls::delete(guard, Owner::Comm(comm), keyval)
    })
}

/// Makes a key for communicators (7.7.2).
#[inline]
pub unsafe fn MPI_Comm_create_keyval(
    comm_copy_attr_fn: MPI_Comm_copy_attr_function,
    comm_delete_attr_fn: MPI_Comm_delete_attr_function,
    comm_keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    let name = c"MPI_Comm_create_keyval";
    // SAFETY: as the user's.
    unsafe {
        create_keyval(name, Object::Comm, comm_copy_attr_fn, comm_delete_attr_fn, comm_keyval, extra_state)
    }
}

/// Frees a key for communicators (7.7.2).
#[inline]
pub unsafe fn MPI_Comm_free_keyval(comm_keyval: *mut c_int) -> c_int {
    // SAFETY: as the user's.
    unsafe { free_keyval(c"MPI_Comm_free_keyval", Object::Comm, comm_keyval) }
}

/// Sets an attribute of a communicator (7.7.2).
#[inline]
pub unsafe fn MPI_Comm_set_attr(comm: MPI_Comm, comm_keyval: c_int, attribute_val: *mut c_void) -> c_int {
    set_comm(c"MPI_Comm_set_attr", comm, comm_keyval, attribute_val)
}

/// Reads an attribute of a communicator (7.7.2).
#[inline]
pub unsafe fn MPI_Comm_get_attr(
    comm: MPI_Comm,
    comm_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: as the user's.
    unsafe { get_comm(c"MPI_Comm_get_attr", comm, comm_keyval, attribute_val, flag) }
}

/// Deletes an attribute of a communicator (7.7.2).
#[inline]
pub unsafe fn MPI_Comm_delete_attr(comm: MPI_Comm, comm_keyval: c_int) -> c_int {
    delete_comm(c"MPI_Comm_delete_attr", comm, comm_keyval)
}

/// Makes a key for communicators (deprecated; 17.1).
#[inline]
pub unsafe fn MPI_Keyval_create(
    copy_fn: MPI_Copy_function,
    delete_fn: MPI_Delete_function,
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    // SAFETY: as the user's.
    unsafe { create_keyval(c"MPI_Keyval_create", Object::Comm, copy_fn, delete_fn, keyval, extra_state) }
}

/// Frees a key for communicators (deprecated; 17.1).
#[inline]
pub unsafe fn MPI_Keyval_free(keyval: *mut c_int) -> c_int {
    // SAFETY: as the user's.
    unsafe { free_keyval(c"MPI_Keyval_free", Object::Comm, keyval) }
}

/// Sets an attribute of a communicator (deprecated; 17.1).
#[inline]
pub unsafe fn MPI_Attr_put(comm: MPI_Comm, keyval: c_int, attribute_val: *mut c_void) -> c_int {
    set_comm(c"MPI_Attr_put", comm, keyval, attribute_val)
}

/// Reads an attribute of a communicator (deprecated; 17.1).
#[inline]
pub unsafe fn MPI_Attr_get(
    comm: MPI_Comm,
    keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: as the user's.
    unsafe { get_comm(c"MPI_Attr_get", comm, keyval, attribute_val, flag) }
}

/// Deletes an attribute of a communicator (deprecated; 17.1).
#[inline]
pub unsafe fn MPI_Attr_delete(comm: MPI_Comm, keyval: c_int) -> c_int {
    delete_comm(c"MPI_Attr_delete", comm, keyval)
}

/// Makes a key for datatypes (7.7.4).
#[inline]
pub unsafe fn MPI_Type_create_keyval(
    type_copy_attr_fn: MPI_Type_copy_attr_function,
    type_delete_attr_fn: MPI_Type_delete_attr_function,
    type_keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    let (name, object) = (c"MPI_Type_create_keyval", Object::Datatype);
    // SAFETY: as the user's.
    unsafe { create_keyval(name, object, type_copy_attr_fn, type_delete_attr_fn, type_keyval, extra_state) }
}

/// Frees a key for datatypes (7.7.4).
#[inline]
pub unsafe fn MPI_Type_free_keyval(type_keyval: *mut c_int) -> c_int {
    // SAFETY: as the user's.
    unsafe { free_keyval(c"MPI_Type_free_keyval", Object::Datatype, type_keyval) }
}

/// Sets an attribute of a datatype (7.7.4).
#[inline]
pub unsafe fn MPI_Type_set_attr(
    datatype: MPI_Datatype,
    type_keyval: c_int,
    attribute_val: *mut c_void,
) -> c_int {
    call(c"MPI_Type_set_attr", MPI_COMM_SELF, |guard| {
        attribute_calls::set(guard, Owner::Datatype(datatype), type_keyval, attribute_val as usize)
    })
}

/// Reads an attribute of a datatype (7.7.4).
#[inline]
pub unsafe fn MPI_Type_get_attr(
    datatype: MPI_Datatype,
    type_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    call(c"MPI_Type_get_attr", MPI_COMM_SELF, |guard| {
        let value = attribute_calls::get(guard, Owner::Datatype(datatype), type_keyval)?;
        // SAFETY: as the user's.
        unsafe { put_attribute(value, attribute_val, flag) }
    })
}

/// Deletes an attribute of a datatype (7.7.4).
#[inline]
pub unsafe fn MPI_Type_delete_attr(datatype: MPI_Datatype, type_keyval: c_int) -> c_int {
    call(c"MPI_Type_delete_attr", MPI_COMM_SELF, |guard| {
        attribute_calls::delete(guard, Owner::Datatype(datatype), type_keyval)
    })
}

/// Makes a key for windows (7.7.3).
#[inline]
pub unsafe fn MPI_Win_create_keyval(
    win_copy_attr_fn: MPI_Win_copy_attr_function,
    win_delete_attr_fn: MPI_Win_delete_attr_function,
    win_keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    let name = c"MPI_Win_create_keyval";
    // SAFETY: as the user's.
    unsafe { create_keyval(name, Object::Win, win_copy_attr_fn, win_delete_attr_fn, win_keyval, extra_state) }
}

/// Frees a key for windows (7.7.3).
#[inline]
pub unsafe fn MPI_Win_free_keyval(win_keyval: *mut c_int) -> c_int {
    // SAFETY: as the user's.
    unsafe { free_keyval(c"MPI_Win_free_keyval", Object::Win, win_keyval) }
}
