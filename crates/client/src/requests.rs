//! Requests to the daemon of this node, over its local socket.
//!
//! A daemon that is silent is complained of once ([`NOTICE_DELAY`]), and a query is given up after [`QUERY`].

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tutti_os::random::fill_random;
use tutti_os::stderr::print_line;
use tutti_protocol::batch::Sending;
use tutti_protocol::paths;
use tutti_protocol::users::refusal::{Reason, read_answer};
use tutti_protocol::wire::{self, Decoder, FrameHeader, Kind, Report};
use tutti_shm::local_socket::connect_to;
use tutti_shm::users::is_own_user;

use crate::at;

pub use tutti_protocol::batch::Batch;
pub use tutti_protocol::terms::Terms;
pub use tutti_protocol::users::FreezeMethod;
pub use tutti_protocol::users::{
    Answer, Control, Host, JobRow, JobState, NodeRow, Request, Return, Script, Submit,
};
pub use tutti_sched::JobId;

/// A daemon that is silent for so long gets a line: after 3 s it would have reported that it waits itself.
const NOTICE_DELAY: Duration = Duration::from_millis(3500);
/// A query is given up then: a live daemon would have answered after 10 s.
const QUERY: Duration = Duration::from_secs(11);

/// A command that waits for a job awaits a new daemon for so long, with retries so far apart.
const RECONNECT_MAX: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_millis(100);
/// A command that has submitted a job awaits a new daemon for so long.
const SUBMIT_MAX: Duration = Duration::from_secs(10);
/// A query to a daemon that closes its connections is tried again for so long.
const LEAVING_MAX: Duration = Duration::from_secs(2);

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    /// A daemon that has died meanwhile, or leaves.
    #[error("the daemon closed the connection without an answer")]
    Gone,
    /// A refusal for this reason: a line for the user.
    #[error("{1}")]
    Because(Reason, String),
    /// A line for the user.
    #[error("{0}")]
    Failed(String),
}

impl From<String> for RequestError {
    fn from(text: String) -> Self {
        RequestError::Failed(text)
    }
}

/// Connects to the daemon of this node.
///
/// # Errors
/// When there is none; a text for the user.
pub fn connect() -> Result<OwnedFd, String> {
    stream().map(OwnedFd::from)
}

/// Time for the question whether a daemon is there: the request itself waits.
const PROBE: Duration = Duration::from_millis(1);

/// A daemon is here, be it one that is stopped and has no room for more connections.
pub fn is_there() -> bool {
    at::target().is_some() || is_there_at(&paths::socket(), |stream| stranger(stream).is_none())
}

/// Whether something listens where the daemon of this node would, be it one that is not trusted.
pub fn is_answered() -> bool {
    is_there_at(&paths::socket(), |_| true)
}

fn is_there_at(socket: &Path, is_one: impl Fn(&UnixStream) -> bool) -> bool {
    match connect_to(socket, PROBE) {
        Ok(stream) => is_one(&stream),
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

/// Whether a daemon that does not answer has died. One that leaves removes its socket; one that has died
/// leaves it there, and perhaps jobs that run: an empty table would deny them.
pub fn has_died() -> bool {
    paths::socket().exists() || paths::on_demand().join(paths::SOCKET).exists()
}

/// Connects to the daemon of this node: the cluster's, else the one that mpiexec has started.
///
/// # Errors
/// When there is none; a text for the user.
pub fn stream() -> Result<UnixStream, String> {
    try_stream().map_err(|error| error.to_string())
}

/// Why there is no connection to a daemon.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    /// Absence of a daemon.
    #[error(
        "no daemon answers at {} ({error}): `tutti up --nodes N` starts a cluster on this machine, tuttid --join one on others; \
         {} names another socket",
        path.display(),
        paths::SOCKET_VARIABLE
    )]
    NoDaemon { path: PathBuf, error: std::io::Error },
    /// Daemon that takes no connection, and has as many that wait as there is room for.
    #[error(
        "the daemon at {} has taken no connection for {seconds} s; if it is stopped, kill -CONT resumes it",
        path.display()
    )]
    Silent { path: PathBuf, seconds: u64 },
    /// Daemon that is not for us, as a line for the user.
    #[error("{0}")]
    ForeignDaemon(String),
}

fn try_stream() -> Result<UnixStream, ConnectError> {
    try_stream_of(&mut None)
}

/// The same, of the daemon at a socket that has been used before, where one has.
fn try_stream_of(used: &mut Option<PathBuf>) -> Result<UnixStream, ConnectError> {
    if let Some(target) = at::target() {
        return at::open(&target, &at::Opening::Frames).map_err(ConnectError::ForeignDaemon);
    }
    let path = used.clone().unwrap_or_else(paths::socket);
    let may_be_own = used.is_none() && !paths::is_named();
    let own = || {
        let socket = paths::on_demand().join(paths::SOCKET);
        let stream = may_be_own.then(|| connect_to(&socket, QUERY).ok()).flatten()?;
        Some((stream, socket))
    };
    let found = connect_to(&path, QUERY).map(|stream| (stream, path.clone()));
    // Another daemon does not know the jobs of one that is stopped.
    let is_stopped = |error: &std::io::Error| error.kind() == ErrorKind::WouldBlock;
    let other = |error| if is_stopped(&error) { Err(error) } else { own().ok_or(error) };
    let (found, socket) = found.or_else(other).map_err(|error| {
        if error.kind() == ErrorKind::WouldBlock {
            return ConnectError::Silent { path: path.clone(), seconds: QUERY.as_secs() };
        }
        if error.kind() == ErrorKind::PermissionDenied {
            let text = format!("the daemon at {} is another user's: {error}", path.display());
            return ConnectError::ForeignDaemon(text);
        }
        ConnectError::NoDaemon { path: path.clone(), error }
    })?;
    match stranger(&found) {
        None => {
            *used = Some(socket);
            Ok(found)
        }
        Some(uid) => Err(ConnectError::ForeignDaemon(format!(
            "the daemon at {} is user {uid}'s, which is neither you nor root: it is not asked ({} names another folder)",
            path.display(),
            paths::FOLDER_VARIABLE
        ))),
    }
}

/// The user of the listener, if it is neither root nor this user: anyone may have made the folder, and our
/// request holds our environment. A socket that the user has named is trusted.
fn stranger(stream: &UnixStream) -> Option<u32> {
    let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
    let is_trusted = peer.uid.is_root() || is_own_user(peer.uid.as_raw(), peer.pid.as_raw_nonzero().get());
    (!is_trusted && !paths::is_named()).then(|| peer.uid.as_raw())
}

/// Sends a request to the cluster; gives the answer, and the frames that may follow it.
///
/// # Errors
/// When there is no daemon or it does not want to; a text for the user.
pub fn request(request: &Request) -> Result<(Answer, Frames), String> {
    request_with(request, &mut complain)
}

/// The same; lines about what is waited for go to `notify`.
///
/// # Errors
/// As [`request`].
pub fn request_with(request: &Request, notify: &mut dyn FnMut(&str)) -> Result<(Answer, Frames), String> {
    request_over(stream()?, request, notify).map_err(|error| error.to_string())
}

/// The same for a query; none: there is no daemon. One that leaves just now is asked again, or its successor.
///
/// # Errors
/// When a daemon refuses, or is not trusted; a text for the user.
pub fn request_if_running(request: &Request) -> Result<Option<Answer>, String> {
    request_if_running_with(request, &mut complain)
}

/// The same; lines about what is waited for go to `notify`.
///
/// # Errors
/// As [`request_if_running`].
pub fn request_if_running_with(
    request: &Request,
    notify: &mut dyn FnMut(&str),
) -> Result<Option<Answer>, String> {
    query(request, notify).map_err(|error| error.to_string())
}

/// Refusal of something that was to be done to a job: a line for the user.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct NotDone {
    /// The line.
    pub text: String,
    /// Whether the daemon says that the job is another user's.
    pub is_of_another: bool,
}

/// As [`request_if_running_with`] for requests about a job.
///
/// # Errors
/// The same, with the daemon's reason.
pub fn request_of_job(request: &Request) -> Result<Option<Answer>, NotDone> {
    query(request, &mut |_| {}).map_err(|error| NotDone {
        is_of_another: matches!(error, RequestError::Because(Reason::OtherUser, _)),
        text: error.to_string(),
    })
}

fn query(request: &Request, notify: &mut dyn FnMut(&str)) -> Result<Option<Answer>, RequestError> {
    let deadline = Instant::now() + LEAVING_MAX;
    loop {
        let stream = match try_stream() {
            Ok(stream) => stream,
            Err(ConnectError::NoDaemon { .. }) => return Ok(None),
            Err(error) => return Err(error.to_string().into()),
        };
        match request_over(stream, request, notify) {
            Ok((answer, _)) => return Ok(Some(answer)),
            Err(RequestError::Gone) if Instant::now() < deadline => std::thread::sleep(RETRY),
            Err(error) => return Err(error),
        }
    }
}

/// Why a job was not submitted.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// Absence of a daemon.
    #[error("{0}")]
    NoDaemon(String),
    /// A refusal, or the death of a daemon; a line for the user.
    #[error("{0}")]
    Failed(String),
}

/// Submits a job. A daemon that dies without an answer may be started anew, and is asked again: one
/// submission is one job.
///
/// # Errors
/// When there is no daemon, it refuses or is not trusted, or none comes back.
pub fn submit(mut submit: Submit, notify: &mut dyn FnMut(&str)) -> Result<Answer, SubmitError> {
    let mut number = [0; 8];
    fill_random(&mut number)
        .map_err(|error| SubmitError::Failed(format!("cannot draw random bytes: {error}")))?;
    let mut sending = Sending { number: u64::from_ne_bytes(number), is_repeated: false };
    submit.batch.set_sending(sending);
    let mut request = Request::Submit(Box::new(submit));
    let (mut lost_until, mut socket) = (None, None);
    loop {
        // Another daemon would not know the job.
        match try_stream_of(&mut socket) {
            Ok(stream) => match request_over(stream, &request, notify) {
                Ok((answer, _)) => return Ok(answer),
                Err(RequestError::Gone) => {
                    lost_until.get_or_insert_with(|| Instant::now() + SUBMIT_MAX);
                    if let Request::Submit(submit) = &mut request {
                        sending.is_repeated = true;
                        submit.batch.set_sending(sending);
                    }
                }
                Err(error) => return Err(SubmitError::Failed(error.to_string())),
            },
            Err(error @ ConnectError::NoDaemon { .. }) if lost_until.is_none() => {
                return Err(SubmitError::NoDaemon(error.to_string()));
            }
            Err(ConnectError::NoDaemon { .. }) => {}
            Err(error) => return Err(SubmitError::Failed(error.to_string())),
        }
        if lost_until.is_some_and(|until| Instant::now() >= until) {
            let text = "the daemon has died without an answer; `tutti ps` says whether there is a job";
            return Err(SubmitError::Failed(text.into()));
        }
        std::thread::sleep(RETRY);
    }
}

/// A job as the cluster knows it.
#[derive(Clone, Debug, PartialEq)]
pub enum FoundJob {
    /// Row of the job.
    Known(Vec<JobRow>),
    /// The job is over, and the cluster has forgotten it. A daemon of an earlier release says so only in a
    /// line.
    Forgotten,
    /// Absence of a daemon.
    NoDaemon,
}

/// Asks for a job.
///
/// # Errors
/// As [`request_if_running`].
pub fn find_job(job: JobId) -> Result<FoundJob, String> {
    match query(&Request::Job(job), &mut complain) {
        Ok(Some(Answer::Jobs(rows))) => Ok(FoundJob::Known(rows)),
        Ok(Some(_)) => Err("the daemon is of another version".into()),
        Ok(None) => Ok(FoundJob::NoDaemon),
        Err(RequestError::Because(Reason::Forgotten, _)) => Ok(FoundJob::Forgotten),
        Err(error) => Err(error.to_string()),
    }
}

/// Asks the cluster of this node for the number of a job that begins without it. None: it has not given one
/// within this time.
pub fn reserve_number(limit: Duration) -> Option<u64> {
    let mut stream = stream().ok()?;
    stream.set_read_timeout(Some(limit)).ok()?;
    let mut bytes = Vec::new();
    wire::put_json(&mut bytes, Kind::Request, &Request::Number);
    stream.write_all(&bytes).ok()?;
    let (mut decoder, deadline) = (Decoder::default(), Instant::now() + limit);
    let mut bytes = [0; 1024];
    while Instant::now() < deadline {
        if let Some((head @ FrameHeader { kind: Kind::Answer, .. }, payload)) = decoder.next_frame().ok()? {
            let Some(Answer::Job(job)) = read_answer(head, payload) else { return None };
            return Some(job.0);
        }
        match stream.read(&mut bytes).ok()? {
            0 => return None,
            read => decoder.extend(&bytes[..read]),
        }
    }
    None
}

/// Waits for the end of a job; gives its exit status, if the controller knows it. A daemon that dies
/// meanwhile may be started anew.
///
/// # Errors
/// When there is no such job or no daemon; a text for the user.
pub fn wait_for(job: JobId) -> Result<Option<u8>, String> {
    let mut stream = stream()?;
    loop {
        match request_over(stream, &Request::Wait(job), &mut complain) {
            Ok((Answer::Jobs(rows), _)) => {
                let row = rows.first().ok_or("the daemon is of another version")?;
                return Ok(row.status);
            }
            Ok(_) => return Err("the daemon is of another version".into()),
            Err(RequestError::Gone) => stream = reconnect()?,
            Err(RequestError::Because(_, text) | RequestError::Failed(text)) => return Err(text),
        }
    }
}

/// A daemon that is started in the place of one that has died.
fn reconnect() -> Result<UnixStream, String> {
    let deadline = Instant::now() + RECONNECT_MAX;
    loop {
        match stream() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(RETRY),
            found => return found,
        }
    }
}

/// Sends a command line to the host that is not this one, where it becomes a job; gives the answer.
///
/// # Errors
/// When there is no way there or it is refused; a text for the user.
pub fn start_at(target: &str, start: at::Start) -> Result<Answer, String> {
    let stream = at::open(target, &at::Opening::Start(Box::new(start)))?;
    let mut frames = Frames { stream, decoder: Decoder::default() };
    match frames.answer(&Request::Nodes, &mut complain)? {
        Some(Answer::Refused(text) | Answer::Because(_, text)) => Err(text),
        Some(answer) => Ok(answer),
        None => Err(RequestError::Gone.to_string()),
    }
}

fn request_over(
    mut stream: UnixStream,
    request: &Request,
    notify: &mut dyn FnMut(&str),
) -> Result<(Answer, Frames), RequestError> {
    let mut bytes = Vec::new();
    wire::put_json(&mut bytes, Kind::Request, request);
    let is_closed = match stream.write_all(&bytes) {
        Ok(()) => false,
        Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => true,
        Err(error) => return Err(RequestError::Failed(format!("cannot ask the daemon: {error}"))),
    };
    let mut frames = Frames { stream, decoder: Decoder::default() };
    // Who is not let in is told why before it has asked.
    let answer = match frames.answer(request, notify) {
        Ok(answer) => answer,
        Err(_) if is_closed => None,
        Err(text) => return Err(text.into()),
    };
    match answer {
        Some(Answer::Refused(text)) => Err(text.into()),
        Some(Answer::Because(reason, text)) => Err(RequestError::Because(reason, text)),
        Some(answer) => Ok((answer, frames)),
        None => Err(RequestError::Gone),
    }
}

/// Prints a line for the user of this command.
pub fn complain(text: &str) {
    let command = std::env::args().nth(1).unwrap_or_default();
    print_line(format_args!("tutti {command}: {text}"));
}

/// Frames behind the daemon's answer.
#[derive(Debug)]
pub struct Frames {
    stream: UnixStream,
    decoder: Decoder,
}

impl Frames {
    /// The answer; until it comes, one line tells what is waited for. A query ends without one.
    fn answer(&mut self, request: &Request, notify: &mut dyn FnMut(&str)) -> Result<Option<Answer>, String> {
        let changes = matches!(
            request,
            Request::Submit(_)
                | Request::Control(..)
                | Request::Change(..)
                | Request::Down
                | Request::Wait(_)
        );
        let daemon = rustix::net::sockopt::socket_peercred(&self.stream)
            .map_or(0, |peer| peer.pid.as_raw_nonzero().get());
        let waits = matches!(request, Request::Wait(_));
        // A command that waits for a job gets its answer when the job is over.
        let (began, mut notified) = (Instant::now(), waits);
        loop {
            match self.decoder.next_frame() {
                Ok(Some((head @ FrameHeader { kind: Kind::Answer, .. }, payload))) => {
                    return Ok(read_answer(head, payload));
                }
                // The daemon reports what it waits for.
                Ok(Some((FrameHeader { kind: Kind::Report, .. }, payload))) => {
                    if let Ok(Report::Warning(text)) = serde_json::from_slice(payload) {
                        notified = true;
                        notify(&text);
                    }
                    continue;
                }
                Ok(Some(_)) => return Ok(None),
                Ok(None) => {}
                Err(error) => return Err(format!("the daemon is of another version: {error}")),
            }
            let next = if !notified { Some(NOTICE_DELAY) } else { (!changes).then_some(QUERY) };
            let left = next.map(|next| (began + next).saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) && notified {
                return Err(format!(
                    "the daemon (pid {daemon}) has not answered for {} s; if it is stopped, kill -CONT {daemon} resumes it",
                    QUERY.as_secs()
                ));
            }
            if left == Some(Duration::ZERO) {
                notified = true;
                notify(&format!(
                    "the daemon (pid {daemon}) has not answered for {} s; Ctrl-C gives up",
                    NOTICE_DELAY.as_secs()
                ));
                continue;
            }
            let timeout = left.map(|left| Timespec::try_from(left).expect("less than a century"));
            let mut polled = [PollFd::new(&self.stream, PollFlags::IN)];
            let is_ready = poll(&mut polled, timeout.as_ref()).is_ok_and(|ready| ready > 0);
            if is_ready && !self.read()? {
                return Ok(None);
            }
        }
    }

    /// The next frame; none at the end.
    ///
    /// # Errors
    /// When the daemon is of another version; a text for the user.
    pub fn next_frame(&mut self) -> Result<Option<(FrameHeader, Vec<u8>)>, String> {
        loop {
            let frame = self
                .decoder
                .next_frame()
                .map_err(|error| format!("the daemon is of another version: {error}"))?;
            if let Some((head, payload)) = frame {
                return Ok(Some((head, payload.to_vec())));
            }
            if !self.read()? {
                return Ok(None);
            }
        }
    }

    /// Reads once. `false`: nothing more comes.
    fn read(&mut self) -> Result<bool, String> {
        let mut bytes = [0; 64 << 10];
        match self.stream.read(&mut bytes) {
            Ok(0) => Ok(false),
            Ok(read) => {
                self.decoder.extend(&bytes[..read]);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(false),
            Err(error) => Err(format!("the daemon does not answer: {error}")),
        }
    }
}
