//! MPI 6.13: persistent reductions and scans.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::collective::work::ReductionArguments;
use crate::errhandler::call;

/// Makes a request that does `MPI_Reduce` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Reduce_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Reduce_init", comm, |guard| {
        let work =
            guard.work_reduce(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op), root)?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Allreduce` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Allreduce_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Allreduce_init", comm, |guard| {
        let work =
            guard.work_allreduce(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op))?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Reduce_scatter_block` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Reduce_scatter_block_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Reduce_scatter_block_init", comm, |guard| {
        let work = guard.work_reduce_scatter_block(
            comm,
            ReductionArguments::new(sendbuf, recvbuf, recvcount, datatype, op),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Reduce_scatter` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Reduce_scatter_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Reduce_scatter_init", comm, |guard| {
        let work = guard.work_reduce_scatter(
            comm,
            ReductionArguments::new(sendbuf, recvbuf, 0, datatype, op),
            recvcounts.into(),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Scan` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Scan_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Scan_init", comm, |guard| {
        let work =
            guard.work_scan(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op), false)?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Exscan` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Exscan_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Exscan_init", comm, |guard| {
        let work =
            guard.work_scan(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op), true)?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Reduce` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Reduce_init_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Reduce_init_c", comm, |guard| {
        let work =
            guard.work_reduce(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op), root)?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Allreduce` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Allreduce_init_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Allreduce_init_c", comm, |guard| {
        let work =
            guard.work_allreduce(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op))?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Reduce_scatter_block` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Reduce_scatter_block_init_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Reduce_scatter_block_init_c", comm, |guard| {
        let work = guard.work_reduce_scatter_block(
            comm,
            ReductionArguments::new(sendbuf, recvbuf, recvcount, datatype, op),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Reduce_scatter` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Reduce_scatter_init_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: *const MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Reduce_scatter_init_c", comm, |guard| {
        let work = guard.work_reduce_scatter(
            comm,
            ReductionArguments::new(sendbuf, recvbuf, 0, datatype, op),
            recvcounts.into(),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Scan` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Scan_init_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Scan_init_c", comm, |guard| {
        let work =
            guard.work_scan(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op), false)?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Exscan` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Exscan_init_c(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Exscan_init_c", comm, |guard| {
        let work =
            guard.work_scan(comm, ReductionArguments::new(sendbuf, recvbuf, count, datatype, op), true)?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}
