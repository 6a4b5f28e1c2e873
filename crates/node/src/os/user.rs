//! A daemon of root's starts what belongs to others: the groups of who asks, and a process that becomes him.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// SO_PEERGROUPS of Linux; libc has no name for it.
const PEER_GROUPS: libc::c_int = 59;
/// NGROUPS_MAX: no process has more.
const GROUPS_MAX: usize = 65_536;

/// The supplementary groups of who is at the other end of a local socket; none where the kernel does not say.
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

/// The process that this command starts is this user's, with these groups and no others. For root.
pub fn become_user(command: &mut Command, uid: u32, gid: u32, groups: Vec<u32>) {
    let change = move || {
        let done = |result: libc::c_long| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
        // SAFETY: bare system calls, allowed between fork and exec; the vector was made before and is not changed. The
        // child has one thread, so the calls' being about the calling thread only is no matter.
        unsafe {
            done(libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()))?;
            done(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
            done(libc::syscall(libc::SYS_setresuid, uid, uid, uid))
        }
    };
    // SAFETY: the closure makes system calls and allocates nothing, but for an error that ends the child.
    unsafe { command.pre_exec(change) };
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn user_groups_are_set() {
        if !rustix::process::geteuid().is_root() {
            return tutti_testkit::skip(tutti_testkit::Need::Root, "only root can become another user");
        }
        let groups: Vec<u32> = (40_000..40_100).collect();
        let mut command = Command::new("id");
        become_user(command.arg("-G"), 23_456, 23_457, groups.clone());
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let said: Vec<u32> = said.split_whitespace().map(|group| group.parse().unwrap()).collect();
        assert_eq!(said, [&[23_457], &groups[..]].concat());
    }

    #[test]
    fn peer_groups_come_from_the_kernel() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let own: Vec<u32> =
            rustix::process::getgroups().unwrap().into_iter().map(|group| group.as_raw()).collect();
        assert_eq!(peer_groups(one.as_fd()), own);
    }
}
