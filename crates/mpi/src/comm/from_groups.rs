//! Communicators made from groups alone (MPI 7.4.2 and 7.6.2, for the sessions model): there is no parent, so
//! a text of the user keeps creations apart.
//!
//! The messages travel on a context that MPI_COMM_SELF has and never sends on to another process; their tag
//! is made from the text.

use std::collections::HashSet;
use std::rc::Rc;

use core::ffi::c_int;

use super::agreement::Meeting;
use super::intercomm::checked_leader;
use super::{CONTEXTS_PER_COMM, Channel, Comm, Comms, Group};
use crate::abi::*;
use crate::errhandler;
use crate::error::{Result, check};
use crate::info::Info;
use crate::progress::Progress;

/// A text that names a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringTag {
    /// Two independent numbers made from it.
    hashes: [u32; 2],
}

impl StringTag {
    /// # Errors
    /// MPI_ERR_ARG when the text is too long.
    pub fn new(text: &[u8]) -> Result<Self> {
        check(text.len() < MPI_MAX_STRINGTAG_LEN as usize, MPI_ERR_ARG, || {
            format!("stringtag has {} bytes, expected at most {}", text.len(), MPI_MAX_STRINGTAG_LEN - 1)
        })?;
        // FNV-1a, 64 bits.
        let hash = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Ok(StringTag { hashes: [hash as u32, (hash >> 32) as u32] })
    }

    fn meeting(self, members: &[u32], world: u32, channel: Channel) -> Meeting {
        // 0 is that of requests for ports.
        let tag = (self.hashes[0] & i32::MAX as u32).max(1) as i32;
        Meeting::new(members.to_vec(), world, CONTEXTS_PER_COMM, channel, tag)
    }
}

impl StringTag {
    /// The communicator of a group, called by all its members with the same text. MPI_COMM_NULL for the empty
    /// group.
    ///
    /// # Errors
    /// MPI_ERR_GROUP when this process is no member; MPI_ERR_ARG when another creation's messages have come
    /// in between.
    pub fn create(self, call: &mut impl Progress, group: Rc<Group>) -> Result<Option<Comm>> {
        if group.size() == 0 {
            return Ok(None);
        }
        let rank = own_rank(&group, call.engine().world_rank())?;
        let world: HashSet<u32> = call.engine().job.world().iter().copied().collect();
        if group.members().iter().any(|member| !world.contains(member)) {
            call.engine().job.connect();
        }
        let meeting = self.meeting(group.members(), call.engine().world_rank(), Channel::Creation);
        if call.engine().spans(group.members()) {
            let context = meeting.new_context(call)?;
            return Ok(Some(Comm::new(context, rank, group)));
        }
        let said =
            if rank == 0 { vec![call.engine_mut().new_context()?, self.hashes[1]] } else { Vec::new() };
        let said = meeting.broadcast(call, 0, said)?;
        check(said[1] == self.hashes[1], MPI_ERR_ARG, || {
            "two creations with different stringtags at the same time cannot be told apart".into()
        })?;
        Ok(Some(Comm::new(said[0], rank, group)))
    }

    /// An intercommunicator between two groups; the remote group and its leader count at the local leader
    /// only.
    ///
    /// # Errors
    /// MPI_ERR_GROUP, MPI_ERR_RANK.
    pub fn create_intercomm<C: Progress>(
        self,
        call: &mut C,
        group: Rc<Group>,
        local_leader: c_int,
        remote: impl FnOnce(&C) -> Result<Rc<Group>>,
        remote_leader: c_int,
    ) -> Result<Comm> {
        let me = call.engine().world_rank();
        own_rank(&group, me)?;
        let leader = checked_leader(local_leader, group.size(), "local_leader")?;
        let meeting = self.meeting(group.members(), me, Channel::Creation);
        meeting.bridge(call, leader, group, |call| {
            let remote = remote(call)?;
            let other = remote.members()[checked_leader(remote_leader, remote.size(), "remote_leader")?];
            check(other != me, MPI_ERR_RANK, || "remote_leader is the local leader itself".into())?;
            Ok(self.meeting(&[me, other], me, Channel::TaggedCreation))
        })
    }
}

impl Comms {
    /// Keeps a communicator that has no parent, with hints and an error handler.
    pub fn keep_orphan(&mut self, mut made: Comm, hints: &Info, errhandler: MPI_Errhandler) -> MPI_Comm {
        made.take_hints(hints);
        made.of_session = true;
        made.errhandler = errhandler;
        errhandler::retain(errhandler);
        self.keep(made)
    }
}

fn own_rank(group: &Group, me: u32) -> Result<usize> {
    let rank = group.rank_of(me);
    check(rank.is_some(), MPI_ERR_GROUP, || "this process is not in the group".into())?;
    Ok(rank.unwrap_or(0) as usize)
}
