//! Functions removed in MPI-3.0, which programs in Fortran 77 still call: displacements are INTEGER.

use crate::abi::*;
use crate::handle::{Handle, Handles, absent, handle, put};
use crate::{c, put_code, sentinels};
use core::ffi::{c_int, c_void};

/// A displacement or extent as an INTEGER, or the error of one that is too large.
unsafe fn narrow(code: c_int, value: MPI_Aint, place: *mut c_int, ierror: *mut c_int) {
    // SAFETY: places of INTEGERs.
    unsafe {
        match c_int::try_from(value) {
            Ok(value) if code == MPI_SUCCESS => *place = value,
            Err(_) if code == MPI_SUCCESS => {
                *place = MPI_UNDEFINED;
                return put_code(
                    ierror,
                    c::PMPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_ARG).max(MPI_ERR_ARG),
                );
            }
            _ => {}
        }
        put_code(ierror, code);
    }
}

unsafe fn wide(places: *const c_int, count: c_int) -> Vec<MPI_Aint> {
    // SAFETY: the caller's array has so many elements.
    (0..usize::try_from(count).unwrap_or(0)).map(|at| unsafe { *places.add(at) } as MPI_Aint).collect()
}

unsafe fn make<T: Handle>(place: *mut c_int, ierror: *mut c_int, call: impl FnOnce(*mut T) -> c_int) {
    let mut made = absent();
    let code = call(&mut made);
    // SAFETY: places of INTEGERs.
    unsafe {
        put(place, made);
        put_code(ierror, code);
    }
}

macro_rules! removed {
    ($($name:ident $twin:ident [$($function:ident $profiling:ident),+] ($($argument:ident: $class:ty),*) $body:block)*) => { $(
        removed! { @one $name [$($function => $function),+] ($($argument: $class),*) $body }
        removed! { @one $twin [$($function => $profiling),+] ($($argument: $class),*) $body }
    )* };
    (@one $name:ident [$($function:ident => $called:ident),+] ($($argument:ident: $class:ty),*) $body:block) => {
        // SAFETY: no other library may define the name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $class),*) {
            $( use c::$called as $function; )+
            // SAFETY: the arguments are those of the caller, who keeps the standard's rules for them.
            unsafe { $body }
        }
    };
}

removed! {
    mpi_address_ pmpi_address_ [MPI_Get_address PMPI_Get_address]
    (location: *mut c_void, address: *mut c_int, ierror: *mut c_int) {
        let mut found = 0;
        let code = MPI_Get_address(sentinels::buffer(location), &mut found);
        narrow(code, found, address, ierror);
    }

    mpi_type_extent_ pmpi_type_extent_ [MPI_Type_get_extent PMPI_Type_get_extent]
    (datatype: *const c_int, extent: *mut c_int, ierror: *mut c_int) {
        let (mut lower, mut found) = (0, 0);
        let code = MPI_Type_get_extent(handle(*datatype), &mut lower, &mut found);
        narrow(code, found, extent, ierror);
    }

    mpi_type_lb_ pmpi_type_lb_ [MPI_Type_get_extent PMPI_Type_get_extent]
    (datatype: *const c_int, displacement: *mut c_int, ierror: *mut c_int) {
        let (mut lower, mut extent) = (0, 0);
        let code = MPI_Type_get_extent(handle(*datatype), &mut lower, &mut extent);
        narrow(code, lower, displacement, ierror);
    }

    mpi_type_ub_ pmpi_type_ub_ [MPI_Type_get_extent PMPI_Type_get_extent]
    (datatype: *const c_int, displacement: *mut c_int, ierror: *mut c_int) {
        let (mut lower, mut extent) = (0, 0);
        let code = MPI_Type_get_extent(handle(*datatype), &mut lower, &mut extent);
        narrow(code, lower + extent, displacement, ierror);
    }

    mpi_type_hvector_ pmpi_type_hvector_ [MPI_Type_create_hvector PMPI_Type_create_hvector]
    (count: *const c_int, blocklength: *const c_int, stride: *const c_int, oldtype: *const c_int,
     newtype: *mut c_int, ierror: *mut c_int) {
        make(newtype, ierror, |made| {
            MPI_Type_create_hvector(*count, *blocklength, *stride as MPI_Aint, handle(*oldtype), made)
        });
    }

    mpi_type_hindexed_ pmpi_type_hindexed_ [MPI_Type_create_hindexed PMPI_Type_create_hindexed]
    (count: *const c_int, blocklengths: *const c_int, displacements: *const c_int, oldtype: *const c_int,
     newtype: *mut c_int, ierror: *mut c_int) {
        let displacements = wide(displacements, *count);
        make(newtype, ierror, |made| {
            MPI_Type_create_hindexed(*count, blocklengths, displacements.as_ptr(), handle(*oldtype), made)
        });
    }

    mpi_type_struct_ pmpi_type_struct_ [MPI_Type_create_struct PMPI_Type_create_struct]
    (count: *const c_int, blocklengths: *const c_int, displacements: *const c_int, oldtypes: *mut c_int,
     newtype: *mut c_int, ierror: *mut c_int) {
        let displacements = wide(displacements, *count);
        let mut oldtypes = Handles::<MPI_Datatype>::new(oldtypes, i64::from(*count), true);
        make(newtype, ierror, |made| {
            MPI_Type_create_struct(*count, blocklengths, displacements.as_ptr(), oldtypes.address(), made)
        });
    }

    mpi_errhandler_create_ pmpi_errhandler_create_ [MPI_Comm_create_errhandler PMPI_Comm_create_errhandler]
    (function: usize, errhandler: *mut c_int, ierror: *mut c_int) {
        make(errhandler, ierror, |made| MPI_Comm_create_errhandler(function, made));
    }

    mpi_errhandler_get_ pmpi_errhandler_get_ [MPI_Comm_get_errhandler PMPI_Comm_get_errhandler]
    (comm: *const c_int, errhandler: *mut c_int, ierror: *mut c_int) {
        make(errhandler, ierror, |made| MPI_Comm_get_errhandler(handle(*comm), made));
    }

    mpi_errhandler_set_ pmpi_errhandler_set_ [MPI_Comm_set_errhandler PMPI_Comm_set_errhandler]
    (comm: *const c_int, errhandler: *const c_int, ierror: *mut c_int) {
        put_code(ierror, MPI_Comm_set_errhandler(handle(*comm), handle(*errhandler)));
    }
}
