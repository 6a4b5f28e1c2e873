//! Regions that this rank publishes.
//!
//! Its connection to the server is one end of a pair of sockets, whose other end the starter hands on. The
//! server makes the memory: so it has the size that is said, and keeps it.

use core::ffi::{c_int, c_void};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tutti_runtime::{background, rank, sleep};
use tutti_shm::published::area::Mapped;
use tutti_shm::published::door::Door;
use tutti_shm::published::lines::Seen;
use tutti_shm::published::name;
use tutti_shm::published::{
    ATOMIC, Ask, Audience, DATA_BYTES_MAX, MESSAGES, Opened, READ, Status, WRITE, is_name,
};

use super::{Access, Entry};
use crate::handle::Handle;
use crate::handler::{self, Handler};
use crate::status::*;

/// Connection of this process to the server, once it has published something.
static OWNER: Mutex<Option<Arc<Door>>> = Mutex::new(None);

/// The owner's side of a region.
#[derive(Debug)]
pub(super) struct Own {
    door: Arc<Door>,
    name: String,
    receiver: Option<Arc<Receiver>>,
}

/// The thread that gives messages to a function of the program.
#[derive(Debug)]
struct Receiver {
    socket: Door,
    has_ended: Mutex<bool>,
    ended: Condvar,
}

/// Context that a function gets as its last argument.
struct Context(*mut c_void);

// SAFETY: it is the program's, which knows that the function runs in another thread.
unsafe impl Send for Context {}

/// The connection, made anew when the server has ended.
fn door(is_stale: bool) -> Result<Arc<Door>, c_int> {
    let rank = rank::enter().ok_or(NOT_RUNNING)?;
    // Without a starter there is nobody to serve what is published.
    let starter = rank.job.starter().ok_or(NOT_RUNNING)?;
    let mut owner = OWNER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(door) = owner.as_ref().filter(|_| !is_stale) {
        return Ok(Arc::clone(door));
    }
    let (door, other) = Door::pair().map_err(|_| MEMORY)?;
    starter.give_connection(other.as_fd()).map_err(|_| NOT_RUNNING)?;
    Ok(Arc::clone(owner.insert(Arc::new(door))))
}

/// Region that the server has made.
struct Made {
    door: Arc<Door>,
    opened: Opened,
    gift: OwnedFd,
    lines: Seen,
}

fn make(name: &str, bytes: usize, rights: u32, audience: Audience) -> Result<Made, c_int> {
    let ask = Ask::Publish(bytes as u64, rights, audience);
    let mut own = door(false)?;
    let mut answered = own.ask(ask, name.as_bytes());
    if answered.is_err() {
        own = door(true)?;
        answered = own.ask(ask, name.as_bytes());
    }
    let (answer, data, descriptors) = answered.map_err(|_| MEMORY)?;
    if answer.status != Status::Ok {
        return Err(answer.status as c_int);
    }
    let opened = Opened::decode(&data).ok_or(REFUSED)?;
    let mut descriptors = descriptors.into_iter();
    let (Some(gift), Some(lines)) = (descriptors.next(), descriptors.next()) else { return Err(MEMORY) };
    let lines = Seen::map(lines.as_fd()).map_err(|_| MEMORY)?;
    Ok(Made { door: own, opened, gift, lines })
}

impl Made {
    /// Clients may come.
    fn finish(
        self,
        name: &str,
        rights: u32,
        mapped: Option<Mapped>,
        receiver: Option<Arc<Receiver>>,
    ) -> Result<Handle, c_int> {
        let Made { door, opened, lines, .. } = self;
        let ready = match door.ask(Ask::Ready(opened.line.into()), &[]) {
            Ok((answer, ..)) if answer.status == Status::Ok => Ok(()),
            Ok((answer, ..)) => Err(answer.status as c_int),
            Err(_) => Err(MEMORY),
        };
        let made = ready.and_then(|()| {
            let own = Own { door: Arc::clone(&door), name: name.to_owned(), receiver };
            super::add(Entry::new(Access::Owner(own), mapped, Some(lines), opened, rights))
        });
        if made.is_err() {
            withdraw(&door, opened);
        }
        made
    }

    /// Gives the name back: there is to be no region.
    fn undo(&self) {
        withdraw(&self.door, self.opened);
    }
}

fn withdraw(door: &Door, opened: Opened) {
    let _ = door.ask(Ask::Withdraw(opened.line.into()), &[]);
}

fn checked_name(name: &[u8]) -> Result<&str, c_int> {
    std::str::from_utf8(name).ok().filter(|name| is_name(name.as_bytes())).ok_or(INVALID)
}

/// Publishes fresh memory under a name, with these rights, for this audience.
pub fn publish(name: &[u8], bytes: usize, rights: c_int, audience: Option<&[u8]>) -> Result<Handle, c_int> {
    let name = checked_name(name)?;
    let rights = u32::try_from(rights).map_err(|_| INVALID)?;
    if rights == 0 || rights & !(READ | WRITE | ATOMIC) != 0 || bytes == 0 {
        return Err(INVALID);
    }
    let made = make(name, bytes, rights, name::audience(audience).ok_or(INVALID)?)?;
    let mapped = match Mapped::map(made.gift.as_fd(), bytes, true) {
        Ok(mapped) => mapped,
        Err(_) => {
            made.undo();
            return Err(MEMORY);
        }
    };
    made.finish(name, READ | WRITE | ATOMIC, Some(mapped), None)
}

/// Publishes a signal: messages of clients start the function.
///
/// # Safety
/// The function may be called by any thread until the signal is closed.
pub unsafe fn publish_signal(
    name: &[u8],
    bytes: usize,
    audience: Option<&[u8]>,
    function: Handler,
    context: *mut c_void,
) -> Result<Handle, c_int> {
    let name = checked_name(name)?;
    if bytes == 0 || bytes > 1 << 30 {
        return Err(INVALID);
    }
    let made = make(name, bytes, MESSAGES, name::audience(audience).ok_or(INVALID)?)?;
    sleep::note_handlers();
    let Ok(socket) = made.gift.try_clone() else {
        made.undo();
        return Err(MEMORY);
    };
    let receiver =
        Arc::new(Receiver { socket: Door::of(socket), has_ended: Mutex::new(false), ended: Condvar::new() });
    let (own, context) = (Arc::clone(&receiver), Context(context));
    let body = move || {
        let context = context;
        own.serve(function, context.0);
    };
    // The function may call the library, beside the threads of the program.
    if let Some(_rank) = rank::enter() {
        rank::LOCK.need_while_held();
    }
    if background::spawn("tutti-signal", body).is_err() {
        made.undo();
        return Err(MEMORY);
    }
    let made_handle = made.finish(name, MESSAGES, None, Some(Arc::clone(&receiver)));
    if made_handle.is_err() {
        receiver.end();
    }
    made_handle
}

impl Receiver {
    /// Takes messages until the socket is shut.
    fn serve(&self, function: Handler, context: *mut c_void) {
        let mut packet = vec![0; 8 + DATA_BYTES_MAX];
        while let Ok(length @ 1..) = self.socket.receive(&mut packet) {
            self.socket.acknowledge();
            let Some((from, data)) = packet[..length].split_first_chunk::<8>() else { continue };
            let from = u64::from_le_bytes(*from) as c_int;
            handler::run(|| {
                // SAFETY: contract of `publish_signal`.
                unsafe { function(data.as_ptr().cast(), data.len(), from, context) };
            });
        }
        *self.has_ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended.notify_all();
    }

    /// Waits for the end of the function that runs; what has not been taken is dropped.
    fn end(&self) {
        self.socket.shut();
        let mut has_ended = self.has_ended.lock().unwrap_or_else(PoisonError::into_inner);
        while !*has_ended {
            has_ended = self.ended.wait(has_ended).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Own {
    /// A function cannot wait for its own end.
    pub(super) fn may_close(&self) -> bool {
        self.receiver.is_none() || !handler::is_running_here()
    }

    /// Closes the region, so that nobody reaches it any more.
    pub(super) fn close(&self, line: u64) -> c_int {
        let withdrawn = self.door.ask(Ask::Withdraw(line), &[]);
        if let Some(receiver) = &self.receiver {
            receiver.end();
        }
        withdrawn.map_or(GONE, |(answer, ..)| answer.status as c_int)
    }

    pub(super) fn say(&self, ask: Ask) {
        self.door.say(ask);
    }

    /// A connection as a client has it.
    pub(super) fn client_door(&self) -> Result<Door, c_int> {
        let door = Door::connect(name::own_user(), &self.name).map_err(|_| GONE)?;
        let (answer, ..) = door.ask(Ask::Open(0), &[]).map_err(|_| GONE)?;
        if answer.status == Status::Ok { Ok(door) } else { Err(answer.status as c_int) }
    }
}
