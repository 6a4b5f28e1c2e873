//! Communicators and groups while ranks move ([`crate::moving`]): what a successor gets of them, and which
//! processes are members afterwards. Handles are the same in the successor, so a state may have them.
//!
//! Contexts and counts stay. Attributes, error handlers of the user and attached buffers are addresses in the
//! process that moves: a successor has none.

use std::rc::Rc;

use tutti_runtime::job::Job;

use super::{Comm, Comms, Group, Topology};
use crate::abi::*;
use crate::collective::state::State;
use crate::errhandler;
use crate::info::Info;
use crate::initial_errhandler;

/// Place of a process in a communicator, as its successor takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Handle.
    pub handle: MPI_Comm,
    /// Context.
    pub context: u32,
    /// Rank in the local group.
    pub rank: u32,
    /// How far the members have counted: agreements, schedules run, schedules started.
    pub counts: [u32; 3],
    /// Members of the local group, by the numbers that hold afterwards.
    pub members: Vec<u32>,
    /// Members of the remote group of an intercommunicator.
    pub remote: Option<Vec<u32>>,
    /// Properties that the program has given it.
    pub properties: Properties,
}

/// Properties of a communicator that a program sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Properties {
    /// Error handler: one of the standard's.
    pub errhandler: MPI_Errhandler,
    /// Name.
    pub name: Vec<u8>,
    /// Hints.
    pub hints: Info,
    /// Topology.
    pub topology: Option<Topology>,
}

/// Group that a program has a handle of, as a successor gets it.
pub(crate) type HeldGroup = (MPI_Group, Vec<u32>);

impl Membership {
    fn of(handle: MPI_Comm, comm: &Comm, number_now: &impl Fn(u32) -> u32) -> Self {
        let [run, started] = comm.collective.counts();
        let members = |group: &Rc<Group>| group.renumbered(number_now).members().to_vec();
        let is_own = !errhandler::is_predefined(comm.errhandler);
        Membership {
            handle,
            context: comm.context,
            rank: comm.rank as u32,
            counts: [comm.creations as u32, run, started],
            members: members(&comm.group),
            remote: comm.remote.as_ref().map(members),
            properties: Properties {
                errhandler: if is_own { initial_errhandler::handler() } else { comm.errhandler },
                name: comm.name.clone(),
                hints: comm.hints.clone(),
                topology: comm.topology.as_deref().cloned(),
            },
        }
    }

    /// Whether a process, by its number afterwards, is a member.
    pub(crate) fn has(&self, number: u32) -> bool {
        self.members.contains(&number) || self.remote.as_ref().is_some_and(|remote| remote.contains(&number))
    }

    fn enter(self) -> Comm {
        let (rank, group) = (self.rank as usize, Rc::new(Group::new(self.members)));
        let comm = match self.remote {
            None => Comm::new(self.context, rank, group),
            Some(remote) => Comm::between(self.context, rank, group, Rc::new(Group::new(remote))),
        };
        let [creations, run, started] = self.counts;
        let Properties { errhandler, name, hints, topology } = self.properties;
        Comm {
            errhandler,
            name,
            hints,
            topology: topology.map(Rc::new),
            creations: creations as i32,
            collective: State::resumed([run, started]),
            ..comm
        }
    }
}

impl Comm {
    /// Other processes may have places of members from now on; nothing between them and the former ones is
    /// under way. Gives whether that changes the communicator.
    fn renumber(&mut self, job: &Job, number_now: &impl Fn(u32) -> u32) -> bool {
        let [group, remote] = [Some(&self.group), self.remote.as_ref()].map(|group| {
            let has_moved = |rank: &u32| number_now(*rank) != *rank;
            let group = group.filter(|group| group.members().iter().any(has_moved))?;
            Some(Rc::new(group.renumbered(number_now)))
        });
        let is_changed = group.is_some() || remote.is_some();
        if is_changed {
            self.collective.renew(job);
            self.group = group.unwrap_or_else(|| self.group.clone());
            self.remote = remote.or_else(|| self.remote.clone());
            self.untranslated = if self.remote.is_none() { self.group.untranslated() } else { 0 };
        }
        is_changed
    }
}

impl Comms {
    /// A communicator that the program has made with processes that are not in MPI_COMM_WORLD.
    pub(crate) fn with_outsiders(&self) -> Option<&Comm> {
        self.made.iter().map(|(_, comm)| comm).find(|comm| self.has_outsiders(comm))
    }

    fn has_outsiders(&self, comm: &Comm) -> bool {
        let world = &self.world().group;
        let is_outside = |group: &Rc<Group>| group.members().iter().any(|rank| !world.contains(*rank));
        is_outside(&comm.group) || comm.remote.as_ref().is_some_and(is_outside)
    }

    /// The program is about to free a communicator, whose processes stay connected.
    pub(super) fn stay_connected(&mut self, handle: MPI_Comm) {
        self.stays_connected |= self.find(handle).is_ok_and(|comm| self.has_outsiders(comm));
    }

    /// Whether this process is connected with its own MPI_COMM_WORLD alone (MPI 11.10.4).
    pub(super) fn is_separate(&self) -> bool {
        !self.stays_connected && self.parent == MPI_COMM_NULL && self.with_outsiders().is_none()
    }

    /// Places of this process, MPI_COMM_WORLD's first.
    pub(crate) fn memberships(&self, number_now: impl Fn(u32) -> u32) -> Vec<Membership> {
        let predefined = [MPI_COMM_WORLD, MPI_COMM_SELF].into_iter().zip(&self.predefined);
        let made = self.made.iter().map(|(index, comm)| (MPI_Comm(self.made.handle(index)), comm));
        predefined.chain(made).map(|(handle, comm)| Membership::of(handle, comm, &number_now)).collect()
    }

    /// Groups of the program, as a successor gets them.
    pub(crate) fn held_groups(&self, number_now: impl Fn(u32) -> u32) -> Vec<HeldGroup> {
        let members = |group: &Rc<Group>| group.renumbered(&number_now).members().to_vec();
        let groups = self.groups.iter();
        groups.map(|(index, group)| (MPI_Group(self.groups.handle(index)), members(group))).collect()
    }

    /// Takes places and groups that another process has had.
    pub(crate) fn take_places(&mut self, memberships: Vec<Membership>, groups: Vec<HeldGroup>) {
        for membership in memberships {
            let handle = membership.handle;
            let comm = membership.enter();
            match handle {
                MPI_COMM_WORLD => self.predefined[0] = comm,
                MPI_COMM_SELF => self.predefined[1] = comm,
                MPI_Comm(number) => self.made.insert_at(number, comm),
            }
        }
        for (MPI_Group(number), members) in groups {
            self.groups.insert_at(number, Rc::new(Group::new(members)));
        }
    }

    /// Other processes have places of some ranks from now on. Gives the contexts of the communicators that
    /// this changes.
    pub(crate) fn renumber(&mut self, job: &Job, number_now: impl Fn(u32) -> u32) -> Vec<u32> {
        for (_, group) in self.groups.iter_mut() {
            *group = Rc::new(group.renumbered(&number_now));
        }
        let made = self.made.iter_mut().map(|(_, comm)| comm);
        let changed = self.predefined.iter_mut().chain(made);
        changed.filter_map(|comm| comm.renumber(job, &number_now).then_some(comm.context)).collect()
    }
}
