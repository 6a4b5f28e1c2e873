//! Memory of a GPU as a buffer of the program. Nothing here can copy it: the job ends with a line that names
//! it, before a copy by this processor ends the rank with SIGSEGV.
//!
//! Looked for where the kernel has refused a single copy, never on a way of a message that works; the checker
//! looks at each buffer that cannot be read.

use tutti_rma::device::{Access, driver_of};
use tutti_runtime::log;

use super::Engine;
use crate::end_job::{By, end_job};
use crate::request::{Request, RequestKind};

/// Exit status of a job that ends so: that of MPI_ERR_BUFFER.
const STATUS: i32 = 1;

/// What stands in front of the line about a buffer.
pub(crate) fn text(kind: RequestKind, at: *const u8, bytes: usize, driver: &str) -> String {
    let buffer = if kind == RequestKind::Receive { "receive" } else { "send" };
    format!(
        "the {buffer} buffer of {bytes} bytes at {at:p} is memory of a GPU ({driver}), which is not supported: \
         give a buffer in memory of the host"
    )
}

/// Whose the memory of a buffer is, if it is a GPU's.
pub(crate) fn driver(kind: RequestKind, at: *const u8) -> Option<String> {
    driver_of(at, if kind == RequestKind::Receive { Access::Write } else { Access::Read })
}

impl Engine {
    /// A copy of this request's memory has failed, perhaps for this reason.
    #[cold]
    pub(super) fn refuse_device_memory(&self, request: &Request) {
        let at = request.buffer.at;
        if let Some(driver) = driver(request.kind, at) {
            let what = text(request.kind, at, request.buffer.bytes, &driver);
            log::line(format_args!("rank {}: {what}", self.job.rank()));
            end_job(By::Error, STATUS);
        }
    }
}
