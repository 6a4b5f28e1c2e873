//! `libtutti.so.1`: every function of the MPI C interface under its two names, MPI_X and PMPI_X, and every
//! function of OpenSHMEM, shmem_X and pshmem_X.
//!
//! The functions are generated (see `tutti_table::exports` and `tutti_table::shmem::exports`); a body that is
//! written stands in `crates/mpi/src/api`, those of OpenSHMEM in `crates/shmem/src/api`.

#![allow(non_snake_case)]
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments)]
#![allow(missing_docs)]

include!(concat!(env!("OUT_DIR"), "/exports.rs"));

#[allow(unreachable_pub, reason = "symbols of the library, which C calls")]
mod shmem {
    include!(concat!(env!("OUT_DIR"), "/shmem_exports.rs"));
}
