//! Starters: one process for each part of a job on this node. Its stdin is its end of the wire. One that an
//! earlier daemon has started comes over the local socket.

use std::ffi::{CString, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, pidfd_send_signal, waitid,
};
use rustix::thread::CpuSet;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{Notify, mpsc};
use tutti_os::cgroup::PartGroup;
use tutti_os::session::Session;
use tutti_os::stderr::escape_control;
use tutti_os::{Entry, EntryFailure, EntryStep, Identity, fork_starter};
use tutti_os::{cgroup, cpu_list};
use tutti_protocol::gpus::VISIBLE;
use tutti_protocol::linker_variables::withhold;
use tutti_protocol::paths::SOCKET_VARIABLE;
use tutti_protocol::variables;
use tutti_protocol::version;
use tutti_protocol::wire::{self, Daemon, Decoder, Job, Kind, Reattach, Text};

use super::clock::now;
use super::epilogs::Buried;
use super::orphans::{KILLED_MAX, Wards, await_end_blocking};
use super::quota::DescriptorPermit;
use super::receive::read_some;
use super::records::{File, remove_blocking, started};
use super::script_files::Around;
use super::{ClientId, Event, JobId, Shell, ShellEvent, ShellEvents, UserEvents, random_number};
use crate::core::event::StarterEnd;
use crate::message::{Launch, STATE_BYTES_MAX};

/// Time after which a starter is dead that has closed its wire, or was told to end for good: it gives what it
/// has started as long as that.
const DYING_MAX: Duration = Duration::from_secs(30);

/// Time after which a starter that was told to kill its part has said that the job is over, or root's daemon
/// kills all of it.
const KILL_MAX: Duration = Duration::from_secs(20);
/// A filler, which is behind nobody from then on.
const KILL_FILLER_MAX: Duration = Duration::from_secs(2);

/// Users may read the file of the starter: the kernel then lets them look into one of their own until it
/// forbids that itself.
pub(super) fn is_open_to_users(starter: &Path) -> bool {
    std::fs::metadata(starter).is_ok_and(|found| found.permissions().mode() & 0o044 != 0)
}

pub(super) struct Starter {
    /// None: an earlier daemon has started it, or no daemon at all.
    child: Option<Process>,
    /// Whether it is the `mpiexec` of a job that was started without a daemon.
    enrolled: bool,
    /// None: it is not here yet.
    wire: Option<Wire>,
    /// Whether it has been told to end: what it still says is read, so that it can, and concerns nobody.
    ended: bool,
    /// The cgroups of its part, if this is root's daemon.
    pub group: Option<PartGroup>,
    /// Record that is kept of it.
    pub file: File,
    /// Permit for the descriptors of the daemon that its part has.
    _descriptors: Option<DescriptorPermit>,
}

/// Descriptors of a part that this daemon has started: of its process and pipes, its cgroups, its freezer.
const DESCRIPTORS: u64 = 28;
/// The same of one that runs already.
const DESCRIPTORS_ENROLLED: u64 = 10;

/// A process that this daemon has started.
struct Process {
    pid: u32,
    pidfd: OwnedFd,
    /// Where it says that it could not become a starter.
    failed: OwnedFd,
    /// Where it was to begin, for people, and as whom.
    directory: String,
    uid: u32,
}

impl Process {
    /// How it has died; none: it has not, in so much time.
    fn wait_blocking(&self, most: Duration) -> Option<Death> {
        if !await_end_blocking(&self.pidfd, most) {
            return None;
        }
        Some(match waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED) {
            Ok(Some(status)) => {
                // As `wait` has it.
                let code = status.exit_status().map(|code| code << 8);
                let code = code.or(status.terminating_signal()).unwrap_or_default();
                let is_killed = status.terminating_signal() == Some(Signal::KILL.as_raw());
                Death { text: ExitStatus::from_raw(code).to_string(), is_killed }
            }
            Ok(None) => Death { text: "it ended".into(), is_killed: false },
            Err(error) => Death { text: error.to_string(), is_killed: false },
        })
    }

    /// Why it never was a starter; none: it was one. For when it is dead.
    fn failure(&self, starter: &Path, node: &str) -> Option<String> {
        let mut bytes = [0; EntryFailure::BYTES];
        let read = rustix::io::read(&self.failed, &mut bytes).ok()?;
        let EntryFailure { step, errno } = EntryFailure::decode(&bytes[..read])?;
        let what = match step {
            EntryStep::Groups => "enter the groups of its limits".into(),
            EntryStep::Detach => "begin a session".into(),
            EntryStep::Keyring => "make a keyring".into(),
            EntryStep::Session => "set the limits of the session".into(),
            EntryStep::Identity => "take the identity".into(),
            EntryStep::Directory => format!("enter the directory {}", self.directory),
            EntryStep::Execute => format!("execute {}", starter.display()),
        };
        let (uid, error) = (self.uid, std::io::Error::from_raw_os_error(errno));
        Some(format!("cannot {what} as user {uid} on node {node}: {error}"))
    }
}

/// How a starter has died.
struct Death {
    /// For people.
    text: String,
    /// By SIGKILL, and not by us; also where that cannot be known.
    is_killed: bool,
}

struct Wire {
    number: u64,
    writer: mpsc::UnboundedSender<Vec<u8>>,
    listen: Arc<Notify>,
}

impl Starter {
    /// Starter of an earlier daemon.
    pub(super) fn away(file: File) -> Self {
        let group = file.group.as_ref().and_then(PartGroup::reopen);
        Starter { child: None, enrolled: false, wire: None, ended: false, group, file, _descriptors: None }
    }

    /// Whether it is an earlier daemon's and has not come to this one.
    pub(super) fn is_away(&self) -> bool {
        !self.enrolled && self.wire.is_none()
    }

    /// Number, and when it was started; none: it is a front end of a job without one.
    pub(super) fn process(&self) -> Option<(u32, u64)> {
        (!self.enrolled && self.file.pid != 0).then_some((self.file.pid, self.file.since))
    }

    pub(super) fn put(&self, kind: Kind, number: u32, payload: &[u8]) {
        if kind == Kind::Kill && number != wire::SPARE_FILTERS {
            self.group.iter().for_each(PartGroup::end_behind);
        }
        let Some(wire) = &self.wire else { return };
        // An mpiexec that was stopped by its terminal reads nothing.
        if self.enrolled
            && matches!(kind, Kind::Resume | Kind::Kill | Kind::Signal)
            && let Some(pid) = Pid::from_raw(self.file.pid as i32)
            && let Ok(process) = pidfd_open(pid, PidfdFlags::empty())
            // What the descriptor is of was there before this look.
            && started(self.file.pid) == Some(self.file.since)
        {
            let _ = pidfd_send_signal(&process, Signal::CONT);
        }
        let mut frame = Vec::new();
        wire::put(&mut frame, kind, number, payload);
        let _ = wire.writer.send(frame);
    }

    pub(super) fn listen(&self) {
        self.wire.iter().for_each(|wire| wire.listen.notify_one());
    }

    /// Ends what is left of its part, and it itself; no daemon will follow this one. One that is still away
    /// hears it when it comes.
    pub(super) fn end(&mut self) {
        if self.enrolled {
            // Its job goes on without us.
            self.wire = None;
            return;
        }
        self.put(Kind::Leave, wire::FOR_GOOD, &[]);
        self.put(Kind::Kill, 0, &[]);
        // It closes the wire when it ends, and has perhaps much to say before.
        self.ended = true;
        self.listen();
    }

    /// Bounds the time of a starter that has been told to kill its part. Its user can stop it: after a while
    /// root's daemon kills the starter and all that is left.
    pub(super) fn kill_later(&self, job: JobId, shell_events: &ShellEvents) {
        let (Some(wire), Some(group)) = (&self.wire, &self.group) else { return };
        let (number, shell_events) = (wire.number, shell_events.clone());
        let kill_max = if group.enforced().behind { KILL_FILLER_MAX } else { KILL_MAX };
        tokio::spawn(async move {
            tokio::time::sleep(kill_max).await;
            let _ = shell_events.send(ShellEvent::Overdue(job, number));
        });
    }

    /// The time is over. Its wire closes when it is dead.
    pub(super) fn kill_overdue(&self, number: u64) {
        if self.wire.as_ref().is_some_and(|wire| wire.number == number) {
            self.group.iter().for_each(PartGroup::kill);
        }
    }

    /// Hears that the starter has said something; returns whether nobody wants to hear it any more.
    pub(super) fn is_abandoned(&self) -> bool {
        if self.ended {
            self.listen();
        }
        self.ended
    }

    /// How it has died. Who lives on for longer is killed: a user may do with his starter what he likes.
    fn reap_blocking(&mut self, grace: Duration, wards: &Wards) -> Death {
        let deadline = Instant::now() + grace;
        let File { pid, since, .. } = self.file;
        let is_alive = || started(pid) == Some(since);
        while is_alive() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let is_ours = is_alive();
        if is_ours && let Some(pid) = Pid::from_raw(pid as i32) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let Death { text, is_killed } = match &mut self.child {
            Some(child) => match child.wait_blocking(KILLED_MAX) {
                Some(how) => {
                    wards.remove(pid);
                    how
                }
                None => {
                    tracing::warn!("the starter {pid} of user {} was killed and does not die", child.uid);
                    wards.give_up(pid);
                    Death { text: "it does not die".into(), is_killed: true }
                }
            },
            None => Death { text: "it was an earlier daemon's".into(), is_killed: true },
        };
        Death { text, is_killed: is_killed && !is_ours }
    }

    /// The same, and waits for it.
    pub(super) async fn end_and_wait(mut self, wards: Wards) {
        self.end();
        self.wire = None;
        if self.child.is_some() || self.group.is_some() {
            let reap = move || {
                self.reap_blocking(DYING_MAX, &wards);
                remove_blocking(self.group.as_ref());
            };
            let _ = tokio::task::spawn_blocking(reap).await;
        }
    }
}

impl Shell {
    /// Puts a frame to the starter of a job: at once, or when its part is prepared.
    pub(super) fn put_to_starter(&mut self, job: JobId, kind: Kind, number: u32, payload: &[u8]) {
        if self.preparing.put(job, kind, number, payload) {
            return;
        }
        let Some(starter) = self.starters.get(&job) else { return };
        starter.put(kind, number, payload);
        if kind == Kind::Kill && number != wire::SPARE_FILTERS {
            starter.kill_later(job, &self.shell_events);
        }
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
                let _ = writer.send(frame);
                #[cfg(feature = "next-wire")]
                let _ = writer.send(next_frame());
                let pid = child.pid;
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
                let wire = Some(Wire { number, writer, listen });
                let (child, enrolled, ended) = (Some(child), false, false);
                self.starters.insert(
                    job,
                    Starter { child, enrolled, wire, ended, group, file, _descriptors: descriptors },
                );
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
        let wire = Wire { number: client.0, writer, listen };
        let is_it = |starter: &&mut Starter| {
            let file = &starter.file;
            let is_its = pid.is_some_and(|pid| pid.as_raw_nonzero().get() as u32 == file.pid);
            // One that no daemon has started has no token, and does not come back.
            is_its && !starter.enrolled && back.token == file.token
        };
        let met = version::agree(&back.greeting.clone().unwrap_or_default());
        match self.starters.get_mut(&job).filter(is_it).filter(|_| met.is_ok()) {
            Some(starter) => {
                #[cfg(feature = "next-wire")]
                let _ = wire.writer.send(next_frame());
                starter.wire = Some(wire);
                if let Some(group) = &starter.group {
                    self.core.handle(now(), Event::Limited(job, group.enforced()));
                }
                Some(Event::Reattach(job, back.clone()))
            }
            None => {
                let line = match met {
                    Err(stranger) => {
                        format!("the starter of job {job} is refused, and the job ends: {stranger}")
                    }
                    Ok(_) => format!("job {job} of user {uid} is not known here, it ends"),
                };
                self.complaints.warn(account, &line);
                refused.store(true, Ordering::Relaxed);
                let file = File::of_none(0, 0);
                let (enrolled, ended, group) = (false, false, None);
                let wire = Some(wire);
                Starter { child: None, enrolled, wire, ended, group, file, _descriptors: None }.end();
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
        let wire = Wire { number: client.0, writer: known.writer, listen: Arc::new(Notify::new()) };
        self.enrolled.insert(client, job);
        let (enrolled, ended, group) = (true, false, None);
        let descriptors = self.quota.take_descriptors(known.debts.uid(), DESCRIPTORS_ENROLLED);
        let wire = descriptors.is_ok().then_some(wire);
        let (child, descriptors) = (None, descriptors.ok());
        self.starters
            .insert(job, Starter { child, enrolled, wire, ended, group, file, _descriptors: descriptors });
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
        Ok((Process { pid: pid.as_raw_nonzero().get() as u32, pidfd, failed, directory, uid }, stream))
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
        let is_its = |starter: &Starter| starter.wire.as_ref().is_some_and(|wire| wire.number == number);
        if !self.starters.get(&job).is_some_and(is_its) {
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
            let failure = starter.child.as_ref().and_then(|child| child.failure(&program, &node));
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
