//! Communicators with a topology (MPI 8.5). Ranks stay as they are: on one node no order is better than
//! another.

use std::rc::Rc;

use core::ffi::c_int;

use super::Comms;
use super::topology::{Edges, Graph, Grid, Topology};
use crate::abi::*;
use crate::error::{Error, Result, check};

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

    /// Edges of this process in a distributed graph.
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
