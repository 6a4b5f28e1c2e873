//! MPI 3.8.1: what has come, without receiving it.

use core::ffi::c_int;

use crate::abi::*;
use crate::comm::HasComms;
use crate::engine::Found;
use crate::error::Result;
use crate::point_to_point;
use crate::progress::Progress;
use crate::request::Outcome;

/// Makes the status of a message that a probe found.
fn outcome(call: &impl HasComms, comm: MPI_Comm, found: Found) -> Result<Outcome> {
    let source =
        call.comms().find(comm)?.peers().rank_of(found.source).map_or(MPI_ANY_SOURCE, |rank| rank as c_int);
    Ok(Outcome { source, tag: found.tag, bytes: found.bytes, ..Outcome::EMPTY })
}

/// Looks for a message that has come, and gives its status.
fn probed(
    call: &mut (impl Progress + HasComms),
    comm: MPI_Comm,
    context: u32,
    source: c_int,
    tag: c_int,
) -> Result<Option<Outcome>> {
    let found = call.engine_mut().probe_or_loss(context, source, tag).transpose()?;
    found.map(|found| outcome(call, comm, found)).transpose()
}

/// Waits for a message without receiving it.
pub(super) fn probe(
    call: &mut (impl Progress + HasComms),
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<Outcome> {
    let Some((source, context)) = point_to_point::checked_source(call, source, tag, comm)? else {
        return Ok(Outcome::PROC_NULL);
    };
    // It may be gone by the time this thread runs again: another one may have received it.
    let found =
        call.await_message(context, source, tag, |engine| engine.probe_or_loss(context, source, tag))?;
    outcome(call, comm, found)
}

/// Looks for a message without receiving it: whether there is one, and which.
pub(super) fn try_probe(
    call: &mut (impl Progress + HasComms),
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<(bool, Option<Outcome>)> {
    let outcome = match point_to_point::checked_source(call, source, tag, comm)? {
        None => Some(Outcome::PROC_NULL),
        Some((source, context)) => match probed(call, comm, context, source, tag)? {
            None => {
                call.look();
                probed(call, comm, context, source, tag)?
            }
            found => found,
        },
    };
    Ok((outcome.is_some(), outcome))
}
