//! Functions that return a value instead of an error code, and those that C has not at all.

use crate::abi::*;
use crate::{c, put_code};
use core::ffi::{c_int, c_void};

macro_rules! exported {
    ($($(#[$about:meta])* $name:ident ($($argument:ident: $class:ty),*) $(-> $returns:ty)? $body:block)*) => { $(
        $(#[$about])*
        // SAFETY: no other library may define the name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $class),*) $(-> $returns)? {
            // SAFETY: the arguments are those of the caller, who keeps the standard's rules for them.
            #[allow(unused_unsafe, reason = "some do nothing")]
            unsafe { $body }
        }
    )* };
}

exported! {
    mpi_wtime_() -> f64 { c::MPI_Wtime() }
    pmpi_wtime_() -> f64 { c::PMPI_Wtime() }
    mpi_wtime_f08_() -> f64 { c::MPI_Wtime() }
    pmpi_wtime_f08_() -> f64 { c::PMPI_Wtime() }
    mpi_wtick_() -> f64 { c::MPI_Wtick() }
    pmpi_wtick_() -> f64 { c::PMPI_Wtick() }
    mpi_wtick_f08_() -> f64 { c::MPI_Wtick() }
    pmpi_wtick_f08_() -> f64 { c::PMPI_Wtick() }
    mpi_aint_add_(base: *const MPI_Aint, disp: *const MPI_Aint) -> MPI_Aint { c::MPI_Aint_add(*base, *disp) }
    pmpi_aint_add_(base: *const MPI_Aint, disp: *const MPI_Aint) -> MPI_Aint { c::PMPI_Aint_add(*base, *disp) }
    mpi_aint_diff_(one: *const MPI_Aint, other: *const MPI_Aint) -> MPI_Aint { c::MPI_Aint_diff(*one, *other) }
    pmpi_aint_diff_(one: *const MPI_Aint, other: *const MPI_Aint) -> MPI_Aint { c::PMPI_Aint_diff(*one, *other) }
    mpi_aint_add_f08_(base: *const MPI_Aint, disp: *const MPI_Aint) -> MPI_Aint { c::MPI_Aint_add(*base, *disp) }
    pmpi_aint_add_f08_(base: *const MPI_Aint, disp: *const MPI_Aint) -> MPI_Aint { c::PMPI_Aint_add(*base, *disp) }
    mpi_aint_diff_f08_(one: *const MPI_Aint, other: *const MPI_Aint) -> MPI_Aint { c::MPI_Aint_diff(*one, *other) }
    pmpi_aint_diff_f08_(one: *const MPI_Aint, other: *const MPI_Aint) -> MPI_Aint { c::PMPI_Aint_diff(*one, *other) }
    mpi_pcontrol_(level: *const c_int) { c::MPI_Pcontrol(*level); }
    pmpi_pcontrol_(level: *const c_int) { c::PMPI_Pcontrol(*level); }
    mpi_pcontrol_f08_(level: *const c_int) { c::MPI_Pcontrol(*level); }
    pmpi_pcontrol_f08_(level: *const c_int) { c::PMPI_Pcontrol(*level); }

    /// Does nothing: that it might is what keeps the compiler from moving a buffer's use (19.1.8).
    mpi_f_sync_reg_(_buffer: *mut c_void) {}

    mpi_status_f2f08_(from: *const MPI_Status, to: *mut MPI_Status, ierror: *mut c_int) {
        *to = *from;
        put_code(ierror, MPI_SUCCESS);
    }
    mpi_status_f082f_(from: *const MPI_Status, to: *mut MPI_Status, ierror: *mut c_int) {
        *to = *from;
        put_code(ierror, MPI_SUCCESS);
    }
}
