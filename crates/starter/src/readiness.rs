//! Readiness of all that the starter watches: one poll over everything.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// After a poll that the kernel has refused.
const PAUSE: Duration = Duration::from_millis(20);

/// Source that is ready.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// The wire to the front end.
    Front,
    /// Signals to this process.
    Signals,
    /// The socket for tickets.
    Listener,
    /// A connection that has not redeemed a ticket.
    Pending(usize),
    /// A rank's connection.
    Connection(u32),
    /// A rank's socket for PMI.
    Pmi(u32),
    /// The server of PMIx.
    Pmix,
    /// A rank's death.
    Rank(u32),
    /// The death of a process below a rank's wrapper.
    Inner(u32),
    /// The pipe on which children report that they could not become their program.
    Failures,
    /// The same pipe of ranks that other ranks have asked for.
    Spawning(usize),
    /// The job has reached its limit of memory.
    Memory,
    /// The end of the process that serves regions for other jobs.
    Regions,
    /// A line of who answers for files of the origin.
    Origin,
    /// Output of a rank.
    Stream(usize),
    /// Datagrams for a rank that is frozen for a strict switch.
    Frozen(u32),
    /// Datagrams for a rank that has left.
    Exited(u32),
    /// Somebody asks something of the memory of a rank.
    StandIn(u32),
    /// Room for a rank's input.
    Input,
}

/// The polled descriptors and their sources.
#[derive(Default)]
pub struct PollList<'a> {
    sources: Vec<Source>,
    polled: Vec<PollFd<'a>>,
}

impl<'a> PollList<'a> {
    /// Adds a descriptor; those added first are handled first.
    pub fn add(&mut self, source: Source, descriptor: BorrowedFd<'a>, flags: PollFlags) {
        self.sources.push(source);
        self.polled.push(PollFd::from_borrowed_fd(descriptor, flags));
    }

    /// Sources that are ready, in the order in which they were added; none when the time is over.
    pub fn wait(mut self, timeout: Option<&Timespec>) -> Vec<(Source, PollFlags)> {
        if let Err(error) = poll(&mut self.polled, timeout) {
            if error != Errno::INTR {
                // More descriptors than are allowed now, or no memory: not again and again without a pause.
                std::thread::sleep(PAUSE);
            }
            return Vec::new();
        }
        let flags = self.polled.iter().map(PollFd::revents);
        self.sources.iter().copied().zip(flags).filter(|(_, flags)| !flags.is_empty()).collect()
    }
}

/// Time that does not jump.
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
