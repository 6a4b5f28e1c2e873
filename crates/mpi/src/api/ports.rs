//! MPI 11.9: ports and published names.

use core::ffi::{c_char, c_int};

use crate::abi::*;
use crate::argument::{put, put_text, text};
use crate::comm::HasComms;
use crate::comm::calls;
use crate::error::Result;
use crate::info;
use crate::process::entry::call;
use crate::progress::Progress;

/// Opens a port, to which other processes of the job connect by its name (11.9.2).
#[inline]
pub unsafe fn MPI_Open_port(info: MPI_Info, port_name: *mut c_char) -> c_int {
    call(c"MPI_Open_port", MPI_COMM_NULL, |guard| {
        info::hints(info)?;
        let name = calls::open_port(guard)?;
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
        let name = calls::lookup_name(guard, unsafe { text(service_name, "service_name") }?)?;
        let mut length = 0;
        // SAFETY: the user gives room for MPI_MAX_PORT_NAME bytes.
        unsafe { put_text(name, port_name, MPI_MAX_PORT_NAME as usize, &raw mut length, "port_name") }
    })
}

pub(super) fn publish_name(
    call: &mut (impl Progress + HasComms),
    service: &[u8],
    info: MPI_Info,
    port: &[u8],
) -> Result<()> {
    info::hints(info)?;
    calls::publish_name(call, service, port)
}

pub(super) fn unpublish_name(
    call: &mut (impl Progress + HasComms),
    service: &[u8],
    info: MPI_Info,
    port: &[u8],
) -> Result<()> {
    info::hints(info)?;
    calls::unpublish_name(call, service, port)
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
    // SAFETY: the user gives a text at the root, and a place for a handle.
    unsafe {
        call(c"MPI_Comm_accept", comm, |guard| {
            let made = calls::accept(guard, || name_of_port(port_name, info), root, comm)?;
            put(newcomm, "newcomm", made)
        })
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
    // SAFETY: the user gives a text at the root, and a place for a handle.
    unsafe {
        call(c"MPI_Comm_connect", comm, |guard| {
            let made = calls::connect(guard, || name_of_port(port_name, info), root, comm)?;
            put(newcomm, "newcomm", made)
        })
    }
}

/// The name and the info mean something at the root only; elsewhere the name may be anything.
unsafe fn name_of_port(port_name: *const c_char, info: MPI_Info) -> Result<Vec<u8>> {
    info::hints(info)?;
    // SAFETY: at the root it is a text of the user.
    Ok(unsafe { text(port_name, "port_name") }?.to_vec())
}
