//! Process among those that invoke each other's functions: what the calls of `tutti_call.h` do.
//!
//! ```text
//! init       MPI if nobody has started it; both queues; everybody's queues
//! send       with credit into the target's queue, else behind what waits for credit here
//! progress   takes messages: runs functions, tells whoever waits for answers, returns credit
//! arrive     a meeting of all ranks, which is over when progress has seen it
//! quit       the queues close; MPI, if it was started here
//! ```
//!
//! | thread | runs |
//! |---|---|
//! | main: the one that has called `init` | ordinary functions, in `progress`; it makes all calls |
//! | that of the quick queue ([`crate::quick`]) | quick functions, one at a time, which send and answer |
//! | any other | nothing: [`NO_THREAD`] |
//!
//! The state is not locked while a function of the program runs, nor while main waits for a message.

#![allow(unsafe_code)]

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tutti_mpi::abi::*;
use tutti_mpi::{above, api};
use tutti_native::handle::Handle;
use tutti_native::region::Taker;
use tutti_native::{operation, region};
use tutti_runtime::rank;
use tutti_shm::queue::Queue;

use crate::failure::fail;
use crate::flow::{Lane, credit_lines};
use crate::function::{Descriptor, Function, Functions, Name, Reply};
use crate::meeting::{self, Meeting};
use crate::open::{OpenCall, OpenCalls};
use crate::outbox::{Leaving, Outbox};
use crate::pack::{Added, PACKED_BYTES_MAX, Pack, Packs};
use crate::parts::{LONG_BYTES_MAX, Parts};
use crate::quick;
use crate::status::*;
use crate::wire::*;

pub use crate::wire::Sums;

/// Changes with the messages.
const VERSION: u64 = 2;
/// Bytes of calls that wait for credit.
const BACKLOG_BYTES_MAX: usize = 64 << 20;
/// Messages that one call of [`progress`] takes at most.
const MESSAGES_MAX: usize = 256;

/// Flag: the function is quick. It runs in a thread of the library, also while its rank computes.
pub const QUICK: c_int = 1;
/// Flag: the function may leave with others in one message; no caller waits for it.
pub const PACKED: c_int = 2;
/// Flag: the result may be longer than its room in one message.
pub const LONG: c_int = 4;

/// Way in which [`progress`] looks for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Messages that have come; packed posts stay.
    Keep,
    /// Messages that have come; packed posts leave.
    Look,
    /// The same, and the first message where none has come.
    Wait,
}

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
    /// By lane.
    queues: [Handle; 2],
}

#[derive(Debug)]
struct State {
    me: usize,
    outbox: Outbox,
    packs: Packs,
    /// Places by rank of the job.
    places: HashMap<u32, usize>,
    open: OpenCalls,
    parts: Parts,
    functions: Functions,
    meeting: Meeting,
    sums: Sums,
    owns_mpi: bool,
}

/// Part of a thread in the invocations of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Any other thread.
    Other,
    /// Thread that has called [`init`].
    Main,
    /// Same thread, inside a function or in word of an answer.
    Inside,
    /// Thread of the quick queue.
    Quick,
}

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::Other) };
}
static STATE: Mutex<Option<State>> = Mutex::new(None);
static IS_STARTED: AtomicBool = AtomicBool::new(false);

/// A poisoned lock is as good as any: nothing panics inside.
fn lock() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Works on the state, in a thread that may.
fn with<T>(action: impl FnOnce(&mut State) -> Result<T, c_int>) -> Result<T, c_int> {
    if ROLE.get() == Role::Other {
        return Err(if IS_STARTED.load(Relaxed) { NO_THREAD } else { NOT_RUNNING });
    }
    lock().as_mut().map_or(Err(NOT_RUNNING), action)
}

/// Whether this thread is in a function, which may not do what main may.
fn expect_main() -> Result<(), c_int> {
    match ROLE.get() {
        Role::Inside | Role::Quick => Err(BUSY),
        Role::Main | Role::Other => Ok(()),
    }
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
    // The thread of the quick queue finds the state when it has a call.
    let mut state = lock();
    match start(functions) {
        Ok(started) => {
            *state = Some(started);
            ROLE.set(Role::Main);
            Ok(())
        }
        Err((status, queues)) => {
            drop(state);
            for queue in &queues {
                region::close(queue);
            }
            IS_STARTED.store(false, Relaxed);
            Err(status)
        }
    }
}

/// Both queues of this rank, by lane.
fn open_queues(ranks: usize) -> Result<[Handle; 2], (c_int, Vec<Handle>)> {
    let bytes = |lane: Lane| Queue::message_bytes_of(lane.lines_per_peer(ranks) * ranks as u64);
    let ordinary =
        region::open_queue(bytes(Lane::Ordinary), Taker::Calls).map_err(|status| (status, Vec::new()))?;
    match quick::open(bytes(Lane::Quick), QuickWork) {
        Ok(quick) => Ok([ordinary, quick]),
        Err(status) => Err((status, vec![ordinary])),
    }
}

/// The state; or why there is none, and the queues that are to be closed.
fn start(functions: Functions) -> Result<State, (c_int, Vec<Handle>)> {
    let owns_mpi = above::start(MPI_THREAD_SINGLE).ok_or((NOT_RUNNING, Vec::new()))?;
    let job = rank::enter().map(|rank| rank.job.clone()).ok_or((NOT_RUNNING, Vec::new()))?;
    let (me, ranks) = (job.world_place(), job.world().len());
    let queues = open_queues(ranks);
    // All exchange their cards, so that nobody waits for a rank that has none.
    let version = if queues.is_ok() { VERSION } else { 0 };
    let card = Card { version, queues: *queues.as_ref().unwrap_or(&[Handle::default(); 2]) };
    // SAFETY: a card has numbers alone; all ranks start together.
    let cards = unsafe { above::exchange(&card, MPI_COMM_WORLD) };
    let queues = queues?;
    if let Some(other) = cards.iter().position(|card| card.version != VERSION) {
        if cards[other].version == 0 {
            return Err((MEMORY, queues.into()));
        }
        let found = cards[other].version;
        fail(format_args!("rank {other} invokes functions by version {found}, rank {me} by {VERSION}"));
    }
    let all: Vec<_> = cards.iter().map(|card| card.queues).collect();
    // A message by a small credit is short, so that several are under way.
    let pack_bytes = if credit_lines(ranks) < 128 { MESSAGE_BYTES_MAX / 2 } else { MESSAGE_BYTES_MAX };
    Ok(State {
        me,
        outbox: Outbox::new(me, &all),
        packs: Packs::new(ranks, pack_bytes),
        places: job.world().iter().enumerate().map(|(place, rank)| (*rank, place)).collect(),
        open: OpenCalls::default(),
        parts: Parts::default(),
        functions,
        meeting: Meeting::new(me, ranks),
        sums: Sums::default(),
        owns_mpi,
    })
}

/// Closes the queues. All ranks have met, and have nothing under way.
///
/// # Errors
/// [`BUSY`] while calls are open, a meeting is under way or a function runs.
pub fn quit() -> Result<(), c_int> {
    expect_main()?;
    let (queues, owns_mpi) = with(|state| {
        let is_at_rest = state.open.len() == 0 && state.outbox.is_empty() && !state.packs.has_bursts();
        if !is_at_rest || state.meeting.is_under_way() {
            return Err(BUSY);
        }
        Ok((Lane::ALL.map(|lane| state.outbox.own_queue(lane)), state.owns_mpi))
    })?;
    *lock() = None;
    ROLE.set(Role::Other);
    IS_STARTED.store(false, Relaxed);
    for queue in &queues {
        region::close(queue);
    }
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
    with(|state| Ok((state.me, state.outbox.ranks())))
}

/// Calls that are open here, and bytes of those that wait for credit.
///
/// # Errors
/// As [`place`].
pub fn under_way() -> Result<(usize, usize), c_int> {
    with(|state| Ok((state.open.len(), state.outbox.backlog_bytes())))
}

/// Starts a function at the rank at a place; never waits. Without an `answer` nobody is told when it has
/// ended. `flags` is a sum of [`QUICK`], [`PACKED`] and [`LONG`].
///
/// # Errors
/// [`NO_RANK`], [`TOO_LONG`], [`NO_FUNCTION`]; [`BUSY`] when too much waits or is open; [`GONE`];
/// [`INVALID`]: flags that do not go together.
///
/// # Safety
/// The answer stays where it is until it has been told, or [`redirect`] has named another.
pub unsafe fn send(
    to: c_int,
    function: *const Descriptor,
    flags: c_int,
    arguments: &[u8],
    result_bytes: usize,
    answer: Option<NonNull<Answer>>,
) -> Result<(), c_int> {
    let (is_quick, is_packed, is_long) = (flags & QUICK != 0, flags & PACKED != 0, flags & LONG != 0);
    let is_right = flags & !(QUICK | PACKED | LONG) == 0
        && !(is_quick && is_long)
        && !(is_packed && (is_quick || answer.is_some()));
    with(|state| {
        let to = usize::try_from(to).ok().filter(|to| *to < state.outbox.ranks()).ok_or(NO_RANK)?;
        if !is_right {
            return Err(INVALID);
        }
        let arguments_max = if is_quick { ARGUMENT_BYTES_MAX } else { LONG_BYTES_MAX };
        if arguments.len() > arguments_max || result_bytes > RESULT_BYTES_MAX {
            return Err(TOO_LONG);
        }
        let (name, signature) = state.functions.name(function).ok_or(NO_FUNCTION)?;
        if state.outbox.backlog_bytes() + CALL_BYTES + arguments.len() > BACKLOG_BYTES_MAX {
            return Err(BUSY);
        }
        if is_packed && arguments.len() <= PACKED_BYTES_MAX {
            match state.packs.add(to, name, signature, arguments) {
                Added::Alone => {}
                Added::Kept => {
                    state.sums.sent += 1;
                    quick::ask_flush(&state.outbox.own_queue(Lane::Quick));
                    return Ok(());
                }
                Added::Full(pack) => {
                    state.sums.sent += 1;
                    return state.send_pack(to, pack);
                }
            }
        }
        let lane = if is_quick { Lane::Quick } else { Lane::Ordinary };
        if let (Lane::Ordinary, Some(pack)) = (lane, state.packs.take(to)) {
            state.send_pack(to, pack)?;
        }
        let (mut reply, mut answer_lines) = (None, 0);
        if let Some(answer) = answer {
            let room = result_bytes.max(TEXT_BYTES);
            answer_lines = Queue::lines_of(ANSWER_BYTES + room);
            let told = Some(answer.as_ptr().expose_provenance());
            let number = state.open.insert(OpenCall { to, lane, answer_lines, answer: told }).ok_or(BUSY)?;
            // SAFETY: our contract.
            unsafe { (*answer.as_ptr()).number = u64::from(number.index) << 16 | u64::from(number.check) };
            reply = Some(Asked { number, room: room as u16, is_long });
        }
        state.sums.sent += 1;
        if let Err(status) = state.send_call(to, lane, arguments, answer_lines, |arguments| Message::Call {
            reply,
            name,
            signature,
            arguments,
        }) {
            state.sums.sent -= 1;
            if let Some(Asked { number, .. }) = reply {
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
            let to = usize::try_from(reply.to).ok().filter(|to| *to < state.outbox.ranks()).ok_or(INVALID)?;
            let direct = (reply.direct as usize).min(RESULT_BYTES_MAX);
            if data.len() > (reply.room as usize).clamp(direct, LONG_BYTES_MAX) {
                return Err(TOO_LONG);
            }
            let status = i8::try_from(status).map_err(|_| INVALID)?;
            let number = Number { index: (reply.number >> 16) as u16, check: reply.number as u16 };
            state.send_answer(to, number, status, data, direct)?;
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
    expect_main()?;
    with(|state| {
        state.flush(true);
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

/// Arguments or a result.
enum Data {
    /// The message from this byte on.
    Here(usize),
    /// Parts, put together.
    Whole(Vec<u8>),
}

impl Data {
    fn of<'a>(&'a self, message: &'a [u8]) -> &'a [u8] {
        match self {
            Data::Here(begin) => &message[*begin..],
            Data::Whole(data) => data,
        }
    }
}

/// Work left to do with a message outside of the state.
enum Act {
    Nothing,
    Run(Function, Reply, Data),
    /// Functions of a message, with the places of their arguments.
    RunAll(Vec<(Function, std::ops::Range<usize>)>),
    Tell(usize, c_int, Data),
}

/// Reply of a function that no caller waits for.
const NO_REPLY: Reply = Reply { to: -1, number: 0, room: 0, direct: 0 };

/// A message as it comes: arguments in it are aligned to 8 bytes.
#[repr(C, align(16))]
struct Buffer([u8; MESSAGE_BYTES_MAX]);

/// Runs a function of the program.
fn run(function: Function, arguments: &[u8], reply: Reply) {
    // SAFETY: the descriptor was checked; the program vouches for its function.
    unsafe { (function.run)(arguments.as_ptr().cast(), arguments.len(), reply) };
}

/// Does what is left to do with a message.
fn act(act: Act, message: &[u8]) {
    match act {
        Act::Nothing => {}
        Act::Run(function, reply, data) => run(function, data.of(message), reply),
        Act::RunAll(all) => {
            for (function, arguments) in all {
                run(function, &message[arguments], NO_REPLY);
            }
        }
        Act::Tell(address, status, data) => {
            let data = data.of(message);
            let answer = std::ptr::with_exposed_provenance_mut::<Answer>(address);
            // SAFETY: contract of `send`.
            unsafe {
                if let Some(ended) = (*answer).ended {
                    ended(answer, status, data.as_ptr().cast(), data.len());
                }
            }
        }
    }
}

/// Takes messages that have come, and runs what they ask for: how many there were.
///
/// # Errors
/// [`BUSY`]: inside a function that it runs.
pub fn progress(how: Progress) -> Result<usize, c_int> {
    expect_main()?;
    let queue = with(|state| {
        if how != Progress::Keep {
            state.flush(true);
        }
        Ok(state.outbox.own_queue(Lane::Ordinary))
    })?;
    let mut buffer = Buffer([0; MESSAGE_BYTES_MAX]);
    let buffer = &mut buffer.0;
    let mut count = 0;
    while count < MESSAGES_MAX {
        let is_awaited = how == Progress::Wait && count == 0;
        // SAFETY: the buffer has so many bytes.
        let taken = unsafe { operation::take(&queue, buffer.as_mut_ptr().cast(), buffer.len(), is_awaited) };
        let (bytes, from) = match taken {
            Ok(taken) => taken,
            Err((tutti_native::status::EMPTY, _)) => break,
            Err((status, _)) => return Err(status),
        };
        count += 1;
        let message = &buffer[..bytes];
        let todo = with(|state| state.handle(from, message))?;
        ROLE.set(Role::Inside);
        act(todo, message);
        ROLE.set(Role::Main);
    }
    if how != Progress::Keep && count > 0 {
        with(|state| {
            state.flush(true);
            Ok(())
        })?;
    }
    Ok(count)
}

/// Work of the thread that serves the quick queue.
struct QuickWork;

impl quick::Work for QuickWork {
    fn run(&mut self, from: u32, message: &[u8]) {
        ROLE.set(Role::Quick);
        let todo = with(|state| state.handle_quick(from, message));
        act(todo.unwrap_or(Act::Nothing), message);
    }

    fn flush(&mut self, end: impl FnOnce()) -> bool {
        ROLE.set(Role::Quick);
        let flushed = with(|state| {
            let has_posts = state.flush(false);
            if !has_posts {
                state.packs.end_bursts();
                end();
            }
            Ok(has_posts)
        });
        // No state: nothing is posted.
        flushed.unwrap_or(false)
    }
}

impl State {
    /// Sends a call whose message has these arguments, or their last part behind parts of its own.
    fn send_call<'a>(
        &mut self,
        to: usize,
        lane: Lane,
        arguments: &'a [u8],
        answer_lines: u64,
        message: impl FnOnce(&'a [u8]) -> Message<'a>,
    ) -> Result<(), c_int> {
        let (parts, last) = cut(arguments, ARGUMENT_BYTES_MAX);
        for data in parts {
            let part = Message::Part { of: PartOf::Call, data }.encode();
            self.outbox.send(to, lane, Leaving::call(part, 0))?;
        }
        self.outbox.send(to, lane, Leaving::call(message(last).encode(), answer_lines))
    }

    fn send_pack(&mut self, to: usize, pack: Pack) -> Result<(), c_int> {
        let sent = self.outbox.send(to, Lane::Ordinary, Leaving::call(pack.message, 0));
        if sent.is_err() {
            self.sums.sent -= pack.posts;
        }
        sent
    }

    /// Sends all packed posts; whether there were any. The next post to each rank leaves at once where
    /// their bursts end.
    fn flush(&mut self, ends_bursts: bool) -> bool {
        if !self.packs.has_bursts() {
            return false;
        }
        let all = self.packs.take_all();
        let has_posts = !all.is_empty();
        for (to, pack) in all {
            // A rank that has left the job is noticed by whoever sends to it next.
            let _ = self.send_pack(to, pack);
        }
        if ends_bursts {
            self.packs.end_bursts();
        }
        has_posts
    }

    fn send_answer(
        &mut self,
        to: usize,
        number: Number,
        status: i8,
        data: &[u8],
        direct: usize,
    ) -> Result<(), c_int> {
        let (parts, last) = cut(data, direct.max(1));
        let is_whole = parts.len() == 0;
        for data in parts {
            let part = Message::Part { of: PartOf::Answer(number), data }.encode();
            self.outbox.send(to, Lane::Ordinary, Leaving::call(part, 0))?;
        }
        let message = Message::Answer { number, status, returned: self.outbox.tell(to), data: last }.encode();
        if is_whole { self.outbox.put(to, &message) } else { self.outbox.send_answer(to, message) }
    }

    fn send_meeting(&mut self, send: Option<meeting::Send>) -> Result<(), c_int> {
        match send {
            None => Ok(()),
            Some(meeting::Send::Up(to, sums)) => self.outbox.put(to, &Message::Up(sums).encode()),
            Some(meeting::Send::Down(sums)) => {
                let message = Message::Down(sums).encode();
                self.meeting.children().try_for_each(|to| self.outbox.put(to, &message))
            }
        }
    }

    /// A message by credit was taken out of a queue.
    fn note_taken(&mut self, from: usize, lane: Lane, bytes: usize) -> Result<(), c_int> {
        match self.outbox.handle_call(from, lane, bytes) {
            Some(returned) => self.outbox.put(from, &Message::Credit { lane, returned }.encode()),
            None => Ok(()),
        }
    }

    /// Deals with a message; what is of no rank, or is none, is dropped.
    fn handle(&mut self, from: u32, bytes: &[u8]) -> Result<Act, c_int> {
        let Some(from) = self.places.get(&from).copied() else { return Ok(Act::Nothing) };
        match Message::decode(bytes) {
            None => {}
            Some(Message::Call { reply, name, signature, arguments }) => {
                self.note_taken(from, Lane::Ordinary, bytes.len())?;
                let whole = self.parts.end(from, PartOf::Call, arguments);
                let data = whole.map_or(Data::Here(CALL_BYTES), Data::Whole);
                return self.begin(from, reply, name, signature, data);
            }
            Some(Message::Posts(posts)) => {
                self.note_taken(from, Lane::Ordinary, bytes.len())?;
                let mut all = Vec::new();
                for post in posts {
                    let function = self.functions.find(post.name, post.signature);
                    let function = function.unwrap_or_else(|| self.fail_unknown(from));
                    all.push((function, post.arguments));
                }
                return Ok(Act::RunAll(all));
            }
            Some(Message::Part { of, data }) => {
                self.note_taken(from, Lane::Ordinary, bytes.len())?;
                let is_expected = match of {
                    PartOf::Call => true,
                    PartOf::Answer(number) => self.open.is_open(number, from),
                };
                if is_expected {
                    self.parts.add(from, of, data);
                }
            }
            Some(Message::Answer { number, status, returned, data }) => {
                self.outbox.handle_returned(from, Lane::Ordinary, returned);
                let Some(call) = self.open.take(number, from) else { return Ok(Act::Nothing) };
                self.outbox.handle_answer(from, call.lane, call.answer_lines);
                let whole = self.parts.end(from, PartOf::Answer(number), data);
                if let Some(address) = call.answer {
                    let data = whole.map_or(Data::Here(bytes.len() - data.len()), Data::Whole);
                    return Ok(Act::Tell(address, c_int::from(status), data));
                }
            }
            Some(Message::Credit { lane, returned }) => self.outbox.handle_returned(from, lane, returned),
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

    /// Deals with a message of the quick queue, where calls come and nothing else.
    fn handle_quick(&mut self, from: u32, bytes: &[u8]) -> Result<Act, c_int> {
        let Some(from) = self.places.get(&from).copied() else { return Ok(Act::Nothing) };
        let Some(Message::Call { reply, name, signature, .. }) = Message::decode(bytes) else {
            return Ok(Act::Nothing);
        };
        self.note_taken(from, Lane::Quick, bytes.len())?;
        self.begin(from, reply, name, signature, Data::Here(CALL_BYTES))
    }

    fn fail_unknown(&self, from: usize) -> ! {
        fail(format_args!(
            "rank {} has been sent a function by rank {from} that it does not have: they run different programs or libraries",
            self.me
        ));
    }

    /// A call has come: what runs, unless the function is not known here.
    fn begin(
        &mut self,
        from: usize,
        reply: Option<Asked>,
        name: Name,
        signature: u64,
        data: Data,
    ) -> Result<Act, c_int> {
        let Some(function) = self.functions.find(name, signature) else {
            let Some(Asked { number, room, .. }) = reply else { self.fail_unknown(from) };
            self.sums.ended += 1;
            self.send_answer(from, number, NO_FUNCTION as i8, &[], room.into())?;
            return Ok(Act::Nothing);
        };
        let reply = reply.map_or(NO_REPLY, |Asked { number, room, is_long }| Reply {
            to: from as i32,
            number: u32::from(number.index) << 16 | u32::from(number.check),
            room: if is_long { LONG_BYTES_MAX as u32 } else { room.into() },
            direct: room.into(),
        });
        Ok(Act::Run(function, reply, data))
    }
}

/// Pieces of so many bytes, and the rest, which is not longer.
fn cut(data: &[u8], bytes_max: usize) -> (std::slice::ChunksExact<'_, u8>, &[u8]) {
    let parts = data.len().saturating_sub(1) / bytes_max * bytes_max;
    let (parts, last) = data.split_at(parts);
    (parts.chunks_exact(bytes_max), last)
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn data_is_cut_into_pieces_and_a_rest_of_their_length_at_most() {
        for (length, parts, rest) in [(0, 0, 0), (1, 0, 1), (8, 0, 8), (9, 1, 1), (16, 1, 8), (17, 2, 1)] {
            let data: Vec<u8> = (0..length).collect();
            let (pieces, last) = cut(&data, 8);
            assert_eq!((pieces.len(), last.len()), (parts, rest), "{length}");
            let whole: Vec<u8> = pieces.flatten().chain(last).copied().collect();
            assert_eq!(whole, data);
        }
    }
}
