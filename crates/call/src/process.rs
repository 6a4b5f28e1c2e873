//! Process among those that invoke each other's functions: what the calls of `tutti_call.h` do.
//!
//! ```text
//! init       MPI if nobody has started it; the queue; everybody's queues
//! send       with credit into the target's queue, else behind what waits for credit here
//! progress   takes messages: runs functions, tells whoever waits for answers, returns credit
//! arrive     a meeting of all ranks, which is over when progress has seen it
//! quit       the queue closes; MPI, if it was started here
//! ```
//!
//! The state is the thread's that has called `init`. It is not borrowed while a function of the program runs,
//! nor during a wait.

#![allow(unsafe_code)]

use core::cell::RefCell;
use core::ffi::{c_int, c_void};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tutti_mpi::abi::*;
use tutti_mpi::api;
use tutti_mpi::end_job::{By, end_job};
use tutti_native::completion::End;
use tutti_native::handle::Handle;
use tutti_native::region::Taker;
use tutti_native::{operation, region};
use tutti_runtime::{log, rank};
use tutti_shm::queue::Queue;

use crate::flow::{Flow, lines_per_peer};
use crate::function::{Descriptor, Function, Functions, Name, Reply};
use crate::meeting::{self, Meeting};
use crate::open::{OpenCall, OpenCalls};
use crate::status::*;
use crate::wire::*;

pub use crate::wire::Sums;

/// Changes with the messages.
const VERSION: u64 = 1;
/// Bytes of calls that wait for credit.
const BACKLOG_BYTES_MAX: usize = 64 << 20;
/// Messages that one call of [`progress`] takes at most.
const MESSAGES_MAX: usize = 256;

/// End of a call as its caller hears it: `tutti_answer` of `tutti_call.h`.
#[derive(Debug)]
#[repr(C)]
pub struct Answer {
    /// Called once, in [`progress`]; it neither waits nor calls [`progress`].
    ended: Option<unsafe extern "C" fn(*mut Answer, c_int, *const c_void, usize)>,
    /// Which call it is of, while that is open.
    number: u64,
}

/// A rank as the others know it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Card {
    version: u64,
    queue: Handle,
}

/// A call that waits for credit.
#[derive(Debug)]
struct Waiting {
    message: Vec<u8>,
    answer_lines: u64,
}

#[derive(Debug)]
struct Peer {
    queue: Handle,
    flow: Flow,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct State {
    me: usize,
    peers: Vec<Peer>,
    /// Places by rank of the job.
    places: HashMap<u32, usize>,
    /// Peers with calls that wait for credit.
    backlogged: BTreeSet<usize>,
    backlog_bytes: usize,
    open: OpenCalls,
    functions: Functions,
    meeting: Meeting,
    sums: Sums,
    /// A function of the program runs, or is told of an answer.
    is_running: bool,
    owns_mpi: bool,
}

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}
static IS_STARTED: AtomicBool = AtomicBool::new(false);

fn with<T>(action: impl FnOnce(&mut State) -> Result<T, c_int>) -> Result<T, c_int> {
    STATE.with(|state| match state.try_borrow_mut() {
        Ok(mut state) => match state.as_mut() {
            Some(state) => action(state),
            None if IS_STARTED.load(Relaxed) => Err(NO_THREAD),
            None => Err(NOT_RUNNING),
        },
        Err(_) => Err(BUSY),
    })
}

/// Ends the job with one line.
pub fn fail(what: std::fmt::Arguments<'_>) -> ! {
    log::line(what);
    end_job(By::Error, 1)
}

/// Takes part in the invocations of all ranks that were started together; all of them call it. `probe` is a
/// descriptor of the program.
///
/// # Errors
/// [`NO_FUNCTION`] where descriptors lie in memory that can be written; [`BUSY`] if it has started already;
/// [`MEMORY`] if there is none for the queue.
pub fn init(probe: *const Descriptor) -> Result<(), c_int> {
    let mut functions = Functions::default();
    functions.name(probe).ok_or(NO_FUNCTION)?;
    if IS_STARTED.swap(true, Relaxed) {
        return Err(BUSY);
    }
    let started = start(functions);
    match started {
        Ok(state) => STATE.with(|place| *place.borrow_mut() = Some(state)),
        Err(status) => {
            IS_STARTED.store(false, Relaxed);
            return Err(status);
        }
    }
    Ok(())
}

fn start(functions: Functions) -> Result<State, c_int> {
    let owns_mpi = start_mpi()?;
    let job = rank::enter().map(|rank| rank.job.clone()).ok_or(NOT_RUNNING)?;
    let (me, ranks) = (job.world_place(), job.world().len());
    let lines = lines_per_peer(ranks) * ranks as u64;
    let queue = region::open_queue(Queue::message_bytes_of(lines), Taker::Calls);
    // All exchange their cards, so that nobody waits for a rank that has none.
    let card = Card { version: if queue.is_ok() { VERSION } else { 0 }, queue: queue.unwrap_or_default() };
    let cards = exchange(&card, ranks);
    if let Some(other) = cards.iter().position(|card| card.version != VERSION) {
        if let Ok(queue) = queue {
            region::close(&queue);
        }
        if cards[other].version == 0 {
            return Err(MEMORY);
        }
        let found = cards[other].version;
        fail(format_args!("rank {other} invokes functions by version {found}, rank {me} by {VERSION}"));
    }
    let peer = |card: &Card| Peer { queue: card.queue, flow: Flow::new(ranks), waiting: VecDeque::new() };
    Ok(State {
        me,
        peers: cards.iter().map(peer).collect(),
        places: job.world().iter().enumerate().map(|(place, rank)| (*rank, place)).collect(),
        backlogged: BTreeSet::new(),
        backlog_bytes: 0,
        open: OpenCalls::default(),
        functions,
        meeting: Meeting::new(me, ranks),
        sums: Sums::default(),
        is_running: false,
        owns_mpi,
    })
}

/// Starts MPI, unless the program has; whether it was here.
fn start_mpi() -> Result<bool, c_int> {
    let (mut initialized, mut finalized) = (0, 0);
    // SAFETY: the places are ours; those of the arguments may be null.
    unsafe {
        api::MPI_Initialized(&mut initialized);
        api::MPI_Finalized(&mut finalized);
        if finalized != 0 {
            return Err(NOT_RUNNING);
        }
        if initialized == 0 {
            api::MPI_Init(std::ptr::null_mut(), std::ptr::null_mut());
        }
    }
    Ok(initialized == 0)
}

/// Words of all ranks, in order.
fn exchange(own: &Card, ranks: usize) -> Vec<Card> {
    let mut cards = vec![*own; ranks];
    let bytes = size_of::<Card>() as c_int;
    // SAFETY: both places have so many bytes, of numbers alone.
    unsafe {
        api::MPI_Allgather(
            std::ptr::from_ref(own).cast(),
            bytes,
            MPI_BYTE,
            cards.as_mut_ptr().cast(),
            bytes,
            MPI_BYTE,
            MPI_COMM_WORLD,
        )
    };
    cards
}

/// Closes the queue. All ranks have met, and have nothing under way.
///
/// # Errors
/// [`BUSY`] while calls are open, a meeting is under way or a function runs.
pub fn quit() -> Result<(), c_int> {
    let (queue, owns_mpi) = with(|state| {
        let is_at_rest = state.open.len() == 0 && state.backlogged.is_empty();
        if !is_at_rest || state.is_running || state.meeting.is_under_way() {
            return Err(BUSY);
        }
        Ok((state.peers[state.me].queue, state.owns_mpi))
    })?;
    STATE.with(|state| *state.borrow_mut() = None);
    IS_STARTED.store(false, Relaxed);
    region::close(&queue);
    if owns_mpi {
        // SAFETY: all ranks end MPI, which we have started.
        unsafe { api::MPI_Finalize() };
    }
    Ok(())
}

/// Number of this rank among those that were started together, and how many they are.
///
/// # Errors
/// Before [`init`], after [`quit`], and in another thread.
pub fn place() -> Result<(usize, usize), c_int> {
    with(|state| Ok((state.me, state.peers.len())))
}

/// Calls that are open here, and bytes of those that wait for credit.
///
/// # Errors
/// As [`place`].
pub fn under_way() -> Result<(usize, usize), c_int> {
    with(|state| Ok((state.open.len(), state.backlog_bytes)))
}

/// Starts a function at the rank at a place; never waits. Without an `answer` nobody is told when it has
/// ended.
///
/// # Errors
/// [`NO_RANK`], [`TOO_LONG`], [`NO_FUNCTION`]; [`BUSY`] when too much waits or is open; [`GONE`].
///
/// # Safety
/// The answer stays where it is until it has been told, or [`redirect`] has named another.
pub unsafe fn send(
    to: c_int,
    function: *const Descriptor,
    arguments: &[u8],
    result_bytes: usize,
    answer: Option<NonNull<Answer>>,
) -> Result<(), c_int> {
    with(|state| {
        let to = usize::try_from(to).ok().filter(|to| *to < state.peers.len()).ok_or(NO_RANK)?;
        if arguments.len() > ARGUMENT_BYTES_MAX || result_bytes > RESULT_BYTES_MAX {
            return Err(TOO_LONG);
        }
        let (Name { module, offset }, signature) = state.functions.name(function).ok_or(NO_FUNCTION)?;
        if state.backlog_bytes + CALL_BYTES + arguments.len() > BACKLOG_BYTES_MAX {
            return Err(BUSY);
        }
        let (mut reply, mut answer_lines) = (None, 0);
        if let Some(answer) = answer {
            let room = result_bytes.max(TEXT_BYTES);
            answer_lines = Queue::lines_of(ANSWER_BYTES + room);
            let call = OpenCall { to, answer_lines, answer: Some(answer.as_ptr().expose_provenance()) };
            let number = state.open.insert(call).ok_or(BUSY)?;
            // SAFETY: our contract.
            unsafe { (*answer.as_ptr()).number = u64::from(number.index) << 16 | u64::from(number.check) };
            reply = Some((number, room as u16));
        }
        let message = Message::Call { reply, module, offset, signature, arguments };
        let waiting = Waiting { message: message.encode(), answer_lines };
        state.sums.sent += 1;
        if let Err(status) = state.send_or_keep(to, waiting) {
            state.sums.sent -= 1;
            if let Some((number, _)) = reply {
                state.open.take(number, to);
            }
            return Err(status);
        }
        Ok(())
    })
}

/// From now on another place is told of the answer, or nobody.
///
/// # Errors
/// [`INVALID`]: the call is not open.
///
/// # Safety
/// `answer` is valid; contract of [`send`] for the other one.
pub unsafe fn redirect(answer: NonNull<Answer>, to: Option<NonNull<Answer>>) -> Result<(), c_int> {
    // SAFETY: our contract.
    let number = unsafe { (*answer.as_ptr()).number };
    let named = Number { index: (number >> 16) as u16, check: number as u16 };
    with(|state| {
        let address = to.map(|to| to.as_ptr().expose_provenance());
        if !state.open.redirect(named, address) {
            return Err(INVALID);
        }
        if let Some(to) = to {
            // SAFETY: our contract.
            unsafe { (*to.as_ptr()).number = number };
        }
        Ok(())
    })
}

/// Answers a call, once: with data, or with a status that is not 0 and a text.
///
/// # Errors
/// [`TOO_LONG`]: the caller has less room; the call is still open. [`INVALID`]: nobody can have asked so.
pub fn answer(reply: Reply, status: c_int, data: &[u8]) -> Result<(), c_int> {
    with(|state| {
        if reply.to >= 0 {
            if data.len() > reply.room as usize || data.len() > RESULT_BYTES_MAX {
                return Err(TOO_LONG);
            }
            let status = i8::try_from(status).map_err(|_| INVALID)?;
            let number = Number { index: (reply.number >> 16) as u16, check: reply.number as u16 };
            state.send_answer(reply.to as usize, number, status, data)?;
        }
        state.sums.ended += 1;
        Ok(())
    })
}

/// Comes to a meeting of all ranks.
///
/// # Errors
/// [`BUSY`]: this rank is in one.
pub fn arrive() -> Result<(), c_int> {
    with(|state| {
        if state.meeting.is_under_way() {
            return Err(BUSY);
        }
        let send = state.meeting.arrive(state.sums);
        state.send_meeting(send)
    })
}

/// Calls that all had sent and ended when they came to the last meeting.
///
/// # Errors
/// [`PENDING`]: it is not over.
pub fn arrived() -> Result<Sums, c_int> {
    with(|state| if state.meeting.is_under_way() { Err(PENDING) } else { Ok(state.meeting.last()) })
}

/// Work left to do with a message outside of the state.
enum Act {
    Nothing,
    Run(Function, Reply, usize),
    Tell(usize, c_int, usize),
}

/// Takes messages that have come, and runs what they ask for: how many there were. With `is_awaited` it waits
/// until there is one.
///
/// # Errors
/// [`BUSY`]: inside a function that it runs.
pub fn progress(is_awaited: bool) -> Result<usize, c_int> {
    let queue = with(|state| {
        if state.is_running {
            return Err(BUSY);
        }
        Ok(state.peers[state.me].queue)
    })?;
    let mut buffer = [0_u8; MESSAGE_BYTES_MAX];
    let mut count = 0;
    while count < MESSAGES_MAX {
        let is_awaited = is_awaited && count == 0;
        // SAFETY: the buffer has so many bytes.
        let taken = unsafe { operation::take(&queue, buffer.as_mut_ptr().cast(), buffer.len(), is_awaited) };
        let (bytes, from) = match taken {
            Ok(taken) => taken,
            Err((tutti_native::status::EMPTY, _)) => break,
            Err((status, _)) => return Err(status),
        };
        count += 1;
        let act = with(|state| state.handle(from, &buffer[..bytes]))?;
        match act {
            Act::Nothing => continue,
            Act::Run(function, reply, begin) => {
                let arguments = &buffer[begin..bytes];
                // SAFETY: the descriptor was checked; the program vouches for its function.
                unsafe { (function.run)(arguments.as_ptr().cast(), arguments.len(), reply) };
            }
            Act::Tell(address, status, begin) => {
                let data = &buffer[begin..bytes];
                let answer = std::ptr::with_exposed_provenance_mut::<Answer>(address);
                // SAFETY: contract of `send`.
                unsafe {
                    if let Some(ended) = (*answer).ended {
                        ended(answer, status, data.as_ptr().cast(), data.len());
                    }
                }
            }
        }
        with(|state| {
            state.is_running = false;
            Ok(())
        })?;
    }
    Ok(count)
}

impl State {
    /// Puts a message into a queue where it has room by credit.
    fn put(&self, to: usize, message: &[u8]) -> Result<(), c_int> {
        // SAFETY: a slice.
        let status = unsafe {
            operation::put(&self.peers[to].queue, message.as_ptr().cast(), message.len(), End::Posted)
        };
        match status {
            OK => Ok(()),
            tutti_native::status::FULL => {
                fail(format_args!("a queue of rank {to} is full although there is credit: a bug of Tutti"))
            }
            _ => Err(GONE),
        }
    }

    fn send_or_keep(&mut self, to: usize, waiting: Waiting) -> Result<(), c_int> {
        let peer = &mut self.peers[to];
        let lines = Queue::lines_of(waiting.message.len());
        if peer.waiting.is_empty() && peer.flow.try_send(lines, waiting.answer_lines) {
            return self.put(to, &waiting.message);
        }
        self.backlog_bytes += waiting.message.len();
        peer.waiting.push_back(waiting);
        self.backlogged.insert(to);
        Ok(())
    }

    /// Sends what has waited for credit of this peer, as far as it goes.
    fn send_waiting(&mut self, to: usize) {
        if !self.backlogged.contains(&to) {
            return;
        }
        loop {
            let peer = &mut self.peers[to];
            let Some(first) = peer.waiting.front() else { break };
            if !peer.flow.try_send(Queue::lines_of(first.message.len()), first.answer_lines) {
                return;
            }
            let Some(first) = peer.waiting.pop_front() else { break };
            self.backlog_bytes -= first.message.len();
            // A rank that has left the job is noticed by whoever sends to it next.
            let _ = self.put(to, &first.message);
        }
        self.backlogged.remove(&to);
    }

    fn send_answer(&mut self, to: usize, number: Number, status: i8, data: &[u8]) -> Result<(), c_int> {
        let peer = self.peers.get_mut(to).ok_or(INVALID)?;
        let message = Message::Answer { number, status, returned: peer.flow.tell(), data };
        self.put(to, &message.encode())
    }

    fn send_meeting(&mut self, send: Option<meeting::Send>) -> Result<(), c_int> {
        match send {
            None => Ok(()),
            Some(meeting::Send::Up(to, sums)) => self.put(to, &Message::Up(sums).encode()),
            Some(meeting::Send::Down(sums)) => {
                let message = Message::Down(sums).encode();
                self.meeting.children().try_for_each(|to| self.put(to, &message))
            }
        }
    }

    /// Deals with a message; what is of no rank, or is none, is dropped.
    fn handle(&mut self, from: u32, bytes: &[u8]) -> Result<Act, c_int> {
        let Some(from) = self.places.get(&from).copied() else { return Ok(Act::Nothing) };
        match Message::decode(bytes) {
            None => {}
            Some(Message::Call { reply, module, offset, signature, .. }) => {
                let returned = self.peers[from].flow.handle_call(Queue::lines_of(bytes.len()));
                if let Some(returned) = returned {
                    self.put(from, &Message::Credit { returned }.encode())?;
                }
                return self.begin(from, reply, Name { module, offset }, signature);
            }
            Some(Message::Answer { number, status, returned, data }) => {
                self.peers[from].flow.handle_returned(returned);
                let call = self.open.take(number, from);
                if let Some(call) = &call {
                    self.peers[from].flow.handle_answer(call.answer_lines);
                }
                self.send_waiting(from);
                if let Some(address) = call.and_then(|call| call.answer) {
                    self.is_running = true;
                    return Ok(Act::Tell(address, c_int::from(status), bytes.len() - data.len()));
                }
            }
            Some(Message::Credit { returned }) => {
                self.peers[from].flow.handle_returned(returned);
                self.send_waiting(from);
            }
            Some(Message::Up(sums)) => {
                let send = self.meeting.handle_up(from, sums);
                self.send_meeting(send)?;
            }
            Some(Message::Down(sums)) => {
                let send = self.meeting.handle_down(from, sums);
                self.send_meeting(send)?;
            }
        }
        Ok(Act::Nothing)
    }

    /// A call has come: what runs, unless the function is not known here.
    fn begin(
        &mut self,
        from: usize,
        reply: Option<(Number, u16)>,
        name: Name,
        signature: u64,
    ) -> Result<Act, c_int> {
        let Some(function) = self.functions.find(name, signature) else {
            let Some((number, _)) = reply else {
                fail(format_args!(
                    "rank {} has been sent a function by rank {from} that it does not have: they run different programs or libraries",
                    self.me
                ));
            };
            self.sums.ended += 1;
            self.send_answer(from, number, NO_FUNCTION as i8, &[])?;
            return Ok(Act::Nothing);
        };
        self.is_running = true;
        let to = match reply {
            Some((number, room)) => Reply {
                to: from as i32,
                number: u32::from(number.index) << 16 | u32::from(number.check),
                room: room.into(),
                reserved: 0,
            },
            None => Reply { to: -1, number: 0, room: 0, reserved: 0 },
        };
        Ok(Act::Run(function, to, CALL_BYTES))
    }
}
