//! The initial error handler (MPI 11.5, 10.2): what mpiexec was asked for.

use std::sync::OnceLock;

use tutti_shm::ticket::INITIAL_HANDLER_VARIABLE;

use crate::abi::*;

/// The initial error handlers that there are, by the names that mpiexec takes and MPI_INFO_ENV gives (11.5,
/// 10.2).
const INITIAL: [(&str, MPI_Errhandler); 3] = [
    ("mpi_errors_are_fatal", MPI_ERRORS_ARE_FATAL),
    ("mpi_errors_abort", MPI_ERRORS_ABORT),
    ("mpi_errors_return", MPI_ERRORS_RETURN),
];

/// The initial error handler with its name: of MPI_COMM_WORLD and MPI_COMM_SELF at the start, and of calls
/// that are about no object while there is no process (9.3).
fn entry() -> (&'static str, MPI_Errhandler) {
    static FOUND: OnceLock<(&str, MPI_Errhandler)> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let asked = std::env::var(INITIAL_HANDLER_VARIABLE).unwrap_or_default();
        INITIAL.into_iter().find(|(name, _)| *name == asked).unwrap_or(INITIAL[0])
    })
}

/// The initial error handler.
pub(crate) fn handler() -> MPI_Errhandler {
    entry().1
}

/// Name of the initial error handler.
pub(crate) fn name() -> &'static str {
    entry().0
}
