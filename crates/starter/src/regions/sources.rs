//! Descriptors that the server of regions waits for, by the kernel's list of those that are ready, each with
//! what it is of.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

/// Source that is ready, as the kernel keeps it: the kind above the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Control,
    Owner(u64),
    Listener(u32),
    Client(u64),
    Messages(u32),
    /// A listener on the network.
    Network(u32),
    /// A connection from the network that has shown no key yet.
    Visitor(u64),
}

const KIND_BITS: u32 = 8;
/// Sources that are taken at once.
const READY_MAX: usize = 256;

impl Source {
    fn data(self) -> epoll::EventData {
        let (kind, number) = match self {
            Source::Control => (0, 0),
            Source::Owner(number) => (1, number),
            Source::Listener(line) => (2, line.into()),
            Source::Client(number) => (3, number),
            Source::Messages(line) => (4, line.into()),
            Source::Network(number) => (5, number.into()),
            Source::Visitor(number) => (6, number),
        };
        epoll::EventData::new_u64(number << KIND_BITS | kind)
    }

    fn of(data: epoll::EventData) -> Self {
        let number = data.u64() >> KIND_BITS;
        match data.u64() & 0xff {
            0 => Source::Control,
            1 => Source::Owner(number),
            2 => Source::Listener(number as u32),
            3 => Source::Client(number),
            4 => Source::Messages(number as u32),
            5 => Source::Network(number as u32),
            _ => Source::Visitor(number),
        }
    }
}

/// Part of a client's connection that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interest {
    /// Questions.
    Questions,
    /// Room for its answer.
    Room,
    /// End alone; that of a local one is said in any case.
    End,
}

/// Descriptors that are waited for.
#[derive(Debug)]
pub(super) struct Sources {
    epoll: OwnedFd,
}

impl Sources {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Sources { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Waits for what comes by this descriptor, too; false where the kernel has no room for that.
    pub(super) fn add(&self, descriptor: BorrowedFd<'_>, source: Source) -> bool {
        epoll::add(&self.epoll, descriptor, source.data(), epoll::EventFlags::IN).is_ok()
    }

    /// Waits for something else of a client.
    pub(super) fn change(&self, client: u64, socket: &OwnedFd, interest: Interest) {
        let flags = match interest {
            Interest::Questions => epoll::EventFlags::IN,
            Interest::Room => epoll::EventFlags::OUT,
            Interest::End => epoll::EventFlags::RDHUP,
        };
        let _ = epoll::modify(&self.epoll, socket, Source::Client(client).data(), flags);
    }

    /// Waits for a descriptor no more.
    pub(super) fn remove(&self, descriptor: impl AsFd) {
        let _ = epoll::delete(&self.epoll, descriptor);
    }

    /// Sources that are ready, when there are any, a signal has come or the time is over.
    ///
    /// # Errors
    /// When the kernel cannot wait.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> Result<Vec<Source>, Errno> {
        let timeout = timeout.map(|time| Timespec::try_from(time).expect("a short time"));
        let mut events = Vec::with_capacity(READY_MAX);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        Ok(events.iter().map(|event| Source::of(event.data)).collect())
    }
}
