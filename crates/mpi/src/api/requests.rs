//! MPI 3.7.3 and 3.7.5: completion of requests; what a status says.

use core::ffi::c_int;

use crate::abi::*;
use crate::argument::Output;
use crate::check::inspection::Inspect;
use crate::compound;
use crate::datatype::Types;
use crate::engine::completion::outcome_result;
use crate::error::{Error, Result, check};
use crate::process;
use crate::process::entry::call;
use crate::progress::Progress;
use crate::request::persistent::HasPersistents;
use crate::request::{Named, Outcome};
use crate::wait_goal::Goal;

/// The error of a finished request, with what its outcome does not tell: its communicator and the room of its
/// buffer.
#[inline(always)]
fn failure(call: &impl Progress, named: Named) -> Option<Error> {
    let Named::Pending(index) = named else { return None };
    let request = call.engine().requests.get(index);
    if request.error == MPI_SUCCESS && request.extra.is_none() { None } else { call.engine().failure(index) }
}

/// The requests of an array call.
///
/// # Safety
/// `requests` is valid for `count` handles.
unsafe fn array<'a>(count: c_int, requests: *mut MPI_Request) -> Result<&'a mut [MPI_Request]> {
    check(count >= 0, MPI_ERR_COUNT, || format!("count is {count}, expected 0 or more"))?;
    if count == 0 {
        return Ok(&mut []);
    }
    check(!requests.is_null(), MPI_ERR_REQUEST, || "array_of_requests is a null pointer".into())?;
    // SAFETY: our contract.
    Ok(unsafe { std::slice::from_raw_parts_mut(requests, count as usize) })
}

/// The peer that a request waits for, when there is one.
#[inline(always)]
fn hint(call: &impl Progress, named: Named) -> Option<usize> {
    match named {
        Named::Pending(index) => usize::try_from(call.engine().requests.get(index).peer).ok(),
        _ => None,
    }
}

/// Whether the user's handle stays after the completion.
#[inline(always)]
fn is_persistent(call: &impl Progress, named: Named) -> bool {
    match named {
        Named::Null | Named::FinishedSend => false,
        Named::Inactive(_) => true,
        Named::Pending(index) => {
            call.engine().requests.get(index).extra.is_some() && call.engine().is_persistent(index)
        }
    }
}

/// Finishes one request of the user: outcome to the status, handle to MPI_REQUEST_NULL.
#[inline(always)]
unsafe fn complete(
    call: &mut (impl Progress + Inspect),
    handle: &mut MPI_Request,
    named: Named,
    status: *mut MPI_Status,
) -> Result<()> {
    let failure = failure(call, named);
    let stays = is_persistent(call, named);
    let outcome = compound::take_outcome(call, named);
    if !stays {
        *handle = MPI_REQUEST_NULL;
    }
    // SAFETY: a status of the user, or MPI_STATUS_IGNORE.
    unsafe { Told(named, outcome).write(status) };
    match failure {
        Some(error) => Err(error),
        None => outcome_result(&outcome, 0),
    }
}

/// Waits for a request (3.7.3): the fast path here; anything else, wrong arguments included, in a function of
/// its own.
#[inline]
pub unsafe fn MPI_Wait(request: *mut MPI_Request, status: *mut MPI_Status) -> c_int {
    if let Some(mut guard) = process::enter_running() {
        // SAFETY: the user gives a request, and a status or MPI_STATUS_IGNORE.
        unsafe {
            if guard.engine.try_complete_soon(&mut *request, status) {
                guard.leave();
                return MPI_SUCCESS;
            }
        }
        guard.leave();
    }
    // SAFETY: as above.
    unsafe { wait_for_one(request, status) }
}

/// # Safety
/// `request` holds a request; `status` is MPI_STATUS_IGNORE or valid for writing.
#[inline(never)]
unsafe fn wait_for_one(request: *mut MPI_Request, status: *mut MPI_Status) -> c_int {
    call(c"MPI_Wait", MPI_COMM_NULL, |guard| {
        // SAFETY: our contract.
        unsafe {
            let named = guard.engine.named_request(*request)?;
            let hint = hint(guard, named);
            if let Named::Pending(index) = named {
                guard.await_done(index, hint, Goal::Request(index));
            }
            complete(guard, &mut *request, named, status)
        }
    })
}

/// Tests a request (3.7.3).
#[inline]
pub unsafe fn MPI_Test(request: *mut MPI_Request, flag: *mut c_int, status: *mut MPI_Status) -> c_int {
    call(c"MPI_Test", MPI_COMM_NULL, |guard| {
        // SAFETY: the user gives a request, a flag, and a status or MPI_STATUS_IGNORE.
        unsafe {
            let named = guard.engine.named_request(*request)?;
            if !guard.engine.is_finished(named) {
                guard.look();
            }
            let done = guard.engine.is_finished(named);
            flag.write(c_int::from(done));
            if done { complete(guard, &mut *request, named, status) } else { Ok(()) }
        }
    })
}

/// Status number `i` of an array, or MPI_STATUS_IGNORE.
fn nth(statuses: *mut MPI_Status, i: usize) -> *mut MPI_Status {
    if statuses.is_null() { statuses } else { statuses.wrapping_add(i) }
}

/// Completes every request of an array that is known to be done; errors go to the statuses.
unsafe fn complete_all(
    call: &mut (impl Progress + Inspect),
    requests: &mut [MPI_Request],
    statuses: *mut MPI_Status,
) -> Result<()> {
    let mut failed = None;
    for (i, handle) in requests.iter_mut().enumerate() {
        let named = call.engine().named_request(*handle)?;
        // SAFETY: the user's array of statuses is as long as that of requests.
        let result = unsafe { complete(call, handle, named, nth(statuses, i)) };
        failed = in_status(failed, result, statuses, i);
    }
    failed.map_or(Ok(()), Err)
}

/// Notes what has become of completion `i` of several. When one has failed, the call fails with
/// MPI_ERR_IN_STATUS, and all statuses say how theirs has ended; else it leaves that field of them alone
/// (3.7.5).
#[inline(always)]
fn in_status(
    failed: Option<Error>,
    result: Result<()>,
    statuses: *mut MPI_Status,
    i: usize,
) -> Option<Error> {
    if failed.is_none() && result.is_ok() {
        return None;
    }
    note_failure(failed, result, statuses, i)
}

#[cold]
fn note_failure(
    failed: Option<Error>,
    result: Result<()>,
    statuses: *mut MPI_Status,
    i: usize,
) -> Option<Error> {
    let class = result.as_ref().map_or_else(|error| error.class, |()| MPI_SUCCESS);
    let first = if failed.is_none() { 0 } else { i };
    for at in (first..=i).filter(|_| !statuses.is_null()) {
        // SAFETY: statuses of the user.
        unsafe { (*statuses.add(at)).MPI_ERROR = if at == i { class } else { MPI_SUCCESS } };
    }
    match result {
        Err(error) if failed.is_none() => {
            Some(Error { context: error.context, ..Error::new(MPI_ERR_IN_STATUS, error) })
        }
        _ => failed,
    }
}

/// Waits for all requests (3.7.5).
#[inline]
pub unsafe fn MPI_Waitall(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Waitall", MPI_COMM_NULL, |guard| {
        // SAFETY: the user gives arrays of `count` elements.
        let requests = unsafe { array(count, array_of_requests)? };
        let mut failed = None;
        // In order: while one is waited for, the others make progress too.
        for i in 0..requests.len() {
            let status = nth(array_of_statuses, i);
            // SAFETY: as above.
            unsafe {
                let result = match guard.engine.try_complete_quickly(&mut requests[i], status) {
                    true => Ok(()),
                    false => wait(guard, &mut requests[i..], status)?,
                };
                failed = in_status(failed, result, array_of_statuses, i);
            }
        }
        failed.map_or(Ok(()), Err)
    })
}

/// Waits for the first of several requests and finishes it: the outer result is the call's, the inner one the
/// request's.
///
/// # Safety
/// `status` is MPI_STATUS_IGNORE or valid for writing.
#[inline(never)]
unsafe fn wait(
    call: &mut (impl Progress + Inspect),
    requests: &mut [MPI_Request],
    status: *mut MPI_Status,
) -> Result<Result<()>> {
    let Some((handle, rest)) = requests.split_first_mut() else { return Ok(Ok(())) };
    let named = call.engine().named_request(*handle)?;
    if let Named::Pending(index) = named {
        let hint = hint(call, named);
        call.await_done(index, hint, Goal::All(index, rest));
    }
    // SAFETY: our contract.
    Ok(unsafe { complete(call, handle, named, status) })
}

/// Tests whether all requests are done (3.7.5).
#[inline]
pub unsafe fn MPI_Testall(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    flag: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Testall", MPI_COMM_NULL, |guard| {
        // SAFETY: the user gives arrays of `count` elements and a flag.
        let requests = unsafe { array(count, array_of_requests)? };
        guard.look();
        let mut all = true;
        for handle in requests.iter() {
            let named = guard.engine.named_request(*handle)?;
            all &= guard.engine.is_finished(named);
        }
        // SAFETY: as above.
        unsafe {
            flag.write(c_int::from(all));
            if all { complete_all(guard, requests, array_of_statuses) } else { Ok(()) }
        }
    })
}

/// The first request that is done, and whether any is active at all.
fn first_done(call: &impl Progress, requests: &[MPI_Request]) -> Result<(Option<usize>, bool)> {
    let mut active = false;
    for (i, handle) in requests.iter().enumerate() {
        let named = call.engine().named_request(*handle)?;
        if !named.is_idle() {
            active = true;
            if call.engine().is_finished(named) {
                return Ok((Some(i), true));
            }
        }
    }
    Ok((None, active))
}

/// Waits until something in the array is done; `false` when nothing is active.
fn wait_some(call: &mut impl Progress, requests: &[MPI_Request]) -> Result<Option<usize>> {
    let (done, active) = first_done(call, requests)?;
    if done.is_some() || !active {
        return Ok(done);
    }
    let pending = requests
        .iter()
        .enumerate()
        .filter_map(|(i, handle)| match call.engine().named_request(*handle) {
            Ok(Named::Pending(index)) => Some((i, index)),
            _ => None,
        })
        .collect::<Vec<_>>();
    let found = call.wait(None, Goal::Any(&pending), |engine| {
        pending.iter().find(|(_, index)| engine.is_done(*index)).map(|(i, _)| *i)
    });
    Ok(Some(found))
}

/// Waits for one of several requests (3.7.5).
#[inline]
pub unsafe fn MPI_Waitany(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    indx: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Waitany", MPI_COMM_NULL, |guard| {
        // SAFETY: the user gives an array of `count` requests, a place for the index, and a status or
        // MPI_STATUS_IGNORE.
        unsafe {
            let requests = array(count, array_of_requests)?;
            match wait_some(guard, requests)? {
                None => {
                    indx.write(MPI_UNDEFINED);
                    Outcome::write_empty(status);
                    Ok(())
                }
                Some(i) => {
                    indx.write(i as c_int);
                    let named = guard.engine.named_request(requests[i])?;
                    complete(guard, &mut requests[i], named, status)
                }
            }
        }
    })
}

/// Tests for one of several requests (3.7.5).
#[inline]
pub unsafe fn MPI_Testany(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    indx: *mut c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Testany", MPI_COMM_NULL, |guard| {
        // SAFETY: as MPI_Waitany, and a place for the flag.
        unsafe {
            let requests = array(count, array_of_requests)?;
            guard.look();
            let (done, active) = first_done(guard, requests)?;
            flag.write(c_int::from(done.is_some() || !active));
            indx.write(done.map_or(MPI_UNDEFINED, |i| i as c_int));
            match done {
                Some(i) => {
                    let named = guard.engine.named_request(requests[i])?;
                    complete(guard, &mut requests[i], named, status)
                }
                None => {
                    if !active {
                        Outcome::write_empty(status);
                    }
                    Ok(())
                }
            }
        }
    })
}

/// Completes whatever is done in the array.
unsafe fn complete_some(
    call: &mut (impl Progress + Inspect),
    requests: &mut [MPI_Request],
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> Result<()> {
    let (mut done, mut active, mut failed) = (0, false, None);
    for (i, handle) in requests.iter_mut().enumerate() {
        let named = call.engine().named_request(*handle)?;
        if named.is_idle() {
            continue;
        }
        active = true;
        if call.engine().is_finished(named) {
            // SAFETY: the user's arrays are as long as that of requests.
            unsafe {
                let result = complete(call, handle, named, nth(statuses, done));
                failed = in_status(failed, result, statuses, done);
                indices.add(done).write(i as c_int);
            }
            done += 1;
        }
    }
    // SAFETY: the user gives a place for the count.
    unsafe { outcount.write(if active { done as c_int } else { MPI_UNDEFINED }) };
    failed.map_or(Ok(()), Err)
}

/// Waits for some of several requests (3.7.5).
#[inline]
pub unsafe fn MPI_Waitsome(
    incount: c_int,
    array_of_requests: *mut MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Waitsome", MPI_COMM_NULL, |guard| {
        // SAFETY: the user gives arrays of `incount` elements and a place for the count.
        unsafe {
            let requests = array(incount, array_of_requests)?;
            wait_some(guard, requests)?;
            complete_some(guard, requests, outcount, array_of_indices, array_of_statuses)
        }
    })
}

/// Tests for some of several requests (3.7.5).
#[inline]
pub unsafe fn MPI_Testsome(
    incount: c_int,
    array_of_requests: *mut MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Testsome", MPI_COMM_NULL, |guard| {
        // SAFETY: as MPI_Waitsome.
        unsafe {
            let requests = array(incount, array_of_requests)?;
            guard.look();
            complete_some(guard, requests, outcount, array_of_indices, array_of_statuses)
        }
    })
}

/// Status of a request that is done, or was never started.
pub(super) struct Told(Named, Outcome);

impl Output<MPI_Status> for Told {
    unsafe fn write(self, status: *mut MPI_Status) {
        let Told(named, outcome) = self;
        // SAFETY: our contract.
        unsafe {
            match named.is_idle() {
                true => Outcome::write_empty(status),
                false => outcome.write(status),
            }
        }
    }
}

/// Outcome of a done request, without completing it.
fn outcome(call: &mut impl Progress, named: Named) -> Outcome {
    match named {
        Named::Pending(index) => compound::peek_outcome(call, index),
        _ => Outcome::EMPTY,
    }
}

/// Writes what a done request tells, with its error if it has one, without completing it.
unsafe fn peek(call: &mut impl Progress, named: Named, status: *mut MPI_Status) {
    let outcome = outcome(call, named);
    // SAFETY: a status of the user, or MPI_STATUS_IGNORE.
    unsafe {
        Told(named, outcome).write(status);
        if !status.is_null() && outcome.error != MPI_SUCCESS {
            (*status).MPI_ERROR = outcome.error;
        }
    }
}

/// Looks whether one of several requests is done, without completing it (3.7.6).
#[inline]
pub unsafe fn MPI_Request_get_status_any(
    count: c_int,
    array_of_requests: *const MPI_Request,
    indx: *mut c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Request_get_status_any", MPI_COMM_NULL, |guard| {
        // SAFETY: the user gives an array of `count` requests, places for index and flag, and a status or
        // MPI_STATUS_IGNORE.
        unsafe {
            let requests = array(count, array_of_requests.cast_mut())?;
            guard.look();
            let (done, active) = first_done(guard, requests)?;
            flag.write(c_int::from(done.is_some() || !active));
            indx.write(done.map_or(MPI_UNDEFINED, |i| i as c_int));
            match done {
                Some(i) => {
                    let named = guard.engine.named_request(requests[i])?;
                    peek(guard, named, status);
                }
                None if !active => peek(guard, Named::Null, status),
                None => {}
            }
            Ok(())
        }
    })
}

/// Looks whether all of several requests are done, without completing them (3.7.6).
#[inline]
pub unsafe fn MPI_Request_get_status_all(
    count: c_int,
    array_of_requests: *const MPI_Request,
    flag: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Request_get_status_all", MPI_COMM_NULL, |guard| {
        // SAFETY: the user gives arrays of `count` elements and a flag.
        unsafe {
            let requests = array(count, array_of_requests.cast_mut())?;
            guard.look();
            let named = requests.iter().map(|&handle| guard.engine.named_request(handle));
            let named = named.collect::<Result<Vec<_>>>()?;
            let all = named.iter().all(|&named| guard.engine.is_finished(named));
            flag.write(c_int::from(all));
            if all {
                for (i, named) in named.into_iter().enumerate() {
                    peek(guard, named, nth(array_of_statuses, i));
                }
            }
            Ok(())
        }
    })
}

/// Looks which of several requests are done, without completing them (3.7.6).
#[inline]
pub unsafe fn MPI_Request_get_status_some(
    incount: c_int,
    array_of_requests: *const MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    call(c"MPI_Request_get_status_some", MPI_COMM_NULL, |guard| {
        // SAFETY: the user gives arrays of `incount` elements and a place for the count.
        unsafe {
            let requests = array(incount, array_of_requests.cast_mut())?;
            guard.look();
            let (mut done, mut active) = (0, false);
            for (i, &handle) in requests.iter().enumerate() {
                let named = guard.engine.named_request(handle)?;
                if named.is_idle() {
                    continue;
                }
                active = true;
                if guard.engine.is_finished(named) {
                    array_of_indices.add(done).write(i as c_int);
                    peek(guard, named, nth(array_of_statuses, done));
                    done += 1;
                }
            }
            outcount.write(if active { done as c_int } else { MPI_UNDEFINED });
            Ok(())
        }
    })
}

/// Lets go of a request; gives the handle that the user has then.
pub(super) fn free(call: &mut (impl Progress + HasPersistents), request: MPI_Request) -> Result<MPI_Request> {
    match call.engine().named_request(request)? {
        Named::Null => return Err(Error::new(MPI_ERR_REQUEST, "the request is MPI_REQUEST_NULL")),
        Named::FinishedSend => {}
        Named::Inactive(index) | Named::Pending(index) => compound::release_request(call, index)?,
    }
    Ok(MPI_REQUEST_NULL)
}

/// Whether a request is done and what it tells then, without completing it.
pub(super) fn look(call: &mut impl Progress, request: MPI_Request) -> Result<(bool, Option<Told>)> {
    let named = call.engine().named_request(request)?;
    if !call.engine().is_finished(named) {
        call.look();
    }
    let is_done = call.engine().is_finished(named);
    Ok((is_done, is_done.then(|| Told(named, outcome(call, named)))))
}

/// Asks for the cancellation of an operation.
pub(super) fn cancel(call: &mut impl Progress, request: MPI_Request) -> Result<()> {
    match call.engine().named_request(request)? {
        Named::Null => Err(Error::new(MPI_ERR_REQUEST, "the request is MPI_REQUEST_NULL")),
        Named::Inactive(_) => Err(Error::new(MPI_ERR_REQUEST, "the persistent request is not started")),
        Named::FinishedSend => Ok(()),
        Named::Pending(index) => compound::cancel_request(call, index),
    }
}

/// Elements that a receive has received.
pub(super) fn count(types: &Types, status: &MPI_Status, datatype: MPI_Datatype) -> Result<i128> {
    let outcome = Outcome::read(status);
    let size = types.find(datatype)?.size;
    Ok(match size {
        0 if outcome.bytes == 0 => 0,
        0 => MPI_UNDEFINED.into(),
        _ if outcome.bytes.is_multiple_of(size) => (outcome.bytes / size) as i128,
        _ => MPI_UNDEFINED.into(),
    })
}

/// Whether an operation was cancelled.
pub(super) fn is_cancelled(status: &MPI_Status) -> Result<bool> {
    Ok(Outcome::read(status).cancelled)
}
