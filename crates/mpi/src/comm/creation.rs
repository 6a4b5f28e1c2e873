//! Communicators made from one communicator (MPI 7.4.2): dup, create, split.

use std::rc::Rc;

use tutti_datatype::Buffer;

use super::agreement::Meeting;
use super::{Comm, Comms, Group};
use crate::abi::*;
use crate::collective::schedule::Schedule;
use crate::errhandler;
use crate::error::{Result, check};
use crate::info::Info;
use crate::progress::Progress;

/// The context of a communicator whose dup is on its way.
pub(super) const NOT_YET: u32 = u32::MAX;

/// Proposal of a process of a parent to the others, about the communicator that it wants to be in.
#[derive(Clone, Copy, Debug)]
struct Proposal {
    /// Which new communicator; `None` for none.
    color: Option<u32>,
    /// Place in it: lower keys come first, equal ones in the order of the parent.
    key: i32,
    /// A context that this process has taken, for the case that it leads.
    context: u32,
}

impl Proposal {
    fn encode(self) -> [u32; 4] {
        [u32::from(self.color.is_some()), self.color.unwrap_or(0), self.key as u32, self.context]
    }

    fn decode([wanted, color, key, context]: [u32; 4]) -> Self {
        Proposal { color: (wanted != 0).then_some(color), key: key as i32, context }
    }
}

/// A schedule after whose steps the first member's context stands in its memory; of a communicator of several
/// launches those of all, by these members.
pub(super) struct Proposed {
    pub(super) schedule: Schedule,
    pub(super) contexts: *const u32,
    pub(super) members: Vec<u32>,
}

impl Meeting {
    /// Steps after which what the members have proposed stands in the schedule's memory.
    pub(super) fn propose_context(&self, call: &mut impl Progress) -> Result<Proposed> {
        let mut schedule = self.schedule();
        let spans = call.engine().spans(&self.members);
        let places = if spans { self.members.len() } else { 1 };
        let contexts = schedule.memory(places * size_of::<u32>()).cast::<u32>();
        // SAFETY: memory of the schedule, of this size, aligned for every number.
        let place = |at: usize| unsafe { contexts.add(if spans { at } else { 0 }) };
        let data = |at: usize| Buffer::contiguous(place(at).cast(), size_of::<u32>());
        let own = if spans || self.me == 0 { call.engine_mut().new_context()? } else { NOT_YET };
        // SAFETY: as above.
        unsafe { place(self.me).write(own) };
        if !spans {
            if let Some(parent) = self.parent(0) {
                let received = schedule.receive(parent, data(0));
                schedule.await_one(received);
            }
            for child in self.children(0) {
                schedule.send(child, data(0));
            }
            let members = vec![call.engine().world_rank()];
            return Ok(Proposed { schedule, contexts, members });
        }
        for (at, &member) in self.members.iter().enumerate().filter(|(at, _)| *at != self.me) {
            schedule.receive(member, data(at));
            schedule.send(member, data(self.me));
        }
        schedule.await_all();
        Ok(Proposed { schedule, contexts, members: self.members.clone() })
    }

    /// The communicator of the members, of which this process is the one of `rank`.
    ///
    /// # Errors
    /// As [`Meeting::new_context`].
    pub(super) fn create(&self, call: &mut impl Progress, rank: u32, group: Rc<Group>) -> Result<Comm> {
        let context = self.new_context(call)?;
        Ok(Comm::new(context, rank as usize, group))
    }

    /// The communicator of those members that give the same color; none for those that give none.
    ///
    /// # Errors
    /// As [`Meeting::allgather`].
    pub(super) fn split(
        &self,
        call: &mut impl Progress,
        color: Option<u32>,
        key: i32,
    ) -> Result<Option<Comm>> {
        let wishes = self.exchange(call, color, key)?;
        if color.is_none() {
            return Ok(None);
        }
        let chosen = gathered(&self.members, &wishes, color);
        let (group, context) = (group_of(&chosen), call.engine_mut().agree_on_context(&chosen));
        let rank = group.rank_of(call.engine().world_rank()).expect("whoever gives a color is in its group");
        Ok(Some(Comm::new(context, rank as usize, Rc::new(group))))
    }

    /// The same for an intercommunicator: the members of a color on both sides, none when one side has none.
    ///
    /// # Errors
    /// As [`Meeting::allgather`].
    pub(super) fn split_inter(
        &self,
        call: &mut impl Progress,
        (local, remote): (&Group, &Group),
        color: Option<u32>,
        key: i32,
    ) -> Result<Option<Comm>> {
        let wishes = self.exchange(call, color, key)?;
        if color.is_none() {
            return Ok(None);
        }
        let side = |group: &Group| {
            let chosen =
                |(&world, &proposal): (&u32, &Proposal)| group.contains(world).then_some((world, proposal));
            let (members, wishes): (Vec<u32>, Vec<Proposal>) =
                self.members.iter().zip(&wishes).filter_map(chosen).unzip();
            gathered(&members, &wishes, color)
        };
        let (local, remote) = (side(local), side(remote));
        if remote.is_empty() {
            return Ok(None);
        }
        let proposals = match call.engine().precedes(local[0].0, remote[0].0) {
            true => [&local[..], &remote].concat(),
            false => [&remote[..], &local].concat(),
        };
        let context = call.engine_mut().agree_on_context(&proposals);
        let (local, remote) = (group_of(&local), group_of(&remote));
        let rank = local.rank_of(call.engine().world_rank()).expect("whoever gives a color is in its group");
        Ok(Some(Comm::between(context, rank as usize, Rc::new(local), Rc::new(remote))))
    }

    /// All members tell all others what they wish.
    fn exchange(&self, call: &mut impl Progress, color: Option<u32>, key: i32) -> Result<Vec<Proposal>> {
        let context = call.engine_mut().new_context()?;
        let records = self.allgather(call, Proposal { color, key, context }.encode())?;
        Ok(records.into_iter().map(Proposal::decode).collect())
    }
}

impl Comm {
    /// The tag of the next agreement over it. All its members begin their agreements in the same order, so
    /// they count the same; a nonblocking one may still be on its way when the next begins.
    pub(super) fn next_creation(&mut self) -> i32 {
        self.creations = self.creations.wrapping_add(1) & i32::MAX;
        self.creations
    }
}

impl Comms {
    /// Keeps a duplicate of a communicator with this context.
    ///
    /// # Errors
    /// MPI_ERR_COMM.
    pub(super) fn keep_duplicate(
        &mut self,
        handle: MPI_Comm,
        context: u32,
        attributes: crate::attributes::Set,
        hints: Option<Info>,
    ) -> Result<MPI_Comm> {
        let parent = self.find(handle)?;
        let made = match &parent.remote {
            None => Comm::new(context, parent.rank, parent.group.clone()),
            Some(remote) => Comm::between(context, parent.rank, parent.group.clone(), remote.clone()),
        };
        let mut made = Comm { attributes, topology: parent.topology.clone(), ..made };
        made.take_hints(&hints.unwrap_or_default());
        Ok(self.keep_child(handle, made))
    }

    /// Keeps a communicator that inherits its parent's error handler (9.3.1), and whether it goes back to a
    /// session.
    pub(super) fn keep_child(&mut self, parent: MPI_Comm, mut made: Comm) -> MPI_Comm {
        made.errhandler = self.find(parent).map_or(MPI_ERRORS_ARE_FATAL, |parent| parent.errhandler);
        if let Ok(parent) = self.find(parent) {
            (made.of_session, made.origin) = (parent.of_session, parent.origin.clone());
        }
        errhandler::retain(made.errhandler);
        self.keep(made)
    }

    /// Keeps what has been made for this process; MPI_COMM_NULL when that is nothing.
    pub(super) fn keep_part(&mut self, parent: MPI_Comm, made: Option<Comm>) -> MPI_Comm {
        made.map_or(MPI_COMM_NULL, |made| self.keep_child(parent, made))
    }
}

/// The members of a color in their order, each with the context that it has taken. Empty when nobody gave the
/// color.
fn gathered(members: &[u32], wishes: &[Proposal], color: Option<u32>) -> Vec<(u32, u32)> {
    let mut chosen: Vec<(u32, Proposal)> = members
        .iter()
        .copied()
        .zip(wishes.iter().copied())
        .filter(|(_, proposal)| proposal.color == color)
        .collect();
    chosen.sort_by_key(|(_, proposal)| proposal.key);
    chosen.into_iter().map(|(world, proposal)| (world, proposal.context)).collect()
}

fn group_of(chosen: &[(u32, u32)]) -> Group {
    Group::new(chosen.iter().map(|(world, _)| *world).collect())
}

pub(super) fn check_subset(group: &Group, parent: &Comm) -> Result<()> {
    let stranger = group.members().iter().find(|&&world| !parent.group.contains(world));
    check(stranger.is_none(), MPI_ERR_GROUP, || {
        format!("the group has world rank {}, which the communicator has not", stranger.unwrap_or(&0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comm_split_sorts_by_key_then_old_rank() {
        let members = [4, 5, 6, 7, 8];
        let proposal = |color: u32, key, context| Proposal { color: Some(color), key, context };
        let wishes = [
            proposal(1, 3, 40),
            proposal(0, 0, 50),
            proposal(1, -2, 60),
            proposal(1, 3, 70),
            Proposal { color: None, ..proposal(1, 0, 80) },
        ];
        let chosen = gathered(&members, &wishes, Some(1));
        assert_eq!(chosen, [(6, 60), (4, 40), (7, 70)]);
        assert_eq!(Proposal::decode(wishes[2].encode()).key, -2);
        assert_eq!(Proposal::decode(wishes[4].encode()).color, None);
    }
}
