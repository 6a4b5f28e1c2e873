//! How long arrays of datatypes and logicals are that have no length among the arguments. Both faces that
//! turn arguments into ours have this module.

use crate::abi::*;
use crate::c;
use core::ffi::{c_int, c_void};

/// Ranks to which a rank sends in an operation with a datatype for each: with MPI_IN_PLACE none.
pub(crate) unsafe fn sends(buffer: *const c_void, comm: MPI_Comm) -> c_int {
    if buffer == MPI_IN_PLACE {
        return 0;
    }
    // SAFETY: any handle is allowed.
    unsafe { receives(comm) }
}

/// Ranks from which it receives: those of the communicator, of the remote group, or its neighbours.
pub(crate) unsafe fn receives(comm: MPI_Comm) -> c_int {
    let (mut is_inter, mut size) = (0, 0);
    // SAFETY: both places live here; the caller's communicator is one, or nothing is read.
    unsafe {
        if c::PMPI_Comm_test_inter(comm, &mut is_inter) != MPI_SUCCESS {
            return 0;
        }
        match is_inter {
            0 => c::PMPI_Comm_size(comm, &mut size),
            _ => c::PMPI_Comm_remote_size(comm, &mut size),
        };
    }
    size
}

/// Neighbours to which a rank sends, and from which it receives.
pub(crate) unsafe fn neighbours(comm: MPI_Comm) -> (c_int, c_int) {
    let (mut kind, mut number, mut rank, mut incoming, mut weighted) = (MPI_UNDEFINED, 0, 0, 0, 0);
    // SAFETY: the places live here.
    unsafe {
        if c::PMPI_Topo_test(comm, &mut kind) != MPI_SUCCESS {
            return (0, 0);
        }
        match kind {
            MPI_CART => {
                c::PMPI_Cartdim_get(comm, &mut number);
                (2 * number, 2 * number)
            }
            MPI_GRAPH => {
                c::PMPI_Comm_rank(comm, &mut rank);
                c::PMPI_Graph_neighbors_count(comm, rank, &mut number);
                (number, number)
            }
            MPI_DIST_GRAPH => {
                c::PMPI_Dist_graph_neighbors_count(comm, &mut incoming, &mut number, &mut weighted);
                (number, incoming)
            }
            _ => (0, 0),
        }
    }
}
