//! Collective operations (MPI chapter 6).
//!
//! A call becomes [`work::Work`]: arguments checked and translated. Small work on one node goes through the communicator's block
//! in shared memory ([`block`], [`flags`]); everything else becomes a [`schedule`] of messages ([`plan`]), which a blocking call
//! runs to its end and a nonblocking one leaves with the process.

pub mod block;
mod direct;
mod flags;
pub mod op;
mod plan;
mod reduce;
mod reduction;
mod remote;
pub mod schedule;
mod tree;
pub mod work;

use crate::abi::*;
use crate::buffer::Buffer;
use crate::error::{Result, check};
use crate::process::Guard;
use crate::request::{Request, RequestKind};

pub use block::State;
use work::Work;

impl Guard {
    /// Does collective work and returns when it is done.
    ///
    /// # Errors
    /// MPI_ERR_TRUNCATE when the ranks' arguments do not match.
    #[inline]
    pub fn collect(&mut self, comm: MPI_Comm, work: &Work) -> Result<()> {
        if let Some(block) = self.block(comm)
            && flags::try_small(self, &block, work)
        {
            return Ok(());
        }
        let mut schedule = self.plan(comm, work)?;
        self.run(&mut schedule)
    }

    /// Starts collective work; it is done when the request is.
    ///
    /// # Errors
    /// MPI_ERR_REQUEST when there is no place for the request.
    ///
    /// # Safety
    /// `request` is null or valid for writing.
    pub unsafe fn start_collecting(
        &mut self,
        comm: MPI_Comm,
        work: &Work,
        request: *mut MPI_Request,
    ) -> Result<()> {
        check(!request.is_null(), MPI_ERR_REQUEST, || "request is a null pointer".into())?;
        let mut schedule = Box::new(self.plan(comm, work)?);
        let pending = Request::new(RequestKind::Collective, Buffer::empty(), 0, MPI_ANY_SOURCE, MPI_ANY_TAG);
        let index = self.engine.requests.insert(pending);
        schedule.request = index;
        // SAFETY: our contract; it is not null.
        unsafe { request.write(MPI_Request(self.engine.requests.handle(index))) };
        self.launch(schedule);
        Ok(())
    }
}
