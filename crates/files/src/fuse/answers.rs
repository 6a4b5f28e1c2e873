//! An answer to each request of the kernel.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::Mounted;
use super::lock_waits::LockWaits;
use super::nodes::Handle;
use super::wire::{Answer, Fields, Head, operation};
use crate::client::{CallError, Connection};
use crate::frames::{Attributes, Change, DATA_MAX, Lock, NoFrame, Place, Request, Target};

/// Somebody waits for a lock of the origin: so often it is asked for.
const LOCK_EVERY: Duration = Duration::from_millis(10);
/// An open of a program that is to be executed (the kernel's FMODE_EXEC).
const EXECUTES: u32 = 0x20;

/// Why a request has no answer but an error.
#[derive(Debug)]
pub(super) enum Failed {
    Errno(i32),
    Gone(CallError),
}

impl From<CallError> for Failed {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(errno) => Failed::Errno(errno),
            gone @ CallError::Gone(_) => Failed::Gone(gone),
        }
    }
}

impl From<NoFrame> for Failed {
    fn from(_: NoFrame) -> Self {
        Failed::Errno(libc::EIO)
    }
}

/// Answer to the kernel; none: no answer.
type Answered = Result<Option<Vec<u8>>, Failed>;

impl Mounted {
    /// Answers a request, which may come later where it waits for a lock.
    pub(super) fn answer(self: &Arc<Self>, connection: &mut Connection, request: &[u8]) {
        let Ok((head, fields)) = Fields::of(request) else { return };
        if head.operation == operation::SETLKW {
            return self.answer_lock_later(head, fields);
        }
        let answered = self.try_answer(connection, head, fields);
        self.reply(head, answered);
    }

    fn reply(&self, head: Head, answered: Answered) {
        let bytes = match answered {
            Ok(None) => return,
            Ok(Some(bytes)) => bytes,
            Err(Failed::Errno(errno)) => Answer::error(head.unique, errno),
            Err(Failed::Gone(error)) => {
                self.note_gone(&error);
                Answer::error(head.unique, libc::EIO)
            }
        };
        // A request that was given up meanwhile has no place for an answer.
        let _ = rustix::io::write(self.device(), &bytes);
    }

    fn try_answer(&self, connection: &mut Connection, head: Head, fields: Fields<'_>) -> Answered {
        use operation::*;
        match head.operation {
            INIT => self.begin_protocol(head, fields),
            FORGET | BATCH_FORGET => self.forget(head, fields),
            INTERRUPT => {
                let mut fields = fields;
                self.waiting().interrupt(fields.u64()?);
                Ok(None)
            }
            DESTROY => Ok(Some(Answer::to(head.unique).finish())),
            LOOKUP | GETATTR | SETATTR | READLINK | STATFS | ACCESS => self.look(connection, head, fields),
            SYMLINK | MKNOD | MKDIR | UNLINK | RMDIR | RENAME | RENAME2 | LINK => {
                self.change_names(connection, head, fields)
            }
            OPEN | OPENDIR | CREATE => self.open(connection, head, fields),
            READ | READDIR => self.read(connection, head, fields),
            WRITE | FSYNC | FSYNCDIR | FALLOCATE => self.write(connection, head, fields),
            FLUSH | RELEASE | RELEASEDIR => self.close(connection, head, fields),
            GETLK | SETLK => self.lock(connection, head, fields),
            _ => Err(Failed::Errno(libc::ENOSYS)),
        }
    }

    fn begin_protocol(&self, head: Head, mut fields: Fields<'_>) -> Answered {
        let (major, minor, ahead, offered) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
        if major < 7 || (major == 7 && minor < 28) {
            return Err(Failed::Errno(libc::EPROTO));
        }
        // Reads at the same time, locks of ranges, truncation by open, big writes, locks of whole files,
        // pages dropped when the file has changed, operations on a folder at the same time, as many pages as
        // we say.
        let wanted = 1 | 1 << 1 | 1 << 3 | 1 << 5 | 1 << 10 | 1 << 12 | 1 << 18 | 1 << 22;
        let mut out = Answer::to(head.unique);
        out.u32(7).u32(31).u32(ahead.min(DATA_MAX as u32)).u32(wanted & offered);
        out.u16(16).u16(12).u32(DATA_MAX as u32).u32(1).u16((DATA_MAX / 4096) as u16).u16(0).bytes(&[0; 32]);
        Ok(Some(out.finish()))
    }

    fn forget(&self, head: Head, mut fields: Fields<'_>) -> Answered {
        let mut nodes = self.nodes();
        if head.operation == operation::FORGET {
            nodes.forget(head.node, fields.u64()?);
            return Ok(None);
        }
        let count = fields.u32()?;
        fields.u32()?;
        for _ in 0..count {
            nodes.forget(fields.u64()?, fields.u64()?);
        }
        Ok(None)
    }

    fn place(&self, node: u64) -> Result<Place, Failed> {
        let path = self.nodes().path(node).ok_or(Failed::Errno(libc::ENOENT))?;
        Ok(Place { export: self.export, path })
    }

    fn place_in(&self, folder: u64, name: &[u8]) -> Result<Place, Failed> {
        let path = self.nodes().path_in(folder, name).ok_or(Failed::Errno(libc::ENOENT))?;
        Ok(Place { export: self.export, path })
    }

    /// Question about a node: by its name, or by any open file where that is removed.
    fn target(&self, node: u64, handle: Option<u64>) -> Result<Target, Failed> {
        if let Some(handle) = handle {
            return Ok(Target::Handle(handle));
        }
        match self.place(node) {
            Ok(place) => Ok(Target::Place(place)),
            Err(error) => self.nodes().open_handle(node).map(Target::Handle).ok_or(error),
        }
    }

    fn enter(&self, head: Head, name: &[u8], attributes: &Attributes) -> Answered {
        let node = self.nodes().enter(head.node, name);
        Ok(Some(Answer::to(head.unique).entry(node, attributes, head).finish()))
    }

    fn look(&self, connection: &mut Connection, head: Head, mut fields: Fields<'_>) -> Answered {
        let mut out = Answer::to(head.unique);
        match head.operation {
            operation::LOOKUP => {
                let name = fields.name()?;
                let found = connection.stat(Target::Place(self.place_in(head.node, name)?), false)?;
                return self.enter(head, name, &found);
            }
            operation::GETATTR => {
                let (flags, _, handle) = (fields.u32()?, fields.u32()?, fields.u64()?);
                let target = self.target(head.node, (flags & 1 != 0).then_some(handle))?;
                out.attr(&connection.stat(target, false)?, head);
            }
            operation::SETATTR => {
                let (change, handle) = change_of(&mut fields, head)?;
                let target = self.target(head.node, handle)?;
                let answer = connection.call(&Request::Set { target, change })?;
                let after = crate::frames::Reader::new(&answer).attributes()?;
                self.nodes().note_version(head.node, after.version());
                out.attr(&after, head);
            }
            operation::READLINK => {
                let place = self.place(head.node)?;
                let to = connection.read_link(place.clone());
                if let Err(CallError::Refused(libc::EXDEV)) = to {
                    self.note_link(&place.path);
                }
                out.bytes(&to?);
            }
            operation::STATFS => {
                out.room(&connection.room(self.place(head.node)?)?);
            }
            _ => {
                let mask = fields.u32()?;
                connection.call(&Request::Access { place: self.place(head.node)?, mask })?;
            }
        }
        Ok(Some(out.finish()))
    }

    fn change_names(&self, connection: &mut Connection, head: Head, mut fields: Fields<'_>) -> Answered {
        use operation::*;
        match head.operation {
            UNLINK | RMDIR => {
                let name = fields.name()?;
                let (place, is_directory) = (self.place_in(head.node, name)?, head.operation == RMDIR);
                connection.call(&Request::Remove { place, is_directory })?;
                self.nodes().remove(head.node, name);
                return Ok(Some(Answer::to(head.unique).finish()));
            }
            RENAME | RENAME2 => {
                let folder = fields.u64()?;
                let flags = if head.operation == RENAME2 { fields.u32()? } else { 0 };
                fields.skip(if head.operation == RENAME2 { 4 } else { 0 })?;
                let (old, new) = (fields.name()?, fields.name()?);
                let (from, to) = (self.place_in(head.node, old)?, self.place_in(folder, new)?);
                connection.call(&Request::Rename { from, to, flags })?;
                let exchanges = flags & libc::RENAME_EXCHANGE != 0;
                self.nodes().rename((head.node, old), (folder, new), exchanges);
                return Ok(Some(Answer::to(head.unique).finish()));
            }
            _ => {}
        }
        let name = match head.operation {
            SYMLINK => {
                let (name, to) = (fields.name()?, fields.name()?.to_vec());
                connection.call(&Request::Symlink { place: self.place_in(head.node, name)?, to })?;
                name
            }
            LINK => {
                let from = self.place(fields.u64()?)?;
                let name = fields.name()?;
                connection.call(&Request::Link { from, to: self.place_in(head.node, name)? })?;
                name
            }
            MKDIR => {
                let (mode, _, name) = (fields.u32()?, fields.u32()?, fields.name()?);
                connection.call(&Request::MakeDirectory { place: self.place_in(head.node, name)?, mode })?;
                name
            }
            _ => {
                let mode = fields.u32()?;
                fields.skip(12)?;
                let name = fields.name()?;
                if mode & libc::S_IFMT != libc::S_IFREG {
                    return Err(Failed::Errno(libc::EPERM));
                }
                let flags = (libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY) as u32;
                let place = self.place_in(head.node, name)?;
                let (handle, _) = connection.open_file(place, flags, mode, false)?;
                connection.call(&Request::Close { handle })?;
                name
            }
        };
        let found = connection.stat(Target::Place(self.place_in(head.node, name)?), false)?;
        self.enter(head, name, &found)
    }

    fn open(&self, connection: &mut Connection, head: Head, mut fields: Fields<'_>) -> Answered {
        let flags = fields.u32()?;
        let mut out = Answer::to(head.unique);
        let (place, mode, name) = if head.operation == operation::CREATE {
            let mode = fields.u32()?;
            fields.skip(8)?;
            let name = fields.name()?;
            (self.place_in(head.node, name)?, mode, Some(name))
        } else {
            (self.place(head.node)?, 0, None)
        };
        let is_folder = head.operation == operation::OPENDIR;
        let mut wanted = if name.is_some() { flags | libc::O_CREAT as u32 } else { flags };
        if is_folder {
            wanted |= libc::O_DIRECTORY as u32;
        }
        let (handle, attributes) = connection.open_file(place, wanted, mode, false)?;
        let version = attributes.version();
        let mut nodes = self.nodes();
        let node = name.map_or(head.node, |name| nodes.enter(head.node, name));
        let has_changed = nodes.note_version(node, version);
        let executed = (flags & EXECUTES != 0).then_some(version);
        nodes.handles.insert(handle, Handle { node, executed, may_lock: false });
        drop(nodes);
        if name.is_some() {
            out.entry(node, &attributes, head);
        }
        if has_changed && name.is_none() && !is_folder {
            // Else it would read no further than the old end.
            let _ = rustix::io::write(self.device(), &Answer::invalidation(node));
        }
        out.opened(handle, !has_changed && !is_folder);
        Ok(Some(out.finish()))
    }

    fn read(&self, connection: &mut Connection, head: Head, mut fields: Fields<'_>) -> Answered {
        let (handle, offset, bytes) = (fields.u64()?, fields.u64()?, fields.u32()? as usize);
        let mut out = Answer::to(head.unique);
        if head.operation == operation::READDIR {
            let entries = connection.list(handle, offset)?;
            for (at, entry) in entries.iter().enumerate() {
                let next = offset.saturating_add(at as u64 + 1);
                if !out.directory_entry(entry.ino, next, entry.kind, &entry.name, bytes) {
                    break;
                }
            }
            return Ok(Some(out.finish()));
        }
        let executed = self.nodes().handles.get(&handle).and_then(|handle| handle.executed);
        let mut done = 0;
        while done < bytes {
            let (version, data) =
                connection.read(handle, offset.saturating_add(done as u64), bytes - done)?;
            if executed.is_some_and(|executed| executed != version) {
                return Err(Failed::Errno(libc::ESTALE));
            }
            if data.is_empty() {
                break;
            }
            done += data.len();
            out.bytes(&data);
        }
        Ok(Some(out.finish()))
    }

    fn write(&self, connection: &mut Connection, head: Head, mut fields: Fields<'_>) -> Answered {
        let handle = fields.u64()?;
        let mut out = Answer::to(head.unique);
        match head.operation {
            operation::WRITE => {
                let (offset, bytes) = (fields.u64()?, fields.u32()? as usize);
                fields.skip(20)?;
                let data = fields.0.get(..bytes).ok_or(NoFrame)?;
                let mut done = 0;
                while done < bytes {
                    match connection.write(handle, offset.saturating_add(done as u64), &data[done..]) {
                        Ok(written) => done += written,
                        Err(error) if done == 0 => return Err(error.into()),
                        Err(_) => break,
                    }
                }
                out.u32(done as u32).u32(0);
            }
            operation::FALLOCATE => {
                let (offset, bytes, mode) = (fields.u64()?, fields.u64()?, fields.u32()?);
                connection.call(&Request::Allocate { handle, mode, offset, bytes })?;
            }
            _ => drop(connection.call(&Request::Sync { handle })?),
        }
        Ok(Some(out.finish()))
    }

    fn close(&self, connection: &mut Connection, head: Head, mut fields: Fields<'_>) -> Answered {
        let handle = fields.u64()?;
        if head.operation == operation::FLUSH {
            let mut nodes = self.nodes();
            let is_locked =
                nodes.handles.get_mut(&handle).is_some_and(|handle| std::mem::take(&mut handle.may_lock));
            drop(nodes);
            if is_locked {
                // A process that closes a file gives its locks back.
                connection.set_lock(handle, Lock { kind: libc::F_UNLCK, begin: 0, bytes: 0 })?;
            }
        } else {
            self.nodes().handles.remove(&handle);
            connection.call(&Request::Close { handle })?;
        }
        Ok(Some(Answer::to(head.unique).finish()))
    }

    fn lock(&self, connection: &mut Connection, head: Head, mut fields: Fields<'_>) -> Answered {
        let wanted = WantedLock::read(&mut fields)?;
        let mut out = Answer::to(head.unique);
        if head.operation == operation::GETLK {
            let found = connection.get_lock(wanted.handle, wanted.lock)?;
            let end = match found.bytes {
                0 => i64::MAX.cast_unsigned(),
                bytes => found.begin.saturating_add(bytes - 1).cast_unsigned(),
            };
            out.u64(found.begin.cast_unsigned()).u64(end).u32(found.kind.cast_unsigned()).u32(wanted.pid);
            return Ok(Some(out.finish()));
        }
        self.note_lock(&wanted);
        wanted.set(connection)?;
        Ok(Some(out.finish()))
    }

    /// A process that closes a file gives back its locks of ranges, so that they are noted; the lock of a
    /// whole file stays until the last descriptor of an open file is closed.
    fn note_lock(&self, wanted: &WantedLock) {
        if wanted.lock.kind != libc::F_UNLCK && !wanted.is_of_file {
            self.nodes().handles.entry(wanted.handle).and_modify(|handle| handle.may_lock = true);
        }
    }

    /// A thread of its own waits for a lock, so that the one who has it is served meanwhile.
    fn answer_lock_later(self: &Arc<Self>, head: Head, mut fields: Fields<'_>) {
        let Ok(wanted) = WantedLock::read(&mut fields) else {
            return self.reply(head, Err(Failed::Errno(libc::EINVAL)));
        };
        self.waiting().begin(head.unique);
        let mounted = self.clone();
        let wait = move || {
            let answered = mounted.wait_for_lock(head, wanted);
            mounted.waiting().end(head.unique);
            mounted.reply(head, answered);
        };
        if std::thread::Builder::new().stack_size(256 << 10).spawn(wait).is_err() {
            self.waiting().end(head.unique);
            self.reply(head, Err(Failed::Errno(libc::ENOLCK)));
        }
    }

    fn waiting(&self) -> MutexGuard<'_, LockWaits> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_lock(&self, head: Head, wanted: WantedLock) -> Answered {
        let mut connection = Connection::open(&self.origin, self.session)
            .map_err(|error| Failed::Gone(CallError::Gone(error)))?;
        self.note_lock(&wanted);
        loop {
            match wanted.set(&mut connection) {
                Err(CallError::Refused(libc::EAGAIN | libc::EACCES)) => {}
                other => {
                    other?;
                    return Ok(Some(Answer::to(head.unique).finish()));
                }
            }
            if self.waiting().is_interrupted(head.unique) {
                return Err(Failed::Errno(libc::EINTR));
            }
            std::thread::sleep(LOCK_EVERY);
        }
    }
}

/// A lock that the kernel asks for.
#[derive(Clone, Copy, Debug)]
struct WantedLock {
    handle: u64,
    lock: Lock,
    /// Of the whole file, by `flock`.
    is_of_file: bool,
    pid: u32,
}

impl WantedLock {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Failed> {
        let (handle, _owner) = (fields.u64()?, fields.u64()?);
        let (begin, end, kind, pid) = (fields.u64()?, fields.u64()?, fields.u32()?, fields.u32()?);
        let is_of_file = fields.u32()? & 1 != 0;
        let begin = i64::try_from(begin).map_err(|_| Failed::Errno(libc::EINVAL))?;
        let bytes = match i64::try_from(end) {
            Ok(i64::MAX) | Err(_) => 0,
            Ok(end) => end.checked_sub(begin).and_then(|bytes| bytes.checked_add(1)).unwrap_or(0),
        };
        Ok(WantedLock { handle, lock: Lock { kind: kind.cast_signed(), begin, bytes }, is_of_file, pid })
    }

    /// EAGAIN while others have it.
    fn set(&self, connection: &mut Connection) -> Result<(), CallError> {
        if self.is_of_file {
            return connection.lock_file(self.handle, self.lock.kind);
        }
        connection.set_lock(self.handle, self.lock)
    }
}

/// Changes by SETATTR, and the open file for them.
fn change_of(fields: &mut Fields<'_>, head: Head) -> Result<(Change, Option<u64>), Failed> {
    let (valid, _, handle, size, _) =
        (fields.u32()?, fields.u32()?, fields.u64()?, fields.u64()?, fields.u64()?);
    let seconds = [fields.u64()?, fields.u64()?, fields.u64()?];
    let ns = [fields.u32()?, fields.u32()?, fields.u32()?];
    let (mode, _, uid, gid) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let is = |bit: u32| valid & 1 << bit != 0;
    if (is(1) && uid != head.uid) || (is(2) && gid != head.gid) {
        return Err(Failed::Errno(libc::EPERM));
    }
    let time = |at: usize, now: bool| {
        if now { (0, libc::UTIME_NOW as u32) } else { (seconds[at].cast_signed(), ns[at]) }
    };
    let change = Change {
        mode: is(0).then_some(mode),
        size: is(3).then_some(size),
        accessed: is(4).then(|| time(0, is(7))),
        modified: is(5).then(|| time(1, is(8))),
    };
    Ok((change, is(6).then_some(handle)))
}
