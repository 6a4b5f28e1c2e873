//! MPI chapter 4: partitioned point-to-point communication.

use core::ffi::c_int;

use crate::abi::*;
use crate::datatype::Data;
use crate::error::{Result, check};
use crate::partitioned::Arguments;
use crate::process::Guard;

/// Prepares a send whose partitions are declared ready one by one.
pub(super) fn send(
    guard: &mut Guard,
    data: Data,
    partitions: c_int,
    peer: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<MPI_Request> {
    guard.prepare_partitioned_send(Arguments { data, partitions, peer, tag, comm })
}

/// Prepares a receive that can be asked for its partitions.
pub(super) fn receive(
    guard: &mut Guard,
    data: Data,
    partitions: c_int,
    peer: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<MPI_Request> {
    guard.prepare_partitioned_receive(Arguments { data, partitions, peer, tag, comm })
}

/// Declares partitions `low` to `high` ready, both included.
pub(super) fn declare_range(guard: &mut Guard, low: c_int, high: c_int, request: MPI_Request) -> Result<()> {
    (low..=high).try_for_each(|partition| guard.declare_ready(request, partition))
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
    (0..length as usize).try_for_each(|i| guard.declare_ready(request, unsafe { partitions.add(i).read() }))
}
