//! Arrays of logicals and indices, and how long some of them are.

use crate::abi::*;
use crate::c;
use core::ffi::c_int;

/// Logicals as integers of C.
pub(crate) struct Logicals {
    place: *mut c_int,
    values: Vec<c_int>,
}

impl Logicals {
    /// `count` logicals at `place`; their values count if `reads`.
    pub(crate) unsafe fn new(place: *mut c_int, count: i64, reads: bool) -> Self {
        let mut values = vec![0; usize::try_from(count).unwrap_or(0)];
        if reads {
            for (at, value) in values.iter_mut().enumerate() {
                // SAFETY: the caller's array has so many elements.
                *value = c_int::from(unsafe { *place.add(at) } != 0);
            }
        }
        Logicals { place, values }
    }

    /// Where C finds them.
    pub(crate) fn address(&mut self) -> *mut c_int {
        self.values.as_mut_ptr()
    }

    /// Gives what C has written.
    pub(crate) unsafe fn put(self, code: c_int) {
        for (at, value) in self.values.iter().enumerate().filter(|_| code == MPI_SUCCESS) {
            // SAFETY: the caller's array has so many elements.
            unsafe { *self.place.add(at) = c_int::from(*value != 0) };
        }
    }
}

/// Counts indices from 1. An error in a status leaves them valid.
pub(crate) unsafe fn put_indices(place: *mut c_int, count: c_int, code: c_int) {
    if code == MPI_SUCCESS || code == MPI_ERR_IN_STATUS {
        for at in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: C has written so many.
            unsafe { *place.add(at) += 1 };
        }
    }
}

/// Dimensions of a communicator's Cartesian topology; 0 if it has none, which C says itself.
pub(crate) unsafe fn dimensions(comm: MPI_Comm) -> c_int {
    let (mut kind, mut dimensions) = (MPI_UNDEFINED, 0);
    // SAFETY: both places live here.
    unsafe {
        if c::PMPI_Topo_test(comm, &mut kind) == MPI_SUCCESS && kind == MPI_CART {
            c::PMPI_Cartdim_get(comm, &mut dimensions);
        }
    }
    dimensions
}
