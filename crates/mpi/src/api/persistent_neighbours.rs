//! MPI 8.8: persistent collective operations among neighbours.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::collective::work::Scattered;
use crate::errhandler::call;
use crate::point_to_point::Data;

/// Makes a request that does `MPI_Neighbor_allgather` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Neighbor_allgather_init(
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
    call(c"MPI_Neighbor_allgather_init", comm, |guard| {
        let work = guard.work_neighbor_allgather(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Neighbor_allgatherv` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Neighbor_allgatherv_init(
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
    call(c"MPI_Neighbor_allgatherv_init", comm, |guard| {
        let work = guard.work_neighbor_allgatherv(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Scattered::new(recvbuf, recvcounts, displs, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Neighbor_alltoall` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Neighbor_alltoall_init(
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
    call(c"MPI_Neighbor_alltoall_init", comm, |guard| {
        let work = guard.work_neighbor_alltoall(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Neighbor_alltoallv` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Neighbor_alltoallv_init(
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
    call(c"MPI_Neighbor_alltoallv_init", comm, |guard| {
        let work = guard.work_neighbor_alltoallv(
            comm,
            Scattered::new(sendbuf, sendcounts, sdispls, sendtype),
            Scattered::new(recvbuf, recvcounts, rdispls, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Neighbor_alltoallw` each time it is started (6.13).
#[inline]
pub unsafe fn MPI_Neighbor_alltoallw_init(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const MPI_Aint,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const MPI_Aint,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Neighbor_alltoallw_init", comm, |guard| {
        let work = guard.work_neighbor_alltoallv(
            comm,
            Scattered::typed(sendbuf, sendcounts, sdispls, sendtypes),
            Scattered::typed(recvbuf, recvcounts, rdispls, recvtypes),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Neighbor_allgather` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Neighbor_allgather_init_c(
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
    call(c"MPI_Neighbor_allgather_init_c", comm, |guard| {
        let work = guard.work_neighbor_allgather(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Neighbor_allgatherv` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Neighbor_allgatherv_init_c(
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
    call(c"MPI_Neighbor_allgatherv_init_c", comm, |guard| {
        let work = guard.work_neighbor_allgatherv(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Scattered::new(recvbuf, recvcounts, displs, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Neighbor_alltoall` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Neighbor_alltoall_init_c(
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
    call(c"MPI_Neighbor_alltoall_init_c", comm, |guard| {
        let work = guard.work_neighbor_alltoall(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Neighbor_alltoallv` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Neighbor_alltoallv_init_c(
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
    call(c"MPI_Neighbor_alltoallv_init_c", comm, |guard| {
        let work = guard.work_neighbor_alltoallv(
            comm,
            Scattered::new(sendbuf, sendcounts, sdispls, sendtype),
            Scattered::new(recvbuf, recvcounts, rdispls, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}

/// Makes a request that does `MPI_Neighbor_alltoallw` each time it is started (6.13). Large count.
#[inline]
pub unsafe fn MPI_Neighbor_alltoallw_init_c(
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
    call(c"MPI_Neighbor_alltoallw_init_c", comm, |guard| {
        let work = guard.work_neighbor_alltoallv(
            comm,
            Scattered::typed(sendbuf, sendcounts, sdispls, sendtypes),
            Scattered::typed(recvbuf, recvcounts, rdispls, recvtypes),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.prepare_collecting(comm, work, request) }
    })
}
