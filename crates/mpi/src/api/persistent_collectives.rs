//! MPI 6.13: persistent barrier, broadcast, gather, scatter, all-to-all.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::collective::work::{Scattered, Work};
use crate::errhandler::call;
use crate::point_to_point::Data;

/// Makes a request that does `MPI_Barrier` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Barrier_init(comm: MPI_Comm, _info: MPI_Info, request: *mut MPI_Request) -> c_int {
    call(c"MPI_Barrier_init", comm, |guard| {
        let work = Work::Barrier;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Bcast` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Bcast_init(
    buffer: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Bcast_init", comm, |guard| {
        let work = guard.work_broadcast(comm, Data::new(buffer, count, datatype), root)?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Gather` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Gather_init(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Gather_init", comm, |guard| {
        let work = guard.work_gather(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
            root,
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Gatherv` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Gatherv_init(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Gatherv_init", comm, |guard| {
        let work = guard.work_gatherv(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Scattered::new(recvbuf, recvcounts, displs, recvtype),
            root,
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Scatter` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Scatter_init(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Scatter_init", comm, |guard| {
        let work = guard.work_scatter(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
            root,
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Scatterv` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Scatterv_init(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    displs: *const c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Scatterv_init", comm, |guard| {
        let work = guard.work_scatterv(
            comm,
            Scattered::new(sendbuf, sendcounts, displs, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
            root,
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Allgather` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Allgather_init(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Allgather_init", comm, |guard| {
        let work = guard.work_allgather(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Allgatherv` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Allgatherv_init(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Allgatherv_init", comm, |guard| {
        let work = guard.work_allgatherv(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Scattered::new(recvbuf, recvcounts, displs, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Alltoall` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Alltoall_init(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Alltoall_init", comm, |guard| {
        let work = guard.work_alltoall(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Alltoallv` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Alltoallv_init(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Alltoallv_init", comm, |guard| {
        let work = guard.work_alltoallv(
            comm,
            Scattered::new(sendbuf, sendcounts, sdispls, sendtype),
            Scattered::new(recvbuf, recvcounts, rdispls, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Alltoallw` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Alltoallw_init(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Alltoallw_init", comm, |guard| {
        let work = guard.work_alltoallv(
            comm,
            Scattered::typed(sendbuf, sendcounts, sdispls, sendtypes),
            Scattered::typed(recvbuf, recvcounts, rdispls, recvtypes),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Bcast` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Bcast_init_c(
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Bcast_init_c", comm, |guard| {
        let work = guard.work_broadcast(comm, Data::new(buffer, count, datatype), root)?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Gather` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Gather_init_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Gather_init_c", comm, |guard| {
        let work = guard.work_gather(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
            root,
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Gatherv` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Gatherv_init_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const MPI_Count,
    displs: *const MPI_Aint,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Gatherv_init_c", comm, |guard| {
        let work = guard.work_gatherv(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Scattered::new(recvbuf, recvcounts, displs, recvtype),
            root,
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Scatter` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Scatter_init_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Scatter_init_c", comm, |guard| {
        let work = guard.work_scatter(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
            root,
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Scatterv` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Scatterv_init_c(
    sendbuf: *const c_void,
    sendcounts: *const MPI_Count,
    displs: *const MPI_Aint,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Scatterv_init_c", comm, |guard| {
        let work = guard.work_scatterv(
            comm,
            Scattered::new(sendbuf, sendcounts, displs, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
            root,
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Allgather` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Allgather_init_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Allgather_init_c", comm, |guard| {
        let work = guard.work_allgather(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Allgatherv` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Allgatherv_init_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const MPI_Count,
    displs: *const MPI_Aint,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Allgatherv_init_c", comm, |guard| {
        let work = guard.work_allgatherv(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Scattered::new(recvbuf, recvcounts, displs, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Alltoall` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Alltoall_init_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Alltoall_init_c", comm, |guard| {
        let work = guard.work_alltoall(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Alltoallv` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Alltoallv_init_c(
    sendbuf: *const c_void,
    sendcounts: *const MPI_Count,
    sdispls: *const MPI_Aint,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const MPI_Count,
    rdispls: *const MPI_Aint,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Alltoallv_init_c", comm, |guard| {
        let work = guard.work_alltoallv(
            comm,
            Scattered::new(sendbuf, sendcounts, sdispls, sendtype),
            Scattered::new(recvbuf, recvcounts, rdispls, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Alltoallw` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Alltoallw_init_c(
    sendbuf: *const c_void,
    sendcounts: *const MPI_Count,
    sdispls: *const MPI_Aint,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const MPI_Count,
    rdispls: *const MPI_Aint,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Alltoallw_init_c", comm, |guard| {
        let work = guard.work_alltoallv(
            comm,
            Scattered::typed(sendbuf, sendcounts, sdispls, sendtypes),
            Scattered::typed(recvbuf, recvcounts, rdispls, recvtypes),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}
