//! The MPI face.
