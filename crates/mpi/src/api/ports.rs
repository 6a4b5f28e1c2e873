//! MPI 11.9: ports and published names.

use core::ffi::{CStr, c_char, c_int};

use crate::abi::*;
use crate::argument::{put, put_text, text};
use crate::errhandler::call;
use crate::error::Result;
use crate::info;
use crate::process::Guard;

/// Opens a port, to which other processes of the job connect by its name (11.9.2).
#[inline]
pub unsafe fn MPI_Open_port(info: MPI_Info, port_name: *mut c_char) -> c_int {
    call(c"MPI_Open_port", MPI_COMM_NULL, |guard| {
        info::hints(info)?;
        let name = guard.open_port()?;
        let mut length = 0;
        // SAFETY: the user gives room for MPI_MAX_PORT_NAME bytes.
        unsafe { put_text(name, port_name, MPI_MAX_PORT_NAME as usize, &raw mut length, "port_name") }
    })
}

/// Looks up the port that is published under the name of a service, by any process of the job (11.9.4).
#[inline]
pub unsafe fn MPI_Lookup_name(service_name: *const c_char, info: MPI_Info, port_name: *mut c_char) -> c_int {
    call(c"MPI_Lookup_name", MPI_COMM_NULL, |guard| {
        info::hints(info)?;
        // SAFETY: a text of the user.
        let name = guard.lookup_name(unsafe { text(service_name, "service_name") }?)?;
        let mut length = 0;
        // SAFETY: the user gives room for MPI_MAX_PORT_NAME bytes.
        unsafe { put_text(name, port_name, MPI_MAX_PORT_NAME as usize, &raw mut length, "port_name") }
    })
}

pub(super) fn publish_name(guard: &mut Guard, service: &[u8], info: MPI_Info, port: &[u8]) -> Result<()> {
    info::hints(info)?;
    guard.publish_name(service, port)
}

pub(super) fn unpublish_name(guard: &mut Guard, service: &[u8], info: MPI_Info, port: &[u8]) -> Result<()> {
    info::hints(info)?;
    guard.unpublish_name(service, port)
}

/// Waits for a group that connects to a port of the root, and makes an intercommunicator with it (11.9.2).
#[inline]
pub unsafe fn MPI_Comm_accept(
    port_name: *const c_char,
    info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    newcomm: *mut MPI_Comm,
) -> c_int {
    // SAFETY: as the user's.
    unsafe {
        meet(c"MPI_Comm_accept", port_name, info, comm, newcomm, |guard, name| guard.accept(name, root, comm))
    }
}

/// Connects to a port, and makes an intercommunicator with the group that accepts there (11.9.2).
#[inline]
pub unsafe fn MPI_Comm_connect(
    port_name: *const c_char,
    info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    newcomm: *mut MPI_Comm,
) -> c_int {
    // SAFETY: as the user's.
    unsafe {
        meet(c"MPI_Comm_connect", port_name, info, comm, newcomm, |guard, name| {
            guard.connect(name, root, comm)
        })
    }
}

/// The name and the info mean something at the root only; elsewhere the name may be anything.
unsafe fn meet(
    function: &'static CStr,
    port_name: *const c_char,
    info: MPI_Info,
    comm: MPI_Comm,
    newcomm: *mut MPI_Comm,
    body: impl FnOnce(&mut Guard, &mut dyn FnMut() -> Result<Vec<u8>>) -> Result<MPI_Comm>,
) -> c_int {
    call(function, comm, |guard| {
        let mut name = || {
            info::hints(info)?;
            // SAFETY: at the root it is a text of the user.
            Ok(unsafe { text(port_name, "port_name") }?.to_vec())
        };
        let made = body(guard, &mut name)?;
        // SAFETY: the user gives a place for a handle.
        unsafe { put(newcomm, "newcomm", made) }
    })
}
