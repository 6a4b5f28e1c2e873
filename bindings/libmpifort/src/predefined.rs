//! Predefined callbacks: procedures with code, which C knows as numbers.

use crate::abi::*;
use crate::handle::{duplicate_of_c, is_another_no_conversion};
use core::ffi::{c_int, c_void};

macro_rules! copy_functions {
    ($class:ty: $($null:ident $duplicate:ident $delete:ident)*) => { $(
        // SAFETY: no other library may define the name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $null(
            _object: *mut c_int,
            _keyval: *mut c_int,
            _extra_state: *mut $class,
            _value_in: *mut $class,
            _value_out: *mut $class,
            flag: *mut c_int,
            ierror: *mut c_int,
        ) {
            // SAFETY: places of a LOGICAL and an INTEGER.
            unsafe {
                *flag = 0;
                *ierror = MPI_SUCCESS;
            }
        }

        // SAFETY: no other library may define the name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $duplicate(
            _object: *mut c_int,
            _keyval: *mut c_int,
            _extra_state: *mut $class,
            value_in: *mut $class,
            value_out: *mut $class,
            flag: *mut c_int,
            ierror: *mut c_int,
        ) {
            // SAFETY: places of numbers and of a LOGICAL.
            unsafe {
                *value_out = *value_in;
                *flag = 1;
                *ierror = MPI_SUCCESS;
            }
        }

        // SAFETY: no other library may define the name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $delete(
            _object: *mut c_int,
            _keyval: *mut c_int,
            _value: *mut $class,
            _extra_state: *mut $class,
            ierror: *mut c_int,
        ) {
            // SAFETY: the place of an INTEGER.
            unsafe { *ierror = MPI_SUCCESS }
        }
    )* };
}

copy_functions! { MPI_Aint:
    mpi_comm_null_copy_fn_ mpi_comm_dup_fn_ mpi_comm_null_delete_fn_
    mpi_type_null_copy_fn_ mpi_type_dup_fn_ mpi_type_null_delete_fn_
    mpi_win_null_copy_fn_ mpi_win_dup_fn_ mpi_win_null_delete_fn_
}
copy_functions! { c_int:
    mpi_null_copy_fn_ mpi_dup_fn_ mpi_null_delete_fn_
}

/// No conversion: known by its address, never called.
// SAFETY: no other library may define the name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mpi_conversion_fn_null_(
    _userbuf: *mut c_void,
    _datatype: *mut c_int,
    _count: *mut c_int,
    _filebuf: *mut c_void,
    _position: *mut MPI_Offset,
    _extra_state: *mut MPI_Aint,
    ierror: *mut c_int,
) {
    // SAFETY: the place of an INTEGER.
    unsafe { *ierror = MPI_ERR_CONVERSION }
}

/// The same for large counts.
// SAFETY: no other library may define the name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mpi_conversion_fn_null_c_(
    _userbuf: *mut c_void,
    _datatype: *mut c_int,
    _count: *mut MPI_Count,
    _filebuf: *mut c_void,
    _position: *mut MPI_Offset,
    _extra_state: *mut MPI_Aint,
    ierror: *mut c_int,
) {
    // SAFETY: the place of an INTEGER.
    unsafe { *ierror = MPI_ERR_CONVERSION }
}

/// Number that C has for a copy callback, if it is a predefined one of Fortran.
pub(crate) fn copy_number(function: usize) -> Option<usize> {
    let nulls = [
        mpi_comm_null_copy_fn_ as *const () as usize,
        mpi_type_null_copy_fn_ as *const () as usize,
        mpi_win_null_copy_fn_ as *const () as usize,
        mpi_null_copy_fn_ as *const () as usize,
    ];
    let duplicates = [
        mpi_comm_dup_fn_ as *const () as usize,
        mpi_type_dup_fn_ as *const () as usize,
        mpi_win_dup_fn_ as *const () as usize,
        mpi_dup_fn_ as *const () as usize,
    ];
    if nulls.contains(&function) {
        Some(MPI_COMM_NULL_COPY_FN)
    } else {
        duplicates.contains(&function).then(duplicate_of_c)
    }
}

/// Whether a delete callback is a predefined one.
pub(crate) fn is_null_delete(function: usize) -> bool {
    [
        mpi_comm_null_delete_fn_ as *const () as usize,
        mpi_type_null_delete_fn_ as *const () as usize,
        mpi_win_null_delete_fn_ as *const () as usize,
        mpi_null_delete_fn_ as *const () as usize,
    ]
    .contains(&function)
}

/// Whether a conversion is none.
pub(crate) fn is_no_conversion(function: usize) -> bool {
    function == mpi_conversion_fn_null_ as *const () as usize
        || function == mpi_conversion_fn_null_c_ as *const () as usize
        || is_another_no_conversion(function)
}
