//! A look at descriptors that does not wait.

use rustix::event::{PollFd, Timespec, poll};

/// Looks which descriptors are ready; gives how many. A signal that is to be delivered ends even a look
/// without time, so it is taken again.
///
/// # Errors
/// Errors of `poll`, without `EINTR`.
pub fn look(polled: &mut [PollFd<'_>]) -> rustix::io::Result<usize> {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::io::retry_on_intr(|| poll(polled, Some(&now)))
}
