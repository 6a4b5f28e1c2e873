//! The client's side of a region of another node ([`tutti_shm::published::far`]).
//!
//! All operations go by one connection, one after another, and waits by others.

use core::ffi::c_int;
use std::io;

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
        Ok(Found::There { far: Far { wanted, door }, opened, rights })
    }

    /// The connection for operations.
    pub(super) fn door(&self) -> &Door {
        &self.door
    }

    /// One more connection, which has opened the region as it was opened.
    pub(super) fn reach_again(&self, opened: &Opened, rights: u32) -> Result<Door, c_int> {
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
