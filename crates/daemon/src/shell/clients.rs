//! The local socket: programs of users. Who they are the kernel says (SO_PEERCRED), never they themselves.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::SendFlags;
use rustix::process::Pid;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::{OwnedReadHalf, SocketAddr};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use tutti_os::peer_pidfd;
use tutti_os::session::Session;
use tutti_os::stat::Stat;
use tutti_protocol::job_numbers::JobNumbers;
use tutti_protocol::users::refusal::put_answer;
use tutti_protocol::version::RELEASE;
use tutti_protocol::wire::{self, Decoder, FrameHeader, Kind, Reattach};

use super::clock::now;
use super::error::{ShellError, failed};
use super::peer_users::PeerProcess;
use super::quota::{ConnectionPermit, Debts};
use super::receive::read_some;
use super::tokens::{self, Asked};
use super::{
    ClientId, Event, JobId, Shell, ShellEvent, ShellEvents, UserEvents, doors, random_number, starters,
};
use crate::message::{Answer, Request, STATE_BYTES_MAX, User};

/// Sender of what is written to a user's program.
pub(super) type Writer = mpsc::UnboundedSender<Vec<u8>>;
/// A user's program.
pub(super) struct Client {
    /// Sender of what is written to it.
    pub writer: Writer,
    /// Answers that the programs of its user have not read.
    pub debts: Debts,
    /// Process of the program, as the kernel says.
    pub process: Option<PeerProcess>,
    /// Whether the program was seen stopped.
    pub stopped: bool,
}

/// A process of a job is so far below its starter at most, to be found.
const ANCESTORS_MAX: usize = 4096;
/// Bytes that a program may send before its first request is whole: arguments and environment, which the
/// kernel bounds too.
const REQUEST_BYTES_MAX: usize = 8 << 20;
/// Values in it: arguments, variables, numbers.
const WORDS_MAX: usize = 1 << 18;
/// Bytes that a program may send in one frame after it. Whose job runs already is its starter, which also
/// says what it sees for a snapshot.
const FRAME_BYTES_MAX: usize = wire::DATA_BYTES_MAX;
/// A report of the starter of a job that runs already; what it sees for a snapshot may be longer.
const REPORT_BYTES_MAX: usize = 4 << 20;
/// Frames of a connection that are served together.
const PIECE_FRAMES: usize = 16;
/// The first request is whole after this time, or it is none.
const REQUEST_MAX: Duration = Duration::from_secs(5);
/// Time within which an answer is read by who has asked.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// A daemon that has been killed lets go of its socket so late at most: after `kill -9` another one may be
/// started at once.
const DYING_MAX: Duration = Duration::from_secs(1);

/// Opens the socket; one that a dead daemon has left is replaced. Who holds the lock beside it is its owner:
/// two daemons that are started at once do not take it from each other. `is_on_demand`: whoever has started
/// this one looks again himself.
pub(super) fn bind(path: &Path, is_on_demand: bool) -> Result<(UnixListener, File), ShellError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    let lock = File::options().create(true).append(true).mode(0o600).open(&beside);
    let lock = lock.map_err(failed(format!("open {}", Path::new(&beside).display())))?;
    let deadline = Instant::now() + DYING_MAX;
    while lock.try_lock().is_err() || std::os::unix::net::UnixStream::connect(path).is_ok() {
        if is_on_demand || Instant::now() >= deadline {
            return Err(ShellError::Taken(path.to_owned()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = std::fs::remove_file(path);
    let action = || format!("open the socket {}", path.display());
    let local = UnixListener::bind(path).map_err(failed(action()))?;
    // Everybody may ask; what each may do depends on who it is.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(failed(action()))?;
    Ok((local, lock))
}

impl Shell {
    pub(super) fn accept_client(
        &mut self,
        accepted: io::Result<(UnixStream, SocketAddr)>,
        listener: &UnixListener,
    ) {
        let stream = match accepted {
            Ok((stream, _)) => Some(stream),
            Err(error) => {
                self.doors.handle_failure("of a user's program", &error);
                doors::is_exhausted(&error).then(|| self.doors.admit_owner(listener)).flatten()
            }
        };
        let Some(stream) = stream else { return };
        self.admit_client(stream);
    }

    fn admit_client(&mut self, stream: UnixStream) {
        let (user, pid) = match self.peer_users.identify(&stream) {
            Ok(found) => found,
            Err(error) => {
                if doors::is_exhausted(&error) {
                    self.doors.handle_failure("of a user's program", &error);
                }
                refuse(&stream, error.to_string());
                return;
            }
        };
        // Whoever has too many connections costs no more than this.
        let permit = match self.quota.admit(user.account().uid) {
            Ok(permit) => permit,
            Err(excess) => return refuse(&stream, excess.to_string()),
        };
        let process = PeerProcess::of(&stream, pid, user.uid);
        let groups = tutti_os::peer_groups(stream.as_fd());
        let has_ended = pid.is_some() && process.is_none();
        let starters = self.starters.iter().filter_map(|(job, starter)| Some((*job, starter.process()?)));
        let starters = starters.collect();
        let (machine, numbers) = (Arc::clone(&self.machine), self.settings.folders.numbers_of_user());
        let peer = Peer { user, groups, pid, process, has_ended, machine, numbers, starters };
        let client = ClientId(self.number());
        drop(tokio::spawn(serve(client, peer, permit, stream, self.shell_events.clone())));
    }
}

impl Shell {
    /// A front end that was stopped by SIGSTOP cannot say so: its state is looked at.
    pub(super) fn watch_front_ends(&mut self) {
        let core = &self.core;
        let watched = self.clients.iter_mut().filter(|(client, _)| core.is_front_end(**client));
        let mut changed = Vec::new();
        for (client, known) in watched {
            let Some(stopped) = known.process.and_then(|process| process.is_stopped()) else { continue };
            if std::mem::replace(&mut known.stopped, stopped) != stopped {
                changed.push((*client, stopped));
            }
        }
        for (client, stopped) in changed {
            self.core.handle(now(), Event::FrontState(client, stopped));
        }
    }
}

/// Refuses a connection, with what fits into an empty socket; nobody waits for it to be read. The runtime
/// does not know yet that there is room, so it is not asked.
fn refuse(stream: &UnixStream, text: String) {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let _ = rustix::net::send(stream, &refusal(text), flags);
}

fn refusal(text: String) -> Vec<u8> {
    framed(&Answer::Refused(text))
}

fn framed(answer: &Answer) -> Vec<u8> {
    let mut frame = Vec::new();
    put_answer(&mut frame, answer);
    frame
}

/// Program at the other end, as the kernel says.
struct Peer {
    user: User,
    groups: Vec<u32>,
    pid: Option<Pid>,
    /// The same as it was when it was looked at.
    process: Option<PeerProcess>,
    /// Whether the process is seen from here, and was dead.
    has_ended: bool,
    /// Ours, whose cores its session has.
    machine: Arc<str>,
    /// The series of numbers of an on-demand daemon, which has jobs of one user.
    numbers: Option<Arc<JobNumbers>>,
    /// The starters of jobs here: number, and when it was started.
    starters: Vec<(JobId, (u32, u64))>,
}

impl Peer {
    /// Adds to a job what it has of its user's that he does not say himself.
    fn vouch(&self, request: &mut Request, socket: BorrowedFd<'_>) -> Result<(), String> {
        let may_be_step = matches!(request, Request::Run(_));
        let (submit, runs_already) = match request {
            Request::Run(submit) | Request::Submit(submit) => (submit, false),
            Request::Enrol(submit) => (submit, true),
            _ => return Ok(()),
        };
        submit.script.caller = None;
        // Whose account it is was asked of the process that has connected.
        if self.has_ended {
            return Err("the process that has connected has ended".into());
        }
        if may_be_step {
            submit.script.caller = self.job();
        }
        submit.groups = self.groups.clone();
        submit.key = draw_number()?;
        // An array has a number of its own, and one for each task.
        let jobs = submit.batch.array().map_or(1, |array| array.tasks.len() as u64 + 1);
        let reserved = submit.script.reserved.filter(|_| runs_already && self.numbers.is_none());
        submit.script.reserved = reserved;
        submit.job.number = self.number(submit.job.number.filter(|_| runs_already), jobs);
        // It names the job's sockets and cgroups. That of one that runs already names nothing here.
        if !runs_already {
            submit.job.id = draw_number()?;
        }
        let session = (!runs_already).then(|| self.session(socket)).transpose();
        let refused = |error| format!("cannot read the limits of the session: {error}");
        submit.session = session.map_err(refused)?.map(Box::new);
        Ok(())
    }

    /// The number of a job, or the first of so many, where the controller does not count alone. One that the
    /// job has drawn itself counts if it is of the same series.
    fn number(&self, drawn: Option<u64>, jobs: u64) -> Option<u64> {
        let numbers = self.numbers.as_ref()?;
        let is_own = self.user.uid == rustix::process::geteuid().as_raw();
        drawn.filter(|_| is_own).or_else(|| numbers.draw(jobs).ok())
    }

    /// The job that its process is of: the nearest of its ancestors that is a starter. Starters adopt the
    /// orphans below them, so nothing of a job has left them.
    fn job(&self) -> Option<JobId> {
        let mut pid = self.pid.filter(|_| !self.starters.is_empty())?;
        for _ in 0..ANCESTORS_MAX {
            let Stat { parent, since, .. } = Stat::of(pid)?;
            let number = pid.as_raw_nonzero().get() as u32;
            if let Some((job, _)) = self.starters.iter().find(|(_, starter)| *starter == (number, since)) {
                return Some(*job);
            }
            pid = Pid::from_raw(parent)?;
        }
        None
    }

    fn session(&self, socket: BorrowedFd<'_>) -> io::Result<Session> {
        let pid = self.pid.ok_or_else(|| io::Error::other("its process is in another pid namespace"))?;
        let pidfd = peer_pidfd(socket, pid, self.user.uid)?;
        Session::of(pid, pidfd.as_fd(), &self.machine)
    }
}

async fn serve(
    client: ClientId,
    peer: Peer,
    mut permit: ConnectionPermit,
    stream: UnixStream,
    shell_events: ShellEvents,
) {
    let (user, pid) = (peer.user, peer.pid);
    let (mut reader, mut writer) = stream.into_split();
    let (sender, mut queue) = mpsc::unbounded_channel::<Vec<u8>>();
    let tell = shell_events.clone();
    let debts = permit.debts();
    let paid = debts.clone();
    tokio::spawn(async move {
        while let Some(bytes) = queue.recv().await {
            // A front end may stand still for hours, who has only asked something may not.
            let written = match queue.is_closed() {
                false => writer.write_all(&bytes).await.is_ok(),
                true => {
                    timeout(ANSWER_MAX, writer.write_all(&bytes)).await.is_ok_and(|written| written.is_ok())
                }
            };
            paid.pay(bytes.len());
            if !written {
                break;
            }
            let _ = tell.send(ShellEvent::Core(Event::Taken(client, bytes.len())));
        }
        // Nobody reads the rest.
        queue.close();
        while let Ok(bytes) = queue.try_recv() {
            paid.pay(bytes.len());
        }
    });
    // The shell alone keeps the writer alive: when it lets go, the connection ends behind what was written.
    let weak = sender.downgrade();
    if shell_events.send(ShellEvent::Client { client, writer: sender, debts, process: peer.process }).is_err()
    {
        return;
    }
    let mut decoder = Decoder::default();
    let events = UserEvents { uid: permit.uid(), shell_events };
    let heard = listen(client, &peer, &mut permit, &mut reader, &mut decoder, &events).await;
    if let Ok(Heard::Reattach(back)) = heard {
        let (listen, refused) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let (number, job) = (client.0, JobId(back.job));
        let told = ShellEvent::Reattach {
            client,
            uid: user.uid,
            pid,
            back,
            listen: Arc::clone(&listen),
            refused: Arc::clone(&refused),
        };
        if events.put(told) {
            drop(weak);
            listen.notified().await;
            // Whatever somebody else says is nothing that this job's starter says.
            if refused.load(Ordering::Relaxed) {
                return;
            }
            starters::read_frames(job, number, reader, decoder, listen, events).await;
        }
        return;
    }
    let answer = match heard {
        Err(text) => Some(Answer::Refused(text)),
        Ok(Heard::Answered(answer)) => Some(answer),
        Ok(_) => None,
    };
    if let Some(answer) = answer {
        let frame = framed(&answer);
        if let Some(sender) = weak.upgrade() {
            permit.debts().owe(frame.len());
            let _ = sender.send(frame);
        }
    }
    // Until it is, the connection counts.
    events.serve(ShellEvent::Core(Event::ClientGone(client))).await;
}

impl Shell {
    /// Answers whoever has asked; a user whose programs read nothing hears that, and no more.
    pub(super) fn answer(&mut self, client: ClientId, answer: &Answer) {
        let mut frame = Vec::new();
        #[cfg(feature = "next-wire")]
        wire::put(&mut frame, Kind::Next, 0, &[7; 100]);
        put_answer(&mut frame, answer);
        let Some(known) = self.clients.get(&client) else { return };
        if known.debts.is_over(frame.len()) && !self.core.is_front_end(client) {
            frame = refusal("too many answers to you wait to be read: try again later".into());
        }
        known.debts.owe(frame.len());
        let _ = known.writer.send(frame);
    }

    /// A frame behind an answer, or for a front end, which is given as much as it reads.
    pub(super) fn send_to_client(&mut self, client: ClientId, frame: Vec<u8>) {
        let Some(known) = self.clients.get(&client) else { return };
        if known.debts.is_over(frame.len()) && !self.core.is_front_end(client) {
            drop(self.clients.remove(&client));
            return;
        }
        known.debts.owe(frame.len());
        let _ = known.writer.send(frame);
    }
}

/// Until the program has gone, or has said that it is a starter.
async fn listen(
    client: ClientId,
    peer: &Peer,
    permit: &mut ConnectionPermit,
    reader: &mut OwnedReadHalf,
    decoder: &mut Decoder,
    events: &UserEvents,
) -> Result<Heard, String> {
    permit.await_budget().await;
    let asked = timeout(REQUEST_MAX, read_first(permit, reader, decoder)).await;
    let late = |_| format!("no whole request has come within {} seconds", REQUEST_MAX.as_secs());
    let mut request = match asked.map_err(late)?? {
        Some(First::Request(request)) => request,
        Some(First::Reattach(back)) => {
            permit.is_known();
            return Ok(Heard::Reattach(back));
        }
        None => return Ok(Heard::Gone),
    };
    permit.is_known();
    // It may have been long.
    decoder.shrink();
    let mut frame_bytes_max = FRAME_BYTES_MAX;
    if matches!(request, Request::Enrol(_)) {
        frame_bytes_max = STATE_BYTES_MAX;
    }
    // A daemon that has stood still finds what was asked long ago, and given up.
    if has_gone(reader) {
        return Ok(Heard::Gone);
    }
    let stream: &UnixStream = reader.as_ref();
    peer.vouch(&mut request, stream.as_fd())?;
    let (user, request) = match tokens::exchange(peer.user, request) {
        Asked::Of(user, request) => (user, request),
        Asked::Answered(answer) => return Ok(Heard::Answered(answer)),
    };
    if !events.serve(ShellEvent::Core(Event::Request(client, user, request))).await {
        return Ok(Heard::Gone);
    }
    loop {
        permit.release_to(decoder.waiting());
        let mut frames = Vec::new();
        while frames.len() < PIECE_FRAMES
            && let Some((header, payload)) = decoder.next_frame().map_err(|error| error.to_string())?
        {
            if header.kind == Kind::Report && payload.len() > REPORT_BYTES_MAX {
                return Err(format!("a report of more than {} MiB", REPORT_BYTES_MAX >> 20));
            }
            frames.push((header.kind, header.rank, payload.to_vec()));
        }
        if !frames.is_empty() {
            if !events.serve(ShellEvent::Frames(client, frames)).await {
                return Ok(Heard::Gone);
            }
            continue;
        }
        if decoder.waiting() > frame_bytes_max + wire::HEAD_BYTES {
            return Err(format!("a frame of more than {} KiB", frame_bytes_max >> 10));
        }
        match read_some(reader, decoder).await {
            0 => return Ok(Heard::Gone),
            read => permit.hold(read).map_err(|excess| excess.to_string())?,
        }
    }
}

/// Ends of what a program says.
enum Heard {
    /// Program that has gone.
    Gone,
    /// Starter that comes back.
    Reattach(Reattach),
    /// Request that has its answer at once.
    Answered(Answer),
}

fn draw_number() -> Result<u64, String> {
    random_number().map_err(|error| format!("cannot draw random bytes: {error}"))
}

/// The program has closed its end.
fn has_gone(reader: &OwnedReadHalf) -> bool {
    let stream: &UnixStream = reader.as_ref();
    let mut polled = [PollFd::new(stream, PollFlags::RDHUP)];
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    tutti_os::look(&mut polled).is_ok() && polled[0].revents().intersects(gone)
}

/// First word of a program.
enum First {
    /// A user's.
    Request(Request),
    /// A starter's whose daemon has died.
    Reattach(Reattach),
}

/// How many values a text as JSON has, at most: what each takes in memory does not depend on its length
/// alone.
fn words_of(json: &[u8]) -> usize {
    let (mut words, mut is_text, mut is_escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b',' | b'[' | b'{' if !is_text => words += 1,
            _ => {}
        }
    }
    words
}

/// The first frame; none: the program has gone.
async fn read_first(
    permit: &mut ConnectionPermit,
    reader: &mut OwnedReadHalf,
    decoder: &mut Decoder,
) -> Result<Option<First>, String> {
    loop {
        let waiting = decoder.waiting();
        match decoder.next_frame().map_err(|error| error.to_string())? {
            Some((FrameHeader { kind: Kind::Request, .. }, payload)) => {
                if words_of(payload) > WORDS_MAX {
                    return Err(format!("a request of more than {WORDS_MAX} words"));
                }
                return serde_json::from_slice(payload)
                    .map(|request| Some(First::Request(request)))
                    .map_err(|error| format!("the request is not one of this version ({RELEASE}): {error}"));
            }
            Some((FrameHeader { kind: Kind::Reattach, .. }, payload)) => {
                let back = serde_json::from_slice(payload);
                return back.map(|back| Some(First::Reattach(back))).map_err(|error| error.to_string());
            }
            Some(_) => return Err("the first frame is not a request".into()),
            None if waiting > REQUEST_BYTES_MAX => {
                return Err(format!("a request of more than {} MiB", REQUEST_BYTES_MAX >> 20));
            }
            None => {}
        }
        match read_some(reader, decoder).await {
            0 => return Ok(None),
            read => permit.hold_request(read).map_err(|excess| excess.to_string())?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Request of `tutti submit`, with what it says of itself.
    const SUBMISSION: &str = r#"{"Submit": {
        "job": {"id": 7, "front_end": 0, "programs": [], "input": "None", "input_inherited": false, "terminal": null,
                "pty": false, "binding": "None", "cores_per_rank": null, "no_oversubscribe": false, "part": null,
                "debug": false},
        "nodes": null, "per_node": null, "hosts": [], "environment": [], "directory": "/", "umask": 18,
        "groups": [0], "key": 7, "session": {"limits": [], "nice": -20, "policy": 0, "io_priority": 0,
        "oom_score_adjustment": -1000, "no_new_privileges": false, "bounding": 0, "cores": "0", "machine": "there"}
    }}"#;

    #[test]
    fn words_of_a_request_are_counted_outside_of_texts() {
        for (json, words) in [
            ("7", 1),
            ("[]", 2),
            ("[1,2,3]", 4),
            (r#"{"a":["x,[{y","\\",",\\\",,"]}"#, 5),
            (r#"["\"","b"]"#, 3),
        ] {
            assert_eq!(words_of(json.as_bytes()), words, "{json}");
        }
    }

    #[test]
    fn submission_has_key_groups_and_session_of_the_kernels_whatever_it_says() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let peer = Peer {
            user: User::new(uid, gid),
            groups: vec![5],
            pid: Some(rustix::process::getpid()),
            process: None,
            has_ended: false,
            machine: "here".into(),
            numbers: None,
            starters: Vec::new(),
        };
        let vouched = || {
            let mut request = serde_json::from_str(SUBMISSION).unwrap();
            peer.vouch(&mut request, one.as_fd()).unwrap();
            match request {
                Request::Submit(submit) => submit,
                _ => unreachable!("it is a submission"),
            }
        };
        let jobs: Vec<_> = (0..64).map(|_| vouched()).collect();
        for job in &jobs {
            let session = job.session.as_ref().expect("the kernel knows it");
            assert_eq!((&job.groups, session.limits.len(), &*session.machine), (&vec![5], 16, "here"));
        }
        // Whatever is made of the ids of two jobs: half of the bits of their keys differ, and which ones
        // nobody can say.
        let (mut ever, mut always) = (0, u64::MAX);
        for pair in jobs.windows(2) {
            let differ = pair[0].key ^ pair[1].key;
            (ever, always) = (ever | differ, always & differ);
            assert!(
                ![pair[0].job.id, 7].contains(&pair[0].key) && pair[0].key != pair[0].job.id.rotate_left(17)
            );
        }
        assert_eq!((ever, always), (u64::MAX, 0));
    }
}
