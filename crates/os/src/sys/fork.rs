//! Forking a rank, and a sibling of this process. Between fork and exec only async-signal-safe calls are
//! made, on memory that was prepared before.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::process::Pid;
use rustix::thread::CpuSet;

use super::checked;

/// `clone3`: the child's pidfd is stored at `pidfd`. The constants of libc have types that differ between
/// targets.
const CLONE_PIDFD: u64 = 0x1000;
/// `clone3`: the child begins in the cgroup whose descriptor is in `cgroup`.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
/// `clone3`: the child is its parent's sibling.
const CLONE_PARENT: u64 = 0x8000;

/// Arguments of `clone3`, as far as version 2 of the structure (Linux 5.7).
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

const _: () = assert!(size_of::<CloneArguments>() == 88);

/// All that the child of a fork needs, prepared before, so that it allocates nothing.
#[derive(Clone, Copy)]
pub struct Child<'a> {
    /// The file to execute.
    pub file: &'a CStr,
    /// Arguments of the program.
    pub arguments: &'a [CString],
    /// Environment of the program, `NAME=value`, in several parts.
    pub environment: &'a [&'a [CString]],
    /// Working directory, if not ours.
    pub directory: Option<&'a CStr>,
    /// Standard input of the child; none: ours.
    pub input: Option<BorrowedFd<'a>>,
    /// Standard output of the child.
    pub output: BorrowedFd<'a>,
    /// Standard error of the child.
    pub errors: BorrowedFd<'a>,
    /// Descriptors that it keeps under their numbers.
    pub kept: &'a [BorrowedFd<'a>],
    /// The controlling terminal, of which it becomes the foreground process.
    pub terminal: Option<BorrowedFd<'a>>,
    /// The cores that it may use, if not all of ours.
    pub cores: Option<&'a CpuSet>,
    /// The cgroup to begin in.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// `cgroup.procs` of the cgroup to enter before anything else.
    pub enters: Option<BorrowedFd<'a>>,
    /// Soft and hard limit of open descriptors to set back to.
    pub descriptors_max: Option<(u64, u64)>,
    /// Close-on-exec pipe that takes a [`Failure`] if the program cannot be executed.
    pub failure: BorrowedFd<'a>,
    /// World rank of the child, for the failure.
    pub rank: u32,
}

/// Step that the child could not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    /// Preparations: descriptors, limits.
    Prepare = 0,
    /// Change to its working directory.
    Directory = 1,
    /// Execute the program.
    Execute = 2,
}

/// Message of a child that cannot become the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// World rank of the child.
    pub rank: u32,
    /// Step that it could not do.
    pub step: Step,
    /// The kernel's answer.
    pub errno: i32,
}

impl Failure {
    /// Bytes of an encoded failure; less than PIPE_BUF, so that those of several children do not mix.
    pub const BYTES: usize = 12;

    fn encode(self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[0..4].copy_from_slice(&self.rank.to_ne_bytes());
        out[4..8].copy_from_slice(&(self.step as u32).to_ne_bytes());
        out[8..12].copy_from_slice(&self.errno.to_ne_bytes());
        out
    }

    /// Reads one; `None` when it is not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let step = [Step::Prepare, Step::Directory, Step::Execute]
            .into_iter()
            .find(|step| *step as u32 == word(4))?;
        Some(Failure { rank: word(0), step, errno: word(8) as i32 })
    }
}

/// Forks a process that becomes `child`'s program, in a process group of its own, killed when this process
/// dies.
///
/// # Errors
/// When the kernel makes no process or does not let it into the cgroup.
pub fn fork_rank(child: &Child<'_>) -> io::Result<(Pid, OwnedFd)> {
    let arguments = pointers(&[child.arguments]);
    let environment = pointers(child.environment);
    let parent = rustix::process::getpid();
    // SAFETY: the child calls nothing but async-signal-safe functions and never returns from
    // `become_program`.
    match unsafe { fork_into(child.cgroup) }? {
        Some(forked) => Ok(forked),
        None => become_program(child, &arguments, &environment, parent),
    }
}

/// Forks a child that begins in this cgroup; gives its pid and a pidfd, and nothing in the child.
///
/// # Safety
/// The child has this thread alone, and whatever locks the others held: it calls async-signal-safe functions
/// only, on memory that was made before, and ends in exec or `_exit`.
pub(super) unsafe fn fork_into(cgroup: Option<BorrowedFd<'_>>) -> io::Result<Option<(Pid, OwnedFd)>> {
    let mut pidfd: c_int = -1;
    let request = CloneArguments {
        flags: CLONE_PIDFD | if cgroup.is_some() { CLONE_INTO_CGROUP } else { 0 },
        pidfd: ptr::from_mut(&mut pidfd) as u64,
        exit_signal: libc::SIGCHLD as u64,
        cgroup: cgroup.map_or(0, |cgroup| cgroup.as_raw_fd() as u64),
        ..CloneArguments::default()
    };
    // SAFETY: without CLONE_VM this is a fork: the child has a copy of this memory and only this thread; what
    // it does there the caller answers for.
    let result =
        unsafe { libc::syscall(libc::SYS_clone3, ptr::from_ref(&request), size_of::<CloneArguments>()) };
    match result {
        0 => Ok(None),
        1.. => {
            let pid = Pid::from_raw(result as i32).expect("positive");
            // SAFETY: CLONE_PIDFD stored a fresh descriptor that nobody else owns.
            Ok(Some((pid, unsafe { OwnedFd::from_raw_fd(pidfd) })))
        }
        _ => {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                // Containers whose seccomp filter does not know clone3.
                // SAFETY: as for the caller.
                Some(libc::ENOSYS | libc::EPERM) if cgroup.is_none() => unsafe { plain_fork() },
                _ => Err(error),
            }
        }
    }
}

/// Forks a process that is not a child of this one but of its parent, and runs `main`; gives its pidfd.
///
/// # Errors
/// When the kernel makes no such process.
pub fn fork_sibling(main: impl FnOnce()) -> io::Result<OwnedFd> {
    let mut pidfd: c_int = -1;
    let request = CloneArguments {
        flags: CLONE_PIDFD | CLONE_PARENT,
        pidfd: ptr::from_mut(&mut pidfd) as u64,
        ..CloneArguments::default()
    };
    // SAFETY: without CLONE_VM this is a fork; the process has one thread, so the child's copy of the memory
    // is whole and no lock in it is held by somebody who is not there. The child never returns from here.
    let result =
        unsafe { libc::syscall(libc::SYS_clone3, ptr::from_ref(&request), size_of::<CloneArguments>()) };
    match result {
        0 => {
            main();
            // SAFETY: no arguments but the status; nothing of the parent's is flushed or dropped.
            unsafe { libc::_exit(0) }
        }
        // SAFETY: CLONE_PIDFD stored a fresh descriptor that nobody else owns.
        1.. => Ok(unsafe { OwnedFd::from_raw_fd(pidfd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes a child that runs `main` and ends: its pid, and a descriptor of it. This process has one thread.
///
/// # Errors
/// When the kernel makes no process.
pub fn fork_helper(main: impl FnOnce()) -> io::Result<(Pid, OwnedFd)> {
    // SAFETY: the process has one thread, so the child's copy of the memory is whole and no lock in it is
    // held by a thread that is not there. The child never returns from here.
    match unsafe { plain_fork() }? {
        Some(child) => Ok(child),
        None => {
            main();
            // SAFETY: no arguments but the status; nothing of the parent's is flushed or dropped.
            unsafe { libc::_exit(0) }
        }
    }
}

/// Leaves terminal, session, folder and all descriptors but two behind; for the child of [`fork_sibling`] or
/// [`fork_helper`], which uses no others.
pub fn hide_process(name: &CStr, kept: [&OwnedFd; 2]) {
    let (low, high) = {
        let numbers = kept.map(AsRawFd::as_raw_fd);
        (numbers[0].min(numbers[1]), numbers[0].max(numbers[1]))
    };
    // SAFETY: plain system calls; whose descriptors are closed is said above, and their owners are never
    // dropped in this process.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        libc::prctl(libc::PR_SET_PDEATHSIG, 0);
        libc::chdir(c"/".as_ptr());
        for (first, last) in [(0, low - 1), (low + 1, high - 1), (high + 1, c_int::MAX)] {
            if first <= last {
                libc::syscall(libc::SYS_close_range, first, last, 0);
            }
        }
    }
}

/// # Safety
/// As [`fork_into`].
unsafe fn plain_fork() -> io::Result<Option<(Pid, OwnedFd)>> {
    // SAFETY: the caller answers for what the child does.
    let Some(pid) = Pid::from_raw(checked(unsafe { libc::fork() })?) else { return Ok(None) };
    let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    Ok(Some((pid, pidfd)))
}

pub(super) fn pointers(parts: &[&[CString]]) -> Vec<*const c_char> {
    let all = parts.iter().flat_map(|part| part.iter()).map(|text| text.as_ptr());
    all.chain([ptr::null()]).collect()
}

/// The child's whole life before exec. Async-signal-safe throughout: no allocation, no lock.
fn become_program(
    child: &Child<'_>,
    arguments: &[*const c_char],
    environment: &[*const c_char],
    parent: Pid,
) -> ! {
    let (step, errno) = match prepare(child, parent) {
        Err(failed) => failed,
        Ok(()) => {
            // SAFETY: all pointers are to C strings that live in the copy of the parent's memory; both arrays
            // end with null.
            unsafe { libc::execve(child.file.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
            (Step::Execute, errno())
        }
    };
    let bytes = Failure { rank: child.rank, step, errno }.encode();
    // SAFETY: plain system calls on a valid buffer and descriptor.
    unsafe {
        libc::write(child.failure.as_raw_fd(), bytes.as_ptr().cast(), bytes.len());
        libc::_exit(127)
    }
}

fn prepare(child: &Child<'_>, parent: Pid) -> Result<(), (Step, i32)> {
    let must = |result: c_int| if result < 0 { Err((Step::Prepare, errno())) } else { Ok(()) };
    // SAFETY: plain system calls; descriptors are open, pointers are to live values.
    unsafe {
        if let Some(enters) = child.enters {
            must(libc::write(enters.as_raw_fd(), c"0".as_ptr().cast(), 1) as c_int)?;
        }
        must(libc::setpgid(0, 0))?;
        must(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        if libc::getppid() != parent.as_raw_nonzero().get() {
            libc::_exit(127);
        }
        if let Some(terminal) = child.terminal {
            // From the background, which must not stop it.
            libc::signal(libc::SIGTTOU, libc::SIG_IGN);
            must(libc::tcsetpgrp(terminal.as_raw_fd(), libc::getpid()))?;
            libc::signal(libc::SIGTTOU, libc::SIG_DFL);
        }
        for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        must(libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut()))?;
        if let Some((soft, hard)) = child.descriptors_max {
            let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
        if let Some(cores) = child.cores {
            // A core may have gone since: then the rank keeps all of them.
            libc::sched_setaffinity(0, size_of::<CpuSet>(), ptr::from_ref(cores).cast());
        }
        if let Some(input) = child.input {
            must(libc::dup2(input.as_raw_fd(), 0))?;
        }
        for kept in child.kept {
            must(libc::fcntl(kept.as_raw_fd(), libc::F_SETFD, 0))?;
        }
        must(libc::dup2(child.output.as_raw_fd(), 1))?;
        must(libc::dup2(child.errors.as_raw_fd(), 2))?;
        if let Some(directory) = child.directory
            && libc::chdir(directory.as_ptr()) < 0
        {
            return Err((Step::Directory, errno()));
        }
    }
    Ok(())
}

pub(super) fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
