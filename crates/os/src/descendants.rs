//! Descendants that remain when ranks are dead. This process is their subreaper, so the orphans among them
//! are its children. A chain of living processes always begins at one of them.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::stat::Stat;
use crate::stderr::escape_control;
use crate::sys::kernel::shares_memory;

/// How long a killed process may take to die (it may hang inside the kernel) before it is left alone.
const DEATH_MAX: Duration = Duration::from_secs(10);

/// Whether this process has any child, dead or alive.
pub fn any() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::All, options) {
        Ok(_) => true,
        Err(rustix::io::Errno::CHILD) => false,
        // A filter of system calls forbids to ask.
        Err(_) => !children_of(rustix::process::getpid()).is_empty(),
    }
}

/// Whether a process is the server of a starter's job: it executes the starter's own file. A rank between
/// fork and exec has another name.
pub fn is_server(stat: &Stat, pid: Pid, starter: Pid) -> bool {
    let file = |pid: Pid| std::fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero())).ok();
    stat.has_server_name
        && stat.parent == starter.as_raw_nonzero().get()
        && file(pid).is_some_and(|own| Some(own) == file(starter))
}

/// Whether a process waits inside the kernel for a child of its that is stopped and still uses its memory
/// (vfork, posix_spawn). It does nothing until the child goes on, and no signal but SIGKILL reaches it
/// before. `all` has its children.
pub fn is_held_by_child(stat: &Stat, pid: Pid, all: &[Pid]) -> bool {
    let is_stopped_child = |child: &&Pid| {
        let stat = Stat::of(**child);
        stat.is_some_and(|stat| stat.parent == pid.as_raw_nonzero().get() && stat.is_stopped())
    };
    // Where the kernel does not say who shares memory it may say where a process waits.
    let waits_in_fork = || {
        let place = std::fs::read_to_string(format!("/proc/{}/wchan", pid.as_raw_nonzero()));
        place.is_ok_and(|place| matches!(place.trim(), "kernel_clone" | "_do_fork" | "do_fork"))
    };
    let uses_its_memory = |child: &Pid| shares_memory(*child, pid).unwrap_or_else(|_| waits_in_fork());
    stat.state == b'D' && all.iter().filter(is_stopped_child).any(uses_its_memory)
}

/// Takes the status of dead orphans; `is_reserved` are ranks whose pids must stay theirs.
pub fn reap_orphans(is_reserved: impl Fn(Pid) -> bool) {
    for pid in children_of(rustix::process::getpid()) {
        if !is_reserved(pid) {
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }
}

/// Sends a signal to every descendant but the child `spared` and what is below it, once.
pub fn signal_all(spared: Option<Pid>, signal: Signal) {
    let me = rustix::process::getpid();
    let children = children_of(me).into_iter().filter(|child| Some(*child) != spared).collect();
    for pid in with_descendants(children, None) {
        let _ = kill_process(pid, signal);
    }
}

/// All descendants of a process but the caller and what is below it: a daemon that an mpiexec has started is
/// that one's child at first. One that is forked meanwhile may be missing.
pub fn all_of(pid: Pid) -> Vec<Pid> {
    let own = rustix::process::getpid();
    let mut children = children_of(pid);
    children.retain(|child| *child != own);
    with_descendants(children, Some(own))
}

/// The same, of a process with at most `limit` processes and threads below it, itself counted; none of one
/// that has more. So the time is bounded, however many there are.
pub fn some_of(pid: Pid, limit: usize) -> Option<Vec<Pid>> {
    let own = rustix::process::getpid();
    let (mut found, mut next, mut left) = (vec![pid], 0, limit);
    while let Some(&pid) = found.get(next) {
        next += 1;
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else { continue };
        for thread in threads.flatten() {
            left = left.checked_sub(1)?;
            // One that has just gone has given its children to another thread of its process, or to the
            // starter, for the next pass. Where the kernel has no such file all processes of the machine
            // would have to be looked at.
            let path = thread.path();
            let text = match std::fs::read_to_string(path.join("children")) {
                Ok(text) => text,
                Err(_) if path.exists() => return None,
                Err(_) => continue,
            };
            let children = text.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
            found.extend(children.filter(|child| *child != own));
            if found.len() > limit {
                return None;
            }
        }
    }
    found.swap_remove(0);
    Some(found)
}

/// Processes with what is below them, but not what is below `spared`.
fn with_descendants(mut found: Vec<Pid>, spared: Option<Pid>) -> Vec<Pid> {
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        // Children before anything is done to them: a parent that dies gives them to its subreaper, where the
        // next pass finds them.
        found.extend(children_of(pid).into_iter().filter(|child| Some(*child) != spared));
        next += 1;
        assert!(found.len() < 1 << 22, "more descendants than a machine has processes");
    }
    found
}

/// Kills and reaps every descendant but the child `spared` and what is below it, until no other is left.
/// Gives those that do not die.
pub fn end_all(spared: Option<Pid>, mut kill: impl FnMut()) -> Vec<Pid> {
    let deadline = Instant::now() + DEATH_MAX;
    let any = || match spared {
        None => any(),
        Some(_) => children_of(rustix::process::getpid()).into_iter().any(|child| Some(child) != spared),
    };
    while any() {
        kill();
        signal_all(spared, Signal::KILL);
        if Instant::now() > deadline {
            let children = children_of(rustix::process::getpid());
            let left = children.into_iter().filter(|child| Some(*child) != spared).collect();
            return with_descendants(left, None);
        }
        reap_all();
        if any() {
            std::thread::sleep(Duration::from_micros(500));
        }
        reap_all();
    }
    Vec::new()
}

/// Name and number of a process, for people.
pub fn name(pid: Pid) -> String {
    let pid = pid.as_raw_nonzero();
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{} (pid {pid})", escape_control(name.trim_end()))
}

/// Name of a process that does not die: with the letter of its state, and the function of the kernel in which
/// it waits, where the kernel tells that.
pub fn name_with_state(pid: Pid) -> String {
    let state = Stat::of(pid).map_or('?', |stat| char::from(stat.state));
    let place = std::fs::read_to_string(format!("/proc/{}/wchan", pid.as_raw_nonzero())).unwrap_or_default();
    let place = Some(escape_control(place.trim())).filter(|place| !place.is_empty() && place != "0");
    let waits = place.map(|place| format!(", waits in {place}")).unwrap_or_default();
    format!("{} in state {state}{waits}", name(pid))
}

/// Takes the status of every dead child.
pub fn reap_all() {
    while let Ok(Some(_)) = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {}
}

/// The children of all threads of a process; none when it is gone.
pub fn children_of(pid: Pid) -> Vec<Pid> {
    let folder = format!("/proc/{}/task", pid.as_raw_nonzero());
    let Ok(threads) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut children = Vec::new();
    for thread in threads.flatten() {
        match std::fs::read_to_string(thread.path().join("children")) {
            Ok(text) => {
                children
                    .extend(text.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
            }
            // A kernel without that file, or a thread that has just gone.
            Err(_) => return children_by_parent(pid),
        }
    }
    children
}

/// The same by looking at every process of the machine.
fn children_by_parent(parent: Pid) -> Vec<Pid> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child =
        |pid: &Pid| Stat::of(*pid).is_some_and(|stat| stat.parent == parent.as_raw_nonzero().get());
    pids.filter_map(Pid::from_raw).filter(is_child).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_of_a_parent_are_without_its_caller_and_what_is_below() {
        let own = rustix::process::getpid();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let parent = rustix::process::getppid().unwrap();
        assert!(children_of(parent).contains(&own));
        let all = all_of(parent);
        assert!(!all.contains(&own) && !all.contains(&Pid::from_child(&child)));
        assert!(children_of(own).contains(&Pid::from_child(&child)));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn descendants_are_counted_up_to_a_limit() {
        let script = "for i in 1 2 3; do sleep 60 & done; sleep 60 & wait";
        let mut child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        let pid = Pid::from_child(&child);
        while some_of(pid, 100).is_none_or(|found| found.len() < 4) {
            std::thread::yield_now();
        }
        assert_eq!(some_of(pid, 5).map(|found| found.len()), Some(4));
        assert_eq!((some_of(pid, 4), some_of(pid, 0)), (None, None));
        let all = all_of(pid);
        child.kill().unwrap();
        child.wait().unwrap();
        all.into_iter().for_each(|pid| kill_process(pid, Signal::KILL).unwrap());
        assert_eq!(some_of(pid, 5), Some(Vec::new()), "it is gone");
    }

    #[test]
    fn process_is_named_with_its_state_and_its_place_in_the_kernel() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let is_asleep = || Stat::of(pid).is_some_and(|stat| stat.state == b'S');
        while !(name(pid).starts_with("sleep ") && is_asleep()) {
            std::thread::yield_now();
        }
        let known = format!("sleep (pid {}) in state S", child.id());
        let named = name_with_state(pid);
        let place = named.strip_prefix(&known).unwrap_or_else(|| panic!("{named}"));
        assert!(place.is_empty() || place.starts_with(", waits in "), "{named}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(name_with_state(pid).ends_with(" in state ?"));
    }

    #[test]
    fn descendants_are_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert!(children_of(rustix::process::getpid()).contains(&pid));
        assert!(children_by_parent(rustix::process::getpid()).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!children_of(rustix::process::getpid()).contains(&pid));
    }
}
