//! The server: a thread for each connection, which answers one request after the other.
//!
//! | part | subject |
//! |---|---|
//! | this one | connections, the key, sessions |
//! | [`folders`] | the exported folders: what lies below them, and nothing else |
//! | [`files`] | open files of a session |
//!
//! A connection that shows no key within [`KEY_MAX`] is closed. So many may be without one at a time, and the
//! oldest of them loses its place to a new one: so nobody keeps others out by waiting. Files
//! of a session are closed with its last connection, and its locks with them. Bounds: [`CONNECTIONS_MAX`],
//! [`FILES_MAX`].

mod files;
mod folders;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::frames::{FRAME_MAX, Request, Secret, Welcome, Writer};
use crate::origin::is_same;
use files::Session;
pub(crate) use files::opened_of;
use folders::Folders;

/// Time for a client to show the key.
const KEY_MAX: Duration = Duration::from_secs(5);
/// Connections that have shown none.
const VISITORS_MAX: usize = 64;
/// Connections.
const CONNECTIONS_MAX: usize = 4096;
/// Open files of all sessions.
pub const FILES_MAX: usize = 1024;
/// Bytes of a frame from one who has not shown the key.
const HELLO_MAX: usize = 64;

/// A folder that is to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Absolute path of the folder.
    pub path: PathBuf,
    /// Whether nothing in it may be changed.
    pub is_read_only: bool,
}

/// State that all connections share.
#[derive(Debug)]
pub struct Server {
    client_key: Secret,
    server_proof: Secret,
    exports: Folders,
    sessions: Mutex<HashMap<u64, Weak<Session>>>,
    next: AtomicU64,
    open: Arc<AtomicUsize>,
    /// Connections that have shown no key, by their numbers.
    visitors: Mutex<BTreeMap<u64, Arc<TcpStream>>>,
    connections: AtomicUsize,
}

impl Server {
    /// Serves these folders to who shows this key.
    ///
    /// # Errors
    /// When a folder cannot be opened; it is named.
    pub fn new(key: Secret, proof: Secret, folders: &[Folder]) -> Result<Self, String> {
        Ok(Server {
            client_key: key,
            server_proof: proof,
            exports: Folders::open(folders)?,
            sessions: Mutex::default(),
            next: AtomicU64::new(1),
            open: Arc::default(),
            visitors: Mutex::default(),
            connections: AtomicUsize::new(0),
        })
    }

    /// Takes connections until the listener fails.
    pub fn run(self: Arc<Self>, listener: &TcpListener) {
        for (number, stream) in (0..).zip(listener.incoming()) {
            let Ok(stream) = stream else {
                // No descriptor or memory now: not again and again without a pause.
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            let is_full = self.connections.load(Ordering::Relaxed) >= CONNECTIONS_MAX;
            if is_full || settle(&stream).is_err() {
                continue;
            }
            let stream = Arc::new(stream);
            self.add_visitor(number, stream.clone());
            let server = self.clone();
            let began = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
                let session = server.welcome(number, &stream);
                server.visitors().remove(&number);
                if let Ok(session) = session {
                    server.connections.fetch_add(1, Ordering::Relaxed);
                    let _ = server.serve(&stream, &session);
                    server.connections.fetch_sub(1, Ordering::Relaxed);
                }
            });
            if began.is_err() {
                self.visitors().remove(&number);
            }
        }
    }

    fn visitors(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<TcpStream>>> {
        self.visitors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_visitor(&self, number: u64, stream: Arc<TcpStream>) {
        let mut visitors = self.visitors();
        if visitors.len() >= VISITORS_MAX
            && let Some((_, oldest)) = visitors.pop_first()
        {
            // Its thread ends by that.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        visitors.insert(number, stream);
    }

    /// Gives a session to a client that shows the key.
    fn welcome(&self, number: u64, stream: &TcpStream) -> io::Result<Arc<Session>> {
        let mut hello = Hello { stream, until: Instant::now() + KEY_MAX };
        let wrong = || io::Error::from(io::ErrorKind::PermissionDenied);
        let frame = read_frame(&mut hello, HELLO_MAX)?.ok_or_else(wrong)?;
        let Ok(Request::Hello { key, session }) = Request::decode(&frame) else { return Err(wrong()) };
        if !is_same(&key, &self.client_key) {
            return Err(wrong());
        }
        // One that has lost its place is at its end.
        self.visitors().remove(&number).ok_or_else(wrong)?;
        stream.set_read_timeout(None)?;
        let session = self.session(session).ok_or_else(wrong)?;
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let welcome = Welcome {
            proof: self.server_proof,
            session: session.number,
            boot: boot.trim_ascii().to_vec(),
            exports: self.exports.list(),
        };
        let mut writing = stream;
        writing.write_all(&welcome.encode())?;
        Ok(session)
    }

    /// The session of that number, or a new one.
    fn session(&self, number: u64) -> Option<Arc<Session>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| session.strong_count() > 0);
        if number != 0 {
            return sessions.get(&number)?.upgrade();
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let session = Arc::new(Session::new(number, self.open.clone()));
        sessions.insert(number, Arc::downgrade(&session));
        Some(session)
    }

    fn serve(&self, mut stream: &TcpStream, session: &Session) -> io::Result<()> {
        while let Some(frame) = read_frame(stream, FRAME_MAX)? {
            let request = Request::decode(&frame).map_err(io::Error::other)?;
            let answer = match self.answer(session, request) {
                Ok(answer) => answer,
                Err(error) => Writer::answer(error.raw_os_error().unwrap_or(libc::EIO) as u32).finish(),
            };
            stream.write_all(&answer)?;
        }
        Ok(())
    }

    fn answer(&self, session: &Session, request: Request) -> io::Result<Vec<u8>> {
        match request {
            Request::Hello { .. } => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            Request::Open { place, flags, mode, follow } => {
                session.open(&self.exports, &place, flags, mode, follow)
            }
            request => match session.answer(&request)? {
                Some(answer) => Ok(answer),
                None => self.exports.answer(&request),
            },
        }
    }
}

/// First bytes of a connection, all of which are here at a time or never.
struct Hello<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Read for Hello<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(into)
    }
}

/// One frame without its length; none: the other side has ended between two.
pub(crate) fn read_frame(mut stream: impl Read, most: usize) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > most {
        return Err(io::Error::other("a frame is too long"));
    }
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame)?;
    Ok(Some(frame))
}

/// Small requests leave at once; a machine that is lost is known within 15 s.
pub(crate) fn settle(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(2))?;
    sockopt::set_tcp_keepcnt(stream, 5)?;
    sockopt::set_tcp_user_timeout(stream, 15_000)?;
    Ok(())
}

#[cfg(test)]
mod tests;
