//! The local socket: programs of users. Who they are the kernel says (SO_PEERCRED), never they themselves.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::SendFlags;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::{OwnedReadHalf, SocketAddr};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use tutti_protocol::daemon_lock;
use tutti_protocol::users::refusal::put_answer;
use tutti_protocol::version::RELEASE;
use tutti_protocol::wire::{self, Decoder, FrameHeader, Kind, Reattach};
use tutti_shm::local_socket;

use super::clock::now;
use super::error::{ShellError, failed};
use super::peer_users::PeerProcess;
use super::quota::{ConnectionPermit, Debts};
use super::receive::read_some;
use super::tokens::{self, Asked};
use super::{ClientId, Event, JobId, Shell, ShellEvent, ShellEvents, UserEvents, doors, starters};
use crate::message::{Answer, Request, STATE_BYTES_MAX};

mod peer;

use peer::Peer;

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
/// Time for the question whether somebody listens.
const PROBE: Duration = Duration::from_millis(1);

/// Opens the socket; one that a dead daemon has left is replaced. Who holds the lock beside it is its owner:
/// two daemons that are started at once do not take it from each other. `is_on_demand`: whoever has started
/// this one looks again himself, so one that answers is not waited for, only one that begins or ends.
pub(super) fn bind(path: &Path, is_on_demand: bool) -> Result<(UnixListener, File), ShellError> {
    let beside = lock_beside(path);
    let lock = File::options().create(true).append(true).mode(0o600).open(&beside);
    let lock = lock.map_err(failed(format!("open {}", beside.display())))?;
    let deadline = Instant::now() + DYING_MAX;
    while is_locked(&lock, &beside) || is_listened_at(path) {
        if Instant::now() >= deadline || is_on_demand && is_listened_at(path) {
            return Err(ShellError::Taken(path.to_owned()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = std::fs::remove_file(path);
    let action = || format!("open the socket {}", path.display());
    let local = UnixListener::bind(path).map_err(failed(action()))?;
    local_socket::let_descriptors_pass(local.as_fd(), false);
    // Everybody may ask; what each may do depends on who it is.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(failed(action()))?;
    Ok((local, lock))
}

/// The lock of a socket.
fn lock_beside(socket: &Path) -> PathBuf {
    let mut beside = socket.as_os_str().to_owned();
    beside.push(".lock");
    beside.into()
}

/// Whether another daemon answers at a socket, or begins or ends there.
fn is_taken(socket: &Path) -> bool {
    let lock = || File::open(lock_beside(socket));
    is_listened_at(socket) || lock().is_ok_and(|lock| daemon_lock::is_held(&lock))
}

/// Takes a lock of the files that outlive a boot: daemons with two sockets do not write into them together.
/// The result is none where another one has it for long, or `is_over`: then it is not waited for. Where no
/// file can be made the daemon goes on without a lock: whoever writes there hears of it.
fn lock_state(path: &Path, is_over: impl Fn() -> bool) -> Option<StateLock> {
    let open = || File::options().create(true).append(true).mode(0o600).open(path);
    let deadline = Instant::now() + DYING_MAX;
    loop {
        let lock = match open() {
            Ok(lock) => lock,
            Err(error) => {
                tracing::warn!(
                    "cannot open {}: {error}; no other daemon is kept from its folder",
                    path.display()
                );
                return Some(StateLock(None));
            }
        };
        while is_locked(&lock, path) {
            if Instant::now() >= deadline || is_over() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // Whoever had it may have removed the file.
        if is_at(&lock, path) || Instant::now() >= deadline {
            return Some(StateLock(Some(lock)));
        }
    }
}

/// Whether the file of a name is this one.
fn is_at(file: &File, path: &Path) -> bool {
    let number = |found: std::fs::Metadata| (found.dev(), found.ino());
    std::fs::metadata(path).is_ok_and(|found| file.metadata().is_ok_and(|own| number(own) == number(found)))
}

/// Takes the locks of the files that outlive a boot, on the controller also that of the logs. One that was
/// started by `mpiexec` waits for no daemon that answers: `mpiexec` looks again.
///
/// # Errors
/// When another daemon has one of them.
pub(super) fn lock_all(settings: &super::Settings) -> Result<Vec<StateLock>, ShellError> {
    let (folders, is_on_demand) = (&settings.folders, settings.delays.leave_ms.is_some());
    let [state, logs] = folders.locks();
    let wanted = [Some(&state), Some(&logs).filter(|_| settings.is_controller())];
    let take = |path: &PathBuf| {
        let folder = path.parent().unwrap_or(path).to_owned();
        let is_over = || is_on_demand && is_listened_at(&folders.socket);
        lock_state(path, is_over).ok_or_else(|| match () {
            () if is_taken(&folders.socket) => ShellError::Taken(folders.socket.clone()),
            () if *path == logs => ShellError::LogsTaken { folder, holder: holder_text(path) },
            () => ShellError::StateTaken { folder, holder: holder_text(path) },
        })
    };
    wanted.into_iter().flatten().map(take).collect()
}

/// Process that has the lock of a file, for a line about it.
fn holder_text(path: &Path) -> String {
    let holder = File::open(path).ok().and_then(|lock| daemon_lock::holder(&lock));
    holder.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}

/// A lock that is held as long as this lives.
#[derive(Debug)]
pub(super) struct StateLock(#[expect(dead_code, reason = "it is held, not used")] Option<File>);

/// Whether another one has the lock; else this one has it, where the file system has locks at all.
fn is_locked(lock: &File, path: &Path) -> bool {
    match daemon_lock::try_take(lock) {
        Ok(is_taken) => !is_taken,
        Err(error) => {
            tracing::warn!("cannot lock {}: {error}; no other daemon is kept from it", path.display());
            false
        }
    }
}

/// Whether another process listens there, be it one that is stopped and has no room more.
fn is_listened_at(path: &Path) -> bool {
    match local_socket::connect_to(path, PROBE) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
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
    use std::io::{BufRead, Read};
    use std::process::Stdio;

    use super::*;

    /// File of which the second process of the next test takes the lock.
    const LOCKED: &str = "LOCKED_BY_TEST";

    #[test]
    fn socket_is_taken_where_its_lock_is_held_or_a_process_listens() {
        if let Some(path) = std::env::var_os(LOCKED) {
            let lock = lock_state(Path::new(&path), || true);
            println!("{}", if lock.is_some() { "locked" } else { "taken" });
            io::stdin().read_to_end(&mut Vec::new()).expect("a pipe");
            return;
        }
        let scratch = tutti_testkit::Scratch::new("taken");
        let socket = scratch.path().join("tuttid.sock");
        let lock = lock_beside(&socket);
        assert!(!is_taken(&socket));
        File::create(&lock).expect("a file");
        assert!(!is_taken(&socket) && holder_text(&lock).is_empty(), "nobody holds it");
        let name = "shell::clients::tests::socket_is_taken_where_its_lock_is_held_or_a_process_listens";
        let mut other = std::process::Command::new(std::env::current_exe().expect("this test"));
        other.args([name, "--exact", "--nocapture"]).env(LOCKED, &lock);
        let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it is started");
        let mut lines =
            io::BufReader::new(other.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let said = lines.find(|line| ["locked", "taken"].contains(&line.as_str()));
        assert_eq!(said.as_deref(), Some("locked"));
        assert!(is_taken(&socket), "one that begins, or ends");
        assert!(lock_state(&lock, || true).is_none(), "one that answers is not awaited");
        assert_eq!(holder_text(&lock), format!(" (pid {})", other.id()));
        drop(other.stdin.take());
        other.wait().expect("our child");
        assert!(!is_taken(&socket) && lock_state(&lock, || true).is_some());
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        assert!(is_taken(&socket));
    }

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
}
