//! The end of a communicator (MPI 7.4.3 and 11.10.4).

use crate::abi::*;
use crate::attribute_calls;
use crate::attributes::Owner;
use crate::errhandler;
use crate::error::{Result, check};
use crate::process::{Guard, Process};
use crate::request::Request;
use crate::wait_goal::Goal;

use super::CONTEXTS_PER_COMM;

impl Guard {
    /// Frees a communicator: its attributes are deleted, then the handle is stale. Pending operations go on;
    /// they hold what they need, and the context is never used again.
    ///
    /// # Errors
    /// MPI_ERR_COMM; whatever a delete callback of the user returned, and then the communicator stays.
    pub fn free_comm(&mut self, handle: MPI_Comm) -> Result<()> {
        self.check_own(handle)?;
        attribute_calls::delete_all(self, Owner::Comm(handle))?;
        // A callback of the user may have freed it itself.
        self.comms.find(handle)?;
        if self.comms.parent == handle {
            self.comms.parent = MPI_COMM_NULL;
            self.engine.job.part();
        }
        let has_guests = self.has_guests(handle)?;
        if let Some(index) = self.comms.made.index(handle.0) {
            let mut comm = self.comms.made.remove(index);
            comm.collective.release(&self.engine.job);
            errhandler::release(comm.errhandler);
        }
        if has_guests {
            self.settle_connections();
        }
        self.forget_left_ranks();
        Ok(())
    }

    /// Frees a communicator when all its messages have arrived, at all members.
    ///
    /// # Errors
    /// As [`Guard::free_comm`].
    pub fn disconnect_comm(&mut self, handle: MPI_Comm) -> Result<()> {
        self.check_own(handle)?;
        let comm = self.comms.find(handle)?;
        let contexts = comm.context..comm.context + CONTEXTS_PER_COMM;
        let pending = |request: &Request| !request.done && contexts.contains(&request.context);
        let is_quiet = |process: &mut Process| {
            (!process.engine.requests.iter().any(|(_, request)| pending(request))).then_some(())
        };
        self.wait(None, Goal::Pending(&pending), is_quiet);
        if self.comms.parent == handle {
            // Before the others know it: they may ask for other ranks at once.
            self.engine.job.part();
        }
        // Members of other launches may be gone, which is no error here.
        if !self.has_guests(handle)? {
            let meeting = self.whole(handle)?;
            self.allgather(&meeting, [0])?;
        }
        self.free_comm(handle)
    }

    fn check_own(&self, handle: MPI_Comm) -> Result<()> {
        self.comms.find(handle)?;
        let predefined = [(MPI_COMM_WORLD, "MPI_COMM_WORLD"), (MPI_COMM_SELF, "MPI_COMM_SELF")];
        let name = predefined.into_iter().find(|(comm, _)| *comm == handle).map(|(_, name)| name);
        check(name.is_none(), MPI_ERR_COMM, || {
            format!("comm is {}, which cannot be freed", name.unwrap_or_default())
        })
    }
}
