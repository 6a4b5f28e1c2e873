//! Users, from the kernel: the groups of a peer, whose its namespace is.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{CWD, Gid, Mode, OFlags, Uid, fstat, openat};
use rustix::process::{DumpableBehavior, Pid};

/// SO_PEERGROUPS of Linux; libc has no name for it.
const PEER_GROUPS: libc::c_int = 59;
/// NGROUPS_MAX: no process has more.
const GROUPS_MAX: usize = 65_536;
/// `NS_GET_PARENT` and `NS_GET_OWNER_UID`.
const NAMESPACE_PARENT: libc::c_ulong = 0xb702;
const NAMESPACE_OWNER: libc::c_ulong = 0xb704;
/// Namespaces of users are nested 32 deep at most.
const NESTED_MAX: u32 = 33;

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

/// The user who has made the namespace of users of this process: the outermost of those that are inside of
/// ours. None: the process is in ours, or it cannot be seen from here.
#[must_use]
pub fn namespace_owner(pid: Pid) -> Option<u32> {
    let open = |path: &str| openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok();
    let ours = fstat(open("/proc/self/ns/user")?).ok()?.st_ino;
    let mut namespace = open(&format!("/proc/{}/ns/user", pid.as_raw_nonzero()))?;
    if fstat(&namespace).ok()?.st_ino == ours {
        return None;
    }
    for _ in 0..NESTED_MAX {
        let parent = parent_of(namespace.as_fd())?;
        if fstat(&parent).ok()?.st_ino == ours {
            return owner_of(namespace.as_fd());
        }
        namespace = parent;
    }
    None
}

fn parent_of(namespace: BorrowedFd<'_>) -> Option<OwnedFd> {
    // SAFETY: a plain system call on an open descriptor, without an argument.
    let parent = unsafe { libc::ioctl(namespace.as_raw_fd(), NAMESPACE_PARENT as _) };
    // SAFETY: the kernel has opened it for this call, and nobody else owns it.
    (parent >= 0).then(|| unsafe { OwnedFd::from_raw_fd(parent) })
}

fn owner_of(namespace: BorrowedFd<'_>) -> Option<u32> {
    let mut uid: libc::uid_t = 0;
    // SAFETY: the kernel writes one number, which lives for the call.
    let result = unsafe { libc::ioctl(namespace.as_raw_fd(), NAMESPACE_OWNER as _, &raw mut uid) };
    (result == 0).then_some(uid)
}

/// Makes this process, which has one thread and is root's, this user's from now on, for good, with these
/// groups and no others. It cannot be traced by the user: the kernel makes a process not dumpable that
/// changes its identity.
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

    #[test]
    fn namespace_of_users_has_its_maker_for_owner() {
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(namespace_owner(rustix::process::getpid()), None, "it is ours");
        let mut command = std::process::Command::new("unshare");
        command.args(["--user", "--map-root-user", "sh", "-c", "echo; exec sleep 60"]);
        let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        let begun = std::io::BufRead::read_line(&mut output, &mut line).unwrap() > 0;
        let owner = namespace_owner(Pid::from_child(&child));
        child.kill().unwrap();
        child.wait().unwrap();
        if !begun {
            return tutti_testkit::skip(
                tutti_testkit::Need::Kernel,
                "no namespace of users can be made here",
            );
        }
        assert_eq!(owner, Some(own));
    }
}
