//! Faults after which a program cannot go on: one line that names the function and what was found, then the
//! job ends with a status that is not 0. OpenSHMEM has no error codes for wrong arguments.

use std::fmt;

use tutti_runtime::log;

use crate::pes;

/// Ends the job with one line.
#[cold]
pub fn end(function: &str, what: fmt::Arguments<'_>) -> ! {
    match pes::started() {
        Some(pes) => log::line(format_args!("PE {} of {}: shmem_{function}: {what}", pes.me, pes.count)),
        None => log::line(format_args!("shmem_{function}: {what}")),
    }
    abort(1)
}

/// Ends the job without a line.
pub fn abort(status: i32) -> ! {
    tutti_mpi::errhandler::fail(status)
}

/// Another PE says what is wrong and ends the job.
pub fn await_end() -> ! {
    loop {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}

/// A call that needs the library to run.
#[cold]
pub fn end_not_running(function: &str) -> ! {
    let when = if pes::has_finished() { "after shmem_finalize" } else { "before shmem_init" };
    end(function, format_args!("called {when}"))
}
