//! What root's daemon gives the starter of a job: descriptors of the job's cgroup, which is root's. They come
//! with the first frame on the wire, as SCM_RIGHTS; the frame has a flag for limited memory.
//!
//! | descriptor | what the starter can do with it |
//! |---|---|
//! | the job's cgroup, the one inside | read how it is |
//! | `enter` | put a process of this job into the cgroup inside: the kernel checks the rights of the opener, a user that owns nothing else |
//! | `freeze` | stop the job for a user or a snapshot |
//! | `turn` | thaw what a dead daemon has frozen |
//! | `kill` | kill all ranks |
//! | `reached` | be notified that the memory limit of a version 1 hierarchy is reached: there the kernel kills one process only |
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
const DESCRIPTORS_MAX: usize = 7;

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
    /// The kernel keeps the job to its memory.
    pub(super) limits_memory: bool,
}

impl Granted {
    /// The daemon's side: sends these with `frame` before anything else. An empty socket has room for it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn send(&self, wire: BorrowedFd<'_>, frame: &[u8]) -> io::Result<()> {
        let Granted { job, ranks, enter, freeze, turn, kill, reached, .. } = self;
        let all = [job, ranks, enter, freeze, turn, kill];
        let all: Vec<BorrowedFd<'_>> = all.into_iter().chain(reached).map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&all)), "space for {DESCRIPTORS_MAX}");
        sendmsg(wire, &[IoSlice::new(frame)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The starter's side: what has come with the frame. `None`: these are not the descriptors.
    pub fn new(descriptors: Vec<OwnedFd>, limits_memory: bool) -> Option<Self> {
        let mut all = descriptors.into_iter();
        let mut next = || all.next();
        let (job, ranks, enter) = (next()?, next()?, next()?);
        let (freeze, turn, kill, reached) = (next()?, next()?, next()?, next());
        Some(Granted { job, ranks, enter, freeze, turn, kill, reached, limits_memory })
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
