//! The end of the job by this process.

use core::ffi::c_int;

use tutti_shm::ticket::Notice;

use crate::process::Guard;

/// Who ends the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The program: MPI_Abort.
    Program,
    /// The library, which has said why.
    Error,
}

/// Ends the job with an exit code.
pub fn end_job(guard: Option<&Guard>, by: By, code: c_int) -> ! {
    if let Some(guard) = guard
        && let Some(starter) = guard.engine.job.starter()
    {
        starter.tell(match by {
            By::Program => Notice::Abort(code as u32),
            By::Error => Notice::Fatal(code as u32),
        });
    }
    // Buffered output of the program is worth more than a core dump here: exit handlers of stdio run, ours do
    // nothing.
    // SAFETY: flushing all streams is always allowed.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(exit_status(code))
    }
}

/// An exit status that says failure whatever the code.
fn exit_status(code: c_int) -> c_int {
    if code & 0xff == 0 { 1 } else { code & 0xff }
}
