//! The servers by which programs of other MPIs start: PMI-1 for MPICH and its relatives, or PMIx for Open
//! MPI. A job has one of them: MPICH ends where it sees both.

use tutti_protocol::wire::Library;

use crate::pmi::Pmi;
use crate::pmix::Pmix;

/// Servers that the ranks of a job are offered.
#[derive(Debug)]
pub struct Foreign {
    /// The server of PMI-1; in a job with PMIx no rank has a socket of it.
    pub pmi: Pmi,
    /// The server of PMIx, if a program of the job needs it.
    pub pmix: Option<Pmix>,
    /// Libraries on which ranks have begun with MPI.
    pub seen: Vec<Library>,
}

impl Foreign {
    /// Notes the library of a rank; whether it is the first on it.
    pub fn note(&mut self, library: Library) -> bool {
        library.note(&mut self.seen)
    }
}
