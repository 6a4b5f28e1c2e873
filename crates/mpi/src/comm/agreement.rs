//! How processes that make a communicator exchange a few numbers: over point-to-point messages on the
//! parent's own contexts.
//!
//! | operation | messages |
//! |---|---|
//! | [`Meeting::broadcast`] | binomial tree, any length |
//! | [`Meeting::allgather`] | Bruck's algorithm, ceil(log2 members) rounds, records of one length |
//!
//! Both name members by world rank, so that they serve groups, and both groups of an intercommunicator as one
//! list.

use tutti_datatype::Buffer;

use super::{Channel, Comm};
use crate::abi::*;
use crate::collective::schedule::Schedule;
use crate::engine::message::{Message, Mode};
use crate::engine::{Engine, LOST};
use crate::error::{Result, check};
use crate::progress::Progress;
use crate::request::{Request, RequestKind, Started};
use crate::wait_goal::Goal;

/// Members of an agreement, and where the messages go.
#[derive(Clone, Debug)]
pub struct Meeting {
    /// World ranks, in the same order on all of them.
    pub members: Vec<u32>,
    /// Which of them this process is.
    pub me: usize,
    /// Context of the messages.
    context: u32,
    /// Tag of the messages.
    tag: i32,
}

impl Meeting {
    /// A meeting of `members` over a communicator's channel.
    ///
    /// # Panics
    /// When this process, of world rank `world`, is not among the members.
    pub fn new(members: Vec<u32>, world: u32, context: u32, channel: Channel, tag: i32) -> Self {
        let me = members.iter().position(|&member| member == world).expect("only members meet");
        Meeting { members, me, context: context + channel as u32, tag }
    }

    /// A meeting of all processes of a communicator; the first leads. Those of an intercommunicator stand in
    /// one list, the group with the lower first member first.
    pub fn whole(comm: &Comm, engine: &Engine, tag: i32) -> Self {
        let local = comm.group.members();
        let members = match comm.remote.as_ref().map(|remote| remote.members()) {
            None => local.to_vec(),
            Some(remote) if engine.precedes(local[0], remote[0]) => [local, remote].concat(),
            Some(remote) => [remote, local].concat(),
        };
        Meeting::new(members, engine.world_rank(), comm.context, Channel::Creation, tag)
    }

    /// A schedule of messages of this meeting.
    pub fn schedule(&self) -> Schedule {
        Schedule::new(self.context, self.tag)
    }

    /// In the binomial tree below `root`, the member that tells this one; none for the root.
    pub fn parent(&self, root: usize) -> Option<u32> {
        let mine = self.distance(root);
        (mine > 0).then(|| self.at(root, mine - self.reach(root)))
    }

    /// The members that this one tells, those with the largest subtree first.
    pub fn children(&self, root: usize) -> impl Iterator<Item = u32> {
        let (mine, members) = (self.distance(root), self.members.len());
        let bits = std::iter::successors(Some(self.reach(root) >> 1), |bit| Some(bit >> 1));
        let bits = bits.take_while(|&bit| bit > 0).filter(move |bit| mine + bit < members);
        bits.map(move |bit| self.at(root, mine + bit))
    }

    /// How far this member stands behind the root.
    fn distance(&self, root: usize) -> usize {
        (self.me + self.members.len() - root) % self.members.len()
    }

    fn at(&self, root: usize, distance: usize) -> u32 {
        self.members[(root + distance) % self.members.len()]
    }

    /// The lowest bit of the distance: the parent stands so far before this member, and its subtree is so
    /// large.
    fn reach(&self, root: usize) -> usize {
        match self.distance(root) {
            0 => self.members.len().next_power_of_two(),
            distance => 1 << distance.trailing_zeros(),
        }
    }
}

impl Meeting {
    /// Everybody gets `data` of the member at `root`.
    ///
    /// # Errors
    /// MPI_ERR_PROC_ABORTED when a process of another launch has ended.
    pub fn broadcast(&self, call: &mut impl Progress, root: usize, data: Vec<u32>) -> Result<Vec<u32>> {
        let data = match self.parent(root) {
            None => data,
            Some(parent) => self.receive_numbers(call, parent)?,
        };
        let mut sends = Vec::new();
        for child in self.children(root) {
            sends.extend(self.send_numbers(call, child, &data));
        }
        for send in sends {
            call.finish_request(send);
        }
        Ok(data)
    }

    /// Everybody gets the records of all, in the order of the members.
    ///
    /// # Errors
    /// As [`Meeting::broadcast`].
    pub fn allgather<const N: usize>(
        &self,
        call: &mut impl Progress,
        record: [u32; N],
    ) -> Result<Vec<[u32; N]>> {
        let members = self.members.len();
        // In round k the first 2^k records that follow my own are known; I give them to the member 2^k before
        // me.
        let mut known = record.to_vec();
        let mut have = 1;
        while have < members {
            let count = have.min(members - have) * N;
            let before = self.members[(self.me + members - have) % members];
            let behind = self.members[(self.me + have) % members];
            let send = self.send_numbers(call, before, &known[..count]);
            let more = self.receive_numbers(call, behind);
            if let Some(send) = send {
                call.finish_request(send);
            }
            let more = more?;
            assert_eq!(more.len(), count, "all members gather records of one length");
            known.extend(more);
            have += count / N;
        }
        let mut records: Vec<[u32; N]> =
            known.chunks_exact(N).map(|chunk| chunk.try_into().expect("chunks of N")).collect();
        records.rotate_right(self.me);
        Ok(records)
    }

    /// Everybody gets the numbers of all, in the order of the members; each gives as many as it likes.
    ///
    /// # Errors
    /// As [`Meeting::broadcast`].
    pub fn gather_numbers(&self, call: &mut impl Progress, mine: &[u32]) -> Result<Vec<u32>> {
        let mut all = Vec::new();
        if self.me == 0 {
            all.extend(mine);
            for &member in &self.members[1..] {
                all.extend(self.receive_numbers(call, member)?);
            }
        } else if let Some(send) = self.send_numbers(call, self.members[0], mine) {
            call.finish_request(send);
        }
        self.broadcast(call, 0, all)
    }

    /// Sends numbers; gives the request while it is pending. `data` must stay until then.
    pub(crate) fn send_numbers(&self, call: &mut impl Progress, to: u32, data: &[u32]) -> Option<u32> {
        self.send_buffer(call, to, Buffer::contiguous(data.as_ptr().cast_mut().cast(), size_of_val(data)))
    }

    /// The same of bytes.
    pub(crate) fn send_bytes(&self, call: &mut impl Progress, to: u32, data: &[u8]) -> Option<u32> {
        self.send_buffer(call, to, Buffer::contiguous(data.as_ptr().cast_mut(), data.len()))
    }

    fn send_buffer(&self, call: &mut impl Progress, to: u32, buffer: Buffer) -> Option<u32> {
        call.meet_new_ranks();
        let (context, tag) = (self.context, self.tag);
        match call.engine_mut().send(Message { to, context, tag, buffer, mode: Mode::Standard }) {
            Started::Done => None,
            Started::Pending(request) => Some(request),
        }
    }

    /// Receives so many bytes.
    ///
    /// # Errors
    /// As [`Meeting::broadcast`].
    pub(crate) fn receive_bytes(&self, call: &mut impl Progress, from: u32, bytes: usize) -> Result<Vec<u8>> {
        let mut data = vec![0; bytes];
        let buffer = Buffer::contiguous(data.as_mut_ptr(), bytes);
        let receive = Request::new(RequestKind::Receive, buffer, self.context, from as i32, self.tag);
        let request = call.engine_mut().receive(receive);
        let received = call.finish_request(request);
        check(received.error == MPI_SUCCESS, received.error, || LOST.into())?;
        Ok(data)
    }

    /// Receives numbers, as many as come.
    ///
    /// # Errors
    /// As [`Meeting::broadcast`].
    pub(crate) fn receive_numbers(&self, call: &mut impl Progress, from: u32) -> Result<Vec<u32>> {
        let (context, tag, source) = (self.context, self.tag, from as i32);
        let goal = Goal::Message { context, source, tag };
        let found =
            call.wait(Some(from as usize), goal, |engine| engine.probe_or_loss(context, source, tag))?;
        let mut data = vec![0_u32; found.bytes / size_of::<u32>()];
        let buffer = Buffer::contiguous(data.as_mut_ptr().cast(), found.bytes);
        let request =
            call.engine_mut().receive(Request::new(RequestKind::Receive, buffer, context, source, tag));
        let received = call.finish_request(request);
        check(received.error == MPI_SUCCESS, received.error, || LOST.into())?;
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_tree_reaches_every_member_once() {
        for size in 1..=17_u32 {
            for root in 0..size {
                let meeting = |world| Meeting::new((0..size).collect(), world, 0, Channel::Creation, 0);
                let mut reached = vec![root];
                for world in 0..size {
                    for child in meeting(world).children(root as usize) {
                        assert_eq!(
                            meeting(child).parent(root as usize),
                            Some(world),
                            "{size} members, root {root}"
                        );
                        reached.push(child);
                    }
                }
                reached.sort_unstable();
                assert!(reached.iter().copied().eq(0..size), "{size} members, root {root}: {reached:?}");
                assert_eq!(meeting(root).parent(root as usize), None);
            }
        }
    }
}
