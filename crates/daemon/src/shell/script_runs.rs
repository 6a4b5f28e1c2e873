//! Scripts of the keeper that run, each in a group of processes of its own, and the parts of jobs that wait
//! for one, or for their turn to begin.

use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, PipeWriter, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tutti_os::stderr::is_deceptive;
use tutti_protocol::wire::{self, Job, Kind};

use super::orphans::{KILLED_MAX, Wards, await_end_blocking};
use super::script_files::{Around, checked};
use crate::core::record::StarterRecord;
use crate::message::{JobId, Launch};

/// Bytes of what a script says that are kept: the last ones.
const SAID_BYTES_MAX: usize = 4096;
/// Characters of its last line in a reason.
const LINE_CHARS_MAX: usize = 120;
/// Frames for a starter while the prolog runs, and their bytes.
const FRAMES_MAX: usize = 4096;
const FRAMES_BYTES_MAX: usize = 16 << 20;
/// Between two looks for the end of a script that has closed its output.
const LOOK: Duration = Duration::from_millis(100);

/// Group of processes of a script that runs.
#[derive(Debug, Default)]
pub(super) struct Group {
    state: Mutex<GroupState>,
}

#[derive(Debug, Default)]
struct GroupState {
    /// Number of the group, until the script's status is taken: then it may be anybody's.
    leader: Option<Pid>,
    stopped: bool,
}

impl Group {
    /// Calls `act` with its state.
    fn with<T>(&self, act: impl FnOnce(&mut GroupState) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn kill(&self) {
        self.with(|state| {
            state.leader.iter().for_each(|leader| _ = kill_process_group(*leader, Signal::KILL))
        });
    }

    /// Whether it was stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.with(|state| state.stopped)
    }

    /// Kills it: nobody wants it any more.
    fn stop(&self) {
        self.with(|state| state.stopped = true);
        self.kill();
    }
}

/// A script that runs.
pub(super) struct Script {
    what: &'static str,
    path: PathBuf,
    child: Child,
    process: OwnedFd,
    said: std::io::PipeReader,
    /// End of its runner's stdin: the runner sees that this daemon lives.
    _alive: PipeWriter,
    group: Arc<Group>,
    most: Duration,
    wards: Wards,
}

impl Script {
    /// Starts it by the command that `run` makes for its file. In the thread that starts all: no look for
    /// orphans comes between.
    pub(super) fn start(
        (what, path): (&'static str, &Path),
        (around, node): (&Around, &str),
        most: Duration,
        wards: &Wards,
        run: impl FnOnce(&Path) -> Command,
    ) -> Result<Self, String> {
        let failed = |why: &dyn std::fmt::Display| format!("the {what} {}: {why}", path.display());
        let file = checked(path).map_err(|why| failed(&why))?;
        let (said, end) = std::io::pipe().map_err(|error| failed(&error))?;
        rustix::io::ioctl_fionbio(&said, true).map_err(|error| failed(&error))?;
        let errors = end.try_clone().map_err(|error| failed(&error))?;
        let (input, alive) = std::io::pipe().map_err(|error| failed(&error))?;
        let child = run(&file)
            .env_clear()
            .envs(around.environment(what, node))
            .stdin(input)
            .stdout(end)
            .stderr(errors)
            .spawn()
            .map_err(|error| failed(&error))?;
        wards.add(child.id());
        let pid = Pid::from_child(&child);
        let group = Arc::new(Group::default());
        group.with(|state| state.leader = Some(pid));
        let process = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| {
            group.stop();
            wards.give_up(child.id());
            failed(&error)
        })?;
        let (path, wards) = (path.to_owned(), wards.clone());
        Ok(Script { what, path, child, process, said, _alive: alive, group, most, wards })
    }

    /// Waits for its end; the error is a line that says how it has failed.
    fn finish_blocking(mut self) -> Result<(), String> {
        let deadline = Instant::now() + self.most;
        let mut said = Vec::new();
        let is_over = loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            match self.await_blocking(&mut said, rest) {
                Some(true) => break true,
                Some(false) => {}
                None => break false,
            }
        };
        if !is_over {
            self.group.kill();
        }
        let is_dead = is_over || await_end_blocking(&self.process, KILLED_MAX);
        let was_stopped = self.group.with(|state| {
            state.leader = None;
            state.stopped
        });
        let how = if is_dead {
            let status = self.child.wait();
            self.wards.remove(self.child.id());
            match status {
                Ok(status) if status.success() => None,
                Ok(status) => Some(status.to_string()),
                Err(error) => Some(error.to_string()),
            }
        } else {
            self.wards.give_up(self.child.id());
            None
        };
        let (what, path) = (self.what, self.path.display());
        if was_stopped {
            return Err(format!("the {what} was stopped"));
        }
        if !is_over {
            return Err(format!("the {what} {path} was not over after {} s", self.most.as_secs()));
        }
        let line = last_line(&said).map(|line| format!(": {line}")).unwrap_or_default();
        how.map_or(Ok(()), |how| Err(format!("the {what} {path} has failed ({how}){line}")))
    }

    /// Waits for its end or its words, and reads those; `true`: it is over; none: its time is.
    fn await_blocking(&mut self, said: &mut Vec<u8>, rest: Duration) -> Option<bool> {
        let rest = rest.min(LOOK.max(rest / 8));
        if rest.is_zero() {
            return None;
        }
        let timeout = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() };
        let mut polled = [
            PollFd::new(&self.process, PollFlags::IN),
            PollFd::from_borrowed_fd(self.said.as_fd(), PollFlags::IN),
        ];
        let _ = poll(&mut polled, Some(&timeout));
        let is_over = !polled[0].revents().is_empty();
        let mut bytes = [0; SAID_BYTES_MAX];
        loop {
            match self.said.read(&mut bytes) {
                Ok(0) => {
                    // Closed, and it lives on: nothing more is to be read, its end alone is awaited.
                    let is_over = is_over || await_end_blocking(&self.process, rest);
                    return Some(is_over);
                }
                Ok(read) => {
                    said.extend_from_slice(&bytes[..read]);
                    said.drain(..said.len().saturating_sub(SAID_BYTES_MAX));
                    if !is_over {
                        return Some(false);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Some(is_over),
            }
        }
    }
}

/// A script for whose end nobody waits is not left running.
impl Drop for Script {
    fn drop(&mut self) {
        self.group.kill();
        if self.group.with(|state| state.leader.take()).is_some() {
            self.wards.give_up(self.child.id());
        }
    }
}

/// Function that hears of the end of a script, also where no thread waits for that.
struct Hearer<F: FnOnce(Result<(), String>)>(Option<F>);

impl<F: FnOnce(Result<(), String>)> Hearer<F> {
    fn hear(mut self, result: Result<(), String>) {
        if let Some(done) = self.0.take() {
            done(result);
        }
    }
}

impl<F: FnOnce(Result<(), String>)> Drop for Hearer<F> {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err("a script has no thread that waits for it".into()));
        }
    }
}

/// The last line that says something, as others read it.
fn last_line(said: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(said);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(LINE_CHARS_MAX).map(|c| if is_deceptive(c) { ' ' } else { c }).collect())
}

/// Waits for a script in a thread, and gives its result to `done`: its group of processes.
pub(super) fn in_thread(
    script: Script,
    done: impl FnOnce(Result<(), String>) + Send + 'static,
) -> Arc<Group> {
    let group = Arc::clone(&script.group);
    let hearer = Hearer(Some(done));
    let thread = std::thread::Builder::new().name("tutti-script".into());
    if let Err(error) = thread.spawn(move || hearer.hear(script.finish_blocking())) {
        // Script and hearer are dropped: it is killed, and counts as one that has failed.
        tracing::error!("cannot start a thread for a script: {error}");
    }
    group
}

/// A part whose prolog runs, or whose starter is due: what is said to its starter waits.
pub(super) struct Preparation {
    pub(super) number: u64,
    pub(super) launch: Arc<Launch>,
    pub(super) described: Job,
    pub(super) group: Arc<Group>,
    pub(super) frames: Waiting,
    pub(super) record: Option<Box<StarterRecord>>,
}

/// Frames that wait for a starter.
#[derive(Default)]
pub(super) struct Waiting {
    frames: Vec<(Kind, u32, Vec<u8>)>,
    bytes: usize,
}

impl Waiting {
    /// Keeps one; `false`: there are too many.
    fn put(&mut self, kind: Kind, number: u32, payload: &[u8]) -> bool {
        let has_room = self.frames.len() < FRAMES_MAX && self.bytes + payload.len() <= FRAMES_BYTES_MAX;
        if has_room {
            self.bytes += payload.len();
            self.frames.push((kind, number, payload.to_vec()));
        }
        has_room
    }

    /// In the order in which they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Kind, u32, Vec<u8>)> {
        self.frames.iter()
    }
}

impl Preparation {
    /// Part to whose starter nothing was said yet; `group`: that of its prolog, if it has one.
    pub(super) fn new(number: u64, launch: Arc<Launch>, described: Job, group: Arc<Group>) -> Self {
        Preparation { number, launch, described, group, frames: Waiting::default(), record: None }
    }
}

/// Parts whose starters have not begun.
#[derive(Default)]
pub(super) struct Preparations {
    parts: HashMap<JobId, Preparation>,
    /// Parts that nothing keeps from beginning, with their numbers, in the order in which they are to begin.
    due: VecDeque<(JobId, u64)>,
    /// Parts that may begin but for epilogs of their accounts, with those and their numbers.
    held: Vec<(u32, JobId, u64)>,
}

impl Preparations {
    /// Takes note of a part.
    pub(super) fn begin(&mut self, job: JobId, preparation: Preparation) {
        self.parts.insert(job, preparation);
    }

    /// Lets the part begin when its turn comes; one with another number is another.
    pub(super) fn put_due(&mut self, job: JobId, number: u64) {
        self.due.push_back((job, number));
    }

    /// Account that has the user's jobs.
    pub(super) fn account_of(&self, job: JobId) -> Option<u32> {
        Some(self.parts.get(&job)?.launch.user.account().uid)
    }

    /// Lets the part begin when its account is released, or when it is to end.
    pub(super) fn hold(&mut self, account: u32, job: JobId, number: u64) {
        self.held.push((account, job, number));
    }

    /// Lets held parts of this account begin.
    pub(super) fn release(&mut self, account: u32) {
        self.release_those(|(of, ..)| *of == account);
    }

    fn release_those(&mut self, is_one: impl Fn(&(u32, JobId, u64)) -> bool) {
        let released = self.held.extract_if(.., |held| is_one(held));
        self.due.extend(released.map(|(_, job, number)| (job, number)));
    }

    /// Whether some are to begin, or have been until they were ended.
    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The next one that is to begin.
    pub(super) fn take_due(&mut self) -> Option<(JobId, Preparation)> {
        loop {
            let (job, number) = self.due.pop_front()?;
            if let Some(preparation) = self.take(job, number) {
                return Some((job, preparation));
            }
        }
    }

    /// Keeps what is said to a starter that has not begun; `true`: it was said to one of these. A part to
    /// which too much is said ends.
    pub(super) fn put(&mut self, job: JobId, kind: Kind, number: u32, payload: &[u8]) -> bool {
        let Some(preparation) = self.parts.get_mut(&job) else { return false };
        let is_killed = kind == Kind::Kill && number != wire::SPARE_FILTERS;
        if is_killed || !preparation.frames.put(kind, number, payload) {
            preparation.group.stop();
            self.release_those(|(_, of, _)| *of == job);
        }
        true
    }

    /// Keeps what is to be recorded of it; gives it back if the part is none of these.
    pub(super) fn record(&mut self, job: JobId, record: Box<StarterRecord>) -> Option<Box<StarterRecord>> {
        match self.parts.get_mut(&job) {
            Some(preparation) => {
                preparation.record = Some(record);
                None
            }
            None => Some(record),
        }
    }

    /// Ends a part that is not wanted any more.
    pub(super) fn end(&mut self, job: JobId) {
        self.parts.remove(&job).into_iter().for_each(|preparation| preparation.group.stop());
    }

    /// The daemon ends.
    pub(super) fn end_all(&mut self) {
        self.parts.drain().for_each(|(_, preparation)| preparation.group.stop());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The part, if it is the one of this number.
    pub(super) fn take(&mut self, job: JobId, number: u64) -> Option<Preparation> {
        self.parts.get(&job).filter(|preparation| preparation.number == number)?;
        self.parts.remove(&job)
    }
}

#[cfg(test)]
mod tests;
