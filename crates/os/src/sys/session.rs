//! From a daemon to a job's starter: all that is done between fork and exec.
//!
//! ```text
//! fork (into the job's cgroup)
//!   Groups     limits of version 1                                               as the daemon
//!   Detach     no terminal, for another user a session, default signals, descriptors 0, 1, 2    as the daemon
//!   Keyring    a new session keyring                                             as the daemon
//!   Session    scheduling, cores, memory score, limits, what it never regains    as the daemon, which alone may give some of it
//!   Close      no other descriptor of the daemon's is left                       as the daemon
//!   Identity   groups, group, user, no capabilities                              for root's daemon
//!   Directory  umask, working directory                                          as the user
//!   Execute    exec                                                              as the user
//! ```
//!
//! Before `Identity` none of the user's files is opened, entered or executed. A failure is one
//! [`EntryFailure`] on a pipe. The daemon does not block on it, since a file system of the user's may hang
//! for ever at `Directory`. A child that hangs there has nothing of the daemon's: no lock, port or socket
//! lives on with it when the daemon ends. Between fork and exec only async-signal-safe calls are made, on
//! memory that was prepared before.

use std::ffi::{CStr, CString, c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::process::Pid;
use rustix::thread::CpuSet;

use super::fork::{errno, fork_into, pointers};
use super::{checked, without_signals};
use crate::oom::score_of_children;
use crate::session::Session;

/// `SO_PEERPIDFD` of Linux 6.5; libc has no name for it everywhere.
const PEER_PIDFD: c_int = 77;
/// `KEYCTL_JOIN_SESSION_KEYRING` and `KEYCTL_CHOWN`.
const KEYCTL_JOIN: c_int = 1;
const KEYCTL_CHOWN: c_int = 4;
/// `IOPRIO_WHO_PROCESS`.
const IO_PROCESS: c_int = 1;
/// `CLOSE_RANGE_CLOEXEC` of Linux 5.11.
const CLOSE_ON_EXEC: libc::c_uint = 4;
/// `_LINUX_CAPABILITY_VERSION_3`.
const CAPABILITIES_3: u32 = 0x2008_0522;
/// Signals are numbered from 1 to this.
const SIGNAL_MAX: c_int = 64;
/// Bytes of a set of signals, as the kernel has it.
const SIGNAL_BYTES: usize = 8;
/// As many limits as the kernel has; others from a daemon of another version are not known here.
const LIMITS_MAX: usize = 16;

/// The identity that a child of root's daemon takes.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The user's other groups, and no others.
    pub groups: &'a [u32],
}

/// All that a starter begins with, prepared before the fork.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The file to execute.
    pub file: &'a CStr,
    /// Arguments of the program.
    pub arguments: &'a [CString],
    /// Environment of the program, `NAME=value`.
    pub environment: &'a [CString],
    /// Working directory of the child.
    pub directory: &'a CStr,
    /// File mode creation mask of the child.
    pub umask: u32,
    /// Standard input of the child.
    pub input: BorrowedFd<'a>,
    /// Standard output of the child.
    pub output: BorrowedFd<'a>,
    /// Standard error of the child.
    pub errors: BorrowedFd<'a>,
    /// The identity that it takes; none: ours.
    pub identity: Option<Identity<'a>>,
    /// Session of the child's user; none: as we have it.
    pub session: Option<&'a Session>,
    /// The cores that it may use; none: all of ours.
    pub cores: Option<&'a CpuSet>,
    /// The cgroup to begin in; none: ours.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// `cgroup.procs` of other groups that are to have it.
    pub groups: &'a [BorrowedFd<'a>],
    /// Close-on-exec pipe that takes an [`EntryFailure`] if it cannot be executed.
    pub failure: BorrowedFd<'a>,
}

/// Where a child was on its way, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EntryStep {
    /// Groups that limit it.
    Groups,
    /// Session, signals and descriptors of the child.
    Detach,
    /// A keyring of its own.
    Keyring,
    /// Limits and priorities.
    Session,
    /// Groups and user.
    Identity,
    /// Working directory of the child.
    Directory,
    /// The program.
    Execute,
}

/// Failure of a child before it is its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryFailure {
    /// Which step.
    pub step: EntryStep,
    /// The kernel's answer.
    pub errno: i32,
}

impl EntryFailure {
    /// Bytes of an encoded failure.
    pub const BYTES: usize = 8;

    fn encode(self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..4].copy_from_slice(&(self.step as u32).to_ne_bytes());
        out[4..].copy_from_slice(&self.errno.to_ne_bytes());
        out
    }

    /// Reads one; none when it is none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        use EntryStep::{Detach, Directory, Execute, Groups, Identity, Keyring, Session};
        let steps = [Groups, Detach, Keyring, Session, Identity, Directory, Execute];
        let step = steps.into_iter().find(|step| *step as u32 == word(0))?;
        Some(EntryFailure { step, errno: word(4) as i32 })
    }
}

/// Forks a process that becomes this program; gives its pid and a pidfd. Does not wait for the exec.
///
/// # Errors
/// When the kernel makes no process, or does not let it into the cgroup.
pub fn fork_starter(entry: &Entry<'_>) -> io::Result<(Pid, OwnedFd)> {
    let arguments = pointers(&[entry.arguments]);
    let environment = pointers(&[entry.environment]);
    let all: Vec<c_int> = (1..=SIGNAL_MAX).collect();
    let oom_score =
        entry.session.map_or_else(score_of_children, |session| Some(session.oom_score_adjustment));
    // No handler of ours runs in the child: it would speak on our descriptors.
    let forked = without_signals(&all, || {
        // SAFETY: the child calls nothing but async-signal-safe functions, on what was prepared above, and
        // ends in exec or _exit.
        unsafe { fork_into(entry.cgroup) }
    });
    if let Some(forked) = forked? {
        return Ok(forked);
    }
    let (step, errno) = match enter(entry, oom_score) {
        Err(failed) => failed,
        Ok(()) => {
            // SAFETY: all pointers are to C strings that live in the copy of the parent's memory; both arrays
            // end with null.
            unsafe { libc::execve(entry.file.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
            (EntryStep::Execute, errno())
        }
    };
    let bytes = EntryFailure { step, errno }.encode();
    // SAFETY: plain system calls on a valid buffer and descriptor.
    unsafe {
        libc::write(entry.failure.as_raw_fd(), bytes.as_ptr().cast(), bytes.len());
        libc::_exit(127)
    }
}

/// The child's whole life before exec.
fn enter(entry: &Entry<'_>, oom_score: Option<i32>) -> Result<(), (EntryStep, i32)> {
    let at = |step: EntryStep| move |errno: i32| (step, errno);
    for group in entry.groups {
        // SAFETY: a plain system call on an open descriptor and a byte that lives.
        must(unsafe { libc::write(group.as_raw_fd(), c"0".as_ptr().cast(), 1) } as c_long)
            .map_err(at(EntryStep::Groups))?;
    }
    detach(entry).map_err(at(EntryStep::Detach))?;
    join_keyring(entry.identity).map_err(at(EntryStep::Keyring))?;
    if let Some(score) = oom_score {
        adjust_oom_score(score).map_err(at(EntryStep::Session))?;
    }
    if let Some(session) = entry.session {
        take_session(session, entry.identity.is_some()).map_err(at(EntryStep::Session))?;
    }
    if let Some(cores) = entry.cores {
        let cores = ptr::from_ref(cores).cast();
        // SAFETY: the set is as long as is said and lives for the call.
        must(unsafe { libc::sched_setaffinity(0, size_of::<CpuSet>(), cores) }.into())
            .map_err(at(EntryStep::Session))?;
    }
    close_others(entry.failure.as_raw_fd());
    if let Some(identity) = entry.identity {
        become_user(identity).map_err(at(EntryStep::Identity))?;
    }
    // SAFETY: plain system calls; the string ends with zero.
    unsafe {
        libc::umask(entry.umask);
        must(libc::chdir(entry.directory.as_ptr()).into()).map_err(at(EntryStep::Directory))?;
    }
    Ok(())
}

fn must(result: c_long) -> Result<(), i32> {
    if result < 0 { Err(errno()) } else { Ok(()) }
}

/// The same where the kernel may refuse what would be more than we have.
fn may(result: c_long) -> Result<(), i32> {
    match must(result) {
        Err(libc::EPERM | libc::EACCES) => Ok(()),
        other => other,
    }
}

/// Closes all descriptors but 0, 1, 2 and this one, which is close-on-exec.
fn close_others(kept: c_int) {
    for (first, last) in [(3, kept - 1), (kept + 1, c_int::MAX)] {
        if first > last {
            continue;
        }
        // SAFETY: numbers only; nothing of this process uses what is closed, up to its exec.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        if closed < 0 {
            // A kernel before 5.9.
            let last = last.min(descriptors_max());
            for number in first..=last {
                // SAFETY: as above.
                unsafe { libc::close(number) };
            }
        }
    }
}

/// No descriptor of this process has a greater number: the limit of its daemon's, which may have been lowered
/// since for its user's session, is no less than what the kernel gives at all to programs that do not ask.
fn descriptors_max() -> c_int {
    const AT_LEAST: libc::rlim_t = 1 << 16;
    const AT_MOST: libc::rlim_t = 1 << 20;
    // SAFETY: the kernel writes into the structure, which lives for the call.
    let limit = unsafe {
        let mut limit: libc::rlimit64 = std::mem::zeroed();
        libc::syscall(libc::SYS_prlimit64, 0, libc::RLIMIT_NOFILE, ptr::null::<u8>(), &raw mut limit);
        limit
    };
    limit.rlim_max.clamp(AT_LEAST, AT_MOST) as c_int
}

/// Another user's job is a session of its own: within a session anybody may continue what is stopped. One of
/// the daemon's own user stays in the daemon's, without its terminal: the kernel schedules sessions as groups
/// (autogroup), between which `sched_yield` does nothing, and parts of a job on virtual nodes of one machine
/// yield to each other. They took 30 times as long in sessions of their own.
fn leave_session(entry: &Entry<'_>) -> Result<(), i32> {
    // SAFETY: plain system calls; the path ends with zero, the descriptor is ours and closed once.
    unsafe {
        if entry.identity.is_some() {
            return must(libc::setsid().into());
        }
        let terminal = libc::open(c"/dev/tty".as_ptr(), libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        if terminal >= 0 {
            libc::ioctl(terminal, libc::TIOCNOTTY);
            libc::close(terminal);
        }
    }
    Ok(())
}

/// Leaves our terminal, signals and descriptors behind.
fn detach(entry: &Entry<'_>) -> Result<(), i32> {
    leave_session(entry)?;
    // SAFETY: plain system calls; descriptors are open, the set is filled before it is read.
    unsafe {
        // As the kernel has it, all zeros: the default action. The C library does not let us at the two that
        // it uses itself.
        let default = [0_u64; 4];
        for signal in 1..=SIGNAL_MAX {
            // The two that cannot be caught are refused.
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                ptr::null_mut::<u8>(),
                SIGNAL_BYTES,
            );
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        must(libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut()).into())?;
        for (end, number) in [(entry.input, 0), (entry.output, 1), (entry.errors, 2)] {
            must(libc::dup2(end.as_raw_fd(), number).into())?;
        }
    }
    Ok(())
}

/// A new session keyring: that of the daemon may belong to the administrator, with keys for that account
/// alone.
fn join_keyring(identity: Option<Identity<'_>>) -> Result<(), i32> {
    // SAFETY: the kernel takes a null name for a keyring without one.
    let keyring = unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN, ptr::null::<u8>()) };
    match (must(keyring), identity) {
        (Ok(()), Some(identity)) => {
            // Its possessor may use it anyway; a user over the quota gets ours.
            // SAFETY: numbers only.
            unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_CHOWN, keyring, identity.uid, identity.gid) };
            Ok(())
        }
        // A kernel without keys, or a filter that forbids keys to users.
        (Ok(()) | Err(libc::ENOSYS | libc::EPERM | libc::EACCES), _) => Ok(()),
        // The quota is used up by keys of the same user.
        (Err(libc::EDQUOT), None) => Ok(()),
        (Err(errno), _) => Err(errno),
    }
}

/// Takes what the session has, where that is not above what we may give. `bounds`: the child is another
/// user's, so what may never be regained is taken from it.
fn take_session(session: &Session, bounds: bool) -> Result<(), i32> {
    // SAFETY: plain system calls; the structures live for the call.
    unsafe {
        let parameter: libc::sched_param = std::mem::zeroed();
        may(libc::sched_setscheduler(0, session.policy, &raw const parameter).into())?;
        may(libc::setpriority(libc::PRIO_PROCESS, 0, session.nice).into())?;
        may(libc::syscall(libc::SYS_ioprio_set, IO_PROCESS, 0, session.io_priority))?;
    }
    for (number, limit) in session.limits.iter().take(LIMITS_MAX).enumerate() {
        set_limit(number as u32, *limit)?;
    }
    if bounds {
        drop_capabilities(session.bounding)?;
    }
    if session.no_new_privileges {
        // SAFETY: numbers only.
        must(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())?;
    }
    Ok(())
}

/// Soft and hard; where a hard limit above ours is not to be had, ours.
fn set_limit(number: u32, (soft, hard): (u64, u64)) -> Result<(), i32> {
    let wanted = libc::rlimit64 { rlim_cur: soft.min(hard), rlim_max: hard };
    // SAFETY: the structures live for the calls; 0 is this process.
    unsafe {
        let set = |limit: &libc::rlimit64| {
            must(libc::syscall(libc::SYS_prlimit64, 0, number, ptr::from_ref(limit), ptr::null_mut::<u8>()))
        };
        if set(&wanted) != Err(libc::EPERM) {
            return set(&wanted);
        }
        let mut own: libc::rlimit64 = std::mem::zeroed();
        must(libc::syscall(libc::SYS_prlimit64, 0, number, ptr::null::<u8>(), &raw mut own))?;
        let hard = hard.min(own.rlim_max);
        set(&libc::rlimit64 { rlim_cur: soft.min(hard), rlim_max: hard })
    }
}

/// A daemon that is never killed for want of memory has no jobs that are not.
fn adjust_oom_score(score: i32) -> Result<(), i32> {
    let mut text = [0_u8; 12];
    let mut at = text.len();
    let mut rest = score.unsigned_abs();
    loop {
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if score < 0 {
        at -= 1;
        text[at] = b'-';
    }
    // SAFETY: the path ends with zero, the buffer is as long as is said, the descriptor is ours and closed
    // once.
    unsafe {
        let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file < 0 {
            return Ok(());
        }
        let written = libc::write(file, text[at..].as_ptr().cast(), text.len() - at);
        let result = may(written as c_long);
        libc::close(file);
        result
    }
}

/// Takes away what no program of the session may have.
fn drop_capabilities(bounding: u64) -> Result<(), i32> {
    for capability in 0..64_u32 {
        // SAFETY: numbers only.
        let has = unsafe { libc::prctl(libc::PR_CAPBSET_READ, capability, 0, 0, 0) };
        if has < 0 {
            break;
        }
        if has == 1 && bounding >> capability & 1 == 0 {
            // SAFETY: numbers only.
            must(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) }.into())?;
        }
    }
    Ok(())
}

/// The child has one thread, so that calls are about the calling thread only is no matter.
fn become_user(identity: Identity<'_>) -> Result<(), i32> {
    let Identity { uid, gid, groups } = identity;
    // SAFETY: bare system calls; the groups and the structures live for the calls.
    unsafe {
        must(libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()))?;
        must(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
        must(libc::syscall(libc::SYS_setresuid, uid, uid, uid))?;
        // What is still a copy of our memory must not be readable by the user.
        must(libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0).into())?;
        // Also where root must keep them.
        let head = [CAPABILITIES_3, 0];
        let none = [0_u32; 6];
        must(libc::syscall(libc::SYS_capset, head.as_ptr(), none.as_ptr()))
    }
}

/// A process's I/O priority, as the kernel has it.
///
/// # Errors
/// When there is no such process.
pub fn io_priority(pid: Pid) -> io::Result<i32> {
    // SAFETY: numbers only.
    let found = unsafe { libc::syscall(libc::SYS_ioprio_get, IO_PROCESS, pid.as_raw_nonzero().get()) };
    checked(found as c_int)
}

/// The process at the other end of a local socket, with this number and user from the kernel. The number is
/// its as long as it is alive.
///
/// # Errors
/// When it has ended, or the kernel does not tell.
pub fn peer_pidfd(socket: BorrowedFd<'_>, pid: Pid, uid: u32) -> io::Result<OwnedFd> {
    let mut number: c_int = -1;
    let mut bytes = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most as many bytes as a number has.
    let result = unsafe {
        let place = (&raw mut number).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, PEER_PIDFD, place, &raw mut bytes)
    };
    if result == 0 {
        // SAFETY: the kernel has opened it for this call, and nobody else owns it.
        return Ok(unsafe { OwnedFd::from_raw_fd(number) });
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() != Some(libc::ENOPROTOOPT) {
        return Err(error);
    }
    // An older kernel: the number may be another process's by now, but only one of the same user counts.
    let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    match crate::stat::owner(pid) == Some(uid) {
        true => Ok(pidfd),
        false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
    }
}

/// No descriptor of this program, but 0, 1 and 2, is for the programs that it starts.
pub fn close_inherited_on_exec() {
    // SAFETY: flags of descriptors only; whoever owns them does not notice.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, CLOSE_ON_EXEC) };
    if done == 0 {
        return;
    }
    for entry in std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        if let Some(number) = entry.file_name().to_str().and_then(|name| name.parse::<c_int>().ok())
            && number > 2
        {
            // SAFETY: as above.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

#[cfg(test)]
mod tests;
