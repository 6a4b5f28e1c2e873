//! MPI chapter 4: partitioned point-to-point communication.

use core::ffi::{CStr, c_int};

use crate::abi::*;
use crate::comm::HasComms;
use crate::datatype::Data;
use crate::datatype::HasTypes;
use crate::error::{Result, check};
use crate::partitioned::{self, Arguments};
use crate::process;
use crate::process::entry::{continue_after, outside};
use crate::progress::Progress;
use crate::request::persistent::HasPersistents;

/// Prepares a send whose partitions are declared ready one by one.
pub(super) fn send(
    call: &mut (impl Progress + HasComms + HasTypes + HasPersistents),
    data: Data,
    partitions: c_int,
    peer: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<MPI_Request> {
    let arguments = Arguments { data, partitions, peer, tag, comm };
    let mut next = *call.next_partition();
    let prepared = partitioned::prepare_send(call.comms(), call.types(), arguments, &mut next);
    *call.next_partition() = next;
    let (mut made, introduction) = prepared?;
    if let Some(mut introduction) = introduction {
        if let Some(offset) = partitioned::open_ring(call, &mut made) {
            introduction.name_ring(offset);
        }
        call.engine_mut().send_copied(introduction.message());
    }
    Ok(call.engine_mut().keep_partitioned(made))
}

/// Prepares a receive that can be asked for its partitions. Its sender's introduction is awaited from now on.
pub(super) fn receive(
    call: &mut (impl Progress + HasComms + HasTypes),
    data: Data,
    partitions: c_int,
    peer: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<MPI_Request> {
    let arguments = Arguments { data, partitions, peer, tag, comm };
    let (made, awaited) = partitioned::prepare_receive(call.comms(), call.types(), arguments)?;
    let handle = call.engine_mut().keep_partitioned(made);
    if let Some(awaited) = awaited {
        let request = call.launch(awaited.schedule(handle));
        call.engine_mut().release(request);
    }
    Ok(handle)
}

/// Declares one partition ready: the usual case at once, any other, wrong arguments included, as
/// [`declare_range`] does.
#[inline(always)]
pub(super) fn declare_one(name: &'static CStr, partition: c_int, request: MPI_Request) -> c_int {
    let mut entered = process::enter_running();
    if let Some(guard) = &mut entered
        && guard.engine.try_declare_next(request, partition)
    {
        return MPI_SUCCESS;
    }
    // Where there is none the process is not running, or it is being checked.
    let entered = entered.or_else(|| crate::check::enter_call(name));
    let Some(guard) = entered else { return outside(name) };
    continue_after(guard, name, MPI_COMM_NULL, |guard| declare_range(guard, partition, partition, request))
}

/// Says whether a partition has arrived: at once where it has, or lies in its ring; any other case, wrong
/// arguments included, as [`partitioned::has_arrived`] does.
///
/// # Safety
/// `flag` is valid for writing.
#[inline(always)]
pub(super) unsafe fn ask_for_one(
    name: &'static CStr,
    request: MPI_Request,
    partition: c_int,
    flag: *mut c_int,
) -> c_int {
    if let Some(guard) = process::enter_running() {
        let is_seen = guard.engine.has_seen_arrived(request, partition);
        guard.leave();
        if is_seen {
            // SAFETY: our contract.
            unsafe { flag.write(1) };
            return MPI_SUCCESS;
        }
    }
    // SAFETY: our contract.
    unsafe { ask_further(name, request, partition, flag) }
}

/// The rest of [`ask_for_one`], which needs more of the stack.
///
/// # Safety
/// `flag` is valid for writing.
#[inline(never)]
unsafe fn ask_further(
    name: &'static CStr,
    request: MPI_Request,
    partition: c_int,
    flag: *mut c_int,
) -> c_int {
    let mut entered = process::enter_running();
    if let Some(guard) = &mut entered
        && guard.engine.try_find_arrived(request, partition)
    {
        // SAFETY: our contract.
        unsafe { flag.write(1) };
        return MPI_SUCCESS;
    }
    // Where there is none the process is not running, or it is being checked.
    let entered = entered.or_else(|| crate::check::enter_call(name));
    let Some(guard) = entered else { return outside(name) };
    continue_after(guard, name, MPI_COMM_NULL, |guard| {
        let has_arrived = partitioned::has_arrived(guard, request, partition)?;
        // SAFETY: our contract.
        unsafe { flag.write(c_int::from(has_arrived)) };
        Ok(())
    })
}

/// Declares partitions `low` to `high` ready, both included.
pub(super) fn declare_range(
    call: &mut impl Progress,
    low: c_int,
    high: c_int,
    request: MPI_Request,
) -> Result<()> {
    call.engine_mut().declare_ready(request, low, high)?;
    call.engine_mut().send_ready(request);
    Ok(())
}

/// Declares some partitions ready.
///
/// # Safety
/// `partitions` has `length` numbers.
pub(super) unsafe fn declare_list(
    call: &mut impl Progress,
    length: c_int,
    partitions: *const c_int,
    request: MPI_Request,
) -> Result<()> {
    check(length >= 0, MPI_ERR_COUNT, || format!("length is {length}, expected 0 or more"))?;
    // SAFETY: our contract.
    let mut all = (0..length as usize).map(|i| unsafe { partitions.add(i).read() });
    let declared =
        all.try_for_each(|partition| call.engine_mut().declare_ready(request, partition, partition));
    call.engine_mut().send_ready(request);
    declared
}
