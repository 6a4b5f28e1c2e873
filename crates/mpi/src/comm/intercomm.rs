//! Intercommunicators (MPI 7.6): made between two groups, merged into one.

use std::rc::Rc;

use core::ffi::c_int;

use super::agreement::Meeting;
use super::{Channel, Comm, Group};
use crate::abi::*;
use crate::error::{Error, Result, check};
use crate::process::Guard;

/// The arguments of MPI_Intercomm_create.
#[derive(Clone, Copy, Debug)]
pub struct Bridge {
    /// Intracommunicator of the local group.
    pub local: MPI_Comm,
    /// Rank of the local leader in it.
    pub local_leader: c_int,
    /// Communicator in which the leaders reach each other; counts at the leader only.
    pub peer: MPI_Comm,
    /// Rank of the other leader in it.
    pub remote_leader: c_int,
    /// Tag that keeps this creation apart from others over the same peer communicator.
    pub tag: c_int,
}

impl Guard {
    /// An intercommunicator between two groups (7.6.2).
    ///
    /// # Errors
    /// MPI_ERR_COMM, MPI_ERR_RANK, MPI_ERR_TAG; MPI_ERR_GROUP when the groups overlap.
    pub fn create_intercomm(&mut self, bridge: Bridge) -> Result<MPI_Comm> {
        let group = self.comms.intracomm(bridge.local)?.group.clone();
        let leader = checked_leader(bridge.local_leader, group.size(), "local_leader")?;
        let meeting = self.whole(bridge.local)?;
        let made = self.bridge(&meeting, leader, group, |guard| guard.other_leader(bridge))?;
        Ok(self.keep_child(bridge.local, made))
    }

    /// The leader's way to the other leader, checked.
    fn other_leader(&self, bridge: Bridge) -> Result<Meeting> {
        let Bridge { tag, remote_leader, .. } = bridge;
        check(tag >= 0, MPI_ERR_TAG, || format!("tag is {tag}, expected 0 to {}", c_int::MAX))?;
        let peer = self.comms.find(bridge.peer)?;
        checked_leader(remote_leader, peer.peers().size(), "remote_leader")?;
        let (other, me) = (peer.world_rank(remote_leader)?, self.world_rank());
        check(other != me, MPI_ERR_RANK, || {
            format!("remote_leader is {remote_leader}, which is the local leader itself")
        })?;
        Ok(Meeting::new(vec![me, other], me, peer.context, Channel::TaggedCreation, tag))
    }

    /// Bridges two groups. The leaders tell each other their groups and a context each; that of the lower
    /// leader holds. Each leader tells its group. `leaders` is asked at the leader only: its meeting with the
    /// other one.
    pub(super) fn bridge(
        &mut self,
        meeting: &Meeting,
        leader: usize,
        group: Rc<Group>,
        leaders: impl FnOnce(&mut Guard) -> Result<Meeting>,
    ) -> Result<Comm> {
        let mut other = None;
        let made = self.bridge_to(meeting, leader, group, leaders, &mut other);
        if let Some(at) = self.comms.bridging.iter().position(|rank| Some(*rank) == other) {
            self.comms.bridging.swap_remove(at);
        }
        made
    }

    /// The same; `other` is the other leader, which counts as named until the caller has what names it.
    fn bridge_to(
        &mut self,
        meeting: &Meeting,
        leader: usize,
        group: Rc<Group>,
        leaders: impl FnOnce(&mut Guard) -> Result<Meeting>,
        other: &mut Option<u32>,
    ) -> Result<Comm> {
        let (mut news, mut others) = (Vec::new(), None);
        if meeting.me == leader {
            let heard = leaders(self).and_then(|leaders| {
                let rank = leaders.members[1 - leaders.me];
                self.comms.bridging.push(rank);
                *other = Some(rank);
                let heard = self.exchange_groups(&leaders, &group)?;
                Ok((leaders, heard))
            });
            match heard {
                Ok((leaders, heard)) => (others, news) = (Some(leaders), heard),
                Err(error) => {
                    // The group waits; a class alone is the news that the leader failed.
                    let class = if error.class == MPI_ERR_PORT { MPI_ERR_PORT } else { MPI_ERR_OTHER };
                    self.broadcast(meeting, leader, vec![class as u32])?;
                    return Err(error);
                }
            }
        }
        let news = self.broadcast(meeting, leader, news)?;
        // Those of the other group may be new to this one.
        self.meet_new_ranks();
        if news.is_empty() {
            return self.bridge_launches(meeting, leader, group, others);
        }
        if let [class] = news[..] {
            return Err(Error::new(class as c_int, "the leader of the group could not reach the other one"));
        }
        let (context, remote) = (news[0], Rc::new(Group::new(news[1..].to_vec())));
        check(group.is_disjoint(&remote), MPI_ERR_GROUP, || {
            "the two groups have a process in common, expected groups without".into()
        })?;
        Ok(Comm::between(context, meeting.me, group, remote))
    }

    /// The leader's part: the context that holds, then the remote group. Nothing when processes of several
    /// launches are among them.
    fn exchange_groups(&mut self, leaders: &Meeting, group: &Group) -> Result<Vec<u32>> {
        let (me, other) = (leaders.members[leaders.me], leaders.members[1 - leaders.me]);
        let mine = self.new_context()?;
        let spans = self.spans(&leaders.members) || self.spans(group.members());
        let said = [&[u32::from(spans), mine], group.members()].concat();
        let heard = self.exchange_numbers(leaders, other, &said)?;
        if spans || heard[0] != 0 {
            return Ok(Vec::new());
        }
        let context = if me < other { mine } else { heard[1] };
        Ok([&[context], &heard[2..]].concat())
    }

    /// One communicator of both groups (7.6.2): the group that said `high` stands behind; equal, the one with
    /// the lower first member stands before.
    ///
    /// # Errors
    /// MPI_ERR_COMM; MPI_ERR_ARG when the members of a group do not agree.
    pub fn merge_intercomm(&mut self, handle: MPI_Comm, high: bool) -> Result<MPI_Comm> {
        let (comm, remote) = self.comms.intercomm(handle)?;
        let (local, remote) = (comm.group.clone(), remote.clone());
        let meeting = self.whole(handle)?;
        let context = self.new_context()?;
        let records = self.allgather(&meeting, [u32::from(high), context])?;
        let said = |group: &Group| {
            let mut flags = meeting.members.iter().zip(&records).filter(|(world, _)| group.contains(**world));
            let first = flags.next().map_or(0, |(_, record)| record[0]);
            flags.all(|(_, record)| record[0] == first).then_some(first != 0)
        };
        let (Some(local_high), Some(remote_high)) = (said(&local), said(&remote)) else {
            return Err(Error::new(MPI_ERR_ARG, "high is not the same on all processes of a group"));
        };
        let local_first = match (local_high, remote_high) {
            (false, true) => true,
            (true, false) => false,
            _ => self.precedes(local.members()[0], remote.members()[0]),
        };
        let group = if local_first { local.union(&remote) } else { remote.union(&local) };
        let rank = group.rank_of(self.world_rank()).expect("a member of one of both groups");
        let proposals: Vec<_> =
            meeting.members.iter().zip(&records).map(|(rank, [_, context])| (*rank, *context)).collect();
        let context = self.agree_on_context(&proposals);
        Ok(self.keep_child(handle, Comm::new(context, rank as usize, Rc::new(group))))
    }
}

/// A leader argument as a rank of a group of `size`.
pub(super) fn checked_leader(rank: c_int, size: usize, name: &str) -> Result<usize> {
    check(rank >= 0 && (rank as usize) < size, MPI_ERR_RANK, || {
        format!("{name} is {rank}, expected 0 to {}", size as i64 - 1)
    })?;
    Ok(rank as usize)
}
