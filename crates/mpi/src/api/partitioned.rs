//! MPI chapter 4: partitioned point-to-point communication.

use core::ffi::c_int;

use crate::abi::*;
use crate::datatype::Data;
use crate::error::{Result, check};
use crate::partitioned::{self, Arguments};
use crate::process::Guard;
use crate::progress::Progress;

/// Prepares a send whose partitions are declared ready one by one.
pub(super) fn send(
    guard: &mut Guard,
    data: Data,
    partitions: c_int,
    peer: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<MPI_Request> {
    let process = &mut **guard;
    let arguments = Arguments { data, partitions, peer, tag, comm };
    let (made, introduction) = partitioned::prepare_send(
        &process.comms,
        &process.types,
        arguments,
        &mut process.persistents.next_partition,
    )?;
    if let Some(mut introduction) = introduction {
        process.engine.send_copied(introduction.message());
    }
    Ok(process.engine.keep_partitioned(made))
}

/// Prepares a receive that can be asked for its partitions. Its sender's introduction is awaited from now on.
pub(super) fn receive(
    guard: &mut Guard,
    data: Data,
    partitions: c_int,
    peer: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<MPI_Request> {
    let arguments = Arguments { data, partitions, peer, tag, comm };
    let (made, awaited) = partitioned::prepare_receive(&guard.comms, &guard.types, arguments)?;
    let handle = guard.engine.keep_partitioned(made);
    if let Some(awaited) = awaited {
        let request = guard.launch(awaited.schedule(handle));
        guard.engine.release(request);
    }
    Ok(handle)
}

/// Declares partitions `low` to `high` ready, both included.
pub(super) fn declare_range(guard: &mut Guard, low: c_int, high: c_int, request: MPI_Request) -> Result<()> {
    guard.engine.declare_ready(request, low, high)?;
    guard.engine.send_ready(request);
    Ok(())
}

/// Declares some partitions ready.
///
/// # Safety
/// `partitions` has `length` numbers.
pub(super) unsafe fn declare_list(
    guard: &mut Guard,
    length: c_int,
    partitions: *const c_int,
    request: MPI_Request,
) -> Result<()> {
    check(length >= 0, MPI_ERR_COUNT, || format!("length is {length}, expected 0 or more"))?;
    // SAFETY: our contract.
    let mut all = (0..length as usize).map(|i| unsafe { partitions.add(i).read() });
    let declared = all.try_for_each(|partition| guard.engine.declare_ready(request, partition, partition));
    guard.engine.send_ready(request);
    declared
}
