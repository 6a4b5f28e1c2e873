//! MPI chapter 9: error handlers, classes, codes and texts.

use core::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::abi::*;
use crate::argument::{get, put, put_text, text};
use crate::errhandler::{self, Object, call, call_anytime};
use crate::error::{Error, Result, check};
use crate::{error_codes, process};

/// The handler of MPI_FILE_NULL, which new files get (14.7).
static DEFAULT_OF_FILES: AtomicUsize = AtomicUsize::new(MPI_ERRORS_RETURN.0);

unsafe fn create(object: Object, function: usize, errhandler: *mut MPI_Errhandler) -> Result<()> {
    check(!errhandler.is_null(), MPI_ERR_ARG, || "errhandler is a null pointer".into())?;
    let made = errhandler::create(object, function)?;
    // SAFETY: the user gives a place for the handler.
    unsafe { put(errhandler, "errhandler", made) }
}

/// Makes an error handler for communicators (9.3.1).
#[inline]
pub unsafe fn MPI_Comm_create_errhandler(
    comm_errhandler_fn: MPI_Comm_errhandler_function,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    call_anytime(c"MPI_Comm_create_errhandler", || {
        // SAFETY: as the user's.
        unsafe { create(Object::Comm, comm_errhandler_fn, errhandler) }
    })
}

/// Makes an error handler for windows (9.3.2).
#[inline]
pub unsafe fn MPI_Win_create_errhandler(
    win_errhandler_fn: MPI_Win_errhandler_function,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    call_anytime(c"MPI_Win_create_errhandler", || {
        // SAFETY: as the user's.
        unsafe { create(Object::Win, win_errhandler_fn, errhandler) }
    })
}

/// Makes an error handler for files (9.3.3).
#[inline]
pub unsafe fn MPI_File_create_errhandler(
    file_errhandler_fn: MPI_File_errhandler_function,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    call_anytime(c"MPI_File_create_errhandler", || {
        // SAFETY: as the user's.
        unsafe { create(Object::File, file_errhandler_fn, errhandler) }
    })
}

/// Makes an error handler for sessions (9.3.4).
#[inline]
pub unsafe fn MPI_Session_create_errhandler(
    session_errhandler_fn: MPI_Session_errhandler_function,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    call_anytime(c"MPI_Session_create_errhandler", || {
        // SAFETY: as the user's.
        unsafe { create(Object::Session, session_errhandler_fn, errhandler) }
    })
}

/// Sets the error handler of a communicator (9.3.1).
#[inline]
pub unsafe fn MPI_Comm_set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler) -> c_int {
    call(c"MPI_Comm_set_errhandler", comm, |guard| {
        let communicator = guard.comm_mut(comm)?;
        errhandler::check_for(Object::Comm, errhandler)?;
        errhandler::retain(errhandler);
        errhandler::release(std::mem::replace(&mut communicator.errhandler, errhandler));
        Ok(())
    })
}

/// The error handler of a communicator; the user gets a reference (9.3.1).
#[inline]
pub unsafe fn MPI_Comm_get_errhandler(comm: MPI_Comm, errhandler: *mut MPI_Errhandler) -> c_int {
    call(c"MPI_Comm_get_errhandler", comm, |guard| {
        let handler = guard.comm(comm)?.errhandler;
        // SAFETY: the user gives a place for the handler.
        unsafe { put(errhandler, "errhandler", handler) }?;
        errhandler::retain(handler);
        Ok(())
    })
}

/// Calls the error handler of a communicator (9.5).
#[inline]
pub unsafe fn MPI_Comm_call_errhandler(comm: MPI_Comm, errorcode: c_int) -> c_int {
    const NAME: &core::ffi::CStr = c"MPI_Comm_call_errhandler";
    if let Some(guard) = process::enter()
        && let Ok(found) = guard.comm(comm)
    {
        let handler = found.errhandler;
        errhandler::call_handler(guard, NAME, handler, comm.0, errorcode);
        return MPI_SUCCESS;
    }
    call(NAME, comm, |guard| guard.comm(comm).map(drop))
}

fn check_null_file(file: MPI_File) -> Result<()> {
    check(file == MPI_FILE_NULL, MPI_ERR_FILE, || format!("file {:#x} is closed or was never one", file.0))
}

/// Sets the error handler that new files get (14.7).
#[inline]
pub unsafe fn MPI_File_set_errhandler(file: MPI_File, errhandler: MPI_Errhandler) -> c_int {
    call(c"MPI_File_set_errhandler", MPI_COMM_SELF, |_| {
        check_null_file(file)?;
        errhandler::check_for(Object::File, errhandler)?;
        errhandler::retain(errhandler);
        errhandler::release(MPI_Errhandler(DEFAULT_OF_FILES.swap(errhandler.0, Ordering::Relaxed)));
        Ok(())
    })
}

/// The error handler that new files get (14.7).
#[inline]
pub unsafe fn MPI_File_get_errhandler(file: MPI_File, errhandler: *mut MPI_Errhandler) -> c_int {
    call(c"MPI_File_get_errhandler", MPI_COMM_SELF, |_| {
        check_null_file(file)?;
        let handler = MPI_Errhandler(DEFAULT_OF_FILES.load(Ordering::Relaxed));
        // SAFETY: the user gives a place for the handler.
        unsafe { put(errhandler, "errhandler", handler) }?;
        errhandler::retain(handler);
        Ok(())
    })
}

/// Calls the error handler that new files get (9.5).
#[inline]
pub unsafe fn MPI_File_call_errhandler(fh: MPI_File, errorcode: c_int) -> c_int {
    const NAME: &core::ffi::CStr = c"MPI_File_call_errhandler";
    if fh == MPI_FILE_NULL
        && let Some(guard) = process::enter()
    {
        let handler = MPI_Errhandler(DEFAULT_OF_FILES.load(Ordering::Relaxed));
        errhandler::call_handler(guard, NAME, handler, fh.0, errorcode);
        return MPI_SUCCESS;
    }
    call(NAME, MPI_COMM_SELF, |_| check_null_file(fh))
}

/// The user lets go of an error handler (9.3.5).
#[inline]
pub unsafe fn MPI_Errhandler_free(errhandler: *mut MPI_Errhandler) -> c_int {
    call_anytime(c"MPI_Errhandler_free", || {
        // SAFETY: the user gives a place that holds a handle.
        errhandler::free(unsafe { get(errhandler, "errhandler") }?)?;
        // SAFETY: as above.
        unsafe { put(errhandler, "errhandler", MPI_ERRHANDLER_NULL) }
    })
}

/// The class of an error code (9.4).
#[inline]
pub unsafe fn MPI_Error_class(errorcode: c_int, errorclass: *mut c_int) -> c_int {
    call_anytime(c"MPI_Error_class", || {
        // SAFETY: the user gives a place for the class.
        unsafe { put(errorclass, "errorclass", error_codes::class_of(errorcode)) }
    })
}

/// The text of an error code (9.4). For the last error of this thread it tells what was wrong.
#[inline]
pub unsafe fn MPI_Error_string(errorcode: c_int, string: *mut c_char, resultlen: *mut c_int) -> c_int {
    call_anytime(c"MPI_Error_string", || {
        let found = error_codes::text_of(errorcode)
            .or_else(|| errhandler::class_string(errorcode).map(String::into_bytes))
            .ok_or_else(|| {
                Error::new(MPI_ERR_ARG, format_args!("errorcode is {errorcode}, which is not an error code"))
            })?;
        // SAFETY: the user gives room for MPI_MAX_ERROR_STRING bytes and a place for the length.
        unsafe { put_text(&found, string, MPI_MAX_ERROR_STRING as usize, resultlen, "string") }
    })
}

/// Adds an error class (9.5).
#[inline]
pub unsafe fn MPI_Add_error_class(errorclass: *mut c_int) -> c_int {
    call_anytime(c"MPI_Add_error_class", || {
        check(!errorclass.is_null(), MPI_ERR_ARG, || "errorclass is a null pointer".into())?;
        let added = error_codes::add_class()?;
        // SAFETY: the user gives a place for the class.
        unsafe { put(errorclass, "errorclass", added) }
    })
}

/// Adds an error code (9.5).
#[inline]
pub unsafe fn MPI_Add_error_code(errorclass: c_int, errorcode: *mut c_int) -> c_int {
    call_anytime(c"MPI_Add_error_code", || {
        check(!errorcode.is_null(), MPI_ERR_ARG, || "errorcode is a null pointer".into())?;
        let added = error_codes::add_code(errorclass)?;
        // SAFETY: the user gives a place for the code.
        unsafe { put(errorcode, "errorcode", added) }
    })
}

/// Gives an added class or code a text (9.5).
#[inline]
pub unsafe fn MPI_Add_error_string(errorcode: c_int, string: *const c_char) -> c_int {
    call_anytime(c"MPI_Add_error_string", || {
        // SAFETY: the user gives a text.
        error_codes::add_text(errorcode, unsafe { text(string, "string") }?)
    })
}

/// Takes an added class away (9.5).
#[inline]
pub unsafe fn MPI_Remove_error_class(errorclass: c_int) -> c_int {
    call_anytime(c"MPI_Remove_error_class", || error_codes::remove_class(errorclass))
}

/// Takes an added code away (9.5).
#[inline]
pub unsafe fn MPI_Remove_error_code(errorcode: c_int) -> c_int {
    call_anytime(c"MPI_Remove_error_code", || error_codes::remove_code(errorcode))
}

/// Takes the text of an added class or code away (9.5).
#[inline]
pub unsafe fn MPI_Remove_error_string(errorcode: c_int) -> c_int {
    call_anytime(c"MPI_Remove_error_string", || error_codes::remove_text(errorcode))
}
