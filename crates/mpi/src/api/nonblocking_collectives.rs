//! MPI 6.12: nonblocking barrier, broadcast, gather, scatter, all-to-all.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::collective::work::{Scattered, Work};
use crate::errhandler::call;
use crate::point_to_point::Data;

/// Starts `MPI_Barrier`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Ibarrier(comm: MPI_Comm, request: *mut MPI_Request) -> c_int {
    call(c"MPI_Ibarrier", comm, |guard| {
        let work = Work::Barrier;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Bcast`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Ibcast(
    buffer: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ibcast", comm, |guard| {
        let work = guard.work_broadcast(comm, Data::new(buffer, count, datatype), root)?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Gather`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Igather(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Igather", comm, |guard| {
        let work = guard.work_gather(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
            root,
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Gatherv`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Igatherv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Igatherv", comm, |guard| {
        let work = guard.work_gatherv(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Scattered::new(recvbuf, recvcounts, displs, recvtype),
            root,
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Scatter`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Iscatter(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Iscatter", comm, |guard| {
        let work = guard.work_scatter(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
            root,
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Scatterv`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Iscatterv(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    displs: *const c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Iscatterv", comm, |guard| {
        let work = guard.work_scatterv(
            comm,
            Scattered::new(sendbuf, sendcounts, displs, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
            root,
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Allgather`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Iallgather(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Iallgather", comm, |guard| {
        let work = guard.work_allgather(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Allgatherv`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Iallgatherv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Iallgatherv", comm, |guard| {
        let work = guard.work_allgatherv(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Scattered::new(recvbuf, recvcounts, displs, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Alltoall`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Ialltoall(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ialltoall", comm, |guard| {
        let work = guard.work_alltoall(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Alltoallv`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Ialltoallv(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ialltoallv", comm, |guard| {
        let work = guard.work_alltoallv(
            comm,
            Scattered::new(sendbuf, sendcounts, sdispls, sendtype),
            Scattered::new(recvbuf, recvcounts, rdispls, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Alltoallw`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Ialltoallw(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ialltoallw", comm, |guard| {
        let work = guard.work_alltoallv(
            comm,
            Scattered::typed(sendbuf, sendcounts, sdispls, sendtypes),
            Scattered::typed(recvbuf, recvcounts, rdispls, recvtypes),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Bcast`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Ibcast_c(
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ibcast_c", comm, |guard| {
        let work = guard.work_broadcast(comm, Data::new(buffer, count, datatype), root)?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Gather`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Igather_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Igather_c", comm, |guard| {
        let work = guard.work_gather(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
            root,
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Gatherv`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Igatherv_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const MPI_Count,
    displs: *const MPI_Aint,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Igatherv_c", comm, |guard| {
        let work = guard.work_gatherv(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Scattered::new(recvbuf, recvcounts, displs, recvtype),
            root,
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Scatter`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Iscatter_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Iscatter_c", comm, |guard| {
        let work = guard.work_scatter(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
            root,
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Scatterv`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Iscatterv_c(
    sendbuf: *const c_void,
    sendcounts: *const MPI_Count,
    displs: *const MPI_Aint,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Iscatterv_c", comm, |guard| {
        let work = guard.work_scatterv(
            comm,
            Scattered::new(sendbuf, sendcounts, displs, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
            root,
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Allgather`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Iallgather_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Iallgather_c", comm, |guard| {
        let work = guard.work_allgather(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Allgatherv`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Iallgatherv_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const MPI_Count,
    displs: *const MPI_Aint,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Iallgatherv_c", comm, |guard| {
        let work = guard.work_allgatherv(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Scattered::new(recvbuf, recvcounts, displs, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Alltoall`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Ialltoall_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ialltoall_c", comm, |guard| {
        let work = guard.work_alltoall(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Alltoallv`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Ialltoallv_c(
    sendbuf: *const c_void,
    sendcounts: *const MPI_Count,
    sdispls: *const MPI_Aint,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const MPI_Count,
    rdispls: *const MPI_Aint,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ialltoallv_c", comm, |guard| {
        let work = guard.work_alltoallv(
            comm,
            Scattered::new(sendbuf, sendcounts, sdispls, sendtype),
            Scattered::new(recvbuf, recvcounts, rdispls, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Alltoallw`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Ialltoallw_c(
    sendbuf: *const c_void,
    sendcounts: *const MPI_Count,
    sdispls: *const MPI_Aint,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const MPI_Count,
    rdispls: *const MPI_Aint,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ialltoallw_c", comm, |guard| {
        let work = guard.work_alltoallv(
            comm,
            Scattered::typed(sendbuf, sendcounts, sdispls, sendtypes),
            Scattered::typed(recvbuf, recvcounts, rdispls, recvtypes),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}
