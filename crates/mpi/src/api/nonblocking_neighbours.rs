//! MPI 8.7: nonblocking collective operations among neighbours.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::collective::work::Scattered;
use crate::errhandler::call;
use crate::point_to_point::Data;

/// Starts `MPI_Neighbor_allgather`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Ineighbor_allgather(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ineighbor_allgather", comm, |guard| {
        let work = guard.work_neighbor_allgather(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Neighbor_allgatherv`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Ineighbor_allgatherv(
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
    call(c"MPI_Ineighbor_allgatherv", comm, |guard| {
        let work = guard.work_neighbor_allgatherv(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Scattered::new(recvbuf, recvcounts, displs, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Neighbor_alltoall`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Ineighbor_alltoall(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ineighbor_alltoall", comm, |guard| {
        let work = guard.work_neighbor_alltoall(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Neighbor_alltoallv`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Ineighbor_alltoallv(
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
    call(c"MPI_Ineighbor_alltoallv", comm, |guard| {
        let work = guard.work_neighbor_alltoallv(
            comm,
            Scattered::new(sendbuf, sendcounts, sdispls, sendtype),
            Scattered::new(recvbuf, recvcounts, rdispls, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Neighbor_alltoallw`. Nonblocking (6.12).
#[inline]
pub unsafe fn MPI_Ineighbor_alltoallw(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const MPI_Aint,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const MPI_Aint,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ineighbor_alltoallw", comm, |guard| {
        let work = guard.work_neighbor_alltoallv(
            comm,
            Scattered::typed(sendbuf, sendcounts, sdispls, sendtypes),
            Scattered::typed(recvbuf, recvcounts, rdispls, recvtypes),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Neighbor_allgather`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Ineighbor_allgather_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ineighbor_allgather_c", comm, |guard| {
        let work = guard.work_neighbor_allgather(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Neighbor_allgatherv`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Ineighbor_allgatherv_c(
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
    call(c"MPI_Ineighbor_allgatherv_c", comm, |guard| {
        let work = guard.work_neighbor_allgatherv(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Scattered::new(recvbuf, recvcounts, displs, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Neighbor_alltoall`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Ineighbor_alltoall_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Ineighbor_alltoall_c", comm, |guard| {
        let work = guard.work_neighbor_alltoall(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Neighbor_alltoallv`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Ineighbor_alltoallv_c(
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
    call(c"MPI_Ineighbor_alltoallv_c", comm, |guard| {
        let work = guard.work_neighbor_alltoallv(
            comm,
            Scattered::new(sendbuf, sendcounts, sdispls, sendtype),
            Scattered::new(recvbuf, recvcounts, rdispls, recvtype),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}

/// Starts `MPI_Neighbor_alltoallw`. Nonblocking (6.12). Large count.
#[inline]
pub unsafe fn MPI_Ineighbor_alltoallw_c(
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
    call(c"MPI_Ineighbor_alltoallw_c", comm, |guard| {
        let work = guard.work_neighbor_alltoallv(
            comm,
            Scattered::typed(sendbuf, sendcounts, sdispls, sendtypes),
            Scattered::typed(recvbuf, recvcounts, rdispls, recvtypes),
        )?;
        // SAFETY: the user gives a place for the request.
        unsafe { guard.start_collecting(comm, &work, request) }
    })
}
