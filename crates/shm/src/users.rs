//! Whether a number of a user, from the kernel, is that of one user. Whoever takes a connection of a local
//! socket by its peer's user asks here.
//!
//! A namespace of users need not have all numbers. The kernel then gives everybody without one the same
//! (`/proc/sys/kernel/overflowuid`, mostly 65534), also as the peer of a socket. That is not one user, and
//! not the account that has that number either (`nobody`): it is not believed of anybody.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::OnceLock;

/// The number that the kernel gives for users without one here, where it does not say.
const OVERFLOW_DEFAULT: u32 = 65_534;

/// Whether this number of a user, from the kernel, is that of one user.
#[must_use]
pub fn is_one_user(uid: u32) -> bool {
    static OVERFLOW: OnceLock<Option<u32>> = OnceLock::new();
    let overflow = OVERFLOW.get_or_init(|| {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let number = read("/proc/sys/kernel/overflowuid").trim().parse().unwrap_or(OVERFLOW_DEFAULT);
        // Without a map nothing is known, and the kernel has no namespaces of users.
        let map = read("/proc/self/uid_map");
        (!map.is_empty() && !has_all_users(&map)).then_some(number)
    });
    *overflow != Some(uid)
}

/// A map of a namespace of users has every number: there is nobody without one.
fn has_all_users(map: &str) -> bool {
    let counts = map.lines().filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
    counts.sum::<u64>() >= u64::from(u32::MAX)
}

/// Whether a peer with this number is our user. Where the number does not say so, that we may look into its
/// process does: `pid`, 0 if it is not seen from here.
#[must_use]
pub fn is_own_user(uid: u32, pid: i32) -> bool {
    // SAFETY: a plain system call.
    if uid != unsafe { libc::geteuid() } {
        return false;
    }
    let may_look = || {
        let of = |path: &str| std::fs::read_link(path).ok();
        // The kernel lets only its user, or who is above all users of its namespace, read it.
        of(&format!("/proc/{pid}/ns/user"))
            .is_some_and(|found| of("/proc/self/ns/user").is_some_and(|own| own == found))
    };
    is_one_user(uid) || (pid > 0 && may_look())
}

/// Groups of the process at the other end of a local socket, beside the one that its credentials name.
#[must_use]
pub fn peer_groups(socket: BorrowedFd<'_>) -> Vec<u32> {
    let mut groups = vec![0_u32; 1 << 12];
    let mut bytes = size_of_val(&groups[..]) as libc::socklen_t;
    // SAFETY: the kernel writes at most so many bytes into the vector, and says how many.
    let status = unsafe {
        let into = groups.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERGROUPS, into, &mut bytes)
    };
    groups.truncate(if status == 0 { bytes as usize / size_of::<u32>() } else { 0 });
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_users_without_one_is_nobodys_unless_all_have_one() {
        assert!(has_all_users("         0          0 4294967295\n"));
        for map in ["", "0 1000 1\n", "0 1000 1\n1 100000 65536\n"] {
            assert!(!has_all_users(map), "{map:?}");
        }
        // SAFETY: a plain system call.
        let own = unsafe { libc::geteuid() };
        assert!(is_one_user(0) && is_own_user(own, std::process::id() as i32));
        assert!(!is_own_user(own + 1, std::process::id() as i32));
    }
}
