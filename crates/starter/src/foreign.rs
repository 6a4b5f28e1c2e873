//! The servers by which programs of other MPIs start: PMI-1 for MPICH and its relatives, or PMIx for Open
//! MPI. A job has one of them: MPICH ends where it sees both.

use crate::pmi::Pmi;
use crate::pmix::Pmix;

/// What the ranks of a job are offered.
#[derive(Debug)]
pub struct Foreign {
    /// The server of PMI-1; in a job with PMIx no rank has a socket of it.
    pub pmi: Pmi,
    /// The server of PMIx, if a program of the job needs it.
    pub pmix: Option<Pmix>,
}
