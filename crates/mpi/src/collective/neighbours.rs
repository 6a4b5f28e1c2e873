//! Operations among the neighbours of a topology (MPI 8.6).

use tutti_datatype::Buffer;

use super::edges::Edges;
use super::work::{Arguments, Pieces, Scattered, Work};
use crate::abi::*;
use crate::comm::{Comm, Topology};
use crate::datatype::Data;
use crate::error::{Error, Result};

/// The neighbours of a process: sources, destinations, and whether they stand in a grid.
struct Neighbours {
    sources: Vec<i32>,
    destinations: Vec<i32>,
    is_grid: bool,
}

impl Neighbours {
    fn of(comm: &Comm, handle: MPI_Comm) -> Result<Self> {
        let topology = comm.topology.as_ref().ok_or_else(|| {
            Error::new(MPI_ERR_TOPOLOGY, format_args!("communicator {:#x} has no topology", handle.0))
        })?;
        let (sources, destinations) = topology.neighbours(comm.rank);
        Ok(Neighbours { sources, destinations, is_grid: matches!(**topology, Topology::Cart(_)) })
    }

    /// Brings pieces to the neighbours that are there.
    ///
    /// In a grid what goes in one direction arrives from the other. Where both neighbours of a dimension are
    /// the same process (it has one place, or two in a ring), its first message goes down and must be taken
    /// as coming from above: so the upper neighbour's receive of each dimension comes first.
    fn edges(&self, send: impl Fn(usize) -> Buffer, receive: impl Fn(usize) -> Buffer) -> Work {
        let order = |i: usize| if self.is_grid { i ^ 1 } else { i };
        let receives = (0..self.sources.len())
            .map(order)
            .filter_map(|i| Some((usize::try_from(self.sources[i]).ok()?, receive(i))))
            .collect();
        let sends = (0..self.destinations.len())
            .filter_map(|i| Some((usize::try_from(self.destinations[i]).ok()?, send(i))))
            .collect();
        Work::Neighbours(Edges { sends, receives })
    }
}

impl Arguments<'_> {
    fn to_all_neighbours(self, neighbours: &Neighbours, send: Data, all: &Pieces) -> Result<Work> {
        let own = self.own(send, "sendbuf")?;
        Ok(neighbours.edges(|_| own.clone(), |i| all.piece(i)))
    }

    /// MPI_Neighbor_allgather
    pub fn work_neighbor_allgather(&self, send: Data, receive: Data) -> Result<Work> {
        let neighbours = Neighbours::of(self.comm, self.handle)?;
        let all = self.pieces(receive, neighbours.sources.len(), "recvbuf")?;
        self.to_all_neighbours(&neighbours, send, &all)
    }

    /// MPI_Neighbor_allgatherv
    pub fn work_neighbor_allgatherv(&self, send: Data, receive: Scattered) -> Result<Work> {
        let neighbours = Neighbours::of(self.comm, self.handle)?;
        let all = self.scattered(receive, neighbours.sources.len(), "recvbuf")?;
        self.to_all_neighbours(&neighbours, send, &all)
    }

    /// MPI_Neighbor_alltoall
    pub fn work_neighbor_alltoall(&self, send: Data, receive: Data) -> Result<Work> {
        let neighbours = Neighbours::of(self.comm, self.handle)?;
        let out = self.pieces(send, neighbours.destinations.len(), "sendbuf")?;
        let all = self.pieces(receive, neighbours.sources.len(), "recvbuf")?;
        Ok(neighbours.edges(|i| out.piece(i), |i| all.piece(i)))
    }

    /// MPI_Neighbor_alltoallv, MPI_Neighbor_alltoallw
    pub fn work_neighbor_alltoallv(&self, send: Scattered, receive: Scattered) -> Result<Work> {
        let neighbours = Neighbours::of(self.comm, self.handle)?;
        let out = self.scattered(send, neighbours.destinations.len(), "sendbuf")?;
        let all = self.scattered(receive, neighbours.sources.len(), "recvbuf")?;
        Ok(neighbours.edges(|i| out.piece(i), |i| all.piece(i)))
    }
}
