//! What is left when ranks are dead: children of theirs that went on by themselves. This process is their subreaper, so
//! the orphans among them are its children, and a chain of living processes always begins at one of them.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::stat::Stat;

/// How long a killed process may take to die (it may hang inside the kernel) before it is left alone.
const DEATH_MAX: Duration = Duration::from_secs(10);

/// Whether this process has any child, dead or alive.
pub fn any() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, options), Err(rustix::io::Errno::CHILD))
}

/// Takes the status of dead orphans; `kept` are ranks whose pids must stay theirs (W10).
pub fn reap_orphans(kept: impl Fn(Pid) -> bool) {
    for pid in children_of(rustix::process::getpid()) {
        if !kept(pid) {
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }
}

/// Sends a signal to every descendant but the child `spared` and what is below it, once.
pub fn signal_all(spared: Option<Pid>, signal: Signal) {
    let me = rustix::process::getpid();
    let children = children_of(me).into_iter().filter(|child| Some(*child) != spared).collect();
    for pid in with_descendants(children) {
        let _ = kill_process(pid, signal);
    }
}

/// All descendants of a process; one that is forked meanwhile may be missing.
pub fn all_of(pid: Pid) -> Vec<Pid> {
    with_descendants(children_of(pid))
}

fn with_descendants(mut found: Vec<Pid>) -> Vec<Pid> {
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        // Children before anything is done to them: a parent that dies gives them to its subreaper, where the next pass finds them.
        found.extend(children_of(pid));
        next += 1;
        assert!(found.len() < 1 << 22, "more descendants than a machine has processes");
    }
    found
}

/// Kills and reaps every descendant but the child `spared` and what is below it, until no other is left. `false` when one does not
/// die.
pub fn end_all(spared: Option<Pid>, mut kill: impl FnMut()) -> bool {
    let deadline = Instant::now() + DEATH_MAX;
    let any = || match spared {
        None => any(),
        Some(_) => children_of(rustix::process::getpid()).into_iter().any(|child| Some(child) != spared),
    };
    while any() {
        kill();
        signal_all(spared, Signal::KILL);
        if Instant::now() > deadline {
            return false;
        }
        reap_all();
        if any() {
            std::thread::sleep(Duration::from_micros(500));
        }
        reap_all();
    }
    true
}

/// Takes the status of every dead child.
pub fn reap_all() {
    while let Ok(Some(_)) = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {}
}

/// The children of all threads of a process; none when it is gone.
fn children_of(pid: Pid) -> Vec<Pid> {
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
