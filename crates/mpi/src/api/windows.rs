//! MPI 12.2: windows are made and freed; their names, hints, attributes and error handlers.

use core::ffi::{CStr, c_char, c_int, c_void};

use crate::abi::*;
use crate::argument::{put, put_text, text};
use crate::attribute_calls;
use crate::attributes::Owner;
use crate::errhandler::{self, Object, call, call_window};
use crate::error::{Result, check};
use crate::info;
use crate::process::{self, Guard};
use crate::win::creation::Own;
use crate::win::hints;

use super::attributes::put_attribute;

/// Runs a call that makes a window. With `baseptr`, the address of its memory is stored there.
#[inline(always)]
unsafe fn make(
    name: &'static CStr,
    own: Own,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: Option<*mut c_void>,
    win: *mut MPI_Win,
) -> c_int {
    call(name, comm, |guard| {
        let given = info::hints(info)?;
        let made = guard.make_window(comm, own, &given)?;
        if let Some(place) = baseptr {
            let base = guard.window(made)?.values.base;
            // SAFETY: the user gives a place for a pointer, declared as void * by the standard.
            unsafe { put(place.cast::<usize>(), "baseptr", base) }?;
        }
        // SAFETY: the user gives a place for the window.
        unsafe { put(win, "win", made) }
    })
}

fn own(flavor: c_int, base: *mut c_void, bytes: MPI_Aint, disp_unit: impl Into<i64>) -> Own {
    Own { flavor, base: base.expose_provenance(), bytes: bytes as i64, disp_unit: disp_unit.into() }
}

/// Opens memory of the user (12.2.1).
#[inline]
pub unsafe fn MPI_Win_create(
    base: *mut c_void,
    size: MPI_Aint,
    disp_unit: c_int,
    info: MPI_Info,
    comm: MPI_Comm,
    win: *mut MPI_Win,
) -> c_int {
    let own = own(MPI_WIN_FLAVOR_CREATE, base, size, disp_unit);
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Win_create", own, info, comm, None, win) }
}

/// Opens memory of the user (12.2.1). Large unit.
#[inline]
pub unsafe fn MPI_Win_create_c(
    base: *mut c_void,
    size: MPI_Aint,
    disp_unit: MPI_Aint,
    info: MPI_Info,
    comm: MPI_Comm,
    win: *mut MPI_Win,
) -> c_int {
    let own = own(MPI_WIN_FLAVOR_CREATE, base, size, disp_unit as i64);
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Win_create_c", own, info, comm, None, win) }
}

/// Opens memory that the window brings (12.2.2).
#[inline]
pub unsafe fn MPI_Win_allocate(
    size: MPI_Aint,
    disp_unit: c_int,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: *mut c_void,
    win: *mut MPI_Win,
) -> c_int {
    let own = own(MPI_WIN_FLAVOR_ALLOCATE, std::ptr::null_mut(), size, disp_unit);
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Win_allocate", own, info, comm, Some(baseptr), win) }
}

/// Opens memory that the window brings (12.2.2). Large unit.
#[inline]
pub unsafe fn MPI_Win_allocate_c(
    size: MPI_Aint,
    disp_unit: MPI_Aint,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: *mut c_void,
    win: *mut MPI_Win,
) -> c_int {
    let own = own(MPI_WIN_FLAVOR_ALLOCATE, std::ptr::null_mut(), size, disp_unit as i64);
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Win_allocate_c", own, info, comm, Some(baseptr), win) }
}

/// Opens memory that all ranks load and store (12.2.3).
#[inline]
pub unsafe fn MPI_Win_allocate_shared(
    size: MPI_Aint,
    disp_unit: c_int,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: *mut c_void,
    win: *mut MPI_Win,
) -> c_int {
    let own = own(MPI_WIN_FLAVOR_SHARED, std::ptr::null_mut(), size, disp_unit);
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Win_allocate_shared", own, info, comm, Some(baseptr), win) }
}

/// Opens memory that all ranks load and store (12.2.3). Large unit.
#[inline]
pub unsafe fn MPI_Win_allocate_shared_c(
    size: MPI_Aint,
    disp_unit: MPI_Aint,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: *mut c_void,
    win: *mut MPI_Win,
) -> c_int {
    let own = own(MPI_WIN_FLAVOR_SHARED, std::ptr::null_mut(), size, disp_unit as i64);
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Win_allocate_shared_c", own, info, comm, Some(baseptr), win) }
}

/// A window to which memory is attached later (12.2.4).
#[inline]
pub unsafe fn MPI_Win_create_dynamic(info: MPI_Info, comm: MPI_Comm, win: *mut MPI_Win) -> c_int {
    let own = own(MPI_WIN_FLAVOR_DYNAMIC, std::ptr::null_mut(), 0, 1);
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Win_create_dynamic", own, info, comm, None, win) }
}

/// Opens memory of this process in a dynamic window (12.2.4).
#[inline]
pub unsafe fn MPI_Win_attach(win: MPI_Win, base: *mut c_void, size: MPI_Aint) -> c_int {
    call_window(c"MPI_Win_attach", win, |guard| {
        guard.attach_memory(win, base.expose_provenance(), size as i64)
    })
}

/// Closes memory of a dynamic window (12.2.4).
#[inline]
pub unsafe fn MPI_Win_detach(win: MPI_Win, base: *const c_void) -> c_int {
    call_window(c"MPI_Win_detach", win, |guard| guard.detach_memory(win, base.addr()))
}

/// Frees a window, with the memory that it has brought (12.2.5).
#[inline]
pub unsafe fn MPI_Win_free(win: *mut MPI_Win) -> c_int {
    // SAFETY: the user gives a place that holds a window; the exported function has refused null.
    let handle = unsafe { win.read() };
    call_window(c"MPI_Win_free", handle, |guard| {
        guard.free_window(handle)?;
        // SAFETY: as above.
        unsafe { put(win, "win", MPI_WIN_NULL) }
    })
}

/// Writes what is known of a rank's memory here.
unsafe fn query<T>(
    guard: &mut Guard,
    win: MPI_Win,
    rank: c_int,
    size: *mut MPI_Aint,
    disp_unit: *mut T,
    unit: impl FnOnce(usize) -> T,
    baseptr: *mut c_void,
) -> Result<()> {
    let (base, bytes, found_unit) = guard.query_shared(win, rank)?;
    // SAFETY: the user gives three places.
    unsafe {
        put(size, "size", bytes as MPI_Aint)?;
        put(disp_unit, "disp_unit", unit(found_unit))?;
        put(baseptr.cast::<usize>(), "baseptr", base)
    }
}

/// Where the memory of a rank lies in this process (12.2.3).
#[inline]
pub unsafe fn MPI_Win_shared_query(
    win: MPI_Win,
    rank: c_int,
    size: *mut MPI_Aint,
    disp_unit: *mut c_int,
    baseptr: *mut c_void,
) -> c_int {
    call_window(c"MPI_Win_shared_query", win, |guard| {
        // SAFETY: as the user's.
        unsafe { query(guard, win, rank, size, disp_unit, |unit| unit as c_int, baseptr) }
    })
}

/// Where the memory of a rank lies in this process (12.2.3). Large unit.
#[inline]
pub unsafe fn MPI_Win_shared_query_c(
    win: MPI_Win,
    rank: c_int,
    size: *mut MPI_Aint,
    disp_unit: *mut MPI_Aint,
    baseptr: *mut c_void,
) -> c_int {
    call_window(c"MPI_Win_shared_query_c", win, |guard| {
        // SAFETY: as the user's.
        unsafe { query(guard, win, rank, size, disp_unit, |unit| unit as MPI_Aint, baseptr) }
    })
}

/// The ranks of a window (12.2.6).
#[inline]
pub unsafe fn MPI_Win_get_group(win: MPI_Win, group: *mut MPI_Group) -> c_int {
    call_window(c"MPI_Win_get_group", win, |guard| {
        let members = guard.window(win)?.group.clone();
        let made = guard.keep_group(members);
        // SAFETY: the user gives a place for the group.
        unsafe { put(group, "group", made) }
    })
}

/// Gives a window hints (12.2.7); those that it does not know are not kept.
#[inline]
pub unsafe fn MPI_Win_set_info(win: MPI_Win, info: MPI_Info) -> c_int {
    call_window(c"MPI_Win_set_info", win, |guard| {
        guard.window(win)?;
        let given = info::read(info, |info| Ok(info.clone()))?;
        hints::take(&mut guard.window_mut(win)?.hints, &given);
        Ok(())
    })
}

/// The hints that are in use (12.2.7).
#[inline]
pub unsafe fn MPI_Win_get_info(win: MPI_Win, info_used: *mut MPI_Info) -> c_int {
    call_window(c"MPI_Win_get_info", win, |guard| {
        let hints = guard.window(win)?.hints.clone();
        // SAFETY: the user gives a place for the info object.
        unsafe { put(info_used, "info_used", info::keep(hints)) }
    })
}

/// Names a window (7.8); what does not fit into MPI_MAX_OBJECT_NAME is cut off.
#[inline]
pub unsafe fn MPI_Win_set_name(win: MPI_Win, win_name: *const c_char) -> c_int {
    call_window(c"MPI_Win_set_name", win, |guard| {
        // SAFETY: the user gives a text.
        let name = unsafe { text(win_name, "win_name") }?;
        guard.window_mut(win)?.name = name[..name.len().min(MPI_MAX_OBJECT_NAME as usize - 1)].to_vec();
        Ok(())
    })
}

/// The name of a window (7.8); MPI_WIN_NULL has one too.
#[inline]
pub unsafe fn MPI_Win_get_name(win: MPI_Win, win_name: *mut c_char, resultlen: *mut c_int) -> c_int {
    call_window(c"MPI_Win_get_name", win, |guard| {
        let name: &[u8] = if win == MPI_WIN_NULL { b"MPI_WIN_NULL" } else { &guard.window(win)?.name };
        // SAFETY: the user gives room for MPI_MAX_OBJECT_NAME bytes and a place for the length.
        unsafe { put_text(name, win_name, MPI_MAX_OBJECT_NAME as usize, resultlen, "win_name") }
    })
}

/// Address of the value of a predefined attribute; the value itself for MPI_WIN_BASE.
fn predefined(guard: &Guard, win: MPI_Win, keyval: c_int) -> Result<Option<usize>> {
    let values = &guard.window(win)?.values;
    Ok(Some(match keyval {
        MPI_WIN_BASE => values.base,
        MPI_WIN_SIZE => (&raw const values.bytes).expose_provenance(),
        MPI_WIN_DISP_UNIT => (&raw const values.disp_unit).expose_provenance(),
        MPI_WIN_CREATE_FLAVOR => (&raw const values.flavor).expose_provenance(),
        MPI_WIN_MODEL => (&raw const values.model).expose_provenance(),
        _ => return Ok(None),
    }))
}

fn check_not_predefined(guard: &Guard, win: MPI_Win, keyval: c_int) -> Result<()> {
    check(predefined(guard, win, keyval)?.is_none(), MPI_ERR_KEYVAL, || {
        format!("key {keyval} is predefined, its attribute cannot be changed")
    })
}

/// Sets an attribute of a window (7.7.3).
#[inline]
pub unsafe fn MPI_Win_set_attr(win: MPI_Win, win_keyval: c_int, attribute_val: *mut c_void) -> c_int {
    call_window(c"MPI_Win_set_attr", win, |guard| {
        check_not_predefined(guard, win, win_keyval)?;
        attribute_calls::set(guard, Owner::Win(win), win_keyval, attribute_val as usize)
    })
}

/// Reads an attribute of a window (7.7.3 and 12.2.6).
#[inline]
pub unsafe fn MPI_Win_get_attr(
    win: MPI_Win,
    win_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    call_window(c"MPI_Win_get_attr", win, |guard| {
        let value = match predefined(guard, win, win_keyval)? {
            Some(value) => Some(value),
            None => attribute_calls::get(guard, Owner::Win(win), win_keyval)?,
        };
        // SAFETY: as the user's.
        unsafe { put_attribute(value, attribute_val, flag) }
    })
}

/// Deletes an attribute of a window (7.7.3).
#[inline]
pub unsafe fn MPI_Win_delete_attr(win: MPI_Win, win_keyval: c_int) -> c_int {
    call_window(c"MPI_Win_delete_attr", win, |guard| {
        check_not_predefined(guard, win, win_keyval)?;
        attribute_calls::delete(guard, Owner::Win(win), win_keyval)
    })
}

/// Sets the error handler of a window (9.3.2).
#[inline]
pub unsafe fn MPI_Win_set_errhandler(win: MPI_Win, errhandler: MPI_Errhandler) -> c_int {
    call_window(c"MPI_Win_set_errhandler", win, |guard| {
        let window = guard.window_mut(win)?;
        errhandler::check_for(Object::Win, errhandler)?;
        errhandler::retain(errhandler);
        errhandler::release(std::mem::replace(&mut window.errhandler, errhandler));
        Ok(())
    })
}

/// The error handler of a window; the user gets a reference (9.3.2).
#[inline]
pub unsafe fn MPI_Win_get_errhandler(win: MPI_Win, errhandler: *mut MPI_Errhandler) -> c_int {
    call_window(c"MPI_Win_get_errhandler", win, |guard| {
        let handler = guard.window(win)?.errhandler;
        // SAFETY: the user gives a place for the handler.
        unsafe { put(errhandler, "errhandler", handler) }?;
        errhandler::retain(handler);
        Ok(())
    })
}

/// Calls the error handler of a window (9.5).
#[inline]
pub unsafe fn MPI_Win_call_errhandler(win: MPI_Win, errorcode: c_int) -> c_int {
    const NAME: &CStr = c"MPI_Win_call_errhandler";
    if let Some(guard) = process::enter()
        && let Ok(found) = guard.window(win)
    {
        let handler = found.errhandler;
        errhandler::call_handler(guard, NAME, handler, win.0, errorcode);
        return MPI_SUCCESS;
    }
    call_window(NAME, win, |guard| guard.window(win).map(drop))
}
