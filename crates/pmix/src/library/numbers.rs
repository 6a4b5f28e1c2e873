//! Descriptors of the connections that libpmix has, each under a number that none has had for long.
//!
//! libpmix 4.2 closes some connections that libevent still watches. libevent then takes the next connection
//! with the same number for that one: it does not tell the kernel, and what the client says is never read.
//! The client waits for ever, and with it whoever has started it (MPI_Comm_spawn).

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Resource, getrlimit};

/// Numbers from here on. Lower ones are those of files that are opened meanwhile.
const FIRST: RawFd = 128;
/// Number of them: the kernel's table of descriptors, which never shrinks, is as long as the highest. Where
/// so many are open, the lowest free number comes back at once.
pub(crate) const NUMBERS: RawFd = 16_384;

static GIVEN: Mutex<Numbers> = Mutex::new(Numbers { next: FIRST, given: Vec::new() });

struct Numbers {
    next: RawFd,
    /// Numbers that have been given and not been found closed.
    given: Vec<RawFd>,
}

/// The same connection under its own number; under the one that it has where the process may have no more.
pub(super) fn give(connection: OwnedFd) -> OwnedFd {
    let mut numbers = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let end =
        getrlimit(Resource::Nofile).current.map_or(RawFd::MAX, |end| end.try_into().unwrap_or(RawFd::MAX));
    if numbers.next >= end.min(FIRST + NUMBERS) {
        numbers.next = FIRST;
    }
    let found = [numbers.next, FIRST].into_iter().find_map(|least| duplicate(&connection, least));
    let Some(found) = found else { return connection };
    numbers.next = found.as_raw_fd().saturating_add(1);
    numbers.given.push(found.as_raw_fd());
    found
}

/// How many of them are open; exact where it is more than this.
pub(super) fn count(limit: usize) -> usize {
    let mut numbers = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    if numbers.given.len() > limit {
        numbers.given.sort_unstable();
        numbers.given.dedup();
        numbers.given.retain(|number| is_open(*number));
    }
    numbers.given.len()
}

/// The descriptor once more, under the lowest free number from this one on.
fn duplicate(of: &OwnedFd, least: RawFd) -> Option<OwnedFd> {
    // SAFETY: the call takes no memory; a descriptor that it gives is known to this function alone.
    unsafe {
        let number = libc::fcntl(of.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least);
        (number >= 0).then(|| OwnedFd::from_raw_fd(number))
    }
}

fn is_open(number: RawFd) -> bool {
    // SAFETY: the call takes no memory, and changes nothing.
    unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn connections_have_numbers_that_none_has_had_before_and_are_counted_while_they_are_open() {
        let socket = || std::os::unix::net::UnixStream::pair().expect("a pair of sockets").0.into();
        let mut had = HashSet::new();
        for _ in 0..100 {
            // Each is closed before the next one comes.
            let connection = give(socket());
            assert!(connection.as_raw_fd() >= FIRST && had.insert(connection.as_raw_fd()), "{connection:?}");
        }
        let open: Vec<OwnedFd> = (0..5).map(|_| give(socket())).collect();
        assert_eq!(count(5), 5);
        assert_eq!(count(200), 5);
        drop(open);
        assert_eq!(count(4), 0);
    }
}
