use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::*;

const STRANGER: Identity<'static> = Identity { uid: 23_456, gid: 23_457, groups: &[] };

/// In a container root may not have it.
const CAP_SYS_RESOURCE: u32 = 24;

/// Output of a shell that begins with this, and what went wrong before it was one.
fn shell(
    script: &str,
    directory: &CStr,
    identity: Option<Identity<'_>>,
    session: Option<&Session>,
) -> (String, Option<EntryFailure>) {
    execute(c"/bin/sh", script, directory, identity, session)
}

fn execute(
    file: &CStr,
    script: &str,
    directory: &CStr,
    identity: Option<Identity<'_>>,
    session: Option<&Session>,
) -> (String, Option<EntryFailure>) {
    let (mut output_text, output) =
        pipe_with(PipeFlags::CLOEXEC).map(|(read, write)| (std::fs::File::from(read), write)).unwrap();
    let (mut failed, failure) =
        pipe_with(PipeFlags::CLOEXEC).map(|(read, write)| (std::fs::File::from(read), write)).unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    let arguments = [c"sh", c"-c"].map(CStr::to_owned);
    let arguments = [&arguments[..], &[CString::new(script).unwrap()]].concat();
    let environment = [c"PATH=/usr/bin:/bin:/usr/sbin:/sbin".to_owned()];
    let entry = Entry {
        file,
        arguments: &arguments,
        environment: &environment,
        directory,
        umask: 0o27,
        input: null.as_fd(),
        output: output.as_fd(),
        errors: output.as_fd(),
        identity,
        session,
        cores: None,
        cgroup: None,
        groups: &[],
        failure: failure.as_fd(),
    };
    let (_, pidfd) = fork_starter(&entry).unwrap();
    drop((output, failure));
    let (mut text, mut bytes) = (String::new(), Vec::new());
    output_text.read_to_string(&mut text).unwrap();
    failed.read_to_end(&mut bytes).unwrap();
    waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED).unwrap();
    (text, EntryFailure::decode(&bytes))
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        tutti_testkit::skip(tutti_testkit::Need::Root, "only root can become another user");
    }
    is_root
}

fn session() -> Session {
    let me = rustix::process::getpid();
    let pidfd = rustix::process::pidfd_open(me, rustix::process::PidfdFlags::empty()).unwrap();
    Session::of(me, pidfd.as_fd(), "here").unwrap()
}

#[test]
fn starter_is_the_user_with_its_groups_and_no_capabilities() {
    if !is_root() {
        return;
    }
    let groups: Vec<u32> = (40_000..40_100).collect();
    let script = "id -u; id -G; grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status; umask; cut -d' ' -f6 /proc/self/stat; echo $$";
    let (output_text, failed) = shell(script, c"/", Some(Identity { groups: &groups, ..STRANGER }), None);
    let lines: Vec<&str> = output_text.lines().collect();
    assert_eq!((failed, lines[0]), (None, "23456"));
    let output_text: Vec<u32> = lines[1].split(' ').map(|group| group.parse().unwrap()).collect();
    assert_eq!(output_text, [&[23_457], &groups[..]].concat());
    assert!(lines[2..6].iter().all(|line| line.ends_with("\t0000000000000000")), "{lines:?}");
    assert_eq!((lines[6], lines[7]), ("0027", lines[8]), "its session is its own: {lines:?}");
}

#[test]
fn starter_of_the_daemons_user_stays_in_its_session_without_a_terminal() {
    // Virtual nodes of one machine: between sessions sched_yield does nothing (autogroup).
    let (output_text, failed) = shell("cut -d' ' -f6,7 /proc/self/stat", c"/", None, None);
    // In a namespace whose first process has not begun it, the session has number 0.
    let own = std::fs::read_to_string("/proc/self/stat").unwrap();
    let session = own.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap();
    assert_eq!((failed, output_text.trim_end()), (None, format!("{session} 0").as_str()));
}

#[test]
fn starter_enters_its_directory_as_the_user() {
    if !is_root() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("tutti-entry-{}", std::process::id()));
    let inner: PathBuf = folder.join("inner");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    let path = CString::new(inner.to_str().unwrap()).unwrap();
    assert_eq!(shell("pwd", &path, None, None), (format!("{}\n", inner.display()), None));
    let (output_text, failed) = shell("pwd", &path, Some(STRANGER), None);
    let wanted = EntryFailure { step: EntryStep::Directory, errno: libc::EACCES };
    assert_eq!((output_text.as_str(), failed), ("", Some(wanted)));
    let (_, failed) = execute(c"/nothing", "", c"/", None, None);
    assert_eq!(failed, Some(EntryFailure { step: EntryStep::Execute, errno: libc::ENOENT }));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Calls of `chdir` by this thread and its children wait for somebody who reads here, as they do in a
/// directory that hangs. None, with a line: the kernel cannot do it.
fn hang_in_directories() -> Option<OwnedFd> {
    const SET_MODE_FILTER: c_int = 1;
    const NEW_LISTENER: c_int = 8;
    const NOTIFY: u32 = 0x7fc0_0000;
    const ALLOW: u32 = 0x7fff_0000;
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let program = [
        // The number of the call is the first of what the filter is given.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_chdir as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, NOTIFY),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, ALLOW),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the program lives for the call, and the kernel copies it.
    let listener = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, NEW_LISTENER, &raw const program)
    };
    if listener < 0 {
        tutti_testkit::skip(tutti_testkit::Need::Kernel, "no filter of system calls that somebody answers");
        return None;
    }
    // SAFETY: the kernel has opened it for this call, and nobody else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(listener as c_int) })
}

#[test]
fn starter_that_hangs_in_its_directory_has_no_descriptor_of_the_daemon() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let Some(listener) = hang_in_directories() else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let lock = std::fs::File::open("/proc/self/exe").unwrap();
    let (_failed, failure) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let null = std::fs::File::options().read(true).write(true).open("/dev/null").unwrap();
    let entry = Entry {
        file: c"/bin/true",
        arguments: &[c"true".to_owned()],
        environment: &[],
        directory: c"/",
        umask: 0o27,
        input: null.as_fd(),
        output: null.as_fd(),
        errors: null.as_fd(),
        identity: rustix::process::geteuid().is_root().then_some(STRANGER),
        session: None,
        cores: None,
        cgroup: None,
        groups: &[],
        failure: failure.as_fd(),
    };
    let (pid, pidfd) = fork_starter(&entry).unwrap();
    let most = Timespec { tv_sec: 60, tv_nsec: 0 };
    let hangs = poll(&mut [PollFd::new(&listener, PollFlags::IN)], Some(&most)).unwrap();
    let entries = std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()));
    let found = entries.map(|entries| {
        let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.collect::<std::collections::BTreeSet<c_int>>()
    });
    rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL).unwrap();
    waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED).unwrap();
    assert_eq!(hangs, 1, "it enters its directory");
    assert_eq!(found.unwrap(), [0, 1, 2, failure.as_raw_fd()].into());
    drop((port, lock));
}

#[test]
fn starter_has_the_limits_and_priorities_of_the_session() {
    let mut wanted = session();
    wanted.limits[libc::RLIMIT_NOFILE as usize] = (77, 99);
    wanted.limits[libc::RLIMIT_CORE as usize] = (0, 0);
    (wanted.nice, wanted.policy, wanted.oom_score_adjustment) = (7, libc::SCHED_BATCH, 500);
    wanted.no_new_privileges = true;
    let script = "ulimit -S -n; ulimit -H -n; ulimit -c; cut -d' ' -f19,41 /proc/self/stat; \
                  cat /proc/self/oom_score_adj; grep NoNewPrivs /proc/self/status";
    let found = shell(script, c"/", None, Some(&wanted));
    assert_eq!(found, ("77\n99\n0\n7 3\n500\nNoNewPrivs:\t1\n".into(), None));
    if is_root() {
        // Given by root, though a user may not lower any of it.
        let has_all = wanted.bounding >> CAP_SYS_RESOURCE & 1 == 1;
        let score = if has_all { -5 } else { wanted.oom_score_adjustment };
        (wanted.nice, wanted.oom_score_adjustment, wanted.no_new_privileges) = (-3, score, false);
        wanted.bounding &= !1;
        let script = "cut -d' ' -f19,41 /proc/self/stat; cat /proc/self/oom_score_adj; \
                      grep -e NoNew -e CapBnd /proc/self/status";
        let (output_text, _) = shell(script, c"/", Some(STRANGER), Some(&wanted));
        let bounding = format!("CapBnd:\t{:016x}\nNoNewPrivs:\t0\n", wanted.bounding);
        assert_eq!(output_text, format!("-3 3\n{score}\n{bounding}"));
    }
}

#[test]
fn starter_has_no_descriptor_keyring_or_signal_of_the_daemon() {
    let _open = std::fs::File::open("/dev/null").unwrap();
    // SAFETY: a descriptor of this test's, which is open.
    unsafe { libc::fcntl(_open.as_raw_fd(), libc::F_SETFD, 0) };
    let script =
        "ls -1 /proc/self/fd | tr '\\n' ' '; grep -E '^Sig(Ign|Blk)' /proc/self/status | tr -d '\\n'";
    // ls has its own.
    let found = shell(script, c"/", None, None);
    assert_eq!(found, ("0 1 2 3 SigBlk:\t0000000000000000SigIgn:\t0000000000000000".into(), None));
    // SAFETY: numbers and strings that end with zero.
    let key = unsafe {
        assert!(libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN, ptr::null::<u8>()) > 0, "keys");
        let text = c"secret";
        libc::syscall(libc::SYS_add_key, c"user".as_ptr(), c"tutti-test".as_ptr(), text.as_ptr(), 6, -3)
    };
    assert!(key > 0, "a key in the session keyring");
    let number = format!("{key:08x}");
    let stranger = rustix::process::geteuid().is_root().then_some(STRANGER);
    let (output_text, _) = shell("cat /proc/keys", c"/", stranger, None);
    assert!(
        output_text.contains("_ses") && (stranger.is_none() || !output_text.contains(&number)),
        "{output_text}"
    );
}

extern "C" fn ignore(_signal: c_int) {}

#[test]
fn look_is_not_ended_by_signals() {
    use rustix::event::{PollFd, PollFlags};
    use rustix::process::{PidfdFlags, getpid, pidfd_open};
    use std::sync::atomic::{AtomicBool, Ordering};

    let pidfd = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    // SAFETY: the handler does nothing, and no other test uses this signal.
    unsafe { libc::signal(libc::SIGUSR2, ignore as *const () as libc::sighandler_t) };
    // SAFETY: the call only gives this thread's name.
    let thread = unsafe { libc::pthread_self() };
    let is_over = AtomicBool::new(false);
    let wrong = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // SAFETY: the thread waits for the end of this scope.
                unsafe { libc::pthread_kill(thread, libc::SIGUSR2) };
            }
        });
        let looks = (0..2_000).map(|_| crate::look(&mut [PollFd::new(&pidfd, PollFlags::IN)]));
        let wrong = looks.filter(|found| *found != Ok(0)).count();
        is_over.store(true, Ordering::Relaxed);
        wrong
    });
    assert_eq!(wrong, 0, "looks at a living process");
}
