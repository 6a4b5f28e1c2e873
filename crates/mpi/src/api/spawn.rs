//! MPI 11.8: new processes.

use core::ffi::{c_char, c_int};

use crate::abi::*;
use crate::argument::{null, put, text};
use crate::comm::calls;
use crate::comm::spawn::{Codes, Wish};
use crate::error::{Result, check};
use crate::info;
use crate::process::entry::call;

/// Starts processes of a program as further ranks of the job, which have a world of their own, and makes an
/// intercommunicator with them (11.8.2).
#[inline]
pub unsafe fn MPI_Comm_spawn(
    command: *const c_char,
    argv: *mut *mut c_char,
    maxprocs: c_int,
    info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    intercomm: *mut MPI_Comm,
    array_of_errcodes: *mut c_int,
) -> c_int {
    call(c"MPI_Comm_spawn", comm, |guard| {
        // SAFETY: at the root they are texts of the user.
        let wishes = || Ok(vec![unsafe { wish(command, argv, maxprocs, info) }?]);
        let spawned = calls::spawn(guard, wishes, root, comm);
        // SAFETY: the user gives places for a handle and for codes.
        unsafe { finish(spawned, intercomm, array_of_errcodes) }
    })
}

/// Starts processes of several programs, which have one world together (11.8.3).
#[inline]
pub unsafe fn MPI_Comm_spawn_multiple(
    count: c_int,
    array_of_commands: *mut *mut c_char,
    array_of_argv: *mut *mut *mut c_char,
    array_of_maxprocs: *const c_int,
    array_of_info: *const MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    intercomm: *mut MPI_Comm,
    array_of_errcodes: *mut c_int,
) -> c_int {
    call(c"MPI_Comm_spawn_multiple", comm, |guard| {
        let wishes = || {
            check(count > 0, MPI_ERR_ARG, || format!("count is {count}, expected 1 or more"))?;
            for (is_null, name) in [
                (array_of_commands.is_null(), "array_of_commands"),
                (array_of_maxprocs.is_null(), "array_of_maxprocs"),
                (array_of_info.is_null(), "array_of_info"),
            ] {
                if is_null {
                    return Err(null(name));
                }
            }
            // SAFETY: at the root they are arrays of the user, of `count` elements.
            let one = |at: usize| unsafe {
                let argv = if array_of_argv.is_null() { MPI_ARGV_NULL } else { *array_of_argv.add(at) };
                wish(*array_of_commands.add(at), argv, *array_of_maxprocs.add(at), *array_of_info.add(at))
            };
            (0..count as usize).map(one).collect()
        };
        let spawned = calls::spawn(guard, wishes, root, comm);
        // SAFETY: the user gives places for a handle and for codes.
        unsafe { finish(spawned, intercomm, array_of_errcodes) }
    })
}

/// # Safety
/// Texts of the user, and an array of texts that a null pointer ends.
unsafe fn wish(
    command: *const c_char,
    argv: *mut *mut c_char,
    processes: c_int,
    hints: MPI_Info,
) -> Result<Wish> {
    let hints = info::hints(hints)?;
    let mut arguments = Vec::new();
    // SAFETY: our contract.
    unsafe {
        let command = text(command, "command")?.to_vec();
        let mut at = argv;
        while !at.is_null() && !(*at).is_null() {
            arguments.push(text(*at, "argv")?.to_vec());
            at = at.add(1);
        }
        Ok(Wish { command, arguments, processes, hints })
    }
}

/// # Safety
/// `intercomm` is null or a place for a handle, `array_of_errcodes` MPI_ERRCODES_IGNORE or places for as many
/// codes as processes were wanted.
unsafe fn finish(
    (made, codes): (Result<MPI_Comm>, Codes),
    intercomm: *mut MPI_Comm,
    array_of_errcodes: *mut c_int,
) -> Result<()> {
    if array_of_errcodes != MPI_ERRCODES_IGNORE {
        for (at, code) in codes.into_iter().enumerate() {
            // SAFETY: our contract.
            unsafe { array_of_errcodes.add(at).write(code) };
        }
    }
    // SAFETY: our contract.
    unsafe { put(intercomm, "intercomm", made?) }
}
