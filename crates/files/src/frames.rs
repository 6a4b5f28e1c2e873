//! Frames between a client and the server.
//!
//! ```text
//! request: bytes u32 | operation u8 | fields          answer: bytes u32 | errno u32 | fields
//! ```
//!
//! Numbers are little-endian; a text or data is its length and its bytes. A frame has at most [`FRAME_MAX`]
//! bytes behind its length. What does not parse to its last byte ends the connection; [`Request::check`] says
//! so before it is sent.

mod bounds;

/// Data of one read or write.
pub const DATA_MAX: usize = 1 << 20;
/// Bytes of a path.
pub const PATH_MAX: usize = 4095;
/// Bytes of a frame behind its length.
pub const FRAME_MAX: usize = DATA_MAX + 2 * PATH_MAX + 256;
/// Folders of an origin.
pub const EXPORTS_MAX: usize = 16;

/// A secret of 128 bits.
pub type Secret = [u8; 16];

/// A path below an exported folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the folder.
    pub export: u8,
    /// Relative path in it; empty: the folder.
    pub path: Vec<u8>,
}

/// A lock of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// F_RDLCK, F_WRLCK or F_UNLCK.
    pub kind: i32,
    /// First byte.
    pub begin: i64,
    /// Bytes; 0: up to the end, wherever that comes to be.
    pub bytes: i64,
}

fn is_lock_kind(kind: i32) -> bool {
    [libc::F_RDLCK, libc::F_WRLCK, libc::F_UNLCK].contains(&kind)
}

/// Changes to a file; an attribute that is none stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Permissions.
    pub mode: Option<u32>,
    /// Size.
    pub size: Option<u64>,
    /// Time of the last access, in seconds and ns; ns may be UTIME_NOW.
    pub accessed: Option<(i64, u32)>,
    /// Time of the last change.
    pub modified: Option<(i64, u32)>,
}

/// Subject of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Object at a place, itself if it is a link.
    Place(Place),
    /// An open file.
    Handle(u64),
}

/// Requests of a client.
#[allow(missing_docs, reason = "fields are what their names say")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first of a connection: the key, and the session to join (0: a new one).
    Hello { key: Secret, session: u64 },
    /// Attributes; of what a link at the place leads to if `follow`.
    Stat { target: Target, follow: bool },
    /// Opens or makes a file, or opens a folder.
    Open { place: Place, flags: u32, mode: u32, follow: bool },
    /// Reads.
    Read { handle: u64, offset: u64, bytes: u32 },
    /// Writes.
    Write { handle: u64, offset: u64, data: Vec<u8> },
    /// Changes attributes.
    Set { target: Target, change: Change },
    /// Brings it to the disk.
    Sync { handle: u64 },
    /// Ends a handle.
    Close { handle: u64 },
    /// Sets or frees a lock.
    SetLock { handle: u64, lock: Lock },
    /// Asks who is in the way of a lock.
    GetLock { handle: u64, lock: Lock },
    /// Makes room.
    Allocate { handle: u64, mode: u32, offset: u64, bytes: u64 },
    /// Entries of an open folder from an index on.
    List { handle: u64, index: u64 },
    /// Where a link leads.
    ReadLink { place: Place },
    /// Makes a symbolic link.
    Symlink { place: Place, to: Vec<u8> },
    /// Makes a folder.
    MakeDirectory { place: Place, mode: u32 },
    /// Removes a file or an empty folder.
    Remove { place: Place, is_directory: bool },
    /// Renames.
    Rename { from: Place, to: Place, flags: u32 },
    /// Makes a hard link.
    Link { from: Place, to: Place },
    /// Room of the file system.
    Room { place: Place },
    /// Whether the user may.
    Access { place: Place, mask: u32 },
    /// Sets or frees, as `flock` does, the lock of the whole file: F_RDLCK (shared), F_WRLCK or F_UNLCK.
    LockFile { handle: u64, kind: i32 },
}

/// Moments, in seconds and ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Last access.
    pub accessed: (i64, u32),
    /// Last change of its data.
    pub modified: (i64, u32),
    /// Last change of anything.
    pub changed: (i64, u32),
}

/// Attributes of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Number of the file.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Blocks of 512 bytes.
    pub blocks: u64,
    /// When it was used.
    pub times: Times,
    /// Kind and permissions.
    pub mode: u32,
    /// Names.
    pub links: u32,
    /// User and group at the origin.
    pub owner: (u32, u32),
    /// Best size of a transfer.
    pub block_bytes: u32,
}

impl Attributes {
    /// A number that changes with the data.
    pub fn version(&self) -> u64 {
        let (seconds, ns) = self.times.modified;
        (seconds.cast_unsigned().wrapping_mul(1_000_000_007) ^ u64::from(ns)).rotate_left(17) ^ self.size
    }
}

/// An exported folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Absolute path of the folder.
    pub path: Vec<u8>,
    /// Whether nothing in it may be changed.
    pub is_read_only: bool,
    /// Device and number of the folder on the origin.
    pub identity: (u64, u64),
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the file.
    pub ino: u64,
    /// Kind (DT_...).
    pub kind: u8,
    /// Name.
    pub name: Vec<u8>,
}

/// Answer of the server to a Hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The server's secret.
    pub proof: Secret,
    /// The session of this connection.
    pub session: u64,
    /// The kernel's number of its boot.
    pub boot: Vec<u8>,
    /// The folders.
    pub exports: Vec<Export>,
}

/// Room of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Blocks, free ones, free for users.
    pub blocks: [u64; 3],
    /// Files, free ones.
    pub files: [u64; 2],
    /// Bytes of a block, of a name, of a fragment.
    pub bytes: [u32; 3],
}

/// Error of a frame that does not parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no frame of this protocol")]
pub struct NoFrame;

/// Writes fields.
#[derive(Debug)]
pub struct Writer(Vec<u8>);

impl Writer {
    fn begin(operation: u8) -> Self {
        let mut out = vec![0; 4];
        out.push(operation);
        Writer(out)
    }

    /// An answer with this error number; 0: none.
    pub fn answer(errno: u32) -> Self {
        let mut out = vec![0; 4];
        out.extend_from_slice(&errno.to_le_bytes());
        Writer(out)
    }

    /// A number.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A longer number.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn byte(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    fn time(&mut self, (seconds, ns): (i64, u32)) -> &mut Self {
        self.u64(seconds.cast_unsigned()).u32(ns)
    }

    /// Bytes with their length.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
        self
    }

    fn place(&mut self, place: &Place) -> &mut Self {
        self.byte(place.export).bytes(&place.path)
    }

    fn target(&mut self, target: &Target) -> &mut Self {
        match target {
            Target::Place(place) => self.byte(0).place(place),
            Target::Handle(handle) => self.byte(1).u64(*handle),
        }
    }

    fn lock(&mut self, lock: Lock) -> &mut Self {
        self.u32(lock.kind as u32).u64(lock.begin.cast_unsigned()).u64(lock.bytes.cast_unsigned())
    }

    /// Attributes.
    pub fn attributes(&mut self, of: &Attributes) -> &mut Self {
        self.u64(of.ino).u64(of.size).u64(of.blocks);
        self.time(of.times.accessed).time(of.times.modified).time(of.times.changed);
        self.u32(of.mode).u32(of.links).u32(of.owner.0).u32(of.owner.1).u32(of.block_bytes)
    }

    /// The frame, with its length.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.0);
        let length = (out.len() - 4) as u32;
        out[..4].copy_from_slice(&length.to_le_bytes());
        out
    }
}

/// Reads fields.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Over a frame behind its length.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], NoFrame> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(NoFrame)?;
        self.0 = rest;
        Ok(*head)
    }

    fn byte(&mut self) -> Result<u8, NoFrame> {
        Ok(self.take::<1>()?[0])
    }

    /// A number.
    ///
    /// # Errors
    /// When the frame ends before.
    pub fn u32(&mut self) -> Result<u32, NoFrame> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    /// A longer number.
    ///
    /// # Errors
    /// When the frame ends before.
    pub fn u64(&mut self) -> Result<u64, NoFrame> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn flag(&mut self) -> Result<bool, NoFrame> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(NoFrame),
        }
    }

    fn time(&mut self) -> Result<(i64, u32), NoFrame> {
        Ok((self.u64()?.cast_signed(), self.u32()?))
    }

    /// Bytes with their length, at most so many.
    ///
    /// # Errors
    /// When there are more, or fewer than said.
    pub fn bytes(&mut self, most: usize) -> Result<&'a [u8], NoFrame> {
        let length = self.u32()? as usize;
        if length > most {
            return Err(NoFrame);
        }
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(NoFrame)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<Vec<u8>, NoFrame> {
        let bytes = self.bytes(PATH_MAX)?;
        if bytes.contains(&0) { Err(NoFrame) } else { Ok(bytes.to_vec()) }
    }

    fn place(&mut self) -> Result<Place, NoFrame> {
        let export = self.byte()?;
        let path = self.text()?;
        if path.first() == Some(&b'/') { Err(NoFrame) } else { Ok(Place { export, path }) }
    }

    fn target(&mut self) -> Result<Target, NoFrame> {
        Ok(if self.flag()? { Target::Handle(self.u64()?) } else { Target::Place(self.place()?) })
    }

    fn lock_kind(&mut self) -> Result<i32, NoFrame> {
        let kind = self.u32()?.cast_signed();
        if is_lock_kind(kind) { Ok(kind) } else { Err(NoFrame) }
    }

    fn lock(&mut self) -> Result<Lock, NoFrame> {
        let (kind, begin, bytes) = (self.lock_kind()?, self.u64()?, self.u64()?);
        let (begin, bytes) = (begin.cast_signed(), bytes.cast_signed());
        if begin >= 0 && bytes >= 0 { Ok(Lock { kind, begin, bytes }) } else { Err(NoFrame) }
    }

    /// Attributes.
    ///
    /// # Errors
    /// When the frame ends before.
    pub fn attributes(&mut self) -> Result<Attributes, NoFrame> {
        Ok(Attributes {
            ino: self.u64()?,
            size: self.u64()?,
            blocks: self.u64()?,
            times: Times { accessed: self.time()?, modified: self.time()?, changed: self.time()? },
            mode: self.u32()?,
            links: self.u32()?,
            owner: (self.u32()?, self.u32()?),
            block_bytes: self.u32()?,
        })
    }

    /// The frame ends here.
    ///
    /// # Errors
    /// When it does not.
    pub fn end(self) -> Result<(), NoFrame> {
        if self.0.is_empty() { Ok(()) } else { Err(NoFrame) }
    }
}

impl Change {
    fn encode(&self, out: &mut Writer) {
        let bits =
            [self.mode.is_some(), self.size.is_some(), self.accessed.is_some(), self.modified.is_some()];
        out.byte(bits.iter().rev().fold(0, |all, bit| all << 1 | u8::from(*bit)));
        self.mode.iter().for_each(|mode| {
            out.u32(*mode);
        });
        self.size.iter().for_each(|size| {
            out.u64(*size);
        });
        self.accessed.iter().chain(&self.modified).for_each(|time| {
            out.time(*time);
        });
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, NoFrame> {
        let bits = from.byte()?;
        if bits > 15 {
            return Err(NoFrame);
        }
        let is = |bit: u8| bits & 1 << bit != 0;
        Ok(Change {
            mode: is(0).then(|| from.u32()).transpose()?,
            size: is(1).then(|| from.u64()).transpose()?,
            accessed: is(2).then(|| from.time()).transpose()?,
            modified: is(3).then(|| from.time()).transpose()?,
        })
    }
}

impl Request {
    /// The frame, with its length.
    pub fn encode(&self) -> Vec<u8> {
        use Request::*;
        let number = match self {
            Hello { .. } => 1,
            Stat { .. } => 2,
            Open { .. } => 3,
            Read { .. } => 4,
            Write { .. } => 5,
            Set { .. } => 6,
            Sync { .. } => 7,
            Close { .. } => 8,
            SetLock { .. } => 9,
            GetLock { .. } => 10,
            Allocate { .. } => 11,
            List { .. } => 12,
            ReadLink { .. } => 13,
            Symlink { .. } => 14,
            MakeDirectory { .. } => 15,
            Remove { .. } => 16,
            Rename { .. } => 17,
            Link { .. } => 18,
            Room { .. } => 19,
            Access { .. } => 20,
            LockFile { .. } => 21,
        };
        let mut out = Writer::begin(number);
        match self {
            Hello { key, session } => out.bytes(key).u64(*session),
            Stat { target, follow } => out.target(target).byte(u8::from(*follow)),
            Open { place, flags, mode, follow } => {
                out.place(place).u32(*flags).u32(*mode).byte(u8::from(*follow))
            }
            Read { handle, offset, bytes } => out.u64(*handle).u64(*offset).u32(*bytes),
            Write { handle, offset, data } => out.u64(*handle).u64(*offset).bytes(data),
            Set { target, change } => {
                change.encode(out.target(target));
                &mut out
            }
            Sync { handle } | Close { handle } => out.u64(*handle),
            SetLock { handle, lock } | GetLock { handle, lock } => out.u64(*handle).lock(*lock),
            Allocate { handle, mode, offset, bytes } => out.u64(*handle).u32(*mode).u64(*offset).u64(*bytes),
            List { handle, index } => out.u64(*handle).u64(*index),
            ReadLink { place } | Room { place } => out.place(place),
            Symlink { place, to } => out.place(place).bytes(to),
            MakeDirectory { place, mode } => out.place(place).u32(*mode),
            Remove { place, is_directory } => out.place(place).byte(u8::from(*is_directory)),
            Rename { from, to, flags } => out.place(from).place(to).u32(*flags),
            Link { from, to } => out.place(from).place(to),
            Access { place, mask } => out.place(place).u32(*mask),
            LockFile { handle, kind } => out.u64(*handle).u32(kind.cast_unsigned()),
        };
        out.finish()
    }

    /// Reads one, without its length.
    ///
    /// # Errors
    /// When it is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, NoFrame> {
        use Request::*;
        let mut from = Reader(bytes);
        let request = match from.byte()? {
            1 => Hello { key: from.bytes(16)?.try_into().map_err(|_| NoFrame)?, session: from.u64()? },
            2 => Stat { target: from.target()?, follow: from.flag()? },
            3 => {
                let place = from.place()?;
                Open { place, flags: from.u32()?, mode: from.u32()?, follow: from.flag()? }
            }
            4 => Read { handle: from.u64()?, offset: from.u64()?, bytes: from.u32()? },
            5 => {
                let (handle, offset) = (from.u64()?, from.u64()?);
                Write { handle, offset, data: from.bytes(DATA_MAX)?.to_vec() }
            }
            6 => Set { target: from.target()?, change: Change::decode(&mut from)? },
            7 => Sync { handle: from.u64()? },
            8 => Close { handle: from.u64()? },
            9 => SetLock { handle: from.u64()?, lock: from.lock()? },
            10 => GetLock { handle: from.u64()?, lock: from.lock()? },
            11 => {
                let (handle, mode) = (from.u64()?, from.u32()?);
                Allocate { handle, mode, offset: from.u64()?, bytes: from.u64()? }
            }
            12 => List { handle: from.u64()?, index: from.u64()? },
            13 => ReadLink { place: from.place()? },
            14 => Symlink { place: from.place()?, to: from.text()? },
            15 => MakeDirectory { place: from.place()?, mode: from.u32()? },
            16 => Remove { place: from.place()?, is_directory: from.flag()? },
            17 => Rename { from: from.place()?, to: from.place()?, flags: from.u32()? },
            18 => Link { from: from.place()?, to: from.place()? },
            19 => Room { place: from.place()? },
            20 => Access { place: from.place()?, mask: from.u32()? },
            21 => LockFile { handle: from.u64()?, kind: from.lock_kind()? },
            _ => return Err(NoFrame),
        };
        from.end()?;
        Ok(request)
    }
}

impl Welcome {
    /// Behind an answer's error number.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::answer(0);
        out.bytes(&self.proof).u64(self.session).bytes(&self.boot).u32(self.exports.len() as u32);
        for export in &self.exports {
            out.bytes(&export.path).byte(u8::from(export.is_read_only));
            out.u64(export.identity.0).u64(export.identity.1);
        }
        out.finish()
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it is none.
    pub fn decode(mut from: Reader<'_>) -> Result<Self, NoFrame> {
        let proof = from.bytes(16)?.try_into().map_err(|_| NoFrame)?;
        let (session, boot) = (from.u64()?, from.bytes(64)?.to_vec());
        let count = from.u32()? as usize;
        if count > EXPORTS_MAX {
            return Err(NoFrame);
        }
        let mut exports = Vec::new();
        for _ in 0..count {
            let (path, is_read_only) = (from.text()?, from.flag()?);
            if path.first() != Some(&b'/') {
                return Err(NoFrame);
            }
            exports.push(Export { path, is_read_only, identity: (from.u64()?, from.u64()?) });
        }
        from.end()?;
        Ok(Welcome { proof, session, boot, exports })
    }
}

impl Entry {
    /// Behind an answer's error number: whether these are the last, and all that fit into one frame.
    pub fn encode_list(entries: &[Entry]) -> Vec<u8> {
        let mut out = Writer::answer(0);
        for entry in entries {
            if out.0.len() + entry.name.len() > DATA_MAX / 4 {
                break;
            }
            out.u64(entry.ino).byte(entry.kind).bytes(&entry.name);
        }
        out.finish()
    }

    /// Reads them.
    ///
    /// # Errors
    /// When it is no list.
    pub fn decode_list(mut from: Reader<'_>) -> Result<Vec<Entry>, NoFrame> {
        let mut entries = Vec::new();
        while !from.0.is_empty() {
            let entry = Entry { ino: from.u64()?, kind: from.byte()?, name: from.text()? };
            if entry.name.is_empty() || entry.name.contains(&b'/') {
                return Err(NoFrame);
            }
            entries.push(entry);
        }
        Ok(entries)
    }
}

impl Room {
    /// Behind an answer's error number.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::answer(0);
        self.blocks.iter().chain(&self.files).for_each(|value| {
            out.u64(*value);
        });
        self.bytes.iter().for_each(|value| {
            out.u32(*value);
        });
        out.finish()
    }

    /// Reads it.
    ///
    /// # Errors
    /// When the frame ends before.
    pub fn decode(mut from: Reader<'_>) -> Result<Self, NoFrame> {
        Ok(Room {
            blocks: [from.u64()?, from.u64()?, from.u64()?],
            files: [from.u64()?, from.u64()?],
            bytes: [from.u32()?, from.u32()?, from.u32()?],
        })
    }
}

#[cfg(test)]
mod tests;
