//! `tutti_parallel_begin` and `tutti_parallel_end`: they work before and without MPI_Init.

pub use tutti_shm::phases::{begin, end};
