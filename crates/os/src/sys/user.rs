//! The groups of a peer, from the kernel.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{Gid, Uid};
use rustix::process::DumpableBehavior;

/// SO_PEERGROUPS of Linux; libc has no name for it.
const PEER_GROUPS: libc::c_int = 59;
/// NGROUPS_MAX: no process has more.
const GROUPS_MAX: usize = 65_536;

/// The supplementary groups of the process at the other end of a local socket; none where the kernel does not
/// tell.
pub fn peer_groups(socket: BorrowedFd<'_>) -> Vec<u32> {
    let mut groups = vec![0_u32; 64];
    loop {
        let mut bytes = size_of_val(&groups[..]) as libc::socklen_t;
        // SAFETY: the kernel writes at most `bytes` bytes into the vector, which lives for the call.
        let result = unsafe {
            let place = groups.as_mut_ptr().cast();
            libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, PEER_GROUPS, place, &raw mut bytes)
        };
        let count = bytes as usize / size_of::<u32>();
        if result == 0 {
            groups.truncate(count);
            return groups;
        }
        let too_short = io::Error::last_os_error().raw_os_error() == Some(libc::ERANGE);
        if !too_short || count <= groups.len() || count > GROUPS_MAX {
            return Vec::new();
        }
        groups.resize(count, 0);
    }
}

/// This process, which has one thread and is root's, is this user's from now on, for good, with these groups
/// and no others. It cannot be traced by the user: the kernel makes a process not dumpable that changes its
/// identity.
///
/// # Errors
/// When the kernel does not let us. What has been changed by then stays.
pub fn become_this_user(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    let groups: Vec<Gid> = groups.iter().map(|group| Gid::from_raw(*group)).collect();
    rustix::thread::set_thread_groups(&groups)?;
    let gid = Gid::from_raw(gid);
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    let uid = Uid::from_raw(uid);
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    // `fs.suid_dumpable` may be set otherwise.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn peer_groups_come_from_the_kernel() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let own: Vec<u32> =
            rustix::process::getgroups().unwrap().into_iter().map(|group| group.as_raw()).collect();
        assert_eq!(peer_groups(one.as_fd()), own);
    }
}
