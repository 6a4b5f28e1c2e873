//! Communicators made from one communicator (MPI 7.4.2): dup, create, split.

use std::rc::Rc;

use core::ffi::c_int;

use tutti_datatype::Buffer;

use super::agreement::Meeting;
use super::{Channel, Comm, Group};
use crate::abi::*;
use crate::attribute_calls;
use crate::attributes::Owner;
use crate::collective::schedule::Schedule;
use crate::errhandler;
use crate::error::{Result, check};
use crate::info::Info;
use crate::process::Guard;

/// The context of a communicator whose dup is on its way.
const NOT_YET: u32 = u32::MAX;

/// What a process of a parent tells the others about the communicator that it wants to be in.
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

impl Guard {
    /// A copy of a communicator with its attributes (7.4.2), and with hints when there are some.
    ///
    /// # Errors
    /// MPI_ERR_COMM; whatever a copy callback of the user returned.
    pub fn dup_comm(&mut self, handle: MPI_Comm, hints: Option<Info>) -> Result<MPI_Comm> {
        let copied = attribute_calls::copy(self, Owner::Comm(handle));
        // The others wait for us even if our callback has failed.
        let meeting = self.whole(handle)?;
        let context = self.new_context_of(&meeting)?;
        self.keep_duplicate(handle, context, copied?, hints)
    }

    /// The same without waiting: the communicator is there at once and may be used when the request is done.
    /// The request belongs to the schedule of the broadcast, which gives the communicator its context.
    ///
    /// # Errors
    /// As [`Guard::dup_comm`].
    pub fn start_dup_comm(
        &mut self,
        handle: MPI_Comm,
        hints: Option<Info>,
    ) -> Result<(MPI_Comm, MPI_Request)> {
        let copied = attribute_calls::copy(self, Owner::Comm(handle));
        let meeting = self.whole(handle)?;
        let mut schedule = meeting.schedule();
        let (contexts, members) = self.propose_context(&meeting, &mut schedule)?;
        let attributes = match copied {
            Ok(attributes) => attributes,
            Err(error) => {
                // The others wait for us even if our callback has failed.
                self.run(&mut schedule)?;
                return Err(error);
            }
        };
        let made = self.keep_duplicate(handle, NOT_YET, attributes, hints)?;
        schedule.name(made, contexts, members);
        schedule.await_all();
        let index = self.launch(schedule);
        let request = MPI_Request(self.engine.requests.handle(index));
        Ok((made, request))
    }

    /// Steps after which the first member's context stands in the schedule's memory; of a communicator of
    /// several launches those of all, by these members.
    fn propose_context(
        &mut self,
        meeting: &Meeting,
        schedule: &mut Schedule,
    ) -> Result<(*const u32, Vec<u32>)> {
        let spans = self.spans(&meeting.members);
        let places = if spans { meeting.members.len() } else { 1 };
        let contexts = schedule.memory(places * size_of::<u32>()).cast::<u32>();
        // SAFETY: memory of the schedule, of this size, aligned for every number.
        let place = |at: usize| unsafe { contexts.add(if spans { at } else { 0 }) };
        let data = |at: usize| Buffer::contiguous(place(at).cast(), size_of::<u32>());
        let own = if spans || meeting.me == 0 { self.new_context()? } else { NOT_YET };
        // SAFETY: as above.
        unsafe { place(meeting.me).write(own) };
        if !spans {
            if let Some(parent) = meeting.parent(0) {
                let received = schedule.receive(parent, data(0));
                schedule.await_one(received);
            }
            for child in meeting.children(0) {
                schedule.send(child, data(0));
            }
            return Ok((contexts, vec![self.world_rank()]));
        }
        for (at, &member) in meeting.members.iter().enumerate().filter(|(at, _)| *at != meeting.me) {
            schedule.receive(member, data(at));
            schedule.send(member, data(meeting.me));
        }
        schedule.await_all();
        Ok((contexts, meeting.members.clone()))
    }

    fn keep_duplicate(
        &mut self,
        handle: MPI_Comm,
        context: u32,
        attributes: crate::attributes::Set,
        hints: Option<Info>,
    ) -> Result<MPI_Comm> {
        let parent = self.comms.find(handle)?;
        let made = match &parent.remote {
            None => Comm::new(context, parent.rank, parent.group.clone()),
            Some(remote) => Comm::between(context, parent.rank, parent.group.clone(), remote.clone()),
        };
        let mut made = Comm { attributes, topology: parent.topology.clone(), ..made };
        made.take_hints(&hints.unwrap_or_default());
        Ok(self.keep_child(handle, made))
    }

    /// The communicator of a part of the members (MPI_Comm_create). All members of the parent call it;
    /// MPI_COMM_NULL for those that are in no group.
    ///
    /// # Errors
    /// MPI_ERR_COMM; MPI_ERR_GROUP when the group has members that the parent has not.
    pub fn create_comm(&mut self, handle: MPI_Comm, group: Rc<Group>) -> Result<MPI_Comm> {
        let parent = self.comms.find(handle)?;
        check_subset(&group, parent)?;
        if parent.remote.is_some() {
            let place = group.rank_of(self.world_rank());
            let color = place.map(|_| 0);
            return self.split_inter(handle, color, place.unwrap_or(0) as i32);
        }
        let tag = self.next_creation(handle)?;
        self.create_among(handle, group, Channel::Creation, tag)
    }

    /// The same, called by the members of the group only (MPI_Comm_create_group).
    ///
    /// # Errors
    /// As [`Guard::create_comm`]; MPI_ERR_TAG.
    pub fn create_comm_of_group(
        &mut self,
        handle: MPI_Comm,
        group: Rc<Group>,
        tag: c_int,
    ) -> Result<MPI_Comm> {
        let parent = self.comms.intracomm(handle)?;
        check_subset(&group, parent)?;
        check(tag >= 0, MPI_ERR_TAG, || format!("tag is {tag}, expected 0 to {}", c_int::MAX))?;
        self.create_among(handle, group, Channel::TaggedCreation, tag)
    }

    /// The members of the group agree over the parent's channel.
    fn create_among(
        &mut self,
        handle: MPI_Comm,
        group: Rc<Group>,
        channel: Channel,
        tag: c_int,
    ) -> Result<MPI_Comm> {
        let Some(rank) = group.rank_of(self.world_rank()) else { return Ok(MPI_COMM_NULL) };
        let parent = self.comms.find(handle)?.context;
        let meeting = Meeting::new(group.members().to_vec(), self.world_rank(), parent, channel, tag);
        let context = self.new_context_of(&meeting)?;
        Ok(self.keep_child(handle, Comm::new(context, rank as usize, group)))
    }

    /// One new communicator for each color (MPI_Comm_split); MPI_COMM_NULL for those that give none.
    ///
    /// # Errors
    /// MPI_ERR_COMM; MPI_ERR_ARG when the color is negative.
    pub fn split_comm(&mut self, handle: MPI_Comm, color: c_int, key: c_int) -> Result<MPI_Comm> {
        let parent = self.comms.find(handle)?;
        check(color >= 0 || color == MPI_UNDEFINED, MPI_ERR_ARG, || {
            format!("color is {color}, expected 0 or more, or MPI_UNDEFINED")
        })?;
        let color = (color != MPI_UNDEFINED).then_some(color as u32);
        if parent.remote.is_some() {
            return self.split_inter(handle, color, key);
        }
        let meeting = self.whole(handle)?;
        let wishes = self.exchange(&meeting, color, key)?;
        if color.is_none() {
            return Ok(MPI_COMM_NULL);
        }
        let chosen = gathered(&meeting.members, &wishes, color);
        let (group, context) = (group_of(&chosen), self.agree_on_context(&chosen));
        let rank = group.rank_of(self.world_rank()).expect("whoever gives a color is in its group");
        Ok(self.keep_child(handle, Comm::new(context, rank as usize, Rc::new(group))))
    }

    /// The same for an intercommunicator: the members of a color on both sides, none when one side has none.
    fn split_inter(&mut self, handle: MPI_Comm, color: Option<u32>, key: i32) -> Result<MPI_Comm> {
        let (parent, remote) = self.comms.intercomm(handle)?;
        let (local, remote) = (parent.group.clone(), remote.clone());
        let meeting = self.whole(handle)?;
        let wishes = self.exchange(&meeting, color, key)?;
        if color.is_none() {
            return Ok(MPI_COMM_NULL);
        }
        let side = |group: &Group| {
            let chosen =
                |(&world, &proposal): (&u32, &Proposal)| group.contains(world).then_some((world, proposal));
            let (members, wishes): (Vec<u32>, Vec<Proposal>) =
                meeting.members.iter().zip(&wishes).filter_map(chosen).unzip();
            gathered(&members, &wishes, color)
        };
        let (local, remote) = (side(&local), side(&remote));
        if remote.is_empty() {
            return Ok(MPI_COMM_NULL);
        }
        let proposals = match self.precedes(local[0].0, remote[0].0) {
            true => [&local[..], &remote].concat(),
            false => [&remote[..], &local].concat(),
        };
        let context = self.agree_on_context(&proposals);
        let (local, remote) = (group_of(&local), group_of(&remote));
        let rank = local.rank_of(self.world_rank()).expect("whoever gives a color is in its group");
        let made = Comm::between(context, rank as usize, Rc::new(local), Rc::new(remote));
        Ok(self.keep_child(handle, made))
    }

    /// All members tell all others what they wish.
    fn exchange(&mut self, meeting: &Meeting, color: Option<u32>, key: i32) -> Result<Vec<Proposal>> {
        let context = self.new_context()?;
        let records = self.allgather(meeting, Proposal { color, key, context }.encode())?;
        Ok(records.into_iter().map(Proposal::decode).collect())
    }

    /// The next meeting of all processes of a communicator; the first leads. Those of an intercommunicator
    /// stand in one list, the group with the lower first member first.
    pub fn whole(&mut self, handle: MPI_Comm) -> Result<Meeting> {
        let tag = self.next_creation(handle)?;
        let comm = self.comms.find(handle)?;
        let local = comm.group.members();
        let members = match comm.remote.as_ref().map(|remote| remote.members()) {
            None => local.to_vec(),
            Some(remote) if self.precedes(local[0], remote[0]) => [local, remote].concat(),
            Some(remote) => [remote, local].concat(),
        };
        Ok(Meeting::new(members, self.world_rank(), comm.context, Channel::Creation, tag))
    }

    /// The tag of the next agreement over a communicator. All its members begin their agreements in the same
    /// order, so they count the same; a nonblocking one may still be on its way when the next begins.
    fn next_creation(&mut self, handle: MPI_Comm) -> Result<i32> {
        if crate::check_mode::is_on() {
            self.compare_creation(handle)?;
        }
        let comm = self.comms.find_mut(handle)?;
        comm.creations = comm.creations.wrapping_add(1) & i32::MAX;
        Ok(comm.creations)
    }

    /// Keeps a communicator that inherits its parent's error handler (9.3.1), and whether it goes back to a
    /// session.
    pub(super) fn keep_child(&mut self, parent: MPI_Comm, mut made: Comm) -> MPI_Comm {
        made.errhandler = self.comms.find(parent).map_or(MPI_ERRORS_ARE_FATAL, |parent| parent.errhandler);
        if let Ok(parent) = self.comms.find(parent) {
            (made.of_session, made.origin) = (parent.of_session, parent.origin.clone());
        }
        errhandler::retain(made.errhandler);
        self.comms.keep(made)
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

fn check_subset(group: &Group, parent: &Comm) -> Result<()> {
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
