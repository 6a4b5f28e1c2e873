//! Limits by the hierarchies of version 1, for machines where version 2 has not got the controller: a group
//! of the same name, in the daemon's own group there, that the starter is put into before it is its user's.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{AtFlags, OFlags};

use super::mount::{open_beneath, own_directory};
use super::user::{self, Held, UserLimit};

/// How often a group is made whose user's group is removed while it is being made.
const CREATE_MAX: u32 = 3;

/// A group of one controller.
#[derive(Debug)]
pub(super) struct Version1 {
    parent: OwnedFd,
    name: String,
    /// Group of a user in which it is: a directory of the daemon's, and the name there.
    user: Option<(OwnedFd, String)>,
    /// Limit that the kernel holds the user to, until it is taken.
    held: Held,
    directory: OwnedFd,
    /// Takes a process.
    procs: OwnedFd,
}

impl Version1 {
    /// Makes a group in the daemon's own, or in a user's there, and writes a limit, if there is one. An error
    /// of the kind `NotFound`: there is no such controller.
    pub(super) fn create(
        controller: &str,
        within: Option<&UserLimit>,
        name: &str,
        limit: Option<(&str, u64)>,
    ) -> io::Result<Self> {
        let mut made = Self::try_create(controller, within, name, limit);
        for _ in 1..CREATE_MAX {
            made = made.or_else(|_| Self::try_create(controller, within, name, limit));
        }
        made
    }

    fn try_create(
        controller: &str,
        within: Option<&UserLimit>,
        name: &str,
        limit: Option<(&str, u64)>,
    ) -> io::Result<Self> {
        let around = own_directory(controller).ok_or(io::ErrorKind::NotFound)?;
        let (parent, user, held) = match within {
            None => (around, None, Ok(None)),
            Some(of_user) => {
                let (directory, held) = of_user.make_in(&around)?;
                (directory, Some((around, of_user.directory_name())), held)
            }
        };
        if let Err(error) = rustix::fs::mkdirat(&parent, name, super::directory_mode()) {
            remove_user(&user);
            return Err(error.into());
        }
        let furnish = || {
            let directory = open_beneath(&parent, Path::new(name), OFlags::RDONLY | OFlags::DIRECTORY)?;
            if let Some((file, value)) = limit {
                write(&directory, file, value)?;
            }
            let procs = open_beneath(&directory, Path::new("cgroup.procs"), OFlags::WRONLY)?;
            Ok::<_, io::Error>((directory, procs))
        };
        match furnish() {
            Ok((directory, procs)) => {
                Ok(Version1 { parent, name: name.to_owned(), user, held, directory, procs })
            }
            Err(error) => {
                let _ = rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR);
                remove_user(&user);
                Err(error)
            }
        }
    }

    /// One that an earlier daemon has made in what is the daemon's own group; `None` when there is none.
    pub(super) fn reopen(controller: &str, within: Option<&str>, name: &str) -> Option<Self> {
        let around = own_directory(controller)?;
        let inside = within.and_then(|user| user::open_directory(&around, user).ok().zip(Some(user)));
        let (parent, user) = match inside {
            Some((directory, user)) => (directory, Some((around, user.to_owned()))),
            None => (around, None),
        };
        let directory = open_beneath(&parent, Path::new(name), OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
        let procs = open_beneath(&directory, Path::new("cgroup.procs"), OFlags::WRONLY).ok()?;
        Some(Version1 { parent, name: name.to_owned(), user, held: Ok(None), directory, procs })
    }

    /// Takes the limit that the kernel holds the user to in whose group it has just been made.
    pub(super) fn take_held(&mut self) -> Held {
        std::mem::replace(&mut self.held, Ok(None))
    }

    /// Whether it is in the group of a user.
    pub(super) fn is_of_user(&self) -> bool {
        self.user.is_some()
    }

    /// Writes another limit of it.
    pub(super) fn write(&self, file: &str, value: u64) -> io::Result<()> {
        write(&self.directory, file, value)
    }

    /// Opens a file of it to read.
    pub(super) fn open(&self, file: &str) -> io::Result<OwnedFd> {
        open_beneath(&self.directory, Path::new(file), OFlags::RDONLY)
    }

    /// A descriptor that becomes readable when what this file is about happens.
    pub(super) fn notify(&self, file: &str) -> io::Result<OwnedFd> {
        notify(&self.directory, file)
    }

    /// The same of the group around it.
    pub(super) fn notify_of_user(&self, file: &str) -> io::Result<OwnedFd> {
        notify(&self.parent, file)
    }

    /// Directory of the group.
    pub(super) fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// Takes the process that writes 0.
    pub(super) fn procs(&self) -> BorrowedFd<'_> {
        self.procs.as_fd()
    }

    /// Removes it if it is empty.
    pub(super) fn try_remove(&self) -> rustix::io::Result<()> {
        rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR)
    }

    /// Removes the group of its user, if no other part is in it.
    pub(super) fn remove_user(&self) {
        remove_user(&self.user);
    }
}

fn remove_user(user: &Option<(OwnedFd, String)>) {
    if let Some((around, name)) = user {
        user::remove_empty(around, name);
    }
}

fn notify(directory: &OwnedFd, file: &str) -> io::Result<OwnedFd> {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let about = open_beneath(directory, Path::new(file), OFlags::RDONLY)?;
    let control = open_beneath(directory, Path::new("cgroup.event_control"), OFlags::WRONLY)?;
    rustix::io::write(control, format!("{} {}", event.as_raw_fd(), about.as_raw_fd()).as_bytes())?;
    Ok(event)
}

fn write(directory: &OwnedFd, file: &str, value: u64) -> io::Result<()> {
    let file = open_beneath(directory, Path::new(file), OFlags::WRONLY)?;
    Ok(rustix::io::write(file, value.to_string().as_bytes()).map(drop)?)
}
