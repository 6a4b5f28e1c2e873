//! Communicators with a topology (MPI 8.5). Ranks stay as they are: on one node no order is better than
//! another.

use std::rc::Rc;

use core::ffi::c_int;

use super::Comms;
use super::topology::{Edges, Graph, Grid, Topology};
use crate::abi::*;
use crate::error::{Error, Result, check};
use crate::process::Guard;

impl Comms {
    /// The topology of a communicator.
    ///
    /// # Errors
    /// MPI_ERR_COMM; MPI_ERR_TOPOLOGY when it has none.
    pub fn topology(&self, handle: MPI_Comm) -> Result<&Rc<Topology>> {
        let topology = self.find(handle)?.topology.as_ref();
        topology.ok_or_else(|| Error::new(MPI_ERR_TOPOLOGY, "the communicator has no topology"))
    }

    /// The grid of a communicator.
    ///
    /// # Errors
    /// MPI_ERR_COMM; MPI_ERR_TOPOLOGY when it has none.
    pub fn grid(&self, handle: MPI_Comm) -> Result<&Grid> {
        match &**self.topology(handle)? {
            Topology::Cart(grid) => Ok(grid),
            _ => Err(Error::new(MPI_ERR_TOPOLOGY, "the topology is a graph, expected a grid")),
        }
    }

    /// The graph of a communicator.
    ///
    /// # Errors
    /// MPI_ERR_COMM; MPI_ERR_TOPOLOGY when it has none.
    pub fn graph(&self, handle: MPI_Comm) -> Result<&Graph> {
        match &**self.topology(handle)? {
            Topology::Graph(graph) => Ok(graph),
            _ => Err(Error::new(MPI_ERR_TOPOLOGY, "the topology is no graph of MPI_Graph_create")),
        }
    }

    /// This process's edges of a distributed graph.
    ///
    /// # Errors
    /// MPI_ERR_COMM; MPI_ERR_TOPOLOGY when it has none.
    pub fn edges(&self, handle: MPI_Comm) -> Result<&Edges> {
        match &**self.topology(handle)? {
            Topology::DistGraph(edges) => Ok(edges),
            _ => Err(Error::new(MPI_ERR_TOPOLOGY, "the topology is no distributed graph")),
        }
    }

    /// Checks a rank argument of an intracommunicator.
    ///
    /// # Errors
    /// MPI_ERR_COMM, MPI_ERR_RANK.
    pub fn checked_member(&self, handle: MPI_Comm, rank: c_int) -> Result<usize> {
        let size = self.find(handle)?.size();
        check(rank >= 0 && (rank as usize) < size, MPI_ERR_RANK, || {
            format!("rank is {rank}, expected 0 to {}", size - 1)
        })?;
        Ok(rank as usize)
    }
}

impl Guard {
    /// A communicator of the first `places` processes, with a topology; MPI_COMM_NULL for the others.
    ///
    /// # Errors
    /// MPI_ERR_COMM.
    pub fn arrange(&mut self, handle: MPI_Comm, places: usize, topology: Topology) -> Result<MPI_Comm> {
        let rank = self.comms.intracomm(handle)?.rank;
        let color = if rank < places { 0 } else { MPI_UNDEFINED };
        self.split_arranged(handle, color, rank as c_int, topology)
    }

    /// The part of a grid that has this process and the dimensions kept (8.5.6).
    ///
    /// # Errors
    /// MPI_ERR_COMM, MPI_ERR_TOPOLOGY.
    pub fn part_of_grid(&mut self, handle: MPI_Comm, kept: &[bool]) -> Result<MPI_Comm> {
        let (grid, color, key) = self.comms.grid(handle)?.part(self.comms.find(handle)?.rank, kept);
        self.split_arranged(handle, color as c_int, key as c_int, Topology::Cart(grid))
    }

    fn split_arranged(
        &mut self,
        handle: MPI_Comm,
        color: c_int,
        key: c_int,
        topology: Topology,
    ) -> Result<MPI_Comm> {
        let made = self.split_comm(handle, color, key)?;
        if made != MPI_COMM_NULL {
            self.comms.find_mut(made)?.topology = Some(Rc::new(topology));
        }
        Ok(made)
    }

    /// All processes name edges of the whole graph, each (from, to, weight); gives those of this process, in
    /// the order of the ranks that named them.
    ///
    /// # Errors
    /// MPI_ERR_COMM.
    pub fn distribute_edges(
        &mut self,
        handle: MPI_Comm,
        named: &[[c_int; 3]],
        is_weighted: bool,
    ) -> Result<Edges> {
        let rank = self.comms.intracomm(handle)?.rank as c_int;
        let meeting = self.whole(handle)?;
        let mine: Vec<u32> = named.iter().flatten().map(|&number| number as u32).collect();
        let all = self.gather_numbers(&meeting, &mine)?;
        let mut edges = Edges { is_weighted, ..Edges::default() };
        for edge in all.chunks_exact(3) {
            let [from, to, weight] = [edge[0] as c_int, edge[1] as c_int, edge[2] as c_int];
            if to == rank {
                edges.sources.push((from, weight));
            }
            if from == rank {
                edges.destinations.push((to, weight));
            }
        }
        Ok(edges)
    }
}
