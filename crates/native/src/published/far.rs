//! The client's side of a region of another node ([`tutti_shm::published::far`]).
//!
//! All operations go by one connection, one after another. Waits have a connection of their own, made when
//! the first one comes, so that a thread that waits keeps no other from its operations.

use core::ffi::c_int;
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use tutti_shm::published::door::Door;
use tutti_shm::published::far::{Given, Wanted, ask_daemon, enter};
use tutti_shm::published::name::Name;
use tutti_shm::published::{Ask, Opened, Status};

use crate::status::*;

/// A pass may have become too old on its way, on a machine that stood still.
const TRIES: usize = 3;

/// The way to such a region.
#[derive(Debug)]
pub(super) struct Far {
    wanted: Wanted,
    door: Door,
    waits: OnceLock<Door>,
    /// Held by who makes the second connection.
    opening: Mutex<()>,
}

/// Where it was found.
pub(super) enum Found {
    /// The node that was named is this one.
    Here,
    /// On another one, opened with these rights.
    There { far: Far, opened: Opened, rights: u32 },
}

impl Far {
    pub(super) fn open(name: &Name<'_>, node: &str, rights: u32) -> Result<Found, c_int> {
        let mut wanted = Wanted { owner: name.uid, name: name.name.to_owned(), node: node.to_owned() };
        let Some(Reached { door, node }) = reach(&wanted)? else { return Ok(Found::Here) };
        // Any node is this one from now on.
        wanted.node = node;
        let (opened, rights) = open(&door, rights)?;
        let far = Far { wanted, door, waits: OnceLock::new(), opening: Mutex::new(()) };
        Ok(Found::There { far, opened, rights })
    }

    /// The connection for an operation, or for a wait, on the region that was opened.
    pub(super) fn door(&self, waits: bool, opened: &Opened, rights: u32) -> Result<&Door, c_int> {
        if !waits {
            return Ok(&self.door);
        }
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(door) = self.waits.get() {
            return Ok(door);
        }
        let made = self.reach_again(opened, rights);
        // What has become of the region the first connection knows: another server may have one like it.
        match self.door.ask(Ask::Open(rights), &[]) {
            Err(_) => Err(GONE),
            Ok((answer, ..)) if answer.status != Status::Ok => Err(answer.status as c_int),
            Ok(_) => made.map(|door| self.waits.get_or_init(|| door)),
        }
    }

    fn reach_again(&self, opened: &Opened, rights: u32) -> Result<Door, c_int> {
        let Some(Reached { door, .. }) = reach(&self.wanted)? else { return Err(GONE) };
        let (again, _) = open(&door, rights)?;
        if again == *opened { Ok(door) } else { Err(NO_REGION_STATUS) }
    }
}

/// A connection to the server, which knows who this is.
struct Reached {
    door: Door,
    /// The node.
    node: String,
}

/// None: it is of this node.
fn reach(wanted: &Wanted) -> Result<Option<Reached>, c_int> {
    let mut status = NO_REGION_STATUS;
    for _ in 0..TRIES {
        let (address, pass, node) = match ask_daemon(wanted).map_err(|status| status as c_int)? {
            Given::Refused(status) => return Err(status as c_int),
            Given::Here => return Ok(None),
            // No answer to this question.
            Given::Place(_) => return Err(Status::Daemon as c_int),
            Given::There { address, pass, node } => (address, pass, node),
        };
        status = match enter(address, &pass) {
            Ok(door) => return Ok(Some(Reached { door, node })),
            Err(error) => match error.kind() {
                // It has ended since, or the pass is too old.
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::ConnectionRefused => NO_REGION_STATUS,
                io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidData => return Err(NO_RIGHT),
                io::ErrorKind::OutOfMemory => return Err(MEMORY),
                _ => return Err(NO_NODE),
            },
        };
    }
    Err(status)
}

fn open(door: &Door, rights: u32) -> Result<(Opened, u32), c_int> {
    let (answer, data, _) = door.ask(Ask::Open(rights), &[]).map_err(|_| NO_REGION_STATUS)?;
    if answer.status != Status::Ok {
        return Err(answer.status as c_int);
    }
    let opened = Opened::decode(&data).filter(|opened| !opened.is_mapped).ok_or(REFUSED)?;
    Ok((opened, answer.value as u32))
}
