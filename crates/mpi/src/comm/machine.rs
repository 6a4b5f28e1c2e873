//! Communicators by parts of the machine (MPI_Comm_split_type), and the hints of communicators.

use core::ffi::c_int;

use super::{Comm, Group};
use crate::abi::*;
use crate::error::{Result, check};
use crate::info::Info;
use crate::process::Guard;

/// Info key that names a kind of resource.
pub const RESOURCE_KEY: &[u8] = b"mpi_hw_resource_type";
/// The kind of resource that every process of a node shares.
pub const SHARED_MEMORY: &[u8] = b"mpi_shared_memory";
/// Info key that names a process set.
const PSET_KEY: &[u8] = b"mpi_pset_name";

/// Hints that communicators keep (7.4.4).
const HINTS: [&[u8]; 4] = [
    b"mpi_assert_no_any_tag",
    b"mpi_assert_no_any_source",
    b"mpi_assert_exact_length",
    b"mpi_assert_allow_overtaking",
];

impl Comm {
    /// Keeps those hints that are known and have a value of truth.
    pub fn take_hints(&mut self, hints: &Info) {
        for (key, value) in hints.iter() {
            if HINTS.contains(&key) && matches!(value, b"true" | b"false") {
                self.hints.set(key, value);
            }
        }
    }
}

impl Guard {
    /// One new communicator for each part of the machine (7.4.2): the parts that we know are the nodes.
    ///
    /// # Errors
    /// MPI_ERR_COMM; MPI_ERR_ARG when there is no such kind of split.
    pub fn split_comm_by_type(
        &mut self,
        handle: MPI_Comm,
        split_type: c_int,
        key: c_int,
        hints: &Info,
    ) -> Result<MPI_Comm> {
        let resource = hints.get(RESOURCE_KEY);
        let node = self.node_color(handle)?;
        let color = match split_type {
            MPI_UNDEFINED => MPI_UNDEFINED,
            MPI_COMM_TYPE_SHARED => node,
            MPI_COMM_TYPE_HW_GUIDED if resource == Some(SHARED_MEMORY) => node,
            MPI_COMM_TYPE_RESOURCE_GUIDED => match (resource, hints.get(PSET_KEY)) {
                (Some(SHARED_MEMORY), None) => node,
                (None, Some(b"mpi://WORLD")) => 0,
                (None, Some(b"mpi://SELF")) => self.world_rank() as c_int,
                _ => MPI_UNDEFINED,
            },
            // Unguided parts must be smaller than the whole.
            MPI_COMM_TYPE_HW_UNGUIDED if !self.is_on_this_node(&self.comms.find(handle)?.group) => node,
            MPI_COMM_TYPE_HW_GUIDED | MPI_COMM_TYPE_HW_UNGUIDED => MPI_UNDEFINED,
            other => {
                check(false, MPI_ERR_ARG, || {
                    format!("split_type is {other}, expected MPI_COMM_TYPE_SHARED or another MPI_COMM_TYPE_*")
                })?;
                MPI_UNDEFINED
            }
        };
        self.split_comm(handle, color, key)
    }

    /// A number that those members of a communicator have in common who are of this node and this launch.
    fn node_color(&self, handle: MPI_Comm) -> Result<c_int> {
        let job = &self.engine.job;
        if !self.has_guests(handle)? {
            return Ok(job.node() as c_int);
        }
        let is_here = |&rank: &u32| {
            !self.engine.is_guest(rank as usize) && job.node_of(rank as usize) == job.node() as usize
        };
        let first = self.comms.find(handle)?.group.members().iter().position(is_here);
        Ok(first.unwrap_or(0) as c_int)
    }

    /// Whether all members of a group are ranks of this node.
    pub fn is_on_this_node(&self, group: &Group) -> bool {
        let here = self.engine.job.local_ranks();
        group.members().iter().all(|&rank| here.contains(rank as usize))
    }
}
