//! Multicast (SSS-CORE): the same bytes for many ranks, with one completion, over a tree of nodes.
//!
//! ```text
//! origin --WRITE (targets, bytes)--> a rank of each of a few nodes --stores--> its mates' memory
//!                                                                  --WRITE---> a rank of each of a few further nodes ...
//!        <--ANSWER (a failure)------                               <--ANSWER--
//! ```
//!
//! | record | content |
//! |---|---|
//! | WRITE | kind 1, zero 3, number 4, offset 8, runs 4, bytes 4; 56 bytes for each run: targets 4, zero 4, the handle of the first; the bytes |
//! | ANSWER | kind 1, zero 3, number 4, status 4, zero 4 |
//!
//! Who has nodes to reach hands them in at most [`FANOUT`] parts to a rank of the first node of each, which
//! does the same with the rest of its part. So what the origin sends and is answered does not grow with the
//! nodes, as long as the targets of a part fit a record: handles that differ in their rank alone are one run
//! ([`crate::targets`]).
//!
//! A record is applied to the targets of its node inside [`Client::record`], so it is done once, and is
//! answered when all that it was handed on to has been answered. The rank that takes it checks each target as
//! for an operation of a mate. What is longer than a record goes in several, so many of which are unanswered
//! at a time ([`UNANSWERED_MAX`]). The state is reached under the
//! process lock alone.

use core::ffi::{c_int, c_void};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::{HashMap, VecDeque};
use std::ptr::NonNull;
use std::rc::{Rc, Weak};
use std::sync::atomic::Ordering::*;

use tutti_rma::done::DoneAt;
use tutti_runtime::job::Job;
use tutti_runtime::rank::{self, Rank};
use tutti_runtime::router::{Client, Outbox, RouteId, Router, SendError, Taken};
use tutti_runtime::stamps::{self, Mark};
use tutti_runtime::wrong::{self, Wrong};
use tutti_runtime::{remote_memory, service_state};

use crate::completion::{Done, End, started};
use crate::handle::Handle;
use crate::mates;
use crate::status::*;
use crate::targets::{self, RUN_BYTES};

const KINDS: std::ops::Range<u8> = 0x40..0x42;
const WRITE: u8 = 0x40;
const ANSWER: u8 = 0x41;
const HEAD_BYTES: usize = 24;
const ANSWER_BYTES: usize = 16;
/// Parts into which nodes are divided.
const FANOUT: usize = 4;
/// Records of this rank's own operations that have not been answered, at most, before it sends another one:
/// ranks that hand them on keep no more of them.
const UNANSWERED_MAX: usize = 64;

/// Receiver of the end of an operation.
#[derive(Debug)]
enum Receiver {
    /// The memory of this process.
    Own(DoneAt),
    /// The rank whose record of this number it was.
    Sender(usize, u32),
}

/// One operation on many ranks, or the part of it that was handed to this one.
#[derive(Debug)]
struct Operation {
    /// Records that have not been answered; one more while they are being made.
    left: Cell<usize>,
    status: Cell<c_int>,
    receiver: Receiver,
    /// Fences that cover it.
    fences: RefCell<Vec<DoneAt>>,
}

impl Operation {
    fn note(&self, status: c_int) {
        if self.status.get() == OK {
            self.status.set(status);
        }
    }

    fn new(receiver: Receiver) -> Rc<Self> {
        Rc::new(Operation { left: Cell::new(1), status: Cell::new(OK), receiver, fences: RefCell::default() })
    }

    /// Ends a part of it. When that was the last: the answer for another rank, if there is one.
    #[must_use]
    fn end_part(&self) -> Option<(usize, u32, c_int)> {
        self.left.set(self.left.get() - 1);
        if self.left.get() > 0 {
            return None;
        }
        let status = self.status.get();
        self.fences.borrow().iter().for_each(|fence| fence.get().end());
        match &self.receiver {
            Receiver::Sender(to, id) => return Some((*to, *id, status)),
            Receiver::Own(done) => {
                let done = done.get();
                if status != OK {
                    let _ = done.status.compare_exchange(0, status, AcqRel, Relaxed);
                }
                done.end();
            }
        }
        None
    }
}

/// A record that has not been answered.
#[derive(Debug)]
struct Pending {
    to: usize,
    operation: Rc<Operation>,
}

/// A part of an operation that is to be handed on.
#[derive(Debug)]
struct Forward {
    targets: Vec<Handle>,
    offset: u64,
    data: Rc<[u8]>,
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
    forwards: VecDeque<Forward>,
    /// Operations of this rank; those that have ended are forgotten now and then.
    own: Vec<Weak<Operation>>,
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
pub(crate) fn register(rank: &Rank) {
    let Some(router) = rank.router.clone() else { return };
    // SAFETY: the lock is ours.
    let state = unsafe { &mut *STATE.0.get() };
    if state.is_none() {
        let route = router.borrow_mut().register(KINDS, Some(lend));
        let job = rank.job.clone();
        *state = Some(State {
            job,
            router,
            route,
            last: 0,
            pending: HashMap::new(),
            answers: VecDeque::new(),
            forwards: VecDeque::new(),
            own: Vec::new(),
        });
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

/// A record as its receiver has read it.
struct Read<'a> {
    id: u32,
    offset: u64,
    targets: Vec<Handle>,
    data: &'a [u8],
}

impl<'a> Read<'a> {
    /// None: it is none that we would send.
    fn of(record: &'a [u8], job: &Job) -> Option<Read<'a>> {
        let id = u32::from_ne_bytes(number(record, 4)?);
        let offset = u64::from_ne_bytes(number(record, 8)?);
        let runs = u32::from_ne_bytes(number(record, 16)?) as usize;
        let bytes = u32::from_ne_bytes(number(record, 20)?) as usize;
        let behind = runs.checked_mul(RUN_BYTES)?.checked_add(HEAD_BYTES)?;
        let data = record.get(behind..).filter(|data| data.len() == bytes)?;
        let targets = targets::decode(&record[HEAD_BYTES..behind], job.id(), job.ranks())?;
        Some(Read { id, offset, targets, data })
    }
}

impl State {
    /// Applies a record to the targets of this node, and hands the rest on.
    fn apply(&mut self, from: usize, record: Read<'_>) {
        let Read { id, offset, targets, data } = record;
        let operation = Operation::new(Receiver::Sender(from, id));
        let (here, rest) = targets.into_iter().partition::<Vec<Handle>, _>(|target| self.is_here(target));
        for target in here {
            // SAFETY: a slice.
            operation.note(unsafe { mates::write(&self.job, &target, offset, data.as_ptr(), data.len()) });
        }
        if !rest.is_empty() {
            let data: Rc<[u8]> = data.into();
            for targets in self.parts(rest) {
                operation.left.set(operation.left.get() + 1);
                let (data, operation) = (data.clone(), operation.clone());
                self.forwards.push_back(Forward { targets, offset, data, operation });
            }
        }
        self.end_part(&operation);
    }

    /// Records of operations of this rank that have not been answered.
    fn own_unanswered(&self) -> usize {
        let is_own = |pending: &&Pending| matches!(pending.operation.receiver, Receiver::Own(_));
        self.pending.values().filter(is_own).count()
    }

    fn is_here(&self, target: &Handle) -> bool {
        self.job.local_ranks().contains(target.rank as usize)
    }

    /// Targets of other nodes in parts, each for a rank of its first node.
    fn parts(&self, targets: Vec<Handle>) -> Vec<Vec<Handle>> {
        targets::parts(targets, FANOUT, |target| self.job.node_of(target.rank as usize))
    }

    fn end_part(&mut self, operation: &Operation) {
        self.answers.extend(operation.end_part());
    }

    fn end(&mut self, id: u32, status: c_int) {
        if let Some(pending) = self.pending.remove(&id) {
            pending.operation.note(status);
            self.end_part(&pending.operation);
        }
    }

    /// The rank to which a part was to go has left: a rank behind it takes its place. The operation lasts on
    /// for as many parts as are left of it.
    fn reroute(&mut self, forward: Forward) {
        let Forward { targets, offset, data, operation } = forward;
        let (lost, rest) =
            targets.split_at(targets.iter().take_while(|one| one.rank == targets[0].rank).count());
        debug_assert!(!lost.is_empty(), "a part has targets");
        operation.note(GONE);
        for targets in if rest.is_empty() { Vec::new() } else { self.parts(rest.to_vec()) } {
            operation.left.set(operation.left.get() + 1);
            let (data, operation) = (data.clone(), operation.clone());
            self.forwards.push_back(Forward { targets, offset, data, operation });
        }
        self.end_part(&operation);
    }
}

// SAFETY: it has no bulk messages.
unsafe impl Client for State {
    fn record(&mut self, from: usize, record: &[u8]) -> Taken {
        let begun_ns = stamps::begin();
        match (record[0], number(record, 4), number(record, 8)) {
            (WRITE, ..) => match Read::of(record, &self.job) {
                Some(record) => {
                    self.apply(from, record);
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
        if let Some(begun_ns) = begun_ns {
            stamps::note(Mark::Applied, begun_ns, record.len());
        }
        Taken::Yes
    }

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
        // One whose FIFO is full holds up no other.
        for _ in 0..self.forwards.len() {
            let Some(forward) = self.forwards.pop_front() else { break };
            let to = forward.targets[0].rank as usize;
            let id = self.last.wrapping_add(1);
            let mut head = head_of(forward.offset, &forward.targets, forward.data.len());
            head[4..8].copy_from_slice(&id.to_ne_bytes());
            match outbox.try_send(to, &head, &forward.data) {
                Ok(()) => {
                    note_handed(head.len() + forward.data.len());
                    self.last = id;
                    self.pending.insert(id, Pending { to, operation: forward.operation });
                }
                Err(SendError::Full) => self.forwards.push_back(forward),
                Err(_) => self.reroute(forward),
            }
        }
        outbox.note_owing(!self.answers.is_empty() || !self.forwards.is_empty());
    }
}

/// Head of a record, before its bytes; its number follows when it leaves.
fn head_of(offset: u64, targets: &[Handle], bytes: usize) -> Vec<u8> {
    let runs = targets::encode(targets);
    let mut head = vec![WRITE, 0, 0, 0, 0, 0, 0, 0];
    head.extend(offset.to_ne_bytes());
    head.extend(((runs.len() / RUN_BYTES) as u32).to_ne_bytes());
    head.extend((bytes as u32).to_ne_bytes());
    head.extend(runs);
    head
}

/// A record of so many bytes was handed to the network.
fn note_handed(bytes: usize) {
    if let Some(now_ns) = stamps::begin() {
        stamps::note(Mark::Handed, now_ns, bytes);
    }
}

/// Hands a record over; none: there is no room yet. False: its rank has left.
fn try_send(to: usize, head: &mut [u8], data: &[u8], operation: &Rc<Operation>) -> Option<bool> {
    // SAFETY: the callers hold the process lock.
    let Some(state) = (unsafe { state() }) else { return Some(false) };
    let id = state.last.wrapping_add(1);
    head[4..8].copy_from_slice(&id.to_ne_bytes());
    let sent = state.router.borrow_mut().outbox(state.route).try_send(to, head, data);
    match sent {
        Ok(()) => {
            note_handed(head.len() + data.len());
            state.last = id;
            operation.left.set(operation.left.get() + 1);
            state.pending.insert(id, Pending { to, operation: operation.clone() });
        }
        Err(SendError::Full) => return None,
        Err(_) => return Some(false),
    }
    Some(true)
}

/// Whether so many records are unanswered that another one waits.
fn is_full() -> bool {
    // SAFETY: the callers hold the process lock.
    unsafe { state() }.is_some_and(|state| state.own_unanswered() >= UNANSWERED_MAX)
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
    let Some(mut rank) = rank::enter() else { return end.with(NOT_RUNNING) };
    let own = Done::default();
    let done = match end {
        End::Posted => return INVALID,
        End::Noted(done) => done,
        // SAFETY: this call waits for the end.
        End::Wait => unsafe { DoneAt::new(NonNull::from(&own)) },
    };
    let operation = Operation::new(Receiver::Own(done));
    let job = rank.job.clone();
    let mut rest = Vec::new();
    for handle in handles {
        operation.note(if !handle.is_right(&job) {
            NO_REGION_STATUS
        } else if job.local_ranks().contains(handle.rank as usize) {
            // SAFETY: our contract.
            unsafe { mates::write(&job, handle, offset, from.cast(), bytes) }
        } else if !handle.has((offset, bytes)) {
            OUT_OF_RANGE
        } else {
            rest.push(*handle);
            OK
        });
    }
    let router = if rest.is_empty() { None } else { rank.router.clone() };
    if let Some(router) = router {
        register(&rank);
        // Waits below look at it too.
        let _ = rank.remote_memory();
        let record_bytes_max = router.borrow().record_bytes_max();
        let data: &[u8] = match bytes {
            0 => &[],
            // SAFETY: our contract.
            _ => unsafe { std::slice::from_raw_parts(from.cast(), bytes) },
        };
        let node = |handle: &Handle| job.node_of(handle.rank as usize);
        let mut parts: VecDeque<Vec<Handle>> = targets::parts(rest, FANOUT, node).into();
        while let Some(targets) = parts.pop_front() {
            let to = targets[0].rank as usize;
            let piece_bytes = record_bytes_max - HEAD_BYTES - targets::encode(&targets).len();
            let mut skip = 0;
            loop {
                if is_full() {
                    transmit();
                    remote_memory::wait(&mut rank, |_| !is_full());
                }
                let piece = &data[skip..bytes.min(skip + piece_bytes)];
                let mut head = head_of(offset + skip as u64, &targets, piece.len());
                let mut sent = try_send(to, &mut head, piece, &operation);
                if sent.is_none() {
                    transmit();
                    remote_memory::wait(&mut rank, |_| {
                        sent = try_send(to, &mut head, piece, &operation);
                        sent.is_some()
                    });
                }
                if sent == Some(false) {
                    operation.note(GONE);
                    // The others of this part are reached by another one of them, from the first byte on.
                    let rest: Vec<Handle> =
                        targets.iter().copied().filter(|target| target.rank as usize != to).collect();
                    parts.extend(targets::parts(rest, FANOUT, node));
                    break;
                }
                started().note(to);
                skip += piece.len();
                if skip >= bytes {
                    break;
                }
            }
        }
        transmit();
        // SAFETY: the lock is ours.
        if let Some(state) = unsafe { state() } {
            state.own.retain(|own| own.upgrade().is_some_and(|own| own.left.get() > 0));
            state.own.push(Rc::downgrade(&operation));
        }
    }
    let unsent = operation.end_part();
    debug_assert!(unsent.is_none(), "an operation of this rank ends in this process");
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

/// Has a fence cover the operations of this rank that have not ended: how many they are.
///
/// # Safety
/// The caller holds the process lock, and the fence stays where it is until all have ended.
pub(crate) unsafe fn cover(fence: DoneAt) -> i32 {
    // SAFETY: our contract.
    let Some(state) = (unsafe { state() }) else { return 0 };
    let open = state.own.iter().filter_map(Weak::upgrade).filter(|own| own.left.get() > 0);
    open.map(|own| own.fences.borrow_mut().push(fence)).count() as i32
}
