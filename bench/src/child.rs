//! Runs one program with a time limit and leaves nothing of it behind.
//!
//! Launchers fork helpers and ranks into process groups and sessions of their own, so killing one group is
//! not enough: [`become_reaper`] makes this process the new parent of every orphan, and after each run
//! whatever still descends from us is killed.

use std::{
    fs,
    io::Read,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitOptions};

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Status 0.
    Well,
    /// Over its time limit, and killed.
    Timeout,
    /// Another status, or it could not be started; the sentence says which, with the last line it wrote.
    Failed(String),
}

/// Outcome of a run.
pub struct Ran {
    /// How it ended.
    pub end: End,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
    /// From start to end.
    pub took: Duration,
    /// When it ended, also if nobody waited for it then.
    pub ended: Instant,
    /// Processes that were alive after it ended well.
    pub left_behind: usize,
}

/// Orphans of the programs we run become our children from now on.
pub fn become_reaper() {
    // Any non-zero value means yes; without it only the time-out of strange launchers would be less thorough.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// A run that has begun; [`Running::finish`] waits for it.
pub struct Running {
    start: Instant,
    pid: Pid,
    end: mpsc::Receiver<(std::io::Result<ExitStatus>, Instant)>,
    stdout: thread::JoinHandle<String>,
    stderr: thread::JoinHandle<String>,
}

/// Starts a program with empty standard input.
pub fn start(command: &mut Command) -> Result<Running, String> {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let pid = Pid::from_child(&child);
    let stdout = read_to_end(child.stdout.take().expect("piped"));
    let stderr = read_to_end(child.stderr.take().expect("piped"));
    let (ended, end) = mpsc::channel();
    thread::spawn(move || ended.send((child.wait(), Instant::now())));
    Ok(Running { start, pid, end, stdout, stderr })
}

impl Running {
    /// Waits until the end or until `limit` after the start.
    pub fn finish(self, limit: Duration) -> Ran {
        self.finish_or(limit, || ())
    }

    /// The same; `look` sees what hangs before it is killed.
    pub fn finish_or(self, limit: Duration, look: impl FnOnce()) -> Ran {
        let left = limit.saturating_sub(self.start.elapsed());
        let in_time = self.end.recv_timeout(left);
        let ended = in_time.as_ref().map_or_else(|_| Instant::now(), |(_, ended)| *ended);
        let took = ended - self.start;
        if in_time.is_err() {
            look();
            // First a word to the launcher, which knows its ranks; then the rest by force.
            let _ = rustix::process::kill_process_group(self.pid, Signal::TERM);
            let _ = self.end.recv_timeout(Duration::from_secs(1));
        }
        let left_behind = if in_time.is_err() { kill_descendants(&[]) } else { 0 };
        let stdout = self.stdout.join().unwrap_or_default();
        let stderr = self.stderr.join().unwrap_or_default();
        let end = match in_time.map(|(status, _)| status) {
            Err(_) => End::Timeout,
            Ok(Ok(status)) if status.success() => End::Well,
            Ok(Ok(status)) => End::Failed(describe(status, &stderr)),
            Ok(Err(error)) => End::Failed(format!("cannot be waited for: {error}")),
        };
        Ran { end, stdout, stderr, took, ended, left_behind }
    }
}

/// Runs a program to its end or limit.
pub fn run(command: &mut Command, limit: Duration) -> Ran {
    match start(command) {
        Ok(running) => {
            let mut ran = running.finish(limit);
            ran.left_behind += kill_descendants(&[]);
            ran
        }
        Err(error) => Ran {
            end: End::Failed(error),
            stdout: String::new(),
            stderr: String::new(),
            took: Duration::ZERO,
            ended: Instant::now(),
            left_behind: 0,
        },
    }
}

/// Kills all that descends from this process, `spared` excepted; gives how many processes there were.
pub fn kill_descendants(spared: &[Pid]) -> usize {
    let mut killed = 0;
    // Each round may turn grandchildren into children; a few rounds reach the bottom.
    for _ in 0..20 {
        let found: Vec<Pid> = descendants().into_iter().filter(|pid| !spared.contains(pid)).collect();
        if found.is_empty() {
            break;
        }
        for &pid in &found {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        killed += found.len();
        for pid in found {
            // Only our own children can be waited for; the others are reaped by their parents or come to us.
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
        }
    }
    killed
}

/// All living processes below this one, from /proc. A zombie counts as gone, but is reaped if it is ours.
fn descendants() -> Vec<Pid> {
    let mut parents: Vec<(i32, i32)> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // pid (name, which may hold anything) state ppid ...
        let Some((_, after_name)) = stat.rsplit_once(')') else { continue };
        let mut fields = after_name.split_whitespace();
        let state = fields.next();
        let Some(parent) = fields.next().and_then(|field| field.parse::<i32>().ok()) else { continue };
        if state == Some("Z") {
            if let Some(pid) = Pid::from_raw(pid).filter(|_| parent == std::process::id() as i32) {
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
            }
            continue;
        }
        parents.push((pid, parent));
    }
    let mut below = vec![std::process::id() as i32];
    let mut next = 0;
    while let Some(&parent) = below.get(next) {
        below.extend(parents.iter().filter(|&&(_, p)| p == parent).map(|&(pid, _)| pid));
        next += 1;
    }
    below[1..].iter().filter_map(|&pid| Pid::from_raw(pid)).collect()
}

fn read_to_end(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn describe(status: ExitStatus, stderr: &str) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or(0)),
    };
    let lines = || stderr.lines().map(str::trim);
    // A compiler says first what is wrong, and last that something is.
    let said = lines().find(|line| line.contains(": error: "));
    match said.or_else(|| lines().rfind(|line| line.chars().any(char::is_alphanumeric))) {
        Some(line) => format!("{how}: {line}"),
        None => how,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    // The tests share one process under `cargo test`, and the end of one run kills all descendants: one after
    // another.
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn child_output_and_status_are_returned() {
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let ran = run(&mut sh("echo one; echo two"), Duration::from_secs(20));
        assert_eq!((ran.end, ran.stdout.as_str()), (End::Well, "one\ntwo\n"));
        let ran = run(&mut sh("echo why >&2; exit 3"), Duration::from_secs(20));
        assert_eq!(ran.end, End::Failed("status 3: why".into()));
    }

    #[test]
    fn child_hung_is_killed_with_its_descendants() {
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        become_reaper();
        let ran = run(
            &mut sh("setsid sleep 1000 & trap '' TERM; sleep 1000; sleep 1000"),
            Duration::from_millis(300),
        );
        assert_eq!(ran.end, End::Timeout);
        assert_eq!(descendants(), []);
    }
}
