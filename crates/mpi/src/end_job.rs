//! The end of the job by this process.

use core::ffi::c_int;

use tutti_runtime::end;
use tutti_shm::ticket::Notice;

/// Party that ends the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The program: MPI_Abort.
    Program,
    /// The library, which has said why.
    Error,
}

/// Ends the job with an exit code. Takes no lock: it may be called wherever the program is.
pub fn end_job(by: By, code: c_int) -> ! {
    let notice = match by {
        By::Program => Notice::Abort(code as u32),
        By::Error => Notice::Fatal(code as u32),
    };
    end::end(notice, exit_status(code))
}

/// An exit status that says failure whatever the code.
fn exit_status(code: c_int) -> c_int {
    if code & 0xff == 0 { 1 } else { code & 0xff }
}
