//! MPI 6.3 to 6.8: barrier, broadcast, gather, scatter, all-to-all.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::collective::work::{Scattered, Work};
use crate::errhandler::call;
use crate::point_to_point::Data;

/// Waits until all ranks have come (6.3).
#[inline]
pub unsafe fn MPI_Barrier(comm: MPI_Comm) -> c_int {
    call(c"MPI_Barrier", comm, |guard| guard.collect(comm, &Work::Barrier))
}

/// Sends data of the root to all ranks (6.4).
#[inline]
pub unsafe fn MPI_Bcast(
    buffer: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Bcast", comm, |guard| {
        let work = guard.work_broadcast(comm, Data::new(buffer, count, datatype), root)?;
        guard.collect(comm, &work)
    })
}

/// Collects equal pieces at the root (6.5).
#[inline]
pub unsafe fn MPI_Gather(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Gather", comm, |guard| {
        let work = guard.work_gather(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
            root,
        )?;
        guard.collect(comm, &work)
    })
}

/// Collects pieces at the root (6.5).
#[inline]
pub unsafe fn MPI_Gatherv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Gatherv", comm, |guard| {
        let work = guard.work_gatherv(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Scattered::new(recvbuf, recvcounts, displs, recvtype),
            root,
        )?;
        guard.collect(comm, &work)
    })
}

/// Deals out equal pieces from the root (6.6).
#[inline]
pub unsafe fn MPI_Scatter(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Scatter", comm, |guard| {
        let work = guard.work_scatter(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
            root,
        )?;
        guard.collect(comm, &work)
    })
}

/// Deals out pieces from the root (6.6).
#[inline]
pub unsafe fn MPI_Scatterv(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    displs: *const c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Scatterv", comm, |guard| {
        let work = guard.work_scatterv(
            comm,
            Scattered::new(sendbuf, sendcounts, displs, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
            root,
        )?;
        guard.collect(comm, &work)
    })
}

/// Collects equal pieces at all ranks (6.7).
#[inline]
pub unsafe fn MPI_Allgather(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Allgather", comm, |guard| {
        let work = guard.work_allgather(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        guard.collect(comm, &work)
    })
}

/// Collects pieces at all ranks (6.7).
#[inline]
pub unsafe fn MPI_Allgatherv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Allgatherv", comm, |guard| {
        let work = guard.work_allgatherv(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Scattered::new(recvbuf, recvcounts, displs, recvtype),
        )?;
        guard.collect(comm, &work)
    })
}

/// Sends an equal piece from every rank to every rank (6.8).
#[inline]
pub unsafe fn MPI_Alltoall(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Alltoall", comm, |guard| {
        let work = guard.work_alltoall(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        guard.collect(comm, &work)
    })
}

/// Sends a piece from every rank to every rank (6.8).
#[inline]
pub unsafe fn MPI_Alltoallv(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Alltoallv", comm, |guard| {
        let work = guard.work_alltoallv(
            comm,
            Scattered::new(sendbuf, sendcounts, sdispls, sendtype),
            Scattered::new(recvbuf, recvcounts, rdispls, recvtype),
        )?;
        guard.collect(comm, &work)
    })
}

/// Sends a piece of its own type from every rank to every rank (6.8).
#[inline]
pub unsafe fn MPI_Alltoallw(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Alltoallw", comm, |guard| {
        let work = guard.work_alltoallv(
            comm,
            Scattered::typed(sendbuf, sendcounts, sdispls, sendtypes),
            Scattered::typed(recvbuf, recvcounts, rdispls, recvtypes),
        )?;
        guard.collect(comm, &work)
    })
}

/// Sends data of the root to all ranks (6.4). Large count.
#[inline]
pub unsafe fn MPI_Bcast_c(
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Bcast_c", comm, |guard| {
        let work = guard.work_broadcast(comm, Data::new(buffer, count, datatype), root)?;
        guard.collect(comm, &work)
    })
}

/// Collects equal pieces at the root (6.5). Large count.
#[inline]
pub unsafe fn MPI_Gather_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Gather_c", comm, |guard| {
        let work = guard.work_gather(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
            root,
        )?;
        guard.collect(comm, &work)
    })
}

/// Collects pieces at the root (6.5). Large count.
#[inline]
pub unsafe fn MPI_Gatherv_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const MPI_Count,
    displs: *const MPI_Aint,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Gatherv_c", comm, |guard| {
        let work = guard.work_gatherv(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Scattered::new(recvbuf, recvcounts, displs, recvtype),
            root,
        )?;
        guard.collect(comm, &work)
    })
}

/// Deals out equal pieces from the root (6.6). Large count.
#[inline]
pub unsafe fn MPI_Scatter_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Scatter_c", comm, |guard| {
        let work = guard.work_scatter(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
            root,
        )?;
        guard.collect(comm, &work)
    })
}

/// Deals out pieces from the root (6.6). Large count.
#[inline]
pub unsafe fn MPI_Scatterv_c(
    sendbuf: *const c_void,
    sendcounts: *const MPI_Count,
    displs: *const MPI_Aint,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Scatterv_c", comm, |guard| {
        let work = guard.work_scatterv(
            comm,
            Scattered::new(sendbuf, sendcounts, displs, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
            root,
        )?;
        guard.collect(comm, &work)
    })
}

/// Collects equal pieces at all ranks (6.7). Large count.
#[inline]
pub unsafe fn MPI_Allgather_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Allgather_c", comm, |guard| {
        let work = guard.work_allgather(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        guard.collect(comm, &work)
    })
}

/// Collects pieces at all ranks (6.7). Large count.
#[inline]
pub unsafe fn MPI_Allgatherv_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const MPI_Count,
    displs: *const MPI_Aint,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Allgatherv_c", comm, |guard| {
        let work = guard.work_allgatherv(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Scattered::new(recvbuf, recvcounts, displs, recvtype),
        )?;
        guard.collect(comm, &work)
    })
}

/// Sends an equal piece from every rank to every rank (6.8). Large count.
#[inline]
pub unsafe fn MPI_Alltoall_c(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Alltoall_c", comm, |guard| {
        let work = guard.work_alltoall(
            comm,
            Data::new(sendbuf, sendcount, sendtype),
            Data::new(recvbuf, recvcount, recvtype),
        )?;
        guard.collect(comm, &work)
    })
}

/// Sends a piece from every rank to every rank (6.8). Large count.
#[inline]
pub unsafe fn MPI_Alltoallv_c(
    sendbuf: *const c_void,
    sendcounts: *const MPI_Count,
    sdispls: *const MPI_Aint,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const MPI_Count,
    rdispls: *const MPI_Aint,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Alltoallv_c", comm, |guard| {
        let work = guard.work_alltoallv(
            comm,
            Scattered::new(sendbuf, sendcounts, sdispls, sendtype),
            Scattered::new(recvbuf, recvcounts, rdispls, recvtype),
        )?;
        guard.collect(comm, &work)
    })
}

/// Sends a piece of its own type from every rank to every rank (6.8). Large count.
#[inline]
pub unsafe fn MPI_Alltoallw_c(
    sendbuf: *const c_void,
    sendcounts: *const MPI_Count,
    sdispls: *const MPI_Aint,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const MPI_Count,
    rdispls: *const MPI_Aint,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    call(c"MPI_Alltoallw_c", comm, |guard| {
        let work = guard.work_alltoallv(
            comm,
            Scattered::typed(sendbuf, sendcounts, sdispls, sendtypes),
            Scattered::typed(recvbuf, recvcounts, rdispls, recvtypes),
        )?;
        guard.collect(comm, &work)
    })
}
