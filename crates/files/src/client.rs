//! A connection to the server, and a call for each operation. A call waits for its answer.

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use crate::frames::{
    Attributes, DATA_MAX, Entry, FRAME_MAX, Lock, Place, Reader, Request, Room, Target, Welcome,
};
use crate::origin::{Origin, is_same};
use crate::server::{read_frame, settle};

/// A connection is made within this time.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Why there is no answer that was wished.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The origin's kernel says so.
    #[error("{}", io::Error::from_raw_os_error(*.0))]
    Refused(i32),
    /// The server is not reached any more.
    #[error("the server of the origin's files has gone ({0})")]
    Gone(io::Error),
}

impl From<CallError> for io::Error {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(errno) => io::Error::from_raw_os_error(errno),
            CallError::Gone(_) => io::Error::from_raw_os_error(libc::ENOTCONN),
        }
    }
}

fn strange(_: crate::frames::NoFrame) -> CallError {
    CallError::Gone(io::Error::other("its answer is none"))
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    welcome: Welcome,
    /// Whether nothing comes over it any more.
    is_gone: bool,
}

impl Connection {
    /// Connects to the server, as a client of its own, or in a session that is there.
    ///
    /// # Errors
    /// When it is not reached, or is not the server of this job.
    pub fn open(origin: &Origin, session: u64) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&origin.address, CONNECT_MAX)?;
        settle(&stream)?;
        stream.set_read_timeout(Some(CONNECT_MAX))?;
        let hello = Request::Hello { key: origin.client_key, session };
        let wrong = || io::Error::other("another program listens there");
        (&stream).write_all(&hello.encode())?;
        let frame = read_frame(&stream, FRAME_MAX)?.ok_or_else(wrong)?;
        let mut from = Reader::new(&frame);
        if from.u32().map_err(|_| wrong())? != 0 {
            return Err(wrong());
        }
        let welcome = Welcome::decode(from).map_err(|_| wrong())?;
        if !is_same(&welcome.proof, &origin.server_proof) {
            return Err(wrong());
        }
        stream.set_read_timeout(None)?;
        Ok(Connection { stream, welcome, is_gone: false })
    }

    /// Facts that the server has told of itself.
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// The place of a file, by its name in the job's working directory or its absolute path; none: it is not
    /// in a folder that is served.
    pub fn place(&self, directory: &Path, name: &[u8]) -> Option<Place> {
        let whole = directory.join(std::ffi::OsStr::from_bytes(name));
        let whole = whole.as_os_str().as_bytes();
        let mut best: Option<(usize, Place)> = None;
        for (number, export) in self.welcome.exports.iter().enumerate() {
            let root = export.path.strip_suffix(b"/").unwrap_or(&export.path);
            let Some(rest) = whole.strip_prefix(root) else { continue };
            let path = match rest.first() {
                None => &[][..],
                Some(b'/') => rest.trim_ascii_start(),
                Some(_) => continue,
            };
            let path: Vec<u8> = path.iter().copied().skip_while(|byte| *byte == b'/').collect();
            if best.as_ref().is_none_or(|(length, _)| *length < root.len()) {
                best = Some((root.len(), Place { export: number as u8, path }));
            }
        }
        best.map(|(_, place)| place)
    }

    /// Asks, and gives the answer's fields.
    ///
    /// # Errors
    /// What the origin says, or that it has gone. What the server would not read is refused here.
    pub fn call(&mut self, request: &Request) -> Result<Vec<u8>, CallError> {
        request.check().map_err(CallError::Refused)?;
        if self.is_gone {
            return Err(CallError::Gone(io::ErrorKind::NotConnected.into()));
        }
        let frame = (&self.stream)
            .write_all(&request.encode())
            .and_then(|()| read_frame(&self.stream, FRAME_MAX))
            .and_then(|frame| frame.ok_or_else(|| io::ErrorKind::UnexpectedEof.into()));
        let mut frame = frame.map_err(|error| {
            self.is_gone = true;
            CallError::Gone(error)
        })?;
        match Reader::new(&frame).u32().map_err(strange)? {
            0 => Ok(frame.split_off(4)),
            errno => Err(CallError::Refused(errno.cast_signed())),
        }
    }

    /// Attributes of what lies at a place.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn stat(&mut self, target: Target, follow: bool) -> Result<Attributes, CallError> {
        let answer = self.call(&Request::Stat { target, follow })?;
        Reader::new(&answer).attributes().map_err(strange)
    }

    /// Opens a file or a folder: its handle and attributes.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn open_file(
        &mut self,
        place: Place,
        flags: u32,
        mode: u32,
        follow: bool,
    ) -> Result<(u64, Attributes), CallError> {
        let answer = self.call(&Request::Open { place, flags, mode, follow })?;
        crate::server::opened_of(&answer).map_err(strange)
    }

    /// Reads up to [`DATA_MAX`] bytes; fewer at the end of the file. Gives the version of the file, too.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn read(&mut self, handle: u64, offset: u64, bytes: usize) -> Result<(u64, Vec<u8>), CallError> {
        let bytes = bytes.min(DATA_MAX);
        let answer = self.call(&Request::Read { handle, offset, bytes: bytes as u32 })?;
        let mut from = Reader::new(&answer);
        let version = from.u64().map_err(strange)?;
        Ok((version, from.bytes(bytes).map_err(strange)?.to_vec()))
    }

    /// Writes up to [`DATA_MAX`] bytes; gives how many.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn write(&mut self, handle: u64, offset: u64, data: &[u8]) -> Result<usize, CallError> {
        let data = data[..data.len().min(DATA_MAX)].to_vec();
        let most = data.len();
        let answer = self.call(&Request::Write { handle, offset, data })?;
        let written = Reader::new(&answer).u32().map_err(strange)? as usize;
        if written > most { Err(strange(crate::frames::NoFrame)) } else { Ok(written) }
    }

    /// Sets or frees a lock.
    ///
    /// # Errors
    /// As [`Self::call`]; EAGAIN while others have it.
    pub fn set_lock(&mut self, handle: u64, lock: Lock) -> Result<(), CallError> {
        self.call(&Request::SetLock { handle, lock }).map(drop)
    }

    /// Sets or frees the lock of the whole file that `flock` sets: F_RDLCK (shared), F_WRLCK or F_UNLCK.
    ///
    /// # Errors
    /// As [`Self::call`]; EAGAIN while others have it.
    pub fn lock_file(&mut self, handle: u64, kind: i32) -> Result<(), CallError> {
        self.call(&Request::LockFile { handle, kind }).map(drop)
    }

    /// Holder that is in the way of a lock.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn get_lock(&mut self, handle: u64, lock: Lock) -> Result<Lock, CallError> {
        let answer = self.call(&Request::GetLock { handle, lock })?;
        let mut from = Reader::new(&answer);
        let kind = from.u32().map_err(strange)?.cast_signed();
        let (begin, bytes) = (from.u64().map_err(strange)?, from.u64().map_err(strange)?);
        Ok(Lock { kind, begin: begin.cast_signed(), bytes: bytes.cast_signed() })
    }

    /// Entries of an open folder from an index on; none behind the last.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn list(&mut self, handle: u64, index: u64) -> Result<Vec<Entry>, CallError> {
        let answer = self.call(&Request::List { handle, index })?;
        Entry::decode_list(Reader::new(&answer)).map_err(strange)
    }

    /// Where a link leads.
    ///
    /// # Errors
    /// As [`Self::call`]; EXDEV when that is not served.
    pub fn read_link(&mut self, place: Place) -> Result<Vec<u8>, CallError> {
        let answer = self.call(&Request::ReadLink { place })?;
        Reader::new(&answer).bytes(DATA_MAX).map(<[u8]>::to_vec).map_err(strange)
    }

    /// Room of the file system.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn room(&mut self, place: Place) -> Result<Room, CallError> {
        let answer = self.call(&Request::Room { place })?;
        Room::decode(Reader::new(&answer)).map_err(strange)
    }
}
