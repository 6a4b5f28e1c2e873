//! The deprecated collective operations, whose members are named by a start, a stride and a size. Work arrays
//! are not used.

use core::ffi::{c_int, c_long};

use tutti_mpi::abi::*;

use super::collectives::{alltoall_in, alltoalls_in, broadcast_from, collect_in, fcollect_in, reduce, sync};
use crate::element::{Element, Reduced};
use crate::memory;
use crate::team::active_set;

/// All operations are done, then all PEs of the set have come here.
pub unsafe fn barrier_set(PE_start: c_int, logPE_stride: c_int, PE_size: c_int, _pSync: *mut c_long) {
    memory::quiet("barrier");
    sync(&active_set("barrier", PE_start, logPE_stride, PE_size));
}

/// All PEs of the set have come here, and see what each of them has stored.
pub unsafe fn sync_set(PE_start: c_int, logPE_stride: c_int, PE_size: c_int, _pSync: *mut c_long) {
    sync(&active_set("sync", PE_start, logPE_stride, PE_size));
}

/// Copies elements from `source` of one PE of the set to `dest` of all others; that of the one stays.
pub unsafe fn broadcast_set<T: Element>(
    dest: *mut T,
    source: *const T,
    nelems: usize,
    PE_root: c_int,
    PE_start: c_int,
    logPE_stride: c_int,
    PE_size: c_int,
    _pSync: *mut c_long,
) {
    let team = active_set("broadcast", PE_start, logPE_stride, PE_size);
    let data = if team.me as c_int == PE_root { source.cast_mut() } else { dest };
    // SAFETY: the user gives so many elements; the root's are only read.
    unsafe { broadcast_from("broadcast", &team, data, nelems, PE_root) }
}

/// Joins the elements of all PEs of the set; each may give another number of them.
pub unsafe fn collect_set<T: Element>(
    dest: *mut T,
    source: *const T,
    nelems: usize,
    PE_start: c_int,
    logPE_stride: c_int,
    PE_size: c_int,
    _pSync: *mut c_long,
) {
    let team = active_set("collect", PE_start, logPE_stride, PE_size);
    // SAFETY: the user gives so many elements.
    unsafe { collect_in("collect", &team, dest, source, nelems) }
}

/// Joins the elements of all PEs of the set; all give the same number.
pub unsafe fn fcollect_set<T: Element>(
    dest: *mut T,
    source: *const T,
    nelems: usize,
    PE_start: c_int,
    logPE_stride: c_int,
    PE_size: c_int,
    _pSync: *mut c_long,
) {
    let team = active_set("fcollect", PE_start, logPE_stride, PE_size);
    // SAFETY: the user gives so many elements.
    unsafe { fcollect_in("fcollect", &team, dest, source, nelems) }
}

/// Sends a block of elements to each PE of the set, and gets one from each.
pub unsafe fn alltoall_set<T: Element>(
    dest: *mut T,
    source: *const T,
    nelems: usize,
    PE_start: c_int,
    logPE_stride: c_int,
    PE_size: c_int,
    _pSync: *mut c_long,
) {
    let team = active_set("alltoall", PE_start, logPE_stride, PE_size);
    // SAFETY: the user gives so many elements.
    unsafe { alltoall_in("alltoall", &team, dest, source, nelems) }
}

/// The same with distances between elements.
pub unsafe fn alltoalls_set<T: Element>(
    dest: *mut T,
    source: *const T,
    dst: isize,
    sst: isize,
    nelems: usize,
    PE_start: c_int,
    logPE_stride: c_int,
    PE_size: c_int,
    _pSync: *mut c_long,
) {
    let team = active_set("alltoalls", PE_start, logPE_stride, PE_size);
    // SAFETY: the user gives so many elements.
    unsafe { alltoalls_in("alltoalls", &team, dest, source, [dst, sst], nelems) }
}

macro_rules! to_all {
    ($($(#[$doc:meta])* $name:ident, $op:ident;)*) => { $(
        $(#[$doc])*
        pub unsafe fn $name<T: Reduced>(
            dest: *mut T,
            source: *const T,
            nreduce: c_int,
            PE_start: c_int,
            logPE_stride: c_int,
            PE_size: c_int,
            _pWrk: *mut T,
            _pSync: *mut c_long,
        ) {
            let team = active_set(stringify!($name), PE_start, logPE_stride, PE_size);
            // SAFETY: the user gives so many elements.
            unsafe { reduce(&team, dest, source, nreduce.max(0) as usize, $op) }
        }
    )* };
}

to_all! {
    /// Combines the elements of all PEs of the set by a bitwise AND; all get the result.
    and_to_all, MPI_BAND;
    /// Combines the elements of all PEs of the set by a bitwise OR; all get the result.
    or_to_all, MPI_BOR;
    /// Combines the elements of all PEs of the set by a bitwise XOR; all get the result.
    xor_to_all, MPI_BXOR;
    /// The largest elements of all PEs of the set; all get the result.
    max_to_all, MPI_MAX;
    /// The smallest elements of all PEs of the set; all get the result.
    min_to_all, MPI_MIN;
    /// The sums of the elements of all PEs of the set; all get the result.
    sum_to_all, MPI_SUM;
    /// The products of the elements of all PEs of the set; all get the result.
    prod_to_all, MPI_PROD;
}
