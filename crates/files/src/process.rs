//! Files of the origin for a rank: one connection of its process, made by its first call.

use std::io;
use std::sync::{Mutex, PoisonError};

use crate::client::{CallError, Connection};
use crate::frames::{Attributes, Change, DATA_MAX, Lock, Reader, Request, Target};
use crate::origin::Origin;

/// Prefix of a name in a call of MPI.
pub const PREFIX: &[u8] = b"origin:";

struct Client {
    pid: u32,
    origin: Origin,
    connection: Connection,
}

static CLIENT: Mutex<Option<Client>> = Mutex::new(None);

/// Calls over the connection, and makes it before the first call. A child of a fork makes its own.
fn with<T>(call: impl FnOnce(&mut Connection, &Origin) -> Result<T, CallError>) -> io::Result<T> {
    let mut client = CLIENT.lock().unwrap_or_else(PoisonError::into_inner);
    let pid = std::process::id();
    if client.as_ref().is_none_or(|client| client.pid != pid) {
        let origin = Origin::of_environment().ok_or_else(|| {
            // The job was started without --files.
            io::Error::from_raw_os_error(libc::ENOTCONN)
        })?;
        let connection =
            Connection::open(&origin, 0).map_err(|_| io::Error::from_raw_os_error(libc::ENOTCONN))?;
        *client = Some(Client { pid, origin, connection });
    }
    let client = client.as_mut().expect("it was just made");
    call(&mut client.connection, &client.origin).map_err(io::Error::from)
}

fn place(connection: &Connection, origin: &Origin, name: &[u8]) -> Result<crate::frames::Place, CallError> {
    // What no folder has is a link out of all, in other words.
    connection.place(&origin.directory, name).ok_or(CallError::Refused(libc::EXDEV))
}

/// Bits that a new file of this process does not get.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

/// Attributes of what a name leads to.
///
/// # Errors
/// What the origin says; ENOTCONN where there is none, or it is not reached any more.
pub fn stat(name: &[u8]) -> io::Result<Attributes> {
    with(|connection, origin| {
        let target = Target::Place(place(connection, origin, name)?);
        connection.stat(target, true)
    })
}

/// Removes a file.
///
/// # Errors
/// As [`stat`].
pub fn remove(name: &[u8]) -> io::Result<()> {
    with(|connection, origin| {
        let place = place(connection, origin, name)?;
        connection.call(&Request::Remove { place, is_directory: false }).map(drop)
    })
}

/// An open file of the origin; it is closed when this is dropped.
#[derive(Debug)]
pub struct File {
    handle: u64,
    pid: u32,
}

impl File {
    /// Opens a file by its name in the job's working directory, or its absolute path.
    ///
    /// # Errors
    /// As [`stat`].
    pub fn open(name: &[u8], flags: i32, mode: u32) -> io::Result<Self> {
        let mode = if flags & libc::O_CREAT != 0 { mode & !umask() } else { 0 };
        let (handle, attributes) = with(|connection, origin| {
            let place = place(connection, origin, name)?;
            connection.open_file(place, flags.cast_unsigned(), mode, true)
        })?;
        let file = File { handle, pid: std::process::id() };
        if attributes.mode & libc::S_IFMT == libc::S_IFDIR {
            return Err(io::Error::from_raw_os_error(libc::EISDIR));
        }
        Ok(file)
    }

    /// Attributes now.
    ///
    /// # Errors
    /// As [`stat`].
    pub fn stat(&self) -> io::Result<Attributes> {
        with(|connection, _| connection.stat(Target::Handle(self.handle), false))
    }

    /// Reads up to [`DATA_MAX`] bytes; fewer at the end of the file.
    ///
    /// # Errors
    /// As [`stat`].
    pub fn read_at(&self, data: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = data.len().min(DATA_MAX);
        let (_, read) = with(|connection, _| connection.read(self.handle, offset, bytes))?;
        data[..read.len()].copy_from_slice(&read);
        Ok(read.len())
    }

    /// Writes up to [`DATA_MAX`] bytes.
    ///
    /// # Errors
    /// As [`stat`].
    pub fn write_at(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        with(|connection, _| connection.write(self.handle, offset, data))
    }

    /// Cuts or extends it.
    ///
    /// # Errors
    /// As [`stat`].
    pub fn set_len(&self, bytes: u64) -> io::Result<()> {
        let change = Change { size: Some(bytes), ..Change::default() };
        let request = Request::Set { target: Target::Handle(self.handle), change };
        let answer = with(|connection, _| connection.call(&request))?;
        Reader::new(&answer).attributes().map(drop).map_err(io::Error::other)
    }

    /// Makes room for its first bytes.
    ///
    /// # Errors
    /// As [`stat`].
    pub fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.call(&Request::Allocate { handle: self.handle, mode: 0, offset: 0, bytes })
    }

    /// Brings it to the disk.
    ///
    /// # Errors
    /// As [`stat`].
    pub fn sync(&self) -> io::Result<()> {
        self.call(&Request::Sync { handle: self.handle })
    }

    /// Sets or frees a lock; EAGAIN while others have it.
    ///
    /// # Errors
    /// As [`stat`].
    pub fn set_lock(&self, lock: Lock) -> io::Result<()> {
        with(|connection, _| connection.set_lock(self.handle, lock))
    }

    fn call(&self, request: &Request) -> io::Result<()> {
        with(|connection, _| connection.call(request)).map(drop)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // A child of a fork has the numbers of another connection.
        if self.pid == std::process::id() {
            let _ = self.call(&Request::Close { handle: self.handle });
        }
    }
}
