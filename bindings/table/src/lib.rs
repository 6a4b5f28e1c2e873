//! The table of MPI functions and the generators that read it.
