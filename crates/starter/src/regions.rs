//! Regions of this job for other jobs ([`tutti_shm::published`]): the process that serves them.
//!
//! ```text
//! a rank --its end of a pair of sockets--> starter --fork, once--> server, child of the starter, never frozen
//!        \----------- publish, withdraw -------------------------> server <-- clients
//! ```
//!
//! | part | subject |
//! |---|---|
//! | this one | the starter's: starts the server, hands owners to it, says that all is gone when either ends |
//! | [`server`] | the loop of the server: owners, listeners, questions |
//! | [`clients`] | all clients, and what each may do |
//! | [`sources`] | descriptors that the loop waits for |
//! | [`region`] | one region: operations on its memory, its messages |
//! | [`client`] | a connection: what it has asked, and how fast it may |
//! | [`network`] | who comes from other nodes, before it is a client |
//!
//! The server has the user's identity and nothing of the starter's but one end of a pair of sockets and the
//! lines. It ends with the starter. What a client sends can harm nothing but itself: the server reads what is
//! bounded, and never waits for anybody.

mod client;
mod clients;
mod network;
mod region;
mod server;
mod sources;

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
    socketpair,
};
use rustix::process::{Pid, Signal, pidfd_send_signal};
use tutti_shm::published::lines::Lines;

/// Name of the server's process: what freezes a job by signals leaves it alone.
pub const NAME: &std::ffi::CStr = tutti_os::stat::SERVER_NAME;

/// The server, for the starter.
#[derive(Debug)]
pub struct Regions {
    control: OwnedFd,
    lines: Lines,
    pid: Pid,
    process: OwnedFd,
}

impl Regions {
    /// Starts the server of a job whose ranks have this starter.
    ///
    /// # Errors
    /// When the kernel gives no process, sockets or memory.
    pub fn start() -> io::Result<Self> {
        let lines = Lines::create()?;
        let (control, own) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let forked = tutti_os::fork_helper(|| {
            tutti_os::hide_process(NAME, [&own, lines.reading_end()]);
            server::run(&own, &lines);
            lines.end_all();
        });
        let (pid, process) = forked?;
        Ok(Regions { control, lines, pid, process })
    }

    /// Process of the server.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Hands an owner's connection to the server. One that it does not take is closed, which its owner sees.
    pub fn admit(&self, owner: BorrowedFd<'_>) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [owner];
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = sendmsg(&self.control, &[IoSlice::new(b"o")], &mut control, flags);
    }

    /// To be polled: ready when the server has ended.
    pub fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}

impl Drop for Regions {
    /// The job, or the server, has ended: clients see it.
    fn drop(&mut self) {
        self.lines.end_all();
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
    }
}
