//! Links to other daemons: TLS over TCP, messages as length (u32, little endian) and bytes
//! ([`tutti_protocol::codec`]).
//!
//! ```text
//! TLS, with the wire's name -> Greeting, both at once -> both speak the highest version that both know
//!                                                     \> none: each says so in one line, and closes
//! ```
//!
//! A message of a kind that a later release has added is left out. Daemons of release 0.1.0 have no greeting:
//! TLS says so, and they are refused ([`refuse_silent`]).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::{self, AlertDescription, ClientConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tutti_protocol::codec::{self, DecodeError};
use tutti_protocol::version::{self, Greeting, Stranger};

use super::strangers::Strangers;
use super::{Event, LinkId, Shell, ShellEvent, ShellEvents};
use crate::gang::{Command, LABEL, Neighbour, SECRET_BYTES, Secret};
use crate::members::NodeId;
use crate::message::{MESSAGE_BYTES_MAX, Message};

/// A connection and its handshake take at most so long.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Ports that only root can use, from which root's daemons connect, and how many are tried.
const ROOTS_PORTS: std::ops::Range<u16> = 600..1024;
const ROOTS_PORTS_TRIED: u16 = 32;
/// Bytes of what a link begins with, at most.
const GREETING_BYTES_MAX: usize = 1 << 10;
/// Between two lines about strangers.
const SAID_AGAIN: Duration = Duration::from_secs(10);

/// Connections that have not shown the key, and what was said of that.
#[derive(Debug)]
pub(super) struct PendingPeers {
    strangers: Strangers,
    /// When somebody was last turned away, and how many since without a line.
    event: Arc<Mutex<(Option<Instant>, u64)>>,
}

impl PendingPeers {
    pub(super) fn new() -> Self {
        PendingPeers { strangers: Strangers::new(), event: Arc::default() }
    }
}

/// Logs a line now and then: whoever reaches the port does not fill a disk.
fn complain(event: &Mutex<(Option<Instant>, u64)>, line: &str) {
    let mut event = event.lock().unwrap_or_else(PoisonError::into_inner);
    if event.0.is_some_and(|when| when.elapsed() < SAID_AGAIN) {
        event.1 += 1;
        return;
    }
    let more = std::mem::replace(&mut *event, (Some(Instant::now()), 0)).1;
    let more = if more > 0 { format!(" ({more} others before)") } else { String::new() };
    tracing::warn!("{line}{more}");
}

fn no_member(address: SocketAddr, why: &str) -> String {
    format!("{address} is not a member of this cluster: {why}")
}

/// Why two daemons have not found together, for people: the library of TLS says which check failed.
fn text_of(error: &io::Error) -> String {
    use rustls::{CertificateError, Error};
    let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match of_tls {
        Some(
            Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)
            | Error::AlertReceived(AlertDescription::AccessDenied),
        ) => "it has another key (--key): all nodes of a cluster have the controller's".to_owned(),
        _ => error.to_string(),
    }
}

/// The other end of a link.
pub(super) struct Far {
    /// By us.
    pub(super) dialled: bool,
    pub(super) address: SocketAddr,
    /// Secret that only both ends know.
    pub(super) secret: Option<Secret>,
    /// The version of the wire that both speak.
    pub(super) wire: u32,
}

/// A link as the loop has it.
pub(super) struct Peer {
    /// Sender of what is to be written to it.
    pub(super) writer: mpsc::UnboundedSender<Vec<u8>>,
    pub(super) far: Far,
}

/// A message as it travels.
pub(super) fn encode(message: &Message) -> Vec<u8> {
    framed(|bytes| codec::encode_behind(message, bytes))
}

fn framed(put: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Vec<u8> {
    let mut bytes = put(vec![0; 4]);
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// The two ends of a link that has not begun.
enum Met {
    /// Agreed on this version.
    Agreed(u32),
    /// Found to have no version in common.
    Apart(Stranger),
}

/// Says what we speak, and hears what the other end does.
async fn greet<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> io::Result<Met> {
    let ours = framed(|bytes| codec::encode_behind(&Greeting::ours(), bytes));
    stream.write_all(&ours).await?;
    stream.flush().await?;
    let payload = read_payload(stream, GREETING_BYTES_MAX).await?;
    let greeting = codec::decode::<Greeting>(&payload).map_err(invalid)?;
    Ok(version::agree(&greeting).map_or_else(Met::Apart, Met::Agreed))
}

/// Says to a daemon of release 0.1.0, in its own way, that the node is refused: it ends with that line. It
/// has dialled and said who it is; that is not looked at.
async fn refuse_silent<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> io::Result<()> {
    /// Number of the message among those of that release; lengths were varints, as they are today.
    const REFUSED: u8 = 2;
    let text = format!(
        "it is of release {}, the controller of {}: they do not speak with each other; end all jobs and \
         daemons, and install one release on all nodes",
        version::SILENT.0,
        version::RELEASE
    );
    let refused = framed(|mut bytes| {
        bytes.push(REFUSED);
        codec::encode_behind(&text, bytes)
    });
    stream.write_all(&refused).await?;
    stream.flush().await?;
    // It closes; what it has said meanwhile must not reset the connection before the line has come.
    let mut rest = stream.take(MESSAGE_BYTES_MAX as u64);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await.map(drop)
}

impl Shell {
    pub(super) fn accept_peer(&mut self, accepted: io::Result<(TcpStream, SocketAddr)>) {
        let accepted = accepted.map(|(stream, address)| {
            let link = LinkId(self.number());
            let acceptor = TlsAcceptor::from(Arc::clone(&self.credential.server));
            let shell_events = self.shell_events.clone();
            let event = Arc::clone(&self.pending_peers.event);
            let (number, strangers) = (link.0, self.pending_peers.strangers.clone());
            let admitted = strangers.clone();
            let shows = async move {
                let _ = stream.set_nodelay(true);
                let begun = async {
                    let accepted = acceptor.accept(stream).await;
                    // Who has shown the key is none; who had to make room says nothing.
                    if !strangers.leave(number) {
                        return Ok(None);
                    }
                    let mut stream = accepted?;
                    if stream.get_ref().1.alpn_protocol() == Some(version::ALPN) {
                        let met = greet(&mut stream).await?;
                        return Ok(Some((stream, met)));
                    }
                    // Its line is written, whether or not it waits for it.
                    let _ = refuse_silent(&mut stream).await;
                    Ok(Some((stream, Met::Apart(version::silent()))))
                };
                let shown = tokio::time::timeout(HANDSHAKE, begun).await;
                match shown {
                    Ok(Ok(Some((stream, Met::Agreed(wire))))) => {
                        let secret =
                            stream.get_ref().1.export_keying_material([0; SECRET_BYTES], LABEL, None);
                        let far = Far { dialled: false, address, secret: secret.ok(), wire };
                        serve(link, stream, shell_events, far).await;
                    }
                    Ok(Ok(Some((_, Met::Apart(stranger))))) => {
                        complain(&event, &format!("the daemon at {address} is refused: {stranger}"));
                    }
                    Ok(Err(error)) => complain(&event, &no_member(address, &text_of(&error))),
                    Ok(Ok(None)) => {}
                    Err(_) => {
                        strangers.leave(number);
                        complain(&event, &no_member(address, "it did not identify itself"));
                    }
                }
            };
            let event = Arc::clone(&self.pending_peers.event);
            // It begins when it has its place.
            let (begin, begins) = tokio::sync::oneshot::channel();
            let task = tokio::spawn(async move {
                if begins.await.is_ok() {
                    shows.await;
                }
            });
            if admitted.admit(number, address, task.abort_handle()) {
                complain(&event, &no_member(address, "too many connections have not shown the key"));
            }
            let _ = begin.send(());
        });
        if let Err(error) = accepted {
            self.doors.handle_failure("of a daemon", &error);
        }
    }

    pub(super) fn dial(&mut self, address: SocketAddr) {
        let link = LinkId(self.number());
        let (client, silent) = (Arc::clone(&self.credential.client), Arc::clone(&self.credential.silent));
        let shell_events = self.shell_events.clone();
        tokio::spawn(async move {
            let connect = async {
                let mut stream = match connect(client, address).await {
                    Err(error) if is_other_wire(&error) && connect(silent, address).await.is_ok() => {
                        return Ok(Err(version::silent()));
                    }
                    connected => connected?,
                };
                Ok(match greet(&mut stream).await? {
                    Met::Agreed(wire) => Ok((stream, wire)),
                    Met::Apart(stranger) => Err(stranger),
                })
            };
            let event = match tokio::time::timeout(HANDSHAKE, connect).await {
                Ok(Ok(Ok((stream, wire)))) => {
                    let secret = stream.get_ref().1.export_keying_material([0; SECRET_BYTES], LABEL, None);
                    let far = Far { dialled: true, address, secret: secret.ok(), wire };
                    return serve(link, stream, shell_events, far).await;
                }
                Ok(Ok(Err(stranger))) => Event::OtherRelease(stranger.to_string()),
                Ok(Err(error)) => Event::DialFailed(text_of(&error)),
                Err(_) => Event::DialFailed(format!("nothing has come for {} s", HANDSHAKE.as_secs())),
            };
            let _ = shell_events.send(ShellEvent::Core(event));
        });
    }
}

/// To a daemon; root's comes from a port that only root can use, if there is one: strangers there take no
/// place from it.
async fn connect_to(address: SocketAddr) -> io::Result<TcpStream> {
    if rustix::process::geteuid().is_root() {
        let first = super::random_number()? as u16;
        for tried in 0..ROOTS_PORTS_TRIED {
            let port = ROOTS_PORTS.start + first.wrapping_add(tried) % ROOTS_PORTS.len() as u16;
            let (socket, any) = match address.ip() {
                IpAddr::V4(_) => (TcpSocket::new_v4()?, IpAddr::from(Ipv4Addr::UNSPECIFIED)),
                IpAddr::V6(_) => (TcpSocket::new_v6()?, IpAddr::from(Ipv6Addr::UNSPECIFIED)),
            };
            // A service that has the port begins later nevertheless.
            socket.set_reuseaddr(true)?;
            match socket.bind(SocketAddr::new(any, port)) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => continue,
                // In some containers root may not.
                Err(_) => break,
                Ok(()) => {}
            }
            match socket.connect(address).await {
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable) => {
                }
                result => return result,
            }
        }
    }
    TcpStream::connect(address).await
}

async fn connect(with: Arc<ClientConfig>, address: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
    let stream = connect_to(address).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("tutti").expect("a name");
    TlsConnector::from(with).connect(name, stream).await
}

/// Whether who was dialled has none of the names that we have for a wire.
fn is_other_wire(error: &io::Error) -> bool {
    let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(of_tls, Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)))
}

impl Shell {
    /// The switch thread may use its own way to who is at the other end of a link.
    pub(super) fn open_switch_link(&self, link: LinkId, node: NodeId, is_parent: bool) {
        let Some(Peer { far: Far { address, secret: Some(secret), .. }, .. }) = self.peers.get(&link) else {
            return;
        };
        let neighbour = Neighbour { link, node, is_parent, address: *address, secret: *secret };
        self.switcher.send(Command::OpenLink(neighbour));
    }

    pub(super) fn forget_peer(&mut self, link: LinkId) {
        if self.peers.remove(&link).is_some() {
            self.switcher.send(Command::CloseLink(link));
        }
    }
}

/// Reads and writes until one side is gone.
async fn serve<S: AsyncRead + AsyncWrite + Send + 'static>(
    link: LinkId,
    stream: S,
    shell_events: ShellEvents,
    far: Far,
) {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let (sender, mut queue) = mpsc::unbounded_channel::<Vec<u8>>();
    if shell_events.send(ShellEvent::Peer(link, Peer { writer: sender, far })).is_err() {
        return;
    }
    let write = async {
        while let Some(mut bytes) = queue.recv().await {
            while let Ok(more) = queue.try_recv() {
                bytes.extend(more);
            }
            if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
                break;
            }
        }
        let _ = writer.shutdown().await;
    };
    let read = async {
        let mut is_later_known = false;
        loop {
            match read_message(&mut reader).await {
                Ok(Err(later)) => {
                    if !std::mem::replace(&mut is_later_known, true) {
                        tracing::info!(
                            "what only daemons of a later release understand is left out: {later}"
                        );
                    }
                }
                Ok(Ok(message)) => {
                    if shell_events.send(ShellEvent::Core(Event::Message(link, message))).is_err() {
                        break;
                    }
                }
                Err(error) => {
                    if error.kind() == io::ErrorKind::InvalidData {
                        tracing::warn!("a daemon has sent an invalid message ({error}): the link is closed");
                    }
                    break;
                }
            }
        }
    };
    tokio::select! { () = write => {}, () = read => {} }
    let _ = shell_events.send(ShellEvent::Core(Event::LinkDown(link)));
}

/// A message, or what is new about one of a later release.
async fn read_message(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Result<Message, DecodeError>> {
    let payload = read_payload(reader, MESSAGE_BYTES_MAX).await?;
    match codec::decode(&payload) {
        Ok(message) => Ok(Ok(message)),
        Err(later @ DecodeError::UnknownVariant { .. }) => Ok(Err(later)),
        Err(error) => Err(invalid(error)),
    }
}

fn invalid(error: DecodeError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

async fn read_payload(reader: &mut (impl AsyncRead + Unpin), bytes_max: usize) -> io::Result<Vec<u8>> {
    let bytes = reader.read_u32_le().await? as usize;
    if bytes > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {bytes} bytes")));
    }
    let mut payload = Vec::new();
    // Memory grows with what has come, not with what was announced.
    let read = reader.take(bytes as u64).read_to_end(&mut payload).await?;
    if read < bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(payload)
}

#[cfg(test)]
mod tests;
