//! An exchange of records in front of a collective operation; [`super::collectives`] says what it is for.

use crate::abi::MPI_Comm;

/// An exchange of records in the memory of its schedule.
#[derive(Debug)]
pub struct Exchange {
    pub(crate) comm: MPI_Comm,
    /// Which collective call on the communicator it is.
    pub(crate) number: i32,
    /// World ranks, in the order of the records.
    pub(crate) members: Vec<u32>,
    pub(crate) me: usize,
    pub(crate) is_inter: bool,
    pub(crate) records: *mut u64,
    pub(crate) words: usize,
}
