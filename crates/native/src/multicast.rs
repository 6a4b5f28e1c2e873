//! Multicast (SSS-CORE): the same bytes for many ranks, with one completion.
//!
//! ```text
//! origin --WRITE (targets, bytes)--> one rank of each node --stores--> its mates' memory
//!        <--ANSWER (first failure)--
//! ```
//!
//! | record | content |
//! |---|---|
//! | WRITE | kind 1, zero 3, number 4, offset 8, targets 4, bytes 4; 48 bytes for each target; the bytes |
//! | ANSWER | kind 1, zero 3, number 4, status 4, zero 4 |
//!
//! A record is applied to all its targets inside [`Client::record`], so it is done once. The rank that takes
//! it checks each target as for an operation of a mate. What is longer than a record goes in several.
//! The state is reached under the process lock alone.

use core::ffi::{c_int, c_void};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::Ordering::*;

use tutti_rma::done::DoneAt;
use tutti_runtime::job::Job;
use tutti_runtime::rank::{self, LockedRank};
use tutti_runtime::router::{Client, Outbox, RouteId, Router, SendError, Taken};
use tutti_runtime::wrong::{self, Wrong};
use tutti_runtime::{remote_memory, service_state};

use crate::completion::{Done, End, TOUCHED, note_once};
use crate::handle::{Handle, WORDS};
use crate::mates;
use crate::status::*;

const KINDS: std::ops::Range<u8> = 0x40..0x42;
const WRITE: u8 = 0x40;
const ANSWER: u8 = 0x41;
const HEAD_BYTES: usize = 24;
const ANSWER_BYTES: usize = 16;
const HANDLE_BYTES: usize = 8 * WORDS;
/// Targets of one record.
const TARGETS_MAX: usize = 32;

/// One operation on many ranks.
#[derive(Debug)]
struct Operation {
    /// Records that have not been answered; one more while they are being made.
    left: Cell<usize>,
    status: Cell<c_int>,
    done: DoneAt,
}

impl Operation {
    fn note(&self, status: c_int) {
        if self.status.get() == OK {
            self.status.set(status);
        }
    }

    fn end_part(&self) {
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            let (done, status) = (self.done.get(), self.status.get());
            if status != OK {
                let _ = done.status.compare_exchange(0, status, AcqRel, Relaxed);
            }
            done.end();
        }
    }
}

/// A record that has not been answered.
#[derive(Debug)]
struct Pending {
    to: usize,
    operation: Rc<Operation>,
}

#[derive(Debug)]
struct State {
    job: Job,
    router: Rc<RefCell<Router>>,
    route: RouteId,
    last: u32,
    pending: HashMap<u32, Pending>,
    /// For whom, number and status.
    answers: VecDeque<(usize, u32, c_int)>,
}

static STATE: StateCell = StateCell(UnsafeCell::new(None));

struct StateCell(UnsafeCell<Option<State>>);

// SAFETY: the content is reached only by who holds the process lock.
unsafe impl Sync for StateCell {}

/// Lends the state to whoever polls the network.
fn lend(use_client: &mut dyn FnMut(&mut dyn Client)) {
    // SAFETY: who polls holds the process lock, and the state is not borrowed meanwhile.
    let state = unsafe { (*STATE.0.get()).as_mut() };
    use_client(state.expect("what is registered has a state"));
}

/// From now on this rank takes such records. Nothing in a job that has one node.
pub(crate) fn register(rank: &mut LockedRank) {
    let Some(router) = rank.router.clone() else { return };
    // SAFETY: the lock is ours.
    let state = unsafe { &mut *STATE.0.get() };
    if state.is_none() {
        let route = router.borrow_mut().register(KINDS, Some(lend));
        let job = rank.job.clone();
        *state =
            Some(State { job, router, route, last: 0, pending: HashMap::new(), answers: VecDeque::new() });
    }
}

/// The state of a rank that has registered.
///
/// # Safety
/// The caller holds the process lock as long as it uses the value, and has no other one.
unsafe fn state<'a>() -> Option<&'a mut State> {
    // SAFETY: our contract.
    unsafe { (*STATE.0.get()).as_mut() }
}

fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> Option<[u8; BYTES]> {
    bytes.get(at..at + BYTES)?.try_into().ok()
}

impl State {
    /// Applies a record to its targets, which are ranks of this node; none: it is none that we would send.
    fn apply(&self, record: &[u8]) -> Option<(u32, c_int)> {
        let id = u32::from_ne_bytes(number(record, 4)?);
        let offset = u64::from_ne_bytes(number(record, 8)?);
        let targets = u32::from_ne_bytes(number(record, 16)?) as usize;
        let bytes = u32::from_ne_bytes(number(record, 20)?) as usize;
        let behind = targets.checked_mul(HANDLE_BYTES).filter(|_| targets <= TARGETS_MAX)? + HEAD_BYTES;
        let data = record.get(behind..).filter(|data| data.len() == bytes)?;
        let mut first = OK;
        for target in record[HEAD_BYTES..behind].chunks_exact(HANDLE_BYTES) {
            let mut words = [0; WORDS];
            for (word, part) in words.iter_mut().zip(target.chunks_exact(8)) {
                *word = u64::from_ne_bytes(number(part, 0)?);
            }
            let handle = Handle::from_words(words);
            let is_here = handle.is_right(&self.job) && self.job.local_ranks().contains(handle.rank as usize);
            // SAFETY: a slice.
            let write = || unsafe { mates::write(&self.job, &handle, offset, data.as_ptr(), data.len()) };
            let status = if is_here { write() } else { NO_REGION_STATUS };
            if first == OK {
                first = status;
            }
        }
        Some((id, first))
    }

    fn end(&mut self, id: u32, status: c_int) {
        if let Some(pending) = self.pending.remove(&id) {
            pending.operation.note(status);
            pending.operation.end_part();
        }
    }
}

// SAFETY: it has no bulk messages.
unsafe impl Client for State {
    fn record(&mut self, from: usize, record: &[u8]) -> Taken {
        match (record[0], number(record, 4), number(record, 8)) {
            (WRITE, ..) => match self.apply(record) {
                Some((id, status)) => {
                    self.answers.push_back((from, id, status));
                    service_state::note_applied();
                }
                None => wrong::count(from, Wrong::Form),
            },
            (_, Some(id), Some(status)) => {
                let id = u32::from_ne_bytes(id);
                // A rank answers what it was sent.
                match self.pending.get(&id).is_some_and(|pending| pending.to == from) {
                    true => self.end(id, c_int::from_ne_bytes(status)),
                    false => wrong::count(from, Wrong::Answer),
                }
            }
            _ => wrong::count(from, Wrong::Form),
        }
        Taken::Yes
    }

    fn fragment(&mut self, tag: u64, _offset: u64, _bytes: &[u8]) {
        panic!("a bulk message {tag:#x} of multicast, which has none");
    }

    fn place(&mut self, _tag: u64, _offset: u64, _bytes: usize) -> Option<NonNull<u8>> {
        None
    }

    fn read(&mut self, tag: u64, _offset: u64, _into: &mut [u8]) {
        panic!("a bulk message {tag:#x} of multicast, which has none");
    }

    fn slice(&self, _tag: u64, _offset: u64, _bytes: usize) -> Option<&[u8]> {
        None
    }

    fn bulk_sent(&mut self, _tag: u64) {}

    fn bulk_received(&mut self, _tag: u64) {}

    fn bulk_refused(&mut self, _to: usize, _tag: u64) {}

    fn peer_exited(&mut self, rank: usize) {
        let of_it = self.pending.iter().filter(|(_, pending)| pending.to == rank);
        let lost: Vec<u32> = of_it.map(|(&id, _)| id).collect();
        lost.into_iter().for_each(|id| self.end(id, GONE));
        self.answers.retain(|(to, ..)| *to != rank);
    }

    fn advance(&mut self, outbox: &mut Outbox<'_>) {
        while let Some(&(to, id, status)) = self.answers.front() {
            let mut record = [0; ANSWER_BYTES];
            record[0] = ANSWER;
            record[4..8].copy_from_slice(&id.to_ne_bytes());
            record[8..12].copy_from_slice(&status.to_ne_bytes());
            if outbox.try_send(to, &record, &[]) == Err(SendError::Full) {
                break;
            }
            self.answers.pop_front();
        }
        outbox.note_owing(!self.answers.is_empty());
    }
}

/// What a record says before its bytes; its number follows when it leaves.
fn head_of(offset: u64, targets: &[&Handle], bytes: usize) -> Vec<u8> {
    let mut head = vec![WRITE, 0, 0, 0, 0, 0, 0, 0];
    head.extend(offset.to_ne_bytes());
    head.extend((targets.len() as u32).to_ne_bytes());
    head.extend((bytes as u32).to_ne_bytes());
    head.extend(targets.iter().flat_map(|target| target.words()).flat_map(u64::to_ne_bytes));
    head
}

/// Hands a record over; false: there is no room yet.
fn try_send(to: usize, head: &mut [u8], data: &[u8], operation: &Rc<Operation>) -> bool {
    // SAFETY: the callers hold the process lock.
    let Some(state) = (unsafe { state() }) else { return true };
    let id = state.last.wrapping_add(1);
    head[4..8].copy_from_slice(&id.to_ne_bytes());
    let sent = state.router.borrow_mut().outbox(state.route).try_send(to, head, data);
    match sent {
        Ok(()) => {
            state.last = id;
            operation.left.set(operation.left.get() + 1);
            state.pending.insert(id, Pending { to, operation: operation.clone() });
        }
        Err(SendError::Full) => return false,
        Err(_) => operation.note(GONE),
    }
    true
}

fn transmit() {
    // SAFETY: the callers hold the process lock.
    if let Some(state) = unsafe { state() } {
        let (router, route) = (state.router.clone(), state.route);
        router.borrow_mut().transmit_as(route, state);
    }
}

/// Writes the same bytes at the same offset of many regions. The status is that of the first target that
/// refuses; the others have been written.
///
/// # Safety
/// `from` is valid for reading so many bytes.
pub unsafe fn write(handles: &[Handle], offset: u64, from: *const c_void, bytes: usize, end: End) -> c_int {
    let Some(mut rank) = rank::enter() else { return NOT_RUNNING };
    if !handles.iter().all(|handle| handle.is_right(&rank.job)) {
        return NO_REGION_STATUS;
    }
    let own = Done::default();
    let done = match end {
        End::Posted => return INVALID,
        End::Noted(done) => done,
        // SAFETY: this call waits for the end.
        End::Wait => unsafe { DoneAt::new(NonNull::from(&own)) },
    };
    let operation = Rc::new(Operation { left: Cell::new(1), status: Cell::new(OK), done });
    let mut nodes: BTreeMap<usize, Vec<&Handle>> = BTreeMap::new();
    let job = rank.job.clone();
    for handle in handles {
        if job.local_ranks().contains(handle.rank as usize) {
            // SAFETY: our contract.
            operation.note(unsafe { mates::write(&job, handle, offset, from.cast(), bytes) });
        } else {
            nodes.entry(job.node_of(handle.rank as usize)).or_default().push(handle);
        }
    }
    let router = if nodes.is_empty() { None } else { rank.router.clone() };
    if let Some(router) = router {
        register(&mut rank);
        // Waits below look at it too.
        let _ = rank.remote_memory();
        let record_bytes_max = router.borrow().record_bytes_max();
        let data: &[u8] = match bytes {
            0 => &[],
            // SAFETY: our contract.
            _ => unsafe { std::slice::from_raw_parts(from.cast(), bytes) },
        };
        for targets in nodes.values().flat_map(|targets| targets.chunks(TARGETS_MAX)) {
            let to = targets[0].rank as usize;
            note_once(&TOUCHED, to);
            let piece_bytes = record_bytes_max - HEAD_BYTES - targets.len() * HANDLE_BYTES;
            let mut skip = 0;
            loop {
                let piece = &data[skip..bytes.min(skip + piece_bytes)];
                let mut head = head_of(offset.wrapping_add(skip as u64), targets, piece.len());
                if !try_send(to, &mut head, piece, &operation) {
                    transmit();
                    remote_memory::wait(&mut rank, |_| try_send(to, &mut head, piece, &operation));
                }
                skip += piece.len();
                if skip >= bytes {
                    break;
                }
            }
        }
        transmit();
    }
    operation.end_part();
    match end {
        End::Wait => {
            if own.count.load(Acquire) == 0 {
                remote_memory::wait(&mut rank, |_| own.count.load(Acquire) != 0);
            }
            own.status.load(Acquire)
        }
        _ => OK,
    }
}
