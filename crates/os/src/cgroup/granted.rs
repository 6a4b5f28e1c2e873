//! Descriptors of a job's cgroup, which is root's, that root's daemon gives the job's starter. They come with
//! the first frame on the wire, as SCM_RIGHTS; flags in the frame say which of them come, and what is
//! limited.
//!
//! | descriptor | what the starter can do with it |
//! |---|---|
//! | the job's cgroup, the one inside | read how it is |
//! | `enter` | put a process of this job into the cgroup inside: the kernel checks the rights of the opener, a user that owns nothing else |
//! | `freeze` | stop the job for a user or a snapshot |
//! | `turn` | thaw what a dead daemon has frozen |
//! | `kill` | kill all ranks |
//! | `reached` | be notified that the memory limit of a version 1 hierarchy is reached: there the kernel kills one process only |
//! | `of_user` | the same of the limit of all jobs of the user, and read how many processes of this job were killed |
//!
//! Nothing of these lets a process leave the job's cgroups.

use std::io;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// As many as there are at most.
const DESCRIPTORS_MAX: usize = 9;

/// The kernel keeps the job to its memory.
const LIMITS_MEMORY: u32 = 1;
/// `reached` comes.
const HAS_REACHED: u32 = 2;
/// `of_user` comes.
const HAS_OF_USER: u32 = 4;
/// The job's cgroups are in one of the user's.
const IN_USER: u32 = 8;

/// By version 1: what becomes of a job when all jobs of its user have used up their memory. All of them are
/// notified, and the kernel has killed a process of one.
#[derive(Debug)]
pub(super) struct UserReached {
    pub(super) reached: OwnedFd,
    /// `memory.oom_control` of the part: how many of its processes were killed.
    pub(super) kills: OwnedFd,
}

/// The starter's end.
#[derive(Debug)]
pub struct Granted {
    /// The job's cgroup.
    pub(super) job: OwnedFd,
    /// The one inside.
    pub(super) ranks: OwnedFd,
    pub(super) enter: OwnedFd,
    pub(super) freeze: OwnedFd,
    pub(super) turn: OwnedFd,
    pub(super) kill: OwnedFd,
    pub(super) reached: Option<OwnedFd>,
    pub(super) of_user: Option<UserReached>,
    /// The kernel keeps the job to its memory.
    pub(super) limits_memory: bool,
    /// The job's cgroups are in one of the user's.
    pub(super) in_user: bool,
}

impl Granted {
    /// The daemon's side: sends these with `frame` before anything else. An empty socket has room for it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn send(&self, wire: BorrowedFd<'_>, frame: &[u8]) -> io::Result<()> {
        let Granted { job, ranks, enter, freeze, turn, kill, reached, of_user, .. } = self;
        let all = [job, ranks, enter, freeze, turn, kill];
        let of_user = of_user.iter().flat_map(|of_user| [&of_user.reached, &of_user.kills]);
        let all = all.into_iter().chain(reached).chain(of_user);
        let all: Vec<BorrowedFd<'_>> = all.map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&all)), "space for {DESCRIPTORS_MAX}");
        sendmsg(wire, &[IoSlice::new(frame)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// For the frame.
    pub(super) fn flags(&self) -> u32 {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        flag(self.limits_memory, LIMITS_MEMORY)
            | flag(self.reached.is_some(), HAS_REACHED)
            | flag(self.of_user.is_some(), HAS_OF_USER)
            | flag(self.in_user, IN_USER)
    }

    /// The starter's side: what has come with the frame, and its flags. `None`: these are not the
    /// descriptors.
    pub fn new(descriptors: Vec<OwnedFd>, flags: u32) -> Option<Self> {
        let mut all = descriptors.into_iter();
        let mut next = || all.next();
        let (job, ranks, enter) = (next()?, next()?, next()?);
        let (freeze, turn, kill) = (next()?, next()?, next()?);
        let is_set = |flag: u32| flags & flag != 0;
        let reached = if is_set(HAS_REACHED) { Some(next()?) } else { None };
        let of_user = match is_set(HAS_OF_USER) {
            true => Some(UserReached { reached: next()?, kills: next()? }),
            false => None,
        };
        let (limits_memory, in_user) = (is_set(LIMITS_MEMORY), is_set(IN_USER));
        Some(Granted { job, ranks, enter, freeze, turn, kill, reached, of_user, limits_memory, in_user })
    }
}

/// Reads from the wire, with the descriptors that come.
///
/// # Errors
/// When the kernel refuses.
pub fn receive(
    wire: &OwnedFd,
    bytes: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let read = recvmsg(wire, &mut [io::IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(come) = message {
            descriptors.extend(come);
        }
    }
    Ok(read)
}
