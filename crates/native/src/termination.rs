//! Global termination (SCore-D): a message-driven program is notified that all its ranks wait and that
//! nothing can wake them any more.
//!
//! A rank gives a function. When the job has terminated a thread of the library runs it, once, on each rank
//! that has given one ([`tutti_shm::termination`]). What sleeps in this process looks again behind it, so the
//! function may store what its own threads wait for.
//!
//! ```text
//! on_termination: number n -> armed = n     thread: told = n -> function -> served = n -> bell
//! ```

use core::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tutti_runtime::{background, rank};
use tutti_shm::termination::Termination;

use crate::handler;
use crate::status::{MEMORY, NOT_RUNNING, OK};

/// Function that runs when the job has terminated, with what the program gave beside it.
pub type Function = unsafe extern "C" fn(*mut c_void);

/// Functions that were given, by number.
#[derive(Clone, Copy, Debug)]
struct Given {
    number: u32,
    function: Function,
    context: *mut c_void,
}

// SAFETY: function and context are the program's, which knows that the function runs in another thread.
unsafe impl Send for Given {}

#[derive(Debug)]
struct State {
    /// The last number that was used.
    number: u32,
    given: Option<Given>,
    has_thread: bool,
}

static STATE: Mutex<State> = Mutex::new(State { number: 0, given: None, has_thread: false });

/// The state; a poisoned lock is as good as any, since nothing panics inside.
fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the function that is to run once when the job has terminated, in place of the one before; none: no
/// function is to run.
///
/// # Safety
/// The function may be called by any thread until it has run or another call has taken its place.
pub unsafe fn on_termination(function: Option<Function>, context: *mut c_void) -> c_int {
    let Some(rank) = rank::enter() else { return NOT_RUNNING };
    let words = rank.termination();
    let mut state = state();
    let Some(function) = function else {
        words.arm(0);
        state.given = None;
        return OK;
    };
    if !state.has_thread {
        // The thread enters the library, as threads of the program do.
        rank::LOCK.need_while_held();
        if background::spawn("tutti-end", move || serve(words)).is_err() {
            return MEMORY;
        }
        words.note_thread();
        state.has_thread = true;
    }
    state.number = state.number.checked_add(1).unwrap_or(1);
    state.given = Some(Given { number: state.number, function, context });
    words.arm(state.number);
    OK
}

/// Runs what was given whenever the starter says so, until the process ends. A process may leave its job and
/// come back.
fn serve(words: &Termination) -> ! {
    loop {
        let number = words.wait();
        let given = state().given.take_if(|given| given.number == number);
        if let Some(given) = given {
            // SAFETY: contract of `on_termination`.
            handler::run(|| unsafe { (given.function)(given.context) });
        }
        words.note_served(number);
        if let Some(rank) = rank::enter() {
            rank.wake_own();
        }
    }
}
