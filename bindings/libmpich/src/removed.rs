//! Functions that MPI-3.0 has removed and MPICH still has, and conversions to Fortran's integers and
//! statuses, which are macros or functions of C alone.

use crate::abi::*;
use crate::handle::MpichFile;
use crate::status::Status;
use crate::*;

macro_rules! both {
    ($($name:ident $twin:ident ($($argument:ident: $class:ty),*) -> $returns:ty $body:block)*) => { $(
        // SAFETY: the name is that of MPICH's library, for which this one stands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $class),*) -> $returns {
            // SAFETY: the caller keeps the rules of the standard.
            #[allow(unused_unsafe, reason = "some only give a number back")]
            unsafe { $body }
        }
        // SAFETY: as above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $twin($($argument: $class),*) -> $returns {
            // SAFETY: as above.
            unsafe { $name($($argument),*) }
        }
    )* };
}

both! {
    MPI_Address PMPI_Address(location: *mut c_void, address: *mut MPI_Aint) -> c_int {
        body_MPI_Get_address(location, address)
    }
    MPI_Errhandler_create PMPI_Errhandler_create(function: usize, errhandler: *mut c_int) -> c_int {
        by_hand::Comm_create_errhandler(function, errhandler)
    }
    MPI_Errhandler_get PMPI_Errhandler_get(comm: c_int, errhandler: *mut c_int) -> c_int {
        by_hand::Comm_get_errhandler(comm, errhandler)
    }
    MPI_Errhandler_set PMPI_Errhandler_set(comm: c_int, errhandler: c_int) -> c_int {
        by_hand::Comm_set_errhandler(comm, errhandler)
    }
    MPI_Type_extent PMPI_Type_extent(datatype: c_int, extent: *mut MPI_Aint) -> c_int {
        let mut lb = 0;
        body_MPI_Type_get_extent(datatype, &mut lb, extent)
    }
    MPI_Type_lb PMPI_Type_lb(datatype: c_int, displacement: *mut MPI_Aint) -> c_int {
        let mut extent = 0;
        body_MPI_Type_get_extent(datatype, displacement, &mut extent)
    }
    MPI_Type_ub PMPI_Type_ub(datatype: c_int, displacement: *mut MPI_Aint) -> c_int {
        let (mut lb, mut extent) = (0, 0);
        let place: *mut MPI_Aint = if displacement.is_null() { displacement } else { &mut extent };
        let code = body_MPI_Type_get_extent(datatype, &mut lb, place);
        if code == MPI_SUCCESS {
            *displacement = lb + extent;
        }
        code
    }
    MPI_Type_hvector PMPI_Type_hvector(
        count: c_int, blocklength: c_int, stride: MPI_Aint, oldtype: c_int, newtype: *mut c_int
    ) -> c_int {
        body_MPI_Type_create_hvector(count, blocklength, stride, oldtype, newtype)
    }
    MPI_Type_hindexed PMPI_Type_hindexed(
        count: c_int, lengths: *const c_int, displacements: *const MPI_Aint, oldtype: c_int, newtype: *mut c_int
    ) -> c_int {
        body_MPI_Type_create_hindexed(count, lengths, displacements, oldtype, newtype)
    }
    MPI_Type_struct PMPI_Type_struct(
        count: c_int, lengths: *const c_int, displacements: *const MPI_Aint, types: *const c_int, newtype: *mut c_int
    ) -> c_int {
        body_MPI_Type_create_struct(count, lengths, displacements, types, newtype)
    }

    MPI_Comm_c2f PMPI_Comm_c2f(handle: c_int) -> c_int { handle }
    MPI_Comm_f2c PMPI_Comm_f2c(handle: c_int) -> c_int { handle }
    MPI_Errhandler_c2f PMPI_Errhandler_c2f(handle: c_int) -> c_int { handle }
    MPI_Errhandler_f2c PMPI_Errhandler_f2c(handle: c_int) -> c_int { handle }
    MPI_Group_c2f PMPI_Group_c2f(handle: c_int) -> c_int { handle }
    MPI_Group_f2c PMPI_Group_f2c(handle: c_int) -> c_int { handle }
    MPI_Info_c2f PMPI_Info_c2f(handle: c_int) -> c_int { handle }
    MPI_Info_f2c PMPI_Info_f2c(handle: c_int) -> c_int { handle }
    MPI_Message_c2f PMPI_Message_c2f(handle: c_int) -> c_int { handle }
    MPI_Message_f2c PMPI_Message_f2c(handle: c_int) -> c_int { handle }
    MPI_Op_c2f PMPI_Op_c2f(handle: c_int) -> c_int { handle }
    MPI_Op_f2c PMPI_Op_f2c(handle: c_int) -> c_int { handle }
    MPI_Request_c2f PMPI_Request_c2f(handle: c_int) -> c_int { handle }
    MPI_Request_f2c PMPI_Request_f2c(handle: c_int) -> c_int { handle }
    MPI_Session_c2f PMPI_Session_c2f(handle: c_int) -> c_int { handle }
    MPI_Session_f2c PMPI_Session_f2c(handle: c_int) -> c_int { handle }
    MPI_Type_c2f PMPI_Type_c2f(handle: c_int) -> c_int { handle }
    MPI_Type_f2c PMPI_Type_f2c(handle: c_int) -> c_int { handle }
    MPI_Win_c2f PMPI_Win_c2f(handle: c_int) -> c_int { handle }
    MPI_Win_f2c PMPI_Win_f2c(handle: c_int) -> c_int { handle }
    MPI_File_c2f PMPI_File_c2f(file: MpichFile) -> c_int { by_hand::File_toint(file) }
    MPI_File_f2c PMPI_File_f2c(file: c_int) -> MpichFile { by_hand::File_fromint(file) }

    MPI_Status_c2f PMPI_Status_c2f(from: *const Status, to: *mut Status) -> c_int { copied(from, to) }
    MPI_Status_f2c PMPI_Status_f2c(from: *const Status, to: *mut Status) -> c_int { copied(from, to) }
    MPI_Status_c2f08 PMPI_Status_c2f08(from: *const Status, to: *mut Status) -> c_int { copied(from, to) }
    MPI_Status_f082c PMPI_Status_f082c(from: *const Status, to: *mut Status) -> c_int { copied(from, to) }
    MPI_Status_f2f08 PMPI_Status_f2f08(from: *const Status, to: *mut Status) -> c_int { copied(from, to) }
    MPI_Status_f082f PMPI_Status_f082f(from: *const Status, to: *mut Status) -> c_int { copied(from, to) }
}

/// The same five integers in both languages. What is to be ignored cannot be copied.
unsafe fn copied(from: *const Status, to: *mut Status) -> c_int {
    if from.addr() <= 1 || to.addr() <= 1 {
        return roles::out_error(MPI_ERR_ARG);
    }
    // SAFETY: the caller gives two statuses.
    unsafe { *to = *from }
    MPI_SUCCESS
}
