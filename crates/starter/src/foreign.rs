//! The servers by which programs of other MPIs start: PMI-1 for MPICH and its relatives, or PMIx for Open
//! MPI. A job has one of them: MPICH ends where it sees both.

use std::collections::{BTreeMap, BTreeSet};

use tutti_protocol::wire::Library;

use crate::pmi::Pmi;
use crate::pmix::Pmix;
use crate::unserved::{self, Looks};

/// Servers that the ranks of a job are offered.
#[derive(Debug)]
pub struct Foreign {
    /// The server of PMI-1; in a job with PMIx no rank has a socket of it.
    pub pmi: Pmi,
    /// The server of PMIx, if a program of the job needs it.
    pub pmix: Option<Pmix>,
    /// Libraries on which ranks have begun with MPI.
    pub seen: Vec<Library>,
    /// Looks for programs that neither reaches; none: worlds of size 1 are right, or another node looks.
    pub looks: Option<Looks>,
    /// World ranks, of all nodes, that have ended well without MPI_Init, and the pid of each.
    pub absent: BTreeMap<u32, u32>,
    /// Absent ranks of this node.
    pub own_absent: OwnAbsent,
}

/// Ranks of a node that have ended well without MPI_Init.
#[derive(Debug, Default)]
pub struct OwnAbsent {
    /// All of them, counted on this node.
    pub ranks: BTreeSet<u32>,
    /// World rank and pid of those of which the other nodes are not notified yet.
    pub unsent: Vec<(u32, u32)>,
    /// When the other nodes may be notified next.
    pub next_ns: u64,
    /// How long after the last time that is.
    pub after_ns: u64,
}

impl Foreign {
    /// With these servers.
    pub fn new(pmi: Pmi, pmix: Option<Pmix>) -> Self {
        let (absent, own_absent) = (BTreeMap::new(), OwnAbsent::default());
        Foreign { pmi, pmix, seen: Vec::new(), looks: None, absent, own_absent }
    }

    /// Notes the library of a rank; whether it is the first on it.
    pub fn note(&mut self, library: Library) -> bool {
        library.note(&mut self.seen)
    }
    /// Looks, when it is time, for a program that nobody serves, unless a rank has begun with MPI; the line
    /// for the user.
    pub fn poll_unserved(&mut self, now_ns: u64) -> Option<String> {
        let looks = self.looks.as_mut().filter(|_| self.seen.is_empty())?;
        let line = looks.take(now_ns).then(|| unserved::line(self.pmix.is_some())).flatten();
        if line.is_some() {
            looks.end();
        }
        line
    }

    /// When [`Self::poll_unserved`] is due.
    pub fn unserved_due_ns(&self) -> Option<u64> {
        self.looks.as_ref().filter(|_| self.seen.is_empty())?.due_ns()
    }
}
