//! Requests that stand for others: persistent ones (MPI 3.9), a send and a receive at once (3.10),
//! generalized ones (13.2).
//!
//! ```text
//! persistent   inactive --start--> active --done, completed by the user--> inactive --free--> gone
//! others                           active --done, completed by the user--> gone
//! ```
//!
//! All are completed here, plain ones too ([`take_request`]). A persistent request keeps a function that
//! starts its operation; collective operations use it as well.

use core::ffi::c_int;

use crate::abi::*;
use crate::check::inspection::Inspect;
use crate::error::{Error, Result, check};
use crate::progress::Progress;
use crate::request::extra::{Compound, Extra, Generalized, NOTHING, Part};
use crate::request::persistent::HasPersistents;
use crate::request::{Named, Outcome};

/// An inactive persistent request.
pub fn persistent<C: Progress + HasPersistents>(
    call: &mut C,
    start: impl Fn(&mut C) -> Result<[Part; 2]> + 'static,
) -> u32 {
    let index = call.engine_mut().insert_compound(Compound {
        is_persistent: true,
        parts: [NOTHING; 2],
        active: false,
    });
    call.keep_start(index, start);
    index
}

/// Starts a persistent request (3.9).
///
/// # Errors
/// MPI_ERR_REQUEST when it is not persistent or is active already.
pub fn start_persistent(call: &mut (impl Progress + HasPersistents), index: u32) -> Result<()> {
    if call.engine().partitioned(index).is_some() {
        return call.engine_mut().start_partitioned(index);
    }
    let wrong = |text| Err(Error::new(MPI_ERR_REQUEST, text));
    let Some(Compound { is_persistent: true, active, .. }) = call.engine().compound(index) else {
        return wrong("the request is not a persistent one");
    };
    if *active {
        return wrong("the persistent request has been started already");
    }
    let parts = call.start_parts(index)?;
    let compound = call.engine_mut().compound_mut(index).expect("it was one just now");
    (compound.parts, compound.active) = (parts, true);
    Ok(())
}

/// Takes the outcome of a request that is done; the request goes.
#[inline(always)]
pub fn take_request(call: &mut (impl Progress + Inspect), index: u32) -> Outcome {
    if call.engine().requests.get(index).extra.is_some() {
        return take_with_extra(call, index);
    }
    let outcome = call.engine().requests.get(index).outcome();
    call.engine_mut().requests.free(index);
    outcome
}

/// Takes the outcome of a finished request; the request goes.
#[inline(always)]
pub fn take_outcome(call: &mut (impl Progress + Inspect), named: Named) -> Outcome {
    match named {
        Named::Null | Named::Inactive(_) | Named::FinishedSend => Outcome::EMPTY,
        Named::Pending(index) => take_request(call, index),
    }
}

/// Takes the outcome of a done request that has extras. A persistent one stays, inactive.
pub fn take_with_extra(call: &mut (impl Progress + Inspect), index: u32) -> Outcome {
    match call.engine_mut().requests.get_mut(index).extra.as_deref_mut() {
        Some(Extra::Compound(compound)) => {
            let parts = std::mem::replace(&mut compound.parts, [NOTHING; 2]);
            compound.active = false;
            let stays = compound.is_persistent;
            let [first, second] = parts.map(|part| take_part(call, part));
            if !stays {
                call.engine_mut().requests.free(index);
            }
            Outcome { error: if first.error == MPI_SUCCESS { second.error } else { first.error }, ..first }
        }
        Some(Extra::Generalized(generalized)) => {
            let generalized = *generalized;
            call.engine_mut().requests.free(index);
            finish_generalized(call, generalized)
        }
        Some(Extra::Partitioned(_)) => call.engine_mut().take_partitioned(index),
        Some(Extra::Suspect(suspect)) => {
            let suspect = *suspect;
            call.inspect().say_suspect(index, suspect);
            let outcome = call.engine().requests.get(index).outcome();
            call.engine_mut().requests.free(index);
            outcome
        }
        Some(Extra::Remote(remote)) => {
            let outcome = remote.outcome();
            call.engine_mut().requests.free(index);
            outcome
        }
        _ => {
            let outcome = call.engine().requests.get(index).outcome();
            call.engine_mut().requests.free(index);
            outcome
        }
    }
}

fn take_part(call: &mut (impl Progress + Inspect), part: Part) -> Outcome {
    match part {
        Part::Done(outcome) => outcome,
        Part::Pending(index) => take_request(call, index),
    }
}

/// Result of a look at a done request, without completing it.
pub fn peek_outcome(call: &mut impl Progress, index: u32) -> Outcome {
    match call.engine().requests.get(index).extra.as_deref() {
        Some(Extra::Compound(compound)) => match compound.parts[0] {
            Part::Done(outcome) => outcome,
            Part::Pending(part) => call.engine().requests.get(part).outcome(),
        },
        Some(Extra::Generalized(generalized)) => {
            let generalized = *generalized;
            query_generalized(call, generalized)
        }
        Some(Extra::Partitioned(partitioned)) => partitioned.outcome(),
        Some(Extra::Remote(remote)) => remote.outcome(),
        _ => call.engine().requests.get(index).outcome(),
    }
}

/// The user lets go of a request (3.7.3); what is under way goes on.
///
/// # Errors
/// The error of the free function of a generalized request (13.2).
pub fn release_request(call: &mut (impl Progress + HasPersistents), index: u32) -> Result<()> {
    if call.engine().partitioned(index).is_some() {
        call.engine_mut().release_partitioned(index);
        return Ok(());
    }
    let parts = match call.engine().compound(index) {
        Some(compound) => compound.parts,
        None => {
            let request = call.engine_mut().requests.get_mut(index);
            if let Some(Extra::Remote(_)) = request.extra.as_deref() {
                if let Some(Extra::Remote(remote)) = request.extra.take().map(|extra| *extra) {
                    remote.done.abandon();
                }
                call.engine_mut().requests.free(index);
                return Ok(());
            }
            if request.done && matches!(request.extra.as_deref(), Some(Extra::Generalized(_))) {
                return drop_generalized(call, index);
            }
            // The buffer empties itself whether somebody waits for it or not.
            request.done |= matches!(request.extra.as_deref(), Some(Extra::Flush(_)));
            call.engine_mut().release(index);
            return Ok(());
        }
    };
    for part in parts {
        if let Part::Pending(part) = part {
            call.engine_mut().release(part);
        }
    }
    call.forget_start(index);
    call.engine_mut().requests.free(index);
    Ok(())
}

/// Ends a generalized request that the user has both completed and let go of. No call completes it, so its
/// query function is not run (13.2).
///
/// # Errors
/// The error of its free function.
pub fn drop_generalized(call: &mut impl Progress, index: u32) -> Result<()> {
    let request = call.engine_mut().requests.get_mut(index);
    let Some(Extra::Generalized(generalized)) = request.extra.as_deref() else {
        unreachable!("request {index} is not a generalized one");
    };
    let generalized = *generalized;
    call.engine_mut().requests.free(index);
    let error = free_generalized(call, generalized);
    check(error == MPI_SUCCESS, error, || format!("the request's free function returned error code {error}"))
}

/// Asks for the cancellation of an operation (3.8.4). Sends and receives that are not matched are
/// cancelled; everything else goes on.
///
/// # Errors
/// What the cancel function of a generalized request returns (13.2); MPI_ERR_REQUEST for one with
/// partitions (4.2.1).
pub fn cancel_request(call: &mut impl Progress, index: u32) -> Result<()> {
    match call.engine().requests.get(index).extra.as_deref() {
        Some(Extra::Compound(compound)) => {
            for part in compound.parts {
                if let Part::Pending(part) = part {
                    call.engine_mut().cancel(part);
                }
            }
        }
        Some(Extra::Generalized(generalized)) => {
            let (generalized, done) = (*generalized, call.engine().requests.get(index).done);
            let error = call.unlocked(|| {
                // SAFETY: the user gave this address as that of a cancel function; no lock is held.
                unsafe {
                    let cancel =
                        std::mem::transmute::<usize, MPI_Grequest_cancel_function_fn>(generalized.cancel);
                    cancel(generalized.state, c_int::from(done))
                }
            });
            check(error == MPI_SUCCESS, error, || {
                format!("the request's cancel function returned error code {error}")
            })?;
        }
        Some(Extra::Partitioned(_)) => {
            return Err(Error::new(MPI_ERR_REQUEST, "partitioned operations cannot be cancelled"));
        }
        _ => call.engine_mut().cancel(index),
    }
    Ok(())
}

fn query_generalized(call: &mut impl Progress, generalized: Generalized) -> Outcome {
    call.unlocked(|| {
        let mut status = MPI_Status::default();
        // SAFETY: the user gave this address as that of a query function; no lock is held.
        let error = unsafe {
            let query = std::mem::transmute::<usize, MPI_Grequest_query_function_fn>(generalized.query);
            query(generalized.state, &mut status)
        };
        Outcome { error, ..Outcome::read(&status) }
    })
}

fn finish_generalized(call: &mut impl Progress, generalized: Generalized) -> Outcome {
    let outcome = query_generalized(call, generalized);
    let error = free_generalized(call, generalized);
    Outcome { error: if outcome.error == MPI_SUCCESS { error } else { outcome.error }, ..outcome }
}

/// Calls the free function: the error code that it returns.
fn free_generalized(call: &mut impl Progress, generalized: Generalized) -> c_int {
    call.unlocked(|| {
        // SAFETY: the user gave this address as that of a free function; no lock is held.
        unsafe {
            let free = std::mem::transmute::<usize, MPI_Grequest_free_function_fn>(generalized.free);
            free(generalized.state)
        }
    })
}
