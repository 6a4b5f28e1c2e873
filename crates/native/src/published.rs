//! Regions for other jobs: those that this rank publishes, and those of others that this process has opened.
//! What is asked of the process that serves them is [`tutti_shm::published`]'s.
//!
//! | region | operation |
//! |---|---|
//! | of this node, mapped with all rights that it needs | loads, stores, atomics here; then a look whether it is still open, and whether a client waits for a change |
//! | any other | a question to the server, which answers while the owner is frozen |
//! | of another node | the same, over TCP ([`far`]) |
//!
//! A handle of such a region is good in this process alone: what reaches the region is the connection that
//! stands behind it. Nothing here needs a job but publishing. Who waits sleeps in the kernel, without the
//! process lock, at a connection that no other thread uses meanwhile ([`Entry::ask_alone`]).

mod far;
mod owner;

use core::ffi::{c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tutti_shm::published::area::Mapped;
use tutti_shm::published::door::Door;
use tutti_shm::published::far::ANY_NODE;
use tutti_shm::published::lines::Seen;
use tutti_shm::published::name;
use tutti_shm::published::{ATOMIC, Answer, Ask, DATA_BYTES_MAX, Opened, READ, Status, WRITE, holds};

use crate::change::{Change, Piece};
use crate::completion::End;
use crate::handle::Handle;
use crate::status::*;
pub use owner::{publish, publish_signal};

/// The rank of a handle whose region is no rank's of this job.
const OUTSIDE: u32 = u32::MAX;
/// Regions that one process has open, at most.
const OPEN_MAX: usize = 4096;
/// Connections that are kept so.
const IDLE_MAX: usize = 1;
/// Between two looks of one that waits without a connection of its own.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// An open region.
#[derive(Debug)]
struct Entry {
    access: Access,
    mapped: Option<Mapped>,
    /// None: of another node.
    lines: Option<Seen>,
    opened: Opened,
    rights: u32,
    /// Connections of questions that are over, for the next ones that have one alone.
    idle: Mutex<Vec<Door>>,
}

/// How the server is asked.
#[derive(Debug)]
enum Access {
    /// By the client's own connection, to a region of this user and name.
    Client(Door, u32, String),
    /// The same, to another node.
    Far(far::Far),
    /// Region of this process: it has mapped it, or its messages come to it.
    Owner(owner::Own),
}

/// A place for an open region; its generation grows with each.
#[derive(Debug, Default)]
struct Place {
    generation: u64,
    entry: Option<Arc<Entry>>,
}

static PLACES: RwLock<Vec<Place>> = RwLock::new(Vec::new());

/// Mark that keeps handles of other processes out.
fn mark() -> u64 {
    static MARK: AtomicU64 = AtomicU64::new(0);
    let found = MARK.load(Relaxed);
    if found != 0 {
        return found;
    }
    // Pid and address may be those of another rank, in PID namespaces and without random addresses.
    let own = tutti_runtime::attach::random_number()
        .unwrap_or_else(|_| u64::from(std::process::id()) << 32 | (&raw const MARK).addr() as u64 >> 4)
        | 1;
    MARK.compare_exchange(0, own, Relaxed, Relaxed).err().unwrap_or(own)
}

/// Whether a handle names a region that was published.
#[inline]
pub fn is_published(handle: &Handle) -> bool {
    handle.rank == OUTSIDE
}

fn add(entry: Entry) -> Result<Handle, c_int> {
    let bytes = entry.opened.bytes;
    let mut places = PLACES.write().unwrap_or_else(PoisonError::into_inner);
    let slot = match places.iter().position(|place| place.entry.is_none()) {
        Some(slot) => slot,
        None if places.len() == OPEN_MAX => return Err(MEMORY),
        None => {
            places.push(Place::default());
            places.len() - 1
        }
    };
    let place = &mut places[slot];
    place.generation += 1;
    place.entry = Some(Arc::new(entry));
    let mut handle = Handle {
        rank: OUTSIDE,
        slot: slot as u16,
        port: 0,
        generation: place.generation,
        directory: 0,
        id: 0,
        id_generation: 0,
        bytes,
        check: 0,
    };
    handle.check = handle.sum(mark());
    Ok(handle)
}

fn find(handle: &Handle) -> Result<Arc<Entry>, c_int> {
    if !is_published(handle) || handle.check != handle.sum(mark()) {
        return Err(NO_REGION_STATUS);
    }
    let places = PLACES.read().unwrap_or_else(PoisonError::into_inner);
    let place = places.get(handle.slot as usize).filter(|place| place.generation == handle.generation);
    place.and_then(|place| place.entry.clone()).ok_or(NO_REGION_STATUS)
}

/// Whether this process publishes anything.
pub fn is_any_owned() -> bool {
    let places = PLACES.read().unwrap_or_else(PoisonError::into_inner);
    places.iter().flat_map(|place| &place.entry).any(|entry| matches!(entry.access, Access::Owner(_)))
}

/// Closes it: for its owner this ends it for everybody.
pub fn close(handle: &Handle) -> c_int {
    let entry = match find(handle) {
        Ok(entry) => entry,
        Err(status) => return status,
    };
    if let Access::Owner(own) = &entry.access
        && !own.may_close()
    {
        return BUSY;
    }
    {
        let mut places = PLACES.write().unwrap_or_else(PoisonError::into_inner);
        let place = &mut places[handle.slot as usize];
        if place.generation != handle.generation || place.entry.take().is_none() {
            return NO_REGION_STATUS;
        }
    }
    match &entry.access {
        Access::Owner(own) => own.close(u64::from(entry.opened.line)),
        Access::Client(..) | Access::Far(_) => OK,
    }
}

/// Opens a region of another job, or of this one, with these rights (0: all that it gives). The name may
/// say whose it is, and on which node.
pub fn open(name: &[u8], rights: c_int) -> Result<Handle, c_int> {
    let rights = u32::try_from(rights).map_err(|_| INVALID)?;
    let name = name::parse(name).ok_or(INVALID)?;
    let Some(node) = name.node else { return open_here(&name, rights) };
    if node == ANY_NODE {
        // What is here is nearer.
        match open_here(&name, rights) {
            Err(NO_REGION_STATUS) => {}
            found => return found,
        }
    }
    match far::Far::open(&name, node, rights)? {
        far::Found::Here => open_here(&name, rights),
        far::Found::There { far, opened, rights } => {
            add(Entry::new(Access::Far(far), None, None, opened, rights))
        }
    }
}

fn open_here(name: &name::Name<'_>, rights: u32) -> Result<Handle, c_int> {
    let door = connect(name.uid, name.name)?;
    // One that ends just now is there no more.
    let (answer, data, descriptors) = door.ask(Ask::Open(rights), &[]).map_err(|_| NO_REGION_STATUS)?;
    if answer.status != Status::Ok {
        return Err(answer.status as c_int);
    }
    let opened = Opened::decode(&data).ok_or(REFUSED)?;
    let mut descriptors = descriptors.into_iter();
    let rights = answer.value as u32;
    let mapped = match opened.is_mapped {
        true => Some(map(descriptors.next(), &opened, rights & (READ | WRITE) == READ | WRITE)?),
        false => None,
    };
    let lines = descriptors.next().ok_or(REFUSED)?;
    let lines = Some(Seen::map(std::os::fd::AsFd::as_fd(&lines)).map_err(|_| MEMORY)?);
    let access = Access::Client(door, name.uid, name.name.to_owned());
    add(Entry::new(access, mapped, lines, opened, rights))
}

fn connect(uid: u32, name: &str) -> Result<Door, c_int> {
    Door::connect(uid, name).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => NO_RIGHT,
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => NO_REGION_STATUS,
        _ => MEMORY,
    })
}

/// Maps the memory that has come.
fn map(
    descriptor: Option<std::os::fd::OwnedFd>,
    opened: &Opened,
    is_writable: bool,
) -> Result<Mapped, c_int> {
    let descriptor = descriptor.ok_or(REFUSED)?;
    let bytes = usize::try_from(opened.bytes).map_err(|_| MEMORY)?;
    Mapped::map(std::os::fd::AsFd::as_fd(&descriptor), bytes, is_writable).map_err(|_| MEMORY)
}

/// The length of a region that is open.
pub fn bytes(handle: &Handle) -> usize {
    handle.bytes as usize
}

/// The memory of a region that is mapped here, for loads and stores of the program; null if it is not. It
/// stays until the region is closed here.
pub fn memory(handle: &Handle) -> *mut c_void {
    let found = find(handle).ok();
    let base = found.and_then(|entry| entry.mapped.as_ref().map(|mapped| mapped.base()));
    base.map_or(std::ptr::null_mut(), |base| base.as_ptr().cast())
}

impl Entry {
    fn new(access: Access, mapped: Option<Mapped>, lines: Option<Seen>, opened: Opened, rights: u32) -> Self {
        Entry { access, mapped, lines, opened, rights, idle: Mutex::default() }
    }

    /// Memory in which this process does an operation itself.
    fn here(&self, needs_write: bool) -> Option<&Mapped> {
        let may_write =
            self.rights & (READ | WRITE) == READ | WRITE || matches!(self.access, Access::Owner(_));
        self.mapped.as_ref().filter(|_| !needs_write || may_write)
    }

    /// Whether it is still open, as far as can be seen without asking.
    fn status(&self) -> c_int {
        let status = |lines: &Seen| lines.status(self.opened.line as usize, self.opened.generation) as c_int;
        self.lines.as_ref().map_or(OK, status)
    }

    /// The memory has been changed here: clients that wait for that look again.
    fn say_changed(&self) {
        if !self.lines.as_ref().is_some_and(|lines| lines.is_awaited(self.opened.line as usize)) {
            return;
        }
        let changed = Ask::Changed(self.opened.line.into());
        match &self.access {
            Access::Client(door, ..) => door.say(changed),
            // Its memory is mapped nowhere here: the server knows of each change.
            Access::Far(_) => {}
            Access::Owner(own) => own.say(changed),
        }
    }

    fn ask(&self, ask: Ask, data: &[u8]) -> Result<(Answer, Vec<u8>), c_int> {
        let door = match &self.access {
            Access::Client(door, ..) => door,
            Access::Far(far) => far.door(),
            Access::Owner(_) => return self.ask_alone(ask, data),
        };
        self.ask_by(door, ask, data)
    }

    fn ask_by(&self, door: &Door, ask: Ask, data: &[u8]) -> Result<(Answer, Vec<u8>), c_int> {
        let (answer, data, _) = door.ask(ask, data).map_err(|_| match self.status() {
            OK => GONE,
            status => status,
        })?;
        if answer.status == Status::Ok { Ok((answer, data)) } else { Err(answer.status as c_int) }
    }

    /// Asks by a connection that no other thread uses until the answer is here: so one that waits keeps no
    /// other from operations, which may be what it waits for.
    fn ask_alone(&self, ask: Ask, data: &[u8]) -> Result<(Answer, Vec<u8>), c_int> {
        let found = self.idle().pop();
        let door = found.map_or_else(|| self.connect_again(), Ok)?;
        let answered = self.ask_by(&door, ask, data);
        let mut idle = self.idle();
        if !matches!(answered, Err(GONE | NO_REGION_STATUS)) && idle.len() < IDLE_MAX {
            idle.push(door);
        }
        answered
    }

    /// Looks again and again whether a number compares with a value: for one that has no connection at which
    /// it could sleep, and keeps the others from theirs no longer than a look takes.
    fn look_for(&self, offset: u64, comparison: u32, value: i64) -> c_int {
        if !offset.is_multiple_of(8) {
            return UNALIGNED;
        }
        loop {
            match self.ask(Ask::Read(offset, 8), &[]) {
                Ok((_, data)) => match <[u8; 8]>::try_from(data) {
                    Ok(word) if holds(comparison, i64::from_ne_bytes(word), value) == Some(true) => {
                        return OK;
                    }
                    Ok(_) => {}
                    Err(_) => return REFUSED,
                },
                Err(status) => return status,
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Door>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more connection to the same region.
    fn connect_again(&self) -> Result<Door, c_int> {
        let (first, made) = match &self.access {
            Access::Owner(own) => return own.client_door(),
            Access::Client(first, uid, name) => (first, self.open_again(*uid, name)),
            Access::Far(far) => (far.door(), far.reach_again(&self.opened, self.rights)),
        };
        // What has become of the region the first connection knows: another server may have one like it.
        self.ask_by(first, Ask::Open(self.rights), &[])?;
        made
    }

    fn open_again(&self, uid: u32, name: &str) -> Result<Door, c_int> {
        let door = connect(uid, name)?;
        let (_, data) = self.ask_by(&door, Ask::Open(self.rights), &[])?;
        if Opened::decode(&data) == Some(self.opened) { Ok(door) } else { Err(NO_REGION_STATUS) }
    }

    fn right(&self, right: u32) -> c_int {
        if self.rights & right == 0 { NO_RIGHT } else { OK }
    }
}

/// An operation has ended with a status.
fn ended(end: End, status: c_int) -> c_int {
    let status = end.with(status);
    if matches!(end, End::Noted(_)) { OK } else { status }
}

/// Writes pieces of this process's memory into a region.
///
/// # Safety
/// The pieces are valid for reading.
pub(crate) unsafe fn write(handle: &Handle, pieces: &[Piece], end: End) -> c_int {
    // SAFETY: our contract.
    ended(end, find(handle).map_or_else(|status| status, |entry| unsafe { write_to(&entry, pieces) }))
}

unsafe fn write_to(entry: &Entry, pieces: &[Piece]) -> c_int {
    let is_inside = |piece: &Piece| {
        piece.offset.checked_add(piece.bytes as u64).is_some_and(|end| end <= entry.opened.bytes)
    };
    match entry.right(WRITE) {
        OK if entry.opened.bytes == 0 || !pieces.iter().all(is_inside) => return OUT_OF_RANGE,
        OK => {}
        status => return status,
    }
    if let Some(memory) = entry.here(true) {
        if entry.status() != OK {
            return entry.status();
        }
        for piece in pieces {
            // SAFETY: our contract; the range was checked.
            unsafe { memory.opened().store(piece.offset as usize, piece.from.cast(), piece.bytes) };
        }
        entry.say_changed();
        return entry.status();
    }
    for piece in pieces {
        for at in (0..piece.bytes).step_by(DATA_BYTES_MAX) {
            let bytes = (piece.bytes - at).min(DATA_BYTES_MAX);
            // SAFETY: our contract.
            let data = unsafe { std::slice::from_raw_parts(piece.from.cast::<u8>().add(at), bytes) };
            if let Err(status) = entry.ask(Ask::Write(piece.offset + at as u64), data) {
                return status;
            }
        }
    }
    OK
}

/// Reads from a region.
///
/// # Safety
/// `into` is valid for writing so many bytes.
pub(crate) unsafe fn read(handle: &Handle, offset: u64, into: *mut c_void, bytes: usize, end: End) -> c_int {
    let read = |entry: Arc<Entry>| {
        let is_inside = offset.checked_add(bytes as u64).is_some_and(|end| end <= entry.opened.bytes);
        match entry.right(READ) {
            OK if !is_inside => return OUT_OF_RANGE,
            OK => {}
            status => return status,
        }
        if let Some(memory) = entry.here(false) {
            // SAFETY: our contract; the range was checked.
            unsafe { memory.opened().load(offset as usize, into.cast(), bytes) };
            return entry.status();
        }
        for at in (0..bytes).step_by(DATA_BYTES_MAX) {
            let part = (bytes - at).min(DATA_BYTES_MAX);
            match entry.ask(Ask::Read(offset + at as u64, part as u64), &[]) {
                Ok((_, data)) if data.len() == part => {
                    // SAFETY: our contract; the part lies inside.
                    unsafe { data.as_ptr().copy_to_nonoverlapping(into.cast::<u8>().add(at), part) };
                }
                Ok(_) => return REFUSED,
                Err(status) => return status,
            }
        }
        OK
    };
    ended(end, find(handle).map_or_else(|status| status, read))
}

/// Changes an aligned number of 8 bytes atomically; what was there goes to `found`.
///
/// # Safety
/// `found` is valid for writing.
pub(crate) unsafe fn change(
    handle: &Handle,
    offset: u64,
    change: Change,
    found: *mut i64,
    end: End,
) -> c_int {
    let before = find(handle).and_then(|entry| {
        match entry.right(ATOMIC) {
            OK if offset.checked_add(8).is_none_or(|end| end > entry.opened.bytes) => {
                return Err(OUT_OF_RANGE);
            }
            OK => {}
            status => return Err(status),
        }
        let Some(memory) = entry.here(true) else {
            let ask = match change {
                Change::Add(value) => Ask::Add(offset, value as u64),
                Change::Swap(value) => Ask::Swap(offset, value as u64),
                Change::CompareSwap(expected, value) => {
                    Ask::CompareSwap(offset, expected as u64, value as u64)
                }
            };
            return entry.ask(ask, &[]).map(|(answer, _)| answer.value);
        };
        if entry.status() != OK {
            return Err(entry.status());
        }
        let word = memory.word(offset).ok_or(UNALIGNED)?;
        let before = change.apply(word);
        entry.say_changed();
        if entry.status() == OK { Ok(before) } else { Err(entry.status()) }
    });
    if let Ok(before) = before {
        // SAFETY: our contract.
        unsafe { found.write(before as i64) };
    }
    ended(end, before.err().unwrap_or(OK))
}

/// Sends a message.
///
/// # Safety
/// The message is valid for reading.
pub(crate) unsafe fn put(handle: &Handle, from: *const c_void, bytes: usize, end: End) -> c_int {
    let put = |entry: Arc<Entry>| {
        if bytes > DATA_BYTES_MAX {
            return OUT_OF_RANGE;
        }
        let data = match bytes {
            0 => &[],
            // SAFETY: our contract.
            _ => unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) },
        };
        entry.ask(Ask::Put, data).err().unwrap_or(OK)
    };
    ended(end, find(handle).map_or_else(|status| status, put))
}

/// Waits until the number at an offset compares with a value. The thread sleeps in the kernel; a region that
/// is closed, or whose owner ends, ends the wait.
pub fn wait(handle: &Handle, offset: u64, comparison: c_int, value: i64) -> c_int {
    let wait = |entry: Arc<Entry>| {
        let comparison = u32::try_from(comparison).unwrap_or(0);
        if holds(comparison, 0, 0).is_none() {
            return INVALID;
        }
        match entry.right(READ) {
            OK if offset.checked_add(8).is_none_or(|end| end > entry.opened.bytes) => return OUT_OF_RANGE,
            OK => {}
            status => return status,
        }
        if let Some(memory) = entry.here(false) {
            let Some(word) = memory.word(offset) else { return UNALIGNED };
            if entry.status() == OK && holds(comparison, word.load(SeqCst) as i64, value) == Some(true) {
                return OK;
            }
        }
        match entry.ask_alone(Ask::Wait(offset, comparison, value), &[]) {
            Ok(_) => OK,
            // The server has no place for one more connection. A region that has ended says so here too.
            Err(GONE | MEMORY) if !matches!(entry.access, Access::Owner(_)) => {
                entry.look_for(offset, comparison, value)
            }
            Err(status) => status,
        }
    };
    find(handle).map_or_else(|status| status, wait)
}

/// The program has changed the memory by its own stores: clients that wait look again.
pub fn note_changed(handle: &Handle) -> c_int {
    find(handle).map_or_else(
        |status| status,
        |entry| match entry.access {
            // It has no memory here to change: whether it is still open the server says.
            Access::Far(_) => entry.ask(Ask::Open(entry.rights), &[]).err().unwrap_or(OK),
            _ => {
                entry.say_changed();
                entry.status()
            }
        },
    )
}
