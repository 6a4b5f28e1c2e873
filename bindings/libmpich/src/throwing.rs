//! `MPI::ERRORS_THROW_EXCEPTIONS` of MPICH's C++ library, a predefined error handler that the standard has
//! not. With it a call returns its error. The C++ library then has the handler called, gets the error back,
//! and throws it.
//!
//! Here it is a handler of ours for each kind of object, made when it is first set, which does nothing.

use crate::abi::*;
use crate::handle::{self, Handle, MpichFile};
use crate::{c, roles};
use core::ffi::c_int;
use std::sync::{Mutex, PoisonError};

/// Number of that handler in MPICH.
const THROW: c_int = 0x5400_0002;

/// Leaves the error to the call, which returns it.
unsafe extern "C-unwind" fn leave(_object: *mut usize, _code: *mut c_int) {}

macro_rules! throwing {
    ($($theirs:ty: $made:ident $create:ident $call:ident $ours_call:ident
        $get:ident $ours_get:ident $set:ident $ours_set:ident;)*) => { $(
        static $made: Mutex<Option<MPI_Errhandler>> = Mutex::new(None);

        #[inline]
        pub(crate) unsafe fn $set(object: $theirs, errhandler: c_int) -> c_int {
            let mut handler: MPI_Errhandler = handle::ours(errhandler);
            if errhandler == THROW {
                let mut made = $made.lock().unwrap_or_else(PoisonError::into_inner);
                if made.is_none() {
                    // SAFETY: the address is that of a function with an error handler's arguments.
                    let code = unsafe { c::$create(leave as *const () as usize, &mut handler) };
                    if code != MPI_SUCCESS {
                        return roles::out_error(code);
                    }
                    *made = Some(handler);
                }
                handler = made.unwrap_or(handler);
            }
            // SAFETY: handles may be anything.
            roles::out_error(unsafe { c::$ours_set(handle::ours(object), handler) })
        }

        #[inline]
        pub(crate) unsafe fn $get(object: $theirs, errhandler: *mut c_int) -> c_int {
            // SAFETY: the caller gives the place of a handle, or null.
            unsafe {
                let mut found = handle::Place::<MPI_Errhandler>::new(errhandler, false);
                let code = c::$ours_get(handle::ours(object), found.address());
                found.put();
                if code == MPI_SUCCESS
                    && let Some(made) = *$made.lock().unwrap_or_else(PoisonError::into_inner)
                    && *errhandler == made.theirs()
                {
                    let mut given = made;
                    c::PMPI_Errhandler_free(&mut given);
                    *errhandler = THROW;
                }
                roles::out_error(code)
            }
        }

        #[inline]
        pub(crate) unsafe fn $call(object: $theirs, errorcode: c_int) -> c_int {
            let made = *$made.lock().unwrap_or_else(PoisonError::into_inner);
            let mut is_throwing = false;
            // SAFETY: handles and codes may be anything; the place lives here.
            unsafe {
                if let Some(made) = made {
                    let mut handler = MPI_ERRHANDLER_NULL;
                    if c::$ours_get(handle::ours(object), &mut handler) == MPI_SUCCESS {
                        is_throwing = handler == made;
                        c::PMPI_Errhandler_free(&mut handler);
                    }
                }
                if is_throwing {
                    return errorcode;
                }
                roles::out_error(c::$ours_call(handle::ours(object), roles::in_error(errorcode)))
            }
        }
    )* };
}

throwing! {
    c_int: COMMS PMPI_Comm_create_errhandler Comm_call_errhandler PMPI_Comm_call_errhandler
        Comm_get_errhandler PMPI_Comm_get_errhandler Comm_set_errhandler PMPI_Comm_set_errhandler;
    MpichFile: FILES PMPI_File_create_errhandler File_call_errhandler PMPI_File_call_errhandler
        File_get_errhandler PMPI_File_get_errhandler File_set_errhandler PMPI_File_set_errhandler;
    c_int: WINS PMPI_Win_create_errhandler Win_call_errhandler PMPI_Win_call_errhandler
        Win_get_errhandler PMPI_Win_get_errhandler Win_set_errhandler PMPI_Win_set_errhandler;
}

/// MPICH's C++ library frees what it has asked for, this handler too, and has no end when that fails.
#[inline]
pub(crate) unsafe fn Errhandler_free(errhandler: *mut c_int) -> c_int {
    // SAFETY: the caller gives the place of a handle, or null.
    unsafe {
        if !errhandler.is_null() && *errhandler == THROW {
            *errhandler = MPI_ERRHANDLER_NULL.theirs();
            return MPI_SUCCESS;
        }
        let mut freed = handle::Place::<MPI_Errhandler>::new(errhandler, true);
        let code = c::PMPI_Errhandler_free(freed.address());
        freed.put();
        roles::out_error(code)
    }
}
