//! Memory of a GPU as a buffer of the program. Nothing here can copy it: the job ends with a line that names
//! it, before a copy by this processor ends the rank with SIGSEGV.
//!
//! Looked for where the kernel has refused a single copy, and before a long message's first bytes are copied
//! from or to a page that was not seen lately; the checker looks at each buffer that cannot be read.

use tutti_rma::device::{Access, driver_of, is_readable};
use tutti_runtime::log;

use super::Engine;
use crate::end_job::{By, end_job};
use crate::request::{Request, RequestKind};

/// Exit status of a job that ends so: that of MPI_ERR_BUFFER.
const STATUS: i32 = 1;

/// Text in front of the line about a buffer.
pub(crate) fn text(kind: RequestKind, at: *const u8, bytes: usize, driver: &str) -> String {
    let buffer = if kind == RequestKind::Receive { "receive" } else { "send" };
    format!(
        "the {buffer} buffer of {bytes} bytes at {at:p} is memory of a GPU ({driver}), which is not supported: \
         give a buffer in memory of the host"
    )
}

/// Driver of a buffer's memory, if it is a GPU's.
pub(crate) fn driver(kind: RequestKind, at: *const u8) -> Option<String> {
    driver_of(at, if kind == RequestKind::Receive { Access::Write } else { Access::Read })
}

/// Pages of buffers that could be read when they were last asked for, so that a program that sends from the
/// same memory again does not pay for the question.
#[derive(Debug, Default)]
pub(super) struct SeenPages([usize; 16]);

impl SeenPages {
    /// Whether memory at this address can be read, as far as is known, else by the kernel.
    fn is_readable(&mut self, at: *const u8) -> bool {
        let page = at.addr() >> 12;
        let seen = &mut self.0[page % 16];
        if *seen != page {
            if !is_readable(at) {
                return false;
            }
            *seen = page;
        }
        true
    }
}

/// Ends the job with a line if the processor is about to copy from or to memory of a GPU.
#[inline]
pub(super) fn look(seen: &mut SeenPages, rank: usize, request: &Request) {
    let buffer = &request.buffer;
    if buffer.map.is_none() && buffer.bytes > 0 && !seen.is_readable(buffer.at) {
        refuse(rank, request);
    }
}

/// Ends the job with a line if this request's memory is a GPU's.
#[cold]
fn refuse(rank: usize, request: &Request) {
    let at = request.buffer.at;
    if let Some(driver) = driver(request.kind, at) {
        let what = text(request.kind, at, request.buffer.bytes, &driver);
        log::line(format_args!("rank {rank}: {what}"));
        end_job(By::Error, STATUS);
    }
}

impl Engine {
    /// A copy of this request's memory has failed, perhaps for this reason.
    #[cold]
    pub(super) fn refuse_device_memory(&self, request: &Request) {
        refuse(self.job.rank(), request);
    }
}
