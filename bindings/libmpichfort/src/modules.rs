//! Symbols of MPICH's modules that object code of gfortran refers to: constants that are handles,
//! comparisons and conversions of handles and statuses, sizes of elements, and predefined callbacks. Names
//! and numbers of the first two are generated.

use crate::abi::{MPI_SUCCESS, MPI_Status};
use crate::{other_names, put_code};
use core::ffi::{c_int, c_void};

/// Handles.
#[allow(non_upper_case_globals, reason = "symbols of the library")]
mod handles {
    use core::ffi::c_int;

    include!(concat!(env!("OUT_DIR"), "/modules.rs"));
}

/// `==` of two handles, or of a handle and an INTEGER.
// SAFETY: no other library may define the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_mpich_are_same(one: *const c_int, other: *const c_int) -> c_int {
    // SAFETY: the compiler hands over the addresses of two integers.
    unsafe { c_int::from(*one == *other) }
}

/// `/=` of them.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_mpich_differ(one: *const c_int, other: *const c_int) -> c_int {
    // SAFETY: as above.
    unsafe { c_int::from(*one != *other) }
}

/// The handle of C of an INTEGER, and the reverse: they are the same.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_mpich_itself(handle: c_int) -> c_int {
    handle
}

macro_rules! statuses {
    ($($name:ident($first:ident, $second:ident): $to:ident = $from:ident;)*) => { $(
        // SAFETY: the name is that of MPICH's library.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $first: *mut MPI_Status,
            $second: *mut MPI_Status,
            ierror: *mut c_int,
        ) {
            // SAFETY: the compiler hands over the addresses of two statuses, which have one layout.
            unsafe {
                $to.write($from.read());
                put_code(ierror, MPI_SUCCESS);
            }
        }
    )* };
}

statuses! {
    __mpi_f08_types_MOD_mpi_status_f2f08(from, to): to = from;
    __mpi_f08_types_MOD_mpi_status_f082f(from, to): to = from;
    __mpi_f08_types_MOD_pmpi_status_f2f08(from, to): to = from;
    __mpi_f08_types_MOD_pmpi_status_f082f(from, to): to = from;
}

macro_rules! assignments {
    ($($name:ident)*) => { $(
        // SAFETY: the name is that of MPICH's library.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(to: *mut MPI_Status, from: *const MPI_Status) {
            // SAFETY: as above.
            unsafe { to.write(from.read()) }
        }
    )* };
}

assignments! {
    __mpi_f08_types_MOD_mpi_status_f08_assign_c
    __mpi_f08_types_MOD_mpi_status_c_assign_f08
}

macro_rules! sizes {
    ($($bytes:literal: $($name:ident)+;)*) => { $( $(
        // SAFETY: the name is that of MPICH's library.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(_variable: *const c_void, size: *mut c_int, ierror: *mut c_int) {
            // SAFETY: the compiler hands over the addresses of INTEGERs; the second may be left out.
            unsafe {
                *size = $bytes;
                put_code(ierror, MPI_SUCCESS);
            }
        }
    )+ )* };
}

sizes! {
    1: __mpi_sizeofs_MOD_mpi_sizeof_ch __mpi_sizeofs_MOD_mpi_sizeof_chv
       __mpi_sizeofs_MOD_mpi_sizeof_ch1 __mpi_sizeofs_MOD_mpi_sizeof_ch1v
       __mpi_sizeofs_MOD_mpi_sizeof_i1 __mpi_sizeofs_MOD_mpi_sizeof_i1v
       __mpi_f08_types_MOD_mpi_sizeof_character __mpi_f08_types_MOD_mpi_sizeof_xint8;
    2: __mpi_sizeofs_MOD_mpi_sizeof_i2 __mpi_sizeofs_MOD_mpi_sizeof_i2v
       __mpi_f08_types_MOD_mpi_sizeof_xint16;
    4: __mpi_sizeofs_MOD_mpi_sizeof_i __mpi_sizeofs_MOD_mpi_sizeof_iv
       __mpi_sizeofs_MOD_mpi_sizeof_i4 __mpi_sizeofs_MOD_mpi_sizeof_i4v
       __mpi_sizeofs_MOD_mpi_sizeof_l __mpi_sizeofs_MOD_mpi_sizeof_lv
       __mpi_sizeofs_MOD_mpi_sizeof_l4 __mpi_sizeofs_MOD_mpi_sizeof_l4v
       __mpi_sizeofs_MOD_mpi_sizeof_r __mpi_sizeofs_MOD_mpi_sizeof_rv
       __mpi_sizeofs_MOD_mpi_sizeof_r4 __mpi_sizeofs_MOD_mpi_sizeof_r4v
       __mpi_f08_types_MOD_mpi_sizeof_xint32 __mpi_f08_types_MOD_mpi_sizeof_xreal32
       __mpi_f08_types_MOD_mpi_sizeof_logical;
    8: __mpi_sizeofs_MOD_mpi_sizeof_i8 __mpi_sizeofs_MOD_mpi_sizeof_i8v
       __mpi_sizeofs_MOD_mpi_sizeof_d __mpi_sizeofs_MOD_mpi_sizeof_dv
       __mpi_sizeofs_MOD_mpi_sizeof_r8 __mpi_sizeofs_MOD_mpi_sizeof_r8v
       __mpi_sizeofs_MOD_mpi_sizeof_cx __mpi_sizeofs_MOD_mpi_sizeof_cxv
       __mpi_sizeofs_MOD_mpi_sizeof_cx8 __mpi_sizeofs_MOD_mpi_sizeof_cx8v
       __mpi_f08_types_MOD_mpi_sizeof_xint64 __mpi_f08_types_MOD_mpi_sizeof_xreal64
       __mpi_f08_types_MOD_mpi_sizeof_xcomplex32;
    16: __mpi_sizeofs_MOD_mpi_sizeof_cx16 __mpi_sizeofs_MOD_mpi_sizeof_cx16v
       __mpi_f08_types_MOD_mpi_sizeof_xreal128 __mpi_f08_types_MOD_mpi_sizeof_xcomplex64;
    32: __mpi_f08_types_MOD_mpi_sizeof_xcomplex128;
}

other_names! {
    mpi_f_sync_reg_: mpi_f_sync_reg mpi_f_sync_reg__ MPI_F_SYNC_REG mpi_f_sync_reg_f08ts_
        pmpi_f_sync_reg pmpi_f_sync_reg_ pmpi_f_sync_reg__ PMPI_F_SYNC_REG pmpir_f_sync_reg_f08ts_;
    mpi_comm_dup_fn_: __mpi_f08_callbacks_MOD_mpi_comm_dup_fn;
    mpi_comm_null_copy_fn_: __mpi_f08_callbacks_MOD_mpi_comm_null_copy_fn;
    mpi_comm_null_delete_fn_: __mpi_f08_callbacks_MOD_mpi_comm_null_delete_fn;
    mpi_type_dup_fn_: __mpi_f08_callbacks_MOD_mpi_type_dup_fn;
    mpi_type_null_copy_fn_: __mpi_f08_callbacks_MOD_mpi_type_null_copy_fn;
    mpi_type_null_delete_fn_: __mpi_f08_callbacks_MOD_mpi_type_null_delete_fn;
    mpi_win_dup_fn_: __mpi_f08_callbacks_MOD_mpi_win_dup_fn;
    mpi_win_null_copy_fn_: __mpi_f08_callbacks_MOD_mpi_win_null_copy_fn;
    mpi_win_null_delete_fn_: __mpi_f08_callbacks_MOD_mpi_win_null_delete_fn;
    mpi_conversion_fn_null_: mpi_conversion_fn_null mpi_conversion_fn_null__ MPI_CONVERSION_FN_NULL
        pmpi_conversion_fn_null pmpi_conversion_fn_null_ pmpi_conversion_fn_null__ PMPI_CONVERSION_FN_NULL
        __mpi_f08_callbacks_MOD_mpi_conversion_fn_null;
    mpi_conversion_fn_null_c_: mpi_conversion_fn_null_c mpi_conversion_fn_null_c__ MPI_CONVERSION_FN_NULL_C
        __mpi_f08_callbacks_MOD_mpi_conversion_fn_null_c;
    mpi_alloc_mem_: mpi_alloc_mem_cptr mpi_alloc_mem_cptr_ mpi_alloc_mem_cptr__ MPI_ALLOC_MEM_CPTR;
    pmpi_alloc_mem_:
        pmpi_alloc_mem_cptr pmpi_alloc_mem_cptr_ pmpi_alloc_mem_cptr__ PMPI_ALLOC_MEM_CPTR;
    mpi_win_allocate_:
        mpi_win_allocate_cptr mpi_win_allocate_cptr_ mpi_win_allocate_cptr__ MPI_WIN_ALLOCATE_CPTR;
    pmpi_win_allocate_:
        pmpi_win_allocate_cptr pmpi_win_allocate_cptr_ pmpi_win_allocate_cptr__ PMPI_WIN_ALLOCATE_CPTR;
    mpi_win_allocate_shared_:
        mpi_win_allocate_shared_cptr mpi_win_allocate_shared_cptr_ mpi_win_allocate_shared_cptr__
        MPI_WIN_ALLOCATE_SHARED_CPTR;
    pmpi_win_allocate_shared_:
        pmpi_win_allocate_shared_cptr pmpi_win_allocate_shared_cptr_ pmpi_win_allocate_shared_cptr__
        PMPI_WIN_ALLOCATE_SHARED_CPTR;
    mpi_win_shared_query_:
        mpi_win_shared_query_cptr mpi_win_shared_query_cptr_ mpi_win_shared_query_cptr__
        MPI_WIN_SHARED_QUERY_CPTR;
    pmpi_win_shared_query_:
        pmpi_win_shared_query_cptr pmpi_win_shared_query_cptr_ pmpi_win_shared_query_cptr__
        PMPI_WIN_SHARED_QUERY_CPTR;
    mpi_remove_error_class_f08_: mpi_delete_error_class_f08_;
    pmpir_remove_error_class_f08_: pmpir_delete_error_class_f08_;
    mpi_remove_error_code_f08_: mpi_delete_error_code_f08_;
    pmpir_remove_error_code_f08_: pmpir_delete_error_code_f08_;
    mpi_remove_error_string_f08_: mpi_delete_error_string_f08_;
    pmpir_remove_error_string_f08_: pmpir_delete_error_string_f08_;
}

/// Names of MPI_CONVERSION_FN_NULL beside the plain ones.
pub(crate) const NO_CONVERSIONS: [unsafe extern "C" fn(); 12] = [
    names::mpi_conversion_fn_null,
    names::mpi_conversion_fn_null__,
    names::MPI_CONVERSION_FN_NULL,
    names::pmpi_conversion_fn_null,
    names::pmpi_conversion_fn_null_,
    names::pmpi_conversion_fn_null__,
    names::PMPI_CONVERSION_FN_NULL,
    names::__mpi_f08_callbacks_MOD_mpi_conversion_fn_null,
    names::mpi_conversion_fn_null_c,
    names::mpi_conversion_fn_null_c__,
    names::MPI_CONVERSION_FN_NULL_C,
    names::__mpi_f08_callbacks_MOD_mpi_conversion_fn_null_c,
];
