//! Array sections in operations that end later (MPI 19.1.12): the operation works on a copy whose elements
//! lie side by side.
//!
//! The Fortran bindings make a [`Stage`] before they call the function of C, and attach it to the request
//! that the function gives. What the operation has written goes to the section when the operation is done,
//! before any call can see that it is; a persistent request copies anew at each start. Only what differs from
//! what stood there goes back: the program may use elements that the operation has nothing to do with.

use std::rc::Rc;

use crate::abi::*;
use crate::collective::stage::Stage;
use crate::collective::state::Collectives;
use crate::engine::Engine;
use crate::error::Result;
use crate::process::persistents::Persistents;
use crate::request::Named;

/// Leaves the sections of an operation with its request. One that is done already has written them when
/// this returns.
///
/// # Errors
/// MPI_ERR_REQUEST when the request is none.
pub fn attach_stage(
    engine: &Engine,
    persistents: &mut Persistents,
    colls: &mut Collectives,
    stage: Stage,
    request: MPI_Request,
) -> Result<()> {
    let stage = Rc::new(stage);
    match engine.named_request(request)? {
        Named::Inactive(index) => {
            let first = stage.clone();
            persistents.surround(
                index,
                // SAFETY: the operation has ended, or has not been started yet.
                move || unsafe { first.begin() },
                move |colls, index| finish_stage_with(colls, index, &stage),
            );
        }
        Named::Pending(index) => finish_stage_with(colls, index, &stage),
        // SAFETY: the operation has ended.
        Named::Null | Named::FinishedSend => unsafe { stage.finish() },
    }
    Ok(())
}

/// The sections are written when this request is done, which it may be already.
fn finish_stage_with(colls: &mut Collectives, index: u32, stage: &Rc<Stage>) {
    match colls.schedules.of_mut(index) {
        Some(schedule) => schedule.stage = Some(stage.clone()),
        // SAFETY: the operation has ended.
        None => unsafe { stage.finish() },
    }
}
