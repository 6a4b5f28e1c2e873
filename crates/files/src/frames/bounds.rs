//! Requests that the server would not read: they are refused where they are made, with the error that a file
//! system has for them. A connection ends with the first frame that does not parse, so none is sent.

use super::{DATA_MAX, Lock, PATH_MAX, Place, Request, Target, is_lock_kind};

impl Request {
    /// Checks what [`Request::decode`] checks of the other side's requests.
    ///
    /// # Errors
    /// An error number: ENAMETOOLONG for a path beyond [`PATH_MAX`], EINVAL for everything else.
    pub fn check(&self) -> Result<(), i32> {
        use Request::*;
        match self {
            Stat { target, .. } | Set { target, .. } => target.check(),
            Open { place, .. } | ReadLink { place } | MakeDirectory { place, .. } => place.check(),
            Remove { place, .. } | Room { place } | Access { place, .. } => place.check(),
            Symlink { place, to } => place.check().and_then(|()| check_text(to)),
            Rename { from, to, .. } | Link { from, to } => from.check().and_then(|()| to.check()),
            Write { data, .. } if data.len() > DATA_MAX => Err(libc::EINVAL),
            SetLock { lock, .. } | GetLock { lock, .. } => lock.check(),
            LockFile { kind, .. } if !is_lock_kind(*kind) => Err(libc::EINVAL),
            Hello { .. }
            | Read { .. }
            | Write { .. }
            | Sync { .. }
            | Close { .. }
            | Allocate { .. }
            | LockFile { .. }
            | List { .. } => Ok(()),
        }
    }
}

impl Target {
    fn check(&self) -> Result<(), i32> {
        match self {
            Target::Place(place) => place.check(),
            Target::Handle(_) => Ok(()),
        }
    }
}

impl Place {
    fn check(&self) -> Result<(), i32> {
        if self.path.first() == Some(&b'/') { Err(libc::EINVAL) } else { check_text(&self.path) }
    }
}

impl Lock {
    fn check(&self) -> Result<(), i32> {
        if is_lock_kind(self.kind) && self.begin >= 0 && self.bytes >= 0 { Ok(()) } else { Err(libc::EINVAL) }
    }
}

fn check_text(text: &[u8]) -> Result<(), i32> {
    if text.len() > PATH_MAX {
        return Err(libc::ENAMETOOLONG);
    }
    if text.contains(&0) { Err(libc::EINVAL) } else { Ok(()) }
}
