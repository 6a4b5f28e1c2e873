//! Communicators by parts of the machine (MPI_Comm_split_type), and the hints of communicators.

use core::ffi::c_int;

use super::Comm;
use crate::abi::*;
use crate::engine::Engine;
use crate::error::{Result, check};
use crate::info::Info;

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

impl Comm {
    /// The part of the machine that this process is in, as a color of a split (7.4.2): the parts that we know
    /// are the nodes.
    ///
    /// # Errors
    /// MPI_ERR_ARG when there is no such kind of split.
    pub fn part_of_machine(&self, engine: &Engine, split_type: c_int, hints: &Info) -> Result<c_int> {
        let resource = hints.get(RESOURCE_KEY);
        let node = self.node_color(engine);
        Ok(match split_type {
            MPI_UNDEFINED => MPI_UNDEFINED,
            MPI_COMM_TYPE_SHARED => node,
            MPI_COMM_TYPE_HW_GUIDED if resource == Some(SHARED_MEMORY) => node,
            MPI_COMM_TYPE_RESOURCE_GUIDED => match (resource, hints.get(PSET_KEY)) {
                (Some(SHARED_MEMORY), None) => node,
                (None, Some(b"mpi://WORLD")) => self.launch_color(engine),
                (None, Some(b"mpi://SELF")) => self.rank as c_int,
                _ => MPI_UNDEFINED,
            },
            // Unguided parts must be smaller than the whole.
            MPI_COMM_TYPE_HW_UNGUIDED if !engine.are_here(self.group.members()) => node,
            MPI_COMM_TYPE_HW_GUIDED | MPI_COMM_TYPE_HW_UNGUIDED => MPI_UNDEFINED,
            other => {
                check(false, MPI_ERR_ARG, || {
                    format!("split_type is {other}, expected MPI_COMM_TYPE_SHARED or another MPI_COMM_TYPE_*")
                })?;
                MPI_UNDEFINED
            }
        })
    }

    /// A number that those members have in common who are of this launch.
    fn launch_color(&self, engine: &Engine) -> c_int {
        let is_own = |rank: &u32| !engine.is_guest(*rank as usize);
        self.group.members().iter().position(is_own).unwrap_or(0) as c_int
    }

    /// A number that those members have in common who are of this node and this launch.
    fn node_color(&self, engine: &Engine) -> c_int {
        let job = &engine.job;
        if !self.has_guests(engine) {
            return job.node() as c_int;
        }
        let is_here = |&rank: &u32| {
            !engine.is_guest(rank as usize) && job.node_of(rank as usize) == job.node() as usize
        };
        self.group.members().iter().position(is_here).unwrap_or(0) as c_int
    }
}
