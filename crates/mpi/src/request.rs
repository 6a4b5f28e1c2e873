//! Requests: what a pending operation needs to be finished by whoever makes progress.

pub mod extra;
pub mod partition;
pub mod persistent;

use core::ffi::c_int;
use core::mem::offset_of;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use tutti_datatype::{Buffer, SignatureWord};

use crate::abi::*;
use crate::comm::group::Group;
use crate::handle::{Kind, NONE, Slab};
use crate::request::extra::Extra;

/// A message whose type signature is not that of the receive that took it.
#[derive(Clone, Copy, Debug)]
pub struct Suspect {
    /// Signature that the sender gives of its data.
    pub word: SignatureWord,
    /// Bytes of the message.
    pub bytes: usize,
}

/// A send that has been started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// Send that is finished already.
    Done,
    /// Request that finishes it.
    Pending(u32),
}

/// Meaning of a request handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// MPI_REQUEST_NULL.
    Null,
    /// A send that was finished when it started.
    FinishedSend,
    /// A persistent request that is not started.
    Inactive(u32),
    /// A request.
    Pending(u32),
}

impl Named {
    /// Whether nothing was started under it: what completes it yields the empty status.
    pub fn is_idle(self) -> bool {
        matches!(self, Named::Null | Named::Inactive(_))
    }
}

/// Handle of no request: the operation is finished and had nothing to tell.
pub const FINISHED_SEND: MPI_Request = MPI_Request((Kind::Request as usize) << 27 | 0xff_ffff);

/// A pending or finished operation.
///
/// In the order of its fields: what a small contiguous receive touches shares a cache line with its slot's
/// handle.
#[derive(Debug)]
#[repr(C)]
pub struct Request {
    /// Bytes received, sent or matched.
    pub bytes: usize,
    /// Of a receive its number in the order of posting; of a send its ticket in the backlog, then the number
    /// of its message.
    pub posted: u64,
    /// Matching: context of the communicator.
    pub context: u32,
    /// Matching: tag, or MPI_ANY_TAG; when a receive is done, the message's.
    pub tag: i32,
    /// Matching: world rank of the partner, or MPI_ANY_SOURCE; when a receive is done, the sender's.
    pub peer: i32,
    /// Next request of the same queue.
    pub next: u32,
    /// Error class of the outcome.
    pub error: c_int,
    /// Which operation.
    pub kind: RequestKind,
    /// Finished; the outcome stands here.
    pub done: bool,
    /// Action when it is done.
    pub when_done: WhenDone,
    /// A receive or send of contiguous data that owns nothing: no map, no group, nothing extra.
    pub is_plain: bool,
    /// Memory that the operation reads or writes.
    pub buffer: Buffer,
    /// Group that `peer` is a rank of, when it is not the world's.
    pub group: Option<Rc<Group>>,
    /// State that only some requests have.
    pub extra: Option<Box<Extra>>,
    /// Number under which the receive was advertised to its sender; 0 when it was not.
    pub rtr: u64,
    /// A receive whose sender receives much from us at the same time: one copy each beats two.
    pub mutual: bool,
    /// Whether it was cancelled.
    pub cancelled: bool,
}

/// Bytes of a cache line that a slot's handle and free list take.
const SLOT_HEAD_BYTES: usize = 8;
const _: () = assert!(SLOT_HEAD_BYTES + offset_of!(Request, buffer) + offset_of!(Buffer, map) == 64);

/// Which operation a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// A send.
    Send,
    /// A receive.
    Receive,
    /// Others stand behind it.
    Compound,
    /// The user finishes it.
    Generalized,
    /// A collective operation; its schedule does the work.
    Collective,
}

/// Action on a request that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WhenDone {
    /// Keeps its outcome for a call that completes it.
    Keep,
    /// The user has freed it: it goes.
    Free,
    /// A schedule waits for it, or a partitioned operation.
    Advance,
}

/// All requests of a process.
#[derive(Debug)]
pub struct Requests {
    slab: Slab<Request>,
    /// Requests that are done and for which a schedule waits, in the order in which they were done.
    awaited: VecDeque<u32>,
}

impl Default for Requests {
    fn default() -> Self {
        Requests { slab: Slab::new(Kind::Request), awaited: VecDeque::new() }
    }
}

impl Deref for Requests {
    type Target = Slab<Request>;

    #[inline(always)]
    fn deref(&self) -> &Slab<Request> {
        &self.slab
    }
}

impl DerefMut for Requests {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Slab<Request> {
        &mut self.slab
    }
}

impl Requests {
    /// Marks a request as done.
    #[inline(always)]
    pub fn finish(&mut self, index: u32) {
        let request = self.slab.get_mut(index);
        request.done = true;
        if request.when_done != WhenDone::Keep {
            self.follow_up(index);
        }
    }

    #[inline(never)]
    fn follow_up(&mut self, index: u32) {
        if self.slab.get(index).when_done == WhenDone::Free {
            self.slab.free(index);
        } else {
            self.awaited.push_back(index);
        }
    }

    /// A schedule waits for a request that is not done; [`Requests::take_awaited`] gives it when it is.
    pub fn advance_when_done(&mut self, index: u32) {
        self.slab.get_mut(index).when_done = WhenDone::Advance;
    }

    /// Whether a schedule can go on.
    #[inline(always)]
    pub fn has_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// The next request that is done and for which a schedule waits.
    pub fn take_awaited(&mut self) -> Option<u32> {
        self.awaited.pop_front()
    }
}

impl Request {
    /// A pending operation.
    #[inline]
    pub fn new(kind: RequestKind, buffer: Buffer, context: u32, peer: i32, tag: i32) -> Self {
        Request {
            bytes: 0,
            posted: 0,
            context,
            tag,
            peer,
            next: NONE,
            error: MPI_SUCCESS,
            kind,
            done: false,
            when_done: WhenDone::Keep,
            is_plain: false,
            buffer,
            group: None,
            extra: None,
            rtr: 0,
            mutual: false,
            cancelled: false,
        }
    }

    /// A pending receive of contiguous data from a world rank, on a communicator whose ranks are the world's.
    #[inline(always)]
    pub fn plain(at: *mut u8, bytes: usize, context: u32, from: usize, tag: i32) -> Self {
        let buffer = Buffer::contiguous(at, bytes);
        Request { is_plain: true, ..Request::new(RequestKind::Receive, buffer, context, from as i32, tag) }
    }

    /// Whether it is a plain receive that has no message yet, and goes when the program completes it.
    #[inline(always)]
    pub fn is_awaited(&self) -> bool {
        self.is_plain && !self.done && self.when_done == WhenDone::Keep
    }

    /// A receive that takes a message with this word about its data is suspect unless its type has such data.
    #[inline]
    pub fn suspect_unless_taken(&mut self, word: SignatureWord, bytes: usize) {
        if !self.buffer.takes(word, bytes) {
            self.extra = Some(Box::new(Extra::Suspect(Suspect { word, bytes })));
        }
    }

    /// The status that the user sees.
    #[inline(always)]
    pub fn outcome(&self) -> Outcome {
        match self.kind {
            RequestKind::Send => Outcome { error: self.error, cancelled: self.cancelled, ..Outcome::EMPTY },
            RequestKind::Compound | RequestKind::Generalized => {
                Outcome { error: self.error, ..Outcome::EMPTY }
            }
            RequestKind::Collective => Outcome { error: self.error, bytes: self.bytes, ..Outcome::EMPTY },
            RequestKind::Receive => Outcome {
                source: match &self.group {
                    Some(group) if self.peer >= 0 => {
                        group.rank_of(self.peer as u32).map_or(MPI_ANY_SOURCE, |r| r as c_int)
                    }
                    _ => self.peer,
                },
                tag: self.tag,
                error: self.error,
                bytes: self.bytes,
                cancelled: self.cancelled,
            },
        }
    }
}

/// Content of a status, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Rank of the sender in the communicator.
    pub source: c_int,
    /// Tag of the message.
    pub tag: c_int,
    /// Error class.
    pub error: c_int,
    /// Bytes received.
    pub bytes: usize,
    /// Whether the operation was cancelled.
    pub cancelled: bool,
}

impl Outcome {
    /// The empty status of the standard (3.7.3): of sends, null requests, inactive requests.
    pub const EMPTY: Outcome =
        Outcome { source: MPI_ANY_SOURCE, tag: MPI_ANY_TAG, error: MPI_SUCCESS, bytes: 0, cancelled: false };

    /// Outcome of a receive from MPI_PROC_NULL (3.10).
    pub const PROC_NULL: Outcome = Outcome { source: MPI_PROC_NULL, ..Outcome::EMPTY };

    /// Writes source, tag, length and cancellation to a status of the user, leaving MPI_ERROR alone.
    ///
    /// # Safety
    /// `status` is MPI_STATUS_IGNORE or valid for writing.
    #[inline(always)]
    pub unsafe fn write(&self, status: *mut MPI_Status) {
        if status.is_null() {
            return;
        }
        // SAFETY: not MPI_STATUS_IGNORE (null), so valid by our contract.
        let status = unsafe { &mut *status };
        status.MPI_SOURCE = self.source;
        status.MPI_TAG = self.tag;
        status.MPI_internal[0] = self.bytes as u32 as c_int;
        status.MPI_internal[1] = (self.bytes as u64 >> 32) as c_int;
        status.MPI_internal[2] = c_int::from(self.cancelled);
    }

    /// Writes the empty status, whose MPI_ERROR is MPI_SUCCESS (3.7.3): there was no request to tell of.
    ///
    /// # Safety
    /// `status` is MPI_STATUS_IGNORE or valid for writing.
    pub unsafe fn write_empty(status: *mut MPI_Status) {
        // SAFETY: as our contract says; null is MPI_STATUS_IGNORE.
        unsafe {
            Outcome::EMPTY.write(status);
            if !status.is_null() {
                (*status).MPI_ERROR = MPI_SUCCESS;
            }
        }
    }

    /// Reads a status of the user.
    pub fn read(status: &MPI_Status) -> Self {
        let (low, high) = (status.MPI_internal[0] as u32 as u64, status.MPI_internal[1] as u32 as u64);
        Outcome {
            source: status.MPI_SOURCE,
            tag: status.MPI_TAG,
            error: status.MPI_ERROR,
            bytes: (low | high << 32) as usize,
            cancelled: status.MPI_internal[2] != 0,
        }
    }
}

impl MPI_Status {
    /// Says whether the operation was cancelled.
    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.MPI_internal[2] = c_int::from(cancelled);
    }
}
