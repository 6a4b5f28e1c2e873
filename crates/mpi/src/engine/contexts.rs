//! Contexts that this process leads, and what else it counts for communicators to be made.
//!
//! **Contexts.** A new communicator's context must be new to each of its members. The *leader*, its first
//! member, takes one from its own sequence: `(n * ranks that the job has room for + world rank) *
//! CONTEXTS_PER_COMM` with its private `n`. So contexts are unique in the whole job and for its whole life,
//! whatever agreements run at the same time in other threads or communicators, and only the leader has to be
//! asked: a dup costs one broadcast, a split the exchange that it needs anyway. The places `n` are counted in
//! the segment. A leader that has used up its own sequence goes on with those of other ranks of its node,
//! whether these have been started or not.
//!
//! A context is unique in its job only. A communicator with processes of several launches has one in each
//! job: that which the first member of the job has proposed (`Engine::agree_on_context`).

use tutti_runtime::job::Job;
use tutti_shm::envelope::CONTEXTS_PER_COMM;

use crate::abi::*;
use crate::error::{Error, Result};

/// The predefined communicators have the first two numbers: places of every sequence that are not given.
const PREDEFINED: u32 = 2;

/// Contexts that this process has taken so far.
#[derive(Debug)]
pub struct Contexts {
    /// How many sequences have been used up, from this rank's own on.
    used_up: usize,
    /// Numbers of contexts that it has led and may use again.
    free: Vec<u32>,
    /// Leaders of other groups, with which calls of this process make communicators.
    bridging: Vec<u32>,
    /// Number of the last connection or join that this process has begun.
    last_connection: u32,
}

impl Contexts {
    pub(super) fn new() -> Self {
        Contexts { used_up: 0, free: Vec::new(), bridging: Vec::new(), last_connection: 0 }
    }

    /// Takes a context that no process of the job uses: none has ever used it, or it was that of a file,
    /// which all have closed.
    ///
    /// # Errors
    /// MPI_ERR_INTERN when the numbers are used up.
    pub fn take(&mut self, job: &Job) -> Result<u32> {
        if let Some(number) = self.free.pop() {
            return Ok(number * CONTEXTS_PER_COMM);
        }
        let (ranks, here) = (job.ranks() as u32, job.local_ranks());
        while self.used_up < here.len() {
            let rank = here.rank_at((here.index_of(job.rank()) + self.used_up) % here.len());
            let places = (u32::MAX / CONTEXTS_PER_COMM - rank as u32) / ranks;
            if let Some(place) = job.take_context(rank, places.saturating_sub(PREDEFINED)) {
                return Ok(((place + PREDEFINED) * ranks + rank as u32) * CONTEXTS_PER_COMM);
            }
            self.used_up += 1;
        }
        let text = "the ranks of this node have made as many communicators as there are numbers for";
        Err(Error::new(MPI_ERR_INTERN, text))
    }

    /// A context that this process has led is used by none any more.
    pub fn use_again(&mut self, context: u32) {
        self.free.push(context / CONTEXTS_PER_COMM);
    }

    /// A call makes a communicator with the group of another leader, which counts as named until the call has
    /// what names it.
    pub fn begin_bridge(&mut self, leader: u32) {
        self.bridging.push(leader);
    }

    /// The call has it, or has failed.
    pub fn end_bridge(&mut self, leader: u32) {
        if let Some(at) = self.bridging.iter().position(|rank| *rank == leader) {
            self.bridging.swap_remove(at);
        }
    }

    /// Whether a call makes a communicator with the group of this leader.
    pub fn is_bridging(&self, leader: u32) -> bool {
        self.bridging.contains(&leader)
    }

    /// The number of the next connection or join: at most 30 bits, so that a tag has room for a direction.
    pub fn next_connection(&mut self) -> u32 {
        self.last_connection = self.last_connection.wrapping_add(1) & (u32::MAX >> 2);
        self.last_connection
    }
}
