//! The local socket: programs of users. Who they are the kernel says (SO_PEERCRED), never they themselves (DESIGN-NOTES W30).

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, SocketAddr};
use tokio::sync::mpsc;
use tutti_node::wire::{self, Decoder, Kind};

use super::{ClientId, Event, Happened, Happenings, Local, Shell, ShellError, failed, report_accept};
use crate::message::{Answer, Request, User};

/// What is written to a user's program.
pub(super) type Writer = mpsc::UnboundedSender<Vec<u8>>;
/// A user's program.
pub(super) struct Client {
    /// What is written to it.
    pub writer: Writer,
    /// Its process, as the kernel says.
    pub pid: Option<Pid>,
    /// It was seen stopped.
    pub stopped: bool,
}

/// What a program may say before its first request is whole.
const REQUEST_BYTES_MAX: usize = 32 << 20;

/// Opens the socket; one that a dead daemon has left is replaced.
pub(super) fn bind(path: &Path) -> Result<Local, ShellError> {
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(ShellError::Taken(path.to_owned()));
    }
    let _ = std::fs::remove_file(path);
    let action = || format!("open the socket {}", path.display());
    let local = Local::bind(path).map_err(failed(action()))?;
    // Everybody may ask; what each may do depends on who it is.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(failed(action()))?;
    Ok(local)
}

impl Shell {
    pub(super) fn accept_client(&mut self, accepted: io::Result<(UnixStream, SocketAddr)>) {
        let accepted = accepted.and_then(|(stream, _)| {
            let who = stream.peer_cred()?;
            let user = User { uid: who.uid(), gid: who.gid() };
            let pid = who.pid().and_then(Pid::from_raw);
            let client = ClientId(self.number());
            tokio::spawn(serve(client, user, pid, stream, self.happenings.clone()));
            Ok(())
        });
        report_accept(accepted);
    }
}

impl Shell {
    /// A front end that was stopped by SIGSTOP cannot say so: its state is looked at (W25).
    pub(super) fn watch_front_ends(&mut self) {
        let core = &self.core;
        let watched = self.clients.iter_mut().filter(|(client, _)| core.is_front_end(**client));
        let mut changed = Vec::new();
        for (client, known) in watched {
            let Some(stopped) = known.pid.and_then(is_stopped) else { continue };
            if std::mem::replace(&mut known.stopped, stopped) != stopped {
                changed.push((*client, stopped));
            }
        }
        for (client, stopped) in changed {
            self.core.handle(super::now_ms(), Event::FrontState(client, stopped));
        }
    }
}

/// Whether a process is stopped by a signal; none when it is gone.
fn is_stopped(pid: Pid) -> Option<bool> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // 17 (name) T ...: the name may hold anything, the last parenthesis ends it.
    Some(stat.rsplit_once(") ")?.1.starts_with('T'))
}

async fn serve(client: ClientId, user: User, pid: Option<Pid>, stream: UnixStream, happenings: Happenings) {
    let (mut reader, mut writer) = stream.into_split();
    let (sender, mut queue) = mpsc::unbounded_channel::<Vec<u8>>();
    let tell = happenings.clone();
    tokio::spawn(async move {
        while let Some(bytes) = queue.recv().await {
            if writer.write_all(&bytes).await.is_err() {
                break;
            }
            let _ = tell.send(Happened::Core(Event::Taken(client, bytes.len())));
        }
    });
    // The shell alone keeps the writer alive: when it lets go, the connection ends behind what was written.
    let weak = sender.downgrade();
    if happenings.send(Happened::Client { client, writer: sender, pid }).is_err() {
        return;
    }
    if let Err(text) = listen(client, user, &mut reader, &happenings).await {
        let mut frame = Vec::new();
        wire::put_json(&mut frame, Kind::Answer, &Answer::Refused(text));
        let _ = weak.upgrade().map(|sender| sender.send(frame));
    }
    let _ = happenings.send(Happened::Core(Event::ClientGone(client)));
}

/// Until the program has gone.
async fn listen(
    client: ClientId,
    user: User,
    reader: &mut OwnedReadHalf,
    happenings: &Happenings,
) -> Result<(), String> {
    let mut decoder = Decoder::default();
    let mut bytes = vec![0_u8; 64 << 10];
    let mut waiting = 0;
    let mut asked = false;
    loop {
        let read = match reader.read(&mut bytes).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(read) => read,
        };
        decoder.extend(&bytes[..read]);
        waiting += read;
        while let Some((head, payload)) = decoder.next_frame().map_err(|error| error.to_string())? {
            waiting = 0;
            let event = match head.kind {
                Kind::Ask if !asked => {
                    asked = true;
                    let request: Request = serde_json::from_slice(payload)
                        .map_err(|error| format!("the request is not one of this version: {error}"))?;
                    Event::Request(client, user, request)
                }
                _ if !asked => return Err("the first frame is no request".into()),
                kind => Event::Frame(client, kind, head.rank, payload.to_vec()),
            };
            if happenings.send(Happened::Core(event)).is_err() {
                return Ok(());
            }
        }
        if waiting > REQUEST_BYTES_MAX {
            return Err(format!("a frame of more than {} MiB", REQUEST_BYTES_MAX >> 20));
        }
    }
}
