//! The system calls of the switch thread, all of them: a filter of the kernel's (seccomp) knows no
//! other. What a user could keep waiting, or what could be made of a mistake in this thread, is not in
//! the list: no file is mapped, nothing is executed, no other process's memory is touched.
//!
//! A call that is not in the list is refused with EPERM, and a line in the log says so; under
//! `TUTTI_SWITCH_CALLS=end`, as tests run it, it ends the daemon. Only the thread itself is held to it: it
//! has no children, and starts no threads.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_long;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

use super::clock::now_ns;

/// `end`: a call that is not in the list ends the daemon.
const VARIABLE: &str = "TUTTI_SWITCH_CALLS";

/// Calls at each switch.
const SWITCH: &[c_long] = &[
    libc::SYS_ppoll,
    // Bells of the daemon's own, files of cgroups, /proc.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    // Other threads of the daemon: locks and bells in its own memory.
    libc::SYS_futex,
    // Datagrams of the threads of other nodes.
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_clock_gettime,
];
/// Calls when jobs come and go, and for looks at processes: by /proc, and by signals for jobs
/// without a cgroup. What is opened is bounded by [`OPENED`].
const JOBS: &[c_long] = &[
    libc::SYS_close,
    // Files of cgroups, below their folder and through no link (`JobGroup::open_file`).
    libc::SYS_openat2,
    libc::SYS_getdents64,
    libc::SYS_statx,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_lseek,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_sched_yield,
];
/// Calls of language and C library: memory, the end of the thread, a panic.
const LIBRARY: &[c_long] = &[
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_mprotect,
    libc::SYS_getrandom,
    libc::SYS_sched_getaffinity,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_set_robust_list,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_tgkill,
];
/// Flags without which a file is opened: none is made, emptied or waited for.
const OPENED: u64 = (libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_APPEND) as u64;

/// The filter; none where nobody has written one for this kind of machine.
fn program() -> Result<BpfProgram, seccompiler::BackendError> {
    let flags = |argument, mask, value| {
        let wanted = SeccompCmpOp::MaskedEq(mask);
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, wanted, value)?;
        SeccompRule::new(vec![condition])
    };
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        [SWITCH, JOBS, LIBRARY].concat().into_iter().map(|call| (call, Vec::new())).collect();
    rules.insert(libc::SYS_openat, vec![flags(2, OPENED, 0)?]);
    // The C library's, which can be told to name its memory.
    rules.insert(libc::SYS_prctl, vec![flags(0, u64::from(u32::MAX), libc::PR_SET_VMA as u64)?]);
    // Memory of its own, and nobody's file.
    let anonymous = libc::MAP_ANONYMOUS as u64;
    rules.insert(libc::SYS_mmap, vec![flags(3, anonymous, anonymous)?]);
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Trap, SeccompAction::Allow, arch)?.try_into()
}

/// The calls that were refused to this thread.
#[derive(Debug, Default)]
pub(super) struct Refused(BTreeSet<i64>);

impl Refused {
    /// From now on this thread makes the calls of the list and no others. A line for the log, where that
    /// cannot be had.
    pub(super) fn restrict_this_thread() -> Option<String> {
        restrict(std::env::var_os(VARIABLE).is_some_and(|value| value == "end"))
    }

    /// A line for the log, once for each call that was refused.
    pub(super) fn poll_log_line(&mut self) -> Option<String> {
        let (call, first) = tutti_os::take_refused_call().filter(|(call, _)| self.0.insert(*call))?;
        Some(format!(
            "system call {call} ({first}, ...) was refused to the switch thread: report this, please"
        ))
    }
}

fn restrict(ends: bool) -> Option<String> {
    // The first look at the clock in a process, and the first at the size of a page, find out what the kernel
    // has given it, by calls that are not in the list. Threads that look at once each do so: this one has
    // done it from here on.
    let _ = (now_ns(), rustix::param::page_size());
    let done = tutti_os::handle_trapped_calls(ends)
        .map_err(|error| error.to_string())
        .and_then(|()| program().map_err(|error| error.to_string()))
        .and_then(|program| apply_filter(&program).map_err(|error| error.to_string()));
    done.err().map(|error| format!("the switch thread's system calls are not limited: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own, which ends with its filter.
    #[test]
    fn switch_thread_calls_outside_of_the_list_are_refused_with_a_line() {
        let said = std::thread::spawn(|| {
            let mut refused = Refused::default();
            assert_eq!(restrict(false), None);
            let made = std::env::temp_dir().join(format!("tutti-calls-{}", std::process::id()));
            let is_refused = |result: std::io::Result<std::fs::File>| {
                result.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
            };
            assert!(is_refused(std::fs::File::create(&made)), "a file is made");
            let said = refused.poll_log_line();
            // What it does is allowed.
            assert!(std::fs::File::open("/proc/self/stat").is_ok());
            assert!(is_refused(std::fs::File::create(&made)));
            (said, refused.poll_log_line(), made.exists())
        });
        let (said, again, exists) = said.join().unwrap();
        let line = format!("system call {} (", libc::SYS_openat);
        assert!(said.is_some_and(|said| said.starts_with(&line)));
        assert_eq!((again, exists), (None, false), "once");
    }
}
