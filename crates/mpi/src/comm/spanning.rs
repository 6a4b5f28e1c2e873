//! Communicators with processes of several launches.
//!
//! A process of another launch is a guest ([`tutti_runtime::guests`]): its number counts among the world
//! ranks of this process alone. So what processes of several launches must agree on goes by their names among
//! all processes, and where groups travel between launches, addresses do.
//!
//! A context is unique in its job only ([`Engine::agree_on_context`]), so every creation of a spanning
//! communicator begins with the proposals of all members.

use std::collections::BTreeSet;
use std::rc::Rc;

use tutti_runtime::guests::Address;

use super::agreement::Meeting;
use super::{Comm, Comms, Group};
use crate::abi::*;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::progress::Progress;

/// Words that a process says of itself to another launch: its address, and a context that it has taken.
const WORDS: usize = Address::WORDS + 1;

impl Comm {
    /// Whether it has guests.
    pub fn has_guests(&self, engine: &Engine) -> bool {
        let remote = self.remote.as_deref().map_or(&[][..], Group::members);
        engine.spans(self.group.members()) || engine.spans(remote)
    }
}

impl Comms {
    /// The launches of which some communicator has guests: the others are not connected any more when one is
    /// freed.
    pub(super) fn launches(&self, engine: &Engine) -> BTreeSet<u64> {
        let members = |comm: &Comm| {
            let remote = comm.remote.as_deref().map_or(&[][..], Group::members);
            [comm.group.members(), remote].concat()
        };
        let ranks = self.made.iter().flat_map(|(_, comm)| members(comm));
        let guests = ranks.filter(|rank| engine.is_guest(*rank as usize));
        guests.map(|rank| engine.process_name(rank).job).collect()
    }
}

impl Meeting {
    /// A new context for the members of a meeting: the first one's, or, if there are guests, one in each job.
    ///
    /// # Errors
    /// MPI_ERR_INTERN, MPI_ERR_PROC_ABORTED.
    pub fn new_context(&self, call: &mut impl Progress) -> Result<u32> {
        if !call.engine().spans(&self.members) {
            let context = if self.me == 0 { call.engine_mut().new_context()? } else { 0 };
            return Ok(self.broadcast(call, 0, vec![context])?[0]);
        }
        let context = call.engine_mut().new_context()?;
        let records = self.allgather(call, [context])?;
        let proposals: Vec<_> =
            self.members.iter().zip(&records).map(|(rank, [context])| (*rank, *context)).collect();
        Ok(call.engine_mut().agree_on_context(&proposals))
    }

    /// Bridges two groups of which some are of other launches than others. Each process says its address and
    /// a context to its group; the leaders exchange all of it and tell their groups. `leaders`: at the leader
    /// its meeting with the other one.
    pub(super) fn bridge_launches(
        &self,
        call: &mut impl Progress,
        leader: usize,
        group: Rc<Group>,
        leaders: Option<Meeting>,
    ) -> Result<Comm> {
        let mut own = call.engine_mut().own_address()?.words().to_vec();
        own.push(call.engine_mut().new_context()?);
        let local = self.gather_numbers(call, &own)?;
        let remote = match leaders {
            None => Vec::new(),
            Some(leaders) => {
                let other = leaders.members[1 - leaders.me];
                leaders.exchange_numbers(call, other, &local)?
            }
        };
        let remote = self.broadcast(call, leader, remote)?;
        call.meet_new_ranks();
        let both = decode(&local).zip(decode(&remote)).and_then(|(local, remote)| {
            let (addresses, contexts): (Vec<_>, Vec<_>) = remote.into_iter().unzip();
            Some((local, call.engine_mut().introduce(addresses)?, contexts))
        });
        let (local, remote_members, contexts) = both.ok_or_else(|| {
            Error::new(MPI_ERR_INTERN, "the other launch names its processes in another way")
        })?;
        let mut proposals: Vec<(u32, u32)> =
            self.members.iter().copied().zip(local.iter().map(|(_, c)| *c)).collect();
        proposals.extend(remote_members.iter().copied().zip(contexts));
        proposals.sort_by_key(|(rank, _)| call.engine().process_name(*rank));
        let remote = distinct(&remote_members).filter(|remote| group.is_disjoint(remote));
        let remote = remote.ok_or_else(|| {
            let text = "the two groups have a process in common, expected groups without";
            Error::new(MPI_ERR_GROUP, text)
        })?;
        let context = call.engine_mut().agree_on_context(&proposals);
        Ok(Comm::between(context, self.me, group, Rc::new(remote)))
    }

    /// Both leaders send each other numbers, as many as they like.
    pub(super) fn exchange_numbers(
        &self,
        call: &mut impl Progress,
        other: u32,
        mine: &[u32],
    ) -> Result<Vec<u32>> {
        let send = self.send_numbers(call, other, mine);
        let heard = self.receive_numbers(call, other);
        if let Some(send) = send {
            call.finish_request(send);
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
    use tutti_runtime::guests::ProcessName;

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
