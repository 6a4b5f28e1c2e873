//! Addresses with a meaning: MPI_BOTTOM, MPI_STATUS_IGNORE and the like are variables in Fortran, known by
//! where they lie.
//!
//! `mpif.h` and the module `mpi` have them in COMMON blocks, which the linker or the loader joins with ours;
//! the object code of `mpi_f08` has variables of its modules, and some that lie in the C library.

use crate::abi::*;
use core::ffi::{c_int, c_void};

/// Variables that nobody reads or writes, as many bytes as MPICH has there, and more.
#[repr(C, align(32))]
pub struct Place([u8; 32]);

macro_rules! places {
    ($($name:ident)*) => { $(
        // SAFETY: the name is that of MPICH's library; nobody reads or writes what lies there.
        #[unsafe(no_mangle)]
        pub static mut $name: Place = Place([0; 32]);
    )* };
}

places! {
    // MPI_BOTTOM, MPI_IN_PLACE, MPI_STATUS_IGNORE(5).
    mpipriv1_
    // MPI_STATUSES_IGNORE(5, 1), MPI_ERRCODES_IGNORE(1).
    mpipriv2_
    // CHARACTER*1 MPI_ARGVS_NULL(1, 1), MPI_ARGV_NULL(1).
    mpiprivc_
    // MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY, MPI_BUFFER_AUTOMATIC.
    mpifcmb5_ mpifcmb9_ mpifcmba_
    __mpi_f08_link_constants_MOD_mpi_argv_null
    __mpi_f08_link_constants_MOD_mpi_argvs_null
    __mpi_f08_link_constants_MOD_mpi_errcodes_ignore
    __mpi_f08_link_constants_MOD_mpi_unweighted
    __mpi_f08_link_constants_MOD_mpi_weights_empty
    __mpi_f08_link_constants_MOD_mpi_buffer_automatic
}

unsafe extern "C" {
    static MPIR_F08_MPI_BOTTOM: c_int;
    static MPIR_F08_MPI_IN_PLACE: c_int;
    static MPIR_F08_MPI_STATUS_IGNORE_OBJ: [c_int; 5];
    static MPIR_F08_MPI_STATUSES_IGNORE_OBJ: [c_int; 5];
    /// Values of C that mean weights.
    #[link_name = "MPI_UNWEIGHTED"]
    static UNWEIGHTED: *mut c_int;
    #[link_name = "MPI_WEIGHTS_EMPTY"]
    static WEIGHTS_EMPTY: *mut c_int;
}

/// Places of variables in their COMMON blocks.
const IN_PLACE: usize = 4;
const STATUS_IGNORE: usize = 8;
const ERRCODES_IGNORE: usize = 20;
const ARGV_NULL: usize = 1;

/// Whether the address is that of one of the variables, each with its place in what has the name.
macro_rules! is_at {
    ($address:expr, $($place:ident $(+ $offset:ident)?),*) => {
        $( $address.addr() == (&raw const $place).addr() $(+ $offset)? || )* false
    };
}

/// A buffer as C has it.
#[inline(always)]
pub(crate) fn buffer(address: *mut c_void) -> *mut c_void {
    if is_at!(address, mpipriv1_, MPIR_F08_MPI_BOTTOM) {
        MPI_BOTTOM
    } else if is_at!(address, mpipriv1_ + IN_PLACE, MPIR_F08_MPI_IN_PLACE) {
        MPI_IN_PLACE
    } else if is_at!(address, mpifcmba_, __mpi_f08_link_constants_MOD_mpi_buffer_automatic) {
        MPI_BUFFER_AUTOMATIC
    } else {
        address
    }
}

/// An address of C for `mpi_f08`: that of the variable MPI_BUFFER_AUTOMATIC instead of the number.
pub(crate) fn variable_of(address: *mut c_void) -> *mut c_void {
    if address == MPI_BUFFER_AUTOMATIC {
        (&raw mut __mpi_f08_link_constants_MOD_mpi_buffer_automatic).cast()
    } else {
        address
    }
}

/// A status, or an array of statuses.
#[inline(always)]
pub(crate) fn status(address: *mut MPI_Status) -> *mut MPI_Status {
    let ignored = is_at!(
        address,
        mpipriv1_ + STATUS_IGNORE,
        mpipriv2_,
        MPIR_F08_MPI_STATUS_IGNORE_OBJ,
        MPIR_F08_MPI_STATUSES_IGNORE_OBJ
    );
    if ignored { MPI_STATUS_IGNORE } else { address }
}

/// Weights of edges.
pub(crate) fn weights(address: *mut c_int) -> *mut c_int {
    // SAFETY: variables of the C library, which nothing writes once the program runs.
    unsafe {
        if is_at!(address, mpifcmb5_, __mpi_f08_link_constants_MOD_mpi_unweighted) {
            UNWEIGHTED
        } else if is_at!(address, mpifcmb9_, __mpi_f08_link_constants_MOD_mpi_weights_empty) {
            WEIGHTS_EMPTY
        } else {
            address
        }
    }
}

/// Error codes of new processes.
pub(crate) fn error_codes(address: *mut c_int) -> *mut c_int {
    let ignored =
        is_at!(address, mpipriv2_ + ERRCODES_IGNORE, __mpi_f08_link_constants_MOD_mpi_errcodes_ignore);
    if ignored { MPI_ERRCODES_IGNORE } else { address }
}

/// Whether arguments of new processes are left out.
pub(crate) fn is_no_arguments(address: *const u8) -> bool {
    is_at!(
        address,
        mpiprivc_,
        mpiprivc_ + ARGV_NULL,
        __mpi_f08_link_constants_MOD_mpi_argv_null,
        __mpi_f08_link_constants_MOD_mpi_argvs_null
    )
}
