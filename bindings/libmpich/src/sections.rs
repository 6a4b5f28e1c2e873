//! Array sections of `mpi_f08` for the Fortran library over this one (`bindings/libmpichfort`): what our
//! library does with them beyond C, with handles in MPICH's numbers.

use crate::abi::*;
use crate::handle::{self, Handle};
use crate::roles;
use core::ffi::{c_char, c_int, c_void};

/// A call of the user: its function, and the object on which its errors are raised. Our library has the same
/// structure.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Caller {
    function: *const c_char,
    kind: c_int,
    object: usize,
}

/// Kinds of objects, in the order of that structure.
const COMM: c_int = 0;
const WIN: c_int = 1;
const FILE: c_int = 2;

impl Caller {
    /// The caller with our handle of its object.
    fn ours(self) -> Caller {
        let object = match self.kind {
            COMM => handle::ours::<MPI_Comm>(self.object as c_int).number(),
            WIN => handle::ours::<MPI_Win>(self.object as c_int).number(),
            FILE => handle::ours::<MPI_File>(core::ptr::without_provenance_mut(self.object)).number(),
            _ => handle::ours::<MPI_Session>(self.object as c_int).number(),
        };
        Caller { object, ..self }
    }
}

mod c {
    use super::*;

    unsafe extern "C-unwind" {
        pub(super) fn tutti_section_type_of(
            caller: Caller,
            descriptor: *const c_void,
            count: MPI_Count,
            datatype: MPI_Datatype,
            newtype: *mut MPI_Datatype,
        ) -> c_int;
        pub(super) fn tutti_section_refused(caller: Caller, argument: *const c_char) -> c_int;
        pub(super) fn tutti_sections_attach(
            caller: Caller,
            stage: *mut c_void,
            request: *const MPI_Request,
        ) -> c_int;
        pub(super) fn tutti_section_of_partitions(
            caller: Caller,
            descriptor: *const c_void,
            count: MPI_Count,
            datatype: MPI_Datatype,
            request: MPI_Request,
        ) -> c_int;
    }
}

/// A datatype of one section.
// SAFETY: no other library may define the name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_mpich_section_type_of(
    caller: Caller,
    descriptor: *const c_void,
    count: MPI_Count,
    datatype: c_int,
    newtype: *mut c_int,
) -> c_int {
    // SAFETY: the bindings give a descriptor, and the place of a handle.
    unsafe {
        let mut made = handle::Place::<MPI_Datatype>::new(newtype, false);
        let datatype = handle::ours(datatype);
        let code = c::tutti_section_type_of(caller.ours(), descriptor, count, datatype, made.address());
        made.put();
        roles::out_error(code)
    }
}

/// Raises that an argument must be contiguous.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_mpich_section_refused(
    caller: Caller,
    argument: *const c_char,
) -> c_int {
    // SAFETY: the bindings give a text.
    roles::out_error(unsafe { c::tutti_section_refused(caller.ours(), argument) })
}

/// Leaves copies of sections with the request of their operation.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_mpich_sections_attach(
    caller: Caller,
    stage: *mut c_void,
    request: *const c_int,
) -> c_int {
    // SAFETY: the bindings give what they have got from `tutti_sections_stage`, and a request or null.
    unsafe {
        let request = request.as_ref().map(|request| handle::ours::<MPI_Request>(*request));
        let place = request.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
        roles::out_error(c::tutti_sections_attach(caller.ours(), stage, place))
    }
}

/// The section that the partitions of a message are.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_mpich_section_of_partitions(
    caller: Caller,
    descriptor: *const c_void,
    count: MPI_Count,
    datatype: c_int,
    request: c_int,
) -> c_int {
    let (datatype, request) = (handle::ours(datatype), handle::ours(request));
    // SAFETY: the bindings give a descriptor.
    roles::out_error(unsafe {
        c::tutti_section_of_partitions(caller.ours(), descriptor, count, datatype, request)
    })
}
