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

mod state;

use core::cell::Cell;
use core::ffi::{c_int, c_void};
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
use crate::flow::Lane;
use crate::function::{Descriptor, Function, Functions, Reply};
use crate::quick;
use crate::status::*;
use crate::wire::{MESSAGE_BYTES_MAX, Number};
use state::{Act, NO_REPLY, State};

pub use crate::wire::Sums;

/// Changes with the messages.
const VERSION: u64 = 2;
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
    let places = job.world().iter().enumerate().map(|(place, rank)| (*rank, place)).collect();
    Ok(State::new(me, &all, places, functions, owns_mpi))
}

/// Closes the queues. All ranks have met, and have nothing under way.
///
/// # Errors
/// [`BUSY`] while calls are open, a meeting is under way or a function runs.
pub fn quit() -> Result<(), c_int> {
    expect_main()?;
    let (queues, owns_mpi) = with(|state| {
        if !state.is_at_rest() {
            return Err(BUSY);
        }
        Ok((Lane::ALL.map(|lane| state.own_queue(lane)), state.owns_mpi()))
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
    with(|state| Ok(state.place()))
}

/// Calls that are open here, and bytes of those that wait for credit.
///
/// # Errors
/// As [`place`].
pub fn under_way() -> Result<(usize, usize), c_int> {
    with(|state| Ok(state.under_way()))
}

/// Starts a function at the rank at a place; never waits. Without an `answer` nobody is notified when it has
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
    with(|state| {
        let told = answer.map(|answer| answer.as_ptr().expose_provenance());
        let number = state.call(to, function, flags, arguments, result_bytes, told)?;
        if let (Some(answer), Some(number)) = (answer, number) {
            // SAFETY: our contract; who takes its end needs the state first.
            unsafe { (*answer.as_ptr()).number = number.packed().into() };
        }
        Ok(())
    })
}

/// From now on another place is notified of the answer, or nobody.
///
/// # Errors
/// [`INVALID`]: the call is not open.
///
/// # Safety
/// `answer` is valid; contract of [`send`] for the other one.
pub unsafe fn redirect(answer: NonNull<Answer>, to: Option<NonNull<Answer>>) -> Result<(), c_int> {
    // SAFETY: our contract.
    let number = unsafe { (*answer.as_ptr()).number };
    with(|state| {
        let address = to.map(|to| to.as_ptr().expose_provenance());
        state.redirect(Number::of(number as u32), address)?;
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
    with(|state| state.answer(reply, status, data))
}

/// Comes to a meeting of all ranks.
///
/// # Errors
/// [`BUSY`]: this rank is in one.
pub fn arrive() -> Result<(), c_int> {
    expect_main()?;
    with(State::arrive)
}

/// Calls that all had sent and ended when they came to the last meeting.
///
/// # Errors
/// [`PENDING`]: it is not over.
pub fn arrived() -> Result<Sums, c_int> {
    with(|state| state.arrived())
}

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
        Ok(state.own_queue(Lane::Ordinary))
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
                state.end_bursts();
                end();
            }
            Ok(has_posts)
        });
        // No state: nothing is posted.
        flushed.unwrap_or(false)
    }
}
