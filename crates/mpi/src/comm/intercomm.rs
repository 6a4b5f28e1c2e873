//! Intercommunicators (MPI 7.6): made between two groups, merged into one.

use std::rc::Rc;

use core::ffi::c_int;

use super::agreement::Meeting;
use super::{Channel, Comm, Comms, Group};
use crate::abi::*;
use crate::error::{Error, Result, check};
use crate::progress::Progress;

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

impl Comms {
    /// The leader's way to the other leader, checked.
    pub(super) fn other_leader(&self, bridge: Bridge, me: u32) -> Result<Meeting> {
        let Bridge { tag, remote_leader, .. } = bridge;
        check(tag >= 0, MPI_ERR_TAG, || format!("tag is {tag}, expected 0 to {}", c_int::MAX))?;
        let peer = self.find(bridge.peer)?;
        checked_leader(remote_leader, peer.peers().size(), "remote_leader")?;
        let other = peer.world_rank(remote_leader)?;
        check(other != me, MPI_ERR_RANK, || {
            format!("remote_leader is {remote_leader}, which is the local leader itself")
        })?;
        Ok(Meeting::new(vec![me, other], me, peer.context, Channel::TaggedCreation, tag))
    }
}

impl Meeting {
    /// Bridges two groups. The leaders tell each other their groups and a context each; that of the lower
    /// leader holds. Each leader tells its group. `leaders` is asked at the leader only: its meeting with the
    /// other one.
    pub(super) fn bridge<C: Progress>(
        &self,
        call: &mut C,
        leader: usize,
        group: Rc<Group>,
        leaders: impl FnOnce(&mut C) -> Result<Meeting>,
    ) -> Result<Comm> {
        call.engine().job.connect();
        let mut other = None;
        let made = self.bridge_to(call, leader, group, leaders, &mut other);
        if let Some(other) = other {
            call.engine_mut().contexts.end_bridge(other);
        }
        made
    }

    /// The same; `other` is the other leader, which counts as named until the caller has what names it.
    fn bridge_to<C: Progress>(
        &self,
        call: &mut C,
        leader: usize,
        group: Rc<Group>,
        leaders: impl FnOnce(&mut C) -> Result<Meeting>,
        other: &mut Option<u32>,
    ) -> Result<Comm> {
        let (mut news, mut others) = (Vec::new(), None);
        if self.me == leader {
            let heard = leaders(call).and_then(|leaders| {
                let rank = leaders.members[1 - leaders.me];
                call.engine_mut().contexts.begin_bridge(rank);
                *other = Some(rank);
                let heard = leaders.exchange_groups(call, &group)?;
                Ok((leaders, heard))
            });
            match heard {
                Ok((leaders, heard)) => (others, news) = (Some(leaders), heard),
                Err(error) => {
                    // The group waits; a class alone is the news that the leader failed.
                    let class = if error.class == MPI_ERR_PORT { MPI_ERR_PORT } else { MPI_ERR_OTHER };
                    self.broadcast(call, leader, vec![class as u32])?;
                    return Err(error);
                }
            }
        }
        let news = self.broadcast(call, leader, news)?;
        // Those of the other group may be new to this one.
        call.meet_new_ranks();
        if news.is_empty() {
            return self.bridge_launches(call, leader, group, others);
        }
        if let [class] = news[..] {
            return Err(Error::new(class as c_int, "the leader of the group could not reach the other one"));
        }
        let (context, remote) = (news[0], Rc::new(Group::new(news[1..].to_vec())));
        check(group.is_disjoint(&remote), MPI_ERR_GROUP, || {
            "the two groups have a process in common, expected groups without".into()
        })?;
        Ok(Comm::between(context, self.me, group, remote))
    }

    /// The leader's part: the context that holds, then the remote group. Nothing when processes of several
    /// launches are among them.
    fn exchange_groups(&self, call: &mut impl Progress, group: &Group) -> Result<Vec<u32>> {
        let (me, other) = (self.members[self.me], self.members[1 - self.me]);
        let mine = call.engine_mut().new_context()?;
        let spans = call.engine().spans(&self.members) || call.engine().spans(group.members());
        let said = [&[u32::from(spans), mine], group.members()].concat();
        let heard = self.exchange_numbers(call, other, &said)?;
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
    /// MPI_ERR_ARG when the members of a group do not agree.
    pub(super) fn merge(
        &self,
        call: &mut impl Progress,
        local: &Group,
        remote: &Group,
        high: bool,
    ) -> Result<Comm> {
        let context = call.engine_mut().new_context()?;
        let records = self.allgather(call, [u32::from(high), context])?;
        let said = |group: &Group| {
            let mut flags = self.members.iter().zip(&records).filter(|(world, _)| group.contains(**world));
            let first = flags.next().map_or(0, |(_, record)| record[0]);
            flags.all(|(_, record)| record[0] == first).then_some(first != 0)
        };
        let (Some(local_high), Some(remote_high)) = (said(local), said(remote)) else {
            return Err(Error::new(MPI_ERR_ARG, "high is not the same on all processes of a group"));
        };
        let local_first = match (local_high, remote_high) {
            (false, true) => true,
            (true, false) => false,
            _ => call.engine().precedes(local.members()[0], remote.members()[0]),
        };
        let group = if local_first { local.union(remote) } else { remote.union(local) };
        let rank = group.rank_of(call.engine().world_rank()).expect("a member of one of both groups");
        let proposals: Vec<_> =
            self.members.iter().zip(&records).map(|(rank, [_, context])| (*rank, *context)).collect();
        let context = call.engine_mut().agree_on_context(&proposals);
        Ok(Comm::new(context, rank as usize, Rc::new(group)))
    }
}

/// A leader argument as a rank of a group of `size`.
pub(super) fn checked_leader(rank: c_int, size: usize, name: &str) -> Result<usize> {
    check(rank >= 0 && (rank as usize) < size, MPI_ERR_RANK, || {
        format!("{name} is {rank}, expected 0 to {}", size as i64 - 1)
    })?;
    Ok(rank as usize)
}
