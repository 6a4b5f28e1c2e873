//! End of the job with one line.

use tutti_mpi::end_job::{By, end_job};
use tutti_runtime::log;

/// Ends the job with one line.
pub fn fail(what: std::fmt::Arguments<'_>) -> ! {
    log::line(what);
    end_job(By::Error, 1)
}
