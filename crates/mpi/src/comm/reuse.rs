//! Numbers of ranks that have ended are used again ([`tutti_shm::reuse`]): this process forgets those that
//! none of its communicators, groups, windows and files names. Called where some may have become free: when a
//! communicator or group goes, before ranks are started, and in a wait: when ranks have ended since, and
//! before a sleep as long as something else named one. The same with numbers of guests that are lost, as long
//! as no collective operation is under way: one of a communicator that was freed goes on, and may still send
//! to them.

use tutti_runtime::job::Job;

use super::{Comm, Comms, Group};

impl Comms {
    /// Gives the blocks of collective operations back, when the process leaves the job: the next processes of
    /// its numbers need some too.
    pub fn release_blocks(&mut self, job: &Job) {
        self.predefined.iter_mut().for_each(|comm| comm.collective.release(job));
        self.made.iter_mut().for_each(|(_, comm)| comm.collective.release(job));
    }

    /// Whether the program has a communicator or group with a rank.
    pub(super) fn has_handles_of(&self, rank: u32) -> bool {
        let has = |group: &Group| group.contains(rank);
        let of_comms = |comm: &Comm| has(&comm.group) || comm.remote.as_deref().is_some_and(has);
        self.predefined.iter().any(of_comms)
            || self.made.iter().any(|(_, comm)| of_comms(comm))
            || self.groups.iter().any(|(_, group)| has(group))
    }

    /// Whether something else that the program may use names a rank.
    pub(super) fn names(&self, rank: u32) -> bool {
        let mut of_messages = self.message_groups.values().flatten();
        self.ports.are_asked_by(rank) || of_messages.any(|group| group.contains(rank))
    }

    /// How many tasks of ports go on by themselves.
    pub(crate) fn port_tasks(&self) -> usize {
        usize::from(self.ports.are_served())
    }
}
