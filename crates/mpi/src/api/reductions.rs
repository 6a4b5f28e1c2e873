//! MPI 6.9 to 6.11: reductions and scans.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::collective::work::ReductionArguments;
use crate::errhandler::call;

/// Combines the elements of all ranks at the root (6.9.1).
#[inline]
pub unsafe fn MPI_Reduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Reduce", comm, |guard| {
        let work =
            guard.work_reduce(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op), root)?;
        guard.collect(comm, &work)
    })
}

/// Combines the elements of all ranks at all ranks (6.9.6).
#[inline]
pub unsafe fn MPI_Allreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Allreduce", comm, |guard| {
        guard.allreduce(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op))
    })
}

/// Combines the elements of all ranks and deals them out in equal pieces (6.10.1).
#[inline]
pub unsafe fn MPI_Reduce_scatter_block(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Reduce_scatter_block", comm, |guard| {
        let work = guard.work_reduce_scatter_block(
            comm,
            ReductionArguments::new(sendbuf, recvbuf, recvcount, datatype, op),
        )?;
        guard.collect(comm, &work)
    })
}

/// Combines the elements of all ranks and deals them out (6.10.2).
#[inline]
pub unsafe fn MPI_Reduce_scatter(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Reduce_scatter", comm, |guard| {
        let work = guard.work_reduce_scatter(
            comm,
            ReductionArguments::new(sendbuf, recvbuf, 0, datatype, op),
            recvcounts.into(),
        )?;
        guard.collect(comm, &work)
    })
}

/// Combines the elements of the lower ranks and this one (6.11.1).
#[inline]
pub unsafe fn MPI_Scan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Scan", comm, |guard| {
        let work =
            guard.work_scan(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op), false)?;
        guard.collect(comm, &work)
    })
}

/// Combines the elements of the lower ranks (6.11.2).
#[inline]
pub unsafe fn MPI_Exscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Exscan", comm, |guard| {
        let work =
            guard.work_scan(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op), true)?;
        guard.collect(comm, &work)
    })
}

/// Combines the elements of all ranks at the root (6.9.1). Large count.
#[inline]
pub unsafe fn MPI_Reduce_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Reduce_c", comm, |guard| {
        let work =
            guard.work_reduce(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op), root)?;
        guard.collect(comm, &work)
    })
}

/// Combines the elements of all ranks at all ranks (6.9.6). Large count.
#[inline]
pub unsafe fn MPI_Allreduce_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Allreduce_c", comm, |guard| {
        guard.allreduce(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op))
    })
}

/// Combines the elements of all ranks and deals them out in equal pieces (6.10.1). Large count.
#[inline]
pub unsafe fn MPI_Reduce_scatter_block_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Reduce_scatter_block_c", comm, |guard| {
        let work = guard.work_reduce_scatter_block(
            comm,
            ReductionArguments::new(sendbuf, recvbuf, recvcount, datatype, op),
        )?;
        guard.collect(comm, &work)
    })
}

/// Combines the elements of all ranks and deals them out (6.10.2). Large count.
#[inline]
pub unsafe fn MPI_Reduce_scatter_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: *const MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Reduce_scatter_c", comm, |guard| {
        let work = guard.work_reduce_scatter(
            comm,
            ReductionArguments::new(sendbuf, recvbuf, 0, datatype, op),
            recvcounts.into(),
        )?;
        guard.collect(comm, &work)
    })
}

/// Combines the elements of the lower ranks and this one (6.11.1). Large count.
#[inline]
pub unsafe fn MPI_Scan_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Scan_c", comm, |guard| {
        let work =
            guard.work_scan(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op), false)?;
        guard.collect(comm, &work)
    })
}

/// Combines the elements of the lower ranks (6.11.2). Large count.
#[inline]
pub unsafe fn MPI_Exscan_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Exscan_c", comm, |guard| {
        let work =
            guard.work_scan(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op), true)?;
        guard.collect(comm, &work)
    })
}
