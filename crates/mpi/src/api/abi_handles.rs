//! Handles as integers, and the version of the binary interface.
//!
//! A handle is a number below 2^31 that C carries in a pointer, so both directions are the identity on 32
//! bits: the standard's integers for predefined handles come out by themselves, and Fortran uses the same
//! numbers. These functions may be called at any time and cannot report an error; a number that is no handle
//! is noticed by the function that uses it.

use crate::abi::*;
use core::ffi::c_int;

/// Writes the version of the binary interface, 1.0.
#[inline]
pub unsafe fn MPI_Abi_get_version(abi_major: *mut c_int, abi_minor: *mut c_int) -> c_int {
    if abi_major.is_null() || abi_minor.is_null() {
        return MPI_ERR_ARG;
    }
    // SAFETY: the caller gives two places for integers; neither is null.
    unsafe {
        abi_major.write(MPI_ABI_VERSION);
        abi_minor.write(MPI_ABI_SUBVERSION);
    }
    MPI_SUCCESS
}

/// The integer of a handle.
#[inline]
pub unsafe fn MPI_Comm_toint(comm: MPI_Comm) -> c_int {
    to_int(comm.0)
}

/// The handle of an integer.
#[inline]
pub unsafe fn MPI_Comm_fromint(comm: c_int) -> MPI_Comm {
    MPI_Comm(from_int(comm))
}

/// The integer of a handle.
#[inline]
pub unsafe fn MPI_Errhandler_toint(errhandler: MPI_Errhandler) -> c_int {
    to_int(errhandler.0)
}

/// The handle of an integer.
#[inline]
pub unsafe fn MPI_Errhandler_fromint(errhandler: c_int) -> MPI_Errhandler {
    MPI_Errhandler(from_int(errhandler))
}

/// The integer of a handle.
#[inline]
pub unsafe fn MPI_File_toint(file: MPI_File) -> c_int {
    to_int(file.0)
}

/// The handle of an integer.
#[inline]
pub unsafe fn MPI_File_fromint(file: c_int) -> MPI_File {
    MPI_File(from_int(file))
}

/// The integer of a handle.
#[inline]
pub unsafe fn MPI_Group_toint(group: MPI_Group) -> c_int {
    to_int(group.0)
}

/// The handle of an integer.
#[inline]
pub unsafe fn MPI_Group_fromint(group: c_int) -> MPI_Group {
    MPI_Group(from_int(group))
}

/// The integer of a handle.
#[inline]
pub unsafe fn MPI_Info_toint(info: MPI_Info) -> c_int {
    to_int(info.0)
}

/// The handle of an integer.
#[inline]
pub unsafe fn MPI_Info_fromint(info: c_int) -> MPI_Info {
    MPI_Info(from_int(info))
}

/// The integer of a handle.
#[inline]
pub unsafe fn MPI_Message_toint(message: MPI_Message) -> c_int {
    to_int(message.0)
}

/// The handle of an integer.
#[inline]
pub unsafe fn MPI_Message_fromint(message: c_int) -> MPI_Message {
    MPI_Message(from_int(message))
}

/// The integer of a handle.
#[inline]
pub unsafe fn MPI_Op_toint(op: MPI_Op) -> c_int {
    to_int(op.0)
}

/// The handle of an integer.
#[inline]
pub unsafe fn MPI_Op_fromint(op: c_int) -> MPI_Op {
    MPI_Op(from_int(op))
}

/// The integer of a handle.
#[inline]
pub unsafe fn MPI_Request_toint(request: MPI_Request) -> c_int {
    to_int(request.0)
}

/// The handle of an integer.
#[inline]
pub unsafe fn MPI_Request_fromint(request: c_int) -> MPI_Request {
    MPI_Request(from_int(request))
}

/// The integer of a handle.
#[inline]
pub unsafe fn MPI_Session_toint(session: MPI_Session) -> c_int {
    to_int(session.0)
}

/// The handle of an integer.
#[inline]
pub unsafe fn MPI_Session_fromint(session: c_int) -> MPI_Session {
    MPI_Session(from_int(session))
}

/// The integer of a handle.
#[inline]
pub unsafe fn MPI_Type_toint(datatype: MPI_Datatype) -> c_int {
    to_int(datatype.0)
}

/// The handle of an integer.
#[inline]
pub unsafe fn MPI_Type_fromint(datatype: c_int) -> MPI_Datatype {
    MPI_Datatype(from_int(datatype))
}

/// The integer of a handle.
#[inline]
pub unsafe fn MPI_Win_toint(win: MPI_Win) -> c_int {
    to_int(win.0)
}

/// The handle of an integer.
#[inline]
pub unsafe fn MPI_Win_fromint(win: c_int) -> MPI_Win {
    MPI_Win(from_int(win))
}

/// Handles fit 31 bits; a foreign pointer is cut, and is then as wrong as it was.
#[inline]
fn to_int(handle: usize) -> c_int {
    handle as c_int
}

/// A negative integer is no handle; it keeps its 32 bits, so that nothing on the way makes another handle of
/// it.
#[inline]
fn from_int(integer: c_int) -> usize {
    integer as u32 as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predefined_handles_have_standard_integers() {
        // SAFETY: these functions only convert numbers.
        unsafe {
            assert_eq!(MPI_Comm_toint(MPI_COMM_WORLD), 0x101);
            assert_eq!(MPI_Type_fromint(0x209), MPI_INT);
            assert_eq!(
                MPI_Request_fromint(MPI_Request_toint(MPI_Request(0x7fff_ffff))),
                MPI_Request(0x7fff_ffff)
            );
        }
    }
}
