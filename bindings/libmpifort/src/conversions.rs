//! Conversions between C and Fortran (MPI 19.3.4, 19.3.5) as functions of C. `mpi.h` has them inline; a
//! program in Fortran declares them with `BIND(C)`, and other languages have no such header.

use crate::abi::*;
use crate::handle::{handle, integer};
use crate::sentinels;
use core::ffi::c_int;

macro_rules! exported {
    ($($name:ident($argument:ident: $given:ty) -> $made:ty = $body:expr;)*) => { $(
        // SAFETY: no other library may define the name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($argument: $given) -> $made {
            $body
        }
    )* };
}

macro_rules! handles {
    ($($class:ident: $to:ident $to_twin:ident $from:ident $from_twin:ident)*) => { $(
        exported! {
            $to(given: $class) -> c_int = integer(given);
            $to_twin(given: $class) -> c_int = integer(given);
            $from(given: c_int) -> $class = handle(given);
            $from_twin(given: c_int) -> $class = handle(given);
        }
    )* };
}

handles! {
    MPI_Comm: MPI_Comm_c2f PMPI_Comm_c2f MPI_Comm_f2c PMPI_Comm_f2c
    MPI_Datatype: MPI_Type_c2f PMPI_Type_c2f MPI_Type_f2c PMPI_Type_f2c
    MPI_Errhandler: MPI_Errhandler_c2f PMPI_Errhandler_c2f MPI_Errhandler_f2c PMPI_Errhandler_f2c
    MPI_File: MPI_File_c2f PMPI_File_c2f MPI_File_f2c PMPI_File_f2c
    MPI_Group: MPI_Group_c2f PMPI_Group_c2f MPI_Group_f2c PMPI_Group_f2c
    MPI_Info: MPI_Info_c2f PMPI_Info_c2f MPI_Info_f2c PMPI_Info_f2c
    MPI_Message: MPI_Message_c2f PMPI_Message_c2f MPI_Message_f2c PMPI_Message_f2c
    MPI_Op: MPI_Op_c2f PMPI_Op_c2f MPI_Op_f2c PMPI_Op_f2c
    MPI_Request: MPI_Request_c2f PMPI_Request_c2f MPI_Request_f2c PMPI_Request_f2c
    MPI_Session: MPI_Session_c2f PMPI_Session_c2f MPI_Session_f2c PMPI_Session_f2c
    MPI_Win: MPI_Win_c2f PMPI_Win_c2f MPI_Win_f2c PMPI_Win_f2c
}

macro_rules! statuses {
    ($($name:ident)*) => { $(
        // SAFETY: no other library may define the name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(from: *mut MPI_Status, to: *mut MPI_Status) -> c_int {
            // What is to be ignored has no contents.
            if [from, to].into_iter().any(|status| sentinels::status(status) == MPI_STATUS_IGNORE) {
                return MPI_ERR_ARG;
            }
            // SAFETY: the caller gives two statuses, which have one layout in all languages.
            unsafe { to.write(from.read()) }
            MPI_SUCCESS
        }
    )* };
}

statuses! {
    MPI_Status_c2f PMPI_Status_c2f MPI_Status_f2c PMPI_Status_f2c
    MPI_Status_c2f08 PMPI_Status_c2f08 MPI_Status_f082c PMPI_Status_f082c
    MPI_Status_f2f08 PMPI_Status_f2f08 MPI_Status_f082f PMPI_Status_f082f
}
