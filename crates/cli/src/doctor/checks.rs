//! Judgements over facts: pure, a function a subject.

use std::ffi::OsStr;

use crate::doctor::facts::Facts;
use crate::plain_name::Owner;
use serde::Serialize;
use tutti_os::PriorityClass;
use tutti_protocol::size;
use tutti_transport::udp::RECEIVE_BYTES;

use super::file::Found;

/// Files that a starter with many ranks has open: seven a rank and some more.
const FILES_MIN: u64 = 1024;

/// Finding about a subject, with its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub subject: &'static str,
    pub verdict: Verdict,
    /// Finding, and what follows from it.
    pub found: String,
    /// Advice what to do, if there is something.
    pub advice: Option<String>,
}

/// How a check ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    /// Works, and would work better.
    May,
    /// Needs something to be done.
    Fix,
}

impl Verdict {
    /// As lines begin.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "OK",
            Verdict::May => "MAY",
            Verdict::Fix => "FIX",
        }
    }
}

pub fn ok(subject: &'static str, found: impl Into<String>) -> Check {
    Check { subject, verdict: Verdict::Ok, found: found.into(), advice: None }
}

pub fn may(subject: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Check {
    Check { subject, verdict: Verdict::May, found: found.into(), advice: Some(advice.into()) }
}

pub fn fix(subject: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Check {
    Check { subject, verdict: Verdict::Fix, found: found.into(), advice: Some(advice.into()) }
}

/// All checks of one machine.
pub fn of_machine(facts: &Facts) -> Vec<Check> {
    vec![
        ok("version", format!("Tutti {}, Linux {}", facts.version, facts.kernel)),
        system_calls(facts),
        cgroups(facts),
        memory_controller(facts),
        real_time(facts),
        memory_lock(facts),
        copies(facts),
        offloads(facts),
        receive_buffer(facts),
        open_files(facts),
        turns(facts),
    ]
}

/// Checks of a node that matter to a job there, as a rank of it sees it.
pub fn of_rank(facts: &Facts) -> Vec<Check> {
    vec![system_calls(facts), copies(facts), offloads(facts), receive_buffer(facts), open_files(facts)]
}

/// A program, as it was found or not.
pub fn of_program(word: &OsStr, found: &Result<Found, String>) -> Check {
    match found {
        Ok(Found { path, bytes, sha256: Some(hash) }) => {
            ok("program", format!("{}, {bytes} bytes, SHA-256 {}", path.display(), &hash[..16]))
        }
        Ok(Found { path, bytes, sha256: None }) => {
            ok("program", format!("{}, {bytes} bytes; it may be executed, not read", path.display()))
        }
        Err(text) => {
            fix("program", text.clone(), format!("give a path at which {} can run", word.to_string_lossy()))
        }
    }
}

/// Program that a user gets who types `mpiexec`.
pub fn of_plain_name(owner: &Owner) -> Check {
    match owner.remark() {
        None => ok("mpiexec", "Tutti's"),
        Some((found, advice)) => may("mpiexec", found, advice),
    }
}

/// Without these no rank is started.
fn system_calls(facts: &Facts) -> Check {
    let calls = &facts.calls;
    let all = [("clone3", calls.clone3), ("pidfd_open", calls.pidfd), ("memfd_create", calls.memfd)];
    let missing: Vec<&str> = all.iter().filter(|(_, there)| !there).map(|(name, _)| *name).collect();
    if missing.is_empty() {
        return ok("system calls", "clone3, pidfd_open, memfd_create");
    }
    fix(
        "system calls",
        format!("refused: {}", missing.join(", ")),
        "Linux 5.14 or later has them; in a container allow them in its seccomp filter",
    )
}

fn cgroups(facts: &Facts) -> Check {
    let own = facts.cgroups.own.as_ref().map(|own| own.display().to_string());
    let without = "jobs take turns by SIGSTOP and SIGCONT";
    match (own, facts.uid) {
        (Some(own), _) if facts.cgroups.can_make && facts.cgroups.can_freeze => {
            ok("cgroups", format!("version 2, jobs get their own below {own}"))
        }
        (Some(own), 0) => fix(
            "cgroups",
            format!(
                "version 2, but none can be made below {own}: {without}, which users' processes can undo"
            ),
            "start tuttid as a service with Delegate=yes (systemd), or in a container with a writable /sys/fs/cgroup",
        ),
        (Some(own), _) => may(
            "cgroups",
            format!("version 2, but {own} is not delegated to you: {without}"),
            "systemd-run --user --scope -p Delegate=yes $SHELL, then start jobs there; or have root run tuttid",
        ),
        (None, 0) => fix(
            "cgroups",
            format!("version 2 is not mounted: {without}, which users' processes can undo"),
            "mount -t cgroup2 none /sys/fs/cgroup/unified, or boot with systemd.unified_cgroup_hierarchy=1",
        ),
        (None, _) => may(
            "cgroups",
            format!("version 2 is not mounted: {without}"),
            "ask root to boot with systemd.unified_cgroup_hierarchy=1",
        ),
    }
}

fn memory_controller(facts: &Facts) -> Check {
    let cgroups = &facts.cgroups;
    let has = |list: &[String]| list.iter().any(|name| name == "memory");
    let counted = "--memory is counted, not enforced";
    if has(&cgroups.passed_on) || (facts.uid == 0 && has(&cgroups.controllers) && cgroups.can_make) {
        return ok("memory limits", "jobs can be held to what they declare with --memory");
    }
    // Root's daemon makes its jobs' groups there too.
    if facts.uid == 0 && has(&cgroups.version1) {
        return ok(
            "memory limits",
            "jobs can be held to what they declare with --memory (version 1 of cgroups)",
        );
    }
    if has(&cgroups.version1) {
        return may(
            "memory limits",
            format!("version 1 of cgroups has the memory controller: {counted}"),
            "boot with cgroup_no_v1=memory or systemd.unified_cgroup_hierarchy=1",
        );
    }
    may(
        "memory limits",
        format!("the memory controller does not reach jobs' cgroups: {counted}"),
        "give the service of tuttid Delegate=memory pids cpu and DelegateSubgroup=daemon (systemd 254 or later)",
    )
}

fn real_time(facts: &Facts) -> Check {
    match facts.priority_class {
        PriorityClass::Fifo | PriorityClass::Kit => {
            ok("real time", format!("priority class of the switch thread: {}", facts.priority_class.name()))
        }
        priority_class => may(
            "real time",
            format!(
                "priority class of the switch thread: {}: on a busy machine they come some ms late",
                priority_class.name()
            ),
            "install rtkit, or allow it in /etc/security/limits.conf: \"@users - rtprio 50\"; a service: LimitRTPRIO=50",
        ),
    }
}

fn memory_lock(facts: &Facts) -> Check {
    match facts.lock_bytes {
        None => ok("memory lock", "no limit"),
        Some(bytes) => may(
            "memory lock",
            format!(
                "at most {}: the switch thread's memory is not locked, so it waits for pages on a full machine",
                size::text(bytes)
            ),
            "\"@users - memlock unlimited\" in /etc/security/limits.conf; a service: LimitMEMLOCK=infinity",
        ),
    }
}

fn copies(facts: &Facts) -> Check {
    let slow = "large messages between ranks of a machine are copied twice";
    match facts.processes.ptrace_scope {
        _ if !facts.calls.process_vm => may(
            "single copies",
            format!("process_vm_readv is refused: {slow}"),
            "in a container allow it in the seccomp filter",
        ),
        Some(scope @ 2..) => may(
            "single copies",
            format!("kernel.yama.ptrace_scope is {scope}: {slow}"),
            "sysctl -w kernel.yama.ptrace_scope=1, which is enough",
        ),
        _ => ok("single copies", "process_vm_readv works between ranks"),
    }
}

fn offloads(facts: &Facts) -> Check {
    match (facts.calls.gso, facts.calls.gro) {
        (true, true) => ok("UDP", "runs of datagrams are sent (GSO) and received (GRO) as one"),
        (gso, _) => may(
            "UDP",
            format!("no {}: large messages between nodes are slower", if gso { "GRO" } else { "GSO" }),
            "Linux 5.0 or later has both",
        ),
    }
}

fn receive_buffer(facts: &Facts) -> Check {
    let wanted = RECEIVE_BYTES as u64 / 2;
    match facts.receive_bytes.filter(|bytes| *bytes < wanted) {
        None => ok("receive buffers", "as large as wanted"),
        Some(bytes) => may(
            "receive buffers",
            format!(
                "at most {}: fast senders on other nodes wait for slow receivers sooner",
                size::text(bytes)
            ),
            format!("sysctl -w net.core.rmem_max={wanted}"),
        ),
    }
}

fn open_files(facts: &Facts) -> Check {
    match facts.files_max {
        Some(files) if files < FILES_MIN => fix(
            "open files",
            format!(
                "at most {files}: too few for jobs of more than {} ranks on a node",
                files.saturating_sub(64) / 7
            ),
            format!("ulimit -n {FILES_MIN}, or \"@users - nofile {FILES_MIN}\" in /etc/security/limits.conf"),
        ),
        Some(files) => ok("open files", format!("at most {files}")),
        None => ok("open files", "no limit"),
    }
}

fn turns(facts: &Facts) -> Check {
    if facts.processes.are_hidden {
        return may(
            "turns",
            "/proc hides other users' processes (hidepid): without root's daemon users' jobs take no turns",
            "run a daemon as root, or: mount -o remount,hidepid=0 /proc",
        );
    }
    ok("turns", "/proc shows whether other users' jobs work")
}

#[cfg(test)]
pub mod tests {
    use crate::doctor::facts::{Calls, Cgroups, Processes};

    use super::*;

    pub fn well() -> Facts {
        let strings = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Facts {
            version: "1".into(),
            kernel: "6.1".into(),
            uid: 1000,
            cgroups: Cgroups {
                own: Some("/sys/fs/cgroup/user".into()),
                controllers: strings(&["memory"]),
                passed_on: strings(&["memory"]),
                version1: Vec::new(),
                can_make: true,
                can_freeze: true,
            },
            priority_class: PriorityClass::Fifo,
            lock_bytes: None,
            files_max: Some(4096),
            receive_bytes: None,
            calls: Calls { clone3: true, pidfd: true, memfd: true, process_vm: true, gso: true, gro: true },
            processes: Processes { ptrace_scope: Some(1), are_hidden: false },
            ..Facts::default()
        }
    }

    fn verdict(facts: &Facts, subject: &str) -> Verdict {
        let checks = of_machine(facts);
        checks.iter().find(|check| check.subject == subject).expect("the subject").verdict
    }

    #[test]
    fn doctor_finds_nothing_on_a_machine_that_has_all() {
        let checks = of_machine(&well());
        assert!(
            checks.iter().all(|check| check.verdict == Verdict::Ok && check.advice.is_none()),
            "{checks:?}"
        );
    }

    #[test]
    fn doctor_says_what_to_do_about_each_thing_that_is_missing() {
        type Change = fn(&mut Facts);
        let changes: [(&str, Verdict, Change); 14] = [
            ("system calls", Verdict::Fix, |facts| facts.calls.clone3 = false),
            ("system calls", Verdict::Fix, |facts| facts.calls.memfd = false),
            ("cgroups", Verdict::May, |facts| facts.cgroups.can_make = false),
            ("cgroups", Verdict::May, |facts| facts.cgroups.own = None),
            ("cgroups", Verdict::Fix, |facts| (facts.uid, facts.cgroups.can_freeze) = (0, false)),
            ("cgroups", Verdict::Fix, |facts| (facts.uid, facts.cgroups.own) = (0, None)),
            ("memory limits", Verdict::May, |facts| facts.cgroups.passed_on.clear()),
            ("real time", Verdict::May, |facts| facts.priority_class = PriorityClass::Nice),
            ("memory lock", Verdict::May, |facts| facts.lock_bytes = Some(8 << 20)),
            ("single copies", Verdict::May, |facts| facts.processes.ptrace_scope = Some(2)),
            ("UDP", Verdict::May, |facts| facts.calls.gro = false),
            ("receive buffers", Verdict::May, |facts| facts.receive_bytes = Some(212_992)),
            ("open files", Verdict::Fix, |facts| facts.files_max = Some(256)),
            ("turns", Verdict::May, |facts| facts.processes.are_hidden = true),
        ];
        for (subject, expected, change) in changes {
            let mut facts = well();
            change(&mut facts);
            assert_eq!(verdict(&facts, subject), expected, "{subject}");
            let others = of_machine(&facts).into_iter().filter(|check| check.verdict != Verdict::Ok);
            let others: Vec<Check> = others.collect();
            assert!(others.iter().all(|check| check.advice.is_some()), "{others:?}");
        }
    }

    #[test]
    fn doctor_program_that_cannot_run_must_be_fixed() {
        let missing = of_program(OsStr::new("./a.out"), &Err("no such file".into()));
        assert_eq!((missing.verdict, missing.found.as_str()), (Verdict::Fix, "no such file"));
    }
}
