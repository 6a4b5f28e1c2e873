//! MPI chapter 4: partitioned point-to-point communication.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::errhandler::call;
use crate::error::check;
use crate::partitioned::Arguments;
use crate::point_to_point::Data;

/// Prepares a send whose partitions are declared ready one by one (4.2.1).
#[inline]
pub unsafe fn MPI_Psend_init(
    buf: *const c_void,
    partitions: c_int,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Psend_init", comm, |guard| {
        let data = Data::new(buf, count, datatype);
        let made = guard.prepare_partitioned_send(Arguments { data, partitions, peer: dest, tag, comm })?;
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(made) };
        Ok(())
    })
}

/// Prepares a send whose partitions are declared ready one by one (4.2.1). Large count.
#[inline]
pub unsafe fn MPI_Psend_init_c(
    buf: *const c_void,
    partitions: c_int,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Psend_init_c", comm, |guard| {
        let data = Data::new(buf, count, datatype);
        let made = guard.prepare_partitioned_send(Arguments { data, partitions, peer: dest, tag, comm })?;
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(made) };
        Ok(())
    })
}

/// Prepares a receive that can be asked for its partitions (4.2.1).
#[inline]
pub unsafe fn MPI_Precv_init(
    buf: *mut c_void,
    partitions: c_int,
    count: c_int,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Precv_init", comm, |guard| {
        let data = Data::new(buf, count, datatype);
        let made =
            guard.prepare_partitioned_receive(Arguments { data, partitions, peer: source, tag, comm })?;
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(made) };
        Ok(())
    })
}

/// Prepares a receive that can be asked for its partitions (4.2.1). Large count.
#[inline]
pub unsafe fn MPI_Precv_init_c(
    buf: *mut c_void,
    partitions: c_int,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    call(c"MPI_Precv_init_c", comm, |guard| {
        let data = Data::new(buf, count, datatype);
        let made =
            guard.prepare_partitioned_receive(Arguments { data, partitions, peer: source, tag, comm })?;
        // SAFETY: the user gives a place for the request.
        unsafe { request.write(made) };
        Ok(())
    })
}

/// Declares a partition of a send ready (4.2.2).
#[inline]
pub unsafe fn MPI_Pready(partition: c_int, request: MPI_Request) -> c_int {
    call(c"MPI_Pready", MPI_COMM_SELF, |guard| guard.declare_ready(request, partition))
}

/// Declares partitions `partition_low` to `partition_high` of a send ready, both included (4.2.2).
#[inline]
pub unsafe fn MPI_Pready_range(partition_low: c_int, partition_high: c_int, request: MPI_Request) -> c_int {
    call(c"MPI_Pready_range", MPI_COMM_SELF, |guard| {
        (partition_low..=partition_high).try_for_each(|partition| guard.declare_ready(request, partition))
    })
}

/// Declares some partitions of a send ready (4.2.2).
#[inline]
pub unsafe fn MPI_Pready_list(
    length: c_int,
    array_of_partitions: *const c_int,
    request: MPI_Request,
) -> c_int {
    call(c"MPI_Pready_list", MPI_COMM_SELF, |guard| {
        check(length >= 0, MPI_ERR_COUNT, || format!("length is {length}, expected 0 or more"))?;
        (0..length as usize).try_for_each(|i| {
            // SAFETY: the user gives an array of `length` numbers.
            let partition = unsafe { array_of_partitions.add(i).read() };
            guard.declare_ready(request, partition)
        })
    })
}

/// Asks whether a partition of a receive has arrived (4.2.2).
#[inline]
pub unsafe fn MPI_Parrived(request: MPI_Request, partition: c_int, flag: *mut c_int) -> c_int {
    call(c"MPI_Parrived", MPI_COMM_SELF, |guard| {
        let arrived = guard.has_arrived(request, partition)?;
        // SAFETY: the user gives a place for the flag.
        unsafe { flag.write(c_int::from(arrived)) };
        Ok(())
    })
}
