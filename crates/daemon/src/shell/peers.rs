//! Links to other daemons: TLS over TCP, messages as length (u32, little endian) and postcard: all
//! daemons of a cluster are of one version.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::{TlsAcceptor, TlsConnector};

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
/// Between two lines about strangers.
const SAID_AGAIN: Duration = Duration::from_secs(10);

/// Who has connected and not shown the key, and what was said of that.
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

/// One line now and then: whoever reaches the port does not fill a disk.
fn complain(event: &Mutex<(Option<Instant>, u64)>, address: SocketAddr, why: &str) {
    let mut event = event.lock().unwrap_or_else(PoisonError::into_inner);
    if event.0.is_some_and(|when| when.elapsed() < SAID_AGAIN) {
        event.1 += 1;
        return;
    }
    let more = std::mem::replace(&mut *event, (Some(Instant::now()), 0)).1;
    let more = if more > 0 { format!(" ({more} others before)") } else { String::new() };
    tracing::warn!("{address} is not a member of this cluster: {why}{more}");
}

/// Why two daemons have not found together, for people: the library of TLS says which check failed.
fn text_of(error: &io::Error) -> String {
    use tokio_rustls::rustls::{AlertDescription, CertificateError, Error};
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
    /// What only both ends know.
    pub(super) secret: Option<Secret>,
}

/// A link as the loop has it.
pub(super) struct Peer {
    /// What is to be written to it.
    pub(super) writer: mpsc::UnboundedSender<Vec<u8>>,
    pub(super) far: Far,
}

/// A message as it travels.
pub(super) fn encode(message: &Message) -> Vec<u8> {
    let mut bytes = postcard::to_extend(message, vec![0; 4]).expect("messages are serialisable");
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// One message from what a daemon sent.
///
/// # Errors
/// When it is none.
pub(super) fn decode(bytes: &[u8]) -> Result<Message, String> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(format!("{} bytes behind a message", rest.len())),
        Err(error) => Err(error.to_string()),
    }
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
                let shown = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await;
                if !strangers.leave(number) {
                    return;
                }
                match shown {
                    Ok(Ok(stream)) => {
                        let secret =
                            stream.get_ref().1.export_keying_material([0; SECRET_BYTES], LABEL, None);
                        serve(
                            link,
                            stream,
                            shell_events,
                            Far { dialled: false, address, secret: secret.ok() },
                        )
                        .await;
                    }
                    Ok(Err(error)) => complain(&event, address, &text_of(&error)),
                    Err(_) => complain(&event, address, "it did not identify itself"),
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
                complain(&event, address, "too many connections have not shown the key");
            }
            let _ = begin.send(());
        });
        if let Err(error) = accepted {
            self.doors.handle_failure("of a daemon", &error);
        }
    }

    pub(super) fn dial(&mut self, address: SocketAddr) {
        let link = LinkId(self.number());
        let connector = TlsConnector::from(Arc::clone(&self.credential.client));
        let shell_events = self.shell_events.clone();
        tokio::spawn(async move {
            let connect = async {
                let stream = connect_to(address).await?;
                stream.set_nodelay(true)?;
                let name = ServerName::try_from("tutti").expect("a name");
                connector.connect(name, stream).await
            };
            match tokio::time::timeout(HANDSHAKE, connect).await {
                Ok(Ok(stream)) => {
                    let secret = stream.get_ref().1.export_keying_material([0; SECRET_BYTES], LABEL, None);
                    serve(link, stream, shell_events, Far { dialled: true, address, secret: secret.ok() })
                        .await;
                }
                Ok(Err(error)) => {
                    drop(shell_events.send(ShellEvent::Core(Event::DialFailed(text_of(&error)))));
                }
                Err(_) => {
                    let why = format!("nothing has come for {} s", HANDSHAKE.as_secs());
                    drop(shell_events.send(ShellEvent::Core(Event::DialFailed(why))));
                }
            }
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
        loop {
            match read_message(&mut reader).await {
                Ok(message) => {
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

async fn read_message(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Message> {
    let bad = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let bytes = reader.read_u32_le().await? as usize;
    if bytes > MESSAGE_BYTES_MAX {
        return Err(bad(format!("a message of {bytes} bytes")));
    }
    let mut payload = Vec::new();
    // Memory grows with what has come, not with what was announced.
    let read = reader.take(bytes as u64).read_to_end(&mut payload).await?;
    if read < bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    decode(&payload).map_err(bad)
}
