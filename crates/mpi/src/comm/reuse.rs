//! Numbers of ranks that have ended are used again ([`tutti_shm::reuse`]): this process forgets those that
//! none of its communicators, groups, windows and files names. Called where some may have become free: when a
//! communicator or group goes, before ranks are started, and in a wait: when ranks have ended since, and
//! before a sleep as long as something else named one. The same with numbers of guests that are lost, as long
//! as no collective operation is under way: one of a communicator that was freed goes on, and may still send
//! to them.

use std::rc::Rc;

use tutti_runtime::job::Job;

use super::{Comm, Comms, Group};
use crate::collective::state::State;

impl Comms {
    /// Gives the blocks of collective operations back, when the process leaves the job: the next processes of
    /// its numbers need some too.
    pub fn release_blocks(&mut self, job: &Job) {
        self.predefined.iter_mut().for_each(|comm| comm.collective.release(job));
        self.made.iter_mut().for_each(|(_, comm)| comm.collective.release(job));
    }

    /// Other processes have places of MPI_COMM_WORLD from now on; nothing between them and the former ones is
    /// under way.
    pub(crate) fn renew_world(&mut self, job: &Job, group: Rc<Group>) {
        let [world, _] = &mut self.predefined;
        world.collective.renew(job);
        world.identity = Comm::new(world.context, world.rank, group.clone()).identity;
        world.group = group;
    }

    /// How far the members of MPI_COMM_WORLD have counted, for one that takes a place of it.
    pub(crate) fn counts_of_world(&self) -> [u32; 3] {
        let [started, waited] = self.world().collective.counts();
        [self.world().creations as u32, started, waited]
    }

    /// Takes a place of MPI_COMM_WORLD, whose members have counted so far.
    pub(crate) fn enter_world(&mut self, context: u32, rank: usize, group: Rc<Group>, counts: [u32; 3]) {
        let [world, _] = &mut self.predefined;
        let Comm { identity, group, .. } = Comm::new(context, rank, group);
        (world.context, world.rank, world.group, world.identity) = (context, rank, group, identity);
        world.creations = counts[0] as i32;
        world.collective = State::resumed([counts[1], counts[2]]);
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
        self.ports.opened()
    }
}
