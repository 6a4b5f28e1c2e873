//! System calls of the lab for which there is no safe function. The callers of [`fork`] and [`unshare`] are
//! programs with one thread, but for the network namespace of a thread that ends after it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::thread::UnshareFlags;

/// A second process that goes on from here; `None` in the new one. For programs with one thread.
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the program has one thread, so the child finds no lock held by another.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// New namespaces for this thread, or for its children.
pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    assert!(!flags.contains(UnshareFlags::FILES), "descriptors stay shared");
    // SAFETY: the table of descriptors stays that of the process.
    unsafe { rustix::thread::unshare_unsafe(flags)? };
    Ok(())
}

/// `struct mount_attr` of linux/mount.h.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    users: u64,
}

/// Changes a mount that is attached nowhere yet: owners of its files appear as a user namespace maps them,
/// and it may be read only.
pub(super) fn change_mount(
    mount: BorrowedFd<'_>,
    users: Option<BorrowedFd<'_>>,
    read_only: bool,
    inner_too: bool,
) -> io::Result<()> {
    const MOUNT_ATTR_RDONLY: u64 = 1;
    const MOUNT_ATTR_IDMAP: u64 = 0x10_0000;
    let set =
        if read_only { MOUNT_ATTR_RDONLY } else { 0 } | if users.is_some() { MOUNT_ATTR_IDMAP } else { 0 };
    let attributes = MountAttributes {
        set,
        clear: 0,
        propagation: libc::MS_PRIVATE,
        users: users.map_or(0, |users| users.as_raw_fd() as u64),
    };
    // SAFETY: the path and the structure live during the call, and the size is that of the structure.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | if inner_too { libc::AT_RECURSIVE } else { 0 },
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The kernel buries children and adopted children of this process by itself.
pub(super) fn bury_children_unseen() {
    // SAFETY: no handler is involved.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Signals that [`wait_signal`] takes; every other one keeps its effect.
const AWAITED: [i32; 8] = [
    libc::SIGCHLD,
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
];

/// Blocks the awaited signals, or unblocks all.
pub(super) fn block_signals(block: bool) {
    // SAFETY: the set is made by the calls before it is read.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        if block {
            for signal in AWAITED {
                libc::sigaddset(&raw mut set, signal);
            }
        }
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// A descriptor that is readable when one of the awaited signals has come, blocked before.
pub(super) fn signal_descriptor() -> io::Result<OwnedFd> {
    // SAFETY: the set is made by the calls before it is read; the descriptor is new and ours.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in AWAITED {
            libc::sigaddset(&raw mut set, signal);
        }
        match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor)),
        }
    }
}

/// The next signal of a [`signal_descriptor`], if one has come.
pub(super) fn take_signal(descriptor: BorrowedFd<'_>) -> Option<i32> {
    let mut bytes = [0_u8; size_of::<libc::signalfd_siginfo>()];
    let length = rustix::io::read(descriptor, &mut bytes).ok()?;
    // The number is the first word of the structure.
    (length == bytes.len()).then(|| i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// Sends a signal by number.
pub(super) fn send_signal(pid: Pid, signal: i32) {
    // SAFETY: a system call with numbers only.
    unsafe { libc::kill(pid.as_raw_nonzero().get(), signal) };
}

/// The status of a child as a shell gives it; none while it runs.
pub(super) fn status_of(child: Pid) -> io::Result<Option<u8>> {
    let Some((_, status)) = waitpid(Some(child), WaitOptions::NOHANG)? else { return Ok(None) };
    let code = status.exit_status().or(status.terminating_signal().map(|signal| 128 + signal));
    Ok(code.map(|code| code as u8))
}

/// A network interface whose frames this process reads and writes, in the network namespace that the thread
/// is in; `tun` is /dev/net/tun, just opened.
pub(super) fn make_tap(tun: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    // SAFETY: plain data, of which zeroes are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    let places = request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1);
    places.zip(name.bytes()).for_each(|(place, byte)| *place = byte as libc::c_char);
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the kernel reads and writes the structure, which lives during the call.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether such an interface has a carrier.
pub(super) fn set_carrier(tap: BorrowedFd<'_>, carries: bool) -> io::Result<()> {
    /// _IOW('T', 226, int) of linux/if_tun.h.
    const TUNSETCARRIER: libc::Ioctl = 0x4004_54e2;
    let carries = libc::c_int::from(carries);
    // SAFETY: the kernel reads the number, which lives during the call.
    let result = unsafe { libc::ioctl(tap.as_raw_fd(), TUNSETCARRIER, &raw const carries) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
