//! The client of a node: answers the kernel's requests of a mounted folder (FUSE) by calls to the server.
//!
//! | part | subject |
//! |---|---|
//! | this one | threads, connections, what is said once when something does not work |
//! | [`wire`] | the kernel's structures |
//! | [`lock_waits`] | requests that wait for a lock; pure |
//! | [`nodes`] | what the kernel knows: numbers of files, their names, open files; pure |
//! | [`answers`] | an answer to each request |
//!
//! Semantics are close-to-open: an open drops what the kernel has kept of a file that has changed at the
//! origin. Attributes and names are kept for [`wire::KEPT_S`]. A program that is executed and changes at the
//! origin meanwhile ends with an error (ESTALE) where it would read bytes of both.

mod answers;
mod lock_waits;
mod nodes;
mod wire;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::client::Connection;
use crate::frames::{DATA_MAX, Export};
use crate::origin::Origin;
use lock_waits::LockWaits;
use nodes::Nodes;

/// Threads, and connections, for a folder.
const THREADS: usize = 4;
/// Bytes of a request of the kernel.
const REQUEST_MAX: usize = DATA_MAX + (64 << 10);

/// A line for the user.
type Notice = dyn Fn(&str) + Send + Sync;

/// A mounted folder.
pub struct Mounted {
    origin: Origin,
    session: u64,
    export: u8,
    path: String,
    device: OwnedFd,
    nodes: Mutex<Nodes>,
    waiting: Mutex<LockWaits>,
    is_gone: AtomicBool,
    link_noticed: AtomicBool,
    notice: Box<Notice>,
}

impl std::fmt::Debug for Mounted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mounted({})", self.path)
    }
}

impl Mounted {
    /// Folder number `export` of the server, at the kernel's end `device`.
    pub fn new(
        origin: Origin,
        session: u64,
        (number, export): (usize, &Export),
        device: OwnedFd,
        notice: Box<Notice>,
    ) -> Self {
        Mounted {
            origin,
            session,
            export: number as u8,
            path: String::from_utf8_lossy(&export.path).into_owned(),
            device,
            nodes: Mutex::default(),
            waiting: Mutex::default(),
            is_gone: AtomicBool::new(false),
            link_noticed: AtomicBool::new(false),
            notice,
        }
    }

    /// Begins to answer, with threads of its own, until the folder is unmounted.
    ///
    /// # Errors
    /// When the server is not reached.
    pub fn begin(self) -> io::Result<Vec<std::thread::JoinHandle<()>>> {
        let mounted = Arc::new(self);
        let mut threads = Vec::new();
        for _ in 0..THREADS {
            let connection = Connection::open(&mounted.origin, mounted.session)?;
            let mounted = mounted.clone();
            threads.push(std::thread::Builder::new().spawn(move || mounted.serve(connection))?);
        }
        Ok(threads)
    }

    fn serve(self: Arc<Self>, mut connection: Connection) {
        let mut request = vec![0; REQUEST_MAX];
        loop {
            match rustix::io::read(&self.device, &mut request[..]) {
                Ok(bytes) => self.answer(&mut connection, &request[..bytes]),
                // Interrupted before it was read, or by a signal.
                Err(rustix::io::Errno::NOENT | rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                // Unmounted.
                Err(_) => return,
            }
        }
    }

    fn device(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says once that nothing more can be had.
    fn note_gone(&self, why: &dyn std::fmt::Display) {
        if !self.is_gone.swap(true, Ordering::Relaxed) {
            (self.notice)(&format!("{}: {why}: calls on files of the origin fail from now on", self.path));
        }
    }

    /// Says once that a link is not followed.
    fn note_link(&self, path: &[u8]) {
        if !self.link_noticed.swap(true, Ordering::Relaxed) {
            let path = String::from_utf8_lossy(path);
            (self.notice)(&format!(
                "{}/{path} is a link out of the files of the origin and is not followed: add --files=FOLDER for what it leads to",
                self.path
            ));
        }
    }
}

#[cfg(test)]
mod tests;
