//! Starters: one process for each part of a job on this node. Its stdin is its end of the wire. One that an
//! earlier daemon has started comes over the local socket.
//!
//! | part | subject |
//! |---|---|
//! | this one | the shell's: starts them, takes them back, reads what they say, and buries them |
//! | [`starter`] | one of them |
//! | [`process`] | its process: how it ends |

mod process;
mod starter;

use std::ffi::{CString, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use rustix::thread::CpuSet;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{Notify, mpsc};
use tutti_os::cgroup::PartGroup;
use tutti_os::session::Session;
use tutti_os::stderr::escape_control;
use tutti_os::{Entry, Identity, fork_starter};
use tutti_os::{cgroup, cpu_list};
use tutti_protocol::gpus::VISIBLE;
use tutti_protocol::linker_variables::withhold;
use tutti_protocol::paths::SOCKET_VARIABLE;
use tutti_protocol::variables;
use tutti_protocol::version;
use tutti_protocol::wire::{self, ContextStep, Daemon, Decoder, Job, Kind, Reattach, Text};

use super::clock::now;
use super::epilogs::Buried;
use super::receive::read_some;
use super::records::{File, remove_blocking, started};
use super::script_files::Around;
use super::{ClientId, Event, JobId, Shell, ShellEvent, UserEvents, random_number};
use crate::core::event::StarterEnd;
use crate::gang::{Command, ContextDone};
use crate::message::{Launch, STATE_BYTES_MAX};
use process::Process;
pub(super) use starter::Starter;
use starter::{DYING_MAX, Wire};

/// Users may read the file of the starter: the kernel then lets them look into one of their own until it
/// forbids that itself.
pub(super) fn is_open_to_users(starter: &Path) -> bool {
    std::fs::metadata(starter).is_ok_and(|found| found.permissions().mode() & 0o044 != 0)
}

/// Descriptors of a part that this daemon has started: of its process and pipes, its cgroups, its freezer.
const DESCRIPTORS: u64 = 28;
/// The same of one that runs already.
const DESCRIPTORS_ENROLLED: u64 = 10;

impl Shell {
    /// Puts a frame to the starter of a job: at once, or when its part is prepared.
    pub(super) fn put_to_starter(&mut self, job: JobId, kind: Kind, number: u32, payload: &[u8]) {
        if self.preparing.put(job, kind, number, payload) {
            return;
        }
        let Some(starter) = self.starters.get(&job) else { return };
        starter.put(kind, number, payload);
        if kind == Kind::Kill && number != wire::SPARE_FILTERS {
            self.kill_later(job, starter);
        }
    }

    /// Passes on to the switch thread what the starter of a job has done with its channels.
    pub(super) fn pass_context_done(&self, job: JobId, frames: &[(Kind, u32, Vec<u8>)]) {
        for (_, step, payload) in frames.iter().filter(|(kind, ..)| *kind == Kind::ContextDone) {
            if let (Some(step), Some((generation, is_well))) =
                (ContextStep::of_number(*step), wire::two_numbers(payload))
            {
                let done = ContextDone { step, generation, is_well: is_well == 1 };
                self.switcher.send(Command::ContextDone(job, done));
            }
        }
    }

    /// Bounds the time of a starter that has been ordered to kill its part.
    pub(super) fn kill_later(&self, job: JobId, starter: &Starter) {
        let Some((wire, time)) = starter.time_to_kill() else { return };
        let shell_events = self.shell_events.clone();
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            let _ = shell_events.send(ShellEvent::Overdue(job, wire));
        });
    }

    pub(super) fn start(&mut self, job: JobId, launch: &Launch, mut described: Job) {
        described.front_end = std::process::id();
        let drawn = random_number();
        let token = drawn.as_ref().copied().unwrap_or_default();
        described.daemon = drawn.is_ok().then(|| Daemon {
            socket: self.settings.folders.socket.clone().into_os_string().into(),
            job: job.0,
            token,
            reconnect_ms: self.settings.delays.keep_ms,
        });
        if launch.steps.allocation.is_some() {
            // What the script starts asks the daemon that knows it, whichever it was submitted to.
            let socket = self.settings.folders.socket.clone().into_os_string().into();
            let pair = (SOCKET_VARIABLE.into(), socket);
            described.programs.iter_mut().for_each(|program| program.variables.push(pair.clone()));
        }
        let descriptors = match self.quota.take_descriptors(launch.user.account().uid, DESCRIPTORS) {
            Ok(permit) => Some(permit),
            Err(excess) => {
                let text =
                    format!("node {} starts no more jobs of this user: {excess}", self.settings.node.name);
                let gone = Event::StarterGone(job, StarterEnd::Died(text));
                let _ = self.shell_events.send(ShellEvent::Core(gone));
                return;
            }
        };
        let mut group = self.make_group(&described, launch.user.account().uid, launch.terms.fill);
        let visible = gpus_of(&described);
        let mut spawned = self.spawn(job, launch, visible.as_ref(), group.as_ref());
        if let (Err(text), Some(made)) = (&spawned, &group) {
            self.complain_of_groups(text);
            remove_blocking(Some(made));
            group = None;
            spawned = self.spawn(job, launch, visible.as_ref(), None);
        }
        match spawned {
            Ok((child, stream)) => {
                let (reader, mut wire_out) = stream.into_split();
                let (writer, mut queue) = mpsc::unbounded_channel::<Vec<u8>>();
                tokio::spawn(async move {
                    while let Some(bytes) = queue.recv().await {
                        if wire_out.write_all(&bytes).await.is_err() {
                            break;
                        }
                    }
                });
                let (listen, number) = (Arc::new(Notify::new()), self.number());
                let hearing = Arc::clone(&listen);
                tokio::spawn(read_frames(
                    job,
                    number,
                    reader,
                    Decoder::default(),
                    hearing,
                    UserEvents { uid: launch.user.account().uid, shell_events: self.shell_events.clone() },
                ));
                let mut frame = Vec::new();
                wire::put_json(&mut frame, Kind::Job, &described);
                let wire = Wire::new(number, writer, listen);
                wire.send(frame);
                #[cfg(feature = "next-wire")]
                wire.send(next_frame());
                let pid = child.pid();
                self.wards.add(pid);
                let file = File {
                    token,
                    pid,
                    since: started(pid).unwrap_or(0),
                    cgroup: match &group {
                        Some(_) => None,
                        None => cgroup::place(&cgroup::name(&described.name())),
                    },
                    group: group.as_ref().map(|group| group.place().clone()),
                    record: None,
                    around: Some(Around::new(job, launch, &described, &self.settings.node.name)),
                };
                self.owe_epilog(job, &file);
                if let Some(group) = &group {
                    self.core.handle(now(), Event::Limited(job, group.enforced()));
                }
                self.starters.insert(job, Starter::begun(child, wire, group, file, descriptors));
            }
            Err(text) => {
                let gone = Event::StarterGone(job, StarterEnd::Died(text));
                let _ = self.shell_events.send(ShellEvent::Core(gone));
            }
        }
    }

    /// Takes back who says that it is a starter of an earlier daemon, if it is the process that we know, and
    /// has its token.
    pub(super) fn welcome_back(
        &mut self,
        (client, uid, pid): (ClientId, u32, Option<Pid>),
        back: &Reattach,
        listen: Arc<Notify>,
        refused: &AtomicBool,
    ) -> Option<Event> {
        let known = self.clients.remove(&client)?;
        let (writer, account) = (known.writer, known.debts.uid());
        let job = JobId(back.job);
        let wire = Wire::new(client.0, writer, listen);
        let is_it = |starter: &&mut Starter| starter.is_it(pid, back.token);
        let met = version::agree(&back.greeting.clone().unwrap_or_default());
        match self.starters.get_mut(&job).filter(is_it).filter(|_| met.is_ok()) {
            Some(starter) => {
                #[cfg(feature = "next-wire")]
                wire.send(next_frame());
                starter.come_back(wire);
                if let Some(group) = &starter.group {
                    self.core.handle(now(), Event::Limited(job, group.enforced()));
                }
                Some(Event::Reattach(job, back.clone()))
            }
            None => {
                let line = match &met {
                    Err(stranger) => {
                        format!("the starter of job {job} is refused, and the job ends: {stranger}")
                    }
                    Ok(_) => format!("job {job} of user {uid} is not known here, it ends"),
                };
                // The end of a job that is ours is always said; anybody may name jobs that are none.
                if met.is_err()
                    && self.starters.get_mut(&job).is_some_and(|starter| starter.is_it(pid, back.token))
                {
                    self.complaints.warn(account, &line);
                } else {
                    self.complaints.warn_seldom(account, "a starter that is not known", &line);
                }
                refused.store(true, Ordering::Relaxed);
                Starter::unknown(wire).end();
                None
            }
        }
    }

    /// The connection of an mpiexec becomes the wire of its job.
    pub(super) fn enrol(&mut self, client: ClientId, job: JobId) {
        let Some(known) = self.clients.remove(&client) else {
            // It went after its request had been taken and before this: whoever waits for its part hears of
            // it.
            let gone = Event::StarterGone(job, StarterEnd::Died("its mpiexec has died".into()));
            let _ = self.shell_events.send(ShellEvent::Core(gone));
            return;
        };
        let (pid, since) = known.process.map_or((0, 0), |process| process.number());
        let file = File::of_none(pid, since);
        let wire = Wire::new(client.0, known.writer, Arc::new(Notify::new()));
        self.enrolled.insert(client, job);
        let descriptors = self.quota.take_descriptors(known.debts.uid(), DESCRIPTORS_ENROLLED);
        self.starters.insert(job, Starter::enrolled(wire, file, descriptors.ok()));
    }

    /// Whether an event concerns a connection that has become the wire of a job.
    pub(super) fn is_enrolled(&self, event: &Event) -> bool {
        match event {
            Event::Frame(client, ..) | Event::ClientGone(client) | Event::Taken(client, _) => {
                self.enrolled.contains_key(client)
            }
            _ => false,
        }
    }

    /// The same as an event of its starter.
    pub(super) fn as_starter(&mut self, event: Event) -> Option<Event> {
        match event {
            // It has no output here.
            Event::Frame(client, kind @ (Kind::Report | Kind::Held | Kind::Released), number, payload) => {
                let job = *self.enrolled.get(&client)?;
                Some(Event::Starter(job, vec![(kind, number, payload)]))
            }
            Event::ClientGone(client) => {
                let job = self.enrolled.remove(&client)?;
                self.starters.remove(&job);
                Some(Event::StarterGone(job, StarterEnd::Died("its mpiexec has died".into())))
            }
            _ => None,
        }
    }

    fn spawn(
        &self,
        job: JobId,
        launch: &Launch,
        gpus: Option<&Text>,
        group: Option<&PartGroup>,
    ) -> Result<(Process, UnixStream), String> {
        let uid = launch.user.uid;
        let me = rustix::process::geteuid().as_raw();
        let name = &self.settings.node.name;
        if uid != me && me != 0 {
            return Err(format!("the daemon of node {name} is not root: it starts jobs of its owner only"));
        }
        if uid != me && launch.session.is_none() {
            return Err(format!("node {name} does not know the limits of the session of user {uid}"));
        }
        let socket = |error| format!("cannot open a socket: {error}");
        let (own, end) = std::os::unix::net::UnixStream::pair().map_err(socket)?;
        own.set_nonblocking(true).map_err(socket)?;
        if let Some(group) = group {
            group
                .grant(own.as_fd(), wire::group_frame)
                .map_err(|error| format!("cannot give a job its cgroup: {error}"))?;
        }
        let groups: Vec<BorrowedFd<'_>> = group.into_iter().flat_map(PartGroup::entrances).collect();
        let stream = UnixStream::from_std(own).map_err(socket)?;
        let pipe = |more| {
            pipe_with(PipeFlags::CLOEXEC | more).map_err(|error| format!("cannot open a pipe: {error}"))
        };
        let (errors, errors_end) = pipe(PipeFlags::empty())?;
        // One that does not die has its end of it open.
        let (failed, failed_end) = pipe(PipeFlags::NONBLOCK)?;
        let null = std::fs::File::options().write(true).open("/dev/null");
        let null = null.map_err(|error| format!("cannot open /dev/null: {error}"))?;
        let cores = launch.session.as_deref().map(|session| self.cores(session)).transpose()?.flatten();
        let file = zero_ended(self.settings.node.starter.as_os_str().as_bytes())?;
        let variable = |(name, value): (&std::ffi::OsStr, &std::ffi::OsStr)| {
            let name = group.map_or_else(|| name.as_bytes().to_vec(), |_| withhold(name.as_bytes()));
            zero_ended(&[&name, value.as_bytes()].join(&b'='))
        };
        // Ranks that others start have it from here.
        let gpus =
            gpus.map(|gpus| (std::ffi::OsStr::new(VISIBLE), std::ffi::OsStr::from_bytes(gpus.as_bytes())));
        let is_other = |(name, _): &(&std::ffi::OsStr, _)| gpus.is_none_or(|(own, _)| *name != own);
        let environment = launch.environment.iter().filter(is_other).chain(gpus);
        let has_origin =
            launch.environment.iter().any(|(name, _)| name.as_bytes() == variables::ORIGIN.as_bytes());
        let entry = Entry {
            arguments: &[file.clone(), c"0".to_owned()],
            file: &file,
            environment: &environment.map(variable).collect::<Result<Vec<_>, _>>()?,
            // A job that brings its files has its folder here only when its starter has mounted them.
            directory: &zero_ended(if has_origin { b"/" } else { launch.directory.as_bytes() })?,
            umask: launch.umask,
            input: end.as_fd(),
            output: null.as_fd(),
            errors: errors_end.as_fd(),
            identity: (uid != me).then_some(Identity { uid, gid: launch.user.gid, groups: &launch.groups }),
            session: launch.session.as_deref(),
            cores: cores.as_ref(),
            cgroup: group.map(PartGroup::starter),
            groups: &groups,
            failure: failed_end.as_fd(),
        };
        let (pid, pidfd) = fork_starter(&entry)
            .map_err(|error| format!("cannot start a process on node {name}: {error}"))?;
        self.complaints.read_frames(job, uid, launch.user.account().uid, errors);
        let _ = rustix::io::ioctl_fionbio(&failed, true);
        let directory = escape_control(&text(&launch.directory).to_string_lossy());
        let pid = pid.as_raw_nonzero().get() as u32;
        Ok((Process::new(pid, pidfd, failed, directory, uid), stream))
    }

    /// The cores of a session of this machine that this daemon may use; none: all of them.
    fn cores(&self, session: &Session) -> Result<Option<CpuSet>, String> {
        if session.machine != self.settings.node.machine {
            return Ok(None);
        }
        let own =
            rustix::thread::sched_getaffinity(None).map_err(|error| format!("cannot read cores: {error}"))?;
        let both = cpu_list::parse(&session.cores).into_iter().filter(|core| own.is_set(*core));
        let both: Vec<usize> = both.collect();
        if both.is_empty() {
            let (name, theirs) = (&self.settings.node.name, &session.cores);
            return Err(format!("node {name} has none of the cores of the session that submits ({theirs})"));
        }
        Ok(Some(cpu_list::mask_of(&both)))
    }

    /// A starter has closed its wire: it is dead or about to be. One that has said something `wrong` is none
    /// any more.
    pub(super) fn bury(&mut self, job: JobId, number: u64, wrong: Option<String>) {
        if !self.starters.get(&job).is_some_and(|starter| starter.has_wire(number)) {
            return;
        }
        if let Some(starter) = self.starters.remove(&job) {
            self.bury_starter(job, starter, wrong);
        }
    }

    /// Awaits the death of a starter that is none of ours any more; then its part is over.
    pub(super) fn bury_starter(&self, job: JobId, mut starter: Starter, wrong: Option<String>) {
        let (shell_events, wards) = (self.shell_events.clone(), self.wards.clone());
        let (program, node) = (self.settings.node.starter.clone(), self.settings.node.name.clone());
        let around = starter.file.around.take();
        tokio::task::spawn_blocking(move || {
            let grace = if wrong.is_some() { Duration::ZERO } else { DYING_MAX };
            let how = starter.reap_blocking(grace, &wards);
            let failure = starter.failure(&program, &node);
            // Before its groups are removed.
            let used_up = starter.group.as_ref().filter(|_| how.is_killed);
            let used_up = used_up.and_then(PartGroup::used_up_of_starter);
            // Who ended by itself has done so.
            starter.file.cgroup.iter().for_each(|path| cgroup::remove(path));
            remove_blocking(starter.group.as_ref());
            let end = match (failure, wrong, used_up) {
                (Some(failure), ..) => StarterEnd::Died(failure),
                (None, Some(wrong), _) => {
                    StarterEnd::Died(format!("the starter broke its protocol ({wrong}); the job is ended"))
                }
                (None, None, Some(whose)) => StarterEnd::UsedUp(whose),
                (None, None, None) => {
                    StarterEnd::Died(format!("the starter died ({}); the job is ended", how.text))
                }
            };
            let gone = Event::StarterGone(job, end);
            // An epilog is begun by the thread that starts all.
            let _ = shell_events.send(match around {
                Some(around) => ShellEvent::Buried(Box::new(Buried { job, around, gone })),
                None => ShellEvent::Core(gone),
            });
        });
    }
}

/// GPUs that the programs of a job are told of; none: the node counts none.
fn gpus_of(described: &Job) -> Option<Text> {
    let mut variables = described.programs.iter().flat_map(|program| &program.variables);
    variables.find(|(name, _)| name.as_bytes() == VISIBLE.as_bytes()).map(|(_, value)| value.clone())
}

fn text(text: &Text) -> OsString {
    text.into()
}

/// For the kernel.
fn zero_ended(bytes: &[u8]) -> Result<CString, String> {
    CString::new(bytes).map_err(|_| "the job's environment or directory has a zero byte in it".into())
}

/// Frames of a starter that are served together: as many as are read at once, if they are not very short.
const PIECE_FRAMES: usize = 256;

/// Reads frames, as many at a time as came together, each time after the core has asked for them.
pub(super) async fn read_frames(
    job: JobId,
    number: u64,
    reader: OwnedReadHalf,
    mut decoder: Decoder,
    listen: Arc<Notify>,
    events: UserEvents,
) {
    let wrong = loop {
        let mut frames = Vec::new();
        let wrong = loop {
            if frames.len() == PIECE_FRAMES {
                break None;
            }
            match decoder.next_frame() {
                Ok(Some((header, payload))) => frames.push((header.kind, header.rank, payload.to_vec())),
                Ok(None) => break None,
                Err(error) => break Some(error.to_string()),
            }
        };
        let is_more = frames.len() == PIECE_FRAMES;
        if !frames.is_empty() {
            if !events.put(ShellEvent::Core(Event::Starter(job, frames))) {
                return;
            }
            listen.notified().await;
        }
        if wrong.is_some() {
            break wrong;
        }
        if is_more {
            continue;
        }
        if decoder.waiting() > STATE_BYTES_MAX + wire::HEAD_BYTES {
            break Some(format!("a frame of more than {} MiB", STATE_BYTES_MAX >> 20));
        }
        if read_some(&reader, &mut decoder).await == 0 {
            break None;
        }
    };
    events.put(ShellEvent::StarterClosed(job, number, wrong));
}

/// A frame of a kind more, as a later release may send it.
#[cfg(feature = "next-wire")]
fn next_frame() -> Vec<u8> {
    let mut frame = Vec::new();
    wire::put(&mut frame, Kind::Next, 0, &[7; 300]);
    frame
}

#[cfg(test)]
mod tests;
