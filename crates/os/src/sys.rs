//! The system calls that need `unsafe`: here signals and inherited descriptors; forking a rank, a thread's
//! priority and other users in files of their own.
//!
//! Everything else of the crate is safe Rust on `rustix`.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

mod caller;
mod calls;
mod children;
mod close;
mod fork;
pub mod kernel;
mod link;
mod mounts;
mod priority;
mod session;
pub(crate) mod timing;
mod traffic;
mod user;

pub use caller::with_file_rights_of;
pub use calls::{handle_trapped_calls, take_refused_call};
pub use children::used_by_children;
pub use close::flush_file;
pub use fork::{Child, Failure, Step, fork_helper, fork_rank, fork_sibling, hide_process};
pub(crate) use link::is_running;
pub use mounts::{bind, enter_mount_namespace, mount_fuse, mount_memory, unmount};
pub use priority::{PriorityClass, prefer_this_thread};
pub use session::{
    Entry, EntryFailure, EntryStep, Identity, close_inherited_on_exec, fork_starter, io_priority, peer_pidfd,
};
pub use traffic::TrafficCounter;
pub use user::{become_this_user, namespace_owner, peer_groups};

/// Gives long pieces of memory back to the kernel as soon as they are not used any more. By itself the C
/// library learns from the first long piece that is freed to keep the next ones.
pub fn give_memory_back() {
    /// Above it each piece is a mapping of its own: where the C library begins too.
    const LONG_BYTES: c_int = 128 << 10;
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number of the allocator, which any thread may do at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LONG_BYTES);
    }
}

/// Signals that are read from a descriptor instead of interrupting.
#[derive(Debug)]
pub struct Signals {
    descriptor: OwnedFd,
}

impl Signals {
    /// Blocks those of `wanted` that are not ignored (`nohup`, a shell's background job) and opens a
    /// descriptor for them.
    ///
    /// # Errors
    /// When the kernel gives no descriptor.
    pub fn new(wanted: &[c_int]) -> io::Result<Self> {
        // SAFETY: the sets and actions are plain data, filled before they are read.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for &signal in wanted {
                let mut action: libc::sigaction = std::mem::zeroed();
                checked(libc::sigaction(signal, ptr::null(), &mut action))?;
                if action.sa_sigaction != libc::SIG_IGN {
                    libc::sigaddset(&mut set, signal);
                }
            }
            checked(libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut()))?;
            let fd = checked(libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
            Ok(Signals { descriptor: OwnedFd::from_raw_fd(fd) })
        }
    }

    /// To be polled.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.descriptor.as_fd()
    }

    /// The next signal that has come, if any.
    pub fn next_signal(&self) -> Option<c_int> {
        self.next_signal_from().map(|(number, _)| number)
    }

    /// The same, and the pid of the process that sent it; 0: the kernel, or one of another pid namespace.
    pub fn next_signal_from(&self) -> Option<(c_int, c_int)> {
        const BYTES: usize = size_of::<libc::signalfd_siginfo>();
        let mut bytes = [0_u8; BYTES];
        let read = rustix::io::read(&self.descriptor, &mut bytes).ok()?;
        let word = |at| i32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let (number, sender) = (
            std::mem::offset_of!(libc::signalfd_siginfo, ssi_signo),
            std::mem::offset_of!(libc::signalfd_siginfo, ssi_pid),
        );
        (read == BYTES).then(|| (word(number), word(sender)))
    }
}

/// Puts this thread into a new network namespace.
///
/// # Errors
/// When the kernel does not let us.
pub fn leave_network_namespace() -> io::Result<()> {
    // SAFETY: CLONE_NEWNET changes which network is seen and nothing of memory or descriptors.
    checked(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Unblocks every signal: a program that waits for signals may have started this one with some blocked.
pub fn unblock_signals() {
    // SAFETY: the set is plain data, filled before it is read.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
    }
}

/// Gives this process what it needs of signals, whatever its caller ignores and blocks, which is inherited:
/// the kernel keeps how children end, and no signal waits for ever.
pub fn settle_signals() {
    // SAFETY: SIG_DFL runs no code of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    unblock_signals();
}

/// Does `work` while none of these signals comes; those that came meanwhile come at its end.
pub fn without_signals<T>(signals: &[c_int], work: impl FnOnce() -> T) -> T {
    // SAFETY: the sets are plain data, filled before they are read.
    let before = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for &signal in signals {
            libc::sigaddset(&mut set, signal);
        }
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_BLOCK, &set, &mut before);
        before
    };
    let done = work();
    // SAFETY: the kernel has filled the set.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &before, ptr::null_mut()) };
    done
}

/// Makes this process not notice a signal; a rank gets the default action again.
pub fn ignore_signal(signal: c_int) {
    // SAFETY: SIG_IGN runs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Gives a signal its default action, unblocks it and sends it to this process, as if it had never been
/// caught.
pub fn raise_default(signal: c_int) {
    // SAFETY: plain system calls on a set that is filled before it is read.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, &mut before);
        libc::kill(libc::getpid(), signal);
        libc::sigprocmask(libc::SIG_SETMASK, &before, ptr::null_mut());
    }
}

/// Takes over a descriptor that this program was started with, and makes it close-on-exec.
///
/// # Errors
/// When there is no such descriptor, it is one of the standard three, or has been opened or taken since.
pub fn take_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    let unknown = || io::Error::from_raw_os_error(libc::EBADF);
    if number <= 2 {
        return Err(unknown());
    }
    // SAFETY: a number that is open and would live through exec has come through one: what is opened here
    // would not, nor what was taken before. So nobody else owns it.
    unsafe {
        if checked(libc::fcntl(number, libc::F_GETFD))? & libc::FD_CLOEXEC != 0 {
            return Err(unknown());
        }
        checked(libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC))?;
        Ok(OwnedFd::from_raw_fd(number))
    }
}

/// Takes over the stdin that this program was started with, and leaves /dev/null in its place.
///
/// # Errors
/// When there is none, or it is no socket: then this program was not started by a front end or daemon.
pub fn take_stdin() -> io::Result<OwnedFd> {
    let stdin = rustix::stdio::stdin();
    rustix::net::sockopt::socket_type(stdin)?;
    let taken = rustix::io::fcntl_dupfd_cloexec(stdin, 3)?;
    let null = rustix::fs::open(
        "/dev/null",
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(taken)
}

/// Takes over the stdout that this program was started with, and leaves /dev/null in its place.
///
/// # Errors
/// When there is none.
pub fn take_stdout() -> io::Result<OwnedFd> {
    let taken = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
    let null = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty())?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(taken)
}

/// Whether this process was started without a standard output. Written once, before `main`.
static HAS_NO_STDOUT: AtomicBool = AtomicBool::new(false);

/// Called in front of the standard library's own begin, which puts /dev/null in the place of what is closed.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_STDOUT: extern "C" fn() = note_stdout;

extern "C" fn note_stdout() {
    // SAFETY: a plain system call.
    let is_closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0;
    HAS_NO_STDOUT.store(is_closed, Ordering::Relaxed);
}

/// Lets a standard output that this program was started without refuse what is written to it. Called at the
/// begin, by programs whose output is wanted.
pub fn settle_stdout() {
    if HAS_NO_STDOUT.load(Ordering::Relaxed) {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
        let null = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty());
        let _ = null.and_then(|null| rustix::stdio::dup2_stdout(&null));
    }
}

/// Name and description of a signal, e.g. `Segmentation fault`.
pub fn signal_name(signal: c_int) -> String {
    // SAFETY: strsignal returns a C string or null; this program is single-threaded.
    unsafe {
        let name = libc::strsignal(signal);
        if name.is_null() {
            return String::from("unknown");
        }
        CStr::from_ptr(name).to_string_lossy().into_owned()
    }
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
