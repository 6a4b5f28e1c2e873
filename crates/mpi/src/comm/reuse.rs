//! Numbers of ranks that have ended are used again ([`tutti_shm::reuse`]): this process forgets those that
//! none of its communicators, groups, windows and files names. Called where some may have become free: when a
//! communicator or group goes, before ranks are started, and in a wait when ranks have ended since. The same
//! with numbers of guests that are lost, as long as no collective operation is under way: one of a
//! communicator that was freed goes on, and may still send to them.

use super::open_ports::Port;
use crate::comm::Group;
use crate::process::Guard;

impl Guard {
    /// Forgets the ranks that have left and that nothing here names.
    #[cold]
    pub fn forget_left_ranks(&mut self) {
        let forgets_guests = !self.has_collectives();
        for rank in self.engine.left_ranks() {
            if self.engine.is_guest(rank) && !forgets_guests {
                continue;
            }
            if !self.names(rank as u32) && self.engine.try_forget(rank) {
                self.rank.forget_remote(rank);
            }
        }
    }

    /// Gives the blocks of collective operations back, when the process leaves the job: the next processes of
    /// its numbers need some too.
    pub fn release_blocks(&mut self) {
        let job = self.engine.job.clone();
        self.comms.predefined.iter_mut().for_each(|comm| comm.collective.release(&job));
        self.comms.made.iter_mut().for_each(|(_, comm)| comm.collective.release(&job));
    }

    /// Whether a collective operation goes on by itself. The tasks of ports and shared file pointers always
    /// do.
    fn has_collectives(&self) -> bool {
        self.colls.schedules.iter().count() > self.comms.ports.last_port as usize + self.files.servers()
    }

    /// Whether something that the program may use names a rank.
    fn names(&self, rank: u32) -> bool {
        let has = |group: &Group| group.contains(rank);
        let of_comms = |comm: &crate::comm::Comm| has(&comm.group) || comm.remote.as_deref().is_some_and(has);
        let waits_at = |port: &Port| port.waiting.borrow().iter().any(|connection| connection.from == rank);
        self.comms.bridging.contains(&rank)
            || self.comms.ports.open.values().any(|port| waits_at(port))
            || self.comms.predefined.iter().any(of_comms)
            || self.comms.made.iter().any(|(_, comm)| of_comms(comm))
            || self.comms.groups.iter().any(|(_, group)| has(group))
            || self.wins.iter().any(|window| has(&window.group))
            || self.comms.message_groups.values().flatten().any(|group| has(group))
            || self.engine.requests.iter().any(|(_, request)| request.group.as_deref().is_some_and(has))
    }
}
