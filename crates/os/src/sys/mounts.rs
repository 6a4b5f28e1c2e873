//! A namespace of mounts for a process and its children: what is mounted there nobody else sees.
//!
//! Root makes one at once. Anybody else needs a namespace of users around it, in which setuid programs have
//! no effect: so a folder that is covered can fool nobody but its user. The namespace of users is made by a
//! helper and entered, since a process that nobody may look into cannot write its own table of users.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::DumpableBehavior;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::fork::{fork_helper, hide_process};

/// Enters a namespace of mounts of its own. The process has one thread.
///
/// # Errors
/// When the kernel allows no namespaces.
pub fn enter_mount_namespace() -> io::Result<()> {
    match unshare(libc::CLONE_NEWNS) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            enter_user_namespace()?;
            unshare(libc::CLONE_NEWNS)
        }
        Err(error) => Err(error),
        // Root's: without this what is mounted here would be mounted for all.
        Ok(()) => mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_SLAVE, None),
    }
}

fn unshare(what: libc::c_int) -> io::Result<()> {
    // SAFETY: neither descriptors nor memory are unshared, only namespaces.
    let result = unsafe { libc::unshare(what) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn enter_user_namespace() -> io::Result<()> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let (ready, made) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (wait, entered) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let helper = || {
        hide_process(super::super::stat::SERVER_NAME, [&made, &wait]);
        let errno = map_users(uid, gid).err().and_then(|error| error.raw_os_error()).unwrap_or(0);
        let _ = rustix::io::write(&made, &errno.to_ne_bytes());
        let _ = rustix::io::read(&wait, &mut [0; 1]);
    };
    let (pid, process) = fork_helper(helper)?;
    drop(made);
    let mut errno = [0; 4];
    let read = rustix::io::read(&ready, &mut errno);
    let result = match (read, i32::from_ne_bytes(errno)) {
        (Ok(4), 0) => {
            let path = format!("/proc/{}/ns/user", pid.as_raw_nonzero());
            rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .and_then(|namespace| enter(&namespace))
                .map_err(io::Error::from)
        }
        (Ok(4), errno) => Err(io::Error::from_raw_os_error(errno)),
        (Ok(_), _) => Err(io::Error::other("its helper has died")),
        (Err(error), _) => Err(error.into()),
    };
    drop(entered);
    let _ = rustix::process::waitid(
        rustix::process::WaitId::PidFd(std::os::fd::AsFd::as_fd(&process)),
        rustix::process::WaitIdOptions::EXITED,
    );
    result
}

fn enter(namespace: &OwnedFd) -> rustix::io::Result<()> {
    use std::os::fd::AsFd;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::User))
}

/// Makes the namespace of users: the user and the group stand for themselves, nobody else is there.
fn map_users(uid: u32, gid: u32) -> io::Result<()> {
    unshare(libc::CLONE_NEWUSER)?;
    // This process has nothing that its user has not.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

fn mount(
    from: Option<&Path>,
    at: &Path,
    kind: Option<&str>,
    flags: libc::c_ulong,
    data: Option<&str>,
) -> io::Result<()> {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| io::Error::from(Errno::INVAL));
    let from = from.map(|from| text(from.as_os_str().as_bytes())).transpose()?;
    let at = text(at.as_os_str().as_bytes())?;
    let (kind, data) =
        (kind.map(|kind| text(kind.as_bytes())).transpose()?, data.map(|data| text(data.as_bytes())));
    let data = data.transpose()?;
    let pointer = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
    // SAFETY: each pointer is null or leads to a C string that lives for the call.
    let result =
        unsafe { libc::mount(pointer(&from), at.as_ptr(), pointer(&kind), flags, pointer(&data).cast()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Opens the kernel's end of a folder that a process is to answer for, and mounts it there.
///
/// # Errors
/// When there is no FUSE, or none for this process.
pub fn mount_fuse(at: &Path) -> io::Result<OwnedFd> {
    let device =
        rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|error| {
            io::Error::new(io::Error::from(error).kind(), format!("/dev/fuse: {}", io::Error::from(error)))
        })?;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let data = format!("fd={},rootmode=40000,user_id={uid},group_id={gid}", device.as_raw_fd());
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    mount(Some(Path::new("tutti")), at, Some("fuse.tutti"), flags, Some(&data))?;
    Ok(device)
}

/// An empty folder in memory, over another.
///
/// # Errors
/// The kernel's.
pub fn mount_memory(at: &Path) -> io::Result<()> {
    mount(Some(Path::new("tutti")), at, Some("tmpfs"), libc::MS_NOSUID | libc::MS_NODEV, Some("mode=755"))
}

/// Shows an open file or folder, with what is mounted in it, at another place.
///
/// # Errors
/// The kernel's.
pub fn bind(what: &OwnedFd, at: &Path) -> io::Result<()> {
    let from = format!("/proc/self/fd/{}", what.as_raw_fd());
    mount(Some(Path::new(&from)), at, None, libc::MS_BIND | libc::MS_REC, None)
}

/// Takes what is mounted there away, also while it is used.
pub fn unmount(at: &Path) {
    if let Ok(at) = CString::new(at.as_os_str().as_bytes()) {
        // SAFETY: the pointer leads to a C string that lives for the call.
        unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
    }
}
