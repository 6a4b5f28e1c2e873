//! Array sections in operations that end later (MPI 19.1.12): the operation works on a copy whose elements
//! lie side by side.
//!
//! The Fortran bindings make a [`Stage`] before they call the function of C, and attach it to the request
//! that the function gives. What the operation has written goes to the section when the operation is done,
//! before any call can see that it is; a persistent request copies anew at each start. Only what differs from
//! what stood there goes back: the program may use elements that the operation has nothing to do with.

use std::rc::Rc;

use tutti_datatype::Buffer;

use crate::abi::*;
use crate::collective::stage::Stage;
use crate::error::Result;
use crate::process::{Guard, Starter};
use crate::request::Named;
use crate::request::extra::Part;

impl Guard {
    /// Leaves the sections of an operation with its request. One that is done already has written them when
    /// this returns.
    ///
    /// # Errors
    /// MPI_ERR_REQUEST when the request is none.
    pub fn attach_stage(&mut self, stage: Stage, request: MPI_Request) -> Result<()> {
        let stage = Rc::new(stage);
        match self.named_request(request)? {
            Named::Inactive(index) => {
                let place = self.persistents.starts.get_mut(index as usize).and_then(Option::as_mut);
                let Some(Starter(start)) = place else { return Ok(()) };
                let inner = start.clone();
                *start = Rc::new(move |guard: &mut Guard| {
                    // SAFETY: the operation has ended, or has not been started yet.
                    unsafe { stage.begin() };
                    let parts = inner(guard)?;
                    for part in parts {
                        if let Part::Pending(index) = part {
                            guard.finish_stage_with(index, &stage);
                        }
                    }
                    Ok(parts)
                });
            }
            Named::Pending(index) => self.finish_stage_with(index, &stage),
            // SAFETY: the operation has ended.
            Named::Null | Named::FinishedSend => unsafe { stage.finish() },
        }
        Ok(())
    }

    /// The sections are written when this request is done, which it may be already.
    fn finish_stage_with(&mut self, index: u32, stage: &Rc<Stage>) {
        match self.colls.schedules.of_mut(index) {
            Some(schedule) => schedule.stage = Some(stage.clone()),
            // SAFETY: the operation has ended.
            None => unsafe { stage.finish() },
        }
    }

    /// A partitioned message's data lie in an array section: `whole` says how.
    ///
    /// # Errors
    /// MPI_ERR_REQUEST when the request is none.
    pub fn attach_partitions(&mut self, whole: Buffer, request: MPI_Request) -> Result<()> {
        if let Named::Inactive(index) = self.named_request(request)?
            && let Some(made) = self.engine.partitioned_mut(index)
        {
            made.whole = whole;
        }
        Ok(())
    }
}
