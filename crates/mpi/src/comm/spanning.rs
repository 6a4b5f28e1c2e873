//! Communicators with processes of several launches.
//!
//! A process of another launch is a guest ([`tutti_runtime::guests`]): its number counts among the world
//! ranks of this process alone. So what processes of several launches must agree on goes by their names among
//! all processes, and where groups travel between launches, addresses do.
//!
//! A context is unique in its job only. A spanning communicator has one in each job: that which the first
//! member of the job has proposed ([`Guard::agree_on_context`]). So every creation of one begins with the
//! proposals of all members.

use std::rc::Rc;

use tutti_runtime::guests::{Address, ProcessName};

use super::agreement::Meeting;
use super::{Comm, Group};
use crate::abi::*;
use crate::error::{Error, Result};
use crate::process::Guard;

/// Words that a process says of itself to another launch: its address, and a context that it has taken.
const WORDS: usize = Address::WORDS + 1;

impl Guard {
    /// Whether some of these processes are guests.
    pub fn spans(&self, members: &[u32]) -> bool {
        self.engine.may_have_guests() && members.iter().any(|&rank| self.engine.is_guest(rank as usize))
    }

    /// Whether a communicator has guests.
    ///
    /// # Errors
    /// MPI_ERR_COMM.
    pub fn has_guests(&self, handle: MPI_Comm) -> Result<bool> {
        let comm = self.comms.find(handle)?;
        let remote = comm.remote.as_deref().map_or(&[][..], Group::members);
        Ok(self.spans(comm.group.members()) || self.spans(remote))
    }

    /// Whether a process comes before another one, on both sides of a connection alike.
    pub fn precedes(&self, one: u32, other: u32) -> bool {
        if self.spans(&[one, other]) {
            self.process_name(one) < self.process_name(other)
        } else {
            one < other
        }
    }

    fn process_name(&self, rank: u32) -> ProcessName {
        self.engine.process_name(rank)
    }

    /// This process's address, from now on open to connections.
    ///
    /// # Errors
    /// MPI_ERR_INTERN when there are no more descriptors or threads.
    pub fn own_address(&mut self) -> Result<Address> {
        self.engine.open_to_guests().map_err(|error| {
            let text = format_args!("this process cannot take connections of other launches: {error}");
            Error::new(MPI_ERR_INTERN, text)
        })
    }

    /// The context here of a communicator of these members, each with what it has proposed, in an order that
    /// is the same on all of them: of each job the first one's holds.
    pub fn agree_on_context(&mut self, proposals: &[(u32, u32)]) -> u32 {
        let is_guest = |rank: u32| self.engine.is_guest(rank as usize);
        let own = proposals.iter().find(|(rank, _)| !is_guest(*rank));
        let (_, own) = *own.expect("this process is a member of what it makes");
        if !self.engine.may_have_guests() {
            return own;
        }
        let mut jobs = Vec::new();
        for &(rank, context) in proposals {
            if !self.engine.is_guest(rank as usize) {
                continue;
            }
            let job = self.process_name(rank).job;
            if !jobs.contains(&job) {
                jobs.push(job);
                self.engine.set_context_of_job(own, job, context);
            }
        }
        own
    }

    /// A communicator with guests has been freed: launches without any are not connected any more.
    pub(super) fn settle_connections(&mut self) {
        let members = |comm: &Comm| {
            let remote = comm.remote.as_deref().map_or(&[][..], Group::members);
            [comm.group.members(), remote].concat()
        };
        let ranks = self.comms.made.iter().flat_map(|(_, comm)| members(comm));
        let guests = ranks.filter(|rank| self.engine.is_guest(*rank as usize));
        let jobs = guests.map(|rank| self.process_name(rank).job).collect();
        self.engine.keep_connected(&jobs);
    }

    /// A new context for the members of a meeting: the first one's, or, if there are guests, one in each job.
    ///
    /// # Errors
    /// MPI_ERR_INTERN, MPI_ERR_PROC_ABORTED.
    pub fn new_context_of(&mut self, meeting: &Meeting) -> Result<u32> {
        if !self.spans(&meeting.members) {
            let context = if meeting.me == 0 { self.new_context()? } else { 0 };
            return Ok(self.broadcast(meeting, 0, vec![context])?[0]);
        }
        let context = self.new_context()?;
        let records = self.allgather(meeting, [context])?;
        let proposals: Vec<_> =
            meeting.members.iter().zip(&records).map(|(rank, [context])| (*rank, *context)).collect();
        Ok(self.agree_on_context(&proposals))
    }

    /// Bridges two groups of which some are of other launches than others. Each process says its address and
    /// a context to its group; the leaders exchange all of it and tell their groups. `leaders`: at the leader
    /// its meeting with the other one.
    pub(super) fn bridge_launches(
        &mut self,
        meeting: &Meeting,
        leader: usize,
        group: Rc<Group>,
        leaders: Option<Meeting>,
    ) -> Result<Comm> {
        let mut own = self.own_address()?.words().to_vec();
        own.push(self.new_context()?);
        let local = self.gather_numbers(meeting, &own)?;
        let remote = match leaders {
            None => Vec::new(),
            Some(leaders) => {
                let other = leaders.members[1 - leaders.me];
                self.exchange_numbers(&leaders, other, &local)?
            }
        };
        let remote = self.broadcast(meeting, leader, remote)?;
        self.meet_new_ranks();
        let both = decode(&local).zip(decode(&remote)).and_then(|(local, remote)| {
            let (addresses, contexts): (Vec<_>, Vec<_>) = remote.into_iter().unzip();
            Some((local, self.engine.introduce(addresses)?, contexts))
        });
        let (local, remote_members, contexts) = both.ok_or_else(|| {
            Error::new(MPI_ERR_INTERN, "the other launch names its processes in another way")
        })?;
        let mut proposals: Vec<(u32, u32)> =
            meeting.members.iter().copied().zip(local.iter().map(|(_, c)| *c)).collect();
        proposals.extend(remote_members.iter().copied().zip(contexts));
        proposals.sort_by_key(|(rank, _)| self.process_name(*rank));
        let remote = distinct(&remote_members).filter(|remote| group.is_disjoint(remote));
        let remote = remote.ok_or_else(|| {
            let text = "the two groups have a process in common, expected groups without";
            Error::new(MPI_ERR_GROUP, text)
        })?;
        let context = self.agree_on_context(&proposals);
        Ok(Comm::between(context, meeting.me, group, Rc::new(remote)))
    }

    /// Both leaders send each other numbers, as many as they like.
    pub(super) fn exchange_numbers(
        &mut self,
        leaders: &Meeting,
        other: u32,
        mine: &[u32],
    ) -> Result<Vec<u32>> {
        let send = self.send_numbers(leaders, other, mine);
        let heard = self.receive_numbers(leaders, other);
        if let Some(send) = send {
            self.finish_request(send);
        }
        heard
    }
}

/// Addresses and contexts out of what processes said.
fn decode(words: &[u32]) -> Option<Vec<(Address, u32)>> {
    let one = |words: &[u32]| Some((Address::from_words(&words[..Address::WORDS])?, words[Address::WORDS]));
    let is_whole = !words.is_empty() && words.len().is_multiple_of(WORDS);
    is_whole.then(|| words.chunks_exact(WORDS).map(one).collect())?
}

/// A group of these, unless one of them stands twice.
fn distinct(members: &[u32]) -> Option<Group> {
    let mut sorted = members.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1]).then(|| Group::new(members.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spanning_groups_of_other_launches_are_read_or_refused() {
        let name = ProcessName { job: 5, rank: 3 };
        let address = Address { name, key: 9, inet: None };
        let mut words = address.words().to_vec();
        words.push(60);
        assert_eq!(decode(&words), Some(vec![(address, 60)]));
        assert_eq!(decode(&words.repeat(2)).map(|list| list.len()), Some(2));
        assert_eq!((decode(&[]), decode(&words[1..])), (None, None));
        words[9] = u32::MAX;
        assert_eq!(decode(&words), None);
        assert!(distinct(&[3, 1, 2]).is_some() && distinct(&[3, 1, 3]).is_none());
    }
}
