//! MPI 6.12: nonblocking reductions and scans.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::collective::work::ReductionArguments;
use crate::errhandler::call;

/// Starts `MPI_Reduce`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Ireduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ireduce", comm, |guard| {
        let work =
            guard.work_reduce(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op), root)?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Allreduce`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Iallreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Iallreduce", comm, |guard| {
        let work =
            guard.work_allreduce(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op))?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Reduce_scatter_block`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Ireduce_scatter_block(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ireduce_scatter_block", comm, |guard| {
        let work = guard.work_reduce_scatter_block(
            comm,
            ReductionArguments::new(sendbuf, recvbuf, recvcount, datatype, op),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Reduce_scatter`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Ireduce_scatter(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ireduce_scatter", comm, |guard| {
        let work = guard.work_reduce_scatter(
            comm,
            ReductionArguments::new(sendbuf, recvbuf, 0, datatype, op),
            recvcounts.into(),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Scan`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Iscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Iscan", comm, |guard| {
        let work =
            guard.work_scan(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op), false)?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Exscan`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Iexscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Iexscan", comm, |guard| {
        let work =
            guard.work_scan(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op), true)?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Reduce`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Ireduce_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ireduce_c", comm, |guard| {
        let work =
            guard.work_reduce(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op), root)?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Allreduce`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Iallreduce_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Iallreduce_c", comm, |guard| {
        let work =
            guard.work_allreduce(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op))?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Reduce_scatter_block`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Ireduce_scatter_block_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ireduce_scatter_block_c", comm, |guard| {
        let work = guard.work_reduce_scatter_block(
            comm,
            ReductionArguments::new(sendbuf, recvbuf, recvcount, datatype, op),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Reduce_scatter`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Ireduce_scatter_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: *const MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ireduce_scatter_c", comm, |guard| {
        let work = guard.work_reduce_scatter(
            comm,
            ReductionArguments::new(sendbuf, recvbuf, 0, datatype, op),
            recvcounts.into(),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Scan`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Iscan_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Iscan_c", comm, |guard| {
        let work =
            guard.work_scan(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op), false)?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Exscan`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Iexscan_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Iexscan_c", comm, |guard| {
        let work =
            guard.work_scan(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op), true)?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}
